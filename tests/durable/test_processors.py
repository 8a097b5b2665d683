"""Processors of a durable run: what they removed is in no file, and what they decided outlives the process."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import tool
from tenuto.core import chunks as c
from tenuto.errors import ConfigurationError
from tenuto.machine.records import ProcessorState, StepRejected
from tenuto.processors import Processor
from tenuto.testing import Call, FakeProvider, Reply
from tests.durable.kit import answers, clerk, in_memory, of

SECRET = "123-45"
PAY = Reply(calls=[Call("pay", {}, "c1")])
SEE = Reply(calls=[Call("see", {}, "c1")])


@tool(require_approval=True)
async def pay() -> str:
    return "paid"


@tool(effects="once")
async def see() -> dict[str, str]:
    return {"secret": SECRET}


class Mask(Processor):
    """Masks the number in results, and in texts although it comes in pieces: it holds them back until their end."""

    id = "mask"

    def process_output_stream(self, context: Any) -> Any:
        part = context.part
        held = context.state.setdefault("held", {})
        if isinstance(part, c.TextDelta):
            held[part.payload.id] = held.get(part.payload.id, "") + part.payload.text
            return None
        if isinstance(part, c.TextEnd) and part.payload.id in held:
            text = held.pop(part.payload.id).replace(SECRET, "***")
            return [c.TextDelta(part.run_id, "AGENT", c.p.TextDeltaPayload(part.payload.id, text)), part]
        return part

    def process_tool_result(self, context: Any) -> Any:
        return {"result": {"secret": "***"}}


class Counting(Processor):
    """Counts its calls, in its state and for the test."""

    id = "counting"

    def __init__(self) -> None:
        self.inputs = 0
        self.counts: list[int] = []

    def process_input(self, context: Any) -> None:
        self.inputs += 1
        if not context.messages:
            context.abort("empty")

    def process_input_step(self, context: Any) -> None:
        context.state["n"] = context.state.get("n", 0) + 1
        context.state["lock"] = object()  # of this process alone
        self.counts.append(context.state["n"])


def files_of(world) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(world.folder.iterdir()) if path.is_file())


async def everything(world, run_id: str) -> bytes:
    records = b"".join(await world.store.records(run_id, resource=None))
    return records + repr(await world.log(run_id)).encode() + files_of(world)


async def test_d15_what_a_processor_masks_is_in_no_text_record_event_or_file(world):
    replies = iter(
        [Reply(f"It is {SECRET}.", chunk_size=3, calls=[Call("see", {}, "c1")]), Reply("It was 123-4", chunk_size=9)]
    )
    async with FakeProvider(lambda _: next(replies)) as provider:
        process = world.process(clerk(provider, [see], output_processors=[Mask()]))
        result = await process.call(lambda agent: agent.generate("hi", run_id="r"))
        sent = repr([request.body for request in provider.requests])
    assert result.text == "It is ***.It was 123-4"
    assert result.tool_results[0].payload.result == {"secret": "***"}
    assert answers(provider) == ['{"secret":"***"}']
    assert SECRET not in sent + repr(result)
    assert SECRET.encode() not in await everything(world, "r")


@pytest.mark.parametrize("point", ["tool.before_check", "tool.after_effect"])
async def test_a_result_that_was_not_recorded_is_lost_and_never_shown_as_it_was(world, point):
    replies = iter([SEE, Reply("done")])
    async with FakeProvider(lambda _: next(replies)) as provider:
        agent = clerk(provider, [see], output_processors=[Mask()])
        await world.process(agent).killed_in(lambda agent: agent.generate("hi", run_id="r"), point)
        world.clock.jump(60)
        output = await world.process(clerk(provider, [see], output_processors=[Mask()])).call(
            lambda agent: agent.recover("r")
        )
        result = await output.get_full_output()
    assert result.text == "done"
    assert "its result was lost before it was checked" in answers(provider)[0]
    assert SECRET.encode() not in await everything(world, "r")


@pytest.mark.parametrize("warm", [True, False])
async def test_e15_input_processors_run_once_and_their_state_outlives_a_suspension(world, warm):
    replies = iter([PAY, Reply("done")])
    async with FakeProvider(lambda _: next(replies)) as provider:
        first = Counting()
        process = world.process(clerk(provider, [pay], input_processors=[first]))
        waits = await process.call(lambda agent: agent.generate("hi", run_id="r"))
        assert waits.finish_reason == "suspended"
        second = first
        if not warm:
            await process.kill()
            second = Counting()
            process = world.process(clerk(provider, [pay], input_processors=[second]))
        result = await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
    assert result.text == "done"
    assert first.inputs == 1
    assert first is second or second.inputs == 0
    assert [*first.counts, *([] if first is second else second.counts)] == [1, 2]


@pytest.mark.parametrize(
    ("point", "asked"), [("model.before_reject", 2), ("model.after_reject", 1), ("journal.commit.after", 1)]
)
async def test_a_rejection_is_made_once_and_the_model_is_told_why_by_whoever_goes_on(world, point, asked):
    class Judge(Processor):
        id = "judge"

        def process_output_step(self, context):
            context.state["judged"] = [*context.state.get("judged", []), context.text]
            if context.text == "draft":
                context.abort("no drafts", retry=True)

    replies = {0: Reply("draft", chunk_size=99), 1: Reply("final", chunk_size=99)}

    def reply(request):
        return replies[int("no drafts" in str(request.body["messages"]))]

    async with FakeProvider(reply) as provider:

        def made():
            return clerk(provider, output_processors=[Judge()], max_processor_retries=1)

        first = world.process(made())
        if point == "journal.commit.after":
            first.dies_at("model.before_reject")  # from there on, the next commit
            armed = first.hit

            def hit(name):
                if name == "model.before_reject":
                    first.dies_at("journal.commit.after")
                else:
                    armed(name)

            first.hit = hit
            task = first.begin(lambda agent: agent.generate("hi", run_id="r"))
            await first.died.wait()
            task.cancel()
            await first.kill()
        else:
            await first.killed_in(lambda agent: agent.generate("hi", run_id="r"), point)
        world.clock.jump(60)
        output = await world.process(made()).call(lambda agent: agent.recover("r"))
        result = await output.get_full_output()
        drafts = [request for request in provider.requests if "no drafts" not in str(request.body["messages"])]
    assert len(drafts) == asked
    assert (result.text, [step.finish_reason for step in result.steps]) == ("final", ["retry", "stop"])
    records = await world.records("r")
    assert [type(each) for each in records].count(StepRejected) == 1
    states = [each.states for each in records if isinstance(each, ProcessorState)]
    assert states[-1] == {"judge": {"judged": ["draft", "final"]}}
    assert [each.payload.step_result.reason for each in of(await world.whole("r"), "step-finish")] == ["retry", "stop"]


@in_memory
@pytest.mark.parametrize("name", ["input_processors", "output_processors", "error_processors"])
async def test_a_durable_call_refuses_processors_of_its_own(world, name):
    async with FakeProvider([]) as provider:
        process = world.process(clerk(provider))
        with pytest.raises(ConfigurationError, match=f"give them to the agent: Agent\\({name}=") as caught:
            await process.call(lambda agent: agent.generate("hi", **{name: [Counting()]}))
        assert caught.value.id == "DURABLE_OPTION_REFUSED"


@in_memory
async def test_a_plain_run_is_not_resumed_without_the_processors_of_its_call(world):
    replies = iter([PAY, Reply("done")])
    async with FakeProvider(lambda _: next(replies)) as provider:
        first = world.process(clerk(provider, [pay]), durable=False)
        waits = await first.call(lambda agent: agent.generate("hi", run_id="r", output_processors=[Mask()]))
        assert waits.finish_reason == "suspended"
        await first.kill()
        process = world.process(clerk(provider, [pay]), durable=False)
        with pytest.raises(ConfigurationError, match="must not go on without them; pass them again"):
            await process.call(lambda agent: agent.approve_tool_call_generate(run_id="r"))
        result = await process.call(
            lambda agent: agent.approve_tool_call_generate(run_id="r", output_processors=[Mask()])
        )
    assert result.text == "done"


async def test_a_result_is_rewritten_once_although_its_process_died_at_the_end(world):
    class Sign(Processor):
        id = "sign"

        def process_output_result(self, context):
            message = context.messages[-1]
            parts = (*message.content.parts, replace(message.content.parts[-1], text=" Yours."))
            return [replace(message, content=replace(message.content, parts=parts))]

    async with FakeProvider([Reply("done")]) as provider:
        agent = clerk(provider, output_processors=[Sign()])
        await world.process(agent).killed_in(lambda agent: agent.generate("hi", run_id="r"), "run.before_terminal")
        world.clock.jump(60)
        output = await world.process(clerk(provider, output_processors=[Sign()])).call(lambda agent: agent.recover("r"))
        result = await output.get_full_output()
    assert result.text == "done Yours."
    assert result.messages[-1].text == "done Yours."


async def test_a_block_outlives_the_process(world):
    class Stop(Processor):
        id = "stop"

        def process_output_stream(self, context):
            if isinstance(context.part, c.TextDelta):
                context.abort("no")
            return context.part

    async with FakeProvider([Reply("x")]) as provider:
        agent = clerk(provider, output_processors=[Stop()])
        await world.process(agent).killed_in(lambda agent: agent.generate("hi", run_id="r"), "run.after_finalise")
        world.clock.jump(60)
        output = await world.process(clerk(provider)).call(lambda agent: agent.recover("r"))
        result = await output.get_full_output()
    assert (result.finish_reason, result.tripwire.reason, result.text) == ("other", "no", "")
    assert (await world.whole("r"))[-1].type == "tripwire"
    assert (await world.row("r")).status == "success"
