"""One call, exactly one outcome; nothing of a tool outlives it."""

import asyncio
import contextvars
import threading

import pytest

from tenuto.core.abort import AbortController
from tenuto.core.errors import ToolError
from tenuto.tools import ToolContext, ToolFailed, tool
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Aborted, Failed, Ok, UnknownOutcome


async def run(made, args=None, **context):
    return await run_tool(made, ToolContext(**context), args)


def other_tasks():
    return asyncio.all_tasks() - {asyncio.current_task()}


async def test_an_async_tool_gets_the_context_and_validated_arguments():
    seen = []

    @tool
    async def greet(ctx: ToolContext[str], name: str, times: int = 1) -> str:
        seen.append(ctx)
        return f"{ctx.deps} {name}" * times

    outcome = await run(greet, {"name": "Ann", "times": "2"}, deps="Hello", idempotency_key="k")
    assert outcome == Ok("Hello AnnHello Ann", "Hello AnnHello Ann")
    assert seen[0].idempotency_key == "k"


async def test_a_sync_tool_runs_in_a_thread_with_the_context_variables():
    user = contextvars.ContextVar("user")

    @tool
    def look() -> list[object]:
        name = user.get()
        user.set("changed")
        return [name, threading.current_thread() is threading.main_thread()]

    user.set("ann")
    assert (await run(look)).result == ["ann", False]
    assert user.get() == "ann"


async def test_K05_sync_tools_run_at_the_same_time_and_the_loop_stays_free():
    both = threading.Barrier(2)
    beat = threading.Event()

    @tool
    def meet(name: str) -> str:
        both.wait(30)  # passes only when the two bodies run at once
        assert beat.wait(30)  # and only when the event loop runs meanwhile
        return name

    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, beat.set)
    first, second = await asyncio.gather(run(meet, {"name": "a"}), run(meet, {"name": "b"}))
    assert (first.result, second.result) == ("a", "b")


async def test_more_sync_tools_than_any_pool_has_threads_run_at_once():
    everyone = threading.Barrier(64)

    @tool
    def meet() -> int:
        return everyone.wait(30)

    outcomes = await asyncio.gather(*(run(meet) for _ in range(64)))
    assert sorted(each.result for each in outcomes) == list(range(64))


async def test_B17_a_tool_that_cancels_itself_harms_no_sibling():
    @tool
    async def fine() -> int:
        return 1

    @tool
    async def raises() -> None:
        raise ValueError("bad")

    @tool
    async def cancels() -> None:
        raise asyncio.CancelledError

    @tool
    async def cancels_its_task() -> None:
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    calls = [run(each) for each in (fine, raises, cancels, cancels_its_task)]
    ok, raised, *cancelled = await asyncio.gather(*calls)
    assert ok == Ok(1, "1")
    assert isinstance(raised, UnknownOutcome)
    assert raised.text.startswith("ValueError: bad")
    assert [type(each) for each in cancelled] == [UnknownOutcome, UnknownOutcome]
    assert "CancelledError" in cancelled[0].text
    assert not other_tasks()
    assert not asyncio.current_task().cancelling()


async def test_K07_cancelling_the_caller_cancels_and_joins_the_tool():
    started, ended = asyncio.Event(), []

    @tool
    async def works() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    caller = asyncio.create_task(run(works))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ended == ["cleaned up"]
    assert not other_tasks()


async def test_K07_asyncio_timeout_around_the_call_works_too():
    ended = []

    @tool
    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await run(works)
    assert not other_tasks()
    assert len(ended) <= 1


async def test_K07_a_second_cancellation_reaches_a_tool_that_resisted_the_first():
    started, resisted = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            resisted.set()
            await asyncio.Event().wait()

    caller = asyncio.create_task(run(stubborn))
    await started.wait()
    caller.cancel()
    await resisted.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not other_tasks()


async def test_a_cancelled_caller_leaves_a_thread_to_itself():
    started, release, over = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    @tool
    def works() -> None:
        loop.call_soon_threadsafe(started.set)
        release.wait(30)
        over.set()

    caller = asyncio.create_task(run(works))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not other_tasks()
    release.set()
    assert over.wait(30)
    await asyncio.sleep(0)  # the late answer arrives and is dropped


def test_a_thread_that_ends_after_its_loop_is_harmless():
    started, release, over = threading.Event(), threading.Event(), threading.Event()

    @tool(timeout=1e-9)
    def works() -> None:
        started.set()
        release.wait(30)
        over.set()

    assert isinstance(asyncio.run(run(works)), UnknownOutcome)
    assert started.wait(30)
    release.set()
    assert over.wait(30)


@pytest.mark.parametrize(
    ("effects", "kind"), [("none", Failed), ("idempotent", UnknownOutcome), ("once", UnknownOutcome)]
)
async def test_at_the_timeout_the_tool_is_cancelled_and_joined(effects, kind):
    ended = []

    @tool(timeout=1e-9, effects=effects)
    async def works() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.append(True)
        return "late"

    outcome = await run(works)
    assert isinstance(outcome, kind)
    assert outcome.error.id == "TOOL_TIMEOUT"
    assert "did not finish within 1e-09 s" in outcome.text
    assert ("may have taken effect" in outcome.text) is (kind is UnknownOutcome)
    assert not other_tasks()
    assert len(ended) <= 1


class Odd(BaseException):
    pass


