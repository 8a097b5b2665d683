"""One stage for the whole session: a nursery and a provider."""

import faulthandler
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.proof.cells import perform
from tests.proof.stage import Stage

AT_ONCE = 4
"""Cells that are played at the same time: each mostly waits for its processes."""


@pytest.fixture(scope="session")
def stage(tmp_path_factory):
    with Stage(tmp_path_factory.mktemp("proof")) as stage:
        yield stage


@pytest.fixture
def patient():
    """For a test that is long by intent: each wait in it has its own deadline, the whole has none."""
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def play(stage, tmp_path):
    """Plays a cell and judges it."""
    return lambda cell: perform(stage, tmp_path, cell, tmp_path.name)


@pytest.fixture(scope="module")
def played(stage, request, tmp_path_factory):
    """The cells of the module's tests that were selected, by test: all are played from the first test on."""
    place = tmp_path_factory.mktemp("cells")
    cells = {
        item.name: item.callspec.params["cell"]
        for item in request.session.items
        if item.path == request.path and "cell" in getattr(getattr(item, "callspec", None), "params", {})
    }
    pool = ThreadPoolExecutor(AT_ONCE)
    try:
        yield {
            name: pool.submit(perform, stage, place / str(number), cell, f"{place.name}-{number}")
            for number, (name, cell) in enumerate(cells.items())
        }
    finally:
        pool.shutdown(cancel_futures=True)
