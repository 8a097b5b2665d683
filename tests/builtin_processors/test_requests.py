"""Answers are kept, calls that failed are made again, and the finished answer becomes data."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tenuto import AbortController, RequestContext
from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.core.payloads import Usage
from tenuto.errors import ConfigurationError, ModelError, RunError
from tenuto.messages.turns import AssistantTurn, Prompt, SystemTurn, Text, UserTurn
from tenuto.models.ports import Finish, ModelRequest, ModelSettings, ToolSpec
from tenuto.processors import (
    APIErrorContext,
    InMemoryResponseStore,
    LLMRequestContext,
    LLMResponseContext,
    ModelResponse,
    OutputResultContext,
    PrefillErrorHandler,
    ResponseCache,
    ResultSoFar,
    StreamErrorRetryProcessor,
    StructuredOutputProcessor,
    TrailingAssistantGuard,
    Tripwire,
)
from tenuto.testing import ScriptedModel, VirtualClock
from tests.builtin_processors.kit import around, judge, messages

ASK = (SystemTurn("s"), UserTurn((Text("hi"),)))
ANSWER = ModelResponse(
    (c.TextDelta("run_1", "AGENT", p.TextDeltaPayload("1", "hello")),), Finish("stop", Usage(1, 2, 3)), "scripted/model"
)


def asking(processor, prompt=ASK, *, settings=None, tools=(), schema=None, model=None, **shared):
    request = ModelRequest(prompt=Prompt(), settings=settings or ModelSettings(), tools=tools)
    return LLMRequestContext(
        around(processor, **shared), prompt=prompt, model=model or ScriptedModel("x"), request=request, schema=schema
    )


async def through(processor, context, answer=ANSWER):
    """What is answered from the cache; the model's answer is kept when it is asked."""
    change = await processor.process_llm_request(context)
    if change is not None:
        return change["response"]
    await processor.process_llm_response(LLMResponseContext(context.shared, response=answer, prompt=context.prompt))
    return None


async def test_an_equal_request_is_answered_from_the_cache():
    cache = ResponseCache()
    assert await through(cache, asking(cache)) is None
    assert await through(cache, asking(cache)) == ANSWER


TOOL = ToolSpec("t", "d", {})


@pytest.mark.parametrize(
    "other",
    [
        {"prompt": (*ASK, ASK[1])},
        {"settings": ModelSettings(temperature=1)},
        {"tools": (TOOL,)},
        {"schema": {"type": "object"}},
        {"model": ScriptedModel("x", model_id="other")},
        {"resource_id": "bob"},
        {"agent_id": "b"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_another_request_is_not(other):
    cache = ResponseCache()
    first = {"resource_id": "ann", "agent_id": "a"}
    assert await through(cache, asking(cache, **first)) is None
    assert await through(cache, asking(cache, **first | other)) is None
    assert await through(cache, asking(cache, **first)) == ANSWER


async def test_headers_make_no_difference():
    cache = ResponseCache()
    for key in "ab":
        context = asking(cache, settings=ModelSettings(headers={"x": key}))
        answer = await through(cache, context)
    assert answer == ANSWER


async def test_who_shares_answers():
    cache = ResponseCache(scope=None)
    await through(cache, asking(cache, resource_id="ann"))
    assert await through(cache, asking(cache, resource_id="bob")) == ANSWER


async def test_a_call_decides_for_itself():
    cache = ResponseCache()
    await through(cache, asking(cache))
    bust = ResponseCache.context(bust=True)
    assert await through(cache, asking(cache, request_context=bust)) is None
    assert await through(cache, asking(cache)) == ANSWER
    fixed = ResponseCache.apply_context(RequestContext(), key="k")
    assert await through(cache, asking(cache, request_context=fixed)) is None
    assert await through(cache, asking(cache, ASK[:1], request_context=fixed)) == ANSWER
    with pytest.raises(TypeError, match="no option 'ttl'"):
        ResponseCache.context(ttl=1)


async def test_a_key_of_one_s_own(caplog):
    seen = []
    cache = ResponseCache(key=lambda given: seen.append(given) or "k")
    await through(cache, asking(cache))
    assert await through(cache, asking(cache, ASK[:1])) == ANSWER
    assert (seen[0].model, seen[0].step_number, seen[0].prompt) == ("scripted/model", 0, ASK)

    def broken(given):
        raise RuntimeError("no")

    cache = ResponseCache(key=broken)
    await through(cache, asking(cache))
    assert await through(cache, asking(cache)) == ANSWER
    assert "the request makes the key" in caplog.text


async def test_half_an_answer_is_not_kept():
    cache = ResponseCache()
    cut = ModelResponse((), Finish("length", Usage()))
    assert await through(cache, asking(cache), cut) is None
    assert await through(cache, asking(cache)) is None


async def test_a_store_of_one_s_own_and_what_is_no_answer_in_it(caplog):
    class Shelf:
        def __init__(self):
            self.kept = {}

        async def get(self, key):
            return self.kept.get(key)

        async def put(self, key, value, ttl):
            self.kept[key] = value
            self.ttl = ttl

    shelf = Shelf()
    cache = ResponseCache(cache=shelf, ttl=7)
    await through(cache, asking(cache))
    assert (await through(cache, asking(cache)), shelf.ttl) == (ANSWER, 7)
    shelf.kept = dict.fromkeys(shelf.kept, b"{}")
    assert await through(cache, asking(cache)) is None
    assert "something else than an answer" in caplog.text


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 9)), max_size=40))
def test_the_store_in_memory_is_bounded(puts):
    store = InMemoryResponseStore(max_entries=3, max_bytes=10)
    for key, size in puts:
        store.put(key, b"x" * size, 60)
        assert store.get(key) == b"x" * size
        assert len(store) <= 3
        assert store._size == sum(len(value) for value, _ in store._kept.values()) <= 10


