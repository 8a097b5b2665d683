"""What displays and transcripts show of a tool's payloads: policies, tools' own transforms, and what they are asked.

Invariant: fail closed. Where a target is named for a tool, what nobody gave a value for is hidden; the payloads
themselves, for tools, models and callers, are never changed.

Source: Mastra's tool payload transforms (names of targets, phases and keys).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, cast, get_args

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.core.foreign import contained
from tenuto.core.payloads import Json
from tenuto.tools.results import to_json

Target = Literal["display", "transcript"]
Phase = Literal["input-delta", "input-available", "output-available", "error", "approval", "suspend", "resume"]
TARGETS: tuple[Target, ...] = get_args(Target)

_log = logging.getLogger("tenuto")


class TransformContext(Struct, frozen=True, kw_only=True):
    """What a transform is asked about: the one payload that the phase is about, as JSON; the others are None."""

    target: Target
    phase: Phase
    tool_name: str
    tool_call_id: str
    input: Json = None
    input_text_delta: str | None = None
    output: Json = None
    error: Json = None
    suspend_payload: Json = None
    resume_data: Json = None
    provider_metadata: Mapping[str, Any] | None = None


Transform = Callable[[TransformContext], Any | Awaitable[Any]]
"""Returns what the target shows; None leaves it to the next one, and in the end hides it."""


class TransformPolicy(TypedDict, total=False):
    """`transform=` of an agent or a call, for all tools; without a function the tools' own transforms decide.

    Attributes:
        transform_tool_payload: Asked first.
        targets: `display` (every stream), `transcript` (messages as users see them), or both (default).
    """

    transform_tool_payload: Transform
    targets: Sequence[Target]


class PayloadTransforms(TypedDict, total=False):
    """Functions by what they are about; see `TransformContext`."""

    input: Transform
    input_delta: Transform
    output: Transform
    error: Transform
    approval: Transform
    suspend: Transform
    resume: Transform


class ToolTransform(TypedDict, total=False):
    """`transform=` of a tool, by target."""

    display: PayloadTransforms
    transcript: PayloadTransforms


class Policy(Struct, frozen=True):
    """A policy as it is asked."""

    function: Transform | None = None
    targets: tuple[Target, ...] = TARGETS


_PHASE_KEYS: Mapping[Phase, str] = {
    "input-delta": "input_delta",
    "input-available": "input",
    "output-available": "output",
    "error": "error",
    "approval": "approval",
    "suspend": "suspend",
    "resume": "resume",
}
_CAMEL = {"transformToolPayload": "transform_tool_payload", "inputDelta": "input_delta"}


def read_policy(given: object) -> Policy | None:
    """The policy `given`.

    Raises:
        TypeError: It is none.
    """
    if given is None:
        return None
    said = _read(given, "transform=", ("transform_tool_payload", "targets"))
    function, given_targets = said.get("transform_tool_payload"), said.get("targets", TARGETS)
    if function is not None and not callable(function):
        message = f"transform['transform_tool_payload'] takes a function, not {type(function).__name__}."
        raise TypeError(message)
    listed = isinstance(given_targets, (list, tuple))
    targets = cast("Sequence[Target]", given_targets) if listed else ()
    if not targets or any(each not in TARGETS for each in targets):
        message = f"transform['targets'] takes 'display', 'transcript' or both in a list, not {given_targets!r}."
        raise TypeError(message)
    return Policy(function, tuple(targets))


def over(call: Policy | None, agent: Policy | None) -> Policy | None:
    """The call's policy, else the agent's; one without a function has the agent's, for the targets of both."""
    if call is None or agent is None or call.function is not None:
        return call or agent
    return Policy(agent.function, tuple(dict.fromkeys((*call.targets, *agent.targets))))


def read_tool_transform(tool: str, given: object) -> Mapping[Target, Mapping[str, Transform]]:
    """The transforms of a tool.

    Raises:
        ConfigurationError: They have another form.
    """
    if given is None:
        return {}
    try:
        targets = _read(given, f"Tool {tool!r}: transform", TARGETS)
        found = {
            target: _read(each, f"Tool {tool!r}: transform[{target!r}]", tuple(PayloadTransforms.__annotations__))
            for target, each in targets.items()
        }
    except TypeError as error:
        raise ConfigurationError(str(error)) from None
    for target, transforms in found.items():
        for name, function in transforms.items():
            if not callable(function):
                raise ConfigurationError(f"Tool {tool!r}: transform[{target!r}][{name!r}] has to be a function.")
    return cast("Mapping[Target, Mapping[str, Transform]]", found)


def _read(given: object, what: str, known: Sequence[str]) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        message = f"{what} takes a dict of {', '.join(known)}, not {type(given).__name__}."
        raise TypeError(message)
    found: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", given).items():
        name = _CAMEL.get(key, key)
        if name not in known:
            message = f"{what} has no key {key!r}; they are: {', '.join(known)}."
            raise TypeError(message)
        found[name] = value
    return found


async def shown(
    context: TransformContext, policy: Policy | None, own: Mapping[Target, Mapping[str, Transform]]
) -> Json:
    """What the target shows of the payload in `context`; None when it is to be hidden.

    Raises:
        asyncio.CancelledError: The caller was cancelled.
    """
    asked: list[Transform] = []
    if policy is not None and policy.function is not None and context.target in policy.targets:
        asked.append(policy.function)
    mine = own.get(context.target, {}).get(_PHASE_KEYS[context.phase])
    asked += [] if mine is None else [mine]
    for function in asked:
        try:
            with contained():
                value = function(context)
                value = await value if inspect.isawaitable(value) else value
            if value is not None:
                return to_json(value)
        except Exception:  # noqa: BLE001 - a user's function: whatever it was to hide stays hidden
            _log.exception("A transform of tool %r failed; its payload is hidden.", context.tool_name)
            return None
    return None
