"""Who uses the agents: those who start runs, decide on calls, look on, abort and recover.

Invariant: a client knows what a real one knows: answers, errors, and that a process it asked is gone. It writes down
what it was told, for the judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from msgspec import Struct

from tenuto.core.chunks import DELTAS
from tenuto.core.codec import encode
from tenuto.core.errors import TenutoError
from tenuto.steps.tool_step import ASKS_OUTCOME
from tenuto.store.ports import TERMINAL_STATUS
from tests.simulation.plan import Act
from tests.simulation.world import Gone, World

TRIES = 8
DELTA_TYPES = frozenset(DELTAS)


class Decided(Struct, frozen=True):
    """A decision that somebody was told is taken: of this call as it waited at this attempt."""

    run_id: str
    call_id: str
    attempt: int
    what: str


class Viewer:
    """Looks at a run from the store, in pieces; `seen` is what it has put together."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seen: dict[int, Any] = {}
        self.wants = 0
        self.close = True
        self.text: str | None = None
        self.ended = False

    @property
    def next(self) -> int:
        return len(self.seen)


class Clients:
    """All of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.decided: list[Decided] = []
        self.viewers: list[Viewer] = []
        self.aborted: set[str] = set()
        self.never: set[str] = set()

    async def everything(self) -> None:
        """Until each run of the plan has been started, decided on by chance for a while, and everything was done."""
        plan = self.world.plan
        async with asyncio.TaskGroup() as group:
            for number, run in enumerate(plan.runs):
                group.create_task(self._start(number, run))
                group.create_task(self._decide(f"run-{number}"))
            for act in plan.acts:
                group.create_task(self._do(act))

    async def _asked(self, what: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """Ask some process; None when it is gone or refuses."""
        process = await self.world.any_process()
        self.world.note(f"client asks {process.name.strip()}: {what}")
        try:
            return await process.call(work)
        except Gone:
            self.world.note(f"client is told nothing: {what}")
        except TenutoError as error:
            self.world.note(f"client is told {error.id}: {what}")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not what a caller is promised
            self.world.fail(f"{what} raised {error!r}")
        return None

    # -- starting ----------------------------------------------------------------------------------------------------

    async def _start(self, number: int, run: Any) -> None:
        run_id = f"run-{number}"
        options = {
            "run_id": run_id,
            "max_steps": run.max_steps,
            "tool_call_concurrency": run.concurrency,
            "require_tool_approval": run.approve_all,
        }
        await asyncio.sleep(run.at)
        for _ in range(TRIES):
            await self._asked(f"start {run_id}", lambda agent: self._read(agent.stream(run_id, **options)))
            if self.world.row(run_id) is not None:
                return
            await asyncio.sleep(1)
        self.never.add(run_id)

    async def _read(self, stream: Awaitable[Any]) -> None:
        """Read as whoever started the segment: each chunk that is no delta is in the store when it is shown."""
        output = await stream
        place = output._first_index
        async for chunk in output.full_stream:
            log = self.world.store._logs[output.run_id]
            stored = log.kept_events[place] if place < len(log.kept_events) else None
            if type(chunk) not in DELTA_TYPES and stored != encode(chunk):
                self.world.fail(f"{output.run_id} showed {chunk.type} at {place} before it was stored")
            place += 1

    # -- deciding ----------------------------------------------------------------------------------------------------

    async def _decide(self, run_id: str) -> None:
        chance = Random(f"decisions {self.world.plan.seed} {run_id}")
        for _ in range(25):
            await asyncio.sleep(chance.uniform(0.2, 4))
            if self.world.over(run_id):
                return
            for call in await self.world.store.pending(run_id, resource=None):
                if chance.random() < 0.5:
                    continue
                answers = [self._answer(chance, call) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
                if chance.random() < 0.3:
                    answers.append(answers[0])
                await asyncio.gather(*(self.decide(call, what) for what in answers))

    def _answer(self, chance: Random, call: Any) -> str:
        if call.resume_schema == ASKS_OUTCOME:
            return chance.choice(("applied", "not-applied", "unknown"))
        if call.kind == "suspension":
            return chance.choice(("yes", "no"))
        return chance.choice(("approve", "approve", "decline", "edit"))

    async def decide(self, call: Any, what: str) -> bool:
        """Answer a pending call; whether that was accepted."""
        given: dict[str, Any] = {"run_id": call.run_id, "tool_call_id": call.call_id}
        match what:
            case "approve":
                work = lambda agent: agent.approve_tool_call(**given)
            case "edit":
                edited = {**call.args, "order": call.args["order"] + 100}
                work = lambda agent: agent.approve_tool_call(**given, args=edited)
            case "decline":
                work = lambda agent: agent.decline_tool_call(**given, reason="No.")
            case "yes" | "no":
                work = lambda agent: agent.resume_stream({"answer": what}, **given)
            case _:
                work = lambda agent: agent.resume_stream({"outcome": what}, **given)

        async def ask(agent: Any) -> Any:
            output = await work(agent)
            self.decided.append(Decided(call.run_id, call.call_id, call.attempt, what))
            self.world.note(f"decided: {call.call_id} {what}")
            return output

        output = await self._asked(f"{what} {call.call_id}", ask)
        return output is not None

    # -- the rest ----------------------------------------------------------------------------------------------------

    async def _do(self, act: Act) -> None:
        await asyncio.sleep(act.at)
        run_id = f"run-{act.run}"
        match act.deed:
            case "observe":
                await self.watch(run_id, Random(f"viewer {self.world.plan.seed} {act.at}"))
            case "abort":
                for _ in range(TRIES):
                    done = await self._asked(f"abort {run_id}", lambda agent: agent.abort_run_stream(run_id))
                    if done:
                        self.aborted.add(run_id)
                    if done is not None or self.world.row(run_id) is None:
                        return
            case "recover":
                await self._asked(f"recover {run_id}", lambda agent: self._read(agent.recover(run_id)))
            case "recover all":
                await self._asked("recover all", lambda agent: agent.recover_active_runs())
            case "list":
                await self._asked("list", lambda agent: agent.list_active_runs())
                await self._asked("list", lambda agent: agent.list_suspended_runs())

    async def watch(self, run_id: str, chance: Random) -> None:
        """Look on in pieces of random length, through any process, until the run's end has been seen."""
        viewer = Viewer(run_id)
        if self.world.row(run_id) is None:
            return
        self.viewers.append(viewer)
        while not viewer.ended:
            viewer.wants = chance.choice((1, 3, 10, 1000))
            viewer.close = chance.random() < 0.5
            await self._asked(f"observe {run_id} from {viewer.next}", lambda agent: self._look(agent, viewer))
            await asyncio.sleep(chance.uniform(0, 3))

    async def _look(self, agent: Any, viewer: Viewer) -> None:
        output = await agent.observe(viewer.run_id, offset=viewer.next, close_on_suspend=viewer.close)
        stream = output.full_stream
        async for chunk in stream:
            if chunk.type == "gap":
                self.world.fail(f"a viewer of {viewer.run_id} was shown a gap: {chunk}")
            if chunk.from_ == "SYSTEM":
                continue  # an aside: nobody drives the run just now
            viewer.seen[viewer.next] = chunk
            viewer.wants -= 1
            if viewer.wants == 0:
                await stream.aclose()
                output.detach()
                return
        if output.status in TERMINAL_STATUS and output._result is not None:
            viewer.text = output._result.text
            viewer.ended = True
