"""Names, ids and arguments in a form that every provider accepts.

Invariant: pure functions; a valid value comes back unchanged, and two values that differ stay apart where they are ids.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, cast

from tenuto.messages.turns import CallPart

_BAD_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_ALNUM = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def tool_name(name: str, limit: int = 64) -> str:
    """A name of at most `limit` letters, digits, `_` and `-`; the model may have made one up."""
    return _BAD_NAME.sub("_", name)[:limit] or "unknown_tool"


def hashed(text: str, length: int) -> str:
    """`length` letters and digits that stand for `text`."""
    number = int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    letters: list[str] = []
    for _ in range(length):
        number, rest = divmod(number, len(_ALNUM))
        letters.append(_ALNUM[rest])
    return "".join(letters)


def arguments_of(part: CallPart) -> Mapping[str, Any]:
    """The arguments as an object, whatever the model wrote."""
    args: object = part.args
    if isinstance(args, Mapping):
        return cast("Mapping[str, Any]", args)
    if part.raw_args is not None:
        return {"invalid_arguments": part.raw_args}
    return {} if args is None else {"value": args}


def decoded_text(data: str) -> str:
    """The text that `data` is in base64, or `data` itself when it is none."""
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return data
