"""What a run reads of its thread before it begins, and what of it is stored there.

Invariant: a run records what it read as a range of places (and ids), never as copies, and reads the same again where it
goes on. Messages are stored in the transaction of the record they belong to: the input with `Prepared`, the answers
with the record that ends a run or lets it wait, or (`save_per_step`) with each step's verdict. System messages and the
call's context are stored nowhere.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.machine.records import AnyRecord, Finalised, Parked, Prepared, Recalled, StepJudged
from tenuto.memory import threads
from tenuto.memory.bound import RunMemory
from tenuto.memory.config import MemoryConfig
from tenuto.memory.knowledge import json_schema
from tenuto.memory.observations import Observations, observations_of
from tenuto.memory.query import Query
from tenuto.memory.told import PENDING, without_calls
from tenuto.memory.window import Start, cut, within
from tenuto.memory.working import TOOL, instructions
from tenuto.messages.answers import Answer
from tenuto.messages.merge import MayAnswer, Merged, merge
from tenuto.messages.stored import Message, in_order
from tenuto.messages.turns import SystemTurn
from tenuto.steps.definitions import memory_of
from tenuto.steps.fold import draft_parts
from tenuto.steps.incoming import take_results
from tenuto.steps.transcript import own_messages
from tenuto.store.ports import RunStore, ThreadMessage, ThreadRow

if TYPE_CHECKING:
    from tenuto.messages.input import MessageReader
    from tenuto.steps.run import Run

LIMITER = "memoryTokenLimiter"
"""Where a thread's metadata keep where its window begins."""

SENT_AGAIN = 20
"""Messages beyond those a caller sends that are looked at, to find what is sent again."""

HIDDEN_CALLS = frozenset({TOOL})
"""Calls of the runtime's own tools, which are no part of the conversation."""

_log = logging.getLogger("tenuto")


async def memory_again(run: Run, thread: str, resource: str, store: RunStore) -> RunMemory:
    """The memory of a run that goes on, or is looked at: on the thread where it began, with the agent's options."""
    memory, call = await memory_of(run.definition, run.request_context, store), run.options.memory
    config = MemoryConfig() if memory is None else memory.merged(None if call is None else call.options)
    callback = None if call is None else call.on_title_generated
    return RunMemory(
        memory=memory, config=config, store=store, thread=thread, resource=resource, on_title_generated=callback
    )


async def recall(run: Run, reader: MessageReader, may_answer: MayAnswer) -> tuple[list[Message], Recalled]:
    """Read the thread, take what is new of the input, and keep both in the run.

    Returns:
        The input that is new, and what was read.

    Raises:
        ConfigurationError: `AGENT_INVALID_MESSAGES`.
        RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
    """
    memory = _of(run)
    row = await memory.thread_row()
    answers: list[Answer] = []
    given = reader.read(run.messages, elsewhere=answers)
    window = await _window(memory, row)
    known = await _known(memory, window, given, answers)
    merged = _merged(memory, known, given, answers, may_answer)
    before = {message.id: message for message in (*known, *merged.changed)}
    taken = await take_results(run, [*before.values(), *merged.new])
    after = {message.id: message for message in taken[: len(before)]}
    run.changed = tuple(after[message.id] for message in known if after[message.id] is not message)
    fresh = _fresh(memory, row, known, taken[len(before) :])
    sent = {message.id for message in fresh}
    read = [replace(each, message=after.get(each.message.id, each.message)) for each in window.messages]
    run.remembered = window.shown([each for each in read if each.message.id not in sent])
    ids = await _search(run, fresh)
    run.found = await _found(memory, ids, run.remembered)
    first, end = (read[0].seq, read[-1].seq + 1) if read else (0, 0)
    return fresh, Recalled(first, end, window.parts, ids)


async def read_again(run: Run, recalled: Recalled) -> None:
    """Read what the run read when it began."""
    memory = _of(run)
    messages: list[ThreadMessage] = []
    if recalled.end:
        after, before = recalled.first - 1, recalled.end
        messages = await memory.store.messages(memory.thread, resource=memory.resource, after=after, before=before)
    run.remembered = _Window(tuple(_said(messages)), recalled.first, recalled.parts).shown(_said(messages))
    run.found = await _found(memory, recalled.ids, run.remembered)


