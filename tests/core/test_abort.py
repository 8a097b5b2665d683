import asyncio
import gc
import threading
import weakref

import pytest

from tenuto.core.abort import AbortController, AbortSignal


@pytest.fixture
def controller():
    return AbortController()


def test_a_signal_is_aborted_once_and_keeps_the_first_reason(controller):
    signal = controller.signal
    assert (signal.aborted, signal.reason) == (False, None)
    controller.abort("enough")
    controller.abort("again")
    assert (signal.aborted, signal.reason) == (True, "enough")


def test_an_abort_without_a_reason_is_an_abort(controller):
    controller.abort()
    controller.abort("late")
    assert (controller.signal.aborted, controller.signal.reason) == (True, None)


@pytest.mark.parametrize("name", ["aborted", "reason"])
def test_who_holds_the_signal_cannot_abort(controller, name):
    with pytest.raises(AttributeError):
        setattr(controller.signal, name, True)


def test_a_signal_of_its_own_is_never_aborted():
    assert not AbortSignal().aborted


def test_listeners_hear_once_and_in_order(controller):
    heard = []
    for name in "abc":
        controller.signal.listen(lambda name=name: heard.append(name))
    controller.abort()
    controller.abort()
    assert heard == ["a", "b", "c"]


def test_one_function_may_listen_twice_and_leave_once(controller):
    heard = []

    def listener():
        heard.append(1)

    forget = controller.signal.listen(listener)
    controller.signal.listen(listener)
    forget()
    forget()
    controller.abort()
    assert heard == [1]


def test_a_listener_added_after_the_abort_hears_at_once(controller):
    controller.abort()
    heard = []
    forget = controller.signal.listen(lambda: heard.append(1))
    assert heard == [1]
    forget()


def test_a_listener_that_fails_is_logged_and_the_others_hear(controller, caplog):
    heard = []
    controller.signal.listen(lambda: 1 / 0)
    controller.signal.listen(lambda: heard.append(1))
    controller.abort()
    assert heard == [1]
    assert "listener of an abort signal failed" in caplog.text


def test_a_listener_may_abort_and_listen_and_leave(controller):
    heard = []

    def listener():
        controller.abort("inner")
        controller.signal.listen(lambda: heard.append("added"))
        forget_last()

    controller.signal.listen(listener)
    forget_last = controller.signal.listen(lambda: heard.append("last"))
    controller.abort("outer")
    assert sorted(heard) == ["added", "last"]
    assert controller.signal.reason == "outer"


def test_listeners_are_let_go(controller):
    class Owner:
        def listener(self):
            pass

    owner = Owner()
    controller.signal.listen(owner.listener)
    controller.abort()
    seen = weakref.ref(owner)
    del owner
    gc.collect()
    assert seen() is None


def test_threads_that_listen_and_abort_at_once_hear_exactly_once():
    for _ in range(50):
        controller = AbortController()
        ready = threading.Barrier(8)
        heard = []

        def work(place, controller=controller, ready=ready, heard=heard):
            ready.wait(10)
            if place % 4 == 3:
                controller.abort(place)
            for n in range(5):
                controller.signal.listen(lambda n=n: heard.append((place, n)))

        threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(heard) == 40
        assert controller.signal.reason in {3, 7}


async def test_waiting_ends_with_an_abort_from_another_thread(controller):
    waiting = [asyncio.ensure_future(controller.signal.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    await asyncio.to_thread(controller.abort)
    await asyncio.gather(*waiting)


async def test_waiting_for_what_has_happened_returns(controller):
    controller.abort()
    await controller.signal.wait()


def test_loops_in_several_threads_wait_for_one_signal(controller):
    listening = threading.Barrier(4)

    async def wait():
        task = asyncio.ensure_future(controller.signal.wait())
        await asyncio.sleep(0)
        listening.wait(10)
        await task

    threads = [threading.Thread(target=lambda: asyncio.run(wait())) for _ in range(3)]
    for thread in threads:
        thread.start()
    listening.wait(10)
    controller.abort()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


async def test_a_cancelled_wait_leaves_no_listener_and_no_abort(controller):
    task = asyncio.ensure_future(controller.signal.wait())
    await asyncio.sleep(0)
    assert len(controller._switch.listeners) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert controller._switch.listeners == {}
    assert not controller.signal.aborted


def test_a_loop_that_is_gone_is_not_woken(controller, caplog):
    loop = asyncio.new_event_loop()
    waiting = controller.signal.wait()
    task = loop.create_task(waiting)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    controller.abort()
    assert caplog.text == ""
    task._log_destroy_pending = False  # the point of the test: nobody finished it
    waiting.close()
