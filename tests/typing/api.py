"""What must type-check, under pyright strict and mypy strict: the public API as its users write it."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_type

from tenuto import Agent, RequestContext, ToolContext, tool
from tenuto.tools import Tool, ToolFailed


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
suited: list[Tool[Services, ..., Any]] = [balance, upgrade, now, add, where]


async def direct_calls(ctx: ToolContext[Services, Tenant]) -> None:
    """A tool is still the function it was made of."""
    assert_type(await balance(ctx, "USD"), float)
    assert_type(await balance(ToolContext(deps=Services("ann")), currency="USD"), float)
    assert_type(await upgrade(ToolContext(deps=Services("ann"), values=Tenant("free")), "paid"), bool)
    assert_type(await now(), str)
    assert_type(add(1, b=2), int)
    assert_type(where(ToolContext(), place="here"), str)
    pending: Coroutine[Any, Any, float] = balance(ctx)
    await pending


async def runs() -> None:
    result = await stated.generate("Hello", deps=Services("ann"), max_steps=3, request_context={"user": "ann"})
    assert_type(result.text, str)
    assert_type(result.run_id, str)
    await bare.generate("Hello")
    stream = await stated.stream("Hello", deps=Services("ann"))
    async for text in stream.text_stream:
        assert_type(text, str)
    assert_type(await stream.text, str)
    async with by_value.stream("Hello") as other:
        assert_type(await other.text, str)
