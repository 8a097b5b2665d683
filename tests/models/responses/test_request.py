import pytest

from tenuto.core.errors import ModelError
from tenuto.messages.turns import AssistantTurn, FilePart, Reasoning, SystemTurn, Text, UserTurn
from tenuto.models.ports import (
    ModelRequest,
    ModelSettings,
    NamedTool,
    ProviderTool,
    RequestStart,
    ResponseFormat,
    ToolSpec,
)
from tenuto.models.responses.options import OPTION_NAMES, REASONING_NAMES, TEXT_NAMES, read_options
from tenuto.models.responses.reasoning import encrypts, reasons, takes_sampling
from tenuto.testing.provider import FakeProvider, Reply
from tests.models.drive import F, call, model_of, prompt, request, results, run, said, user

CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"a": {"type": "integer"}}}


async def sent(asked=None, name="openai/gpt-4.1", allow=frozenset(), **more):
    """The body and the warnings of one request."""
    with FakeProvider([Reply("x")], allow_extra=allow) as fake:
        parts = await run(model_of(fake, name, api="responses"), asked or request(**more))
        (seen,) = fake.requests
    (start,) = [part for part in parts if isinstance(part, RequestStart)]
    return seen.body, [warning["setting" if "setting" in warning else "tool"] for warning in start.warnings]


async def body_of(asked=None, name="openai/gpt-4.1", **more):
    return (await sent(asked, name, **more))[0]


async def test_the_least_body():
    assert await body_of() == {
        "model": "gpt-4.1",
        "stream": True,
        "store": False,
        "input": [{"role": "user", "content": "hi"}],
    }


async def test_the_path_and_the_key():
    with FakeProvider([Reply("x")], api_key="k") as fake:
        await run(model_of(fake, "openai/m", api="responses", api_key="k"))
        assert fake.requests[0].path == "/v1/responses"


async def test_settings():
    given = ModelSettings(
        temperature=0, max_output_tokens=99, top_p=0.9, top_k=3, presence_penalty=0.1, frequency_penalty=0.2,
        stop_sequences=("a",), seed=7, reasoning="low",
    )  # fmt: skip
    body, warnings = await sent(name="openai/unknown", settings=given)
    assert {key: body[key] for key in body if key not in {"model", "stream", "store", "input"}} == {
        "temperature": 0,
        "max_output_tokens": 99,
        "top_p": 0.9,
        "reasoning": {"effort": "low"},
    }
    assert warnings == ["topK", "presencePenalty", "frequencyPenalty", "stopSequences", "seed"]


async def test_a_reasoning_model_takes_no_sampling_and_seals_what_it_thinks():
    given = ModelSettings(temperature=0.5, top_p=0.9)
    body, warnings = await sent(name="openai/gpt-5-mini", settings=given, provider_options={"openai": {"logprobs": 3}})
    assert not body.keys() & {"temperature", "top_p", "top_logprobs"}
    assert warnings == ["temperature", "topP", "logprobs"]
    assert body["include"] == ["reasoning.encrypted_content"]


async def test_a_model_that_may_not_think_takes_sampling_then():
    given = ModelSettings(temperature=0.5, reasoning="none")
    assert (await body_of(name="openai/gpt-5.1", settings=given))["temperature"] == 0.5
    assert "temperature" not in await body_of(name="openai/gpt-5", settings=given)


async def test_a_model_that_does_not_think_is_not_told_to():
    body, warnings = await sent(settings=ModelSettings(reasoning="low"))
    assert "reasoning" not in body
    assert warnings == ["reasoning"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("o3", True), ("o4-mini", True), ("gpt-5", True), ("gpt-5.6-sol", True), ("gpt-6-luna", True),
        ("openai/gpt-5-nano", True), ("codex-mini-latest", True), ("computer-use-preview", True),
        ("gpt-4.1", False), ("gpt-4o", False), ("ft:gpt-4o:x", False), ("gpt-5-chat-latest", False),
        ("gpt-3.5-turbo", False), ("chatgpt-4o-latest", False), ("grok-4", None), ("opus", None), ("qwen3", None),
    ],
)  # fmt: skip
def test_who_reasons(name, expected):
    assert reasons(name) is expected


