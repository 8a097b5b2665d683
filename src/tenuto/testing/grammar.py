"""The grammar of a run's stream, as a checker: which chunk may follow which.

Invariant: a stream that passes can be folded by any client without guessing: it starts once and ends once, each part
and each call is opened, filled and closed in order, and each call has exactly one outcome.

Source: spec of the agent stream, "Ordering guarantees"; results come in the order of completion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from tenuto.core import chunks as c

__all__ = ["GrammarError", "check_stream"]

Part = tuple[str, str]
"""Kind (`text`, `reasoning`) and id."""


class GrammarError(AssertionError):
    """A stream broke a rule; the message has the rule, the place and the chunks around it."""


class _Call:
    """A call of the step that is open."""

    __slots__ = ("input", "made", "name", "outcome", "pending", "remote")

    def __init__(self, name: str) -> None:
        self.name = name
        self.input = "none"
        self.made = self.pending = self.remote = False
        self.outcome = ""

    @property
    def settled(self) -> bool:
        return bool(self.outcome) or self.remote or not self.made


class _Grammar:
    """The state of one stream between two chunks; each `on_...` takes the chunks of one kind."""

    def __init__(self, *, resumed: bool) -> None:
        self.run_id: str | None = None
        self.place = 0
        self.resumed = resumed
        self.started = False
        self.ended = ""
        self.checked = False
        self.step_open: bool | None = None if resumed else False  # None: this reader cannot know
        self.failed = self.aborted = False
        self.settling = False
        self.open: set[Part] = set()
        self.used: set[Part] = set()
        self.used_before: set[Part] = set()
        self.calls: dict[str, _Call] = {}
        self.made: set[str] = set()

    def take(self, chunk: c.AnyChunk) -> None:
        run_id = getattr(chunk, "run_id", None)
        self.need(self.ended == "", f"nothing comes after {self.ended}")
        self.need(self.place > 0 or self.resumed or type(chunk) is c.Start, "`start` is the first chunk")
        if run_id is not None:
            self.need(self.run_id in {None, run_id}, f"all chunks have one runId ({self.run_id!r}, {run_id!r})")
            self.run_id = run_id
        if self.aborted:
            self.need(type(chunk) is c.Finish, "after `abort` only `finish` comes")
        if self.failed:
            self.need(type(chunk) in {c.StepFinish, c.Finish}, "after `error` only `step-finish` and `finish` come")
        handle = _HANDLERS.get(type(chunk))
        if handle is not None:
            handle(self, chunk)
        self.place += 1

    def end(self) -> None:
        """The stream is over."""
        pending = [call for call in self.calls.values() if call.pending and not call.outcome]
        if self.ended == "" and not self.failed:
            waits = bool(pending) or self.resumed
            self.need(waits, "a stream ends with `finish`, `tripwire`, `error` or an undecided call")
            self.need(all(call.settled or call.pending for call in self.calls.values()), "each call has one outcome")

    def need(self, holds: bool, rule: str) -> None:  # noqa: FBT001 - what is checked
        if not holds:
            raise GrammarError(rule)

    # -- the frame ---------------------------------------------------------------------------------------------------

    def on_start(self, _: c.Start) -> None:
        self.need(self.place == 0 and not self.resumed, "`start` comes once, first, and never after a resume")
        self.started = True

    def on_step_start(self, _: c.StepStart) -> None:
        self.need(self.step_open is not True, "a step starts when the one before it has finished")
        self.step_open = True
        self.settling = self.checked = False
        self.calls = {}
        self.used_before = set(self.used)

    def on_step_finish(self, chunk: c.StepFinish) -> None:
        self.need(self.step_open is not False, "`step-finish` ends a step")
        result = chunk.payload.step_result
        if result.reason in _REJECTED:
            self.open.clear()  # the answer may have been cut short
        elif not self.failed:
            self.all_closed(last=not result.is_continued and result.reason != "stop")
        called = {call.tool_call_id for call in chunk.payload.output.tool_calls}
        made = {call_id for call_id, call in self.calls.items() if call.made}
        taken_out = {call_id for call_id in made - called if self.calls[call_id].outcome == "tool-error"}
        listed = self.resumed or called == made - taken_out
        self.need(listed, f"`step-finish` lists the step's calls ({called} for {made})")
        self.step_open = False

    def on_check(self, _: c.IsTaskComplete) -> None:
        self.need(self.step_open is not False, "`is-task-complete` stands inside the step it is about")
        self.need(not self.checked, "`is-task-complete` comes once per step")
        self.need(all(call.settled for call in self.calls.values()), "`is-task-complete` comes after the outcomes")
        self.settling = self.checked = True

    def on_restart(self, _: c.AttemptRestarted) -> None:
        self.need(self.step_open is not False, "an attempt is restarted inside a step")
        self.open.clear()
        self.used = set(self.used_before)  # what the attempt opened is forgotten with it
        self.made -= set(self.calls)
        self.calls = {}
        self.step_open = self.settling = False

    def on_error(self, _: c.Error) -> None:
        self.failed = True

    def on_abort(self, _: c.Abort) -> None:
        self.need(all(call.settled for call in self.calls.values()), "an abort closes each call with a `tool-error`")
        self.aborted = True

    def on_tripwire(self, _: c.Tripwire) -> None:
        self.ended = "`tripwire`"

    def on_finish(self, chunk: c.Finish) -> None:
        reason = chunk.payload.step_result.reason
        broken = self.failed or self.aborted
        self.need(broken or self.step_open is not True, "`finish` comes after the last `step-finish`")
        self.need((reason == "abort") == self.aborted, f"reason `abort` and an `abort` chunk go together ({reason})")
        self.need((reason == "error") == self.failed, f"reason `error` and an `error` chunk go together ({reason})")
        self.ended = "`finish`"

    # -- content -----------------------------------------------------------------------------------------------------

    def on_content(self, _: c.AnyChunk) -> None:
        self.need(self.step_open is True, "content stands inside a step")
        self.need(not self.settling, "content comes before the outcomes of the step's calls")

    def on_part_start(self, chunk: Any) -> None:
        self.on_content(chunk)
        part = _part(chunk)
        self.need(part not in self.used, f"the {part[0]} id {part[1]!r} is opened once in a run")
        self.open.add(part)
        self.used.add(part)

    def on_part_delta(self, chunk: Any) -> None:
        self.on_content(chunk)
        part = _part(chunk)
        self.need(part in self.open, f"a delta belongs to a {part[0]} part that is open ({part[1]!r})")

    def on_part_end(self, chunk: Any) -> None:
        self.on_part_delta(chunk)
        self.open.discard(_part(chunk))

    # -- calls -------------------------------------------------------------------------------------------------------

    def on_input_start(self, chunk: c.ToolInputStart) -> None:
        self.on_content(chunk)
        call_id = chunk.payload.tool_call_id
        self.need(call_id not in self.calls and call_id not in self.made, f"the call id {call_id!r} is used once")
        self.calls[call_id] = call = _Call(chunk.payload.tool_name)
        call.input = "open"

    def on_input_delta(self, chunk: c.ToolInputDelta) -> None:
        self.on_content(chunk)
        call = self.calls.get(chunk.payload.tool_call_id)
        self.need(call is not None and call.input == "open", "arguments belong to a call whose input is open")
        self.same_name(call, chunk.payload.tool_name)

    def on_input_end(self, chunk: c.ToolInputEnd) -> None:
        self.on_content(chunk)
        call = self.calls.get(chunk.payload.tool_call_id)
        self.need(call is not None and call.input == "open", "a call's input ends once, after its start")
        if call is not None:
            call.input = "closed"

    def on_call(self, chunk: c.ToolCall) -> None:
        self.on_content(chunk)
        call_id = chunk.payload.tool_call_id
        self.need(call_id not in self.made, f"`tool-call` comes once per call ({call_id!r})")
        call = self.calls.setdefault(call_id, _Call(chunk.payload.tool_name))
        self.need(call.input != "open", "`tool-call` comes after the end of its input")
        self.same_name(call, chunk.payload.tool_name)
        call.made, call.remote = True, bool(chunk.payload.provider_executed)
        self.made.add(call_id)

    def on_output(self, chunk: c.ToolOutput) -> None:
        self.waiting(chunk.payload.tool_call_id)

    def on_pending(self, chunk: c.ToolCallApproval | c.ToolCallSuspended) -> None:
        self.waiting(chunk.payload.tool_call_id).pending = True

    def on_outcome(self, chunk: c.ToolResult | c.ToolError | c.ToolOutputDenied) -> None:
        if getattr(chunk.payload, "provider_executed", None):
            return
        call = self.waiting(chunk.payload.tool_call_id)
        self.same_name(call, chunk.payload.tool_name)
        call.outcome = chunk.type

    def waiting(self, call_id: str) -> _Call:
        self.need(self.step_open is not False, "outcomes stand inside their step")
        call = self.calls.get(call_id)
        if call is None and self.resumed:
            call = self.calls[call_id] = _Call("")
            call.made = True
        if call is None or not call.made:
            self.fail(f"an outcome belongs to a `tool-call` of this step ({call_id!r})")
        self.need(call.outcome == "", f"a call has one outcome ({call_id!r} has `{call.outcome}` already)")
        self.settling = self.settling or not call.remote
        return call

    def same_name(self, call: _Call | None, name: str | None) -> None:
        if call is not None and name and call.name:
            self.need(call.name == name, f"a call keeps its tool's name ({call.name!r}, {name!r})")

    def all_closed(self, *, last: bool) -> None:
        """Parts and calls are complete; in the last step a call may be left to the client."""
        self.need(not self.open, f"each part ends before its step ({sorted(self.open)} are open)")
        for call_id, call in self.calls.items():
            self.need(call.made, f"a call whose input began is made ({call_id!r})")
            self.need(call.settled or last, f"each call has one outcome ({call_id!r} has none)")

    def fail(self, rule: str) -> NoReturn:
        raise GrammarError(rule)


def _part(chunk: Any) -> Part:
    return ("text" if type(chunk) in _TEXT else "reasoning", chunk.payload.id)


_REJECTED = {"retry", "tripwire"}
"""How a step ends whose answer a processor did not accept."""

_TEXT = {c.TextStart, c.TextDelta, c.TextEnd}
_HANDLERS: Mapping[type, Callable[[_Grammar, Any], None]] = {
    c.Start: _Grammar.on_start,
    c.StepStart: _Grammar.on_step_start,
    c.StepFinish: _Grammar.on_step_finish,
    c.AttemptRestarted: _Grammar.on_restart,
    c.IsTaskComplete: _Grammar.on_check,
    c.Error: _Grammar.on_error,
    c.Abort: _Grammar.on_abort,
    c.Tripwire: _Grammar.on_tripwire,
    c.Finish: _Grammar.on_finish,
    c.TextStart: _Grammar.on_part_start,
    c.TextDelta: _Grammar.on_part_delta,
    c.TextEnd: _Grammar.on_part_end,
    c.ReasoningStart: _Grammar.on_part_start,
    c.ReasoningDelta: _Grammar.on_part_delta,
    c.ReasoningEnd: _Grammar.on_part_end,
    c.ToolInputStart: _Grammar.on_input_start,
    c.ToolInputDelta: _Grammar.on_input_delta,
    c.ToolInputEnd: _Grammar.on_input_end,
    c.ToolCall: _Grammar.on_call,
    c.ToolOutput: _Grammar.on_output,
    c.ToolCallApproval: _Grammar.on_pending,
    c.ToolCallSuspended: _Grammar.on_pending,
    c.ToolResult: _Grammar.on_outcome,
    c.ToolError: _Grammar.on_outcome,
    c.ToolOutputDenied: _Grammar.on_outcome,
    **dict.fromkeys(
        (c.ResponseMetadata, c.RedactedReasoning, c.Source, c.File, c.ReasoningFile, c.Custom), _Grammar.on_content
    ),
}
"""Chunks that are not here (`raw`, `data-*`, objects, reasoning signatures) may stand anywhere inside the frame."""


def check_stream(
    chunks: Iterable[c.AnyChunk], *, resumed: bool = False, middle: bool = False, complete: bool = True
) -> None:
    """Fail unless `chunks` is a well-formed stream of one run.

    Args:
        chunks: All of them, in order.
        resumed: They begin after a resume or a recovery, without `start`: between two steps or among outcomes. Such a
            segment may also end where the run waits on for what was asked before.
        middle: They begin anywhere, as for a viewer with an offset or behind a `gap`: what comes before the first
            whole step is not checked.
        complete: False checks a stream that goes on, or that this process lost.

    Raises:
        GrammarError: An `AssertionError` that names the rule and the place.
    """
    given = list(chunks)
    if middle or (given and type(given[0]) is c.Gap):
        given, resumed = given[_first_whole_step(given) :], True
    grammar = _Grammar(resumed=resumed)
    try:
        for chunk in given:
            grammar.take(chunk)
        if complete:
            grammar.end()
    except GrammarError as broken:
        raise GrammarError(_shown(given, grammar.place, str(broken))) from None


def _first_whole_step(chunks: Sequence[c.AnyChunk]) -> int:
    frames = (place for place, chunk in enumerate(chunks) if type(chunk) in {c.StepStart, c.AttemptRestarted})
    return next(frames, len(chunks))


def _shown(chunks: Sequence[c.AnyChunk], place: int, rule: str) -> str:
    where = f"chunk {place} ({chunks[place].type})" if place < len(chunks) else "the end"
    first = max(place - 4, 0)
    around = [f"{'>' if at == place else ' '} {at} {chunks[at]!r:.160}" for at in range(first, len(chunks))[:7]]
    return "\n".join([f"the stream breaks a rule at {where}: {rule}", *around])
