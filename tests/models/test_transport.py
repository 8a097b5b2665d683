import asyncio
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tenuto.core.abort import AbortController
from tenuto.core.errors import ModelError
from tenuto.core.payloads import TextDeltaPayload
from tenuto.models import sessions
from tenuto.models.ports import Finish, RequestStart
from tenuto.models.transport import AiohttpTransport, HttpRequest, close_transport
from tenuto.testing.provider import FakeProvider, Gate, Raw, Reply, Silence
from tests.models.drive import delta, model_of, request, run, text_of

ROOT = Path(__file__).resolve().parents[2]


def asked(fake, **more):
    url = f"{fake.base_url}/chat/completions"
    body = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
    return HttpRequest(url=url, body=body, provider="test", headers={"content-type": "application/json"}, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_the_first_delta_is_here_while_the_answer_is_open():
    gate = Gate()
    with FakeProvider([Raw(events=[delta(content="a"), delta(content="b"), delta("stop")], gate=gate)]) as fake:
        stream = model_of(fake).stream(request())
        assert isinstance((await anext(stream))[0], RequestStart)
        for expected in "ab":
            gate.release()
            batch = await asyncio.wait_for(anext(stream), 5)
            assert [part.text for part in batch if isinstance(part, TextDeltaPayload)] == [expected]
            assert fake.open_connections == 1
        gate.open()
        rest = [part async for batch in stream for part in batch]
    assert isinstance(rest[-1], Finish)


async def test_closing_the_iterator_closes_the_connection():
    with FakeProvider([Raw(events=[delta(content="a")], hang_after=1)]) as fake:
        stream = model_of(fake).stream(request())
        await anext(stream)
        await anext(stream)
        await stream.aclose()
        await fake.wait_for_disconnect()


async def test_cancelling_the_task_closes_the_connection():
    with FakeProvider([Raw(events=[delta(content="a")], hang_after=1), Silence()]) as fake:
        for count in (1, 2):
            task = asyncio.create_task(run(model_of(fake)))
            await fake.wait_for_requests(count)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await fake.wait_for_disconnect(count)


@pytest.mark.parametrize("reply", [Silence(), Raw(events=[delta(content="a")], hang_after=1)])
@pytest.mark.parametrize("from_thread", [True, False])
async def test_abort_drops_the_connection_at_once(reply, from_thread):
    controller = AbortController()
    with FakeProvider([reply]) as fake:
        task = asyncio.create_task(run(model_of(fake), request(abort=controller.signal)))
        await fake.wait_for_requests(1)
        if from_thread:
            await asyncio.to_thread(controller.abort)
        else:
            controller.abort()
        with pytest.raises(ModelError) as caught:
            await asyncio.wait_for(task, 5)
        await fake.wait_for_disconnect()
    assert caught.value.id == "MODEL_CALL_ABORTED"
    assert not caught.value.retryable


async def test_an_aborted_signal_sends_nothing():
    controller = AbortController()
    controller.abort()
    with FakeProvider([]) as fake:
        with pytest.raises(ModelError, match="aborted"):
            await run(model_of(fake), request(abort=controller.signal))
        assert fake.connections == 0


async def test_the_signal_is_let_go_after_the_call():
    controller = AbortController()
    with FakeProvider([Reply("x")]) as fake:
        await run(model_of(fake), request(abort=controller.signal))
    assert not controller.signal._switch.listeners


async def test_silence_before_the_answer_is_an_error():
    with FakeProvider([Silence()]) as fake, pytest.raises(ModelError) as caught:
        await AiohttpTransport().open(asked(fake, connect_timeout=0.01, idle_timeout=0.01))
    assert caught.value.retryable


async def test_silence_within_the_answer_is_an_error_from_one_timer():
    with FakeProvider([Raw(events=[delta(content="a")], hang_after=1)]) as fake:
        response = await AiohttpTransport().open(asked(fake, idle_timeout=0.05))
        with pytest.raises(ModelError) as caught:
            async for _ in response:
                pass
        response.close()
        await fake.wait_for_disconnect()
    assert caught.value.id == "MODEL_IDLE_TIMEOUT"
    assert "0.05 s" in str(caught.value)


async def test_the_idle_timer_moves_on_with_each_read():
    loop = asyncio.get_running_loop()
    gate = Gate(1)
    with FakeProvider([Raw(events=[delta(content="a"), delta(content="b")], gate=gate)]) as fake:
        response = await AiohttpTransport().open(asked(fake, idle_timeout=100))
        watch = response._watch
        timer, watch.last = watch._timer, 0.0
        await anext(aiter(response))
        assert watch.last > 0
        assert watch._timer is timer
        watch._tick()
        assert watch.stopped is None
        assert watch._timer.when() == pytest.approx(watch.last + 100)
        assert watch._timer.when() > loop.time()
        timer.cancel()
        response.close()
        assert watch._timer.cancelled()


async def test_nobody_there_names_the_origin_and_the_remedy():
    url = f"http://127.0.0.1:{free_port()}/v1/secret-path?key=sk-canary"
    with pytest.raises(ModelError) as caught:
        await AiohttpTransport().open(HttpRequest(url=url, body=b"", provider="ollama"))
    error = caught.value
    assert error.id == "MODEL_CONNECTION_FAILED"
    assert error.retryable
    assert "Is the server running at http://127.0.0.1:" in str(error)
    assert "canary" not in str(error)
    assert "secret-path" not in str(error)


async def test_headers_that_cannot_be_sent_are_not_retryable():
    headers = {"authorization": "Bearer canary\nx"}
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(ModelError) as caught:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        await AiohttpTransport().open(HttpRequest(url=url, body=b"", provider="x", headers=headers))
    assert caught.value.id == "MODEL_REQUEST_INVALID"
    assert not caught.value.retryable
    assert "canary" not in str(caught.value)


async def test_a_url_that_is_none_is_not_retryable():
    with pytest.raises(ModelError) as caught:
        await AiohttpTransport().open(HttpRequest(url="http://[", body=b"", provider="x"))
    assert not caught.value.retryable


@pytest.mark.parametrize("after", [0, 1])
async def test_a_connection_cut_in_the_middle_is_an_error(after):
    reply = Raw(events=[delta(content="a"), delta("stop")], drop_after=after)
    with FakeProvider([reply]) as fake, pytest.raises(ModelError) as caught:
        await run(model_of(fake))
    assert caught.value.retryable


async def test_connections_are_used_again():
    with FakeProvider(lambda _: Reply("x")) as fake:
        for _ in range(3):
            await run(model_of(fake))
        assert fake.connections == 1


async def test_a_connection_whose_end_comes_late_is_used_again():
    with FakeProvider(lambda _: Reply("x", cut=1)) as fake:
        for _ in range(3):
            await run(model_of(fake))
            slot = sessions._slots[asyncio.get_running_loop()]
            async with asyncio.timeout(5):
                while any(response.connection for response in slot._ending):  # noqa: ASYNC110 - aiohttp has no event
                    await asyncio.sleep(0)
        assert fake.connections == 1


async def test_bytes_after_the_end_marker_may_come_later():
    gate = Gate(3)
    reply = Raw(events=[delta("stop", content="x"), "[DONE]", "later"], gate=gate, done=False)
    with FakeProvider([reply]) as fake:
        parts = await asyncio.wait_for(run(model_of(fake)), 5)
        assert text_of(parts) == "x"


async def test_an_end_that_never_comes_is_dropped_by_close():
    with FakeProvider([Raw(events=[delta("stop", content="x"), "[DONE]"], hang_after=2, done=False)]) as fake:
        await asyncio.wait_for(run(model_of(fake)), 5)
        await close_transport()
        await fake.wait_for_disconnect()


async def test_close_transport_and_go_on():
    with FakeProvider([Reply("x"), Reply("y")]) as fake:
        await run(model_of(fake))
        await close_transport()
        await close_transport()
        assert asyncio.get_running_loop() not in sessions._slots
        await run(model_of(fake))


async def test_many_streams_at_once_share_a_session():
    with FakeProvider(lambda _: Reply("abcdefgh")) as fake:
        model = model_of(fake)
        found = await asyncio.gather(*(run(model) for _ in range(50)))
    assert [text_of(parts) for parts in found] == ["abcdefgh"] * 50


def test_K01_a_loop_each_time_and_in_two_threads():
    before = set(sessions._slots)  # a loop of another test may live on: that of the sync twins
    with FakeProvider(lambda _: Reply("x")) as fake:
        model = model_of(fake)
        texts = [text_of(asyncio.run(run(model))) for _ in range(2)]
        threads = [threading.Thread(target=lambda: texts.append(text_of(asyncio.run(run(model))))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert texts == ["x"] * 4
    assert set(sessions._slots) <= before


SCRIPT = """
import asyncio, gc, threading
from tenuto.testing.provider import FakeProvider, Reply, Raw
from tests.models.drive import delta, model_of, request, run
from tenuto.models.transport import close_transport

async def leave(model):
    stream = model.stream(request())
    await anext(stream)
    await anext(stream)
    await stream.aclose()

async def abandon(model):
    stream = model.stream(request())
    await anext(stream)
    await anext(stream)
    keep.append(stream)

keep = []
with FakeProvider(lambda _: Reply("x")) as fake:
    model = model_of(fake)
    for _ in range(2):
        asyncio.run(run(model))
    asyncio.run(leave(model))
    asyncio.run(abandon(model))
    keep.clear()
    threads = [threading.Thread(target=lambda: asyncio.run(run(model))) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    loop = asyncio.new_event_loop()
    loop.run_until_complete(run(model))
    loop.run_until_complete(close_transport())
    loop.close()
    for _ in range(2):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(run(model))
        loop.close()
    asyncio.run(run(model))
    del loop
    gc.collect()
    portal = asyncio.new_event_loop()
    threading.Thread(target=portal.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(run(model), portal).result()
    late = asyncio.new_event_loop()
    late.run_until_complete(run(model))
    late.close()
"""


@pytest.mark.slow
def test_K01_no_warning_from_any_end_of_a_loop():
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=ROOT)
    noise = [line for line in done.stderr.splitlines() if not line.startswith("Executing <")]
    assert done.returncode == 0, done.stderr
    assert noise == []


@pytest.mark.slow
@pytest.mark.parametrize("module", ["ports", "render", "sse", "assemble", "resolve", "chat", "transport"])
def test_importing_the_room_loads_nothing_heavy(module):
    script = f"import sys, tenuto.models.{module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert not {"aiohttp", "pydantic", "email", "http"} & set(done.stdout.split())
