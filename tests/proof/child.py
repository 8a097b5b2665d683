"""The processes of the proof: a nursery that forks them, and what each of them does.

Invariant: a child that is to die at a failpoint says so on the common pipe, then kills itself there with SIGKILL; what
it says arrives before the news of its end. The nursery has no thread and no loop, so its forks are sound, and it takes
note of each child by its pid.

Run as `python -m tests.proof.child`: orders come as JSON lines on standard input, what children say goes to standard
output.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp  # noqa: F401 - loaded once, before the forks

from tenuto import create_durable_agent
from tenuto.app import Tenuto
from tenuto.core import faults
from tenuto.core.clock import SystemClock
from tenuto.core.errors import TenutoError
from tenuto.durable import DurableAgent
from tenuto.messages.stored import Message, TextPart, ToolInvocationPart
from tenuto.models import retries
from tenuto.models.sessions import close_session
from tenuto.runs import journal, observe, recovery
from tenuto.runs.output import RunOutput
from tenuto.store import SQLiteStore
from tenuto.store.ports import ANYONE
from tests.proof import mutants, scenarios
from tests.proof.scenarios import SCENARIOS, Place, append, prompt_of

GO = signal.SIGUSR1
"""What a child that waits is told to go on with."""


class LaterClock(SystemClock):
    """The machine's clock, some seconds ahead: a process for which leases of others have run out."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def now(self) -> float:
        return super().now() + self._ahead


