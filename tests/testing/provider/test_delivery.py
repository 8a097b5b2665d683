"""How replies go over the wire: pieces, line endings, keep-alives, hangs, drops, gates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenuto.testing.provider import Bytes, Event, FakeProvider, Gate, HTTPError, Raw, Reply, Silence
from tests.testing.provider.wire import HELLO, Client, post

KEEPALIVES = (": ping", "retry: 3000", "id: 7", "data:", "data: ", "event: ping\ndata: {}")


def text_of(payloads: list[str]) -> str:
    chunks = [json.loads(each) for each in payloads if each not in {"", "{}", "[DONE]"}]
    return "".join(each["choices"][0]["delta"].get("content") or "" for each in chunks)


async def test_each_event_is_a_chunk() -> None:
    async with FakeProvider(Reply("né 漢 🙂")) as provider:
        response = await post(provider)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert all(each.startswith(b"data: ") and each.endswith(b"\n\n") for each in response.chunks)
    assert response.payloads[-1] == "[DONE]"
    assert (text_of(response.payloads), response.complete) == ("né 漢 🙂", True)


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_cut_pieces(cut: int) -> None:
    async with FakeProvider([Reply("né 漢 🙂", cut=cut), Reply("né 漢 🙂", cut=cut)]) as provider:
        streamed = await post(provider)
        whole = await post(provider, HELLO | {"stream": False})
    assert {len(each) for each in streamed.chunks[:-1]} == {cut}
    assert text_of(streamed.payloads) == whole.json["choices"][0]["message"]["content"] == "né 漢 🙂"


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
async def test_line_endings_and_keepalives(ending: Any) -> None:
    async with FakeProvider(Reply("hello", line_ending=ending, keepalives=KEEPALIVES)) as provider:
        response = await post(provider)
    block = ending.join([*(each.replace("\n", ending) + ending for each in KEEPALIVES), ""]).encode()
    assert all(each.startswith(block + b"data: ") for each in response.chunks)
    assert all(each.endswith((ending * 2).encode()) for each in response.chunks)
    assert response.body.replace(ending.encode(), b"").count(b"\n") == 0
    assert text_of(response.payloads) == "hello"


async def test_raw_events_are_exact() -> None:
    events = [{"a": 1}, "{broken", b"\xff\n", Event('{"b":2}', name="error"), "two\nlines"]
    async with FakeProvider([Raw(events), Raw([], done=False)]) as provider:
        response, empty = await post(provider), await post(provider)
    assert response.chunks == [
        b'data: {"a":1}\n\n',
        b"data: {broken\n\n",
        b"data: \xff\n\n\n",
        b'event: error\ndata: {"b":2}\n\n',
        b"data: two\ndata: lines\n\n",
        b"data: [DONE]\n\n",
    ]
    assert (empty.body, empty.complete) == (b"", True)


async def test_done_can_be_left_out() -> None:
    async with FakeProvider(Reply("x", done=False)) as provider:
        response = await post(provider)
    assert "[DONE]" not in response.payloads
    assert response.complete


async def test_bytes_are_exact() -> None:
    script = [Bytes(b"abcde", headers={"X-A": "b"}), Bytes(b"abcde", cut=2), Bytes(b""), Bytes(b"no", status=502)]
    async with FakeProvider([*script, Bytes(b"abcde", cut=2, drop_after=2)]) as provider:
        first, second, empty, bad, dropped = [await post(provider) for _ in range(5)]
    assert (first.chunks, first.headers["x-a"]) == ([b"abcde"], "b")
    assert second.chunks == [b"ab", b"cd", b"e"]
    assert (empty.chunks, empty.complete, bad.status) == ([], True, 502)
    assert (dropped.chunks, dropped.complete) == ([b"ab", b"cd"], False)


@pytest.mark.parametrize(("body", "sent"), [({"a": 1}, b'{"a":1}'), ("plain", b"plain"), (b"\xff", b"\xff"), ("", b"")])
async def test_error_bodies_are_exact(body: Any, sent: bytes) -> None:
    async with FakeProvider(HTTPError(500, body, headers={"Content-Type": "text/html"})) as provider:
        response = await post(provider)
    assert (response.status, response.body, response.headers["content-type"]) == (500, sent, "text/html")


@pytest.mark.parametrize("events", [0, 1, 2, 3])
async def test_a_drop_ends_without_the_final_chunk(events: int) -> None:
    async with FakeProvider(Raw(["a", "b"], drop_after=events)) as provider:
        response = await post(provider)
    assert (response.payloads, response.complete) == (["a", "b", "[DONE]"][:events], False)
    assert provider.disconnects == 0


@pytest.mark.parametrize("events", [0, 1, 3])
async def test_a_hang_lasts_until_released(events: int) -> None:
    async with FakeProvider(Raw(["a", "b"], hang_after=events)) as provider, Client(provider) as client:
        client.send(HELLO)
        await client.head()
        for _ in range(events):
            await client.chunk()
        await provider.held.wait_blocked()
        provider.release()
        rest = [await client.chunk() for _ in range(4 - events)]
    assert rest[-1] == b""


async def test_a_client_that_leaves_a_hang_is_counted() -> None:
    async with FakeProvider(Reply("x", hang_after=1)) as provider:
        async with Client(provider) as client:
            client.send(HELLO)
            await client.head()
            assert provider.open_connections == 1
        await provider.wait_for_disconnect()
        assert (provider.disconnects, provider.open_connections) == (1, 0)


async def test_silence_sends_nothing() -> None:
    async with FakeProvider(Silence()) as provider, Client(provider) as client:
        client.send(HELLO)
        await provider.held.wait_blocked()
        provider.release()
        assert await client.reader.read() == b""
    assert provider.disconnects == 0


async def test_a_gate_lets_one_event_go() -> None:
    gate = Gate()
    async with FakeProvider(Raw(["a", "b"], gate=gate)) as provider, Client(provider) as client:
        client.send(HELLO)
        await client.head()
        for expected in (b"data: a\n\n", b"data: b\n\n"):
            await gate.wait_blocked()
            gate.release()
            assert await client.chunk() == expected
        await gate.wait_blocked()
        gate.open()
        assert [await client.chunk(), await client.chunk()] == [b"data: [DONE]\n\n", b""]
    assert gate.passed == 3


async def test_an_early_drop_of_a_whole_body() -> None:
    async with FakeProvider(Reply("x", drop_after=0)) as provider:
        response = await post(provider, HELLO | {"stream": False})
    assert (response.status, response.body, response.complete) == (200, b"", False)


async def test_paced_events_are_written_singly() -> None:
    async with FakeProvider(Raw(["a", "b"], pace=1e-6)) as provider:
        response = await post(provider)
    assert (response.payloads, response.complete) == (["a", "b", "[DONE]"], True)