async def knowledge_turns(run: Run) -> tuple[SystemTurn, ...]:
    """What the run is told of its working memory, and of the part of the thread that it does not read."""
    memory = _of(run)
    known, working = memory.knowledge, memory.config.working_memory
    notes = await _notes(memory, await memory.thread_row()) if memory.config.observational_memory is not None else None
    told = () if notes is None else notes.told
    if known is None or working is None:
        return told
    writes = memory.writes and not working.read_only
    return (SystemTurn(instructions(working, await known.read(), json_schema(working), writes=writes)), *told)


def due(run: Run, record: AnyRecord) -> Sequence[Message]:
    """The messages that belong into the transaction of `record`, which the run has taken in."""
    memory = _of(run)
    if not memory.config.saves:
        return ()
    match record:
        case Prepared():
            return [*run.changed, *(message for message in run.input if message.role != "system")]
        case Parked():
            parts = () if run.draft is None else draft_parts(run, run.draft)
            return _kept([*own_messages(run, parts)], _pending(run))
        case StepJudged() if run.options.save_per_step:
            return _kept([*own_messages(run)])
        case Finalised():
            return _kept([*own_messages(run)], {"aborted": True} if record.reason == "aborted" else {})
        case _:
            return ()


def _of(run: Run) -> RunMemory:
    assert run.memory is not None  # noqa: S101 - asked of a run on a thread only
    return run.memory


# -- reading ---------------------------------------------------------------------------------------------------------


class _Window(Struct, frozen=True):
    """The newest messages; of the one at `first`, `parts` parts are left out."""

    messages: tuple[ThreadMessage, ...] = ()
    first: int = 0
    parts: int = 0

    def shown(self, messages: Sequence[ThreadMessage]) -> list[Message]:
        """These of its messages, as they are read."""
        return [cut(each.message, self.parts if each.seq == self.first else 0) for each in messages]


async def _window(memory: RunMemory, row: ThreadRow | None) -> _Window:
    config = memory.config
    if row is None or not config.keeps_history:
        return _Window()
    limit, start = config.message_history, _start(row)
    notes = await _notes(memory, row)
    first = max(0 if limit is None else start.seq, 0 if notes is None else notes.up_to)
    after = first - 1 if first else None
    found = await memory.store.messages(row.id, resource=row.resource, last=config.last_messages, after=after)
    read = _said(found)
    if limit is None or not read:
        return _Window(tuple(read))
    begin = within([(each.seq, each.message) for each in read], limit, start)
    if begin != start and memory.writes:
        await _keep_start(memory, begin)
    kept = tuple(each for each in read if each.seq >= begin.seq)
    return _Window(kept, begin.seq, begin.parts)


async def _notes(memory: RunMemory, row: ThreadRow | None) -> Observations | None:
    """What was noted of the thread: a run reads that in place of the messages."""
    if row is None or memory.config.observational_memory is None:
        return None
    return await observations_of(memory.store, row)


def _said(found: Sequence[ThreadMessage]) -> list[ThreadMessage]:
    return [each for each in found if each.message.role != "system"]


def _start(row: ThreadRow) -> Start:
    match row.metadata.get(LIMITER):
        case {"seq": int(seq), "parts": int(parts)}:
            return Start(seq, parts)
        case _:
            return Start()


async def _keep_start(memory: RunMemory, start: Start) -> None:
    def changed(row: ThreadRow | None) -> ThreadRow | None:
        kept = {"seq": start.seq, "parts": start.parts}
        return None if row is None else replace(row, metadata={**row.metadata, LIMITER: kept})

    await threads.change(memory.store, memory.thread, memory.resource, changed)


