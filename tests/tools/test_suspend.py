"""A body that suspends, what it suspends with, and the data that bring it back."""

import asyncio
import contextlib
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, SecretStr
from typing_extensions import TypedDict

from tenuto.core.abort import AbortController
from tenuto.core.errors import ConfigurationError, RunError
from tenuto.tools import ToolContext, tool
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Aborted, Suspended, UnknownOutcome
from tenuto.tools.ports import MemoryLedger
from tenuto.tools.resume import (
    APPROVAL_SCHEMA,
    DEFAULT_DECLINE,
    Approved,
    Declined,
    read_decision,
    read_resume,
)


class Question(BaseModel):
    text: str
    choices: list[str] = []


class Answer(TypedDict):
    choice: str


@dataclass
class Amount:
    value: int


NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_suspension_is_an_outcome_with_payload_and_schema():
    @tool(suspend_schema=Question, resume_schema=Answer)
    async def asks(ctx: ToolContext, x: int) -> str:
        await ctx.suspend(Question(text=f"{x}?"))

    @tool(suspend_schema=Question, resume_schema=Answer)
    def asks_in_a_thread(ctx: ToolContext, x: int) -> str:
        ctx.suspend_sync({"text": f"{x}?"})

    for made in (asks, asks_in_a_thread):
        outcome = await run_tool(made, ToolContext(), {"x": 1})
        assert outcome.payload == {"text": "1?", "choices": []}
        assert outcome.resume_schema["properties"] == {"choice": {"title": "Choice", "type": "string"}}
        assert outcome.resume_schema["required"] == ["choice"]


async def test_without_schemas_any_json_will_do():
    @tool
    async def asks(ctx: ToolContext) -> None:
        await ctx.suspend(Amount(3))

    assert await run_tool(asks, ToolContext(), {}) == Suspended({"value": 3})

    @tool
    async def just_waits(ctx: ToolContext) -> None:
        await ctx.suspend()

    assert await run_tool(just_waits, ToolContext(), {}) == Suspended()


async def test_the_schema_of_one_suspension_goes_before_the_tools():
    @tool(resume_schema=Answer)
    async def asks(ctx: ToolContext, schema: str) -> None:
        await ctx.suspend("how much?", resume_schema=NUMBER if schema == "dict" else Amount)

    assert (await run_tool(asks, ToolContext(), {"schema": "dict"})).resume_schema == NUMBER
    outcome = await run_tool(asks, ToolContext(), {"schema": "type"})
    assert outcome.resume_schema["required"] == ["value"]
    # Its data stay JSON: the process that resumes does not have the type.
    assert read_resume(asks, {"value": 3}, outcome.resume_schema) == {"value": 3}
    with pytest.raises(RunError, match="value"):
        read_resume(asks, {"value": "three"}, outcome.resume_schema)


@pytest.mark.parametrize("payload", [{"choices": ["a"]}, 3, object()])
async def test_a_payload_that_does_not_fit_is_an_error_of_the_tool(payload):
    @tool(suspend_schema=Question)
    async def asks(ctx: ToolContext) -> None:
        await ctx.suspend(payload)

    outcome = await run_tool(asks, ToolContext(), {})
    assert isinstance(outcome, UnknownOutcome)
    assert outcome.error.id == "TOOL_SUSPEND_INVALID"
    assert "does not fit the tool's suspend_schema" in outcome.text


async def test_a_secret_in_a_payload_is_masked():
    class Login(BaseModel):
        token: SecretStr

    @tool(suspend_schema=Login)
    async def asks(ctx: ToolContext) -> None:
        await ctx.suspend(Login(token=SecretStr("s3cret")))

    assert (await run_tool(asks, ToolContext(), {})).payload == {"token": "**********"}


async def test_a_swallowed_suspension_is_still_one():
    def swallow(ctx):
        with contextlib.suppress(BaseException):
            ctx.suspend_sync("first")

    @tool
    async def returns(ctx: ToolContext) -> str:
        swallow(ctx)
        return "done"

    @tool
    async def raises(ctx: ToolContext) -> str:
        swallow(ctx)
        raise ValueError("no")

    @tool
    def asks_again(ctx: ToolContext) -> str:
        swallow(ctx)
        ctx.suspend_sync("second")

    @tool(timeout=0.01)
    async def hangs(ctx: ToolContext) -> str:
        swallow(ctx)
        await asyncio.Event().wait()

    for made in (returns, raises, asks_again, hangs):
        assert await run_tool(made, ToolContext(), {}) == Suspended("first")


async def test_a_suspension_in_a_task_of_the_tool_counts():
    @tool
    async def asks(ctx: ToolContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.suspend("why"))

    assert await run_tool(asks, ToolContext(), {}) == Suspended("why")


async def test_a_suspension_through_a_context_made_by_hand():
    @tool
    async def inner(ctx: ToolContext) -> None:
        await ctx.suspend("inner")

    @tool
    async def outer() -> None:
        await inner(ToolContext())

    assert await run_tool(outer, ToolContext(), {}) == Suspended("inner")


