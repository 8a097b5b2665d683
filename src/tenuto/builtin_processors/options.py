"""Checks what built-in processors are constructed with.

Invariant: a value that cannot work is refused where the processor is made, with the values that can.
"""

from __future__ import annotations

from typing import TypeVar, cast

from tenuto.core.errors import ConfigurationError

T = TypeVar("T")


def one_of(option: str, given: T, known: tuple[object, ...]) -> T:
    """The value of an option that is one of a few.

    Raises:
        ConfigurationError: It is none of them.
    """
    if given not in known:
        raise _invalid(f"{option}={given!r} is unknown. Give one of {', '.join(map(repr, known))}.")
    return given


def share(option: str, given: float) -> float:
    """A number from 0 to 1.

    Raises:
        ConfigurationError: It is none.
    """
    if not isinstance(cast("object", given), (int, float)) or not 0 <= given <= 1:
        raise _invalid(f"{option}={given!r} is no number from 0 to 1.")
    return given


def count(option: str, given: int, *, least: int = 0) -> int:
    """A whole number.

    Raises:
        ConfigurationError: It is none, or less than `least`.
    """
    if type(given) is not int or given < least:
        raise _invalid(f"{option}={given!r} is no whole number from {least} on.")
    return given


def _invalid(message: str) -> ConfigurationError:
    return ConfigurationError(message, id="PROCESSOR_OPTION_INVALID")