async def _known(
    memory: RunMemory, window: _Window, given: Sequence[Message], answers: Sequence[Answer]
) -> list[Message]:
    """The messages that the input may repeat or answer: more than the window when it has more than questions in it."""
    if not memory.config.keeps_history:
        return []
    if not answers and all(message.role in {"user", "system"} for message in given):
        return [each.message for each in window.messages]
    last = max(len(window.messages), len(given) + SENT_AGAIN)
    return [each.message for each in await memory.store.messages(memory.thread, resource=memory.resource, last=last)]


def _merged(
    memory: RunMemory,
    known: Sequence[Message],
    given: Sequence[Message],
    answers: Sequence[Answer],
    may_answer: MayAnswer,
) -> Merged:
    if memory.config.retain_full_input:
        return Merged(tuple(given), (), tuple(answers))
    merged = merge(known, given, answers, may_answer)
    if merged.unknown:
        calls = ", ".join(repr(answer.call_id) for answer in merged.unknown)
        message = f"The messages answer tool calls that nobody made on thread {memory.thread!r}: {calls}."
        raise ConfigurationError(message, id="AGENT_INVALID_MESSAGES", domain="AGENT")
    if merged.refused:
        calls = ", ".join(map(repr, merged.refused))
        _log.warning("Messages claim results of the tool calls %s, which stand as thread has them.", calls)
    return merged


def _fresh(memory: RunMemory, row: ThreadRow | None, known: Sequence[Message], new: Sequence[Message]) -> list[Message]:
    """What is new, behind what is there: of an input with answers in it, on a thread with messages, what follows them.

    Those answers were sent before, in whatever form: this server stores what it says itself.
    """
    kept = list(new)
    if row is not None and row.messages and memory.config.keeps_history and not memory.config.retain_full_input:
        last = max((at for at, message in enumerate(kept) if message.role == "assistant"), default=-1)
        kept = [message for at, message in enumerate(kept) if at > last or message.role == "system"]
    own = {"thread_id": memory.thread, "resource_id": memory.resource}
    return in_order([*known[-1:], *(replace(message, **own) for message in kept)])[len(known[-1:]) :]


async def _search(run: Run, fresh: Sequence[Message]) -> tuple[str, ...]:
    memory = _of(run)
    recall, recaller = memory.config.semantic_recall, None if memory.memory is None else memory.memory.recaller
    text = next((message.text for message in reversed(fresh) if message.role == "user" and message.text), "")
    if recall is None or recaller is None or not text:
        return ()
    known = frozenset(message.id for message in run.remembered)

    def warn(why: str) -> None:
        run.unsearched = why

    return await recaller.find(memory.store, Query(text, memory.thread, memory.resource, recall, known, warn))


async def _found(memory: RunMemory, ids: Sequence[str], remembered: Sequence[Message]) -> tuple[Message, ...]:
    if not ids:
        return ()
    known = {message.id for message in remembered}
    found = await memory.store.find_messages(ids, resource=memory.resource)
    return tuple(each.message for each in _said(found) if each.message.id not in known)


# -- saving ----------------------------------------------------------------------------------------------------------


def _kept(messages: Sequence[Message], metadata: Mapping[str, Any] | None = None) -> list[Message]:
    """The run's own messages as they are stored; the metadata belong to the last one."""
    kept = list(messages)
    if kept and metadata:
        content = kept[-1].content
        kept[-1] = replace(kept[-1], content=replace(content, metadata={**(content.metadata or {}), **metadata}))
    return [bare for message in kept if (bare := without_calls(message, HIDDEN_CALLS)) is not None]


def _pending(run: Run) -> dict[str, Any]:
    """What is kept of the calls that wait, for interfaces and for later turns on the thread."""
    approvals, suspended = PENDING
    found: dict[str, Any] = {}
    for call in run.pending.values():
        entry = {
            "toolCallId": call.call_id,
            "toolName": call.tool_name,
            "args": call.args,
            "runId": run.run_id,
            "resumeSchema": call.resume_schema,
        }
        if call.kind == "suspension":
            entry["suspendPayload"] = call.suspend_payload
        place = approvals if call.kind == "approval" else suspended
        found[place] = {**found.get(place, {}), call.call_id: entry}
    return found
