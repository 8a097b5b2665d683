"""Work that nobody waits for."""

from __future__ import annotations

import asyncio

from tenuto.core import background
from tenuto.core.background import Background


async def test_a_few_go_on_at_a_time_and_an_orderly_end_waits_for_all():
    under_way, most, done = 0, 0, 0

    async def work():
        nonlocal under_way, most, done
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done += 1

    mine = Background.current()
    for _ in range(3 * background.AT_ONCE):
        mine.begin(work, "work")
    await mine.aclose()
    assert (done, most) == (3 * background.AT_ONCE, background.AT_ONCE)
    assert mine.tasks == set()
    await mine.aclose()


def test_each_loop_has_its_own():
    async def mine():
        return Background.current()

    assert asyncio.run(mine()) is not asyncio.run(mine())
