import os
import subprocess
import sys

import pytest

from tenuto.store import owners
from tenuto.store.owners import is_gone, owner_id

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def test_an_owner_is_unique_and_lives():
    assert owner_id() != owner_id()
    assert not is_gone(owner_id())


def parts():
    return owner_id().split(":")


@pytest.mark.parametrize("name", ["", "o1", "a:b:c:d", "host:1:2", "1:2:3:4:5", f"{parts()[0]}:x:0:y", ":::"])
def test_a_name_of_another_form_is_never_gone(name):
    assert not is_gone(name)


def test_on_another_host_nobody_is_gone():
    _, *rest = parts()
    assert not is_gone(":".join(["elsewhere", *rest]))
    assert not is_gone("elsewhere:999999999:1:x")


@linux
def test_a_pid_that_another_process_has_now_is_gone():
    host, pid, started, mark = parts()
    assert is_gone(f"{host}:{pid}:{int(started) - 1}:{mark}")


def test_a_pid_that_nobody_has_is_gone():
    host, _, started, mark = parts()
    assert is_gone(f"{host}:{2**22 + 5}:{started}:{mark}")


@linux
@pytest.mark.slow
def test_a_process_that_ended_is_gone_also_before_its_parent_has_taken_note():
    script = "from tenuto.store.owners import owner_id; print(owner_id(), flush=True); input()"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    owner = child.stdout.readline().strip()
    assert not is_gone(owner)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the table
    assert is_gone(owner)
    child.communicate()
    assert is_gone(owner)


def test_without_proc_the_pid_alone_tells(monkeypatch, tmp_path):
    monkeypatch.setattr(owners, "_PROC", tmp_path)
    owners._host.cache_clear()
    owners._process.cache_clear()
    try:
        host, pid, started, mark = parts()
        assert (started, "-" in host.removeprefix(owners.socket.gethostname())) == ("0", False)
        assert not is_gone(f"{host}:{pid}:0:{mark}")
        assert not is_gone(f"{host}:{pid}:17:{mark}")
        assert is_gone(f"{host}:{2**22 + 5}:0:{mark}")
    finally:
        owners._host.cache_clear()
        owners._process.cache_clear()


def test_a_process_of_another_user_lives(monkeypatch, tmp_path):
    monkeypatch.setattr(owners, "_PROC", tmp_path)

    def refuse(pid, signal):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not owners._is_missing(1)