ERRORS = [
    (ValueError("bad"), "ValueError: bad"),
    (KeyError("k"), "KeyError: 'k'"),
    (RuntimeError(), "RuntimeError"),
    (Odd("x"), "Odd: x"),
    (GeneratorExit(), "GeneratorExit"),
    (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "ValueError: a; KeyError: 'b'"),
    (FileNotFoundError(2, "No such file", "/home/ann/secret/plan.txt"), "No such file: '[path]'"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_whatever_the_body_raises_is_an_outcome(is_async, error, text):
    async def asynchronous() -> None:
        raise error

    def synchronous() -> None:
        raise error

    body = asynchronous if is_async else synchronous
    outcome = await run(tool(body))
    assert isinstance(outcome, UnknownOutcome)
    assert outcome.error is error
    assert text in outcome.text
    assert "may have taken effect" in outcome.text
    outcome = await run(tool(effects="none")(body))
    assert isinstance(outcome, Failed)
    assert "may have taken effect" not in outcome.text


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_stop_iteration_does_not_hang_the_call(is_async):
    async def asynchronous() -> None:
        raise StopIteration("end")

    def synchronous() -> None:
        raise StopIteration("end")

    outcome = await run(tool(asynchronous if is_async else synchronous))
    assert isinstance(outcome, UnknownOutcome)
    assert "StopIteration" in outcome.text


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_the_end_of_the_process_passes_through(error):
    @tool
    async def asynchronous() -> None:
        raise error

    @tool
    def synchronous() -> None:
        raise error

    for made in (asynchronous, synchronous):
        with pytest.raises(error):
            await run(made)
    assert not other_tasks()


async def test_tool_failed_says_surely_no_effect_in_its_own_words():
    @tool
    async def pay() -> None:
        raise ToolFailed("Card /a/b/c declined.") from ValueError("x")

    outcome = await run(pay)
    assert isinstance(outcome, Failed)
    assert outcome.text == "Card /a/b/c declined."
    assert outcome.result is None
    assert isinstance(outcome.error.__cause__, ValueError)


async def test_an_error_text_is_bounded_and_shows_no_traceback():
    @tool
    async def fails() -> None:
        raise ValueError("Traceback (most recent call last):\n  File '/srv/app/main.py'\n" + "x" * 100_000)

    @tool
    async def shouts() -> None:
        raise ValueError("x" * 100_000)

    assert "/srv/app" not in (await run(fails)).text
    assert len((await run(shouts)).text) < 2_200


async def test_a_path_the_model_sent_may_be_named():
    @tool
    async def read(path: str) -> str:
        raise FileNotFoundError(f"{path} is not under /srv/private/files, see https://example.org/a/b")

    text = (await run(read, {"path": "/notes/today.txt"})).text
    assert "/notes/today.txt is not under [path], see https://example.org/a/b" in text


async def test_refused_arguments_never_reach_the_body():
    called = []

    @tool
    async def pay(amount: int) -> None:
        called.append(amount)

    outcome = await run(pay, {"amount": "much"})
    assert isinstance(outcome, Failed)
    assert outcome.result["error"] is True
    assert outcome.result["message"] == outcome.text
    assert not called


async def test_B15_arguments_that_are_no_json_are_an_answer_and_the_corrected_call_runs_once():
    called = []

    @tool
    async def tag(tagIds: list[str]) -> int:  # noqa: N803
        called.append(tagIds)
        return len(tagIds)

    outcome = await run(tag, '{"{"tagIds":[')
    assert isinstance(outcome, Failed)
    assert "not valid JSON" in outcome.text
    assert '{"{"tagIds":[' in outcome.text
    assert outcome.result["validationErrors"] == {"errors": ["not valid JSON"], "fields": {}}
    assert not called
    assert (await run(tag, {"tagIds": ["a"]})).result == 1
    assert called == [["a"]]


async def test_B21_a_huge_result_is_cut_for_the_model_only():
    huge = "x" * 2_000_000

    @tool
    async def read() -> str:
        return huge

    outcome = await run(read)
    assert outcome.result == huge
    assert len(outcome.text) == 50_000
    assert outcome.text.endswith(f"[cut: {len(huge) - outcome.text.count('x')} more characters were left out]")
    outcome = await run(tool(max_result_chars=500)(read.fn))
    assert len(outcome.text) == 500


async def test_a_result_that_is_no_json_is_an_answer_too():
    @tool
    async def forgets():
        return asyncio.sleep(0)

    @tool
    def opens():
        return {"rows": [1, object()]}

    outcome = await run(forgets)
    assert isinstance(outcome, UnknownOutcome)
    assert "was not awaited" in outcome.text
    outcome = await run(opens)
    assert isinstance(outcome.error, ToolError)
    assert "$.rows[1] is a value of type object" in outcome.text
    assert "may have taken effect" in outcome.text


async def test_after_an_abort_no_body_starts():
    called = []

    @tool
    async def pay() -> None:
        called.append(True)

    controller = AbortController()
    controller.abort()
    assert await run(pay, abort_signal=controller.signal) == Aborted()
    assert not called


async def test_an_error_after_an_abort_is_an_abort_and_a_result_stays_a_result():
    controller = AbortController()

    @tool
    async def notices(ctx: ToolContext, raises: bool) -> str:
        controller.abort()
        await ctx.abort_signal.wait()
        if raises:
            raise ValueError("stopped")
        return "done"

    controller = AbortController()
    outcome = await run(notices, {"raises": True}, abort_signal=controller.signal)
    assert isinstance(outcome, Aborted)
    assert isinstance(outcome.error, ValueError)
    controller = AbortController()
    assert await run(notices, {"raises": False}, abort_signal=controller.signal) == Ok("done", "done")


async def test_a_decorated_async_function_is_awaited():
    def logged(fn):
        from functools import wraps

        @wraps(fn)
        def wrapper(*args, **kwargs):
            return fn(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def double(x: int) -> int:
        return 2 * x

    assert (await run(double, {"x": 2})).result == 4
