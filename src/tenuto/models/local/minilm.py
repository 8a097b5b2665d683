"""all-MiniLM-L6-v2, from its authors' files to one GGUF file that the engine of the local models reads.

Invariant: the same two input files make the same bytes on every machine, so what comes out is checked by its hash as
what goes in is. Nothing beyond the standard library is needed, and no code of the package they come in is run.

Source: the safetensors format (length, JSON header, tensors); the GGUF specification, version 3; the tensor names of
the architecture `bert` in llama.cpp.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

DIMENSIONS = 384
"""Numbers of a vector."""
_LAYERS = 6
_ALIGNMENT = 32
_PIECE = 1 << 16
"""Numbers turned into halves at a time."""
_F32, _F16 = 0, 1
_SPECIAL = frozenset({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"})
_SPACE = "\u2581"
"""How the engine marks the beginning of a word; BERT marks what is not one, by `##`."""

_EMBEDDINGS = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
_WHOLE = frozenset({"position_embd.weight", "token_types.weight"})
"""Matrices that the engine wants in single precision."""


class _Tensor(Struct, frozen=True):
    """One tensor: where it is in the source, and what it is called in the model file."""

    name: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def halves(self) -> bool:
        return len(self.shape) == 2 and self.name not in _WHOLE

    @property
    def size(self) -> int:
        return (self.end - self.begin) // (2 if self.halves else 1)


def write_minilm(weights: Path, vocabulary: Path, target: Path) -> None:
    """Write the GGUF file `target` from `model.safetensors` and `vocab.txt`: 46 MB, in about two seconds.

    Matrices are kept in half precision, which moves a cosine by less than 0.001.

    Raises:
        ValueError: `weights` is not the model that it should be.
    """
    with weights.open("rb") as source, target.open("wb") as out:
        tensors = _tensors(source)
        settings = [*_settings(_words(vocabulary))]
        out.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(settings)))
        out.write(b"".join(settings))
        out.write(b"".join(_infos(tensors)))
        for tensor in tensors:
            _align(out)
            _copy(tensor, source, out)
        _align(out)


def _tensors(source: BinaryIO) -> list[_Tensor]:
    """Where each tensor of the model is, in the order in which they are written."""
    length = int.from_bytes(source.read(8), "little")
    header: Mapping[str, Any] = msgspec.json.decode(source.read(length))
    found: list[_Tensor] = []
    for theirs, ours in _names():
        entry = header.get(theirs)
        if entry is None or entry["dtype"] != "F32":
            raise ValueError(f"{theirs} is not there in single precision")
        begin, end = entry["data_offsets"]
        found.append(_Tensor(ours, tuple(entry["shape"]), 8 + length + begin, 8 + length + end))
    return found


def _names() -> Iterator[tuple[str, str]]:
    yield from _EMBEDDINGS.items()
    for layer in range(_LAYERS):
        for theirs, ours in _LAYER.items():
            for kind in ("weight", "bias"):
                yield f"encoder.layer.{layer}.{theirs}.{kind}", f"blk.{layer}.{ours}.{kind}"


def _infos(tensors: Sequence[_Tensor]) -> Iterator[bytes]:
    offset = 0
    for tensor in tensors:
        sides = tensor.shape[::-1]  # the fastest one first
        kind = _F16 if tensor.halves else _F32
        yield _text(tensor.name) + struct.pack(f"<I{len(sides)}QIQ", len(sides), *sides, kind, offset)
        offset += -(-tensor.size // _ALIGNMENT) * _ALIGNMENT


def _copy(tensor: _Tensor, source: BinaryIO, out: BinaryIO) -> None:
    source.seek(tensor.begin)
    left = tensor.end - tensor.begin
    while left:
        data = source.read(min(left, _PIECE * 4))
        if not data:
            raise ValueError(f"it ends in {tensor.name}")
        left -= len(data)
        out.write(_halved(data) if tensor.halves else data)


def _halved(data: bytes) -> bytes:
    """Little-endian single precision as half precision, rounded to even."""
    numbers = array("f", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return struct.pack(f"<{len(numbers)}e", *numbers)


def _align(out: BinaryIO) -> None:
    out.write(bytes(-out.tell() % _ALIGNMENT))


def _settings(vocabulary: Sequence[str]) -> Iterator[bytes]:
    yield _word("general.architecture", "bert")
    yield _word("general.name", "all-MiniLM-L6-v2")
    yield _word("general.license", "apache-2.0")
    yield _count("general.file_type", 1)
    yield _count("bert.block_count", _LAYERS)
    yield _count("bert.context_length", 512)
    yield _count("bert.embedding_length", DIMENSIONS)
    yield _count("bert.feed_forward_length", 4 * DIMENSIONS)
    yield _count("bert.attention.head_count", 12)
    yield _key("bert.attention.layer_norm_epsilon", 6) + struct.pack("<f", 1e-12)
    yield _key("bert.attention.causal", 7) + bytes(1)
    yield _count("bert.pooling_type", 1)  # the mean
    yield _word("tokenizer.ggml.model", "bert")
    yield _word("tokenizer.ggml.pre", "jina-v2-en")
    yield (
        _key("tokenizer.ggml.tokens", 9)
        + struct.pack("<IQ", 8, len(vocabulary))
        + b"".join(_text(_token(each)) for each in vocabulary)
    )
    kinds = [3 if each in _SPECIAL else 1 for each in vocabulary]
    yield _key("tokenizer.ggml.token_type", 9) + struct.pack(f"<IQ{len(kinds)}i", 5, len(kinds), *kinds)
    yield _count("tokenizer.ggml.token_type_count", 2)
    for name, word in _MARKS:
        yield _count(f"tokenizer.ggml.{name}_token_id", vocabulary.index(word))


_MARKS = (
    ("bos", "[CLS]"),
    ("eos", "[SEP]"),
    ("unknown", "[UNK]"),
    ("seperator", "[SEP]"),  # spelt like this in the format
    ("padding", "[PAD]"),
    ("cls", "[CLS]"),
    ("mask", "[MASK]"),
)


def _words(vocabulary: Path) -> list[str]:
    """A line each, and only a line feed ends one: some words are other kinds of line break."""
    return vocabulary.read_bytes().decode().removesuffix("\n").split("\n")


def _token(word: str) -> str:
    if word.startswith("[") and word.endswith("]"):
        return word
    return word[2:] if word.startswith("##") else _SPACE + word


def _word(key: str, value: str) -> bytes:
    return _key(key, 8) + _text(value)


def _count(key: str, value: int) -> bytes:
    return _key(key, 4) + struct.pack("<I", value)


def _key(key: str, kind: int) -> bytes:
    return _text(key) + struct.pack("<I", kind)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data
