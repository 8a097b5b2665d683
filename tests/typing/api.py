"""What must type-check, under pyright strict and mypy strict: the public API as its users write it."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Literal, assert_type

from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypedDict

from tenuto import Agent, RequestContext, StructuredOutput, ToolContext, create_durable_agent, create_tool, tool
from tenuto.tools import (
    Applied,
    ApprovalRequest,
    NotApplied,
    StepUnknown,
    Tool,
    ToolAfterHookContext,
    ToolFailed,
    ToolHookContext,
    TransformContext,
    Unknown,
    provider_tool,
)


@dataclass
class Services:
    user: str


@dataclass
class Tenant:
    plan: str


@tool
async def balance(ctx: ToolContext[Services], currency: str = "EUR") -> float:
    """The balance."""
    return len(ctx.deps.user) + len(currency)


@tool(effects="idempotent", timeout=30)
async def upgrade(ctx: ToolContext[Services, Tenant], plan: str) -> bool:
    """Change the plan."""
    if plan == ctx.values.plan:
        raise ToolFailed("It is the plan already.")
    return bool(ctx.idempotency_key)


@tool
async def now() -> str:
    """The time."""
    return "12:00"


@tool(id="add", effects="none", strict=True, title="Add", max_result_chars=1_000, description="Add.")
def add(a: int, b: int = 2) -> int:
    return a + b


@tool
def where(ctx: ToolContext, place: str) -> str:
    """A context without types: a tool that any agent can have."""
    return f"{ctx.run_id} {place}"


class Question(BaseModel):
    text: str


class Answer(TypedDict):
    amount: int


async def look_up(ctx: ToolContext[Services]) -> Applied | NotApplied | Unknown:
    """What became of a payment."""
    if not ctx.deps.user:
        return Unknown()
    return Applied({"id": ctx.idempotency_key}) if ctx.args else NotApplied()


def look_up_sync(ctx: ToolContext[Any, Any]) -> Applied | NotApplied | Unknown:
    return NotApplied()


async def ask_for_large(args: dict[str, Any]) -> bool:
    return bool(args["amount"] > 100)


async def never(request: ApprovalRequest) -> bool:
    assert_type(request.tool_name, str)
    assert_type(request.args, Mapping[str, Any])
    return request.request_context.has("admin")


async def charge(user: str, amount: Decimal) -> str:
    return f"{user} {amount}"


@tool(
    effects="once",
    key=("order_id", "amount"),
    key_scope="thread",
    require_approval=ask_for_large,
    reconcile=look_up,
    on_unknown="suspend",
    suspend_schema=Question,
    resume_schema=Answer,
    timeout=30,
)
async def refund(ctx: ToolContext[Services], order_id: str, amount: Decimal) -> str:
    """Refund an order."""
    try:
        receipt = await ctx.step("charge", charge, ctx.deps.user, amount, effects="once")
    except StepUnknown:
        receipt = await ctx.step("look up", lambda: order_id, effects="none")
    if ctx.resume_data is None:
        await ctx.suspend(Question(text="How much?"), resume_schema={"type": "object"})
    return str(receipt)


@tool(key=["order_id"], require_approval=lambda args: args["order_id"] == "A", reconcile=look_up_sync)
def cancel(ctx: ToolContext, order_id: str) -> str:
    receipt = ctx.step_sync("cancel", len, order_id, effects="idempotent")
    if ctx.suspend_payload is None:
        ctx.suspend_sync({"text": "Sure?"}, resume_schema=int | None)
    return str(receipt)


@tool(suspend_schema={"type": "string"}, resume_schema=list[int], require_approval=True)
async def pick(ctx: ToolContext) -> int:
    await ctx.suspend("Which?", resume_schema=Services)


async def ask(question: Question, ctx: ToolContext[Services]) -> int:
    await ctx.writer.write({"asked": question.text})
    return len(ctx.deps.user + question.text)


asking = create_tool(id="ask", description="Ask.", input_schema=Question, execute=ask, effects="none", timeout=3)
typed: Tool[Services, [Question, ToolContext[Services]], Coroutine[Any, Any, int]] = asking
counting = create_tool(id="count", input_schema={"type": "object"}, execute=lambda args: 3)
of_the_client = create_tool(id="where", description="Where the user is.", input_schema=Question)
searching = provider_tool("openai.web_search", args={"search_context_size": "low"})


def guard(event: ToolHookContext) -> None:
    assert_type(event.tool_name, str)


async def audit(event: ToolAfterHookContext) -> None:
    assert_type(event.error, BaseException | None)


def mask(context: TransformContext) -> object:
    return context.tool_name


guarded = Agent[Services](
    id="guarded",
    model="openai/gpt-x",
    tools=[asking, counting, of_the_client, searching],
    hooks={"before_tool_call": guard, "after_tool_call": audit},
    transform={"transform_tool_payload": mask, "targets": ["display"]},
)


async def plain(text: str) -> str:
    return text


def plain_with_context(ctx: ToolContext[Services], text: str) -> str:
    return ctx.deps.user + text


class Shop:
    def price(self, item: str) -> int:
        return len(item)


def connect(context: RequestContext) -> Services:
    return Services(str(context.get("user")))


async def connect_later(context: RequestContext) -> Services:
    return Services(str(context.get("user")))


# The type of the dependencies: stated, from a value, from a factory.
stated = Agent[Services](
    id="stated",
    instructions="Be brief.",
    model="openai/gpt-x",
    tools=[balance, upgrade, now, add, where, plain, plain_with_context, Shop().price, partial(plain, text="x")],
)
by_value = Agent(id="by-value", model="openai/gpt-x", tools=[now, balance, plain], deps=Services("ann"))
by_factory = Agent(id="by-factory", model="openai/gpt-x", tools=[balance, now], deps=connect)
by_async_factory = Agent(id="by-async", model="openai/gpt-x", tools={"money": balance, "time": now}, deps=connect_later)
assert_type(stated, Agent[Services, str])
assert_type(by_value, Agent[Services, str])
assert_type(by_factory, Agent[Services, str])
assert_type(by_async_factory, Agent[Services, str])

# No dependencies.
bare = Agent(id="bare", model="openai/gpt-x")
free = Agent(id="free", name="Free", model="openai/gpt-x", tools=[now, add, where, plain, len])
named = Agent(id="named", model="openai/gpt-x", tools={"clock": now, "sum": add, "echo": plain})
assert_type(bare, Agent[None, str])
assert_type(free, Agent[None, str])
assert_type(named, Agent[None, str])

# A tool needs no more than the agent has.
suited: list[Tool[Services, ..., Any]] = [balance, upgrade, now, add, where, refund, cancel, pick]


async def direct_calls(ctx: ToolContext[Services, Tenant]) -> None:
    """A tool is still the function it was made of."""
    assert_type(await balance(ctx, "USD"), float)
    assert_type(await balance(ToolContext(deps=Services("ann")), currency="USD"), float)
    assert_type(await upgrade(ToolContext(deps=Services("ann"), values=Tenant("free")), "paid"), bool)
    assert_type(await now(), str)
    assert_type(add(1, b=2), int)
    assert_type(await refund(ToolContext(deps=Services("ann")), "A-17", amount=Decimal(1)), str)
    assert_type(cancel(ToolContext(), "A-17"), str)
    assert_type(refund.key, tuple[str, ...] | None)
    assert_type(where(ToolContext(), place="here"), str)
    pending: Coroutine[Any, Any, float] = balance(ctx)
    await pending


async def runs() -> None:
    result = await stated.generate("Hello", deps=Services("ann"), max_steps=3, request_context={"user": "ann"})
    assert_type(result.text, str)
    assert_type(result.run_id, str)
    await bare.generate("Hello")
    await guarded.generate(
        "Hello",
        toolsets={"more": [asking]},
        client_tools={"where": {"description": "Where.", "input_schema": {}}},
        hooks={"before_tool_call": lambda event: {"proceed": False, "output": event.input}},
        transform=lambda: {"transform_tool_payload": mask},
    )
    stream = await stated.stream("Hello", deps=Services("ann"))
    async for text in stream.text_stream:
        assert_type(text, str)
    assert_type(await stream.text, str)
    async with by_value.stream("Hello") as other:
        assert_type(await other.text, str)


class City(BaseModel):
    name: str


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


async def structured() -> None:
    """The type of `object` is that of what was asked for."""
    assert_type((await stated.generate("Capital?", structured_output=City)).object, City)
    assert_type((await bare.generate("Capital?", structured_output=City, max_steps=2)).object_or_none, City | None)
    assert_type((await bare.generate("Capitals?", structured_output=list[City])).object, list[City])
    assert_type((await bare.generate("How much?", structured_output=Answer)).object, Answer)
    assert_type((await bare.generate("Who?", structured_output=Services)).object, Services)
    assert_type((await bare.generate("How?", structured_output=Mood)).object, Mood)
    either = TypeAdapter[Literal["a", "b"]](Literal["a", "b"])
    assert_type((await bare.generate("Which?", structured_output=either)).object, Literal["a", "b"])
    lenient = StructuredOutput(City, error_strategy="fallback", fallback_value=City(name="?"), model="openai/gpt-x")
    assert_type(lenient, StructuredOutput[City])
    assert_type((await bare.generate("Capital?", structured_output=lenient)).object, City)
    await bare.generate("Capital?", structured_output=City | int)
    assert_type((await bare.generate("Capital?", structured_output={"schema": {"type": "object"}})).object, Any)
    assert_type((await bare.generate("Capital?")).object, str)
    assert_type((await bare.generate("Capital?", structured_output=None)).object, str)
    stream = await bare.stream("Capital?", structured_output=City)
    assert_type(await stream.object, City)
    async with bare.stream("Capitals?", structured_output=list[City]) as cities:
        assert_type(await cities.object, list[City])
        async for element in cities.element_stream:
            assert_type(element, Any)
    durable = create_durable_agent(bare)
    assert_type((await durable.generate("Capital?", structured_output=City)).object, City)
    assert_type((await durable.observe("run", structured_output=City)).run_id, str)
    await durable.resume_generate(True, run_id="run", structured_output=City)


def structured_without_a_loop() -> None:
    assert_type(bare.generate_sync("Capital?", structured_output=City).object, City)
    assert_type(bare.stream_sync("Capital?", structured_output=list[City]).object, list[City])
    assert_type(bare.generate_sync("Capital?").object, str)
    Agent(id="default", model="openai/gpt-x", default_options={"structured_output": City})
