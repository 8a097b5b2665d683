"""The provider as a whole: scripts, recording, what surfaces at exit, connections, threads, processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.request
from typing import Any

import pytest

from tenuto.testing.provider import AnyReply, Burst, Call, FakeProvider, Reply, Request
from tests.testing.provider.wire import HELLO, Client, post

BAD = HELLO | {"messages": []}


def post_sync(provider: FakeProvider, body: dict[str, Any] = HELLO) -> str:
    """Use another client, without a loop."""
    url, raw = provider.base_url + "/chat/completions", json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, raw, {"Content-Type": "application/json"})) as response:
        return response.read().decode()


async def test_a_list_is_played_in_order_and_recorded() -> None:
    async with FakeProvider([Reply("one"), lambda request: Reply(request.body["model"])]) as provider:
        answers = [await post(provider, HELLO | {"stream": False}, {"X-Trace": "7"}) for _ in range(2)]
        await provider.wait_for_requests(2)
    assert [each.json["choices"][0]["message"]["content"] for each in answers] == ["one", "fake"]
    request = provider.requests[0]
    assert (request.method, request.path, request.headers["x-trace"]) == ("POST", "/v1/chat/completions", "7")
    assert request.body == json.loads(request.raw) == HELLO | {"stream": False}
    assert [each.connection for each in provider.requests] == [0, 1]


async def test_replies_can_be_added() -> None:
    async with FakeProvider() as provider:
        provider.add(Reply("late"))
        assert (await post(provider)).status == 200


async def test_a_request_beyond_the_script_is_raised_at_exit() -> None:
    with pytest.raises(AssertionError, match="a request beyond the end of the script"):
        async with FakeProvider([Reply("one")]) as provider:
            await post(provider)
            response = await post(provider)
            assert (response.status, response.json["error"]["type"]) == (500, "server_error")


async def test_an_unused_reply_is_raised_at_exit() -> None:
    with pytest.raises(AssertionError, match="2 unused replies"):
        async with FakeProvider([Reply(), Reply(), Reply()]) as provider:
            await post(provider)
    async with FakeProvider([Reply()], allow_unused=True):
        pass


async def test_a_refusal_is_raised_at_exit_and_uses_no_reply() -> None:
    with pytest.raises(AssertionError, match="refused: empty_messages"):
        async with FakeProvider([Reply("one")]) as provider:
            await post(provider, BAD)
            assert (await post(provider)).status == 200


def wrong_number(_: Request) -> bool:
    return False


def boom(_: Request) -> AnyReply:
    message = "boom"
    raise ValueError(message)


@pytest.mark.parametrize(
    ("script", "said"),
    [(boom, "ValueError: boom"), (Reply(expect=wrong_number), "`expect` returned False"), ([boom], "boom")],
)
async def test_a_failing_script_is_raised_at_exit(script: Any, said: str) -> None:
    with pytest.raises(AssertionError, match=said) as caught:
        async with FakeProvider(script) as provider:
            assert (await post(provider)).status == 500
    assert caught.value.__cause__ is provider.failures[0]


async def test_expectations_see_the_request() -> None:
    seen: list[str] = []
    async with FakeProvider(Reply(expect=lambda request: seen.append(request.body["model"]))) as provider:
        await post(provider)
    assert seen == ["fake"]


@pytest.mark.parametrize("path", ["/v1/completions", "/", "/v1/chat/completions/x"])
async def test_another_path_is_raised_at_exit(path: str) -> None:
    with pytest.raises(AssertionError, match=f"unexpected request: POST {path}"):
        async with FakeProvider(Reply()) as provider, Client(provider) as client:
            client.send(HELLO, path=path)
            assert (await client.response()).status == 404


async def test_what_is_not_http_is_raised_at_exit() -> None:
    with pytest.raises(AssertionError, match="bad request line"):
        async with FakeProvider(Reply()) as provider, Client(provider) as client:
            client.writer.write(b"hello\r\n\r\n")
            assert (await client.response()).status == 400
            assert await client.reader.read() == b""


async def test_the_tests_own_error_is_kept() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        async with FakeProvider([Reply()]):
            message = "mine"
            raise ValueError(message)
    assert caught.value.__notes__ == ["the fake provider saw:\n- 1 unused replies"]


async def test_a_connection_is_kept_and_pipelined() -> None:
    async with (
        FakeProvider([Reply("one", cut=3), Reply("two"), Reply("three")]) as provider,
        Client(provider) as client,
    ):
        for _ in range(3):
            client.send(HELLO)
        texts = [(await client.response()).body for _ in range(3)]
        assert provider.connections == provider.open_connections == 1
    assert [b'"one"' in texts[0].replace(b"\n", b""), b'"two"' in texts[1], b'"thre"' in texts[2]] == [True] * 3


async def test_connection_close_is_obeyed() -> None:
    async with FakeProvider(Reply("one")) as provider, Client(provider) as client:
        client.send(HELLO, {"connection": "close"})
        assert (await client.response()).complete
        assert await client.reader.read() == b""


async def test_expect_continue_is_answered() -> None:
    async with FakeProvider(Reply("one")) as provider, Client(provider) as client:
        raw = json.dumps(HELLO).encode()
        client.send(b"", {"expect": "100-continue", "content-length": str(len(raw))})
        assert (await client.head()).status == 100
        client.writer.write(raw)
        assert (await client.response()).status == 200


async def test_close_ends_open_responses() -> None:
    provider = FakeProvider(Reply("x", hang_after=1)).start()
    async with Client(provider) as client:
        client.send(HELLO)
        await client.head()
        provider.close()
        provider.close()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            while True:
                await client.reader.readexactly(1)
    assert provider.disconnects == 0
    provider.assert_clean()


def test_sync_clients_in_several_threads() -> None:
    with FakeProvider(Burst(20)) as provider:
        threads = [threading.Thread(target=post_sync, args=(provider,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        provider.wait_for_requests_sync(8)
        for thread in threads:
            thread.join()
    assert len(provider.requests) == 8


def test_several_loops() -> None:
    with FakeProvider([Reply("one"), Reply("two")]) as provider:
        assert [asyncio.run(post(provider)).status for _ in range(2)] == [200, 200]


def test_waits_end() -> None:
    with FakeProvider() as provider:
        with pytest.raises(TimeoutError, match="1 requests"):
            provider.wait_for_requests_sync(1, timeout=0)
        with pytest.raises(TimeoutError, match="1 disconnects"):
            provider.wait_for_disconnect_sync(timeout=0)


def test_a_taken_port_is_an_error() -> None:
    with FakeProvider() as provider:
        port = int(provider.base_url.rsplit(":", 1)[1].split("/")[0])
        with pytest.raises(OSError, match="in use"):
            FakeProvider(port=port).start()


async def test_bursts_are_not_mixed_up() -> None:
    plans: list[AnyReply] = [Burst(3), Burst(4), Burst(3, headers={"x-a": "1"}), Burst(3, line_ending="\r\n"), Burst(3)]
    async with FakeProvider(plans) as provider:
        found = [await post(provider) for _ in plans]
    assert [len(each.chunks) for each in found] == [6, 7, 6, 6, 6]
    assert ["x-a" in each.headers for each in found] == [False, False, True, False, False]
    assert found[0] == found[4]
    assert b"\r\n" in found[3].body


async def test_requests_need_not_be_kept() -> None:
    async with FakeProvider(Burst(1), keep_requests=False) as provider:
        await post(provider)
        await provider.wait_for_requests(1)
    assert provider.requests == []


async def test_ids_are_fresh_for_each_response() -> None:
    async with FakeProvider(Reply(calls=[Call("a"), Call("a"), Call("a", id="")])) as provider:
        found = [(await post(provider, HELLO | {"stream": False})).json for _ in range(2)]
    ids = [call["id"] for each in found for call in each["choices"][0]["message"]["tool_calls"]]
    assert ids == ["call_0_0", "call_0_1", "", "call_1_0", "call_1_1", ""]


@pytest.mark.slow
def test_it_serves_from_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "tenuto.testing.provider"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip() + "/chat/completions"
        counts = [
            _ask(url, model).count("data: ") for model in ("burst-3", "x/burst-4-0.001ms", "rounds-0", "rounds-1-2")
        ]
        process.communicate(timeout=10)
    assert counts == [6, 7, 7, 13]
    assert process.returncode == 0


def _ask(url: str, model: str) -> str:
    raw = json.dumps({"model": model, "messages": [], "stream": True}).encode()
    with urllib.request.urlopen(urllib.request.Request(url, raw)) as response:
        return response.read().decode()
