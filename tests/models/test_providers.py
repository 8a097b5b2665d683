"""The table of docs/providers.md: each cell is a test, through an agent and the strict fake provider.

A `yes` is what a user can do; a `no` is checked as well: what the format cannot say is named in a warning or an error,
or is nothing that a provider of this format can send.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenuto import Agent, tool
from tenuto.errors import ModelError
from tenuto.runs.result import Result
from tenuto.testing import Call, FakeProvider, HTTPError, Raw, Reply, Usage
from tenuto.testing.provider import Bytes, Made, chat_chunk
from tenuto.testing.provider.dialect import Wanted
from tenuto.tools import provider_tool
from tests.agent.kit import hasty
from tests.fuzz.corpus import LIMIT, PNG, RAN, SEAL, corpus, dialects
from tests.fuzz.play import MODELS

DIALECTS = ("chat", "responses", "anthropic", "google")
PAGE = Path(__file__).parents[2] / "docs" / "providers.md"
Cell = Callable[[str], Awaitable[None] | None]
CELLS: dict[tuple[str, str], tuple[str, Cell]] = {}
PDF = "JVBERi0xLjQK"
WAV = "UklGRg=="


def yes(feature: str, *of: str) -> Callable[[Cell], Cell]:
    """The test of a feature that these dialects have; all of them without names."""
    return _cells("yes", feature, of or DIALECTS)


def no(feature: str, *of: str) -> Callable[[Cell], Cell]:
    """The test of what becomes of it where it is not there."""
    return _cells("no", feature, of)


def _cells(said: str, feature: str, of: Sequence[str]) -> Callable[[Cell], Cell]:
    def add(cell: Cell) -> Cell:
        for dialect in of:
            assert (feature, dialect) not in CELLS, (feature, dialect)
            CELLS[feature, dialect] = (said, cell)
        return cell

    return add


# -- how a cell asks ---------------------------------------------------------------------------------------------------


@tool(effects="none")
async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


class Asked:
    """What came of a run, and what was sent for it."""

    def __init__(self, result: Result[Any], fake: FakeProvider, chunks: list[Any]) -> None:
        self.result = result
        self.requests = fake.requests
        self.chunks = chunks

    @property
    def body(self) -> dict[str, Any]:
        return self.requests[0].body

    @property
    def raw(self) -> str:
        return self.requests[0].raw.decode()

    @property
    def warned(self) -> str:
        return repr(self.result.steps[0].warnings)


async def ask(dialect: str, *replies: Any, prompt: Any = "hi", tools: Sequence[Any] = (), **options: Any) -> Asked:
    own = {name: options.pop(name) for name in ("max_retries", "instructions") if name in options}
    rules = {name: options.pop(name) for name in ("require_reasoning_echo", "allow_extra") if name in options}
    chunks: list[Any] = []
    async with FakeProvider(list(replies) or [Reply("ok")], **rules) as fake:
        model = {"id": MODELS[dialect], "url": fake.base_url, "api": dialect}
        agent, _ = hasty(Agent(id="a", model=model, tools=list(tools), **own))
        result = await agent.generate(prompt, on_chunk=chunks.append, **options)
        return Asked(result, fake, chunks)


async def failed(dialect: str, *replies: Any, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(dialect, *replies, **options)
    return caught.value


def with_file(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}]


def holds(body: Any, **wanted: Any) -> bool:
    """Whether an object with these keys and values stands anywhere in the body."""
    if isinstance(body, Mapping):
        if all(body.get(key) == value for key, value in wanted.items()):
            return True
        return any(holds(each, **wanted) for each in body.values())
    return isinstance(body, list) and any(holds(each, **wanted) for each in body)


def cannot_be_sent(dialect: str, reply: Reply) -> None:
    """The format has no place for it: the fake provider, which writes all that there is, refuses."""
    with pytest.raises(ValueError, match="no place"):
        dialects()[dialect].events(reply, Wanted("m", stream=True, usage=True, results=0), 0)


CALLS = Reply(calls=[Call("add", {"a": 1, "b": 2}, "c1"), Call("add", {"a": 3, "b": 4}, "c2")])


# -- what comes out ----------------------------------------------------------------------------------------------------


@yes("text")
async def _text(dialect):
    assert (await ask(dialect, Reply("né 漢 🙂"))).result.text == "né 漢 🙂"


@yes("reasoning, shown")
async def _reasoning(dialect):
    result = (await ask(dialect, Reply("Yes.", reasoning="Hm."))).result
    assert (result.text, result.reasoning_text) == ("Yes.", "Hm.")


@yes("reasoning, sent back with its seal", "responses", "anthropic", "google")
async def _sealed(dialect):
    first = Reply("", [Call("add", {"a": 1, "b": 2}, "c1")], reasoning="Hm.", signature=SEAL)
    asked = await ask(dialect, first, Reply("3"), tools=[add])
    assert asked.result.text == "3"
    assert SEAL in asked.requests[1].raw.decode()


@no("reasoning, sent back with its seal", "chat")
async def _not_sealed(dialect):
    cannot_be_sent(dialect, Reply("x", signature=SEAL))
    first = Reply("", [Call("add", {"a": 1, "b": 2}, "c1")], reasoning="Hm.")
    asked = await ask(dialect, first, Reply("3"), tools=[add])
    assert "Hm." not in asked.requests[1].raw.decode()
    echo = {"test": {"echoReasoning": True}}
    asked = await ask(dialect, first, Reply("3"), tools=[add], provider_options=echo, require_reasoning_echo=True)
    assert "Hm." in asked.requests[1].raw.decode()


@yes("hidden reasoning, sent back", "responses", "anthropic")
async def _redacted(dialect):
    first = Reply("", [Call("add", {"a": 1, "b": 2}, "c1")], reasoning="Hm.", signature=SEAL, redacted=["cmVk"])
    asked = await ask(dialect, first, Reply("3"), tools=[add])
    assert "cmVk" in asked.requests[1].raw.decode()


@no("hidden reasoning, sent back", "chat", "google")
def _no_redacted(dialect):
    cannot_be_sent(dialect, Reply("x", redacted=["cmVk"]))


@yes("files out", "chat", "responses", "google")
async def _files(dialect):
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    picture = Raw(events=[chat_chunk({"content": "Look", "images": [url]}), chat_chunk({}, finish="stop")])
    made = Reply("Look", files=[Made("image/png", PNG)])
    (file,) = (await ask(dialect, picture if dialect == "chat" else made)).result.files
    assert (file.payload.base64, file.payload.mime_type) == (PNG, "image/png")


@no("files out", "anthropic")
def _no_files(dialect):
    cannot_be_sent(dialect, Reply("x", files=[Made("image/png", PNG)]))


@yes("sources")
async def _sources(dialect):
    cited = {"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}
    by_chat = Raw(events=[chat_chunk({"content": "See.", "annotations": [cited]}), chat_chunk({}, finish="stop")])
    reply = by_chat if dialect == "chat" else Reply("See.", sources=[("https://a.example", "A")])
    (source,) = (await ask(dialect, reply)).result.sources
    assert (source.payload.url, source.payload.title) == ("https://a.example", "A")


@yes("refusals")
async def _refused(dialect):
    reply = {"google": Reply("I won't.", finish="SAFETY")}.get(dialect, Reply(refusal="I won't."))
    result = (await ask(dialect, reply)).result
    assert result.text == "I won't."
    if dialect in {"anthropic", "google"}:
        assert result.finish_reason == "content-filter"
    else:
        assert result.steps[0].provider_metadata["test"]["refusal"] == "I won't."


# -- tools -------------------------------------------------------------------------------------------------------------


@yes("parallel calls")
async def _parallel(dialect):
    asked = await ask(dialect, CALLS, Reply("done"), tools=[add])
    assert [each.payload.result for each in asked.result.steps[0].tool_results] == [3, 7]
    assert asked.result.text == "done"


@yes("a forced tool")
async def _forced(dialect):
    first = Reply("", [Call("add", {"a": 1, "b": 2}, "c1")])
    asked = await ask(dialect, first, tools=[add], tool_choice={"type": "tool", "tool_name": "add"}, max_steps=1)
    wanted = {
        "chat": {"type": "function", "function": {"name": "add"}},
        "responses": {"type": "function", "name": "add"},
        "anthropic": {"type": "tool", "name": "add"},
        "google": {"mode": "ANY", "allowedFunctionNames": ["add"]},
    }
    assert holds(asked.body, **wanted[dialect])


@yes("strict arguments")
async def _strict(dialect):
    @tool(effects="none", strict=True)
    async def pay(to: str) -> str:
        """Pay."""
        return to

    body = (await ask(dialect, tools=[pay])).body
    assert holds(body, mode="VALIDATED") if dialect == "google" else holds(body, name="pay", strict=True)


_SEARCH = {
    "responses": "openai.web_search",
    "anthropic": "anthropic.web_search_20250305",
    "google": "google.google_search",
}


@yes("tools of the provider", "responses", "anthropic", "google")
async def _hosted(dialect):
    ran = RAN[dialect][0]
    asked = await ask(dialect, Reply("Found.", provider_calls=[ran]), tools=[provider_tool(_SEARCH[dialect])])
    step = asked.result.steps[0]
    assert step.tool_calls[0].payload.provider_executed
    assert step.tool_results[0].payload.provider_executed
    assert asked.result.text == "Found."


@no("tools of the provider", "chat")
async def _not_hosted(dialect):
    asked = await ask(dialect, tools=[provider_tool("openai.web_search")])
    assert "openai.web_search" in asked.warned
    assert "tools" not in asked.body


@yes("files of a tool's result")
async def _result_files(dialect):
    def shown(_: Any) -> Any:
        return {"type": "content", "value": [{"type": "media", "data": PNG, "mediaType": "image/png"}]}

    @tool(effects="none", to_model_output=shown)
    async def look() -> str:
        """Look."""
        return "a picture"

    first = Reply("", [Call("look", {}, "c1")])
    asked = await ask(dialect, first, Reply("done"), tools=[look])
    assert PNG in asked.requests[1].raw.decode()


# -- what goes in ------------------------------------------------------------------------------------------------------


@yes("instructions")
async def _instructions(dialect):
    assert "Be brief." in (await ask(dialect, instructions="Be brief.")).raw


@yes("images by URL")
async def _image_url(dialect):
    url = "gs://pictures/cat.png" if dialect == "google" else "https://a.example/cat.png"
    assert url in (await ask(dialect, prompt=with_file(type="image", image=url))).raw


@yes("images by data")
async def _image(dialect):
    asked = await ask(dialect, prompt=with_file(type="image", image=f"data:image/png;base64,{PNG}"))
    assert PNG in asked.raw


@yes("PDFs")
async def _pdf(dialect):
    part = {"type": "file", "data": PDF, "mediaType": "application/pdf", "filename": "a.pdf"}
    assert PDF in (await ask(dialect, prompt=with_file(**part))).raw


@yes("audio", "chat", "google")
async def _audio(dialect):
    assert WAV in (await ask(dialect, prompt=with_file(type="file", data=WAV, mediaType="audio/wav"))).raw


@no("audio", "responses", "anthropic")
async def _no_audio(dialect):
    asked = await ask(dialect, prompt=with_file(type="file", data=WAV, mediaType="audio/wav"))
    assert WAV not in asked.raw
    assert re.search(r"\[File +of type audio/wav", asked.raw)  # the model is told


@yes("structured output by the provider")
async def _structured(dialect):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    asked = await ask(dialect, Reply('{"city":"Rome"}'), structured_output={"schema": schema})
    assert asked.result.object == {"city": "Rome"}
    assert "city" in asked.raw
    assert asked.result.finish_reason == "stop"


@yes("cache markers", "chat", "responses", "anthropic")
async def _markers(dialect):
    marker = {
        "chat": {"test": {"cacheControl": {"type": "ephemeral"}}},
        "responses": {"openai": {"promptCacheBreakpoint": True}},
        "anthropic": {"anthropic": {"cacheControl": {"type": "ephemeral"}}},
    }[dialect]
    told = {"role": "system", "content": "Long.", "providerOptions": marker}
    allow = {"cache_control"} if dialect == "chat" else ()
    sent = await ask(dialect, instructions=told, allow_extra=allow)
    assert ("cache_control" if dialect != "responses" else "prompt_cache_breakpoint") in sent.raw


@no("cache markers", "google")
async def _no_markers(dialect):
    marker = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}  # another vendor's, so not sent
    sent = await ask(dialect, instructions={"role": "system", "content": "Long.", "providerOptions": marker})
    assert "cache" not in sent.raw
    sent = await ask(dialect, provider_options={"google": {"cachedContent": "cachedContents/a"}})
    assert sent.body["cachedContent"] == "cachedContents/a"


_SET = {
    "temperature": 0.5, "top_p": 0.5, "top_k": 5, "seed": 7, "stop_sequences": ["END"], "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
}  # fmt: skip
_LACKS = {
    "chat": ("top_k",),
    "responses": ("top_k", "seed", "stop_sequences", "presence_penalty", "frequency_penalty"),
    "anthropic": ("seed", "presence_penalty", "frequency_penalty"),
    "google": (),
}
_PLAIN = {"responses": "test/gpt-4.1", "anthropic": "test/claude-3-5-haiku-20241022"}


def _setting(name: str) -> None:
    @yes(f"`{name}`", *(dialect for dialect in DIALECTS if name not in _LACKS[dialect]))
    async def there(dialect):
        with_model = await _ask_plain(dialect, model_settings={name: _SET[name]})
        assert with_model.warned == "()"
        told = with_model.raw.replace(" ", "")
        assert str(_SET[name]) in told or '["END"]' in told

    @no(f"`{name}`", *(dialect for dialect in DIALECTS if name in _LACKS[dialect]))
    async def left_out(dialect):
        with_model = await _ask_plain(dialect, model_settings={name: _SET[name]})
        first, *rest = name.split("_")
        camel = first + "".join(each.title() for each in rest)
        assert camel in with_model.warned or name in with_model.warned


async def _ask_plain(dialect: str, **options: Any) -> Asked:
    """A model that takes sampling settings."""
    async with FakeProvider([Reply("ok")]) as fake:
        model = {"id": _PLAIN.get(dialect, MODELS[dialect]), "url": fake.base_url, "api": dialect}
        return Asked(await Agent(id="a", model=model).generate("hi", **options), fake, [])


for _name in _SET:
    _setting(_name)


@yes("reasoning effort")
async def _effort(dialect):
    body = (await ask(dialect, model_settings={"reasoning": "low"})).raw
    wanted = {
        "chat": '"reasoning_effort":"low"',
        "responses": '"effort":"low"',
        "anthropic": '"thinking":{',
        "google": '"thinkingLevel":"low"',
    }
    assert wanted[dialect].lower() in body.lower()


@yes("headers")
async def _headers(dialect):
    asked = await ask(dialect, model_settings={"headers": {"X-Team": "blue"}})
    assert asked.requests[0].headers["x-team"] == "blue"


@yes("provider options, unknown ones too")
async def _options(dialect):
    options = {"google" if dialect == "google" else "test": {"brandNew": 7}}
    assert holds((await ask(dialect, provider_options=options, allow_extra={"brandNew"})).body, brandNew=7)


# -- what is said about it ---------------------------------------------------------------------------------------------


@yes("cached tokens")
async def _cached(dialect):
    usage = (await ask(dialect, Reply("x", usage=Usage(100, 40, cached=30, reasoning=10)))).result.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens) == (100, 40, 30)
    assert usage.reasoning_tokens == 10


@yes("tokens written to a cache", "responses", "anthropic")
async def _written(dialect):
    assert (
        await ask(dialect, Reply("x", usage=Usage(100, 4, cache_write=9)))
    ).result.usage.cache_creation_input_tokens == 9


@no("tokens written to a cache", "chat", "google")
async def _not_written(dialect):
    usage = (await ask(dialect, Reply("x", usage=Usage(100, 4, cache_write=9)))).result.usage
    assert (usage.input_tokens, usage.cache_creation_input_tokens) == (100, None)


@yes("warnings")
async def _warnings(dialect):
    assert "nobody.nothing" in (await ask(dialect, tools=[provider_tool("nobody.nothing")])).warned


@yes("raw chunks")
async def _raw(dialect):
    chunks = (await ask(dialect, Reply("x"), include_raw_chunks=True)).chunks
    assert any(chunk.type == "raw" for chunk in chunks)


@yes("request and response metadata")
async def _metadata(dialect):
    result = (await ask(dialect, Reply("x"))).result
    assert result.response.id
    assert result.response.model_id
    assert result.response.headers["content-type"].startswith("text/event-stream")
    assert result.request.body


# -- when it fails -----------------------------------------------------------------------------------------------------


@yes("retries that wait as told")
async def _retried(dialect):
    busy = HTTPError(429, headers={"retry-after": "7"})
    async with FakeProvider([busy, Reply("fine")]) as fake:
        model = {"id": MODELS[dialect], "url": fake.base_url, "api": dialect}
        agent, waits = hasty(Agent(id="a", model=model, max_retries=1))
        result = await agent.generate("hi")
    assert (result.text, waits) == ("fine", [7.0])


@yes("errors inside a stream")
async def _in_band(dialect):
    said: Mapping[str, Any] = {
        "chat": {"error": {"message": "busy", "code": "rate_limit_exceeded"}},
        "responses": {"type": "error", "code": "rate_limit_exceeded", "message": "busy"},
        "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "busy"}},
        "google": {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "busy"}},
    }
    error = await failed(dialect, Raw(events=[said[dialect]], done=False))
    assert (error.status, error.retryable) == (429, True)
    assert "busy" in str(error)


@yes("streams that are cut")
async def _cut(dialect):
    (stream,) = (each for each in corpus(dialect) if each.name == "text")
    error = await failed(dialect, Bytes(b"".join(stream.events[:3])))
    assert (error.id, error.retryable) == ("MODEL_STREAM_CUT_OFF", True)


@yes("stop reasons")
async def _reasons(dialect):
    filtered = {"chat": "content_filter", "responses": "content_filter", "anthropic": "refusal", "google": "SAFETY"}
    for finish, reason in ((None, "stop"), (LIMIT[dialect], "length"), (filtered[dialect], "content-filter")):
        assert (await ask(dialect, Reply("x", finish=finish))).result.finish_reason == reason


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("feature", "dialect"), CELLS)
async def test_cell(feature, dialect):
    checking = CELLS[feature, dialect][1](dialect)
    if checking is not None:
        await checking


def test_the_page_and_the_cells_agree():
    page = PAGE.read_text().partition("|---|---|---|---|---|\n")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", page, re.MULTILINE)
    table = {
        (feature, dialect): re.match(r"yes|no: ", cell)
        for feature, *cells in rows
        for dialect, cell in zip(DIALECTS, cells, strict=True)
    }
    assert all(table.values()), "each cell begins with `yes` or `no: ` and a reason"
    said = {key: match[0].removesuffix(": ") for key, match in table.items() if match}
    assert said == {key: word for key, (word, _) in CELLS.items()}
