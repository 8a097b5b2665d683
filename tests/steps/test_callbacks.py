"""How the runtime calls what a user gave, and how an exception becomes something the log can hold."""

from __future__ import annotations

import asyncio
import functools

import pytest

from tenuto.errors import ModelError, TenutoError
from tenuto.steps.callbacks import call_back, resolve
from tenuto.steps.failure import MESSAGE_LIMIT, error_info


class Method:
    def one(self, context):
        return ("one", context)

    def none(self):
        return "none"

    def __call__(self, context):
        return ("called", context)


async def later(context):
    await asyncio.sleep(0)
    return ("later", context)


def keyword_only(*, app=None):
    return ("keyword only", app)


VALUES = {
    "a value": (3, 3),
    "None": (None, None),
    "a function": (lambda context: ("f", context), ("f", 7)),
    "of nothing": (lambda: "nothing", "nothing"),
    "of a default": (lambda context=1: ("default", context), ("default", 7)),
    "of anything": (lambda *args: args, (7,)),
    "a method": (Method().one, ("one", 7)),
    "a method of nothing": (Method().none, "none"),
    "an object": (Method(), ("called", 7)),
    "a coroutine function": (later, ("later", 7)),
    "a partial": (functools.partial(later), ("later", 7)),
    "of keywords only": (keyword_only, ("keyword only", None)),
}


@pytest.mark.parametrize(("value", "found"), VALUES.values(), ids=VALUES)
async def test_a_dynamic_value(value, found):
    assert await resolve(value, 7) == found


async def test_a_dynamic_value_that_fails_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        await resolve(lambda _: 1 / 0, 7)


async def test_a_callback_is_called_with_the_event_and_may_fail(caplog):
    seen = []
    await call_back(seen.append, 7, "on_x")
    await call_back(None, 7, "on_x")
    assert await call_back(later, 7, "on_x") == ("later", 7)
    assert await call_back(lambda _: 1 / 0, 7, "on_x") is None
    assert seen == [7]
    assert "The callback on_x failed" in caplog.text


async def test_a_cancelled_callback_is_no_failure():
    async def wait(_):
        await asyncio.Event().wait()

    task = asyncio.create_task(call_back(wait, 7, "on_x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_error_in_the_log():
    error = ModelError("no", code="c", type="t", status=429, retryable=True, details={"a": 1})
    info = error_info(error)
    assert (info.name, info.message, info.id, info.category) == (
        "ModelError",
        "no",
        "AGENT_STREAM_ERROR",
        "THIRD_PARTY",
    )
    assert (info.code, info.type, info.status, info.retryable, info.details) == ("c", "t", 429, True, {"a": 1})
    plain = error_info(ValueError("x" * 10_000))
    assert (plain.name, plain.id) == ("ValueError", None)
    assert len(plain.message) == MESSAGE_LIMIT
    assert error_info(TenutoError("x")).details is None
