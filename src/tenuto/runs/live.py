"""What one process has of its runs for itself: who drives which, and of a parked run the options only it has.

Invariant: an entry is a shortcut, never the truth: without it everything is found in the store. Whatever belongs to a
process as a whole hangs on `Process`, so that a test can have several of them in one interpreter.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tenuto.runs.lease import Renewer, keeper_of
from tenuto.runs.turns import Lines

if TYPE_CHECKING:
    from tenuto.runs.driver import Driver
    from tenuto.runs.supervisor import Supervisor
    from tenuto.steps.run import StepInputs
    from tenuto.store.ports import RunStore, Scope

PARKED_KEPT = 1_000
"""Options of parked runs that are remembered; of an older one its callbacks and other functions are gone."""


class Process:
    """What a process has for itself.

    Args:
        renewer_of: Who keeps the leases of a store alive.

    Attributes:
        drivers: At work, by run id.
        parked: The options of parked runs, as they were given, the oldest first.
        inputs: What `prepare_step` put in place for the steps that parked runs wait in.
        lines: Who waits for which thread.
        titling: Threads that a title is being made for.
        supervisors: By event loop.
    """

    def __init__(self, renewer_of: Callable[[RunStore], Renewer] = keeper_of) -> None:
        self.renewer_of: Callable[[RunStore], Renewer] = renewer_of
        self.drivers: dict[str, Driver] = {}
        self.parked: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        self.inputs: dict[str, StepInputs] = {}
        self.lines: Lines = Lines()
        self.titling: set[Scope] = set()
        self.supervisors: WeakKeyDictionary[asyncio.AbstractEventLoop, Supervisor] = WeakKeyDictionary()


process: ContextVar[Process] = ContextVar("tenuto process", default=Process())  # noqa: B039 - it is one for all
"""The process that the current task belongs to: the interpreter's own, unless a test has set another."""


def enter(driver: Driver) -> None:
    """`driver` drives its run from now on."""
    process.get().drivers[driver.run.run_id] = driver


def park(driver: Driver) -> None:
    """The run of `driver` waits: its options are remembered, before anybody is told that it waits."""
    run, here = driver.run, process.get()
    if run.asked is None:
        return
    here.parked[run.run_id] = run.asked
    if run.inputs.step:
        here.inputs[run.run_id] = run.inputs
    while len(here.parked) > PARKED_KEPT:
        oldest, _ = here.parked.popitem(last=False)
        here.inputs.pop(oldest, None)


def leave(driver: Driver, *, parked: bool) -> None:
    """`driver` has let go of its run; of one that does not wait nothing is remembered."""
    run_id, here = driver.run.run_id, process.get()
    if here.drivers.get(run_id) is driver:
        del here.drivers[run_id]
        if not parked:
            here.parked.pop(run_id, None)
            here.inputs.pop(run_id, None)


def driver_of(run_id: str) -> Driver | None:
    """The driver of the run in this process."""
    return process.get().drivers.get(run_id)


def inputs_of(run_id: str) -> StepInputs | None:
    """What the step is made of that a run waits in which this process parked."""
    return process.get().inputs.get(run_id)


def asked_of(run_id: str) -> Mapping[str, Any] | None:
    """The options, as they were given, of a run that this process parked."""
    return process.get().parked.get(run_id)
