"""Which runs are driven in this process, and what of a parked run's options only this process has.

Invariant: an entry is a shortcut, never the truth: without it everything is found in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto.runs.driver import Driver

PARKED_KEPT = 1_000
"""Options of parked runs that are remembered; of an older one its callbacks and other functions are gone."""

_drivers: dict[str, Driver] = {}
_parked: OrderedDict[str, Mapping[str, Any]] = OrderedDict()


def enter(driver: Driver) -> None:
    """`driver` drives its run from now on."""
    _drivers[driver.run.run_id] = driver


def leave(driver: Driver, *, parked: bool) -> None:
    """`driver` has let go of its run; a parked one's options are remembered."""
    run = driver.run
    if _drivers.get(run.run_id) is driver:
        del _drivers[run.run_id]
    if parked:
        _parked[run.run_id] = run.asked
        while len(_parked) > PARKED_KEPT:
            _parked.popitem(last=False)
    else:
        _parked.pop(run.run_id, None)


def driver_of(run_id: str) -> Driver | None:
    """The driver of the run in this process."""
    return _drivers.get(run_id)


def asked_of(run_id: str) -> Mapping[str, Any] | None:
    """The options, as they were given, of a run that this process parked."""
    return _parked.get(run_id)
