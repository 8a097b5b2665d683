import json

import pytest

from tenuto.messages.turns import FilePart, SystemTurn, Text, UserTurn
from tenuto.models.chat.request import OPTION_NAMES, read_options
from tenuto.models.ports import ModelRequest, ModelSettings, NamedTool, ResponseFormat, ToolSpec
from tenuto.testing.provider import Call, FakeProvider, Reply
from tests.models.drive import F, call, calls_of, model_of, prompt, request, results, run, said, user
from tests.oracle import assert_valid_chat_body


async def body_of(asked=None, name="test/m", allow=frozenset(), **more):
    with FakeProvider([Reply("x")], allow_extra=allow) as fake:
        await run(model_of(fake, name), asked or request(**more))
        (seen,) = fake.requests
    assert_valid_chat_body(seen.body, allow=frozenset(allow))
    return seen.body


async def test_the_least_body():
    assert await body_of() == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }


async def test_all_settings():
    given = ModelSettings(
        temperature=0.5, max_output_tokens=9, top_p=0.9, presence_penalty=0.1, frequency_penalty=0.2,
        stop_sequences=("a", "b"), seed=7, reasoning="low",
    )  # fmt: skip
    body = await body_of(settings=given)
    assert {key: body[key] for key in body if key not in {"model", "stream", "stream_options", "messages"}} == {
        "temperature": 0.5, "max_tokens": 9, "top_p": 0.9, "presence_penalty": 0.1, "frequency_penalty": 0.2,
        "stop": ["a", "b"], "seed": 7, "reasoning_effort": "low",
    }  # fmt: skip


async def test_zero_is_a_value():
    body = await body_of(settings=ModelSettings(temperature=0, seed=0))
    assert (body["temperature"], body["seed"]) == (0, 0)


async def test_openai_has_another_name_for_the_limit():
    body = await body_of(name="openai/m", settings=ModelSettings(max_output_tokens=9))
    assert body["max_completion_tokens"] == 9
    assert "max_tokens" not in body


async def test_the_callers_option_wins_over_the_limit():
    given = {"openai": {"maxCompletionTokens": 5}}
    body = await body_of(settings=ModelSettings(max_output_tokens=9), provider_options=given)
    assert body["max_completion_tokens"] == 5
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("f"), {"type": "function", "function": {"name": "f"}}),
    ],
)
async def test_tool_choice(choice, expected):
    body = await body_of(tools=(F,), tool_choice=choice)
    assert body.get("tool_choice") == expected
    assert body["tools"][0]["function"]["name"] == "f"
    assert "tool_choice" not in await body_of(tool_choice=choice)


async def test_strict_tools():
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    body = await body_of(tools=(ToolSpec("g", "", schema, strict=True),))
    assert body["tools"][0]["function"]["strict"] is True


async def test_tools_are_encoded_once():
    tools = (F,)
    with FakeProvider([Reply("x"), Reply("y")]) as fake:
        model = model_of(fake)
        await run(model, request(tools=tools))
        first = model._format._tools.encode(tools)
        await run(model, request(tools=tools))
        assert model._format._tools.encode(tools) is first
        assert model._format._tools.encode((F, ToolSpec("g", "", {"type": "object"}))) is not first


async def test_options_of_the_contract():
    given = {
        "openai": {
            "reasoningEffort": "low", "parallelToolCalls": False, "serviceTier": "flex", "user": "u",
            "logitBias": {"1": 5}, "logprobs": 2, "store": True, "metadata": {"a": "b"}, "textVerbosity": "low",
            "promptCacheKey": "k", "safetyIdentifier": "s", "prediction": {"type": "content", "content": "x"},
            "structuredOutputs": True, "strictJsonSchema": True, "stream": False, "messages": [],
        }
    }  # fmt: skip
    assert "parallel_tool_calls" not in await body_of(name="openai/m", provider_options=given)
    body = await body_of(name="openai/m", provider_options=given, tools=(F,))
    assert {key: body[key] for key in body if key not in {"model", "stream_options", "messages", "tools"}} == {
        "stream": True, "reasoning_effort": "low", "parallel_tool_calls": False, "service_tier": "flex", "user": "u",
        "logit_bias": {"1": 5}, "logprobs": True, "top_logprobs": 2, "store": True, "metadata": {"a": "b"},
        "verbosity": "low", "prompt_cache_key": "k", "safety_identifier": "s",
        "prediction": {"type": "content", "content": "x"},
    }  # fmt: skip
    assert body["messages"]


async def test_snake_case_vendor_names_and_unknown_keys():
    given = {
        "openai": {"top_k": 1, "text_verbosity": "low"},
        "test": {"top_k": 4, "weird": {"camelCase": 1}},
        "x": {"no": 1},
    }
    body = await body_of(provider_options=given, allow={"top_k", "weird"})
    assert (body["top_k"], body["weird"], body["verbosity"]) == (4, {"camelCase": 1}, "low")
    assert "no" not in body


def test_every_name_maps_to_one_the_vendor_has():
    camel = dict.fromkeys(OPTION_NAMES, 1)
    assert set(read_options({"openai": camel}, "test").body) == set(OPTION_NAMES.values())
    vllm = {"test": {"structured_outputs": {"choice": ["a"]}}}
    assert read_options(vllm, "test").body == vllm["test"]


