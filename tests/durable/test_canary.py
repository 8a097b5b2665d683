"""Secrets that are put where secrets belong appear nowhere else: not in the store, a log, an error, a stream, a repr.

Every place gets a canary of its own, so a leak names where it comes from. The provider is the worst there is: it
repeats what it was sent in its errors, in every shape, and in its headers.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenuto import Agent, RequestContext, Tenuto, ToolContext, create_durable_agent, tool
from tenuto.core.errors import TenutoError
from tenuto.models.resolve import resolve_model
from tenuto.store import SQLiteStore
from tenuto.testing import Bytes, Call, FakeProvider, HTTPError, Raw, Reply
from tests.agent.kit import all_ended

PLACES = (
    "agent-key", "environment", "authorization", "x-api-key", "cookie", "proxy", "signature", "call-authorization",
    "call-cookie", "call-session-token", "deps", "auth-token", "url-user", "url-password", "provider-cookie",
)  # fmt: skip
CANARIES = {place: f"canary-{place}-{number:03}f00d" for number, place in enumerate(PLACES)}
HEADERS = {
    "X-Api-Key": CANARIES["x-api-key"],
    "Cookie": f"theme=dark; session={CANARIES['cookie']}",
    "Proxy-Authorization": f"Basic {CANARIES['proxy']}",
    "X-Signature": CANARIES["signature"],
}
CALL_HEADERS = {
    "Authorization": f"Bearer {CANARIES['call-authorization']}",
    "Cookie": f"session={CANARIES['call-cookie']}",
    "X-Session-Token": CANARIES["call-session-token"],
    "X-Team": "blue",
}


class Deps:
    """What tools use; its repr is as careless as a dataclass's."""

    password = CANARIES["deps"]

    def __repr__(self) -> str:
        return f"Deps(password={self.password!r})"


@tool
async def uses(ctx: ToolContext[Any, Any]) -> str:
    assert ctx.deps.password
    assert ctx.request_context.get("mastra__authToken") == CANARIES["auth-token"]
    return f"ok {ctx!r}"


@tool(require_approval=True)
async def wire(ctx: ToolContext[Any, Any], amount: int) -> str:
    raise ValueError("it broke")