def test_an_answer_gets_too_old_and_one_that_is_too_large_is_not_kept():
    class Now(VirtualClock):
        at = 0.0

        def monotonic(self):
            return self.at

    clock = Now()
    store = InMemoryResponseStore(clock=clock, max_bytes=4)
    store.put("k", b"v", 5)
    store.put("large", b"12345", 5)
    clock.at = 4.9
    assert (store.get("k"), store.get("large")) == (b"v", None)
    clock.at = 5.0
    assert (store.get("k"), len(store)) == (None, 0)


class Waits(VirtualClock):
    def __init__(self):
        super().__init__()
        self.waits = []

    async def sleep(self, seconds):
        self.waits.append(seconds)


def failing(processor, error, shared=None, step=0, **more):
    return APIErrorContext(shared or around(processor, clock=Waits(), **more), error=error, step_number=step)


PASSING = ModelError("overloaded", retryable=True)


async def test_what_will_pass_is_tried_again_once_per_step():
    processor = StreamErrorRetryProcessor()
    shared = around(processor, clock=Waits())
    assert await processor.process_api_error(failing(processor, PASSING, shared)) == {"retry": True}
    assert await processor.process_api_error(failing(processor, PASSING, shared)) is None
    assert await processor.process_api_error(failing(processor, PASSING, shared, step=1)) == {"retry": True}
    assert shared.clock.waits == []
    assert await processor.process_api_error(failing(processor, ModelError("no"))) is None
    assert await processor.process_api_error(failing(processor, RunError("no"))) is None


@pytest.mark.parametrize(
    ("options", "told", "waits"),
    [
        ({"delay_ms": 500}, None, [0.5]),
        ({"delay_ms": lambda context: 1000 * (context.step_number + 1)}, None, [1.0]),
        ({"delay_ms": float("inf")}, None, []),
        ({"delay_ms": -1}, None, []),
        ({"delay_ms": 500}, 2, [2.0]),
        ({}, 30, [30.0]),
        ({"max_retry_after_ms": 1000}, 2, None),
    ],
)
async def test_how_long_it_waits(options, told, waits):
    processor = StreamErrorRetryProcessor(**options)
    context = failing(processor, ModelError("slow down", retryable=True, retry_after=told))
    answer = await processor.process_api_error(context)
    assert answer == (None if waits is None else {"retry": True})
    assert context.clock.waits == (waits or [])


