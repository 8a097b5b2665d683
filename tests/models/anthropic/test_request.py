import pytest

from tenuto.core.errors import ModelError
from tenuto.messages.turns import (
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    Prompt,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    UserTurn,
)
from tenuto.models.anthropic.options import OPTION_NAMES, read_options
from tenuto.models.ports import ModelRequest, ModelSettings, NamedTool, ProviderTool, ResponseFormat, ToolSpec
from tenuto.testing.provider import FakeProvider, Reply
from tests.models.drive import F, call, model_of, prompt, request, results, run, said, user

OLD, MIDDLE, NEW = "claude-sonnet-4-20250514", "claude-sonnet-4-5", "claude-opus-5-5"


async def sent(asked=None, name=MIDDLE, allow=frozenset(), record=None, **more):
    """The request of a call, and its warnings."""
    with FakeProvider([Reply("x")], allow_extra=allow) as fake:
        model = model_of(fake, f"anthropic/{name}", api="anthropic", **(record or {}))
        parts = await run(model, asked or request(**more))
    return fake.requests[0], parts[0].warnings


async def body_of(*args, **more):
    return (await sent(*args, **more))[0].body


async def warned(*args, **more):
    """The body, and of each warning what it is about."""
    seen, warnings = await sent(*args, **more)
    return seen.body, [each.get("setting") or each.get("tool") or "changed" for each in warnings]


async def refusal(*args, **more):
    with pytest.raises(ModelError) as caught:
        await sent(*args, **more)
    assert (caught.value.id, caught.value.category) == ("MODEL_REQUEST_INVALID", "USER")
    return str(caught.value)


async def test_the_least_request():
    seen, warnings = await sent(record={"api_key": "k"})
    assert seen.body == {
        "model": MIDDLE,
        "max_tokens": 64000,
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }
    assert (seen.path, seen.headers["x-api-key"], seen.headers["anthropic-version"]) == (
        "/v1/messages", "k", "2023-06-01",
    )  # fmt: skip
    assert "anthropic-beta" not in seen.headers
    assert not warnings


async def test_all_settings():
    given = ModelSettings(temperature=0.5, max_output_tokens=9, top_k=7, stop_sequences=("a", "b"))
    body = await body_of(settings=given)
    assert {key: body[key] for key in body.keys() - {"model", "stream", "messages"}} == {
        "temperature": 0.5, "max_tokens": 9, "top_k": 7, "stop_sequences": ["a", "b"],
    }  # fmt: skip


async def test_what_nobody_of_this_kind_has_is_a_warning():
    given = ModelSettings(presence_penalty=0.1, frequency_penalty=0.2, seed=7, stop_sequences=(" ", "x"))
    body, about = await warned(settings=given)
    assert about == ["presencePenalty", "frequencyPenalty", "seed", "stopSequences"]
    assert body["stop_sequences"] == ["x"]


@pytest.mark.parametrize(
    ("name", "kept", "about"),
    [
        (OLD, {"temperature": 1, "top_p": 0.5, "top_k": 3}, ["changed"]),
        (MIDDLE, {"temperature": 1, "top_k": 3}, ["topP", "changed"]),
        (NEW, {}, ["temperature", "topP", "topK"]),
        ("m", {"temperature": 1, "top_p": 0.5, "top_k": 3}, []),
    ],
)
async def test_sampling_is_what_the_model_takes(name, kept, about):
    warmth = 1 if name == "m" else 1.5
    body, found = await warned(name=name, settings=ModelSettings(temperature=warmth, top_p=0.5, top_k=3))
    assert {key: body[key] for key in ("temperature", "top_p", "top_k") if key in body} == kept
    assert found == about


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-sonnet-20241022", 8192),
        ("claude-3-7-sonnet-20250219", 64000),
        ("claude-opus-4-1", 32000),
        ("claude-opus-4-20250514", 32000),
        ("claude-sonnet-4-6", 64000),
        ("claude-opus-4-6", 128000),
        ("claude-haiku-5-5", 128000),
        ("claude-next", 128000),
        ("claude-instant-1", 4096),
        ("kimi-k2", 4096),
    ],
)
async def test_max_tokens_is_what_the_model_can(name, most):
    assert (await body_of(name=name))["max_tokens"] == most
    body, about = await warned(name=name, settings=ModelSettings(max_output_tokens=200_000))
    known = name.startswith("claude")
    assert (body["max_tokens"], about) == ((most, ["changed"]) if known else (200_000, []))


