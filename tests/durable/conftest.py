"""A world of simulated processes for each test of this room, on each store."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest

from tests.durable.kit import world_of

PATIENCE = 20.0
"""Real seconds after which a test says where it hangs."""


@pytest.fixture(params=["memory", "sqlite"])
async def world(request, tmp_path):
    async with world_of(request.param, tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def _no_test_hangs(request):
    """A run that never ends is what these tests are about: fail, where a hang would end the whole session."""
    test = request.node.obj
    if not inspect.iscoroutinefunction(test):
        return

    @functools.wraps(test)
    async def in_time(*args, **given):
        async with asyncio.timeout(PATIENCE):
            await test(*args, **given)

    request.node.obj = in_time
