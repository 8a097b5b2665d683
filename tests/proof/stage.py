"""Where the processes of the proof meet: starts them, hears them, and keeps what was seen from outside.

Invariant: whatever is judged afterwards was written down by the test's process, by a tool at the moment of its effect,
or by an onlooker; a wait has a deadline, and each child is reaped by its pid.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from msgspec.structs import replace

from tenuto.testing import AnyReply, FakeProvider, Gate
from tests.proof.child import GO
from tests.proof.mutants import VARIABLE
from tests.proof.scenarios import ASIDE, SCENARIOS, asked, failure_of, lines, reply_of

ROOT = Path(__file__).parents[2]
DEADLINE = 30.0
"""Seconds that anything may take; far more than it does."""


class Violation(AssertionError):
    """A guarantee does not hold; anything else that fails is the proof's own fault."""


class Child:
    """A process on the stage."""

    def __init__(self, stage: Stage, number: int, order: Mapping[str, Any]) -> None:
        self._stage = stage
        self.number = number
        self.order = order
        self.heard: list[dict[str, Any]] = []
        self._news: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.pid: int = self.until("pid")["pid"] if order else 0

    def tell(self, line: dict[str, Any]) -> None:
        self._news.put(line)

    def until(self, *said: str) -> dict[str, Any]:
        """Wait until it has said one of these; what it said in between is kept too.

        Raises:
            AssertionError: It ended, or the deadline passed, without that.
        """
        for line in self.heard:
            if line["said"] in said:
                return line
        end = time.monotonic() + DEADLINE
        while True:
            try:
                line = self._news.get(timeout=max(end - time.monotonic(), 0.0))
            except queue.Empty:
                raise self._silent(said) from None
            self.heard.append(line)
            if line["said"] in said:
                return line
            if line["said"] == "exit":
                raise self._silent(said)

    def _silent(self, said: tuple[str, ...]) -> AssertionError:
        return AssertionError(f"{self.order}: never said {said}, only {self.heard}\n{self._stage.errors()}")

    def exit(self) -> int:
        """Its exit code, once it has ended."""
        return self.until("exit")["code"]

    def said(self, what: str) -> dict[str, Any] | None:
        """What it has said of this kind so far."""
        return next((line for line in self.heard if line["said"] == what), None)

    def go(self) -> None:
        """Let it go on from where it waits."""
        os.kill(self.pid, GO)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it from outside; harmless when it has ended."""
        if self.said("exit") is None and self.pid:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return


class Lockstep:
    """Lets a reply's events go out one by one, as the driver takes them; the last ones go out freely."""

    AHEAD = 3
    STEPS = 25

    def __init__(self) -> None:
        self.gate = Gate(self.AHEAD)
        self._left = self.STEPS

    def took(self) -> None:
        """The driver has one more in its log."""
        self._left -= 1
        if self._left:
            self.gate.release()
        else:
            self.gate.open()


class Stage:
    """The nursery, the model's provider, and what they recorded. One for any number of runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._errors = directory / "stderr.txt"
        self._children: dict[int, Child] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._steps: dict[str, Lockstep] = {}
        self._refused: dict[str, int] = defaultdict(int)
        self.requests: dict[str, list[tuple[int, int, Mapping[str, Any]]]] = defaultdict(list)
        self.provider = FakeProvider(self._answer, keep_requests=False)

    def __enter__(self) -> Self:
        self.provider.start()
        with self._errors.open("wb") as errors:
            self._nursery = subprocess.Popen(
                [sys.executable, "-W", "error", "-m", "tests.proof.child"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._reader = threading.Thread(target=self._listen, name="proof listener", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._nursery.stdin is not None
        assert self._nursery.stdout is not None
        self._nursery.stdin.close()
        code = self._nursery.wait(DEADLINE)
        self._reader.join(DEADLINE)
        self._nursery.stdout.close()
        self.provider.close()
        if error is None:
            assert code == 0, self.errors()
            self.provider.assert_clean()

    def errors(self) -> str:
        """What children printed when they failed."""
        return self._errors.read_text(errors="replace")[-4000:]

    def start(self, role: str, place: Path, run: str, **order: Any) -> Child:
        """Fork a child."""
        mutant = order.pop("mutant", None)
        with self._lock:
            self._count += 1
            number = self._count
            whole = {
                "id": number,
                "role": role,
                "dir": str(place),
                "store": str(place / "runs.db"),
                "url": self.provider.base_url,
                "run": run,
                "env": {VARIABLE: mutant} if mutant else {},
                **order,
            }
            child = Child(self, number, {})
            child.order = whole
            self._children[number] = child
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(whole).encode() + b"\n")
        self._nursery.stdin.flush()
        child.pid = child.until("pid")["pid"]
        return child

    def _listen(self) -> None:
        assert self._nursery.stdout is not None
        for raw in self._nursery.stdout:
            line = json.loads(raw)
            with self._lock:
                child = self._children[line["id"]]
                if line["said"] == "exit":
                    del self._children[line["id"]]
            child.tell(line)
            if line["said"] == "took" and (steps := self._steps.get(line["tag"])) is not None:
                steps.took()

    def _answer(self, request: Any) -> AnyReply:
        name, tag, step = asked(request.body)
        failure = failure_of(SCENARIOS[name], request.body["model"], self._refused[tag])
        if failure is not None:
            self._refused[tag] += 1
            return failure
        self.requests[tag].append((step, time.monotonic_ns(), request.body))
        reply = reply_of(SCENARIOS[name], step, tag)
        if not SCENARIOS[name].lockstep:
            return reply
        steps = self._steps[tag.removesuffix(ASIDE)] = Lockstep()
        return replace(reply, gate=steps.gate)


def wait_for(ready: Any, what: str) -> Any:
    """Poll until `ready()` is true; returns what it returned.

    Raises:
        AssertionError: Not before the deadline.
    """
    end = time.monotonic() + DEADLINE
    pause = threading.Event()
    while not (value := ready()):
        assert time.monotonic() < end, f"waited {DEADLINE} s for {what}"
        pause.wait(0.002)
    return value


__all__ = ["Child", "Stage", "Violation", "lines", "wait_for"]