def test_who_gives_sealed_reasoning_and_who_samples():
    assert encrypts("grok-4-fast")
    assert not encrypts("grok-4-fast-non-reasoning")
    assert not encrypts("qwen3")
    assert takes_sampling("gpt-5.1", "none")
    assert not takes_sampling("gpt-6-sol", "none")


async def test_the_least_limit():
    body, warnings = await sent(settings=ModelSettings(max_output_tokens=3))
    assert (body["max_output_tokens"], warnings) == (16, ["maxOutputTokens"])


async def test_options_of_the_contract():
    given = {
        "openai": {
            "reasoningEffort": "low", "reasoningSummary": "auto", "textVerbosity": "high", "serviceTier": "flex",
            "parallelToolCalls": False, "store": True, "promptCacheKey": "k", "promptCacheRetention": "24h",
            "promptCacheOptions": {"mode": "explicit"}, "safetyIdentifier": "s", "metadata": {"a": "b"},
            "include": ["file_search_call.results"], "user": "u", "instructions": "be brief", "maxToolCalls": 3,
            "truncation": "auto", "contextManagement": [{"type": "compaction", "compactThreshold": 9}],
            "stream": False, "input": [], "conversation": None,
        }
    }  # fmt: skip
    body = await body_of(name="openai/o9", provider_options=given, tools=(F,))
    assert {key: body[key] for key in body if key not in {"model", "input", "tools"}} == {
        "stream": True, "store": True, "reasoning": {"effort": "low", "summary": "auto"},
        "text": {"verbosity": "high"}, "service_tier": "flex", "parallel_tool_calls": False, "prompt_cache_key": "k",
        "prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "explicit"}, "safety_identifier": "s",
        "metadata": {"a": "b"}, "include": ["file_search_call.results", "reasoning.encrypted_content"], "user": "u",
        "instructions": "be brief", "max_tool_calls": 3, "truncation": "auto",
        "context_management": [{"type": "compaction", "compact_threshold": 9}],
    }  # fmt: skip
    assert "parallel_tool_calls" not in await body_of(provider_options=given, name="openai/o9")


async def test_the_vendors_own_names_and_unknown_keys():
    given = {
        "openai": {"reasoning": {"effort": "high", "summary": "auto"}, "text": {"verbosity": "low"}},
        "test": {"weird": {"camelCase": 1}, "reasoning_effort": "low", "top_logprobs": 2},
        "other": {"no": 1},
    }
    body = await body_of(name="test/m", provider_options=given, allow={"weird"})
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert (body["text"], body["weird"], body["top_logprobs"]) == ({"verbosity": "low"}, {"camelCase": 1}, 2)
    assert "no" not in body


@pytest.mark.parametrize(("given", "count"), [(True, 20), (3, 3), (False, None)])
async def test_logprobs(given, count):
    body = await body_of(provider_options={"openai": {"logprobs": given}})
    assert body.get("top_logprobs") == count
    assert body.get("include") == (None if count is None else ["message.output_text.logprobs"])


def test_every_name_maps_to_one_the_vendor_has():
    read = read_options({"openai": dict.fromkeys([*OPTION_NAMES, *REASONING_NAMES, *TEXT_NAMES], "x")}, "test")
    assert set(read.body) == set(OPTION_NAMES.values())
    assert set(read.reasoning) == set(REASONING_NAMES.values())
    assert set(read.text) == set(TEXT_NAMES.values())


async def test_a_background_response_must_be_stored():
    assert (await body_of(provider_options={"openai": {"background": True}}))["store"] is True