async def test_the_catalogue_knows_the_limit(monkeypatch):
    with FakeProvider([Reply("x")]) as fake:
        monkeypatch.setenv("MINIMAX_BASE_URL", fake.base_url)
        await run(model_of_name("minimax/MiniMax-M2"))
    assert fake.requests[0].body["max_tokens"] == 128000
    assert fake.requests[0].headers["x-api-key"] == "k"


def model_of_name(name):
    from tenuto.models.resolve import resolve_model

    return resolve_model({"id": name, "api_key": "k"})


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", None, None),
        ("auto", True, {"type": "auto", "disable_parallel_tool_use": True}),
        ("none", True, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("required", True, {"type": "any", "disable_parallel_tool_use": True}),
        (NamedTool("f"), False, {"type": "tool", "name": "f", "disable_parallel_tool_use": False}),
    ],
)
async def test_tool_choice(choice, parallel, expected):
    given = {"anthropic": {} if parallel is None else {"disableParallelToolUse": parallel}}
    body = await body_of(tools=(F,), tool_choice=choice, provider_options=given)
    assert body.get("tool_choice") == expected
    assert "tool_choice" not in await body_of(tool_choice=choice, provider_options=given)


@pytest.mark.parametrize("choice", ["required", NamedTool("f")])
async def test_a_model_that_cannot_be_forced(choice):
    assert "cannot be made to call a tool" in await refusal(name=NEW, tools=(F,), tool_choice=choice)


async def test_tools():
    root = {"anyOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {}}, "required": ["b", "c"]}], "$defs": {
        "A": {"type": "object", "properties": {"a": {}, "c": {}}, "required": ["a", "c"]}}}  # fmt: skip
    tools = (
        ToolSpec("a", "", {"$ref": "#/$defs/A", "$defs": root["$defs"]}),
        ToolSpec("b", "B.", root),
        ToolSpec("c", "", {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}, strict=True),
        ToolSpec("d", "", {"type": "object"}, provider_options={"anthropic": {"cacheControl": {"type": "ephemeral"},
                 "deferLoading": True}}),
    )  # fmt: skip
    body, about = await warned(tools=tools)
    a, b, c, d = body["tools"]
    assert a["input_schema"]["properties"].keys() == {"a", "c"}
    assert (b["input_schema"]["type"], b["input_schema"]["required"]) == ("object", ["c"])
    assert b["input_schema"]["properties"].keys() == {"a", "b", "c"}
    assert c["strict"] is True
    assert c["input_schema"]["properties"]["n"] == {"type": "integer", "description": "(minimum: 1)"}
    assert (d["cache_control"], d["defer_loading"]) == ({"type": "ephemeral"}, True)
    assert not about
    body, about = await warned(tools=tools, name=OLD)
    assert "strict" not in body["tools"][2]
    assert about == ["strict"]


async def test_input_that_streams_as_it_is_written():
    given = {"anthropic": {"toolStreaming": True}}
    assert (await body_of(tools=(F,), provider_options=given))["tools"][0]["eager_input_streaming"] is True


@pytest.mark.parametrize("name", ["Ä", "a b", "", "x" * 129])
async def test_a_tool_name_that_is_refused(name):
    assert "not one that anthropic takes" in await refusal(tools=(ToolSpec(name, "", {"type": "object"}),))


