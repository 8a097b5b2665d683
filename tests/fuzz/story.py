"""What an answer says, apart from how its deltas were cut and which ids its parts have; and how two answers differ.

Each difference has a name, so that a test can say which ones the loss of an event may make.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tenuto.core import payloads as p
from tenuto.models.assemble import UNNAMED
from tenuto.models.ports import Finish, Part


class Story(NamedTuple):
    """The content of an answer; `order` is the kinds of all that is neither text nor reasoning."""

    text: str
    reasoning: str
    seals: list[Any]
    calls: list[Any]
    arguments: list[Any]
    results: list[Any]
    files: list[Any]
    sources: list[Any]
    custom: list[Any]
    order: list[str]
    reason: Any
    usage: Any
    about: Any


def story_of(parts: Iterable[Part]) -> Story:
    found: dict[str, Any] = {name: [] for name in Story._fields}
    for part in parts:
        _take(part, found)
    for name in ("text", "reasoning"):
        found[name] = "".join(found[name])
    seals = (_without_nothing(each) for each in found["seals"])
    found["seals"] = [each for each in seals if each]
    found["sources"].sort(key=repr)
    return Story(**found)


def _without_nothing(seal: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seal.items() if value}


def _take(part: Part, found: dict[str, Any]) -> None:  # noqa: C901 - one arm per kind
    match part:
        case p.TextDeltaPayload():
            found["text"].append(part.text)
        case p.ReasoningDeltaPayload():
            found["reasoning"].append(part.text)
        case p.TextStartPayload() | p.ReasoningStartPayload():
            found["seals"].append({})
            _seal(found["seals"][-1], part.provider_metadata)
        case p.ReasoningSignaturePayload():
            _seal(found["seals"][-1], part.provider_metadata, part.signature)
        case p.TextEndPayload():
            _seal(found["seals"][-1], part.provider_metadata)
        case p.ReasoningEndPayload():
            _seal(found["seals"][-1], part.provider_metadata, part.signature)
        case p.RedactedReasoningPayload():
            found["seals"].append({"redacted": part.data, **(part.provider_metadata or {})})
            found["order"].append("redacted")
        case p.ToolCallPayload():
            found["calls"].append([part.tool_call_id, part.tool_name, part.provider_executed, part.provider_metadata])
            found["arguments"].append([part.args, part.raw_args])
            found["order"].append("call")
        case p.ToolResultPayload():
            found["results"].append(msgspec.structs.astuple(part))
            found["order"].append("result")
        case p.FilePayload():
            found["files"].append(msgspec.structs.astuple(part))
            found["order"].append("file")
        case p.SourcePayload():
            found["sources"].append(msgspec.structs.astuple(part)[1:])
        case p.CustomPayload():
            found["custom"].append(msgspec.structs.astuple(part))
            found["order"].append("custom")
        case Finish():
            found["reason"] = [part.reason, part.raw_reason]
            found["usage"] = part.usage
            found["about"] = part.provider_metadata
        case _:
            pass


def _seal(seal: dict[str, Any], metadata: Any, signature: str | None = None) -> None:
    """What a provider wants back with a part, wherever in it that was said."""
    for provider, own in (metadata or {}).items():
        seal[provider] = {**seal.get(provider, {}), **own}
    if signature:
        seal["signature"] = signature


def differences(before: Story, after: Story) -> set[str]:
    """What is not the same; calls that nobody can run (no name, or no arguments) are `unusable`, not other calls."""
    names = {name for name in Story._fields if getattr(before, name) != getattr(after, name)}
    if not names & {"calls", "arguments"}:
        return names
    old, new = _runnable(before), _runnable(after)
    left = [call for call in new if call not in old]
    if not left and (len(before.calls) == len(after.calls) or len(old) == len(new)):
        # Another order, or calls that nobody can run.
        names -= {"calls", "arguments", "order", *({"reason"} if len(before.calls) > len(after.calls) else ())}
        return names | ({"unusable"} if before.calls != after.calls or len(old) != len(new) else set())
    if len(before.calls) == len(after.calls) and before.calls == after.calls:
        return names - {"calls"}
    return names - {"arguments"}


def _runnable(story: Story) -> list[Any]:
    pairs = zip(story.calls, story.arguments, strict=True)
    return [[*call[1:], *args] for call, args in pairs if call[1] != UNNAMED and args[0] is not None]


def is_but_for(piece: str, longer: str, shorter: str) -> bool:
    """Whether `longer` is `shorter` with `piece` put in somewhere."""
    size = len(piece)
    return len(longer) == len(shorter) + size and any(
        longer[:at] + longer[at + size :] == shorter for at in range(len(shorter) + 1) if longer.startswith(piece, at)
    )
