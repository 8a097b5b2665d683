"""Clock, ids, failpoints."""

import pytest

from tenuto.core import faults
from tenuto.core.clock import SystemClock
from tenuto.core.ids import CountingIds, RandomIds


async def test_the_machine_s_clock():
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now() > 1_600_000_000


def test_random_ids_name_their_kind_and_do_not_repeat():
    ids = {RandomIds().new("run") for _ in range(100)}
    assert len(ids) == 100
    assert {each[:4] for each in ids} == {"run_"}


def test_counting_ids_count_by_kind():
    ids = CountingIds()
    assert [ids.new(kind) for kind in ("run", "msg", "msg")] == ["run_1", "msg_1", "msg_2"]


def test_a_failpoint_calls_its_hook_while_there_is_one():
    faults.hit("before")
    passed = []
    faults.install(passed.append)
    try:
        faults.hit("during")
    finally:
        faults.install(None)
    faults.hit("after")
    assert passed == ["during"]


def test_what_a_failpoint_raises_comes_out():
    def hook(name):
        raise KeyboardInterrupt(name)

    faults.install(hook)
    try:
        with pytest.raises(KeyboardInterrupt, match="here"):
            faults.hit("here")
    finally:
        faults.install(None)
