"""Asks `process_output_result` when a run ends, and shows the processors of the stream its last chunk.

Invariant: a run's end has its record whatever they do: a failure becomes the run's error, a block drops the answer and
keeps the input. What they made of the messages is in the record, so nobody is asked again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.processors.contexts import OutputResultContext
from tenuto.processors.hooks import ProcessorError
from tenuto.processors.ports import ResultSoFar
from tenuto.processors.tripwire import Tripwire
from tenuto.steps.failure import error_info
from tenuto.steps.fold import draft_parts, step_result
from tenuto.steps.process_answer import read_messages
from tenuto.steps.processing import chain_at, note_state, strained
from tenuto.steps.sieve import ANSWER
from tenuto.steps.transcript import own_messages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.core import chunks as c
    from tenuto.core.payloads import TripwirePayload
    from tenuto.machine.records import Finalised
    from tenuto.messages.stored import Message
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

_log = logging.getLogger("tenuto")


async def process_result(run: Run, log: RunLog, record: Finalised) -> Finalised:
    """The record of the run's end as the processors leave it."""
    blocked = log.state.blocked is not None and record.reason == "other"
    if log.state.phase == "starting" or run.timed_out is not None or blocked:
        return record
    try:
        messages = await _messages(run, log, record)
    except Tripwire as tripwire:
        reason = record.reason if record.reason in {"aborted", "error"} else "other"
        record = replace(record, reason=reason, messages=(), tripwire=tripwire.payload)
    except ProcessorError as error:
        run.error = run.error or error
        if record.reason != "aborted":
            record = replace(record, reason="error", error=error_info(run.error))
    except asyncio.CancelledError:
        if not run.aborted:
            raise
    else:
        record = replace(record, messages=messages)
    note_state(run, log)
    return record


async def _messages(run: Run, log: RunLog, record: Finalised) -> tuple[Message, ...] | None:
    """What is put in place of the messages the run added; None leaves them."""
    chain = chain_at(run, log)
    draft = run.draft
    own = own_messages(run, () if draft is None else draft_parts(run, draft))
    steps = tuple(run.steps) if draft is None else (*run.steps, step_result(run, draft, record.reason))
    usage = run.usage if draft is None else run.usage + draft.said.usage
    messages: Sequence[Message] = own
    for hook in () if chain is None else chain["process_output_result"]:
        result = ResultSoFar(_text(messages), usage, record.reason, steps)
        context = OutputResultContext(hook.shared, messages=tuple(messages), result=result)
        answer = read_messages(run, hook, await hook.ask(context))
        messages = messages if answer is None else answer
    return None if tuple(messages) == own else tuple(messages)


def _text(messages: Sequence[Message]) -> str:
    said = (each for each in messages if each.role == "assistant")
    return "".join(each.text for each in said if "completionResult" not in (each.content.metadata or ()))


async def last_chunks(run: Run, log: RunLog, chunk: c.Finish) -> tuple[list[c.AnyChunk], TripwirePayload | None]:
    """The end of the stream as `process_output_stream` leaves it; with a block, what passed before it."""
    try:
        chunks, tripwire = await strained(run, log, [chunk])
    except ProcessorError:
        _log.exception("Run %s: a processor of its last chunk failed; the chunk passes as it was.", run.run_id)
        return [chunk], None
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        return [chunk], None
    if log.state.reason in {"aborted", "error"}:  # its stream has said so: nothing is said any more
        chunks = [each for each in chunks if type(each) not in ANSWER]
    return list(chunks), None if tripwire is None else tripwire.payload
