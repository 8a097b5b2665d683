"""Names of lease owners: made so that another process on the same machine can tell when the one it names is gone.

Invariant: `is_gone` answers True only for a process that ran on this machine, under this kernel and in this process
namespace, and is there no more; whoever cannot be looked at counts as alive and keeps its lease until that expires.

Form: `host:pid:starttime:random`. The host is the machine's name and a mark of its boot and process namespace, so that
two containers of one name are two hosts; the start time is in kernel ticks, 0 where the system does not tell.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from functools import cache, lru_cache
from pathlib import Path

_PROC = Path("/proc")
_ENDED = -1


def owner_id() -> str:
    """A new owner of this process; each call makes another one."""
    return f"{_process(os.getpid())}:{os.urandom(6).hex()}"


def is_gone(owner: str) -> bool:
    """Whether `owner` certainly lives no more; False for a name of any other form."""
    host, *rest = owner.split(":")
    if len(rest) != 3 or host != _host() or not (rest[0].isdecimal() and rest[1].isdecimal()):
        return False
    pid, started = int(rest[0]), int(rest[1])
    now = _started(pid)
    if now is None:
        return _is_missing(pid)
    return now == _ENDED or now != started != 0


@lru_cache(1)  # by pid: a fork is another process
def _process(pid: int) -> str:
    return f"{_host()}:{pid}:{_started(pid) or 0}"


@cache
def _host() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text() + str((_PROC / "self/ns/pid").readlink())
    except OSError:
        boot = ""
    name = socket.gethostname().replace(":", "-")
    return f"{name}-{hashlib.sha256(boot.encode()).hexdigest()[:8]}" if boot else name


def _started(pid: int) -> int | None:
    """The start time of a process, `_ENDED` when it only waits to be taken note of, None when it cannot be read.

    Source: proc(5), /proc/pid/stat: after the name in parentheses, field 3 is the state, field 22 the start time.
    """
    try:
        fields = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return _ENDED if fields[0] in {b"Z", b"X"} else int(fields[19])


def _is_missing(pid: int) -> bool:
    if sys.platform == "win32":  # there, signal 0 would end the process
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is there, and somebody else's
        return False
    return False