async def test_options_that_exclude_each_other_are_refused_before_anything_is_sent():
    given = {"openai": {"previousResponseId": "resp_1", "conversation": "conv_1"}}
    with FakeProvider([]) as fake, pytest.raises(ModelError, match="exclude each other"):
        await run(model_of(fake, api="responses"), request(provider_options=given))


async def test_previous_response_id():
    with FakeProvider([Reply("x"), Reply("y")]) as fake:
        model = model_of(fake, api="responses")
        await run(model)
        await run(model, request(provider_options={"openai": {"previousResponseId": "resp_0"}}))
        assert fake.requests[1].body["previous_response_id"] == "resp_0"


@pytest.mark.parametrize(
    ("name", "options", "role"),
    [
        ("openai/gpt-4.1", {}, "system"),
        ("openai/gpt-5", {}, "developer"),
        ("test/m", {"forceReasoning": True}, "developer"),
        ("openai/gpt-5", {"systemMessageMode": "system"}, "system"),
        ("openai/gpt-5", {"systemMessageMode": "remove"}, None),
    ],
)
async def test_who_instructs(name, options, role):
    asked = ModelRequest(
        prompt=prompt(user(), system=[SystemTurn("a"), SystemTurn("")]), provider_options={"openai": options}
    )
    items = (await body_of(asked, name))["input"]
    assert items == ([{"role": role, "content": "a"}] if role else []) + [{"role": "user", "content": "hi"}]


async def test_nothing_to_say_is_still_a_request():
    body = await body_of(ModelRequest(prompt=prompt(UserTurn(()))))
    assert body["input"] == [{"role": "user", "content": ""}]