async def test_tools_of_the_provider():
    tools = (
        ProviderTool(
            "anthropic.web_search_20250305", "search", {"maxUses": 2, "userLocation": {"type": "approximate"}}
        ),
        ProviderTool("anthropic.text_editor_20250728", "edit", {}),
        ProviderTool("anthropic.computer_20250124", "computer", {"displayWidthPx": 1, "displayHeightPx": 2}),
        ProviderTool("openai.web_search", "web", {}),
    )
    seen, warnings = await sent(tools=(F,), provider_tools=tools)
    assert seen.body["tools"][1:] == [
        {
            "type": "web_search_20250305", "name": "web_search", "max_uses": 2,
            "user_location": {"type": "approximate"},
        },
        {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"},
        {"type": "computer_20250124", "name": "computer", "display_width_px": 1, "display_height_px": 2},
    ]  # fmt: skip
    assert seen.headers["anthropic-beta"] == "computer-use-2025-01-24"
    assert [each["tool"] for each in warnings] == ["web"]


async def test_two_tools_of_one_name():
    spec = ToolSpec("bash", "", {"type": "object"})
    tool = ProviderTool("anthropic.bash_20250124", "bash")
    assert "Two tools have the name 'bash'" in await refusal(tools=(spec,), provider_tools=(tool,))


async def test_options_of_the_contract():
    given = {
        "anthropic": {
            "maxTokens": 500, "metadata": {"userId": "u"}, "serviceTier": "auto", "inferenceGeo": "us",
            "cacheControl": {"type": "ephemeral"}, "stream": False, "messages": [], "topP": 0.9,
            "contextManagement": {"edits": [{"type": "clear_tool_uses_20250919", "clearToolInputs": True}]},
            "mcpServers": [{"type": "url", "name": "n", "url": "https://h", "authorizationToken": "t"}],
            "container": {"skills": [{"type": "anthropic", "skillId": "pptx"}]},
            "taskBudget": {"type": "tokens", "total": 20000}, "effort": "high",
            "anthropicBeta": ["mine-2026-01-01"],
        },
        "test": {"nothing": 1},
    }  # fmt: skip
    seen, _ = await sent(name="claude-opus-4-5", provider_options=given)
    assert {key: seen.body[key] for key in seen.body.keys() - {"model", "messages"}} == {
        "stream": True, "max_tokens": 500, "metadata": {"user_id": "u"}, "service_tier": "auto", "inference_geo": "us",
        "cache_control": {"type": "ephemeral"}, "top_p": 0.9,
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919", "clear_tool_inputs": True}]},
        "mcp_servers": [{"type": "url", "name": "n", "url": "https://h", "authorization_token": "t"}],
        "container": {"skills": [{"type": "anthropic", "skill_id": "pptx"}]},
        "output_config": {"effort": "high", "task_budget": {"type": "tokens", "total": 20000}},
    }  # fmt: skip
    assert seen.body["messages"]
    assert seen.headers["anthropic-beta"].split(",") == [
        "mine-2026-01-01", "task-budgets-2026-03-13", "context-management-2025-06-27", "mcp-client-2025-04-04",
        "code-execution-2025-08-25", "skills-2025-10-02", "files-api-2025-04-14",
    ]  # fmt: skip


async def test_betas_from_everywhere_add_up():
    given = {"anthropic": {"betas": "a, b", "speed": "fast"}}
    record = {"headers": {"Anthropic-Beta": "c", "x-other": "1"}}
    settings = ModelSettings(headers={"anthropic-beta": "d", "x-other": "2"})
    seen, _ = await sent(provider_options=given, record=record, settings=settings)
    assert seen.headers["anthropic-beta"].split(",") == ["a", "b", "fast-mode-2026-02-01", "c", "d"]
    assert seen.headers["x-other"] == "2"


async def test_the_vendors_names_and_unknown_keys():
    given = {"anthropic": {"top_k": 4, "weird": {"camelCase": 1}, "service_tier": "auto"}}
    body = await body_of(provider_options=given, allow={"weird"})
    assert (body["top_k"], body["weird"], body["service_tier"]) == (4, {"camelCase": 1}, "auto")


def test_every_name_maps_to_one_the_vendor_has():
    assert set(read_options({"anthropic": dict.fromkeys(OPTION_NAMES, 1)}, "x").body) == set(OPTION_NAMES.values())


async def test_an_answer_of_a_schema():
    schema = {
        "type": "object", "$schema": "x",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "description": "How many"},
            "o": {"oneOf": [{"type": "object", "properties": {}}, {"type": "null"}]},
            "when": {"type": "string", "format": "date"}, "code": {"type": "string", "format": "regex", "pattern": "a"},
            "many": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 3},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["n"],
    }  # fmt: skip
    body = await body_of(response_format=ResponseFormat(schema=schema))
    sent_schema = body["output_config"]["format"]["schema"]
    assert sent_schema["additionalProperties"] is False
    assert sent_schema["required"] == ["n"]
    assert sent_schema["properties"] == {
        "n": {"type": "integer", "description": "How many (minimum: 1)"},
        "o": {"anyOf": [{"type": "object", "properties": {}, "additionalProperties": False}, {"type": "null"}]},
        "when": {"type": "string", "format": "date"},
        "code": {"type": "string", "description": '(format: "regex", pattern: "a")'},
        "many": {"type": "array", "items": {"type": "string"}, "description": "(minItems: 2, maxItems: 3)"},
        "map": {
            "type": "object", "additionalProperties": False,
            "description": '(additionalProperties: {"type":"string"})',
        },
    }  # fmt: skip
    assert schema["properties"]["n"]["minimum"] == 1


@pytest.mark.parametrize(("name", "schema"), [(OLD, {"type": "object"}), (MIDDLE, None), ("m", {"type": "object"})])
async def test_a_model_that_cannot_be_held_to_a_schema(name, schema):
    assert "as a tool's arguments" in await refusal(name=name, response_format=ResponseFormat(schema=schema))


