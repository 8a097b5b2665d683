"""Both stores given the same calls in the same order answer alike, whatever the calls are."""

import random

import pytest
from msgspec.structs import replace

from tenuto.core.errors import StaleLease, StoreError
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.store.ports import ANYONE, CopyOf, Fence, RunRow, Scope, ThreadEdit, ThreadMessage, ThreadRow, Write
from tests.store.conformance import ManualClock, Note, delta, pending, row
from tests.store.conformance_threads import said, score, vector

THREADS, RESOURCES, RUNS, IDS = (
    ("t1", "t2", "t3"),
    ("ann", "bob"),
    tuple(f"r{n}" for n in range(12)),
    ("m0", "m1", "m2", "m3"),
)


class Both:
    """Makes each call of both stores; the answer is that of both, or the test fails."""

    def __init__(self, *stores):
        self._stores = stores
        self.fences = {}

    async def __call__(self, name, *args, **how):
        answers = [await answered(store, name, args, how) for store in self._stores]
        assert comparable(answers[0]) == comparable(answers[1]), (name, args, how)
        return answers[0]

    async def aclose(self):
        for store in self._stores:
            await store.aclose()


async def answered(store, name, args, how):
    try:
        return await getattr(store, name)(*args, **how)
    except StaleLease:
        return "stale"
    except StoreError as error:
        return error.id


def comparable(answer):
    """Without what a store is free to choose: the ids of copied messages, and places of vectors."""
    if isinstance(answer, list):
        return [comparable(each) for each in answer]
    if isinstance(answer, ThreadMessage) and len(answer.message.id) == 32:
        return replace(answer, message=replace(answer.message, id="copied"))
    if hasattr(answer, "place"):
        return replace(answer, place=0, message_id=answer.message_id if len(answer.message_id) < 32 else "copied")
    return answer


