"""Processors around the outcome of a tool call: its result before anybody sees it, its chunk before it is shown.

Invariant: what a processor makes of a result is what the journal, the ledger, the messages, the spans and the model
have; a call that ran stays known as one that took effect, whatever a processor says of its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.machine.records import Blocked
from tenuto.messages.bounded import model_text
from tenuto.processors.contexts import ToolResultContext
from tenuto.processors.hooks import ProcessorError
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.checked import Checked
from tenuto.steps.delegates import DelegationTool
from tenuto.steps.failure import error_info
from tenuto.steps.processing import base_prompt, chain_at, may_reject, note_state
from tenuto.steps.transcript import all_messages
from tenuto.tools.outcome import Failed, Ok, Outcome
from tenuto.tools.results import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.machine.records import ToolEnded
    from tenuto.messages.turns import CallPart
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run
    from tenuto.store.ports import EffectRow


def checks_results(run: Run) -> bool:
    """Whether anything looks at the results of tools."""
    return run.chain is not None and bool(run.chain["process_tool_result"])


async def check_outcome(run: Run, log: RunLog, call: CallPart, args: Json, outcome: Outcome, *, limit: int) -> Checked:
    """The outcome with what `process_tool_result` makes of its result; `limit` characters of it go to the model."""
    if not isinstance(outcome, Ok):
        return Checked(outcome)
    name = call.tool_name
    try:
        result = await processed_result(run, log, (call.tool_call_id, name, args), outcome.result)
    except Tripwire as tripwire:
        text = f"Tool {name!r} ran and took effect, but its result was not accepted: {tripwire.reason}"
        failed = Failed(ToolError(text, id="TOOL_RESULT_REFUSED", details={"tool": name}), text)
        if may_reject(run, log, tripwire):
            return Checked(failed, refused=True)
        return Checked(failed, blocked=Blocked(tripwire.payload))
    except ProcessorError as error:
        run.error = error
        text = f"Tool {name!r} ran and took effect, but its result could not be checked."
        failed = Failed(ToolError(text, id="TOOL_RESULT_REFUSED", details={"tool": name}), text)
        return Checked(failed, blocked=Blocked(error=error_info(error)))
    if result is outcome.result:
        return Checked(outcome)
    text, told = retold(run, name, result, limit)
    return Checked(replace(outcome, result=result, text=text, told=told))


async def processed_result(
    run: Run, log: RunLog, call: tuple[str, str, Json], result: Json, *, of_provider: bool = False
) -> Json:
    """The result of a call (its id, tool and arguments) as the processors leave it.

    Raises:
        Tripwire: One does not accept it.
        ProcessorError: One failed.
    """
    chain = chain_at(run, log)
    hooks = () if chain is None else chain["process_tool_result"]
    call_id, name, args = call
    for hook in hooks:
        answer = await hook.ask(
            ToolResultContext(
                hook.shared,
                tool_call_id=call_id,
                tool_name=name,
                args=args,
                result=result,
                provider_executed=of_provider,
                step_number=len(run.steps),
                steps=tuple(run.steps),
                messages=all_messages(run),
                system_messages=base_prompt(run).system,
            )
        )
        if answer is None:
            continue
        if not isinstance(answer, Mapping) or set(cast("Mapping[str, Any]", answer)) != {"result"}:
            raise hook.refused(cast("Any", answer), "None or {'result': value}")
        try:
            result = to_json(cast("Mapping[str, Any]", answer)["result"])
        except ToolError as error:
            raise hook.failed(error) from error
    return result


def retold(run: Run, name: str, result: Json, limit: int) -> tuple[str, Json]:
    """What the model is told of a result that a processor has put in place of the tool's, and how that is stored.

    Of a sub-agent's it is told the text, as of any.
    """
    said = cast("Mapping[str, Any]", result).get("text") if isinstance(result, Mapping) else None
    if isinstance(run.toolbox.get(name), DelegationTool) and isinstance(said, str):
        text = model_text(said, limit)
        return text, {"type": "text", "value": text}
    return model_text(result, limit), None


class Shown(Struct, frozen=True):
    """An outcome as `process_output_stream` left it: its record, its chunks, its ledger entries, and a block."""

    record: ToolEnded
    chunks: Sequence[c.AnyChunk]
    effects: Sequence[EffectRow]
    blocked: Blocked | None = None


async def shown_outcome(
    run: Run,
    log: RunLog,
    record: ToolEnded,
    chunk: c.ToolResult | c.ToolError,
    effects: Sequence[EffectRow],
    *,
    limit: int,
) -> Shown:
    """What is recorded and shown of an outcome; what the processors of the stream changed in it is changed in both."""
    chain = chain_at(run, log)
    if chain is None or chain.stream is None:
        return Shown(record, (chunk,), effects)
    try:
        passed, tripwire = await chain.stream.strain([chunk])
    except ProcessorError as error:
        return _unseen(run, record, chunk, effects, error)
    blocked = None if tripwire is None else Blocked(tripwire.payload)
    kept = next((each for each in passed if type(each) is type(chunk)), None)
    if isinstance(chunk, c.ToolResult) and (kept is None or isinstance(kept, c.ToolResult)):
        result = None if kept is None else kept.payload.result
        if result is not chunk.payload.result and result != chunk.payload.result:
            text, told = retold(run, chunk.payload.tool_name, result, limit)
            record = replace(record, result=result, text=text, told=told)
            effects = [replace(row, result=result) if row.status == "ok" else row for row in effects]
        if kept is None:
            passed = [*passed, replace(chunk, payload=replace(chunk.payload, result=None))]
    elif isinstance(chunk, c.ToolError) and kept is None:
        passed = [*passed, chunk]
    elif isinstance(kept, c.ToolError) and kept.payload.error != record.error:
        record = replace(record, error=kept.payload.error, text=kept.payload.error.message)
    return Shown(record, passed, effects, blocked)


def _unseen(
    run: Run,
    record: ToolEnded,
    chunk: c.ToolResult | c.ToolError,
    effects: Sequence[EffectRow],
    error: ProcessorError,
) -> Shown:
    """A processor that lets nothing pass unseen failed: the outcome is there, and nobody gets it."""
    run.error = run.error or error
    blocked = Blocked(error=error_info(error))
    if isinstance(chunk, c.ToolError):
        return Shown(record, (chunk,), effects, blocked)
    payload = chunk.payload
    text = f"Tool {payload.tool_name!r} ran, but its result could not be checked."
    failure = error_info(ToolError(text, id="TOOL_RESULT_REFUSED", details={"tool": payload.tool_name}))
    record = replace(record, outcome="failed", text=text, result=None, told=None, error=failure)
    shown = p.ToolErrorPayload(payload.tool_call_id, payload.tool_name, failure, payload.args)
    effects = [replace(row, result=None) if row.status == "ok" else row for row in effects]
    return Shown(record, (c.ToolError(chunk.run_id, chunk.from_, shown),), effects, blocked)


def end_blocked(run: Run, log: RunLog, blocked: Blocked | None) -> tuple[Blocked, ...]:
    """The record of a block, behind the state of the processors; none, if there is none."""
    note_state(run, log)
    return () if blocked is None or log.state.blocked is not None else (blocked,)