@pytest.mark.parametrize(("name", "support"), [(OLD, "tool"), (MIDDLE, "native"), (NEW, "native"), ("m", "tool")])
async def test_how_a_model_takes_a_schema(name, support):
    with FakeProvider([], allow_unused=True) as fake:
        assert model_of(fake, f"anthropic/{name}", api="anthropic").structured == support


async def test_an_answer_is_not_asked_of_a_tool_where_a_schema_will_do():
    given = {"anthropic": {"structuredOutputMode": "jsonTool"}}
    asked = ResponseFormat(schema={"type": "object"})
    body, about = await warned(response_format=asked, provider_options=given)
    assert (body["output_config"]["format"]["type"], about) == ("json_schema", ["structuredOutputMode"])


async def test_user_parts():
    cached = {"anthropic": {"cacheControl": {"type": "ephemeral", "ttl": "1h"}}}
    cited = {"anthropic": {"citations": {"enabled": True}, "title": "T", "context": "C"}}
    parts = (
        Text("look", cached),
        Text("  "),
        FilePart("image/png", url="http://h/i.png", provider_metadata=cached),
        FilePart("image/*", data="QUJD"),
        FilePart("image/tiff", data="QUJD", filename="a.tiff"),
        FilePart("application/pdf", data="QUJD", filename="a.pdf", provider_metadata=cited),
        FilePart("application/pdf", url="http://h/a.pdf"),
        FilePart("application/pdf", data="file_011CN"),
        FilePart("text/csv", data="QUJD", filename="a.csv"),
        FilePart("audio/wav", data="QUJD", filename="a.wav"),
        FilePart("text/plain", url="http://h/a.txt"),
    )
    body = await body_of(request(UserTurn(parts)))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "look", "cache_control": {"type": "ephemeral", "ttl": "1h"}},
        {
            "type": "image", "source": {"type": "url", "url": "http://h/i.png"},
            "cache_control": {"type": "ephemeral", "ttl": "1h"},
        },
        {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": "QUJD"}},
        {"type": "text", "text": "[File a.tiff of type image/tiff]"},
        {
            "type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"},
            "title": "T", "context": "C", "citations": {"enabled": True},
        },
        {"type": "document", "source": {"type": "url", "url": "http://h/a.pdf"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_011CN"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "ABC"}, "title": "a.csv"},
        {"type": "text", "text": "[File a.wav of type audio/wav]"},
        {"type": "text", "text": "[File of type text/plain: http://h/a.txt]"},
    ]  # fmt: skip


async def test_cache_markers_on_instructions_and_messages():
    mark = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    system = [SystemTurn("a"), SystemTurn(" "), SystemTurn("b", mark)]
    turns = (UserTurn((Text("x"), Text("y")), mark), AssistantTurn((Text("z"), Reasoning("r", "s")), mark), user())
    body = await body_of(ModelRequest(prompt=Prompt(system, turns)))
    assert body["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}},
    ]
    first, second, _ = body["messages"]
    assert [block.get("cache_control") for block in first["content"]] == [None, {"type": "ephemeral"}]
    assert second["content"] == [{"type": "text", "text": "z", "cache_control": {"type": "ephemeral"}}]


async def test_more_cache_markers_than_there_may_be():
    mark = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    turns = [UserTurn((Text(f"{n}", mark),)) for n in range(4)]
    hidden = said("", call("c", {"cache_control": 1}))
    system = [SystemTurn("s", mark)]
    asked = ModelRequest(prompt=Prompt(system, [*turns[:2], hidden, results("c"), *turns[2:]]), tools=(F,))
    body, about = await warned(asked)
    marked = [block["text"] for message in body["messages"] for block in message["content"] if "cache_control" in block]
    assert marked == ["1", "2", "3"]
    assert "cache_control" in body["system"][0]
    assert body["messages"][2]["content"][0]["input"] == {"cache_control": 1}
    assert about == ["changed"]


async def test_instructions_in_the_middle_are_said_by_the_user():
    body = await body_of(ModelRequest(prompt=Prompt((), [user(), said("ok"), SystemTurn("now in French")])))
    assert body["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "now in French"}]}


async def test_results_of_one_step_are_one_message():
    turns = (user(), said("", call("a"), call("b")), ToolTurn((
        ResultPart("a", "f", "A"), ResultPart("b", "f", "", is_error=True),
    )))  # fmt: skip
    body = await body_of(request(*turns, tools=(F,)))
    assert body["messages"][2:] == [{"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "a", "content": "A"},
        {"type": "tool_result", "tool_use_id": "b", "content": "The tool call failed.", "is_error": True},
    ]}]  # fmt: skip


async def test_a_result_with_files():
    told = (Text("Here:"), FilePart("image/png", data="QUJD"), FilePart("application/pdf", url="http://h/a.pdf"),
            FilePart("audio/wav", data="QUJD"))  # fmt: skip
    turns = (user(), said("", call("a")), ToolTurn((ResultPart("a", "f", "Here: ...", content=told),)))
    body = await body_of(request(*turns, tools=(F,)))
    assert body["messages"][2]["content"][0]["content"] == [
        {"type": "text", "text": "Here:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {"type": "document", "source": {"type": "url", "url": "http://h/a.pdf"}},
        {"type": "text", "text": "[File of type audio/wav]"},
    ]
    body = await body_of(request(*turns[:2], ToolTurn((ResultPart("a", "f", "none", content=()),)), tools=(F,)))
    assert body["messages"][2]["content"][0]["content"] == "none"


async def test_ids_and_names_of_others_are_fitted():
    bad = CallPart("a|b c", "münze", None, raw_args="{nope")
    turns = (user(), AssistantTurn((bad,)), ToolTurn((ResultPart("a|b c", "münze", "x"),)))
    body = await body_of(request(*turns, tools=(F,)))
    (use,) = body["messages"][1]["content"]
    assert use["id"].startswith("toolu_")
    assert (use["name"], use["input"]) == ("m_nze", {"invalid_arguments": "{nope"})
    assert body["messages"][2]["content"][0]["tool_use_id"] == use["id"]


async def test_what_another_provider_sealed_is_not_sent():
    other = {"openai": {"item_id": "rs_1"}}
    turn = AssistantTurn((
        Reasoning("hm", "sig", other), Reasoning("hm", None, other, "sealed"), Reasoning("hm"),
        CallPart("ws_1", "web_search", {}, provider_executed=True, provider_metadata=other),
        ProviderResult("ws_1", "web_search", {}, provider_metadata=other),
        Custom("openai.item", other), Text("there"), FilePart("image/png", data="QUJD", filename="a.png"),
    ))  # fmt: skip
    body = await body_of(request(user(), turn, user("and?")))
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "there"},
        {"type": "text", "text": "[File a.png of type image/png]"},
    ]