class Child:
    """One process: its order, and how it speaks."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self.order = order
        self.dir = Path(order["dir"])
        self.run_id: str = order["run"]
        self.hits: list[str] = []
        self.output: RunOutput[Any] | None = None
        self._armed = not (order.get("die") or {}).get("after")
        self._left = (order.get("die") or {}).get("nth", 1)

    def say(self, what: str, **more: Any) -> None:
        os.write(1, json.dumps({"id": self.order["id"], "said": what, **more}).encode() + b"\n")

    def wait(self) -> None:
        """Until the test says go; blocks the whole process's business on purpose."""
        signal.sigwait({GO})

    def hit(self, point: str) -> None:
        """The hook."""
        if point == "run.after_abort":
            self.say("posted")
        if point == "model.mid_stream" and self.order.get("lockstep"):
            self.say("took", tag=self.order["tag"])
        if point == self.order.get("abort_at") and self.output is not None:
            self.output.abort("the test says so")
        if self.order.get("count"):
            self.hits.append(point)
        die = self.order.get("die")
        if die is None:
            return
        if not self._armed:
            self._armed = point == die["after"]
            return
        if die["point"] not in {point, "*"}:
            return
        self._left -= 1
        if self._left:
            return
        self.say("at", point=point, nth=die.get("nth", 1))
        if self.order.get("pause"):
            self.wait()
            self.order = {**self.order, "die": None}
            return
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()  # the signal ends this thread too; nothing of it goes on meanwhile

    # -- what a child has ------------------------------------------------------------------------------------------

    def app(self) -> tuple[Tenuto, DurableAgent[Any, Any]]:
        order = self.order
        store = SQLiteStore(order["store"], clock=LaterClock(order.get("ahead", 0.0)))
        agent = create_durable_agent(scenarios.agent_of(order["url"], order.get("scenario")))
        recovery_of = order.get("recovery", "off")
        app = Tenuto(agents={"clerk": agent}, store=store, recovery=recovery_of, scorers=scenarios.SCORERS)
        return app, agent

    def live(self) -> dict[str, Any]:
        """The options of a driver: each chunk that its own reader is shown goes to a file at once."""
        path = self.dir / f"live-{self.order['id']}.jsonl"
        return {"on_chunk": lambda chunk: append(path, {"chunk": chunk.to_dict()})}

    def base(self, output: RunOutput[Any]) -> None:
        """The index of the first chunk that this process's reader is shown."""
        append(self.dir / f"live-{self.order['id']}.jsonl", {"first": output.last_index + 1})

    async def ended(self, output: RunOutput[Any]) -> None:
        """Say how it came out."""
        try:
            result = await output.get_full_output()
        except TenutoError as error:
            self.say("lost", error=error.id, status=output.status)
            return
        self.say(
            "ended",
            status=output.status,
            reason=result.finish_reason,
            text=result.text,
            pending=[[each.id, each.tool_name] for each in result.pending],
            error=None if result.error is None else result.error.id,
            degraded=list(result.degraded) if hasattr(result, "degraded") else [],
        )

    # -- what a child does -----------------------------------------------------------------------------------------

    async def drive(self) -> None:
        """Start the run and see it to its end."""
        scenario = SCENARIOS[self.order["scenario"]]
        app, agent = self.app()
        async with app:
            more: dict[str, Any] = {"require_tool_approval": True} if scenario.approve_all else {}
            if scenario.checked:
                more["is_task_complete"] = {"scorer_names": ["finished"]}
            if scenario.thread:
                more["memory"] = {"thread": f"thread of {self.run_id}", "resource": "ann"}
            prompt = prompt_of(scenario.name, self.order["tag"])
            append(self.dir / f"live-{self.order['id']}.jsonl", {"first": 0})
            output = self.output = await agent.stream(prompt, run_id=self.run_id, **more, **self.live())
            self.say("begun")
            await self.ended(output)

    async def recover(self) -> None:
        """Take the run up."""
        app, agent = self.app()
        async with app:
            if self.order.get("barrier"):
                await agent.list_active_runs()
                self.say("ready")
                self.wait()
            try:
                output = await agent.recover(self.run_id, **self.live())
            except TenutoError as error:
                self.say("refused", error=error.id)
                return
            self.base(output)
            await self.ended(output)

    async def recover_all(self) -> None:
        """Take up whatever of this agent may be taken up."""
        app, agent = self.app()
        async with app:
            done = await agent.recover_active_runs()
            self.say("recovered", runs=[[run.run_id, run.status] for run in done.recovered])

    async def sweep(self) -> None:
        """Be an app that takes up what others left, until the run has ended."""
        recovery.SWEEP_SECONDS = 0.05
        app, agent = self.app()
        async with app:
            output = await agent.observe(self.run_id, close_on_suspend=False)
            await self.ended(output)

    async def sweep_aside(self) -> None:
        """Be an app that knows the sub-agent only, and sweeps some times."""
        recovery.SWEEP_SECONDS = 0.02
        due, left = recovery.due, asyncio.Semaphore(0)

        async def counted(policy: recovery.RecoveryPolicy) -> Any:
            found = await due(policy)
            left.release()
            return found

        recovery.due = counted
        store = SQLiteStore(self.order["store"], clock=LaterClock(self.order["ahead"]))
        aide = create_durable_agent(scenarios.aide_of(self.order["url"]))
        async with Tenuto(agents={"aide": aide}, store=store):
            for _ in range(20):
                await left.acquire()
        self.say("swept")

    async def answer(self) -> None:
        """Decide a pending call."""
        app, agent = self.app()
        async with app:
            if self.order.get("barrier"):
                await agent.list_active_runs()
                self.say("ready")
                self.wait()
            try:
                output = await agent.resume(
                    self.run_id, self.order["data"], tool_call_id=self.order.get("call"), **self.live()
                )
            except TenutoError as error:
                self.say("refused", error=error.id)
                return
            self.say("decided")
            self.base(output)
            await self.ended(output)

    async def abort(self) -> None:
        """Stop the run from here."""
        app, agent = self.app()
        async with app:
            self.say("asked", done=await agent.abort_run_stream(self.run_id, "the test says so"))

    async def view(self) -> None:
        """Look on from outside, and write down what there is to see."""
        observe.POLL_SECONDS = 0.01
        app, agent = self.app()
        path = self.dir / self.order["file"]
        index = self.order.get("offset", 0)
        async with app:
            output = await self._observed(agent, index)
            async for chunk in output.full_stream:
                append(path, {"index": index, "chunk": chunk.to_dict()})
                index += 1
            await self.ended(output)

    async def _observed(self, agent: DurableAgent[Any, Any], offset: int) -> RunOutput[Any]:
        while True:
            try:
                return await agent.observe(self.run_id, offset=offset, close_on_suspend=False)
            except TenutoError as error:
                if error.id != "DURABLE_AGENT_RUN_NOT_FOUND":
                    raise
            await asyncio.sleep(0.005)  # the run has not begun

    async def look(self) -> None:
        """Say how the run stands, and write its log into a file, with the store's own indexes."""
        app, agent = self.app()
        async with app:
            row = await app.store.run(self.run_id, resource=ANYONE)
            suspended = await agent.list_suspended_runs()
            waiting = [run for run in suspended.runs if run.run_id == self.run_id]
            active = await agent.list_active_runs()
            events = await app.store.events(self.run_id, resource=ANYONE)
            kept = await app.store.messages(f"thread of {self.run_id}", resource="ann")
            text = "".join(json.dumps({"index": each.index, "chunk": each.chunk.to_dict()}) + "\n" for each in events)
            (self.dir / "log.jsonl").write_text(text)
            said = "".join(json.dumps({"seq": each.seq, **kept_form(each.message)}) + "\n" for each in kept)
            (self.dir / "thread.jsonl").write_text(said)
            self.say(
                "looked",
                status=None if row is None else row.status,
                pending=[[call.id, call.tool_name, call.kind] for run in waiting for call in run.tool_calls],
                active=any(run.run_id == self.run_id for run in active.runs),
            )

    async def open(self) -> None:
        """Make the store's file."""
        app, agent = self.app()
        async with app:
            await agent.list_active_runs()
            self.say("opened")