class Seen:
    """Everything that somebody could read, as text."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, str]] = []

    def add(self, where: str, *values: Any) -> None:
        for value in values:
            self.parts.append((where, value if isinstance(value, str) else repr(value)))

    def error(self, error: BaseException) -> None:
        self.add("error", *(show(error) for show in (str, repr)), *traceback.format_exception(error))
        self.add("error's fields", vars(error))

    def output(self, chunks: list[Any], result: Any) -> None:
        self.add("stream", chunks, *(chunk.to_dict() for chunk in chunks))
        self.add("result", result, msgspec.json.encode(result, enc_hook=repr).decode())
        if result is not None and result.error is not None:
            self.error(result.error)

    def files(self, folder: Path) -> None:
        for path in folder.iterdir():
            self.add(f"file {path.name}", path.read_bytes().decode("latin-1"))

    def leaks(self) -> list[str]:
        return sorted({f"{place} in {where}" for place, canary in CANARIES.items() for where in self.where(canary)})

    def where(self, canary: str) -> Iterator[str]:
        for where, text in self.parts:
            at = text.find(canary[:-2])  # a cut one is a leak too
            if at >= 0:
                yield f"{where}: ...{text[max(0, at - 80) : at + 60]}..."


def everything(request: Any) -> str:
    return " ".join(f"{name}: {value}" for name, value in request.headers.items())


def echo_headers(request: Any) -> dict[str, str]:
    sent = {
        f"x-echo-{name}": value for name, value in request.headers.items() if name.startswith(("x-", "auth", "coo"))
    }
    return {
        **sent,
        "x-request-id": request.headers.get("authorization", "-"),
        "set-cookie": CANARIES["provider-cookie"],
    }


ECHOES: dict[str, Callable[[Any], Any]] = {
    "an error object": lambda request: HTTPError(401, {"error": {"message": f"Bad key: {everything(request)}"}}),
    "its code and type": lambda request: HTTPError(
        401, {"error": {"message": "No.", "code": request.headers["x-api-key"], "type": everything(request)}}
    ),
    "a long text": lambda request: HTTPError(400, "." * 560 + request.headers["authorization"] + "." * 100),
    "a long page": lambda request: Bytes(
        f"<html><body>{everything(request)}</body></html>".encode(), status=502, content_type="text/html"
    ),
    "a page that says 200": lambda request: Bytes(
        f"<html>{'.' * 170}{request.headers['x-api-key']}</html>".encode(), content_type="text/html"
    ),
    "an event": lambda request: Raw(events=[{"error": {"message": everything(request), "code": everything(request)}}]),
    "an event that is no JSON": lambda request: Raw(events=["{" + "." * 170 + everything(request)]),
    "JSON without a meaning": lambda request: Raw(events=[{"error": {"detail": [everything(request)]}}]),
    "response headers": lambda request: Reply("Hello.", headers=echo_headers(request)),
    "headers of an error": lambda request: HTTPError(429, headers=echo_headers(request)),
}


@pytest.fixture(autouse=True)
def _everything_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="tenuto")
    caplog.set_level(logging.DEBUG, logger="asyncio")


@pytest.fixture
def seen(caplog, tmp_path):
    seen = Seen()
    yield seen
    for record in caplog.records:
        seen.add(f"log of {record.name}", record.getMessage(), repr(record.args))
        if record.exc_info:
            seen.add("logged traceback", *traceback.format_exception(record.exc_info[1]))
    seen.add("formatted log", caplog.text)
    seen.files(tmp_path)
    assert seen.leaks() == []


def context() -> RequestContext:
    return RequestContext({"user": "ann", "mastra__authToken": CANARIES["auth-token"]})


def record(provider: FakeProvider, **more: Any) -> dict[str, Any]:
    return {"id": "test/m", "url": provider.base_url, "api_key": CANARIES["agent-key"], "headers": HEADERS, **more}


async def run(seen: Seen, agent: Any, **options: Any) -> Any:
    """Stream, then generate: both are read to the end, and so are the callbacks."""
    told: list[Any] = []
    callbacks = dict.fromkeys(("on_chunk", "on_step_finish", "on_finish", "on_error", "on_abort"), told.append)
    output = await agent.stream("hi", request_context=context(), **options, **callbacks)
    chunks = [chunk async for chunk in output.full_stream]
    result = await output.get_full_output()
    seen.output(chunks, result)
    seen.add("callback", *told)
    seen.add("repr", agent, output, output.text)
    return result


async def generated(seen: Seen, running: Any) -> Any:
    try:
        result = await running
    except TenutoError as error:
        seen.error(error)
        result = error.result
    seen.output([], result)
    return result


def made(durable: bool, agent: Agent[Any, Any]) -> Agent[Any, Any]:
    return create_durable_agent(agent) if durable else agent


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])
@pytest.mark.parametrize("how", ECHOES)
async def test_a_provider_that_repeats_what_it_was_sent(how, durable, seen, tmp_path):
    async with FakeProvider(ECHOES[how]) as provider:
        agent = made(durable, Agent(id="agent", model=record(provider), tools=[uses], deps=Deps))
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
            await run(seen, agent)
            await run(seen, agent, model_settings={"headers": CALL_HEADERS})
            await generated(seen, agent.generate("hi", model_settings={"headers": CALL_HEADERS}))
            await all_ended()
        assert (tmp_path / "runs.db").stat().st_size
        assert CANARIES["x-api-key"] in everything(provider.requests[0])
        assert CANARIES["call-cookie"] in everything(provider.requests[1])


@pytest.mark.parametrize("durable", [True, False], ids=["durable", "plain"])
async def test_a_run_with_tools_that_waits_and_goes_on(durable, seen, tmp_path):
    script = [Reply(calls=[Call("uses"), Call("wire", {"amount": 1})], headers={"set-cookie": "a=b"}), Reply("Done.")]
    async with FakeProvider(script) as provider:
        agent = made(durable, Agent(id="agent", model=record(provider), tools=[uses, wire], deps=Deps))
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
            first = await run(seen, agent, run_id="r", model_settings={"headers": CALL_HEADERS})
            assert first.finish_reason == "suspended"
            seen.add("listing", await agent.list_suspended_runs())
            result = await generated(seen, agent.approve_tool_call_generate(run_id="r"))
            assert result.text == "Done."
            if durable:
                viewer = await agent.observe("r")
                seen.output([chunk async for chunk in viewer.full_stream], await viewer.get_full_output())
            await all_ended()


async def test_what_another_process_takes_up_is_without_the_credentials_and_says_so(seen, tmp_path, monkeypatch):
    """The journal holds what is harmless; what was left out is named."""
    async with FakeProvider([Reply(calls=[Call("wire", {"amount": 1})]), Reply("Done.")]) as provider:
        path = tmp_path / "runs.db"
        agent = made(True, Agent(id="agent", model=record(provider), tools=[wire], deps=Deps))
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(path)):
            await run(seen, agent, run_id="r", model_settings={"headers": CALL_HEADERS})
        from tenuto.runs import live

        live.process.set(live.Process())
        again = made(True, Agent(id="agent", model=record(provider), tools=[wire], deps=Deps))
        async with Tenuto(agents={"agent": again}, store=SQLiteStore(path)):
            result = await generated(seen, again.decline_tool_call_generate(run_id="r"))
        sent = provider.requests[-1].headers
        assert sent["x-team"] == "blue"
        assert CANARIES["call-session-token"] not in everything(provider.requests[-1])
        assert CANARIES["x-api-key"] in everything(provider.requests[-1])
        assert set(result.degraded) >= {
            "model_settings.headers.Authorization",
            "model_settings.headers.Cookie",
            "model_settings.headers.X-Session-Token",
            "request_context.mastra__authToken",
        }


async def test_a_key_of_the_environment(seen, tmp_path, monkeypatch):
    async with FakeProvider([ECHOES["an error object"], Reply("Hello.")]) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", CANARIES["environment"])
        monkeypatch.setenv("OPENAI_BASE_URL", provider.base_url)
        agent = made(True, Agent(id="agent", model="openai/gpt-5-mini"))
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
            assert (await run(seen, agent)).error is not None
            assert (await run(seen, agent, model="openai/gpt-5-mini")).text == "Hello."
        assert CANARIES["environment"] in everything(provider.requests[0])


@pytest.mark.parametrize(
    "options",
    [
        {"model": {"id": "test/m", "url": "http://127.0.0.1:9/v1", "api_key": CANARIES["agent-key"]}},
        {"model": {"id": "test/m", "url": "http://127.0.0.1:9/v1", "headers": HEADERS}},
        {"model": {"id": "test/m", "url": f"http://{CANARIES['url-user']}:{CANARIES['url-password']}@127.0.0.1:9/v1"}},
        {"model": {"id": "test/m", "url": f"http://127.0.0.1:9/v1?key={CANARIES['url-password']}"}},
    ],
    ids=["key", "headers", "user of the URL", "query of the URL"],
)
async def test_a_record_with_a_secret_is_no_option_of_a_durable_run(options, seen, tmp_path):
    agent = made(True, Agent(id="agent", model={"id": "test/m", "url": "http://127.0.0.1:9/v1"}))
    async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
        with pytest.raises(TenutoError) as raised:
            await agent.stream("hi", **options)
        assert raised.value.id == "DURABLE_OPTION_REFUSED"
        seen.error(raised.value)


async def test_a_url_with_a_password(seen, tmp_path):
    url = f"http://{CANARIES['url-user']}:{CANARIES['url-password']}@127.0.0.1:9/v1"
    agent = made(True, Agent(id="agent", model={"id": "test/m", "url": url}))
    async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
        result = await run(seen, agent)
    assert result.error.id == "MODEL_CONNECTION_FAILED"


async def test_a_key_that_cannot_be_sent(seen, tmp_path):
    async with FakeProvider() as provider:
        agent = made(
            True, Agent(id="agent", model=record(provider, headers={"X-Api-Key": CANARIES["x-api-key"] + "\nx"}))
        )
        async with Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db")):
            result = await run(seen, agent)
    assert result.error.id == "MODEL_REQUEST_INVALID"


async def test_what_is_printed(seen, tmp_path):
    """Agents, models, apps and what lies in them, as a debugger or a log line shows them."""
    async with FakeProvider(Reply("Hello.")) as provider:
        agent = made(True, Agent(id="agent", model=record(provider), deps=Deps(), tools=[uses]))
        app = Tenuto(agents={"agent": agent}, store=SQLiteStore(tmp_path / "runs.db"))
        async with app:
            output = await agent.stream("hi", request_context=context(), model_settings={"headers": CALL_HEADERS})
            started = next(iter(_drivers()))
            seen.add("repr", app, agent, agent._base, agent._base.definition, started, started.run, started.run.options)
            seen.add("repr", output, context(), resolve_model(record(provider)), started.run.options.model_settings)
            await output.consume_stream()


def _drivers() -> Iterator[Any]:
    from tenuto.runs import live

    return iter(live.process.get().drivers.values())