async def test_reasoning_can_be_kept_back():
    turn = AssistantTurn((Reasoning("hm", "sig"), Text("there")))
    given = {"anthropic": {"sendReasoning": False}}
    for options, kinds in ((None, ["thinking", "text"]), (given, ["text"])):
        body = await body_of(request(user(), turn, user("and?"), provider_options=options))
        assert [block["type"] for block in body["messages"][1]["content"]] == kinds


async def test_reasoning_without_a_seal_goes_back_to_models_that_want_it():
    turn = AssistantTurn((Reasoning("hm", None, {"anthropic": {"type": "thinking"}}), Text("there")))
    body = await body_of(request(user(), turn, user("and?")), name="kimi-k2")
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    body = await body_of(request(user(), turn, user("and?")))
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]


async def test_reasoning_is_never_the_last_word():
    turns = (user(), AssistantTurn((Text("a"), Reasoning("hm", "s"))), AssistantTurn((Reasoning("hm", "s"),)), user())
    body = await body_of(request(*turns))
    assert [[block["type"] for block in each["content"]] for each in body["messages"]] == [["text"], ["text"], ["text"]]


@pytest.mark.parametrize("turns", [(), (UserTurn(()),), (UserTurn((Text("  "),)),)])
async def test_nothing_to_say_is_still_a_request(turns):
    body = await body_of(ModelRequest(prompt=Prompt((), turns)))
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Continue."}]}]


async def test_a_history_that_begins_with_the_model():
    body = await body_of(request(said("Hello!"), user()))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


async def test_a_history_that_ends_with_the_model():
    asked = request(user(), said("The answer is  "))
    body, about = await warned(asked, name=MIDDLE)
    assert body["messages"][-1]["content"] == [{"type": "text", "text": "The answer is"}]
    assert not about
    body, about = await warned(request(user(), said("The answer is  ")), name=NEW)
    assert body["messages"][-1]["role"] == "user"
    assert about == ["changed"]


def test_the_history_is_encoded_once():
    from tenuto.models.anthropic.messages import AnthropicMessages
    from tenuto.models.render import rendered

    given = prompt(user(), said("a", call("c")), results("c"), said("done"))
    slot = rendered(given, AnthropicMessages("anthropic"))
    first = slot.render(given)
    before = slot.encoded
    given.append(user("more"))
    assert slot.render(given)[: len(first)] == first
    assert slot.encoded == before + 1
