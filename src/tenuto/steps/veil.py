"""Covers the payloads of tools where a run's transforms say so: in every chunk that viewers get, and in transcripts.

Invariant: fail closed. No chunk with a payload that a display must not have reaches a viewer or the log of events;
chunks carry what was put in its place also as metadata. What a client tool is called with stays: the client runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import codec
from tenuto.core import payloads as p
from tenuto.core.payloads import Json
from tenuto.messages.stored import HIDDEN, OWN, TRANSFORMS
from tenuto.tools.results import to_json
from tenuto.tools.transform import Phase, Policy, Target, TransformContext, shown

if TYPE_CHECKING:
    from tenuto.messages.turns import CallPart
    from tenuto.tools.toolbox import RunnableTool

ALL = "*"
"""In the list of veiled tools: every tool."""

_FIELDS: Mapping[Phase, str] = {
    "input-available": "input",
    "approval": "input",
    "output-available": "output",
    "error": "error",
    "suspend": "suspend_payload",
    "resume": "resume_data",
    "input-delta": "input_text_delta",
}


class Veil:
    """The transforms of one run.

    Args:
        policy: The call's or the agent's.
        toolbox: The run's tools.
    """

    def __init__(self, policy: Policy | None, toolbox: Mapping[str, RunnableTool]) -> None:
        self._policy = policy
        self._tools = toolbox
        self._writing: dict[str, str] = {}
        self._inputs: dict[tuple[Target, str], Json] = {}
        self._interrupted: dict[asyncio.Task[Any] | None, asyncio.CancelledError] = {}

    def use(self, toolbox: Mapping[str, RunnableTool]) -> None:
        """Go by the transforms of these tools from now on; what was begun is covered as it was."""
        self._tools = toolbox

    def veiled(self) -> tuple[str, ...]:
        """The names of the tools whose payloads a transcript must not show as they are."""
        if self._policy is not None and "transcript" in self._policy.targets:
            return (ALL,)
        return tuple(name for name, tool in self._tools.items() if "transcript" in tool.transforms)

    def raise_interrupted(self) -> None:
        """Raise the cancellation that arrived while a transform of this task ran, now that what it kept is stored."""
        error = self._interrupted.pop(asyncio.current_task(), None)
        if error is not None:
            raise error

    async def inputs(self, calls: Sequence[CallPart]) -> Json:
        """By call id, what a transcript shows of the arguments; None when it may show all."""
        found: dict[str, Json] = {}
        for call in calls:
            if self._covers("transcript", call.tool_name):
                value = await self._input("transcript", call.tool_call_id, call.tool_name, call.args)
                found[call.tool_call_id] = {"input-available": _noted(value)}
        return found or None

    async def outcome(self, call: CallPart, result: Json, error: p.ErrorInfo | None) -> Json:
        """What a transcript shows of a call's outcome, by phase; None when it may show all."""
        if not self._covers("transcript", call.tool_name):
            return None
        phase: Phase = "output-available" if error is None else "error"
        value = await self._ask("transcript", phase, call.tool_call_id, call.tool_name, _plain(result, error))
        return {phase: _noted(value)}

    async def cover(self, chunks: Sequence[c.AnyChunk]) -> list[c.AnyChunk]:
        """The chunks as viewers get them; some may be left out."""
        covered = [await self._cover(chunk) for chunk in chunks]
        return [chunk for chunk in covered if chunk is not None]

    # -- chunks --------------------------------------------------------------------------------------------------------

    async def _cover(self, chunk: c.AnyChunk) -> c.AnyChunk | None:
        match chunk:
            case c.Raw():
                return None  # a provider's own event may hold any of it
            case c.ToolInputStart():
                self._writing[chunk.payload.tool_call_id] = chunk.payload.tool_name
                return chunk
            case c.ToolInputDelta():
                return await self._delta(chunk)
            case c.StepFinish():
                calls = [await self._call(each) for each in chunk.payload.output.tool_calls]
                output = replace(chunk.payload.output, tool_calls=tuple(calls))
                return replace(chunk, payload=replace(chunk.payload, output=output))
            case c.ToolCall():
                return self._marked(chunk, await self._call(chunk.payload), {"input-available": chunk.payload.args})
            case c.ToolResult() | c.ToolError() | c.ToolCallApproval() | c.ToolCallSuspended() | c.ToolOutputDenied():
                return await self._outcome(chunk)
            case _:
                return chunk

    async def _delta(self, chunk: c.ToolInputDelta) -> c.AnyChunk | None:
        payload = chunk.payload
        name = payload.tool_name or self._writing.get(payload.tool_call_id, "")
        if not self._covers_input(name):
            return chunk
        value = await self._ask("display", "input-delta", payload.tool_call_id, name, payload.args_text_delta)
        if value is None:
            return None
        return replace(chunk, payload=replace(payload, args_text_delta=_text(value)))

    async def _call(self, payload: p.ToolCallPayload) -> p.ToolCallPayload:
        if not self._covers_input(payload.tool_name):
            return payload
        given = payload.args if payload.raw_args is None else payload.raw_args
        args = await self._input("display", payload.tool_call_id, payload.tool_name, given)
        return replace(payload, args=args, raw_args=None)

    async def _outcome(self, chunk: Any) -> c.AnyChunk:
        payload = chunk.payload
        name, call_id = payload.tool_name, payload.tool_call_id
        if not self._covers("display", name):
            return chunk
        changes: dict[str, Any] = {}
        phases: dict[str, Json] = {}
        if payload.args is not None:
            phase: Phase = "approval" if isinstance(chunk, c.ToolCallApproval) else "input-available"
            if phase == "approval":
                changes["args"] = _or_hidden(await self._ask("display", phase, call_id, name, payload.args))
            elif self._covers_input(name):
                changes["args"] = await self._input("display", call_id, name, payload.args)
            phases[phase] = changes.get("args")
        match payload:
            case p.ToolResultPayload():
                value = await self._ask("display", "output-available", call_id, name, payload.result)
                changes["result"] = phases["output-available"] = _or_hidden(value)
            case p.ToolErrorPayload():
                value = await self._ask("display", "error", call_id, name, _plain(None, payload.error))
                changes["error"] = p.ErrorInfo(payload.error.name, "[hidden]" if value is None else _text(value))
                phases["error"] = _or_hidden(value)
            case p.ToolCallSuspendedPayload():
                value = await self._ask("display", "suspend", call_id, name, payload.suspend_payload)
                changes["suspend_payload"] = phases["suspend"] = _or_hidden(value)
            case _:
                pass
        return self._marked(chunk, replace(payload, **changes), phases)

    def _marked(self, chunk: Any, payload: Any, phases: Mapping[str, Json]) -> c.AnyChunk:
        if payload is chunk.payload:
            return chunk
        values = {**phases, **({"input-available": payload.args} if "input-available" in phases else {})}
        entries = {phase: {"transformed": value} for phase, value in values.items()}
        return replace(chunk, payload=payload, metadata={OWN: {TRANSFORMS: {"display": entries}}})

    # -- values --------------------------------------------------------------------------------------------------------

    def _covers(self, target: Target, name: str) -> bool:
        if self._policy is not None and target in self._policy.targets:
            return True
        tool = self._tools.get(name)
        return tool is not None and target in tool.transforms

    def _covers_input(self, name: str) -> bool:
        tool = self._tools.get(name)
        of_client = tool is not None and tool.fn is None and tool.provider is None
        return not of_client and self._covers("display", name)

    async def _input(self, target: Target, call_id: str, name: str, args: Json) -> Json:
        """Asked once for each call: its chunks and its result show the same."""
        known = self._inputs.get((target, call_id))
        if known is None:
            known = _or_hidden(await self._ask(target, "input-available", call_id, name, args))
            self._inputs[target, call_id] = known
        return known

    async def _ask(self, target: Target, phase: Phase, call_id: str, name: str, payload: Json) -> Json:
        context = TransformContext(
            target=target, phase=phase, tool_name=name, tool_call_id=call_id, **cast("Any", {_FIELDS[phase]: payload})
        )
        tool = self._tools.get(name)
        try:
            return await shown(context, self._policy, {} if tool is None else tool.transforms)
        except asyncio.CancelledError as error:
            self._interrupted[asyncio.current_task()] = error
            return None


def _plain(result: Json, error: p.ErrorInfo | None) -> Json:
    return result if error is None else to_json({"name": error.name, "message": error.message})


def _noted(value: Json) -> Json:
    return {"transformed": HIDDEN, "failed": True} if value is None or value is HIDDEN else {"transformed": value}


def _or_hidden(value: Json) -> Json:
    return HIDDEN if value is None else value


def _text(value: Json) -> str:
    return value if isinstance(value, str) else codec.encode(value).decode()
