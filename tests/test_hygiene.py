"""The fixtures that every test is held to are in place: what they watch still passes through where they listen."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests import conftest

pytest_plugins = ["pytester"]

PREAMBLE = """
import asyncio, logging
from tenuto import Agent
from tenuto.runs.output import RunOutput
from tenuto.testing import FakeProvider, Reply, ScriptedModel
"""

CAUGHT = {
    "a stream against the grammar": (
        """
        async def test_it():
            stream = await Agent(id="a", model=ScriptedModel("x")).stream("hi")
            await stream.consume_stream()
            stream._chunks.pop()
        """,
        "the stream breaks a rule",
    ),
    "a body that the vendor refuses": (
        """
        async def test_it():
            async with FakeProvider([Reply("x")], strict=False) as provider:
                agent = Agent(id="a", model={"id": "test/m", "url": provider.base_url})
                await agent.generate("hi", provider_options={"test": {"zip": 1}})
        """,
        "Extra inputs are not permitted",
    ),
    "a task that is left": (
        """
        async def test_it():
            global task
            task = asyncio.create_task(asyncio.sleep(3600))
        """,
        "tasks left after the test",
    ),
    "an exception that nobody retrieved": (
        """
        async def fail():
            raise ZeroDivisionError

        async def test_it():
            task = asyncio.create_task(fail())
            await asyncio.sleep(0)
            del task
        """,
        "Task exception was never retrieved",
    ),
    "a coroutine that nobody awaited": (
        """
        async def never():
            pass

        def test_it():
            never()
        """,
        "was never awaited",
    ),
}


ROOT = Path(__file__).parent.parent
INI = f"""
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
pythonpath = {ROOT}
"""


@pytest.mark.slow
def test_each_is_caught(pytester):
    """In one process of its own, for the fixtures under test watch this one, too."""
    names = [name for name in vars(conftest) if name.startswith("_") and not name.startswith("__")]
    pytester.makeconftest(f"from tests.conftest import clean_loop, {', '.join(names)}")
    pytester.makeini(INI)
    for number, (body, _) in enumerate(CAUGHT.values()):
        pytester.makepyfile(**{f"test_{number}": PREAMBLE + textwrap.dedent(body)})
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    found = result.stdout.str()
    summary = [line for line in found.splitlines() if line.startswith(("ERROR", "FAILED"))]
    for number, (name, (_, said)) in enumerate(CAUGHT.items()):
        assert any(f"test_{number}.py" in line for line in summary), name
        assert said in found, name
