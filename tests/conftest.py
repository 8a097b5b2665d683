"""What every test of the suite is held to, without asking for it.

Each stream obeys the grammar; each body sent to a fake provider is one that the vendor's own types accept; a test
leaves no task and no connection behind, and asyncio has nothing to complain about.
"""

from __future__ import annotations

import asyncio
import inspect
import logging

import pytest
from hypothesis import settings

from tenuto.models.sessions import close_session
from tenuto.runs.output import RunOutput
from tenuto.testing import FakeProvider, check_stream
from tests.oracle import assert_valid_chat_body, assert_valid_embeddings_body
from tests.oracle_anthropic import assert_valid_messages_body
from tests.oracle_gemini import assert_valid_gemini_body
from tests.oracle_responses import assert_valid_responses_body

settings.register_profile("tenuto", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("tenuto")

_ORACLES = {
    "/chat/completions": assert_valid_chat_body,
    "/embeddings": assert_valid_embeddings_body,
    "/responses": assert_valid_responses_body,
    "/messages": assert_valid_messages_body,
    "GenerateContent": assert_valid_gemini_body,
}
"""By a part of the path."""


@pytest.fixture(autouse=True)
def _streams_obey_the_grammar(monkeypatch):
    """Check every run of the test, also those that nobody read."""
    ended = []
    close = RunOutput._close

    def closing(output, status):
        ended.append(output)
        close(output, status)

    monkeypatch.setattr(RunOutput, "_close", closing)
    yield
    for output in ended:
        check_stream(output._chunks, middle=output._first_index != 0, complete=output._result is not None)


@pytest.fixture(autouse=True)
def _bodies_are_valid(monkeypatch):
    """Check every body of ours that a fake provider took, by the types of the vendor's package."""
    sent = []
    admit = FakeProvider._admit

    def admitting(provider, dialect, request):
        admit(provider, dialect, request)
        if request.headers.get("user-agent") == "tenuto":
            sent.append((request, provider._rules))

    monkeypatch.setattr(FakeProvider, "_admit", admitting)
    yield
    for request, rules in sent:
        allow = rules.allow_extra | ({"reasoning_content"} if rules.require_reasoning_echo else set())
        assert_valid = next(check for path, check in _ORACLES.items() if path in request.path)
        assert_valid(request.body, allow=frozenset(allow))


@pytest.fixture(autouse=True)
def _asyncio_has_no_complaint():
    """Fail when asyncio logs an error, such as an exception that nobody retrieved."""
    complaints = []

    class Keep(logging.Handler):
        def emit(self, record):
            complaints.append(record.getMessage())

    handler = Keep(logging.ERROR)
    logging.getLogger("asyncio").addHandler(handler)
    yield
    logging.getLogger("asyncio").removeHandler(handler)
    assert not complaints


@pytest.fixture(autouse=True)
def _the_loop_is_left_clean(request):
    """For tests on a loop of their own; the fixture behind it runs on that loop."""
    if inspect.iscoroutinefunction(request.function):
        request.getfixturevalue("clean_loop")


@pytest.fixture
async def clean_loop(request):
    """Close the loop's connections when the test is over, then look for tasks that are left."""
    yield
    await close_session()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    if hasattr(request.module, "openai"):  # the vendor's client leaves generators, and Python closes them in tasks
        left = {task for task in left if "async_generator_athrow" not in repr(task)}
    assert not left, f"tasks left after the test: {sorted(map(repr, left))}"
