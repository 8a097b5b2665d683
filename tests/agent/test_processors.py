"""Processors around a run: what each hook is given, what it may change, and what a block does in each phase."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import AbortController, Agent, tool
from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.errors import ConfigurationError
from tenuto.messages.stored import TextPart
from tenuto.processors import ModelResponse, Processor, ProcessorError
from tenuto.testing import Call, FakeProvider, Raw, Reply, ScriptedModel, chat_chunk
from tests.agent.kit import agent_on, both, run


@tool(effects="none")
async def look() -> dict[str, str]:
    return {"secret": "123-45"}


ran_tools: list[str] = []


@tool(effects="none")
async def pay(amount: int = 1) -> str:
    ran_tools.append(f"paid {amount}")
    return "paid"


@pytest.fixture(autouse=True)
def nothing_ran():
    ran_tools.clear()


def having(**hooks: Any) -> Processor:
    """A processor of these hooks; `id` names it."""
    names = {"id": "p", **hooks}
    functions = {key: staticmethod(value) if callable(value) else value for key, value in names.items()}
    return type("Made", (Processor,), functions)()


def agent(model: Any, **more: Any) -> Agent[Any, Any]:
    return Agent(id="a", model=model, **({"tools": [look, pay]} | more))


def with_text(chunk: Any, text: str) -> Any:
    return replace(chunk, payload=replace(chunk.payload, text=text))


def masked(context: Any) -> Any:
    part = context.part
    return with_text(part, part.payload.text.replace("123-45", "***")) if part.type == "text-delta" else part


def told(model: ScriptedModel, place: int = -1) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in model.requests[place].messages]


# -- process_input ---------------------------------------------------------------------------------------------------


@both
async def test_input_is_changed_once_and_stored_as_it_was_changed(verb):
    asked = []

    def first(context):
        asked.append([message.text for message in context.messages])
        return [*context.messages, {"role": "user", "content": "and more"}]

    async def second(context):
        asked.append([message.text for message in context.messages])
        system = [*context.system_messages, "Added."]
        return {"messages": "only this", "systemMessages": system}

    model = ScriptedModel([Call("look"), "done"])
    processors = [having(process_input=first), having(id="q", process_input=second)]
    ran = await run(verb, agent(model, instructions="Own.", input_processors=processors))
    assert asked == [["hi"], ["hi", "and more"]]
    assert told(model, 0) == [("system", "Own."), ("system", "Added."), ("user", "only this")]
    assert [message.text for message in ran.result.messages] == ["only this", "done"]


@both
async def test_a_system_message_among_the_returned_ones_becomes_one(verb):
    hook = having(process_input=lambda x: [{"role": "system", "content": "S"}, *x.messages])
    model = ScriptedModel("ok")
    await run(verb, agent(model, input_processors=[hook]))
    assert told(model) == [("system", "S"), ("user", "hi")]


@both
async def test_a_blocked_input_reaches_no_model_and_is_kept_nowhere(verb):
    model, violations = ScriptedModel("never"), []

    class Guard(Processor):
        id = "guard"

        def __init__(self):
            self.on_violation = violations.append

        def process_input(self, context):
            context.abort("not that", metadata={"n": 1})

    ran = await run(verb, agent(model, input_processors=[Guard()]))
    assert ran.types == ["start", "tripwire"]
    assert ran.error is None
    assert model.requests == []
    result = ran.result
    assert (result.text, result.finish_reason, result.steps, result.messages) == ("", "other", (), ())
    assert result.tripwire == p.TripwirePayload("not that", None, {"n": 1}, "guard")
    assert [(each.processor_id, each.message, each.detail) for each in violations] == [("guard", "not that", {"n": 1})]


async def test_a_failing_input_hook_fails_the_call():
    def broken(context):
        raise KeyError("x")

    model = ScriptedModel("never")
    with pytest.raises(ProcessorError, match="process_input of processor 'p' failed: KeyError") as caught:
        await agent(model, input_processors=[having(process_input=broken)]).generate("hi")
    assert caught.value.id == "AGENT_INPUT_PROCESSOR_ERROR"
    assert model.requests == []


# -- process_input_step and process_llm_request -----------------------------------------------------------------------


@both
async def test_a_step_is_changed_for_itself_alone(verb):
    seen = []

    def narrow(context):
        seen.append((context.step_number, [each.text for each in context.messages], context.active_tools))
        if context.step_number == 0:
            return {"messages": "other", "system_messages": "S", "tool_choice": "required", "active_tools": ["look"]}
        return None

    def also(context):
        seen.append((context.step_number, [each.text for each in context.messages], context.active_tools))

    model = ScriptedModel([Call("look"), "done"])
    hooks = [having(process_input_step=narrow), having(id="q", process_input_step=also)]
    ran = await run(verb, agent(model, instructions="Own.", input_processors=hooks))
    assert seen == [(0, ["hi"], None), (0, ["other"], ("look",)), (1, ["hi", ""], None), (1, ["hi", ""], None)]
    assert told(model, 0) == [("system", "S"), ("user", "other")]
    assert [spec.name for spec in model.requests[0].tools] == ["look"]
    assert model.requests[0].tool_choice == "required"
    assert told(model, 1)[:2] == [("system", "Own."), ("user", "hi")]
    assert [spec.name for spec in model.requests[1].tools] == ["look", "pay"]
    assert ran.result.messages[0].text == "hi"


@both
async def test_prepare_step_is_asked_last_and_wins(verb):
    def prepare(step):
        assert step.active_tools == ("look",)
        return {"active_tools": ["pay"]}

    model = ScriptedModel("ok")
    hook = having(process_input_step=lambda _: {"active_tools": ["look"], "model_settings": {"temperature": 0.5}})
    await run(verb, agent(model, input_processors=[hook]), prepare_step=prepare)
    assert [spec.name for spec in model.requests[0].tools] == ["pay"]
    assert model.requests[0].settings.temperature == 0.5


@both
async def test_every_attempt_asks_for_its_own_prompt(verb):
    numbers = []
    hook = having(process_input_step=lambda x: numbers.append((x.step_number, x.model.model_id)))
    models = [ScriptedModel(RuntimeError("down"), model_id="one"), ScriptedModel("ok", model_id="two")]
    ran = await run(verb, agent(models, input_processors=[hook]))
    assert ran.result.text == "ok"
    assert numbers == [(0, "one"), (0, "two")]


@both
async def test_the_prompt_can_be_changed_as_it_is_sent_and_is_stored_nowhere(verb):
    hook = having(process_llm_request=lambda x: {"prompt": [*x.prompt[:-1], replace(x.prompt[-1], content=())][:1]})
    model = ScriptedModel("ok")
    ran = await run(
        verb,
        agent(model, instructions="Own.", input_processors=[hook]),
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
    )
    assert told(model) == [("system", "Own.")]
    assert [message.text for message in ran.result.messages] == ["a", "b", "c", "ok"]


@both
async def test_a_cached_response_stands_for_a_call(verb):
    kept: list[ModelResponse] = []

    class Cache(Processor):
        id = "cache"

        def process_llm_request(self, context):
            return {"response": kept[0]} if kept else None

        def process_llm_response(self, context):
            assert context.chunks == context.response.chunks
            kept.append(context.response)

    model = ScriptedModel(["once"])
    shown = having(
        id="mask", process_output_stream=lambda x: with_text(x.part, "ONCE") if x.part.type == "text-delta" else x.part
    )
    for place in range(2):
        ran = await run(verb, agent(model, input_processors=[Cache()], output_processors=[shown]))
        assert ran.result.text == ran.text == "ONCE"
        assert bool(ran.result.usage.total_tokens) == (place == 0)
    assert len(model.requests) == 1
    assert len(kept) == 1


# -- process_output_stream --------------------------------------------------------------------------------------------


@both
async def test_what_is_removed_from_the_stream_is_gone_from_text_steps_and_messages(verb):
    model = ScriptedModel(
        [Reply("it is 123-45, yes", calls=[Call("look")], chunk_size=99), Reply("and 123-45", chunk_size=99)]
    )
    ran = await run(verb, agent(model, output_processors=[having(process_output_stream=masked)]))
    assert ran.text == ran.result.text == "it is ***, yesand ***"
    assert told(model)[1] == ("assistant", "it is ***, yes")
    assert "123-45" not in repr([step.text for step in ran.result.steps]) + repr(ran.result.messages[-1].text)
    assert [each.payload.output.text for each in ran.of("step-finish")] == ["it is ***, yes", "and ***"]


@both
async def test_dropped_and_added_chunks_make_a_whole_stream(verb):
    def odd(context):
        part = context.part
        if part.type in {"text-start", "step-finish", "finish"}:
            return None
        if part.type == "text-delta":
            return [with_text(part, "a"), c.Data("data-note", {"n": 1}), with_text(part, "b")]
        return part

    ran = await run(verb, agent(ScriptedModel("x"), output_processors=[having(process_output_stream=odd)]))
    frame = ["text-start", "text-delta", "data-note", "text-delta", "text-end"]
    assert ran.types == ["start", "step-start", *frame, "step-finish", "finish"]
    assert ran.result.text == "ab"


@both
async def test_a_call_that_is_dropped_is_not_made_and_changed_arguments_are(verb):
    def other(context):
        part = context.part
        if part.type == "tool-call" and part.payload.tool_name == "look":
            return None
        if part.type == "tool-call":
            return replace(part, payload=replace(part.payload, args={"amount": 7}))
        return None if part.type.startswith("tool-call-") else part

    model = ScriptedModel([[Call("look"), Call("pay", {"amount": 900})], "done"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_stream=other)]))
    assert ran_tools == ["paid 7"]
    assert [call.payload.args for call in ran.result.tool_calls] == [{"amount": 7}]
    assert "900" not in repr(ran.result.messages)


@both
async def test_a_blocked_stream_keeps_what_had_passed_and_runs_no_tool(verb):
    def stop(context):
        if context.part.type == "text-delta" and "bad" in context.part.payload.text:
            context.abort("bad word")
        return context.part

    model = ScriptedModel([Reply("this is bad text", chunk_size=4, calls=[Call("pay")])])
    ran = await run(verb, agent(model, output_processors=[having(process_output_stream=stop)]))
    assert ran.types[-1] == "tripwire"
    assert "finish" not in ran.types
    assert (ran.result.text, ran.result.finish_reason) == (ran.text, "other")
    assert ran.text
    assert "bad" not in ran.text
    assert ran.result.tripwire.reason == "bad word"
    assert ran_tools == []


@both
async def test_a_signature_goes_with_the_words_it_was_made_over(verb):
    def shout(context):
        part = context.part
        return with_text(part, part.payload.text.upper()) if part.type.endswith("-delta") else part

    script = [Raw(events=[chat_chunk({"reasoning_content": "hm", "content": "x"}), chat_chunk({}, finish="stop")])]
    async with FakeProvider(script) as provider:
        ran = await run(verb, agent_on(provider, output_processors=[having(process_output_stream=shout)]))
    assert ran.result.reasoning_text == "HM"
    assert ran.result.text == "X"


@both
async def test_raw_events_are_not_passed_on_to_viewers_of_a_processed_stream(verb):
    async with FakeProvider([Reply("123-45"), Reply("123-45")]) as provider:
        plain = agent_on(provider)
        assert (await run(verb, plain, include_raw_chunks=True)).of("raw")
        mask = agent_on(provider, output_processors=[having(process_output_stream=masked)])
        ran = await run(verb, mask, include_raw_chunks=True)
    assert ran.of("raw") == []


@both
async def test_partial_objects_are_made_of_what_passed(verb):
    from pydantic import BaseModel

    class Answer(BaseModel):
        text: str

    def plain(context):
        part = context.part
        return with_text(part, part.payload.text.replace("dirty", "clean")) if part.type == "text-delta" else part

    model = ScriptedModel(Reply('{"text": "dirty"}', chunk_size=99))
    hook = having(process_output_stream=plain)
    ran = await run(verb, agent(model, tools=[], output_processors=[hook]), structured_output=Answer)
    assert ran.result.object == Answer(text="clean")
    assert "dirty" not in repr(ran.chunks)


# -- process_output_step ----------------------------------------------------------------------------------------------


@both
async def test_a_rejected_answer_is_asked_for_again_with_the_reason(verb):
    counts = []

    def judge(context):
        counts.append(context.retry_count)
        if len(counts) < 3:
            context.abort(f"try {len(counts)}", retry=True)

    script = [Reply("one", calls=[Call("pay")]), "two", "three"]
    model, finished = ScriptedModel(script), []
    ran = await run(
        verb,
        agent(model, output_processors=[having(process_output_step=judge)], max_processor_retries=2),
        on_step_finish=finished.append,
    )
    result = ran.result
    assert counts == [0, 1, 2]
    assert ran_tools == []
    assert [(each.finish_reason, each.text) for each in result.steps] == [
        ("retry", ""),
        ("retry", ""),
        ("stop", "three"),
    ]
    assert [each.tripwire and each.tripwire.reason for each in result.steps] == ["try 1", "try 2", None]
    assert finished == list(result.steps)
    assert (result.text, result.finish_reason, result.tripwire) == ("three", "stop", None)
    assert result.usage.total_tokens == 3 * result.steps[0].usage.total_tokens
    assert [role for role, _ in told(model)] == ["system", "system", "user"]
    assert "try 1" in told(model)[0][1]
    assert "try 2" in told(model)[1][1]
    assert [message.text for message in result.messages] == ["hi", "three"]
    outcomes = [each.payload.step_result for each in ran.of("step-finish")]
    assert [(each.reason, each.is_continued, each.retry_reason) for each in outcomes] == [
        ("retry", True, "try 1"), ("retry", True, "try 2"), ("stop", False, None),
    ]  # fmt: skip
    assert [each.payload.error.id for each in ran.of("tool-error")] == ["TOOL_CALL_REJECTED"]


@both
@pytest.mark.parametrize(
    ("limits", "steps"),
    [({}, 1), ({"max_processor_retries": 0}, 1), ({"max_processor_retries": 1}, 2),
     ({"max_processor_retries": 9, "max_steps": 2}, 2)],
)  # fmt: skip
async def test_when_nothing_may_be_asked_again_the_run_ends_with_a_tripwire(verb, limits, steps, caplog):
    hook = having(process_output_step=lambda x: x.abort("never", retry=True))
    model = ScriptedModel(lambda _: Reply("no", calls=[Call("pay")]))
    ran = await run(verb, agent(model, output_processors=[hook]), **limits)
    result = ran.result
    assert len(model.requests) == len(result.steps) == steps
    assert (result.text, result.finish_reason, result.tripwire.reason) == ("", "tripwire", "never")
    assert ran.types[-2:] == ["step-finish", "finish"]
    assert "tripwire" not in ran.types
    assert [message.text for message in result.messages] == ["hi"]
    assert ran_tools == []
    assert ("max_processor_retries= is not set" in caplog.text) == (not limits)


@both
async def test_a_block_without_retry_ends_the_run_after_the_step(verb):
    hook = having(process_output_step=lambda x: x.abort("no"))
    ran = await run(verb, agent(ScriptedModel("x"), output_processors=[hook], max_processor_retries=5))
    assert (ran.result.finish_reason, ran.result.text, len(ran.result.steps)) == ("tripwire", "", 1)


@both
async def test_the_count_begins_again_after_an_accepted_step(verb):
    counts = []

    def judge(context):
        counts.append(context.retry_count)
        if len(counts) in {1, 3}:
            context.abort("again", retry=True)

    model = ScriptedModel(["no", Call("look"), "no", "yes"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_step=judge)], max_processor_retries=1))
    assert counts == [0, 1, 0, 1]
    assert ran.result.text == "yes"


@both
async def test_a_stream_that_is_rejected_can_be_asked_for_again(verb):
    def stop(context):
        if context.part.type == "text-delta" and "bad" in context.part.payload.text:
            context.abort("bad word", retry=True)
        return context.part

    model = ScriptedModel(["bad", "good"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_stream=stop)], max_processor_retries=1))
    assert ran.result.text == "good"
    assert [step.finish_reason for step in ran.result.steps] == ["retry", "stop"]


@both
async def test_the_answer_can_be_rewritten_before_its_tools_run(verb):
    def rewrite(context):
        assert context.text == "dirty"
        assert [call.tool_name for call in context.tool_calls] == ["look", "pay"]
        message = context.messages[-1]
        kept = [
            replace(part, text="clean") if isinstance(part, TextPart) else part
            for part in message.content.parts
            if getattr(getattr(part, "tool_invocation", None), "tool_name", "") != "pay"
        ]
        return [replace(message, content=replace(message.content, parts=tuple(kept)))]

    model = ScriptedModel([Reply("dirty", calls=[Call("look"), Call("pay")]), "done"])
    seen = []
    hook = having(process_output_step=lambda x: rewrite(x) if x.step_number == 0 else seen.append(x.text))
    ran = await run(verb, agent(model, output_processors=[hook]))
    assert ran_tools == []
    assert ran.result.text == "cleandone"
    assert "dirty" not in repr(ran.result.messages)
    assert told(model)[1][1] == "clean"
    assert [each.payload.tool_name for each in ran.of("tool-error")] == ["pay"]
    assert seen == ["done"]


# -- process_tool_result ----------------------------------------------------------------------------------------------


@both
async def test_a_result_is_rewritten_before_anybody_sees_it(verb):
    asked = []

    def rewrite(context):
        asked.append((context.tool_name, context.result, context.step_number))
        return {"result": {"secret": "***"}}

    model = ScriptedModel([Call("look", {}, "c1"), "done"])
    ran = await run(verb, agent(model, output_processors=[having(process_tool_result=rewrite)]))
    assert asked == [("look", {"secret": "123-45"}, 0)]
    assert "123-45" not in repr((ran.chunks, ran.result.steps, ran.result.messages, model.requests))
    assert ran.result.tool_results[0].payload.result == {"secret": "***"}
    assert told(model)[-1] == ("tool", '{"secret":"***"}')


@both
async def test_a_stream_hook_rewrites_results_too_and_removing_one_leaves_null(verb):
    def hide(context):
        return None if context.part.type == "tool-result" else context.part

    model = ScriptedModel([Call("look"), "done"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_stream=hide)]))
    assert [each.payload.result for each in ran.of("tool-result")] == [None]
    assert "123-45" not in repr((ran.result.steps, ran.result.messages, model.requests))


@both
async def test_a_result_that_is_not_accepted_is_told_or_ends_the_run(verb):
    hook = having(process_tool_result=lambda x: x.abort("secret", retry=True))
    model = ScriptedModel([Call("look"), "done"])
    ran = await run(verb, agent(model, output_processors=[hook], max_processor_retries=1))
    assert ran.result.text == "done"
    assert ran.result.tool_results[0].payload.is_error
    assert "was not accepted: secret" in told(model)[-1][1]
    model = ScriptedModel([[Call("look"), Call("pay")], "never"])
    ran = await run(verb, agent(model, output_processors=[hook]), tool_call_concurrency=1)
    assert ran.types[-1] == "tripwire"
    assert (ran.result.finish_reason, ran.result.tripwire.reason) == ("other", "secret")
    assert len(model.requests) == 1
    assert ran_tools == []  # nothing begins after a block
    assert "123-45" not in repr((ran.chunks, ran.result.steps, ran.result.messages))


@both
async def test_results_asked_for_again_and_again_come_to_an_end(verb):
    hook = having(process_tool_result=lambda x: x.abort("no", retry=True))
    model = ScriptedModel(lambda _: Call("look"))
    ran = await run(verb, agent(model, output_processors=[hook], max_processor_retries=2), max_steps=9)
    assert len(model.requests) == 3
    assert ran.result.tripwire.reason == "no"


@both
async def test_a_failing_result_hook_fails_the_run_and_not_the_other_calls(verb):
    def broken(context):
        if context.tool_name == "look":
            raise ValueError("oops")

    model = ScriptedModel([[Call("look"), Call("pay")], "never"])
    ran = await run(verb, agent(model, output_processors=[having(process_tool_result=broken)]))
    assert isinstance(ran.error, ProcessorError)
    assert ran.result.finish_reason == "error"
    assert ran.types[-2:] == ["error", "finish"]
    assert "123-45" not in repr(ran.chunks)
    assert len(model.requests) == 1


@both
async def test_a_result_that_a_strict_stream_hook_could_not_look_at_is_seen_by_nobody(verb):
    def broken(context):
        if context.part.type == "tool-result":
            raise ValueError("oops")
        return context.part

    model = ScriptedModel([[Call("look"), Call("pay")], "never"])
    strict = having(process_output_stream=broken, fail_closed=True)
    ran = await run(verb, agent(model, output_processors=[strict]))
    assert isinstance(ran.error, ProcessorError)
    assert "123-45" not in repr((ran.chunks, ran.result.steps, ran.result.messages))
    assert [each.payload.error.id for each in ran.of("tool-error")] == ["TOOL_RESULT_REFUSED"] * 2


@both
async def test_a_strict_stream_hook_that_fails_fails_the_run(verb):
    def broken(context):
        if context.part.type == "text-delta":
            raise ValueError("oops")
        return context.part

    strict = having(process_output_stream=broken, fail_closed=True)
    other = ScriptedModel("never", model_id="two")
    ran = await run(verb, agent([ScriptedModel("secret"), other], output_processors=[strict]))
    assert isinstance(ran.error, ProcessorError)
    assert "secret" not in repr(ran.chunks)
    assert other.requests == []  # it is no failure of the model


@both
async def test_a_block_at_a_frame_asks_for_no_other_answer(verb):
    def stop(context):
        if context.part.type in {"step-start", "tool-call-approval"}:
            context.abort("no", retry=True)
        return context.part

    hook = having(process_output_stream=stop)
    ran = await run(verb, agent(ScriptedModel("x"), output_processors=[hook], max_processor_retries=3))
    assert (ran.result.tripwire.reason, ran.result.finish_reason, ran.types[-1]) == ("no", "other", "tripwire")


@both
@pytest.mark.parametrize("kind", ["tool-call-approval", "step-finish", "finish", "tool-error"])
async def test_a_block_at_any_chunk_ends_the_stream_there(verb, kind):
    def stop(context):
        if context.part.type == kind:
            context.abort("no")
        return context.part

    model = ScriptedModel([Call("nothing") if kind == "tool-error" else Call("pay"), "done"])
    approval = kind == "tool-call-approval"
    made = agent(model, output_processors=[having(process_output_stream=stop)])
    ran = await run(verb, made, require_tool_approval=approval)
    assert (ran.result.tripwire.reason, ran.result.finish_reason, ran.types[-1]) == ("no", "other", "tripwire")
    assert ran_tools == ([] if kind in {"tool-call-approval", "tool-error"} else ["paid 1"])
    assert ran.result.pending == ()


# -- process_output_result --------------------------------------------------------------------------------------------


@both
async def test_the_end_can_rewrite_the_answer(verb):
    def rewrite(context):
        assert context.result.text == "firstsecond"
        assert context.result.finish_reason == "stop"
        (message,) = context.messages
        parts = tuple(replace(x, text=x.text.upper()) if isinstance(x, TextPart) else x for x in message.content.parts)
        return [replace(message, content=replace(message.content, parts=parts))]

    model = ScriptedModel([Reply("first", calls=[Call("look")]), "second"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_result=rewrite)]))
    assert ran.result.text == "FIRSTSECOND"
    assert [step.text for step in ran.result.steps] == ["FIRST", "SECOND"]
    assert ran.result.messages[-1].text == "FIRSTSECOND"


@both
async def test_a_blocked_result_drops_the_answer_and_keeps_the_input(verb):
    hook = having(process_output_result=lambda x: x.abort("no"))
    ran = await run(verb, agent(ScriptedModel("answer"), output_processors=[hook]))
    assert ran.types[-1] == "tripwire"
    result = ran.result
    assert (result.text, result.finish_reason, result.tripwire.reason) == ("", "other", "no")
    assert [message.text for message in result.messages] == ["hi"]


@both
async def test_a_failing_result_hook_is_the_error_of_the_run(verb):
    def broken(context):
        raise ValueError("oops")

    ran = await run(verb, agent(ScriptedModel("x"), output_processors=[having(process_output_result=broken)]))
    assert isinstance(ran.error, ProcessorError)
    assert ran.result.finish_reason == "error"


@both
async def test_the_result_hook_runs_after_failures_aborts_and_the_step_limit(verb):
    reasons = []
    hook = having(process_output_result=lambda x: reasons.append(x.result.finish_reason))
    await run(verb, agent(ScriptedModel(RuntimeError("down")), output_processors=[hook]))
    await run(verb, agent(ScriptedModel(lambda _: Call("look")), output_processors=[hook]), max_steps=1)
    stop = AbortController()

    @tool(effects="none")
    async def wait() -> None:
        stop.abort()

    await run(
        verb, agent(ScriptedModel(Call("wait")), tools=[wait], output_processors=[hook]), abort_signal=stop.signal
    )
    await run(
        verb,
        agent(
            ScriptedModel("x"), output_processors=[hook, having(id="q", process_output_stream=lambda x: x.abort("no"))]
        ),
    )
    assert reasons == ["error", "tool-calls", "aborted"]


# -- process_api_error ------------------------------------------------------------------------------------------------


@both
async def test_a_failed_model_is_asked_again_before_the_next_one(verb):
    asked = []

    def again(context):
        asked.append((context.model.model_id, context.retry_count, str(context.error)))
        if context.retry_count == 0:
            return {"retry": True, "messages": [*context.messages, {"role": "user", "content": "go on"}]}
        return False

    flaky = ScriptedModel([RuntimeError("down"), RuntimeError("still down")], model_id="one")
    other = ScriptedModel("ok", model_id="two")
    ran = await run(verb, agent([flaky, other], error_processors=[having(process_api_error=again)]))
    assert ran.result.text == "ok"
    assert [(model, count) for model, count, _ in asked] == [("one", 0), ("one", 1)]
    assert [message["content"] for message in flaky.requests[1].messages] == ["hi", "go on"]
    assert len(ran.result.steps) == 1


@both
@pytest.mark.parametrize(("limit", "calls"), [(None, 4), (1, 2), (0, 1)])
async def test_a_failed_model_is_asked_three_times_more_unless_somebody_says_otherwise(verb, limit, calls):
    model = ScriptedModel(RuntimeError("down"))
    hook = having(process_api_error=lambda _: True)
    limits = {} if limit is None else {"max_processor_retries": limit}
    ran = await run(verb, agent(model, error_processors=[hook], **limits))
    assert len(model.requests) == calls
    assert ran.result.finish_reason == "error"


@both
async def test_input_output_and_error_processors_are_asked_in_this_order(verb):
    asked = []

    def noting(name, answer=None):
        return having(id=name, process_api_error=lambda _: asked.append(name) or answer)

    model = ScriptedModel([RuntimeError("down"), "ok"])
    lists = {
        "error_processors": [noting("error", answer=True), noting("late")],
        "output_processors": [noting("output")],
        "input_processors": [noting("input")],
    }
    ran = await run(verb, agent(model, **lists))
    assert asked == ["input", "output", "error"]
    assert ran.result.text == "ok"


# -- all of them ------------------------------------------------------------------------------------------------------


@both
async def test_a_calls_list_takes_the_place_of_the_agents_and_lists_may_be_functions(verb):
    said = []
    mine = having(id="mine", process_input=lambda _: said.append("mine"))
    own = having(id="own", process_input=lambda _: said.append("own"))
    calls = having(id="calls", process_input=lambda _: said.append("call"))

    async def chosen(context):
        return [mine] if context.get("me") else [own]

    made = agent(ScriptedModel("ok"), input_processors=chosen)
    await run(verb, made, request_context={"me": True})
    await run(verb, made)
    await run(verb, made, input_processors=[calls])
    await run(verb, made, input_processors=[])
    assert said == ["mine", "own", "call"]


@both
async def test_state_is_shared_by_hooks_of_one_id_and_begins_empty_in_each_run(verb):
    seen = []

    def count(context):
        context.state["n"] = context.state.get("n", 0) + 1
        seen.append(context.state["n"])

    hooks = {"process_input": count, "process_input_step": count, "process_output_step": count}
    processor, twin = having(**hooks), having(process_output_result=count)
    made = agent(ScriptedModel("ok"), input_processors=[processor], output_processors=[processor, twin])
    await run(verb, made)
    await run(verb, made)
    assert seen == [1, 2, 3, 4, 1, 2, 3, 4]


@both
async def test_a_hook_has_the_run_around_it_and_writes_to_its_stream(verb):
    async def note(context):
        assert (context.agent_id, context.agent_name, context.processor_id) == ("a", "a", "p")
        assert context.request_context["user"] == "ann"
        assert not context.abort_signal.aborted
        await context.writer.custom({"type": "data-note", "data": {"id": context.run_id}})

    hook = having(process_output_step=note)
    ran = await run(verb, agent(ScriptedModel("ok"), output_processors=[hook]), request_context={"user": "ann"})
    assert [each.data for each in ran.of("data-note")] == [{"id": ran.result.run_id}]
    assert ran.types.index("data-note") < ran.types.index("step-finish")


@both
async def test_an_abort_ends_a_hook_that_does_not_end(verb):
    stop = AbortController()

    async def forever(context):
        stop.abort()
        await asyncio.Event().wait()

    made = agent(ScriptedModel("said"), output_processors=[having(process_output_step=forever)], abort_grace=0.0)
    ran = await run(verb, made, abort_signal=stop.signal)
    assert ran.result.finish_reason == "aborted"
    assert ran.result.text == "said"


@both
async def test_a_hook_that_lets_a_cancellation_out_is_a_hook_that_failed(verb):
    def cancelled(context):
        raise asyncio.CancelledError

    ran = await run(verb, agent(ScriptedModel("x"), output_processors=[having(process_output_step=cancelled)]))
    assert isinstance(ran.error, ProcessorError)


async def test_a_run_without_processors_loads_none_of_them():
    model = ScriptedModel("ok")
    result = await Agent(id="a", model=model).generate("hi")
    assert result.tripwire is None


@pytest.mark.parametrize("name", ["input_processors", "output_processors", "error_processors"])
async def test_what_is_no_processor_is_refused_by_the_agent_and_the_call(name):
    with pytest.raises(ConfigurationError, match="without an id"):
        agent(ScriptedModel("x"), **{name: [object()]})
    with pytest.raises(ConfigurationError, match="without an id"):
        await agent(ScriptedModel("x")).generate("hi", **{name: [object()]})
    made = agent(ScriptedModel("x"), **{name: lambda _: [object()]})
    with pytest.raises(ConfigurationError, match="without an id"):
        await made.generate("hi")


async def test_a_stream_says_what_blocked_it():
    stream = await agent(ScriptedModel("x"), input_processors=[having(process_input=lambda x: x.abort("no"))]).stream(
        "hi"
    )
    tripwire = await stream.tripwire
    assert tripwire is not None
    assert tripwire.reason == "no"


@both
async def test_half_a_character_in_what_a_processor_says(verb):
    def step(context):
        if context.retry_count == 0:
            context.abort("bad \ud83d", retry=True, metadata={"at": ["\ud83d"]})

    model = ScriptedModel(["one", "two"])
    ran = await run(verb, agent(model, output_processors=[having(process_output_step=step)], max_processor_retries=1))
    assert (ran.error, ran.result.text) == (None, "two")
    assert "bad \ufffd" in str(model.requests[1].messages[0]["content"])
