"""Titles: after the first answer on a thread, a model is asked what to call it.

Invariant: a title never fails the run it is about, and delays it only where its event was asked for; a thread that has
a title keeps it, whoever was faster; one thread is asked about once at a time in a process.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tenuto.core.chunks import Data
from tenuto.core.payloads import FinishReason
from tenuto.memory import threads
from tenuto.memory.titles import INSTRUCTIONS, clean, countable, transcript
from tenuto.runs import live
from tenuto.steps.callbacks import call_back, resolve
from tenuto.steps.transcript import all_messages
from tenuto.store.holding import around
from tenuto.structured.ask import ask

if TYPE_CHECKING:
    from tenuto.memory.bound import RunMemory
    from tenuto.memory.config import TitleOptions
    from tenuto.runs.journal import Journal
    from tenuto.runs.scoring import Aside
    from tenuto.steps.run import Run
    from tenuto.store.ports import ThreadRow

EVENT = "data-thread-title"
_log = logging.getLogger("tenuto")


def wants_title(run: Run, reason: FinishReason) -> TitleOptions | None:
    """How the thread of a run that ends gets its title; None when this run gives it none."""
    memory = run.memory
    if memory is None or not memory.writes or run.lineage or reason in {"aborted", "error", "tripwire", "suspended"}:
        return None
    return memory.config.generate_title


def begin_title(run: Run, reason: FinishReason, aside: Aside) -> None:
    """Have the thread of `run`, which has just ended, given its title by `aside`."""
    options = wants_title(run, reason)
    if options is None or options.emit_event:
        return

    async def work() -> None:
        around.leave()  # the run has ended: its callback may go on with the thread
        await give_title(run)

    task = aside(work, f"title of {run.thread_id}")
    if run.memory is not None and run.memory.memory is not None:
        run.memory.memory.asides.add(task)


async def announce_title(run: Run, journal: Journal) -> None:
    """Where its event was asked for: give the thread its title before the run ends, and show it."""
    options = wants_title(run, journal.state.reason)
    if options is None or not options.emit_event:
        return
    title = await give_title(run)
    memory = run.memory
    if title is not None and memory is not None:
        data = {"threadId": memory.thread, "title": title}
        await journal.stream([Data(EVENT, data, transient=True)], deltas=1)


async def give_title(run: Run) -> str | None:
    """Ask for a title and store it, unless the thread has one; the title, if it was stored by this."""
    memory = run.memory
    options = None if memory is None else memory.config.generate_title
    asked = live.process.get().titling
    if memory is None or options is None or memory.scope in asked:
        return None
    asked.add(memory.scope)
    try:
        title = await _titled(run, memory, options)
    except Exception:  # noqa: BLE001 - the result is out, or on its way
        _log.exception("Thread %s gets no title.", memory.thread)
        return None
    finally:
        asked.discard(memory.scope)
    if title is not None:
        await call_back(memory.on_title_generated, title, "on_title_generated")
    return title


async def _titled(run: Run, memory: RunMemory, options: TitleOptions) -> str | None:
    row = await threads.find(memory.store, memory.thread, memory.resource)
    messages = [message for message in all_messages(run) if message not in run.context]
    there = max(countable(messages), 0 if row is None else row.messages)
    text = transcript(messages)
    if row is None or row.title or there < options.min_messages or not text:
        return None
    model = options.model
    if callable(model) and not hasattr(model, "stream"):
        model = await resolve(model, run.request_context, run.definition.app)
    told = await resolve(options.instructions, run.request_context, run.definition.app)
    answer: str = await ask(run.model if model is None else model, str, text, instructions=told or INSTRUCTIONS)
    title = clean(answer)
    return None if title is None else await _stored(memory, title)


async def _stored(memory: RunMemory, title: str) -> str | None:
    mine = False

    def named(row: ThreadRow | None) -> ThreadRow | None:
        nonlocal mine
        mine = row is not None and not row.title
        return None if row is None or row.title else replace(row, title=title)

    await threads.change(memory.store, memory.thread, memory.resource, named)
    return title if mine else None
