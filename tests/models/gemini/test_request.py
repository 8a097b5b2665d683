"""What a request becomes; each body here has passed the strict provider and Google's own types."""

from __future__ import annotations

import pytest

from tenuto.core.errors import ModelError
from tenuto.messages.turns import (
    AssistantTurn,
    Custom,
    FilePart,
    Prompt,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    UserTurn,
)
from tenuto.models.ports import (
    ModelRequest,
    ModelSettings,
    NamedTool,
    ProviderTool,
    ResponseFormat,
    ToolSpec,
)
from tenuto.testing.provider import FakeProvider, Reply
from tests.models.drive import F, call, request, results, run, said, user
from tests.models.gemini.kit import PNG, SEAL, gemini, sent, warned

OLD = "google/gemini-2.5-flash"


def texts(contents):
    return [(each["role"], [part.get("text") for part in each["parts"]]) for each in contents]


async def test_path_key_and_query():
    async with FakeProvider(Reply("ok"), api_key="k", models={"gemini-3-pro"}) as provider:
        await run(gemini(provider, api_key="k"))
    asked = provider.requests[0]
    assert (asked.path, asked.query) == ("/v1/models/gemini-3-pro:streamGenerateContent", "alt=sse")
    assert "authorization" not in asked.headers


async def test_instructions_stand_apart_wherever_they_are():
    turns = [user("a"), SystemTurn("late"), said("b"), user("c")]
    prompt = Prompt([SystemTurn("one"), SystemTurn(""), SystemTurn("two")], turns)
    async with FakeProvider(Reply("ok")) as provider:
        await run(gemini(provider), ModelRequest(prompt=prompt))
    body = provider.requests[0].body
    assert body["systemInstruction"] == {"parts": [{"text": "one"}, {"text": "two"}, {"text": "late"}]}
    assert texts(body["contents"]) == [("user", ["a"]), ("model", ["b"]), ("user", ["c"])]


async def test_gemma_reads_instructions_as_the_users():
    prompt = Prompt([SystemTurn("be")], [user("a")])
    async with FakeProvider(Reply("ok")) as provider:
        await run(gemini(provider, "google/gemma-3-27b-it"), ModelRequest(prompt=prompt))
    assert texts(provider.requests[0].body["contents"]) == [("user", ["be", "a"])]


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([said("a"), user("b")], [("user", ["."]), ("model", ["a"]), ("user", ["b"])]),
        ([user("a"), said("b")], [("user", ["a"]), ("model", ["b"]), ("user", ["Continue."])]),
        ([user("a"), user("b")], [("user", ["a", "b"])]),
        ([user("a"), said("b"), said("c"), user("d")], [("user", ["a"]), ("model", ["b", "c"]), ("user", ["d"])]),
        ([user("")], [("user", ["."])]),
        ([user("a"), AssistantTurn((Reasoning("", "foreign"), Custom("x.y"))), user("b")], [("user", ["a", "b"])]),
    ],
)
async def test_user_and_model_take_turns(turns, expected):
    assert texts((await sent(*turns))["contents"]) == expected


async def test_calls_and_results():
    body = await sent(
        user("a"),
        said("b", call("c1", {"a": 1}), call("c2", name="9 lives", raw_args="{")),
        results("c2", "c1"),
        user("go on"),
        name=OLD,
        tools=(F,),
    )
    assert body["contents"][1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "b"},
                {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
                {"functionCall": {"id": "c2", "name": "_9_lives", "args": {}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "f", "response": {"output": "ok"}}},
                {"functionResponse": {"id": "c2", "name": "_9_lives", "response": {"output": "ok"}}},
                {"text": "go on"},
            ],
        },
    ]


