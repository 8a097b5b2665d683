"""The chain on its own: which hooks are asked, in which order, and what a stream hook may do."""

from typing import Any

import pytest

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.errors import ConfigurationError
from tenuto.processors import InputContext, OutputStreamContext, Processor, ProcessorError, Tripwire, Violation
from tenuto.processors.chain import Chain, read_processors
from tenuto.processors.hooks import BoundHook


def delta(text: str) -> c.TextDelta:
    return c.TextDelta("r", "AGENT", p.TextDeltaPayload("t", text))


def texts(chunks: list[c.AnyChunk]) -> list[str]:
    return [chunk.payload.text for chunk in chunks if isinstance(chunk, c.TextDelta)]


class Upper(Processor):
    id = "upper"

    def process_output_stream(self, context: OutputStreamContext) -> c.AnyChunk:
        if isinstance(context.part, c.TextDelta):
            return delta(context.part.payload.text.upper())
        return context.part


class Twice(Processor):
    id = "twice"

    async def process_output_stream(self, context: OutputStreamContext) -> list[c.AnyChunk]:
        return [context.part, context.part]


class Mute(Processor):
    id = "mute"

    def process_output_stream(self, context: OutputStreamContext) -> None:
        context.state["seen"] = len(context.stream_parts)


class Blocks(Processor):
    id = "blocks"

    def __init__(self) -> None:
        self.told: list[Violation] = []
        self.on_violation = self.told.append

    def process_output_stream(self, context: OutputStreamContext) -> c.AnyChunk:
        if isinstance(context.part, c.TextDelta) and "bad" in context.part.payload.text:
            context.abort("no", metadata={"word": "bad"})
        return context.part


class Breaks(Processor):
    id = "breaks"

    def process_output_stream(self, context: OutputStreamContext) -> c.AnyChunk:
        message = "oops"
        raise ValueError(message)


class Closed(Breaks):
    id = "closed"
    fail_closed = True


async def strained(*processors: Any, chunks: list[c.AnyChunk]) -> tuple[list[c.AnyChunk], Tripwire | None]:
    stream = Chain({"output": processors}).stream
    assert stream is not None
    return await stream.strain(chunks)


async def test_each_stream_hook_sees_what_the_one_before_it_returned():
    passed, _ = await strained(Twice(), Upper(), chunks=[delta("a"), delta("b")])
    assert texts(passed) == ["A", "A", "B", "B"]


async def test_none_drops_a_chunk_but_not_the_frame_nor_the_outcome_of_a_call():
    start = c.StepStart("r", "AGENT", p.StepStartPayload("m", {}, ()))
    result = c.ToolResult("r", "AGENT", p.ToolResultPayload("c1", "look", {"secret": 1}))
    failed = c.ToolError("r", "AGENT", p.ToolErrorPayload("c2", "look", p.ErrorInfo("E", "m")))
    passed, _ = await strained(Mute(), chunks=[start, delta("a"), result, failed])
    assert [chunk.type for chunk in passed] == ["step-start", "tool-result", "tool-error"]
    assert isinstance(passed[1], c.ToolResult)
    assert passed[1].payload.result is None


async def test_a_block_keeps_what_passed_before_it_and_tells_on_violation():
    blocks = Blocks()
    passed, tripwire = await strained(blocks, chunks=[delta("ok"), delta("bad"), delta("more")])
    assert texts(passed) == ["ok"]
    assert tripwire is not None
    assert tripwire.payload == p.TripwirePayload("no", None, {"word": "bad"}, "blocks")
    assert blocks.told == [Violation("blocks", "no", {"word": "bad"})]


async def test_a_stream_hook_that_fails_lets_its_chunk_pass_unless_it_is_fail_closed(caplog: pytest.LogCaptureFixture):
    passed, _ = await strained(Breaks(), Upper(), chunks=[delta("a")])
    assert texts(passed) == ["A"]
    assert "'breaks' failed" in caplog.text
    with pytest.raises(ProcessorError, match="process_output_stream of processor 'closed' failed: ValueError: oops"):
        await strained(Closed(), chunks=[delta("a")])


async def test_data_parts_reach_only_those_who_ask_for_them():
    class Sees(Mute):
        id = "sees"
        process_data_parts = True

    data = c.Data("data-x", 1)
    assert (await strained(Mute(), chunks=[data]))[0] == [data]
    assert (await strained(Sees(), chunks=[data]))[0] == []


async def test_two_processors_with_one_id_share_their_state():
    first, second = Mute(), Mute()
    chain = Chain({"input": [], "output": [first, second]})
    states = [hook.shared.state for hook in chain["process_output_stream"]]
    assert states[0] is states[1] is chain.states.of("mute")


async def test_a_hook_answers_blocks_or_fails_with_its_name():
    class Input(Processor):
        id = "input"

        async def process_input(self, context: InputContext) -> str:
            if not context.messages:
                context.abort()
            message = "broken"
            raise KeyError(message)

    (hook,) = Chain({"input": [Input()]})["process_input"]
    assert isinstance(hook, BoundHook)
    with pytest.raises(Tripwire, match="Processor 'input' blocked this"):
        await hook.ask(InputContext(hook.shared))


def test_only_the_hooks_of_the_right_list_are_asked():
    class Both(Processor):
        id = "both"

        def process_input(self, context: InputContext) -> None: ...

        def process_output_stream(self, context: OutputStreamContext) -> c.AnyChunk:
            return context.part

    assert not Chain({"input": [Both()]})["process_output_stream"]
    assert Chain({"output": [Both()]})["process_output_stream"]
    assert Chain({"input": [Both()]})["process_input"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([Upper], "holds the class Upper; give an instance"),
        ([Processor()], "without an id"),
        ([object()], "without an id"),
        (["x"], "without an id"),
    ],
)
def test_what_is_no_list_of_processors_is_refused(given: Any, says: str):
    with pytest.raises(ConfigurationError, match=says) as caught:
        read_processors(given, "input_processors")
    assert caught.value.id == "AGENT_PROCESSOR_INVALID"


@pytest.mark.parametrize("given", [Upper(), "upper", {"upper": Upper()}, 3])
def test_a_list_is_a_list(given: Any):
    with pytest.raises(TypeError, match="input_processors= takes a list of processors, not"):
        read_processors(given, "input_processors")


def test_a_processor_without_a_hook_is_refused_and_one_of_any_class_is_taken():
    class Duck:
        id = "duck"

        def process_input(self, context: InputContext) -> None: ...

    class Nothing(Processor):
        id = "nothing"

    duck = Duck()
    assert read_processors([duck], "input_processors") == (duck,)
    with pytest.raises(ConfigurationError, match="'nothing' in input_processors= has no hook"):
        read_processors([Nothing()], "input_processors")