async def test_user_parts():
    parts = (
        Text("look"),
        Text(""),
        FilePart("image/png", url="http://h/i.png", provider_metadata={"openai": {"imageDetail": "low"}}),
        FilePart("image/*", data="QUJD"),
        FilePart("audio/wav", data="QUJD"),
        FilePart("audio/mpeg", data="QUJD"),
        FilePart("application/pdf", data="QUJD", filename="a.pdf"),
        FilePart("application/pdf", data="file-123"),
        FilePart("application/pdf", url="http://h/a.pdf", filename="a.pdf"),
        FilePart("text/plain", data="QUJD"),
    )
    body = await body_of(request(UserTurn(parts)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "http://h/i.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"}},
        {"type": "file", "file": {"file_id": "file-123"}},
        {"type": "text", "text": "[File a.pdf of type application/pdf: http://h/a.pdf]"},
        {"type": "text", "text": "ABC"},
    ]


async def test_options_on_a_turn():
    turn = UserTurn((Text("hi"),), {"test": {"cacheControl": {"type": "ephemeral"}}, "other": {"x": 1}})
    body = await body_of(request(turn), allow={"cache_control"})
    assert body["messages"][0] == {"role": "user", "content": "hi", "cache_control": {"type": "ephemeral"}}


async def test_nothing_to_say_is_still_a_request():
    body = await body_of(ModelRequest(prompt=prompt(UserTurn(()))))
    assert body["messages"] == [{"role": "user", "content": ""}]


async def test_a_body_over_a_megabyte():
    body = await body_of(request(user("x" * 1_500_000)))
    assert len(body["messages"][0]["content"]) == 1_500_000


async def test_system_turns_come_first():
    asked = ModelRequest(prompt=prompt(user(), system=[SystemTurn("a"), SystemTurn("b")]))
    assert [m["role"] for m in (await body_of(asked))["messages"]] == ["system", "system", "user"]


@pytest.mark.parametrize("by", ["table", "option"])
async def test_A25_the_strict_provider_gets_its_reasoning_back(by):
    from tenuto.messages.turns import AssistantTurn, CallPart, Reasoning

    name = "deepseek/m" if by == "table" else "test/m"
    options = None if by == "table" else {"test": {"echoReasoning": True}}
    with FakeProvider(
        [Reply(reasoning="think", calls=[Call("f", {})]), Reply("ok")], require_reasoning_echo=True
    ) as fake:
        model = model_of(fake, name)
        asked = request(tools=(F,), provider_options=options)
        (made,) = calls_of(await run(model, asked))
        asked.prompt.append(AssistantTurn((Reasoning("think"), CallPart(made.tool_call_id, "f", made.args))))
        asked.prompt.append(results(made.tool_call_id))
        await run(model, asked)
        assert fake.requests[1].body["messages"][1]["reasoning_content"] == "think"


async def test_A25_and_nobody_else_does():
    from tenuto.messages.turns import AssistantTurn, Reasoning

    body = await body_of(request(user(), AssistantTurn((Reasoning("r"), Text("x"))), user()))
    assert body["messages"][1] == {"role": "assistant", "content": "x"}


async def test_B13_ids_of_the_history_are_not_used_again():
    with FakeProvider([Reply(calls=[Call("f", {"a": 1}, id="c1")])]) as fake:
        asked = request(user(), said("", call("c1")), results("c1"), tools=(F,))
        (made,) = calls_of(await run(model_of(fake), asked))
    assert made.tool_call_id != "c1"


async def test_B15_the_next_request_has_valid_arguments():
    from tenuto.messages.turns import AssistantTurn, CallPart

    with FakeProvider([Reply(calls=[Call("f", '{"{"tagIds":[')]), Reply("ok")]) as fake:
        model, asked = model_of(fake), request(tools=(F,))
        (made,) = calls_of(await run(model, asked))
        asked.prompt.append(AssistantTurn((CallPart(made.tool_call_id, "f", made.args, made.raw_args),)))
        asked.prompt.append(results(made.tool_call_id))
        await run(model, asked)
        sent = fake.requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)


async def test_a_response_format():
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    named = ResponseFormat(schema=schema, name="City", description="A city.", strict=True)
    body = await body_of(response_format=named)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "City", "schema": schema, "strict": True, "description": "A city."},
    }
    loose = await body_of(response_format=named, provider_options={"openai": {"strictJsonSchema": False}})
    assert loose["response_format"]["json_schema"]["strict"] is False
    assert (await body_of(response_format=ResponseFormat()))["response_format"] == {"type": "json_object"}
    own = await body_of(response_format=named, provider_options={"test": {"responseFormat": {"type": "text"}}})
    assert own["response_format"] == {"type": "text"}


@pytest.mark.parametrize(
    ("name", "structured"),
    [
        ("openai/gpt-x", "native"), ("deepseek/x", "tool"), ("groq/x", "tool"), ("cerebras/x", "native-alone"),
        ("test/m", "native"),
    ],
)  # fmt: skip
async def test_how_a_provider_takes_a_schema(name, structured):
    with FakeProvider([]) as fake:
        assert model_of(fake, name).structured == structured
