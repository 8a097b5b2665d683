"""What must not type-check. Each wrong line ends in `# error` and in the ignores that let the lint pass.

`test_typing.py` takes the ignores away and compares the lines that either checker rejects with the marked ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenuto import Agent, ToolContext, tool


@dataclass
class Services:
    user: str


@dataclass
class Other:
    number: int


@tool
async def fit(ctx: ToolContext[Services], text: str) -> str:
    return ctx.deps.user + text


@tool(timeout=1)
def misfit(ctx: ToolContext[Other], number: int) -> int:
    return ctx.deps.number + number


def says_yes(ctx: ToolContext[Services]) -> bool:
    return True


def of_text(args: str) -> bool:
    return bool(args)


def says_maybe(args: dict[str, object]) -> str:
    return "maybe"


# Options of the wrong kind.
tool(effects="twice")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error
tool(key_scope="user")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error
tool(key=1)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error
tool(on_unknown="retry")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error
tool(reconcile=says_yes)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # error
tool(require_approval=of_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # error
tool(require_approval=says_maybe)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # error
tool(suspend_schema="text")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error

# A tool of other dependencies than the agent's.
one = Agent[Services](id="one", model="openai/gpt-x", tools=[misfit])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]  # error
two = Agent[Services](id="two", model="openai/gpt-x", tools=[fit, misfit])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]  # error
three = Agent[Services](id="three", model="openai/gpt-x", tools={"fit": fit, "misfit": misfit})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]  # error
four = Agent(id="four", model="openai/gpt-x", tools=[misfit], deps=Services("ann"))  # type: ignore[list-item]  # pyright: ignore[reportCallIssue, reportArgumentType]  # error
five = Agent(id="five", model="openai/gpt-x", tools=[fit, misfit], deps=Services("ann"))  # type: ignore[list-item]  # pyright: ignore[reportCallIssue, reportArgumentType]  # error
six = Agent[None](id="six", model="openai/gpt-x", tools=[fit])  # type: ignore[list-item]  # pyright: ignore[reportCallIssue, reportArgumentType]  # error


async def calls(mine: ToolContext[Services], others: ToolContext[Other], untyped: ToolContext) -> None:
    agent = Agent[Services](id="agent", model="openai/gpt-x")
    # Wrong dependencies at the call.
    await agent.generate("Hello", deps=Other(1))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error
    agent.stream("Hello", deps=Other(1))  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]  # error

    # A wrong argument, context, name or result in a direct call.
    await fit(mine, 1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # error
    await fit(others, "text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # error
    misfit(others, count=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # error
    misfit(others, 1).upper()  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # error
    await fit(mine)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # error

    # A context without types has no dependencies to use.
    untyped.deps.user  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # error

    # A wrong attribute on the object of a result.
    result = await agent.generate("Hello")
    result.object.name  # type: ignore[attr-defined]  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # error
