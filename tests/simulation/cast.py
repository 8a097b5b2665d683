"""Who acts in a simulation: a model that follows the plan, and tools that do what their arguments say.

Invariant: what a model call answers and what a tool does follow from the plan and the arguments alone, so a repeated
attempt says the same; every effect is written down by the world at the moment it happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from tenuto import Agent, ToolContext, tool
from tenuto.core.errors import ModelError
from tenuto.messages.turns import AssistantTurn, UserTurn
from tenuto.models.ports import ModelRequest, Part
from tenuto.testing import Call, Reply, ScriptedModel
from tenuto.tools import Applied, NotApplied, ToolFailed, Unknown
from tests.simulation.world import Effect, Process, here

Any_ = ToolContext[Any, Any]
TIMEOUT = 2.0
LONG = 45.0


def final_text(run_id: str) -> str:
    return f"The end of {run_id}, in several pieces."


class Model:
    """A `LanguageModel` that says what the plan says; what it is asked is told by the prompt alone."""

    provider = "simulated"
    model_id = "m"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Part], None]:
        process = _process()
        turns = request.prompt.turns
        run_id = next(turn for turn in turns if isinstance(turn, UserTurn)).content[0].text
        step = sum(isinstance(turn, AssistantTurn) for turn in turns) + 1

        async def answer(_: Any) -> Any:
            await process.port()
            await process.world.asked(process, run_id, step)
            return _answer(process, run_id, step)

        async with aclosing(ScriptedModel(answer).stream(request)) as batches:
            async for batch in batches:
                await process.back()
                yield batch


def _process() -> Process:
    process = here.get()
    assert process is not None
    return process


def _answer(process: Process, run_id: str, step: int) -> Any:
    plan = process.world.plan.runs[int(run_id.removeprefix("run-"))]
    if step == plan.fails:
        return ModelError("The provider has had enough.", status=400)
    if step > len(plan.steps):
        return Reply(final_text(run_id), chunk_size=5)
    calls = [
        Call(each.tool, {"order": each.order, "does": each.does}, f"{run_id}.{step}.{place}")
        for place, each in enumerate(plan.steps[step - 1])
    ]
    return Reply(f"Step {step}.", calls=calls, chunk_size=8)


# -- tools -------------------------------------------------------------------------------------------------------------


async def _act(ctx: Any_, name: str, what: str, args: dict[str, Any]) -> None:
    """Take effect, somewhere between two waits."""
    process = _process()
    await process.port()
    process.world.acted(Effect(name, ctx.run_id, ctx.tool_call_id, what, ctx.idempotency_key, args))
    await process.back()


async def _do(ctx: Any_, name: str, order: int, does: str, *, what: str | None = None) -> str:
    if does == "fail":
        raise ToolFailed("Not today.")
    if does == "slow" and order % 2:
        await asyncio.sleep(TIMEOUT * 2)
    if does == "long":
        await asyncio.sleep(LONG)
    await _act(ctx, name, what or ctx.tool_call_id, {"order": order, "does": does})
    if does == "slow":
        await asyncio.sleep(TIMEOUT * 2)
    if does == "boom":
        raise RuntimeError("It broke afterwards.")
    return f"{name} {order} done"


@tool(effects="none", timeout=TIMEOUT)
async def look(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "look", order, does)


@tool(effects="idempotent")
async def file(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "file", order, does)


@tool(timeout=TIMEOUT)
async def pay(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "pay", order, does)


@tool(key=("order",))
async def charge(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "charge", order, does, what=f"{ctx.run_id} order {order}")


@tool(require_approval=True)
async def wire(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "wire", order, does)


@tool
async def ask(ctx: Any_, order: int, does: str) -> str:
    if ctx.resume_data is None:
        await ctx.suspend({"question": order})
    return await _do(ctx, "ask", order, does)


@tool(effects="idempotent")
async def trip(ctx: Any_, order: int, does: str) -> list[str]:
    """Two effects, each a step that happens once."""

    async def book(leg: str) -> str:
        return await _do(ctx, "trip", order, "work" if leg == "out" else does, what=f"{ctx.tool_call_id} {leg}")

    return [await ctx.step("out", book, "out"), await ctx.step("back", book, "back")]


def _forgive(what: str) -> None:
    """Our own policy says that it did not happen: it may happen once more."""
    _process().world.forgiven[what] += 1


async def look_it_up(ctx: Any_) -> Any:
    process = _process()
    await process.port()
    done = any(effect.what == ctx.tool_call_id for effect in process.world.effects)
    if process.chance.random() < 0.2:
        return Unknown()
    if done:
        return Applied("looked up")
    _forgive(ctx.tool_call_id)
    return NotApplied()


@tool(reconcile=look_it_up, timeout=TIMEOUT)
async def check(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "check", order, does)


@tool(on_unknown="suspend")
async def doubt(ctx: Any_, order: int, does: str) -> str:
    return await _do(ctx, "doubt", order, does)


ANY_NUMBER = frozenset({"file", "look"})


def agent() -> Agent[Any, Any]:
    """The agent as each process defines it."""
    tools: list[Any] = [look, file, pay, charge, wire, ask, trip, check, doubt]
    return Agent(id="agent", model=Model(), tools=tools)
