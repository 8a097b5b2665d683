"""Reading the head of a GGUF file: enough to know its chat template before an engine is loaded.

Invariant: only the key-value section is read, never the tensors.

Source: the GGUF specification, version 2 and 3 (magic, version, two counts, then typed key-value pairs; little endian).
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct as Layout
from typing import BinaryIO

from tenuto.core.errors import ConfigurationError

_U32, _U64 = Layout("<I"), Layout("<Q")
_STRING, _ARRAY = 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_LONGEST = 1 << 24
"""Bytes of a text: a larger number is damage."""
_TEMPLATE = "tokenizer.chat_template"


def chat_template(path: Path) -> str | None:
    """The file's chat template, a Jinja text, or None when it has none.

    Raises:
        ConfigurationError: The file is not a readable GGUF file.
    """
    try:
        with path.open("rb") as file:
            return _search(file)
    except (OSError, EOFError, KeyError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path} is not a readable GGUF model file ({error}); local models are files in the GGUF format.",
            id="LOCAL_MODEL_INVALID",
            details={"path": str(path)},
        ) from error


def _search(file: BinaryIO) -> str | None:
    if file.read(4) != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    if (version := _number(file, _U32)) not in {2, 3}:
        raise ValueError(f"version {version}, known are 2 and 3")
    _number(file, _U64)  # how many tensors
    for _ in range(_number(file, _U64)):
        key, kind = _text(file), _number(file, _U32)
        if key == _TEMPLATE and kind == _STRING:
            return _text(file)
        _skip(file, kind)
    return None


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _read(file, _number(file, _U64))
    elif kind == _ARRAY:
        item, count = _number(file, _U32), _number(file, _U64)
        if item in _SIZES:
            file.seek(_SIZES[item] * count, 1)
        else:
            for _ in range(count):
                _skip(file, item)
    else:
        file.seek(_SIZES[kind], 1)


def _text(file: BinaryIO) -> str:
    return _read(file, _number(file, _U64)).decode("utf-8", "replace")


def _number(file: BinaryIO, layout: Layout) -> int:
    return layout.unpack(_read(file, layout.size))[0]


def _read(file: BinaryIO, count: int) -> bytes:
    if count > _LONGEST:
        raise ValueError(f"a text of {count} bytes")
    if len(data := file.read(count)) != count:
        raise EOFError("it ends in its head")
    return data
