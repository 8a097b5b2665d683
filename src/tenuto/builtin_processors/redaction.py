"""What stands in the place of something that may not be shown.

Invariant: it does not hold what it stands for, and no rule of tenuto's finds anything in it by itself. The digits
that a mask leaves are digits: with more of them behind it they may be found as another number, and are covered too.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from typing import Literal, assert_never

from msgspec import Struct

Method = Literal["mask", "hash", "remove", "placeholder"]

_MASK = "********"
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


class Redaction(Struct, frozen=True):
    """How something is made unreadable.

    Attributes:
        method: `mask`: asterisks; `hash`: the same mark for the same value; `remove`: nothing; `placeholder`: its name.
        preserve_format: A mask keeps the punctuation, and of numbers the last digits.
        hash_key: Makes the mark of a value one that nobody can compute who does not have the key. Without it a value
            of which there are few (a phone number) can be found by trying.
    """

    method: Method = "mask"
    preserve_format: bool = True
    hash_key: bytes | None = None

    def of(self, name: str, text: str, *, kept: int = 0, label: str | None = None) -> str:
        """What stands for `text`, which is a `name`.

        Args:
            name: Of its kind.
            text: The value.
            kept: Letters and digits at its end that a mask may leave.
            label: The placeholder.
        """
        match self.method:
            case "mask":
                return _masked(text, kept) if self.preserve_format else _MASK
            case "hash":
                return f"[{name}#{self._digest(text)}]"
            case "remove":
                return ""
            case "placeholder":
                return label or f"[{name.upper().replace('-', '_')}]"
            case _:
                assert_never(self.method)

    def _digest(self, text: str) -> str:
        """16 letters, never a digit, so that it is not taken for a number."""
        raw = text.encode("utf-8", "surrogatepass")
        made = sha256(raw) if self.hash_key is None else hmac.new(self.hash_key, raw, sha256)
        return made.hexdigest()[:16].translate(_LETTERS)


def _masked(text: str, kept: int) -> str:
    """Asterisks for letters and digits, all but the last `kept`; of those at most half of all."""
    total = sum(char.isalnum() for char in text)
    left = total - min(kept, total // 2)
    shown: list[str] = []
    for char in text:
        if not char.isalnum():
            shown.append(char)
            continue
        shown.append("*" if left > 0 else char)
        left -= 1
    return "".join(shown)