class Chance:
    """What is called next."""

    def __init__(self, seed, both, clock):
        self._random = random.Random(seed)
        self._both = both
        self._clock = clock

    def of(self, *values):
        return self._random.choice(values)

    def seldom(self, value, otherwise=None):
        return value if self._random.random() < 0.15 else otherwise

    def owner(self):
        return self.seldom("bob", "ann")

    def scope(self):
        if self.seldom(True):
            return Scope("run", self.of(*RUNS), "")
        return Scope("thread", self.of(*THREADS), self.owner())

    def thread(self):
        root = self.seldom(Scope("thread", self.of(*THREADS), "ann"))
        return ThreadRow(id=self.of(*THREADS), resource=self.owner(), title=self.of("a", None), root=root)

    def messages(self):
        return tuple(said(self.of(*IDS), str(self._random.random())) for _ in range(self.of(0, 1, 2, 3)))

    async def fence(self):
        return self.of(*self._both.fences.values()) if self._both.fences else await self.claim()

    async def open_run(self, fence):
        """One that may be written to under the fence, if there is one; seldom any other."""
        rows = await self._both("runs", resource=ANYONE)
        mine = [each.run_id for each in rows if each.scope == fence.scope and each.status in {"running", "suspended"}]
        return self.of(*mine) if mine and not self.seldom(True) else self.of(*RUNS)

    async def step(self):
        often = [*["commit"] * 8, *["edit"] * 5, *["claim"] * 2]
        await getattr(self, self.of(*often, "release", "wait", "swap", "index", "post"))()

    async def claim(self):
        scope = self.scope()
        run = row(self.of(*RUNS), scope, durable=self.of(True, False), resource=self.owner())
        run = self.seldom(None, run)
        expect = self.seldom(self.of("suspended", "running"))
        answer = await self._both("claim", scope, self.of("o1", "o2"), run=run, expect=expect if run else None)
        if isinstance(answer, Fence):
            self._both.fences[scope] = answer
            return answer
        return Fence(scope, 0, "nobody")

    async def release(self):
        fence = await self.fence()
        await self._both("release", fence, handover=self.seldom("o2"))
        if not self.seldom(True):
            self._both.fences.pop(fence.scope, None)

    async def wait(self):
        self._clock.advance(self.of(1, 5, 16))

    async def commit(self):
        fence = await self.fence()
        run_id = await self.open_run(fence)
        known = await self._both("run", run_id, resource=ANYONE)
        child = RunRow(
            run_id=run_id,
            agent_id="b",
            scope=fence.scope,
            durable=self.of(True, False),
            parent_id=await self.open_run(fence),
            thread_id=self.of(*THREADS),
            resource_id=self.of(None, "ann"),
        )
        thread = self.thread()
        if known is not None and known.thread_id is not None and not self.seldom(True):
            thread = replace(thread, id=known.thread_id, resource=known.resource_id or "ann")
        events = await self._both("event_count", run_id, resource=ANYONE)
        write = Write(
            run_id=run_id,
            run=child if known is None or self.seldom(True) else None,
            records=(Note(1),) * self.of(0, 1, 2),
            first_seq=len(await self._both("records", run_id, resource=ANYONE)),
            events=tuple(delta(events + n) for n in range(self.of(0, 2))),
            thread=self.of(None, thread, thread),
            messages=self.of((), self.messages()),
            pending=self.of((), (pending(run_id=run_id),)),
            status=self.of(None, None, None, None, "suspended", "running", "success", "failed"),
            keep=bool(self.seldom(True)),
        )
        await self._both("commit", fence, write)

    async def edit(self):
        thread = self.thread()
        span = {"start": self.of(0, 1), "end": self.of(None, 3)}
        edit = ThreadEdit(
            thread=thread,
            copy=self.seldom(CopyOf(thread=self.of(*THREADS), resource=self.owner(), **span)),
            messages=self.messages(),
            drop=self.of((), (self.of(*IDS),)),
            delete=bool(self.seldom(True)),
        )
        fence = self._both.fences.get(thread.scope)
        if fence is None and not self.seldom(True):
            fence = await self._both("claim", thread.scope, "o1")
        await self._both("edit", fence if isinstance(fence, Fence) else await self.fence(), edit)

    async def swap(self):
        await self._both("swap", self.thread(), self.of(0, 1, 1, 2))

    async def index(self):
        thread, owner = self.of(*THREADS), self.owner()
        rows = [vector(self.of(*IDS), thread=thread, resource=owner, part=part) for part in range(self.of(1, 2))]
        await self._both("index", rows)
        await self._both("unindex", resource=owner, thread=self.of(None, thread), ids=self.of(None, [self.of(*IDS)]))
        await self._both("index", rows)

    async def post(self):
        await self._both("post", score(self.of("s1", "s2"), score=self.of(0.1, 0.2), resource_id=self.of("ann", None)))


async def compare(both):
    for resource in (*RESOURCES, None, ANYONE):
        await both("runs", resource=resource)
        await both("runs", resource=resource, status="suspended")
        await both("vectors", resource=resource, space="s")
        await both("scores", resource=resource)
        for root in (None, Scope("thread", "t1", "ann")):
            await both("threads", resource=resource, root=root, order_by="updated_at")
        for thread in THREADS:
            await both("thread", thread, resource=resource)
            await both("messages", thread, resource=resource)
            await both("messages", thread, resource=resource, after=0, last=2)
            await both("messages", thread, resource=resource, ids=list(IDS), around=(1, 0))
        await both("find_messages", list(IDS), resource=resource)
    for run in RUNS:
        await both("children", run, resource=ANYONE)
        await both("records", run, resource=ANYONE)
        await both("events", run, resource=ANYONE)
        await both("pending", run, resource=ANYONE)
    await both("recoverable")


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_called_both_stores_answer_alike(tmp_path, seed):
    clock = ManualClock()
    both = Both(InMemoryStore(clock=clock), SQLiteStore(tmp_path / "runs.db", clock=clock))
    chance = Chance(seed, both, clock)
    for _ in range(8):
        for _ in range(15):
            await chance.step()
        await compare(both)
    await both.aclose()
