"""What the runs of the proof do: a script for the model, tools that take effect, and what each run must come to.

Invariant: the model is a function of the conversation alone, so that a repeated request gets the same answer; every
effect is a line appended to a file that no part of tenuto reads.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from tenuto import Agent, Memory, ToolContext, tool
from tenuto.core import faults
from tenuto.evals import Sample, create_scorer
from tenuto.processors import OutputStepContext, Processor, ToolResultChange, ToolResultContext
from tenuto.testing import AnyReply, Call, HTTPError, Reply
from tenuto.tools import Applied, NotApplied, ToolFailed

# -- effects ---------------------------------------------------------------------------------------------------------


class Place:
    """Where this process writes down what took effect; set once in each child."""

    effects = Path(os.devnull)
    held = Path(os.devnull)


def append(path: Path, line: Mapping[str, Any]) -> None:
    """One line, whole or not at all, whoever else writes there."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def lines(path: Path) -> list[dict[str, Any]]:
    """What was appended."""
    try:
        return [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return []


def take_effect(ctx: ToolContext, order: str, what: str = "") -> None:
    append(
        Place.effects,
        {
            "order": order + what,
            "run": ctx.run_id,
            "tool": ctx.tool_name,
            "call": ctx.tool_call_id,
            "key": ctx.idempotency_key,
            "attempt": ctx.attempt,
            "pid": os.getpid(),
            "at": time.monotonic_ns(),
        },
    )


def took_effect(ctx: ToolContext) -> bool:
    return any(line["key"] == ctx.idempotency_key for line in lines(Place.effects))


# -- tools -----------------------------------------------------------------------------------------------------------


@tool(effects="none")
async def look(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"looked at {order}"


@tool(effects="idempotent")
async def put(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"put {order}"


@tool(effects="once")
async def pay(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    faults.hit("proof.effect")
    return f"paid {order}"


@tool(effects="once")
def pay_sync(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"paid {order}"


def _was_paid(ctx: ToolContext) -> Applied | NotApplied:
    return Applied(f"paid {ctx.args['order']}, as the bank says") if took_effect(ctx) else NotApplied()


@tool(effects="once", reconcile=_was_paid)
async def pay_checked(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", on_unknown="suspend")
async def pay_asking(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", key=("order",))
async def pay_keyed(ctx: ToolContext, order: str, note: str = "") -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", key=("order",), reconcile=_was_paid)
async def pay_keyed_checked(ctx: ToolContext, order: str, note: str = "") -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", key=("order",), on_unknown="suspend")
async def pay_keyed_asking(ctx: ToolContext, order: str, note: str = "") -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", require_approval=True)
async def pay_approved(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once", require_approval=True)
async def pay_approved_asking(ctx: ToolContext, order: str) -> str:
    if ctx.suspend_payload is None:
        await ctx.suspend({"which": "account"})
    take_effect(ctx, order)
    return f"paid {order} from {ctx.resume_data['account']}"


@tool(effects="once")
async def pay_from(ctx: ToolContext, order: str) -> str:
    if ctx.resume_data is None:
        await ctx.suspend({"which": "account"})
    take_effect(ctx, order)
    return f"paid {order} from {ctx.resume_data['account']}"


@tool(effects="idempotent")
async def pay_in_steps(ctx: ToolContext, order: str) -> str:
    async def charge() -> str:
        take_effect(ctx, order, ":charge")
        faults.hit("proof.effect")
        return "charged"

    async def mail() -> str:
        take_effect(ctx, order, ":mail")
        return "mailed"

    return f"{await ctx.step('charge', charge)} and {await ctx.step('mail', mail)} {order}"


@tool(effects="once", key=("order",), timeout=0.05)
async def pay_too_slow(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    await ctx.abort_signal.wait()
    return f"paid {order}"


@tool(effects="once", key=("order",), timeout=0.05)
def pay_late(ctx: ToolContext, order: str) -> str:
    """Ends when the test says so, after its call had its outcome."""
    take_effect(ctx, order)
    with Place.held.open("rb") as held:  # a FIFO: opening it waits for the other end
        held.read()
    append(Place.effects.with_name("late.jsonl"), {"order": order})
    return f"paid {order}, late"


@tool(effects="none")
async def wait_for_late(ctx: ToolContext, order: str) -> str:
    """Ends when the late payment has ended."""
    while not lines(Place.effects.with_name("late.jsonl")):  # noqa: ASYNC110 - the file of a thread is no event
        await asyncio.sleep(0.005)
    return f"waited for {order}"


@tool(effects="once", key=("order",))
async def pay_then_fail(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    raise ConnectionResetError("the bank hung up")


@tool(effects="once", key=())
async def pay_only_once(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    return f"paid {order}"


@tool(effects="once")
async def pay_until_aborted(ctx: ToolContext, order: str) -> str:
    take_effect(ctx, order)
    faults.hit("proof.effect")
    await ctx.abort_signal.wait()
    return f"paid {order}"


@tool(effects="once", key=("order",))
async def pay_refused(ctx: ToolContext, order: str) -> str:
    if not lines(Place.effects.with_name("refusals.jsonl")):
        append(Place.effects.with_name("refusals.jsonl"), {"order": order})
        raise ToolFailed("no money on the account; nothing was paid")
    take_effect(ctx, order)
    return f"paid {order}"


TOOLS = [
    look,
    put,
    pay,
    pay_sync,
    pay_checked,
    pay_asking,
    pay_keyed,
    pay_keyed_checked,
    pay_keyed_asking,
    pay_approved,
    pay_approved_asking,
    pay_from,
    pay_in_steps,
    pay_too_slow,
    pay_late,
    wait_for_late,
    pay_then_fail,
    pay_refused,
    pay_only_once,
    pay_until_aborted,
]
AIDE = "agent-aide"
"""The tool of a delegation; its order is the scenario of the child run."""

EFFECTS = {**{each.id: each.effects for each in TOOLS}, "finished": "none"}
NEEDS_APPROVAL = {each.id: bool(each.require_approval) for each in TOOLS}
ASIDE = "+aide"
"""What the tag of a child run ends with."""


def _finished(sample: Sample) -> bool:
    """Whether the answer is the whole one; that somebody asked is written down as if it were an effect."""
    step = sample.input.iteration
    call = {"call": f"check_{step}_0", "key": f"check {step}", "order": f"check {step}"}
    append(Place.effects, {**call, "run": sample.input.run_id, "tool": "finished", "at": time.monotonic_ns()})
    return sample.output_text != HALF


HALF = "Half. "
"""What the model says first, where the run is checked."""

SCORERS = {"finished": create_scorer(id="finished", score=_finished)}


def call_id(scenario: str, step: int, place: int) -> str:
    """The id the model gives this call."""
    return f"call_{scenario}_{step}_{place}"


# -- scripts ---------------------------------------------------------------------------------------------------------


class Scenario(Struct, frozen=True):
    """A run.

    Attributes:
        rounds: The calls of each step before the answer: `(tool, order)`.
        text: The answer; each character is a delta.
        decisions: By tool: what its pending call is answered with, in turn.
        approve_all: The run asks for approval of each call.
        fails: What becomes of the first request: `busy` is refused once, `gone` by the first model always, `cut` breaks
            off in the middle of the first model's answer.
        checked: Its first answer is not the whole one, and a scorer says so.
        processed: The agent has a processor that refuses the first answer and rewrites every result.
        thread: It is a turn on a thread, whose messages are looked at in the end.
        lockstep: The answer's deltas go out one by one, each when the one before it is in the log; for runs that are
            stopped in the middle.
    """

    name: str
    rounds: tuple[tuple[tuple[str, str], ...], ...] = ()
    text: str = "All done."
    decisions: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    approve_all: bool = False
    fails: Literal["busy", "gone", "cut"] | None = None
    checked: bool = False
    processed: bool = False
    thread: bool = False
    lockstep: bool = False

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        return tuple(call for calls in self.rounds for call in calls)

    @property
    def inner(self) -> Scenario | None:
        """What the run delegates in its first step."""
        calls = self.rounds[0] if self.rounds else ()
        return next((SCENARIOS[order] for tool, order in calls if tool == AIDE), None)

    @property
    def approvals(self) -> set[str]:
        """The ids of the first step's calls that wait for approval, whatever happens."""
        return {
            call_id(self.name, 1, place)
            for place, (tool, order) in enumerate(self.rounds[0] if self.rounds else ())
            if self.approve_all or (bool(SCENARIOS[order].approvals) if tool == AIDE else NEEDS_APPROVAL[tool])
        }


APPROVE: Mapping[str, Any] = {"approved": True}
DECLINE: Mapping[str, Any] = {"approved": False, "reason": "too expensive"}
ACCOUNT: Mapping[str, Any] = {"account": "savings"}
APPLIED: Mapping[str, Any] = {"outcome": "applied", "result": "paid, as a person says"}
NOT_APPLIED: Mapping[str, Any] = {"outcome": "not-applied"}
LETTERS = "The quick brown fox jumps over the dog."

SCENARIOS = {
    each.name: each
    for each in (
        Scenario("text", text=LETTERS, lockstep=True),
        Scenario("busy", text=LETTERS, fails="busy"),
        Scenario("gone", text=LETTERS, fails="gone"),
        Scenario("cut", text=LETTERS, fails="cut", lockstep=True),
        Scenario("gone-tools", ((("pay", "a"),), (("put", "b"),)), fails="gone"),
        Scenario("rejected", text=LETTERS, processed=True),
        Scenario("screened", ((("pay", "a"),),), processed=True),
        Scenario("turn", text=LETTERS, thread=True, lockstep=True),
        Scenario("turn-once", ((("pay", "a"),),), thread=True),
        Scenario("turn-approved", ((("pay_approved", "a"),),), decisions={"pay_approved": (APPROVE,)}, thread=True),
        Scenario("none", ((("look", "a"),),)),
        Scenario("idempotent", ((("put", "a"),),)),
        Scenario("once", ((("pay", "a"),),)),
        Scenario("once-sync", ((("pay_sync", "a"),),)),
        Scenario("checked", ((("pay_checked", "a"),),)),
        Scenario("asking", ((("pay_asking", "a"),),), decisions={"pay_asking": (APPLIED,)}),
        Scenario("asking-no", ((("pay_asking", "a"),),), decisions={"pay_asking": (NOT_APPLIED,)}),
        Scenario("parallel", ((("pay", "a"), ("put", "b"), ("look", "c")),)),
        Scenario("chain", ((("pay", "a"),), (("put", "b"),), (("pay", "c"),))),
        Scenario("approval", ((("pay_approved", "a"),),), decisions={"pay_approved": (APPROVE,)}),
        Scenario("decline", ((("pay_approved", "a"),),), decisions={"pay_approved": (DECLINE,)}),
        Scenario(
            "approvals", ((("pay_approved", "a"), ("pay_approved", "b")),), decisions={"pay_approved": (APPROVE,)}
        ),
        Scenario(
            "mixed", ((("pay_approved", "a"), ("pay", "b"), ("put", "c")),), decisions={"pay_approved": (APPROVE,)}
        ),
        Scenario("suspension", ((("pay_from", "a"),),), decisions={"pay_from": (ACCOUNT,)}),
        Scenario(
            "approval-suspension",
            ((("pay_approved_asking", "a"),),),
            decisions={"pay_approved_asking": (APPROVE, ACCOUNT)},
        ),
        Scenario("steps", ((("pay_in_steps", "a"),),)),
        Scenario("replanned", ((("pay_keyed", "a"),), (("pay_keyed", "a"),))),
        Scenario("replanned-checked", ((("pay_keyed_checked", "a"),), (("pay_keyed_checked", "a"),))),
        Scenario("twins", ((("pay_keyed", "a"), ("pay_keyed", "a")),)),
        Scenario("twins-checked", ((("pay_keyed_checked", "a"), ("pay_keyed_checked", "a")),)),
        Scenario(
            "replanned-asking",
            ((("pay_keyed_asking", "a"),), (("pay_keyed_asking", "a"),)),
            decisions={"pay_keyed_asking": (APPLIED,)},
        ),
        Scenario("checked-task", checked=True),
        Scenario("timeout", ((("pay_too_slow", "a"),), (("pay_too_slow", "a"),))),
        Scenario("late", ((("pay_late", "a"),), (("wait_for_late", "b"),), (("look", "c"),), (("pay_late", "a"),))),
        Scenario("raises", ((("pay_then_fail", "a"),), (("pay_then_fail", "a"),))),
        Scenario("only-once", ((("pay_only_once", "a"),), (("pay_only_once", "b"),))),
        Scenario("aborted", ((("pay_until_aborted", "a"),),)),
        Scenario("aided", (((AIDE, "once"),),)),
        Scenario("aided-text", (((AIDE, "text"),),)),
        Scenario("aided-chain", (((AIDE, "chain"), ("put", "d")),)),
        Scenario("aided-approval", (((AIDE, "approval"),),), decisions={"pay_approved": (APPROVE,)}),
        Scenario("aided-approvals", (((AIDE, "approvals"),),), decisions={"pay_approved": (APPROVE,)}),
        Scenario("aided-suspension", (((AIDE, "suspension"),),), decisions={"pay_from": (ACCOUNT,)}),
        Scenario("aided-twice", (((AIDE, "aided-approval"),),), decisions={"pay_approved": (APPROVE,)}),
        Scenario("refused", ((("pay_refused", "a"),), (("pay_refused", "a"),))),
        Scenario(
            "run-approval",
            ((("pay", "a"),),),
            decisions={"pay": (APPROVE,)},
            approve_all=True,
        ),
    )
}


def prompt_of(scenario: str, tag: str) -> str:
    """The user's message; the model reads the scenario out of it, the test whose request it was."""
    return f"scenario={scenario} tag={tag} please"


def asked(body: Mapping[str, Any]) -> tuple[str, str, int]:
    """Scenario, tag and step (from 1) of a request."""
    users = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
    text = [each for each in users if "scenario=" in each][-1]
    words = dict(word.split("=") for word in text.split() if "=" in word)
    said = sum(
        message["role"] == "assistant" or (message["role"] == "system" and REFUSED in message["content"])
        for message in body["messages"]
    )
    return words["scenario"], words["tag"], said + 1


def reply_of(scenario: Scenario, step: int, tag: str) -> Reply:
    """What the model says in this step."""
    if scenario.checked and step == 1:
        return Reply(HALF)
    if scenario.processed and not scenario.rounds and step == 1:
        return Reply("A draft.")
    if step > len(scenario.rounds):
        return Reply(scenario.text, chunk_size=1)
    calls = [
        Call(
            name,
            {"prompt": prompt_of(order, tag + ASIDE)} if name == AIDE else {"order": order},
            call_id(scenario.name, step, place),
        )
        for place, (name, order) in enumerate(scenario.rounds[step - 1])
    ]
    return Reply("Wait. ", calls=calls)


def failure_of(scenario: Scenario, model: str, before: int) -> AnyReply | None:
    """What this model answers instead of its reply; `before` requests of the run were refused so far."""
    match scenario.fails:
        case "busy" if not before:
            return HTTPError(503)
        case "gone" if model == "scripted":
            return HTTPError(400)
        case "cut" if model == "scripted":
            return Reply(scenario.text[:12], chunk_size=1, drop_after=8)
        case _:
            return None


REFUSED = "drafts are not accepted"


class Screen(Processor):
    """Refuses drafts, and rewrites the results of tools."""

    id = "screen"

    def process_output_step(self, context: OutputStepContext) -> None:
        if context.text == "A draft.":
            context.abort(REFUSED, retry=True)

    def process_tool_result(self, context: ToolResultContext) -> ToolResultChange:
        return {"result": f"screened: {len(context.result)} characters"}


def agent_of(url: str, scenario: str | None = None) -> Agent[Any]:
    """The agent of every process."""
    models = [{"id": "openai/scripted", "url": url}, {"id": "openai/spare", "url": url}]
    aide = aide_of(url)
    more: dict[str, Any] = {"agents": {"aide": aide.replace(agents={"aide": aide})}}
    if scenario is not None and SCENARIOS[scenario].processed:
        more |= {"output_processors": [Screen()], "max_processor_retries": 1}
    if scenario is not None and SCENARIOS[scenario].thread:
        more["memory"] = Memory()
    return Agent(id="clerk", name="Clerk", model=models, max_retries=1, tools=TOOLS, abort_grace=0.2, **more)


def aide_of(url: str) -> Agent[Any]:
    """The agent that it delegates to."""
    model = {"id": "openai/scripted", "url": url}
    return Agent(id="aide", name="Aide", model=model, tools=TOOLS, abort_grace=0.2)


_warm = threading.Lock()


def warm() -> None:
    """Build once what each child would build."""
    with _warm:
        for each in TOOLS:
            _ = each.parameters