async def test_user_parts():
    mark = {"openai": {"promptCacheBreakpoint": True}}
    parts = (
        Text("look", mark),
        Text(""),
        FilePart("image/png", url="http://h/i.png", provider_metadata={"openai": {"imageDetail": "low"}}),
        FilePart("image/*", data="QUJD"),
        FilePart("image/png", data="file-1"),
        FilePart("application/pdf", data="QUJD", filename="a.pdf"),
        FilePart("application/pdf", data="file-123"),
        FilePart("application/pdf", url="http://h/a.pdf", filename="a.pdf"),
        FilePart("text/plain", data="QUJD"),
        FilePart("audio/wav", data="QUJD", filename="a.wav"),
    )
    body = await body_of(request(UserTurn(parts)))
    assert body["input"][0]["content"] == [
        {"type": "input_text", "text": "look", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_image", "detail": "low", "image_url": "http://h/i.png"},
        {"type": "input_image", "detail": "auto", "image_url": "data:image/jpeg;base64,QUJD"},
        {"type": "input_image", "detail": "auto", "file_id": "file-1"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QUJD"},
        {"type": "input_file", "file_id": "file-123"},
        {"type": "input_file", "file_url": "http://h/a.pdf"},
        {"type": "input_text", "text": "ABC"},
        {"type": "input_text", "text": "[File a.wav of type audio/wav: not shown]"},
    ]


async def test_cache_markers_on_turns():
    mark = {"mode": "explicit", "ttl": "12h"}
    options = {"openai": {"prompt_cache_breakpoint": mark}}
    asked = ModelRequest(prompt=prompt(UserTurn((Text("hi"),), options), system=[SystemTurn("s", options)]))
    body = await body_of(asked)
    assert body["input"] == [
        {"role": "system", "content": [{"type": "input_text", "text": "s", "prompt_cache_breakpoint": mark}]},
        {"role": "user", "content": [{"type": "input_text", "text": "hi", "prompt_cache_breakpoint": mark}]},
    ]


async def test_other_options_of_a_turn_go_into_it_unchanged():
    turn = UserTurn((Text("hi"),), {"test": {"weird": 1}, "other": {"x": 1}})
    body = await body_of(request(turn), name="test/m", allow={"weird"})
    assert body["input"][0] == {"role": "user", "content": "hi", "weird": 1}


async def test_an_answer_of_another_provider_is_plain_text():
    turn = AssistantTurn((Reasoning("r", "sig", {"anthropic": {"x": 1}}), Text("x", {"anthropic": {"itemId": "i"}})))
    body = await body_of(request(user(), turn, user()))
    assert body["input"][1] == {"role": "assistant", "content": "x"}


async def test_calls_and_results():
    body = await body_of(request(user(), said("", call("c1", {"a": 1}), call("c2")), results("c1", "c2"), tools=(F,)))
    assert body["input"][1:] == [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "function_call_output", "call_id": "c2", "output": "ok"},
    ]


async def test_a_long_id_and_a_name_that_is_none():
    long = "call_" + "x" * 99
    body = await body_of(request(user(), said("", call(long, name="no such tool!")), results(long)))
    made, answer = body["input"][1:]
    assert made["call_id"] == answer["call_id"] != long
    assert len(made["call_id"]) <= 64
    assert made["name"] == "no_such_tool_"


async def test_a_function_says_whether_it_is_strict():
    specs = (
        ToolSpec("a", "", OPEN),
        ToolSpec("b", "", CLOSED, strict=True),
        ToolSpec("c", "", OPEN, strict=True),
        ToolSpec("d", "", {"type": "object"}, provider_options={"openai": {"deferLoading": True}}),
    )
    body, warnings = await sent(tools=specs)
    assert [tool["strict"] for tool in body["tools"]] == [False, True, False, False]
    assert body["tools"][3]["parameters"] == {"type": "object", "properties": {}}
    assert body["tools"][3]["defer_loading"] is True
    assert warnings == ["strict"]


async def test_tools_are_encoded_once():
    tools = (F,)
    with FakeProvider([Reply("x"), Reply("y")]) as fake:
        model = model_of(fake, api="responses")
        await run(model, request(tools=tools))
        first = model._format._writer._functions.encode(tools)
        await run(model, request(tools=tools))
        assert model._format._writer._functions.encode(tools) is first


@pytest.mark.parametrize(
    ("id", "args", "expected"),
    [
        ("web_search", {}, {"type": "web_search"}),
        (
            "web_search",
            {"searchContextSize": "low", "userLocation": {"country": "DE"}, "filters": {"allowedDomains": ["a.de"]}},
            {
                "type": "web_search", "search_context_size": "low", "filters": {"allowed_domains": ["a.de"]},
                "user_location": {"type": "approximate", "country": "DE"},
            },
        ),
        (
            "web_search_preview", {"search_context_size": "low"},
            {"type": "web_search_preview", "search_context_size": "low"},
        ),
        (
            "file_search",
            {"vectorStoreIds": ["v"], "maxNumResults": 3, "ranking": {"scoreThreshold": 0.5}},
            {
                "type": "file_search", "vector_store_ids": ["v"], "max_num_results": 3,
                "ranking_options": {"score_threshold": 0.5},
            },
        ),
        ("code_interpreter", {}, {"type": "code_interpreter", "container": {"type": "auto"}}),
        ("code_interpreter", {"container": "cntr_1"}, {"type": "code_interpreter", "container": "cntr_1"}),
        (
            "code_interpreter", {"container": {"fileIds": ["f"]}},
            {"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}},
        ),
        ("image_generation", {"outputFormat": "webp"}, {"type": "image_generation", "output_format": "webp"}),
        (
            "mcp", {"serverLabel": "s", "serverUrl": "http://h", "headers": {"X-Key": "k"}},
            {
                "type": "mcp", "require_approval": "never", "server_label": "s", "server_url": "http://h",
                "headers": {"X-Key": "k"},
            },
        ),
        ("local_shell", {}, {"type": "local_shell"}),
        ("custom", {"description": "d"}, {"type": "custom", "name": "tool", "description": "d"}),
    ],
)  # fmt: skip
async def test_tools_of_the_provider(id, args, expected):
    body, warnings = await sent(name="openai/m", provider_tools=(ProviderTool(f"openai.{id}", "tool", args),))
    assert body["tools"] == [expected]
    assert warnings == []


async def test_what_a_tool_leaves_out_is_asked_for():
    tools = (ProviderTool("openai.web_search", "w"), ProviderTool("openai.code_interpreter", "c"))
    body = await body_of(provider_tools=tools)
    assert body["include"] == ["web_search_call.action.sources", "code_interpreter_call.outputs"]


async def test_a_tool_of_another_provider_is_left_out():
    body, warnings = await sent(provider_tools=(ProviderTool("anthropic.bash_20250124", "bash"),))
    assert "tools" not in body
    assert warnings == ["bash"]


async def test_xai_has_its_own_names():
    tools = (ProviderTool("xai.code_execution", "run"),)
    body = await body_of(name="xai/grok-4", provider_tools=tools)
    assert body["tools"] == [{"type": "code_interpreter", "container": {"type": "auto"}}]
    assert body["include"] == ["reasoning.encrypted_content"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", None),
        ("none", "none"),
        ("required", "required"),
        (NamedTool("f"), {"type": "function", "name": "f"}),
        (NamedTool("files"), {"type": "file_search"}),
        (NamedTool("web"), {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}),
        (NamedTool("server"), {"type": "mcp", "server_label": "s"}),
        (NamedTool("sql"), {"type": "custom", "name": "sql"}),
    ],
)
async def test_tool_choice(choice, expected):
    own = (
        ProviderTool("openai.file_search", "files", {"vectorStoreIds": ["v"]}),
        ProviderTool("openai.web_search", "web"),
        ProviderTool("openai.mcp", "server", {"serverLabel": "s", "serverUrl": "http://h"}),
        ProviderTool("openai.custom", "sql"),
    )
    body = await body_of(tools=(F,), provider_tools=own, tool_choice=choice)
    assert body.get("tool_choice") == expected
    assert "tool_choice" not in await body_of(tool_choice=choice)


@pytest.mark.parametrize(("choice", "mode"), [("auto", "auto"), ("required", "required")])
async def test_allowed_tools(choice, mode):
    options = {"openai": {"allowedTools": {"toolNames": ["f"]}}}
    body = await body_of(tools=(F,), tool_choice=choice, provider_options=options)
    assert body["tool_choice"] == {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": "f"}]}


@pytest.mark.parametrize(
    ("wanted", "options", "strict", "warned"),
    [
        (ResponseFormat(schema=CLOSED, name="an answer"), {}, True, []),
        (ResponseFormat(schema=OPEN), {}, False, []),
        (ResponseFormat(schema=OPEN), {"strictJsonSchema": True}, False, ["strictJsonSchema"]),
        (ResponseFormat(schema=CLOSED), {"strictJsonSchema": False}, False, []),
        (ResponseFormat(schema=CLOSED, strict=False), {"strictJsonSchema": True}, False, []),
    ],
)
async def test_an_answer_of_a_schema(wanted, options, strict, warned):
    body, warnings = await sent(
        response_format=wanted, provider_options={"openai": {**options, "textVerbosity": "low"}}
    )
    made = body["text"]["format"]
    assert (made["type"], made["schema"], made["strict"], warnings) == ("json_schema", wanted.schema, strict, warned)
    assert made["name"] == wanted.name.replace(" ", "_")
    assert body["text"]["verbosity"] == "low"


async def test_a_schema_that_is_no_object_is_refused_before_anything_is_sent():
    with FakeProvider([]) as fake, pytest.raises(ModelError, match="must be an object"):
        asked = request(response_format=ResponseFormat(schema={"type": "array"}))
        await run(model_of(fake, api="responses"), asked)


async def test_json_without_a_schema_says_the_word():
    body = await body_of(response_format=ResponseFormat())
    assert body["text"]["format"] == {"type": "json_object"}
    assert body["input"] == [{"role": "system", "content": "Answer in JSON."}, {"role": "user", "content": "hi"}]
    body = await body_of(request(user("as JSON, please"), response_format=ResponseFormat()))
    assert len(body["input"]) == 1
