"""Each row of docs/errors.md about a model call happens here, in every format: error, message, retry, next model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tenuto import Agent
from tenuto.errors import ConfigurationError, ModelError
from tenuto.testing import (
    AnyReply,
    Bytes,
    FakeProvider,
    HTTPError,
    Raw,
    Reply,
    ScriptedModel,
    chat_chunk,
    gemini_chunk,
)
from tenuto.testing.provider import message_events
from tests.agent.kit import hasty, run

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
DIALECTS = ("chat", "responses", "anthropic", "google")
NAMES = {"chat": "groq/m", "responses": "openai/m", "anthropic": "anthropic/m", "google": "google/m"}
KEYS = ("GROQ_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY")


class Row(NamedTuple):
    """A row of the page."""

    what: str
    error: str
    message: str
    again: str
    next_model: str
    remedy: str


def rows() -> dict[str, Row]:
    part = PAGE.read_text(encoding="utf-8").partition("## When a model call fails")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")][2:]
    return {row.what: row for row in (Row(*map(str.strip, line.strip("|").split("|"))) for line in lines)}


ROWS = rows()


def openai(message: str, code: str | None, kind: str = "invalid_request_error", param: str | None = None) -> Any:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic(message: str, kind: str = "invalid_request_error") -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def google(message: str, code: int = 400, status: str = "INVALID_ARGUMENT") -> Any:
    return {"error": {"code": code, "message": message, "status": status}}


BEGUN: Mapping[str, list[Any]] = {
    "chat": [chat_chunk({"content": "Par"})],
    "responses": [
        {"type": "response.created", "response": {"id": "r", "model": "m", "created_at": 1}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Par"},
    ],
    "anthropic": list(message_events([{"type": "text", "text": "Par"}]))[:4],
    "google": [gemini_chunk({"text": "Par"})],
}
"""Events of an answer that has shown some text."""

OVERLOADED: Mapping[str, Any] = {
    "chat": openai("Overloaded", None, "overloaded_error"),
    "responses": {"type": "error", "code": "server_is_overloaded", "message": "Overloaded", "sequence_number": 3},
    "anthropic": anthropic("Overloaded", "overloaded_error"),
    "google": google("The model is overloaded.", 503, "UNAVAILABLE"),
}
CREDIT: Mapping[str, HTTPError] = {
    "chat": HTTPError(429, openai("You exceeded your quota.", "insufficient_quota", "insufficient_quota")),
    "responses": HTTPError(429, openai("You exceeded your quota.", "insufficient_quota", "insufficient_quota")),
    "anthropic": HTTPError(400, anthropic("Your credit balance is too low to access the API.")),
    "google": HTTPError(400, google("No free tier here. Please enable billing.", 400, "FAILED_PRECONDITION")),
}
SCHEMA: Mapping[str, Any] = {
    "chat": openai("Invalid for function 'add'", "invalid_function_parameters", param="tools[0].function.parameters"),
    "responses": openai("Invalid for response_format", "invalid_json_schema", param="text.format.schema"),
    "anthropic": anthropic("tools.0.custom.input_schema: JSON schema is invalid."),
    "google": google("* GenerateContentRequest.generation_config.response_schema.items: missing field."),
}
FILTERED: Mapping[str, Any] = {
    "chat": openai("The response was filtered.", "content_filter", param="prompt"),
    "responses": openai("Your prompt was flagged by our usage policy.", "invalid_prompt"),
    "anthropic": anthropic("Output blocked by content filtering policy"),
    "google": google("The prompt violates content policies."),
}
LONG: Mapping[str, Any] = {
    "chat": openai("This is more than 8192 tokens.", "context_length_exceeded", param="messages"),
    "responses": openai("Your input exceeds the context window of this model.", "context_length_exceeded"),
    "anthropic": anthropic("prompt is too long: 210000 tokens > 200000 maximum"),
    "google": google("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
}


def cut(dialect: str) -> Bytes:
    events = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in BEGUN[dialect])
    return Bytes(events + b'data: {"type": "resp')


HAPPENS: Mapping[str, Callable[[str], AnyReply]] = {
    "401: the key is refused": lambda _: HTTPError(401),
    "403: the key may not do this": lambda _: HTTPError(403),
    "404: no such model": lambda _: HTTPError(404),
    "429 with `Retry-After: 3`": lambda _: HTTPError(429, headers={"retry-after": "3"}),
    "429 without": lambda _: HTTPError(429),
    "429 with `Retry-After: 90`": lambda _: HTTPError(429, headers={"retry-after": "90"}),
    "the account is out of credit": lambda dialect: CREDIT[dialect],
    "500": lambda _: HTTPError(500),
    "overloaded, before the answer": lambda dialect: HTTPError(529 if dialect == "anthropic" else 503),
    "overloaded, in the middle of the answer": lambda dialect: Raw(events=[*BEGUN[dialect], OVERLOADED[dialect]]),
    "the stream is cut in the middle of an event": cut,
    "a body that is not JSON": lambda _: Bytes(b"<html>Welcome</html>", content_type="text/html"),
    "an event that is not JSON": lambda _: Raw(events=['{"choices": [nonsense']),
    "a refused schema": lambda dialect: HTTPError(400, SCHEMA[dialect]),
    "the messages are filtered": lambda dialect: HTTPError(400, FILTERED[dialect]),
    "the context is too long": lambda dialect: HTTPError(400, LONG[dialect]),
    "an answer without content, for no stated reason": lambda _: Reply("", finish="weird"),
}
"""What the provider does, once for each request."""

NOT_A_MODEL = {"the model string has no slash": "gpt", "no such provider": "opnai/gpt-x"}
UNASKED = {*NOT_A_MODEL, "no key", "nobody listens at the address"}


def test_the_page_and_this_file_have_the_same_rows():
    assert ROWS.keys() == HAPPENS.keys() | UNASKED
    assert all(len(row.remedy) > 3 for row in ROWS.values())


def check(row: Row, error: Exception) -> None:
    kind, error_id = re.findall(r"`(\w+)`", row.error)
    assert (type(error).__name__, error.id) == (kind, error_id)  # type: ignore[attr-defined]
    shown = ".*".join(re.escape(piece) for piece in row.message.strip("`").split("…"))
    assert re.fullmatch(shown, str(error)), str(error)


def wait_of(row: Row) -> list[float]:
    """The waits before the one retry that is allowed."""
    match row.again.split():
        case ["no"]:
            return []
        case ["yes"]:
            return [1.0]
        case ["after", seconds, "s"]:
            return [float(seconds)]
        case _:
            raise AssertionError(row.again)


async def check_row(row: Row, model: Any) -> list[float]:
    """Let the failure happen to a run with one retry, then to one with a next model; the waits of both."""
    agent, waits = hasty(Agent(id="a", model=model, max_retries=1))
    ran = await run("generate", agent)
    assert ran.error is not None
    check(row, ran.error)
    assert waits == wait_of(row)
    listed, more = hasty(Agent(id="a", model=[model, ScriptedModel("spare")], max_retries=1))
    ran = await run("stream", listed)
    assert (ran.result.text, row.next_model) == ("spare", "yes")
    return [*waits, *more]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("what", HAPPENS)
async def test_a_row(what, dialect):
    row, reply = ROWS[what], HAPPENS[what](dialect)
    async with FakeProvider(lambda _: reply) as provider:
        waits = await check_row(row, {"id": "test/m", "url": provider.base_url, "api": dialect})
    assert len(provider.requests) == 2 + len(waits)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_no_key(dialect, monkeypatch):
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    await check_row(ROWS["no key"], NAMES[dialect])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nobody_listens(dialect):
    async with FakeProvider() as provider:
        url = provider.base_url
    await check_row(ROWS["nobody listens at the address"], {"id": "test/m", "url": url, "api": dialect})


@pytest.mark.parametrize("what", NOT_A_MODEL)
async def test_what_is_no_model(what):
    row = ROWS[what]
    for model in (NOT_A_MODEL[what], [NOT_A_MODEL[what], ScriptedModel("spare")]):
        with pytest.raises(ConfigurationError) as caught:
            await run("generate", Agent(id="a", model=model))
        check(row, caught.value)
    assert (row.again, row.next_model) == ("no", "no")


FILTERS = {"chat": "content_filter", "responses": "content_filter", "anthropic": "refusal", "google": "SAFETY"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", ["", "Par"])
async def test_a_filtered_answer_is_no_error(dialect, text):
    async with FakeProvider([Reply(text, finish=FILTERS[dialect])]) as provider:
        model = {"id": "test/m", "url": provider.base_url, "api": dialect}
        ran = await run("generate", Agent(id="a", model=model))
    assert (ran.error, ran.result.finish_reason, ran.result.text) == (None, "content-filter", text)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_what_was_shown_is_in_the_result_or_taken_back(dialect):
    reply = Raw(events=[*BEGUN[dialect], OVERLOADED[dialect]])
    async with FakeProvider(lambda _: reply) as provider:
        model = {"id": "test/m", "url": provider.base_url, "api": dialect}
        failed = await run("generate", Agent(id="a", model=model))
        ran = await run("stream", Agent(id="a", model=[model, ScriptedModel("spare")]))
    assert isinstance(failed.error, ModelError)
    assert (failed.error.result.text, failed.error.retryable) == ("Par", True)
    assert "attempt-restarted" in ran.types