async def test_calls_of_another_vendor_are_marked_as_unsigned():
    turns = [user("a"), said("", call("c1"), call("c2")), results("c1", "c2")]
    (_, model, _) = (await sent(*turns))["contents"]
    assert [part.get("thoughtSignature") for part in model["parts"]] == ["skip_thought_signature_validator", None]
    (_, model, _) = (await sent(*turns, name=OLD))["contents"]
    assert [part.get("thoughtSignature") for part in model["parts"]] == [None, None]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (FilePart("image/png", data=PNG), {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        (FilePart("image/*", data="/9j/aaaa"), {"inlineData": {"mimeType": "image/jpeg", "data": "/9j/aaaa"}}),
        (FilePart("image/*", data=PNG), {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        (FilePart("audio/wav", data=PNG), {"inlineData": {"mimeType": "audio/wav", "data": PNG}}),
        (FilePart("application/pdf", data=PNG), {"inlineData": {"mimeType": "application/pdf", "data": PNG}}),
        (FilePart("text/plain", data="plain words"), {"text": "plain words"}),
        (FilePart("video/mp4", url="gs://b/v"), {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}}),
        (FilePart("image/*", url="https://h/i"), {"fileData": {"fileUri": "https://h/i"}}),
        (
            FilePart("video/mp4", url="gs://b/v", provider_metadata={"google": {"videoMetadata": {"fps": 1}}}),
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v"}, "videoMetadata": {"fps": 1}},
        ),
    ],
)
async def test_files(part, expected):
    body = await sent(UserTurn((Text("see"), part)))
    assert body["contents"][0]["parts"][1] == expected


@pytest.mark.parametrize(("name", "inside"), [("google/gemini-3-pro", True), (OLD, False)])
async def test_files_of_results(name, inside):
    seen = (Text("seen"), FilePart("image/png", data=PNG), FilePart("image/png", url="https://h/i"))
    answer = ToolTurn((ResultPart("c1", "f", "seen\n[File]", None, seen),))
    body = await sent(user("a"), said("", call("c1")), answer, name=name, tools=(F,))
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    linked = {"fileData": {"mimeType": "image/png", "fileUri": "https://h/i"}}
    response = {"id": "c1", "name": "f", "response": {"output": "seen\n[File]"}}
    held = [{"functionResponse": {**response, "parts": [image]}}]
    after = [{"functionResponse": response}, image, linked]
    assert body["contents"][2]["parts"] == (held if inside else after)


async def test_options_of_a_message_apply_to_its_files():
    options = {"google": {"mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}, "cacheControl": {"type": "ephemeral"}}}
    body = await sent(UserTurn((Text("see"), FilePart("image/png", data=PNG)), options))
    assert body["contents"][0]["parts"] == [
        {"text": "see"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
    ]


@pytest.mark.parametrize(
    ("choice", "strict", "expected"),
    [
        ("auto", None, None),
        ("auto", True, {"mode": "VALIDATED"}),
        ("none", None, {"mode": "NONE"}),
        ("required", None, {"mode": "ANY"}),
        (NamedTool("f"), None, {"mode": "ANY", "allowedFunctionNames": ["f"]}),
    ],
)
async def test_choices(choice, strict, expected):
    tool = ToolSpec("f", "Does f.", {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, strict)
    body = await sent(tools=(tool,), tool_choice=choice)
    assert body.get("toolConfig", {}).get("functionCallingConfig") == expected
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared == {"name": "f", "description": "Does f.", "parametersJsonSchema": tool.parameters}


async def test_options_of_a_tool():
    options = {"google": {"behavior": "NON_BLOCKING", "cacheControl": {"type": "ephemeral"}}}
    body = await sent(tools=(ToolSpec("f", "", {"type": "object"}, None, options),))
    assert body["tools"][0]["functionDeclarations"][0]["behavior"] == "NON_BLOCKING"


HOSTED = (
    ProviderTool("google.google_search", "search"),
    ProviderTool("google.code_execution", "code"),
    ProviderTool("google.file_search", "files", {"file_search_store_names": ["s"]}),
)


async def test_tools_of_googles_own():
    body = await sent(provider_tools=HOSTED, tool_choice="required")
    assert body["tools"] == [
        {"googleSearch": {}},
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["s"]}},
    ]
    assert "toolConfig" not in body


async def test_tools_of_both_kinds():
    body = await sent(provider_tools=HOSTED[:1], tools=(F,))
    assert [list(tool) for tool in body["tools"]] == [["googleSearch"], ["functionDeclarations"]]
    config = {"functionCallingConfig": {"mode": "VALIDATED"}, "includeServerSideToolInvocations": True}
    assert body["toolConfig"] == config
    asked = request(provider_tools=(*HOSTED[:1], ProviderTool("openai.web_search", "w")), tools=(F,))
    assert await warned(asked, OLD) == [
        ("unsupported-tool", "openai.web_search"),
        ("unsupported-tool", "google.google_search"),
    ]


async def test_settings():
    settings = ModelSettings(
        temperature=0.5, top_p=0.9, top_k=4, max_output_tokens=9, presence_penalty=1, stop_sequences=("a",), seed=3
    )
    assert (await sent(settings=settings))["generationConfig"] == {
        "temperature": 0.5, "topP": 0.9, "topK": 4, "maxOutputTokens": 9, "presencePenalty": 1,
        "stopSequences": ["a"], "seed": 3,
    }  # fmt: skip


async def test_settings_that_a_model_refuses():
    settings = ModelSettings(presence_penalty=1, frequency_penalty=1, stop_sequences=tuple("abcdef"), reasoning="huge")
    assert await warned(request(settings=settings), OLD) == [
        ("unsupported-setting", "presencePenalty"),
        ("unsupported-setting", "frequencyPenalty"),
        ("unsupported-setting", "stopSequences"),
        ("unsupported-setting", "reasoning"),
    ]


@pytest.mark.parametrize(
    ("name", "effort", "expected"),
    [
        ("gemini-3-pro", "low", {"thinkingLevel": "low"}),
        ("gemini-3-pro", "none", {"thinkingLevel": "low"}),
        ("gemini-3-flash", "none", {"thinkingLevel": "minimal"}),
        ("gemini-flash-latest", "xhigh", {"thinkingLevel": "high"}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "medium", {"thinkingBudget": 8192}),
        ("gemini-2.0-flash", "medium", None),
        ("gemma-3-27b-it", "medium", None),
    ],
)
async def test_efforts(name, effort, expected):
    body = await sent(name=f"google/{name}", settings=ModelSettings(reasoning=effort))
    assert body.get("generationConfig", {}).get("thinkingConfig") == expected


async def test_an_option_wins_over_the_effort():
    given = {"google": {"thinking_config": {"thinkingBudget": 5}}}
    body = await sent(settings=ModelSettings(reasoning="low"), provider_options=given)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingBudget": 5}
    given = {"google": {"thinkingConfig": {"includeThoughts": True}}}
    body = await sent(settings=ModelSettings(reasoning="low"), provider_options=given)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "low", "includeThoughts": True}


async def test_options_go_where_they_belong():
    given = {
        "google": {
            "response_modalities": ["TEXT", "IMAGE"],
            "imageConfig": {"aspectRatio": "1:1"},
            "threshold": "BLOCK_NONE",
            "labels": {"a": "b"},
            "serviceTier": "flex",
            "retrievalConfig": {"latLng": {"latitude": 1, "longitude": 2}},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
        }
    }
    body = await sent(provider_options=given)
    assert body["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "imageConfig": {"aspectRatio": "1:1"},
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
    }
    assert [each["threshold"] for each in body["safetySettings"]] == ["BLOCK_NONE"] * 4
    assert body["toolConfig"] == {"retrievalConfig": {"latLng": {"latitude": 1, "longitude": 2}}}
    assert (body["labels"], body["serviceTier"]) == ({"a": "b"}, "flex")


async def test_an_unknown_option_goes_into_the_body_unchanged():
    async with FakeProvider(Reply("ok"), allow_extra={"newThing"}) as provider:
        await run(gemini(provider), request(provider_options={"vertex": {"newThing": {"x_y": 1}}}))
    assert provider.requests[0].body["newThing"] == {"x_y": 1}


async def test_options_of_vertex_alone_are_left_out():
    given = {
        "google": {"streamFunctionCallArguments": True, "imageConfig": {"personGeneration": "x"}, "requestType": "s"}
    }
    assert await warned(request(provider_options=given, tools=(F,))) == [
        ("unsupported-setting", "providerOptions.google.streamFunctionCallArguments"),
        ("unsupported-setting", "providerOptions.google.imageConfig.personGeneration"),
        ("unsupported-setting", "providerOptions.google.requestType"),
    ]


async def test_cached_content_stands_for_instructions_and_tools():
    prompt = Prompt([SystemTurn("be")], [user()])
    asked = ModelRequest(
        prompt=prompt,
        tools=(F,),
        tool_choice="required",
        provider_options={"google": {"cachedContent": "cachedContents/a"}},
    )
    assert [what for _, what in await warned(asked)] == ["systemInstruction", "tools", "toolConfig"]


SCHEMA = {"type": "object", "properties": {"const": {"const": "x"}, "b": {"anyOf": [{"const": 1}, {"type": "null"}]}}}


async def test_json_answers():
    body = await sent(response_format=ResponseFormat(schema=SCHEMA), tools=(F,))
    assert body["generationConfig"] == {
        "responseMimeType": "application/json",
        "responseJsonSchema": {
            "type": "object",
            "properties": {"const": {"enum": ["x"]}, "b": {"anyOf": [{"enum": [1]}, {"type": "null"}]}},
        },
    }
    plain = await sent(response_format=ResponseFormat())
    assert plain["generationConfig"] == {"responseMimeType": "application/json"}
    off = {"google": {"structuredOutputs": False}}
    body = await sent(response_format=ResponseFormat(schema=SCHEMA), provider_options=off)
    assert body["generationConfig"] == {"responseMimeType": "application/json"}


async def test_json_beside_tools_is_asked_for_in_words_where_it_must_be():
    body = await sent(name=OLD, response_format=ResponseFormat(schema=SCHEMA), tools=(F,))
    assert "generationConfig" not in body
    assert '"const":{"const":"x"}' in body["systemInstruction"]["parts"][0]["text"]
    asked = request(response_format=ResponseFormat(schema=SCHEMA), tools=(F,))
    assert await warned(asked, OLD) == [("unsupported-setting", "responseFormat")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": (ToolSpec("1st", "", {"type": "object"}),)}, "'1st'.*Rename the tool"),
        ({"tools": (F,), "tool_choice": NamedTool("g")}, "'g'.*not among the tools: f"),
        (
            {"provider_options": {"google": {"thinkingConfig": {"thinkingBudget": 1, "thinkingLevel": "low"}}}},
            "takes one of them",
        ),
    ],
)
async def test_what_would_be_refused_is_not_sent(options, message):
    async with FakeProvider() as provider:
        with pytest.raises(ModelError, match=message) as caught:
            await run(gemini(provider), request(**options))
    assert (caught.value.id, caught.value.category) == ("MODEL_REQUEST_INVALID", "USER")
    assert not provider.requests


async def test_history_is_not_written_again():
    prompt = Prompt((), [user("a"), said("", call("c1")), results("c1")])
    async with FakeProvider(Reply("ok")) as provider:
        model = gemini(provider)
        await run(model, ModelRequest(prompt=prompt))
        encoded = prompt.rendered["gemini:1"].encoded
        for turn in (said("b"), user("c")):
            prompt.append(turn)
        await run(model, ModelRequest(prompt=prompt))
    assert prompt.rendered["gemini:1"].encoded - encoded == 2
    assert SEAL not in provider.requests[1].raw.decode()


async def test_a_history_that_goes_on_and_a_result_that_comes_late_stay_in_turns():
    prompt = Prompt([], [user("a"), said("", call("1")), user("b")])
    async with FakeProvider(Reply("ok"), strict=False) as provider:
        model = gemini(provider)
        await run(model, ModelRequest(prompt=prompt))
        prompt.append(said("c"))
        prompt.append(results("1", text="late"))
        prompt.append(user("d"))
        prompt.append(user("e"))
        await run(model, ModelRequest(prompt=prompt))
        fresh = Prompt([], prompt.turns)
        await run(model, ModelRequest(prompt=fresh))
    roles = [[each["role"] for each in asked.body["contents"]] for asked in provider.requests]
    assert roles == [["user", "model", "user"], *[["user", "model", "user", "model", "user"]] * 2]
    assert provider.requests[1].body == provider.requests[2].body