async def test_finally_and_with_run():
    ended = []

    @tool
    async def asks(ctx: ToolContext) -> None:
        try:
            await ctx.suspend()
        except Exception:  # noqa: BLE001
            ended.append("caught")
        finally:
            ended.append("finally")

    assert await run_tool(asks, ToolContext(), {}) == Suspended()
    assert ended == ["finally"]


async def test_an_abort_goes_before_a_suspension():
    controller = AbortController()

    @tool
    async def asks(ctx: ToolContext) -> None:
        controller.abort()
        await ctx.suspend()

    assert await run_tool(asks, ToolContext(abort_signal=controller.signal), {}) == Aborted()


async def test_the_whole_round():
    paid = []

    @tool(effects="idempotent", suspend_schema=Question, resume_schema=Amount)
    async def pay(ctx: ToolContext, order: str) -> list[object]:
        receipt = await ctx.step("reserve", lambda: paid.append(order) or "r1")
        if ctx.resume_data is None:
            await ctx.suspend(Question(text="how much?"))
        return [receipt, ctx.resume_data.value, ctx.suspend_payload["text"], ctx.args["order"]]

    ledger = MemoryLedger()
    suspended = await run_tool(pay, ToolContext(ledger=ledger), {"order": "A"})
    data = read_resume(pay, {"value": "7"}, suspended.resume_schema)
    assert data == Amount(7)
    context = ToolContext(ledger=ledger, attempt=2, resume_data=data, suspend_payload=suspended.payload)
    assert (await run_tool(pay, context, {"order": "A"})).result == ["r1", 7, "how much?", "A"]
    assert paid == ["A"]


@pytest.mark.parametrize("data", [False, 0, "", [], {"approved": True, "x": 1}])
def test_any_data_will_do_without_a_schema(data):
    @tool
    async def asks(ctx: ToolContext) -> None: ...

    assert read_resume(asks, data) == data  # S60: data with a key `approved` are not taken apart


def test_S62_data_that_do_not_fit_are_refused():
    @tool(resume_schema=Amount)
    async def asks(ctx: ToolContext) -> None: ...

    for data in ({"value": "x"}, {}, 3, None, object()):
        with pytest.raises(RunError, match="it stays suspended") as raised:
            read_resume(asks, data)
        assert raised.value.id == "AGENT_RESUME_INVALID_DATA"
        assert raised.value.category == "USER"

    @tool(resume_schema=NUMBER)
    async def counts(ctx: ToolContext) -> None: ...

    assert read_resume(counts, {"n": 3}) == {"n": 3}
    with pytest.raises(RunError, match="'n' is a required property"):
        read_resume(counts, {})


def test_a_schema_may_be_any_type_and_has_to_be_one():
    @tool(resume_schema=int | None)
    def either(ctx: ToolContext) -> None: ...

    @tool(resume_schema=list[int])
    def several(ctx: ToolContext) -> None: ...

    assert read_resume(either, None) is None
    assert read_resume(several, [1, 2]) == [1, 2]
    for wrong in ("Answer", 3, {"type": "number?"}, {"a": object()}):
        with pytest.raises(ConfigurationError, match="resume_schema"):
            tool(resume_schema=wrong)(lambda: None)

    class Opaque:
        pass

    @tool(resume_schema=Opaque)
    def opaque(ctx: ToolContext) -> None: ...

    with pytest.raises(ConfigurationError, match="has no JSON Schema"):
        read_resume(opaque, {})


@pytest.mark.parametrize(
    ("data", "decision"),
    [
        ({"approved": True}, Approved()),
        ({"approved": True, "reason": "fine"}, Approved("fine")),
        ({"approved": True, "note": "n"}, Approved(None, {"note": "n"})),  # S61
        ({"approved": False}, Declined(DEFAULT_DECLINE)),
        ({"approved": False, "reason": None}, Declined(DEFAULT_DECLINE)),
        ({"approved": False, "reason": ""}, Declined(DEFAULT_DECLINE)),
        ({"approved": False, "reason": "too much", "x": 1}, Declined("too much")),
        ({"approved": False, "declineContext": {"reason": "later"}}, Declined("later")),
        ({"approved": False, "declineContext": {"reason": 3}}, Declined(DEFAULT_DECLINE)),
    ],
)
def test_what_a_decision_says(data, decision):
    assert read_decision(data) == decision
    assert read_decision(data).approved is data["approved"]


@pytest.mark.parametrize(
    "data", [None, {}, True, "yes", {"approved": "true"}, {"approved": 1}, {"approved": None}, [True], object(),
             {"approved": True, "reason": 3}],
)  # fmt: skip
def test_what_is_no_decision_decides_nothing(data):
    with pytest.raises(RunError) as raised:
        read_decision(data)
    assert raised.value.id == "AGENT_RESUME_INVALID_DATA"


def test_the_schema_of_a_decision():
    assert APPROVAL_SCHEMA["required"] == ["approved"]
    assert DEFAULT_DECLINE == "Tool call was not approved by the user"