def kept_form(message: Message) -> dict[str, Any]:
    """What the proof looks at of a stored message."""
    parts = message.content.parts
    return {
        "id": message.id,
        "role": message.role,
        "text": "".join(part.text for part in parts if isinstance(part, TextPart)),
        "calls": [part.tool_invocation.state for part in parts if isinstance(part, ToolInvocationPart)],
    }


async def _work(child: Child) -> None:
    try:
        await getattr(child, child.order["role"])()
    finally:
        await close_session()


def _main(order: Mapping[str, Any]) -> None:
    child = Child(order)
    Place.effects = child.dir / "effects.jsonl"
    Place.held = child.dir / "held"
    journal.FLUSH_SECONDS = order.get("flush", 0.0)  # each delta is stored as it comes: a death finds some stored
    retries.FIRST_WAIT = 0.001
    os.environ.update(order.get("env") or {})
    mutants.apply()
    faults.install(child.hit)
    asyncio.run(_work(child))
    if order.get("count"):
        child.say("hits", hits=child.hits)


# -- the nursery -----------------------------------------------------------------------------------------------------


class Nursery:
    """Forks on demand."""

    def __init__(self) -> None:
        self._children: dict[int, int] = {}
        self._input = b""

    def serve(self) -> None:
        """Until standard input ends; then the children end too."""
        scenarios.warm()
        gc.disable()
        gc.freeze()  # a child's collections would copy every page of this process
        logging.basicConfig(level=logging.CRITICAL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {GO})
        awake, asleep = os.pipe()
        os.set_blocking(asleep, False)
        os.set_blocking(awake, False)
        signal.set_wakeup_fd(asleep, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as ready:
            ready.register(0, selectors.EVENT_READ)
            ready.register(awake, selectors.EVENT_READ)
            going = True
            while going:
                for key, _ in ready.select():
                    if key.fd == 0:
                        going = self._read()
                    else:
                        with suppress(BlockingIOError):
                            os.read(awake, 4096)
                self._bury()
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def _read(self) -> bool:
        got = os.read(0, 1 << 16)
        *orders, self._input = (self._input + got).split(b"\n")
        for order in orders:
            self._fork(json.loads(order))
        return bool(got)

    def _fork(self, order: Mapping[str, Any]) -> None:
        pid = os.fork()
        if pid:
            self._children[pid] = order["id"]
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.write(1, json.dumps({"id": order["id"], "said": "pid", "pid": os.getpid()}).encode() + b"\n")
            _main(order)
            code = 0
        except BaseException:  # noqa: BLE001 - the test reads it
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _bury(self) -> None:
        for pid, number in list(self._children.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del self._children[pid]
                line = {"id": number, "said": "exit", "code": os.waitstatus_to_exitcode(status)}
                os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    Nursery().serve()
