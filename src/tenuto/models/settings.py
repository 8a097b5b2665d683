"""`model_settings` as a user gives them: what goes to the provider, and how patiently the loop asks for it.

Invariant: what is laid over something else wins key by key, headers and time limits too; None is "not given".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypedDict, cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.models.ports import ModelSettings, NamedTool, ToolChoice


class TimeoutDict(TypedDict, total=False):
    """Time limits in milliseconds; see `docs/models.md`.

    `total_ms` of the whole run; `step_ms` of one model call, its stream and its retries; `first_chunk_ms` until the
    first content of an answer.
    """

    total_ms: float
    step_ms: float
    first_chunk_ms: float


class Timeouts(Struct, frozen=True, kw_only=True):
    """Time limits in milliseconds; None = none.

    Attributes:
        total_ms: Of the whole run, in one process; it ends with an error.
        step_ms: Of one model call, its stream and its retries; the next model of a list is asked then.
        first_chunk_ms: Until the first content of the answer; begins anew with each retry.
    """

    total_ms: float | None = None
    step_ms: float | None = None
    first_chunk_ms: float | None = None


class CallSettings(Struct, frozen=True, kw_only=True):
    """The settings of a model call.

    Attributes:
        sent: What the provider is told.
        max_retries: How often a call that could not be opened is made again; None = not said.
    """

    sent: ModelSettings = ModelSettings()
    max_retries: int | None = None
    timeout: Timeouts = Timeouts()


_OURS = ("max_retries", "timeout")
SETTINGS = spellings((*ModelSettings.__struct_fields__, *_OURS))
"""Both spellings of the keys of `model_settings`."""

_TIMEOUTS = spellings(Timeouts.__struct_fields__)


def renamed_settings(given: object, name: str = "model_settings") -> dict[str, Any]:
    """The settings under their snake_case names.

    Raises:
        TypeError: An unknown key, or no mapping.
    """
    settings = renamed(mapping(given, name), SETTINGS, f"{name} key")
    if (timeout := settings.get("timeout")) is not None:
        settings["timeout"] = renamed(mapping(timeout, f"{name}['timeout']"), _TIMEOUTS, "timeout")
    return settings


def read_settings(given: Mapping[str, Any], name: str = "model_settings") -> CallSettings:
    """Check settings whose keys are ours.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A number out of range.
    """
    sent = {key: value for key, value in given.items() if key not in _OURS}
    if isinstance(stops := sent.get("stop_sequences"), str):
        sent["stop_sequences"] = (stops,)
    try:
        settings = msgspec.convert(sent, ModelSettings)
    except msgspec.ValidationError as error:
        message = f"{name}= does not fit: {error}."
        raise TypeError(message) from error
    timeout: Mapping[str, Any] = given.get("timeout") or {}
    limits = {key: check_limit(value, key) for key, value in timeout.items()}
    retries = check_retries(given.get("max_retries"))
    return CallSettings(sent=settings, max_retries=retries, timeout=Timeouts(**limits))


def read_tool_choice(given: object) -> ToolChoice:
    """Check a tool choice whose keys are ours.

    Raises:
        TypeError: It is none.
    """
    match given:
        case "auto" | "none" | "required":
            return cast("ToolChoice", given)
        case NamedTool():
            return given
        case {"type": "tool", "tool_name": str(name)}:
            return NamedTool(name)
        case _:
            message = (
                "tool_choice= takes 'auto', 'none', 'required' or {'type': 'tool', 'tool_name': name}, "
                f"not {given!r}."
            )
            raise TypeError(message)


def check_retries(given: object) -> int | None:
    """A number of retries, or None.

    Raises:
        TypeError: Not a whole number.
        ValueError: Below 0.
    """
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool):
        message = f"max_retries= takes a whole number, not {given!r}."
        raise TypeError(message)
    if given < 0:
        message = f"max_retries= must be at least 0, not {given}."
        raise ValueError(message)
    return given


def check_limit(given: object, name: str) -> float | None:
    """A time limit in milliseconds, or None.

    Raises:
        TypeError: Not a number.
        ValueError: Not positive, or not finite.
    """
    if given is None:
        return None
    if not isinstance(given, int | float) or isinstance(given, bool):
        message = f"timeout {name!r} takes a number of milliseconds, not {given!r}."
        raise TypeError(message)
    if not (math.isfinite(given) and given > 0):
        message = f"timeout {name!r} must be a positive number of milliseconds, not {given!r}."
        raise ValueError(message)
    return given


def laid_over(below: CallSettings, above: CallSettings) -> CallSettings:
    """`above` where it says something, else `below`."""
    if above == CallSettings():
        return below
    sent = _over(below.sent, above.sent)
    headers = with_headers(below.sent.headers, above.sent.headers)
    return CallSettings(
        sent=replace(sent, headers=headers or None),
        max_retries=below.max_retries if above.max_retries is None else above.max_retries,
        timeout=_over(below.timeout, above.timeout),
    )


def with_headers(*layers: Mapping[str, str] | None) -> dict[str, str]:
    """Headers under lower-case names; later ones win."""
    return {name.lower(): value for layer in layers if layer for name, value in layer.items()}


def _over(below: Any, above: Any) -> Any:
    return replace(below, **{name: value for name, value in asdict(above).items() if value is not None})
