"""The processors of a run: found and bound to it, and what follows when one blocks, rejects or fails.

Invariant: a run without processors has no chain and pays nothing. What a processor decided is in the journal with the
state it had then, before anything follows from it; a run never goes on without the processors it was begun with.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from tenuto.core import chunks as c
from tenuto.core.errors import ConfigurationError
from tenuto.machine.records import Blocked, ProcessorState
from tenuto.messages.turns import Prompt, SystemTurn
from tenuto.steps.callbacks import resolve
from tenuto.steps.failure import error_info
from tenuto.tools.writer import read_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tenuto.core.errors import TenutoError
    from tenuto.machine.records import Said
    from tenuto.processors.chain import Chain
    from tenuto.processors.contexts import Surroundings
    from tenuto.processors.tripwire import Tripwire
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

LISTS = ("input", "output", "error")
API_ERROR_RETRIES = 3
"""How often a failed model is asked again at a processor's word, when nobody said."""

_log = logging.getLogger("tenuto")


class RunScreen:
    """What processors write to: see `processors.ports.Writer`.

    Attributes:
        log: Of the driver that is at work; without one, what is written is dropped.
    """

    def __init__(self, log: RunLog | None = None) -> None:
        self.log: RunLog | None = log

    async def custom(self, chunk: Mapping[str, Any] | c.Data, *, message_id: str | None = None) -> None:
        """See `Writer.custom`."""
        del message_id
        data = read_data(chunk)
        if self.log is None:
            return
        if data.transient:
            await self.log.stream([data], deltas=1)
        else:
            await self.log.commit(chunks=[data])


async def bind_processors(run: Run) -> None:
    """Find the processors of `run`, the call's in place of the agent's, list by list.

    Raises:
        ConfigurationError: `AGENT_PROCESSOR_INVALID`; `AGENT_PROCESSORS_MISSING`: the run was begun with processors of
            its call, and this process does not have them.
    """
    if lost := [name for name in run.degraded if name.endswith("_processors")]:
        raise _missing(run, lost)
    if all(_given(run, f"{name}_processors") is None for name in LISTS):
        return
    given: dict[Any, Any] = {name: await _list(run, f"{name}_processors") for name in LISTS}
    if not any(given.values()):
        return
    from tenuto.processors.chain import Chain
    from tenuto.processors.state import States

    run.states = run.states or States()
    run.screen = run.screen or RunScreen()
    run.chain = Chain(given, lambda _: _surroundings(run), run.states)
    own = run.definition.max_processor_retries
    run.processor_retries = run.options.max_processor_retries
    if run.processor_retries is None and own is not None:
        run.processor_retries = await resolve(own, run.request_context, run.definition.app)


def _given(run: Run, name: str) -> Any:
    given = getattr(run.options, name)
    return getattr(run.definition, name) if given is None else given


async def _list(run: Run, name: str) -> tuple[Any, ...]:
    given = _given(run, name)
    if given is None:
        return ()
    from tenuto.processors.chain import read_processors

    return read_processors(await resolve(given, run.request_context, run.definition.app), name)


def _surroundings(run: Run) -> Surroundings:
    from tenuto.processors.contexts import Surroundings

    assert run.screen is not None  # noqa: S101 - made beside the chain
    return Surroundings(
        run_id=run.run_id,
        agent_id=run.definition.id,
        agent_name=run.definition.name,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        request_context=run.request_context,
        abort_signal=run.abort.signal,
        writer=run.screen,
        app=run.definition.app,
        clock=run.clock,
    )


def _missing(run: Run, lost: list[str]) -> ConfigurationError:
    message = (
        f"Run {run.run_id!r} was begun with {', '.join(f'{name}=' for name in lost)} of its call, which this process "
        "does not have, and it must not go on without them; pass them again."
    )
    return ConfigurationError(message, id="AGENT_PROCESSORS_MISSING", domain="AGENT")


def chain_at(run: Run, log: RunLog) -> Chain | None:
    """The processors of `run` at this moment: they write to `log` and know how often the answer was made again."""
    if run.chain is not None and run.screen is not None:
        run.screen.log = log
        run.chain.retries(log.state.rejections)
    return run.chain


def base_prompt(run: Run) -> Prompt:
    """The prompt of the next model call before anything changes it for that call alone."""
    if not run.corrections:
        return run.prompt
    return Prompt((*run.prompt.system, *map(_correction, run.corrections)), run.prompt.turns)


def _correction(reason: str) -> SystemTurn:
    return SystemTurn(
        f"Your previous answer was not accepted: {reason}\nIt is not part of the conversation. Answer again, so that "
        "this does not apply."
    )


def may_reject(run: Run, log: RunLog, tripwire: Tripwire) -> bool:
    """Whether the answer may be made again, as `tripwire` asks for."""
    if not tripwire.retry:
        return False
    limit = run.processor_retries
    if limit is None:
        _log.warning(
            "Run %s: processor %r asks for another answer, and max_processor_retries= is not set; the run is blocked.",
            run.run_id,
            tripwire.processor_id,
        )
        return False
    return log.state.rejections < limit and log.state.step < log.state.max_steps


def note_state(run: Run, log: RunLog) -> None:
    """Write down what processors remember, if it has changed, with the next commit."""
    if run.states is not None and (changed := run.states.changes()):
        log.note(ProcessorState(changed))


async def block(run: Run, log: RunLog, tripwire: Tripwire, said: Said | None = None) -> None:
    """Record that a processor blocked the run; the machine ends it then."""
    note_state(run, log)
    await log.commit(Blocked(tripwire.payload, said=said))


async def fail(run: Run, log: RunLog, error: TenutoError) -> None:
    """Record that a processor failed, beside other work of the step; the machine ends the run then."""
    note_state(run, log)
    await log.commit(Blocked(error=error_info(error)))


async def strained(run: Run, log: RunLog, chunks: Sequence[c.AnyChunk]) -> tuple[Sequence[c.AnyChunk], Tripwire | None]:
    """The chunks as `process_output_stream` leaves them; with a tripwire, those before the one that was blocked.

    Raises:
        ProcessorError: A processor that is `fail_closed` failed.
    """
    chain = chain_at(run, log)
    if chain is None or chain.stream is None or not chunks:
        return chunks, None
    return await chain.stream.strain(chunks)