async def test_an_abort_ends_the_wait():
    class Never(VirtualClock):
        async def sleep(self, seconds):
            await asyncio.Event().wait()

    controller = AbortController()
    processor = StreamErrorRetryProcessor(delay_ms=1)
    shared = around(processor, clock=Never(), abort_signal=controller.signal)
    waiting = asyncio.ensure_future(processor.process_api_error(failing(processor, PASSING, shared)))
    await asyncio.sleep(0)
    controller.abort()
    assert await waiting is None


async def test_other_errors_that_are_said_to_pass():
    matching = StreamErrorRetryProcessor(matchers=[lambda error: "ECONNRESET" in str(error)])
    assert await matching.process_api_error(failing(matching, ModelError("ECONNRESET"))) == {"retry": True}
    assert await matching.process_api_error(failing(matching, ModelError("other"))) is None
    every = StreamErrorRetryProcessor(retry_all_errors=True)
    assert await every.process_api_error(failing(every, ModelError("other"))) == {"retry": True}


SAID = AssistantTurn((Text("So"),))


def test_a_refused_prefill_is_followed_by_a_user_turn():
    processor = PrefillErrorHandler()
    shared = around(processor)
    context = LLMRequestContext(shared, prompt=(*ASK, SAID))
    assert processor.process_llm_request(context) is None
    refused = ModelError("This model does not support assistant message prefill.")
    assert processor.process_api_error(failing(processor, ModelError("other"), shared)) is None
    assert processor.process_api_error(failing(processor, refused, shared)) == {"retry": True}
    assert processor.process_api_error(failing(processor, refused, shared)) is None
    prompt = processor.process_llm_request(context)["prompt"]
    assert prompt[:-1] == [*ASK, SAID]
    assert prompt[-1] == UserTurn((Text("<system-reminder>continue</system-reminder>"),))
    assert processor.process_llm_request(LLMRequestContext(shared, prompt=ASK)) is None


def test_the_guard_needs_no_refusal():
    guard = TrailingAssistantGuard()
    assert len(guard.process_llm_request(LLMRequestContext(around(guard), prompt=(*ASK, SAID)))["prompt"]) == 4
    assert guard.process_llm_request(LLMRequestContext(around(guard), prompt=ASK)) is None


class City(BaseModel):
    name: str


def ended(processor, text="It is Rome.", reason="stop"):
    said = messages({"role": "user", "content": "?"}, {"role": "assistant", "content": text})
    return OutputResultContext(around(processor), messages=said, result=ResultSoFar(text, Usage(), reason))


async def test_the_answer_becomes_data():
    model = judge({"name": "Rome"})
    processor = StructuredOutputProcessor(City, model=model)
    context = ended(processor)
    passed = await processor.process_output_result(context)
    assert [message.content.metadata for message in passed] == [None, {"structuredOutput": {"name": "Rome"}}]
    assert context.writer.written == [{"type": "data-structured-output", "data": {"name": "Rome"}}]
    assert "It is Rome." in model.requests[0].last


async def test_an_answer_that_is_none(caplog):
    async def become(**options):
        processor = StructuredOutputProcessor(City, model=judge("no data"), **options)
        return await processor.process_output_result(ended(processor))

    with pytest.raises(Tripwire, match="cannot be turned into data"):
        await become()
    assert await become(error_strategy="warn") is None
    assert "has no structured output" in caplog.text
    passed = await become(error_strategy="fallback", fallback_value=City(name="?"))
    assert passed[1].content.metadata == {"structuredOutput": {"name": "?"}}
    with pytest.raises(ConfigurationError, match="needs model="):
        StructuredOutputProcessor(City, model=None)


async def test_nothing_is_asked_without_an_answer():
    processor = StructuredOutputProcessor(City, model=judge())
    assert await processor.process_output_result(ended(processor, " ")) is None
    assert await processor.process_output_result(ended(processor, reason="aborted")) is None
