"""A thread for each job, kept for the next, and gone when nobody needs it."""

import sys
import threading

import pytest

from tenuto.tools import threads


@pytest.fixture
def cache(monkeypatch):
    monkeypatch.setattr(threads, "_idle", [])
    return threads


def run(cache):
    """Run a job to its end; returns its thread."""
    found = []
    over = threading.Event()

    def job():
        found.append(threading.current_thread())
        return over.set

    cache.run_in_thread(job)
    assert over.wait(30)
    return found[0]


def test_the_next_job_gets_the_same_thread(cache):
    assert run(cache) is run(cache)


def test_a_busy_thread_makes_nobody_wait(cache):
    release = threading.Event()
    over = threading.Event()

    def job():
        release.wait(30)
        return over.set

    cache.run_in_thread(job)
    run(cache)
    release.set()
    assert over.wait(30)


def test_an_idle_thread_ends(cache, monkeypatch):
    monkeypatch.setattr(threads, "_IDLE_SECONDS", 0.001)
    thread = run(cache)
    thread.join(30)
    assert not thread.is_alive()
    assert thread.daemon
    assert run(cache) is not thread


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_does_not_wait_for_the_threads_of_its_parent():
    import subprocess

    script = """
import os, threading
from tenuto.tools.threads import run_in_thread
def once():
    over = threading.Event()
    run_in_thread(lambda: over.set)
    assert over.wait(30)
once()
pid = os.fork()
once()
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=100)
