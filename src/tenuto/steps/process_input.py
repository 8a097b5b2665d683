"""Asks `process_input` once for each run: what it leaves of the call's messages is what is sent and stored.

Invariant: the input is recorded as the processors leave it; one that is blocked is recorded nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.messages.input import system_turns
from tenuto.processors.contexts import InputContext
from tenuto.steps.process_answer import read_change
from tenuto.steps.processing import chain_at, note_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenuto.messages.stored import Message
    from tenuto.messages.turns import SystemTurn
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run


async def process_input(
    run: Run, log: RunLog, system: tuple[SystemTurn, ...], given: Sequence[Message]
) -> tuple[tuple[SystemTurn, ...], Sequence[Message]]:
    """The system messages and the input as the processors leave them.

    Raises:
        Tripwire: One blocks the run.
        ProcessorError: One failed.
    """
    chain = chain_at(run, log)
    for hook in () if chain is None else chain["process_input"]:
        answer = await hook.ask(InputContext(hook.shared, tuple(given), system))
        messages, said = read_change(run, hook, answer)
        try:
            system = system if said is None else system_turns(said)
        except TypeError as error:
            raise hook.failed(error) from error
        given = given if messages is None else messages
    note_state(run, log)
    return system, given
