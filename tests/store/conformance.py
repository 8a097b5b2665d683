"""What every `RunStore` must do, told through the port alone.

A store's own test module defines two fixtures, `clock` (a `ManualClock`) and `store` (a fresh, empty store that takes
its time from `clock` and holds a lease for `LEASE_SECONDS`), and subclasses `RunStoreConformance`.

Invariant: nothing here knows which store it runs on, and nothing waits for real time to pass.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import codec
from tenuto.core.chunks import TextDelta, ToolResult
from tenuto.core.errors import StaleLease, StoreError
from tenuto.core.events import Event
from tenuto.core.payloads import ErrorInfo, TextDeltaPayload, ToolResultPayload
from tenuto.store.ports import (
    LEASE_SECONDS,
    TERMINAL_STATUS,
    AbortRequest,
    Committed,
    Decide,
    EffectRow,
    Fence,
    HeldBy,
    Inbox,
    PendingCall,
    Posted,
    RunRow,
    RunStore,
    Scope,
    Versioned,
    Write,
)

THREAD = Scope("thread", "t1", "ann")
OTHER_THREAD = Scope("thread", "t2", "ann")
LONG = LEASE_SECONDS + 1


class ManualClock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self._now = 1_800_000_000.0

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        self._now += seconds


class Note(Struct, frozen=True, tag="note"):
    """Stands for a journal record."""

    text: Any


def row(run_id: str = "r1", scope: Scope = THREAD, *, durable: bool = True, resource: str | None = "ann") -> RunRow:
    return RunRow(run_id=run_id, agent_id="a", scope=scope, durable=durable, resource_id=resource, thread_id=scope.id)


def delta(index: int, text: str = "x") -> Event:
    return Event(index, TextDelta("r1", "AGENT", TextDeltaPayload("t", text)))


def pending(call_id: str = "c1", **changes: Any) -> PendingCall:
    call = PendingCall(run_id="r1", call_id=call_id, tool_name="pay", kind="approval", args={"n": 1}, args_hash="h1")
    return replace(call, **changes)


def effect(key: str = "k1", status: Any = "intended", **changes: Any) -> EffectRow:
    made = EffectRow(key=key, run_id="r1", call_id="c1", tool_name="pay", status=status, attempt=1)
    return replace(made, **changes)


def decide(call_id: str = "c1", **changes: Any) -> Decide:
    return replace(Decide(run_id="r1", call_id=call_id, args_hash="h1", approved=True), **changes)


async def started(store: RunStore, run: RunRow | None = None, owner: str = "o1") -> Fence:
    """Claim the scope of `run` with it."""
    run = run or row()
    return taken(await store.claim(run.scope, owner, run=run))


def taken(answer: Fence | HeldBy) -> Fence:
    assert isinstance(answer, Fence)
    return answer


async def refused(call: Awaitable[Any], id: str) -> StoreError:
    """The `StoreError` with this id that `call` raises."""
    with pytest.raises(StoreError) as caught:
        await call
    assert caught.value.id == id
    return caught.value


def in_threads(*calls: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What each call returns or raises, each run in a thread and an event loop of its own, all let go at once."""
    answers: list[Any] = [None] * len(calls)
    ready = threading.Barrier(len(calls))

    async def made(place: int) -> Any:
        return await calls[place]()

    def work(place: int) -> None:
        ready.wait(10)
        try:
            answers[place] = asyncio.run(made(place))
        except StoreError as error:
            answers[place] = error

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


class Claiming:
    async def test_a_free_scope_is_taken_and_the_run_added_with_it(self, store, clock):
        fence = await started(store)
        assert (fence.scope, fence.owner, fence.unfinished) == (THREAD, "o1", None)
        found = await store.run("r1", resource="ann")
        now = clock.now()
        assert found == replace(row(), status="running", root_id="r1", created_at=now, updated_at=now)

    async def test_a_held_scope_is_refused_with_who_holds_it_and_until_when(self, store, clock):
        fence = await started(store)
        held = await store.claim(THREAD, "o2", run=row("r2"))
        assert held == HeldBy(THREAD, "o1", fence.epoch, clock.now() + LEASE_SECONDS)
        assert await store.run("r2", resource="ann") is None
        assert await store.renew(fence)

    async def test_scopes_are_apart_by_each_of_their_parts(self, store):
        scopes = [THREAD, OTHER_THREAD, Scope("thread", "t1", "bob"), Scope("run", "t1", "ann"), Scope("run", "t1")]
        for place, scope in enumerate(scopes):
            taken(await store.claim(scope, f"o{place}"))

    async def test_a_lease_holds_until_its_last_second_and_is_free_from_there(self, store, clock):
        await started(store)
        clock.advance(LEASE_SECONDS - 0.5)
        assert isinstance(await store.claim(THREAD, "o2"), HeldBy)
        clock.advance(0.5)
        taken(await store.claim(THREAD, "o2"))

    async def test_expiry_alone_unseats_nobody(self, store, clock):
        fence = await started(store)
        clock.advance(LONG)
        assert await store.commit(fence, Write(run_id="r1", records=(Note(1),))) == Committed(1, 0)

    async def test_the_same_owner_claims_again_and_its_first_fence_is_stale(self, store):
        first = await started(store)
        second = taken(await store.claim(THREAD, "o1"))
        assert second.epoch > first.epoch
        with pytest.raises(StaleLease):
            await store.commit(first, Write(run_id="r1"))
        assert not await store.renew(first)

    async def test_a_driver_that_claims_again_leaves_its_run_to_be_settled(self, store):
        await started(store, row(durable=False))
        taken(await store.claim(THREAD, "o1", run=row("r2", durable=False)))
        assert (await store.run("r1", resource="ann")).status == "interrupted"
        assert (await store.run("r2", resource="ann")).status == "running"

    @pytest.mark.parametrize("scope", [THREAD, Scope("run", "r1")], ids=["thread", "run"])
    @pytest.mark.parametrize("durable", [True, False])
    async def test_epochs_only_grow(self, store, clock, scope, durable):
        epochs = [(await started(store, row(scope=scope, durable=durable))).epoch]
        for place in range(6):
            if place % 3 == 0:
                clock.advance(LONG)
            fence = taken(await store.claim(scope, "o1" if place % 2 else "o2"))
            epochs.append(fence.epoch)
            await store.release(fence, handover="o1" if place == 4 else None)
        assert epochs == sorted(set(epochs))

    @pytest.mark.parametrize("scope", [THREAD, Scope("run", "none")], ids=["thread", "run"])
    async def test_a_fence_of_a_scope_without_a_run_never_becomes_valid_again(self, store, scope):
        old = taken(await store.claim(scope, "o1"))
        await store.release(old)
        taken(await store.claim(scope, "o2"))
        assert not await store.renew(old)

    async def test_a_handover_keeps_the_scope_for_its_owner(self, store, clock):
        await store.release(await started(store), handover="o2")
        for other in ("o1", "o3"):
            held = await store.claim(THREAD, other)
            assert isinstance(held, HeldBy)
            assert (held.owner, held.expires_at) == ("o2", clock.now() + LEASE_SECONDS)
        taken(await store.claim(THREAD, "o2"))

    async def test_a_handover_nobody_takes_up_ends_with_the_lease(self, store, clock):
        await store.release(await started(store), handover="o2")
        clock.advance(LEASE_SECONDS)
        taken(await store.claim(THREAD, "o3"))

    async def test_an_existing_run_is_not_added_again_and_nothing_is_taken(self, store):
        fence = await started(store)
        await store.release(fence)
        error = await refused(store.claim(OTHER_THREAD, "o2", run=row(scope=OTHER_THREAD)), "RUN_EXISTS")
        assert error.category == "USER"
        taken(await store.claim(OTHER_THREAD, "o3"))

    async def test_a_refused_row_leaves_the_fence_of_its_owner_valid(self, store):
        fence = await started(store)
        await refused(store.claim(THREAD, "o1", run=row()), "RUN_EXISTS")
        assert await store.renew(fence)

    @pytest.mark.parametrize(
        ("status", "expect"),
        [
            ("suspended", "running"),
            ("running", "suspended"),
            ("success", "suspended"),
            *((status, status) for status in sorted(TERMINAL_STATUS)),
        ],
    )
    async def test_a_run_of_another_status_is_refused_and_nothing_is_taken(self, store, status, expect):
        fence = await started(store)
        if status != "running":
            await store.commit(fence, Write(run_id="r1", status=status))
        await store.release(fence)
        await refused(store.claim(THREAD, "o2", run=row(), expect=expect), "RUN_STATUS_CHANGED")
        assert (await store.run("r1", resource="ann")).status == status
        taken(await store.claim(THREAD, "o3"))

    @pytest.mark.parametrize(
        "other",
        [row("nobody"), row(scope=OTHER_THREAD), row(resource="bob"), row(resource=None)],
        ids=["unknown", "other scope", "other resource", "no resource"],
    )
    async def test_a_run_is_moved_back_only_by_its_own_scope_and_resource(self, store, other):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        await store.release(fence)
        await refused(store.claim(other.scope, "o2", run=other, expect="suspended"), "RUN_STATUS_CHANGED")
        assert (await store.run("r1", resource="ann")).status == "suspended"

    @pytest.mark.parametrize("expect", [None, "running"])
    async def test_a_row_of_another_scope_is_refused(self, store, expect):
        await refused(store.claim(THREAD, "o1", run=row(scope=OTHER_THREAD), expect=expect), "RUN_NOT_IN_SCOPE")
        taken(await store.claim(THREAD, "o2"))

    async def test_a_suspended_run_goes_on_as_the_row_that_is_stored(self, store, clock):
        fence = await started(store)
        write = Write(run_id="r1", records=(Note(1),), events=(delta(0),), status="suspended", reason="approval")
        await store.commit(fence, write)
        await store.release(fence)
        before = await store.run("r1", resource="ann")
        clock.advance(5)
        asked = replace(row(), durable=False, agent_id="evil", loop_version=2)
        again = taken(await store.claim(THREAD, "o2", run=asked, expect="suspended"))
        after = await store.run("r1", resource="ann")
        assert after == replace(before, status="running", reason=None, loop_version=2, updated_at=clock.now())
        write = Write(run_id="r1", records=(Note(2),), first_seq=1, events=(delta(1),))
        assert await store.commit(again, write) == Committed(2, 2)

    async def test_a_suspended_run_does_not_hold_its_scope(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        await store.release(fence)
        assert taken(await store.claim(THREAD, "o2", run=row("r2"))).unfinished is None
        assert (await store.run("r1", resource="ann")).status == "suspended"


class Settling:
    async def test_a_plain_run_left_behind_is_interrupted(self, store, clock):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", pending=(pending(),)))
        clock.advance(LONG)
        fence = taken(await store.claim(THREAD, "o2", run=row("r2")))
        assert fence.unfinished is None
        found = await store.run("r1", resource="ann")
        assert (found.status, found.updated_at) == ("interrupted", clock.now())
        assert await store.pending("r1", resource="ann") == []
        assert (await store.run("r2", resource="ann")).status == "running"
        await refused(store.commit(fence, Write(run_id="r1")), "RUN_NOT_OPEN")

    async def test_a_durable_run_left_behind_is_named_and_the_new_one_is_not_added(self, store, clock):
        await started(store)
        clock.advance(LONG)
        fence = taken(await store.claim(THREAD, "o2", run=row("r2")))
        assert fence.unfinished == "r1"
        assert await store.run("r2", resource="ann") is None
        assert (await store.run("r1", resource="ann")).status == "running"

    async def test_an_unfinished_run_is_recovered_by_claiming_it(self, store, clock):
        old = await started(store)
        await store.commit(old, Write(run_id="r1", records=(Note(1),)))
        clock.advance(LONG)
        found = taken(await store.claim(THREAD, "o2", run=row("r2")))
        fence = taken(await store.claim(THREAD, "o2", run=row(), expect="running"))
        assert (found.unfinished, fence.unfinished) == ("r1", None)
        write = Write(run_id="r1", records=(Note(2),), first_seq=1, status="success")
        assert await store.commit(fence, write) == Committed(2, 0)
        with pytest.raises(StaleLease):
            await store.commit(old, Write(run_id="r1"))
        await store.release(fence)
        assert taken(await store.claim(THREAD, "o3", run=row("r2"))).unfinished is None

    async def test_a_run_released_while_running_is_settled_too(self, store):
        await store.release(await started(store, row(durable=False)))
        taken(await store.claim(THREAD, "o2"))
        assert (await store.run("r1", resource="ann")).status == "interrupted"

    async def test_a_refused_claim_settles_nothing(self, store):
        await started(store, row(durable=False))
        assert isinstance(await store.claim(THREAD, "o2"), HeldBy)
        await refused(store.claim(THREAD, "o1", run=row(durable=False)), "RUN_EXISTS")
        assert (await store.run("r1", resource="ann")).status == "running"

    async def test_runs_of_other_scopes_are_left_alone(self, store, clock):
        await started(store, row(durable=False))
        clock.advance(LONG)
        taken(await store.claim(OTHER_THREAD, "o2"))
        assert (await store.run("r1", resource="ann")).status == "running"


class Holding:
    async def test_renewing_counts_from_now(self, store, clock):
        fence = await started(store)
        clock.advance(LEASE_SECONDS - 1)
        assert await store.renew(fence)
        clock.advance(LEASE_SECONDS - 1)
        held = await store.claim(THREAD, "o2")
        assert isinstance(held, HeldBy)
        assert held.expires_at == clock.now() + 1

    async def test_an_expired_lease_nobody_took_is_renewed(self, store, clock):
        fence = await started(store)
        clock.advance(LONG)
        assert await store.renew(fence)
        assert isinstance(await store.claim(THREAD, "o2"), HeldBy)

    async def test_a_fence_somebody_replaced_is_not_renewed(self, store, clock):
        fence = await started(store)
        clock.advance(LONG)
        taken(await store.claim(THREAD, "o2"))
        assert not await store.renew(fence)

    async def test_a_fence_of_a_scope_nobody_ever_claimed_holds_nothing(self, store):
        made_up = Fence(THREAD, 1, "o1")
        assert not await store.renew(made_up)
        await store.release(made_up)
        with pytest.raises(StaleLease):
            await store.commit(made_up, Write(run_id="r1"))

    async def test_a_released_scope_is_free_at_once(self, store):
        await store.release(await started(store))
        taken(await store.claim(THREAD, "o2"))

    @pytest.mark.parametrize("handover", [None, "o2"])
    async def test_a_released_fence_is_stale(self, store, handover):
        fence = await started(store)
        await store.release(fence, handover=handover)
        assert not await store.renew(fence)
        error = await refused(store.commit(fence, Write(run_id="r1", status="failed")), "STORE_STALE_LEASE")
        assert isinstance(error, StaleLease)
        assert (await store.run("r1", resource="ann")).status == "running"

    @pytest.mark.parametrize("handover", [None, "o3"])
    async def test_a_stale_release_does_nothing(self, store, clock, handover):
        old = await started(store)
        clock.advance(LONG)
        new = taken(await store.claim(THREAD, "o2"))
        await store.release(old, handover=handover)
        assert isinstance(await store.claim(THREAD, "o3"), HeldBy)
        assert await store.renew(new)

    async def test_releasing_twice_does_not_undo_a_handover(self, store):
        fence = await started(store)
        await store.release(fence, handover="o2")
        await store.release(fence)
        assert isinstance(await store.claim(THREAD, "o3"), HeldBy)


FULL = Write(
    run_id="r1",
    records=(Note("a"), Note("b")),
    events=(delta(0), delta(1, "y")),
    pending=(pending(),),
    effects=(effect(),),
    status="suspended",
    reason="approval",
    error=ErrorInfo("ToolError", "no", details={"n": 1}),
)


async def contents(store: RunStore) -> tuple[Any, ...]:
    """All that a write to `r1` can change."""
    return (
        await store.run("r1", resource="ann"),
        await store.records("r1", resource="ann"),
        await store.events("r1", resource="ann"),
        await store.pending("r1", resource="ann"),
        await store.effect("k1"),
    )


FINISH = Write(run_id="r1", status="success")


class Committing:
    async def test_all_of_a_durable_write_is_stored(self, store, clock):
        fence = await started(store)
        clock.advance(1)
        assert await store.commit(fence, FULL) == Committed(2, 2)
        run, records, events, calls, entry = await contents(store)
        assert (run.status, run.reason, run.error) == (FULL.status, FULL.reason, FULL.error)
        assert run.updated_at == run.created_at + 1
        assert records == [codec.encode(record) for record in FULL.records]
        assert (events, calls, entry) == (list(FULL.events), list(FULL.pending), FULL.effects[0])

    async def test_of_a_plain_run_only_row_calls_and_effects_are_kept(self, store):
        fence = await started(store, row(durable=False))
        assert await store.commit(fence, FULL) == Committed(2, 2)
        run, records, events, calls, entry = await contents(store)
        assert run.status == "suspended"
        assert (records, events) == ([], [])
        assert (calls, entry) == (list(FULL.pending), FULL.effects[0])

    @pytest.mark.parametrize("durable", [True, False])
    async def test_places_go_on_from_what_was_stored_and_forgotten(self, store, durable):
        fence = await started(store, row(durable=durable))
        for place in range(3):
            write = Write(run_id="r1", records=(Note(place),), first_seq=place, events=(delta(place),))
            assert await store.commit(fence, write) == Committed(place + 1, place + 1)

    async def test_a_write_without_a_status_leaves_status_reason_and_error(self, store):
        fence = await started(store)
        await store.commit(fence, FULL)
        before = await store.run("r1", resource="ann")
        await store.commit(fence, Write(run_id="r1", reason="ignored", error=ErrorInfo("E", "ignored")))
        assert await store.run("r1", resource="ann") == before

    @pytest.mark.parametrize(
        ("change", "id"),
        [
            ({"first_seq": 1}, "STORE_OUT_OF_ORDER"),
            ({"first_seq": -1}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(1),)}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(0), delta(0))}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(0), delta(2))}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(-1), delta(0))}, "STORE_OUT_OF_ORDER"),
            ({"run_id": "nobody"}, "RUN_NOT_OPEN"),
            ({"pending": (pending(), pending("c2", run_id="r2"))}, "WRITE_MIXES_RUNS"),
            ({"effects": (effect(), effect("k2", run_id="r2"))}, "WRITE_MIXES_RUNS"),
            ({"records": (Note("a"), Note(object()))}, "STORE_NOT_JSON"),
            ({"records": (Note("\ud800"),)}, "STORE_NOT_JSON"),
            (
                {"events": (delta(0), Event(1, ToolResult("r1", "AGENT", ToolResultPayload("c", "t", object()))))},
                "STORE_NOT_JSON",
            ),
            ({"pending": (pending(), pending("c2", args={"f": object()}))}, "STORE_NOT_JSON"),
            ({"effects": (effect(), effect("k2", result=object()))}, "STORE_NOT_JSON"),
            ({"error": ErrorInfo("E", "m", details={"o": object()})}, "STORE_NOT_JSON"),
        ],
    )
    async def test_a_write_that_does_not_fit_stores_nothing_of_it(self, store, clock, change, id):
        fence = await started(store)
        before = await contents(store)
        clock.advance(1)
        await refused(store.commit(fence, replace(FULL, **change)), id)
        assert await contents(store) == before
        assert await store.effect("k2") is None
        assert await store.commit(fence, FULL) == Committed(2, 2)

    async def test_a_stale_fence_stores_nothing(self, store, clock):
        fence = await started(store)
        clock.advance(LONG)
        taken(await store.claim(THREAD, "o2"))
        before = await contents(store)
        with pytest.raises(StaleLease):
            await store.commit(fence, FULL)
        assert await contents(store) == before

    async def test_a_fence_of_another_scope_stores_nothing(self, store):
        await started(store)
        other = await started(store, row("r2", OTHER_THREAD))
        before = await contents(store)
        await refused(store.commit(other, FULL), "RUN_NOT_IN_SCOPE")
        assert await contents(store) == before

    @pytest.mark.parametrize("durable", [True, False])
    @pytest.mark.parametrize("status", sorted(TERMINAL_STATUS))
    async def test_a_run_that_is_over_is_closed(self, store, status, durable):
        fence = await started(store, row(durable=durable))
        await store.commit(fence, replace(FULL, status=status))
        before = await contents(store)
        for write in (Write(run_id="r1"), Write(run_id="r1", status="running"), Write(run_id="r1", status="failed")):
            await refused(store.commit(fence, write), "RUN_NOT_OPEN")
        assert await contents(store) == before
        assert before[0].status == status
        assert before[3] == []

    async def test_only_a_claim_wakes_a_suspended_run(self, store):
        fence = await started(store)
        await store.commit(fence, FULL)
        await refused(store.commit(fence, Write(run_id="r1", status="running")), "RUN_STATUS_CHANGED")
        assert (await store.run("r1", resource="ann")).status == "suspended"

    async def test_pending_calls_are_replaced_by_id_and_closed_ones_wait_no_longer(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", pending=(pending("c1"), pending("c2"), pending("c3"))))
        await store.commit(fence, Write(run_id="r1", pending=(pending("c2", closed=True), pending("c1", args=2))))
        assert await store.pending("r1", resource="ann") == [pending("c1", args=2), pending("c3")]

    async def test_effects_are_replaced_by_key(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", effects=(effect(),)))
        done = effect(status="ok", result={"id": 7}, late=True)
        await store.commit(fence, Write(run_id="r1", effects=(done,)))
        assert await store.effect("k1") == done

    @pytest.mark.parametrize("status", ["intended", "ok", "failed", "unknown"])
    async def test_an_intent_takes_over_another_call_s_effect_only_when_that_is_settled(self, store, status):
        fence = await started(store)
        first = effect(status=status)
        await store.commit(fence, Write(run_id="r1", effects=(first,)))
        other = await started(store, row("r2", OTHER_THREAD))
        again = effect(run_id="r2", call_id="c9")
        write = Write(run_id="r2", records=(Note(1),), effects=(again,))
        if status in {"intended", "ok"}:
            await refused(store.commit(other, write), "EFFECT_TAKEN")
            assert await store.records("r2", resource="ann") == []
            assert await store.effect("k1") == first
        else:
            await store.commit(other, write)
            assert await store.effect("k1") == again

    async def test_two_intents_of_two_runs_racing_for_one_key_never_both_succeed(self, store):
        fences = [await started(store, row(f"r{n}", Scope("thread", f"t{n}", "ann")), f"o{n}") for n in range(4)]

        def intent(place: int) -> Callable[[], Awaitable[Any]]:
            entry = effect(run_id=f"r{place}", call_id=f"c{place}")
            return lambda: store.commit(fences[place], Write(run_id=f"r{place}", effects=(entry,)))

        answers = in_threads(*(intent(place) for place in range(4)))
        assert sorted(isinstance(answer, Committed) for answer in answers) == [False, False, False, True]

    async def test_what_is_stored_does_not_change_with_what_was_given_or_read(self, store):
        fence = await started(store)
        args: dict[str, Any] = {"n": 1}
        result = Event(0, ToolResult("r1", "AGENT", ToolResultPayload("c", "t", args)))
        details: dict[str, Any] = {"n": 1}
        write = Write(
            run_id="r1",
            records=(Note(args),),
            events=(result,),
            pending=(pending(args=args),),
            effects=(effect(result=args),),
            status="suspended",
            error=ErrorInfo("E", "m", details=details),
        )
        await store.commit(fence, write)
        await store.post(Inbox(scope=THREAD, id="m1", body=args))
        await store.swap(Versioned("wm", "ann", args), 0)
        args["n"] = details["n"] = 2

        async def read() -> list[Any]:
            run, records, events, calls, entry = await contents(store)
            posted = await store.posts(THREAD)
            kept = await store.versioned("wm", "ann")
            assert records == [codec.encode(Note({"n": 1}))]
            values = [events[0].chunk.payload.result, calls[0].args, entry.result, posted[0].body, kept.value]
            return [run.error.details, *values]

        first = await read()
        assert first == [{"n": 1}] * 6
        for value in first:
            value["n"] = 3
        assert await read() == [{"n": 1}] * 6

    async def test_two_threads_racing_for_one_place(self, store):
        fence = await started(store)

        def write(text: str) -> Callable[[], Awaitable[Any]]:
            both = Write(run_id="r1", records=(Note(text),), events=(delta(0, text),))
            return lambda: store.commit(fence, both)

        answers = in_threads(write("a"), write("b"))
        assert answers.count(Committed(1, 1)) == 1
        assert [answer.id for answer in answers if isinstance(answer, StoreError)] == ["STORE_OUT_OF_ORDER"]
        (record,) = await store.records("r1", resource="ann")
        (event,) = await store.events("r1", resource="ann")
        assert record == codec.encode(Note(event.chunk.payload.text))

    async def test_many_threads_racing_for_one_scope(self, store):
        def claim(place: int) -> Callable[[], Awaitable[Any]]:
            return lambda: store.claim(THREAD, f"o{place}", run=row(f"r{place}"))

        answers = in_threads(*(claim(place) for place in range(8)))
        (fence,) = [answer for answer in answers if isinstance(answer, Fence)]
        assert {answer.owner for answer in answers if isinstance(answer, HeldBy)} == {fence.owner}
        assert len(await store.runs(resource="ann")) == 1

    async def test_runs_of_many_threads_do_not_mix(self, store):
        async def drive(run_id: str) -> Committed:
            scope = Scope("run", run_id)
            fence = await started(store, row(run_id, scope), run_id)
            answer = Committed(0, 0)
            for place in range(20):
                record = Note(f"{run_id}.{place}")
                write = Write(run_id=run_id, records=(record,), first_seq=place, events=(delta(place, run_id),))
                answer = await store.commit(fence, write)
            await store.release(fence)
            return answer

        names = [f"r{n}" for n in range(8)]
        answers = in_threads(*((lambda name=name: drive(name)) for name in names))
        assert answers == [Committed(20, 20)] * 8
        for name in names:
            expected = [codec.encode(Note(f"{name}.{place}")) for place in range(20)]
            assert await store.records(name, resource="ann") == expected
            assert {event.chunk.payload.text for event in await store.events(name, resource="ann")} == {name}


class Keeping:
    """A plain run becomes durable."""

    async def test_the_write_that_keeps_a_run_holds_its_records_and_any_later_events(self, store, clock):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", records=(Note(0),), events=(delta(0), delta(1))))
        write = Write(run_id="r1", records=(Note(0), Note(1)), events=(delta(5), delta(6)), keep=True)
        assert await store.commit(fence, write) == Committed(2, 7)
        found = await store.run("r1", resource="ann")
        assert (found.durable, found.first_event, found.status) == (True, 5, "running")
        assert await store.records("r1", resource="ann") == [codec.encode(Note(n)) for n in range(2)]
        assert await store.events("r1", resource="ann") == [delta(5), delta(6)]
        assert await store.event_count("r1", resource="ann") == 7

    async def test_a_kept_run_goes_on_like_any_durable_one(self, store, clock):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", records=(Note(0),), events=(delta(3),), keep=True))
        write = Write(run_id="r1", records=(Note(1),), first_seq=1, events=(delta(4),))
        assert await store.commit(fence, write) == Committed(2, 5)
        clock.advance(LONG)
        assert taken(await store.claim(THREAD, "o2")).unfinished == "r1"
        await store.commit(taken(await store.claim(THREAD, "o2", run=row(), expect="running")), FINISH)
        assert await store.events("r1", resource="ann") == [delta(3), delta(4)]
        assert (await store.run("r1", resource="ann")).durable

    @pytest.mark.parametrize(("start", "limit", "expected"), [(0, None, [5, 6, 7]), (0, 2, [5, 6]), (6, 1, [6])])
    async def test_events_before_the_first_kept_one_are_passed_over(self, store, start, limit, expected):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", events=tuple(delta(n) for n in (5, 6, 7)), keep=True))
        found = await store.events("r1", resource="ann", start=start, limit=limit)
        assert [event.index for event in found] == expected

    async def test_without_events_the_first_kept_one_is_the_next(self, store):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", events=(delta(0), delta(1))))
        assert await store.commit(fence, Write(run_id="r1", keep=True)) == Committed(0, 2)
        assert (await store.run("r1", resource="ann")).first_event == 2
        await store.commit(fence, Write(run_id="r1", events=(delta(2),)))
        assert await store.events("r1", resource="ann") == [delta(2)]

    @pytest.mark.parametrize("status", ["suspended", "success"])
    async def test_it_may_be_kept_as_it_stops(self, store, status):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", records=(Note(0),), keep=True, status=status))
        found = await store.run("r1", resource="ann")
        assert (found.durable, found.status) == (True, status)
        assert await store.records("r1", resource="ann") == [codec.encode(Note(0))]

    @pytest.mark.parametrize(
        ("change", "id"),
        [
            ({"records": (Note(1),), "first_seq": 1}, "STORE_OUT_OF_ORDER"),
            ({"records": ()}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(1),)}, "STORE_OUT_OF_ORDER"),
            ({"events": (delta(5), delta(7))}, "STORE_OUT_OF_ORDER"),
            ({"records": (Note(object()),)}, "STORE_NOT_JSON"),
        ],
    )
    async def test_a_write_that_would_leave_a_gap_keeps_nothing(self, store, change, id):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", records=(Note(0),), events=(delta(0), delta(1))))
        good = Write(run_id="r1", records=(Note(0),), events=(delta(2),), keep=True)
        await refused(store.commit(fence, replace(good, **change)), id)
        assert not (await store.run("r1", resource="ann")).durable
        assert await store.commit(fence, good) == Committed(1, 3)

    async def test_keeping_a_durable_run_changes_nothing(self, store):
        fence = await started(store)
        write = Write(run_id="r1", records=(Note(0),), events=(delta(0),), keep=True)
        await store.commit(fence, write)
        before = await contents(store)
        await refused(store.commit(fence, write), "STORE_OUT_OF_ORDER")
        await refused(store.commit(fence, replace(write, first_seq=1, events=(delta(4),))), "STORE_OUT_OF_ORDER")
        await store.commit(fence, Write(run_id="r1", keep=True))
        assert await contents(store) == before

    async def test_a_claim_does_not_choose_what_is_kept(self, store):
        await started(store, replace(row(), first_event=7))
        assert (await store.run("r1", resource="ann")).first_event == 0


class Forgetting:
    async def test_events_are_dropped_but_for_the_last_one(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", records=(Note(0),), events=(delta(0), delta(1), delta(2))))
        assert not await store.forget_events("r1", resource="ann")  # it is running
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        assert not await store.forget_events("r1", resource="bob")
        for _ in range(2):
            assert await store.forget_events("r1", resource="ann")
            assert [event.index for event in await store.events("r1", resource="ann")] == [2]
        assert (await store.run("r1", resource="ann")).first_event == 2
        assert await store.event_count("r1", resource="ann") == 3
        assert len(await store.records("r1", resource="ann")) == 1

    async def test_a_run_that_is_not_kept_has_nothing_to_forget(self, store):
        fence = await started(store, row(durable=False))
        await store.commit(fence, Write(run_id="r1", status="success"))
        assert not await store.forget_events("r1", resource="ann")
        assert not await store.forget_events("nobody", resource=None)


class Recovering:
    async def test_durable_runs_that_nobody_holds_are_found_oldest_first(self, store, clock):
        for name, resource in (("r2", "ann"), ("r1", "bob"), ("r3", None)):
            await started(store, row(name, Scope("run", name), resource=resource))
        assert await store.recoverable() == []
        clock.advance(LEASE_SECONDS)
        found = await store.recoverable()
        assert [each.run_id for each in found] == ["r2", "r1", "r3"]
        assert found[1] == await store.run("r1", resource="bob")
        assert [each.run_id for each in await store.recoverable(2)] == ["r2", "r1"]
        assert await store.recoverable(0) == []

    async def test_a_released_scope_is_free_and_a_renewed_one_is_not(self, store, clock):
        held = await started(store, row("r1", Scope("run", "r1")))
        await store.release(await started(store, row("r2", Scope("run", "r2"))))
        assert [each.run_id for each in await store.recoverable()] == ["r2"]
        clock.advance(LONG)
        await store.renew(held)
        assert [each.run_id for each in await store.recoverable()] == ["r2"]

    async def test_a_scope_reserved_for_somebody_is_left_to_them(self, store, clock):
        await store.release(await started(store), handover="o2")
        assert await store.recoverable() == []
        clock.advance(LONG)
        assert [each.run_id for each in await store.recoverable()] == ["r1"]

    async def test_plain_suspended_and_finished_runs_are_not_for_the_sweep(self, store, clock):
        await started(store, row("plain", Scope("run", "plain"), durable=False))
        for status in ("suspended", "success"):
            fence = await started(store, row(status, Scope("run", status)))
            await store.commit(fence, Write(run_id=status, status=status))
        clock.advance(LONG)
        assert await store.recoverable() == []

    async def test_a_suspended_run_is_for_the_sweep_when_its_answer_was_not_taken(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", pending=(pending(),), status="suspended"))
        await store.release(fence)
        assert await store.recoverable() == []
        await store.post(decide())
        assert [(each.run_id, each.status) for each in await store.recoverable()] == [("r1", "suspended")]
        fence = taken(await store.claim(THREAD, "o2", run=row(), expect="suspended"))
        await store.commit(fence, Write(run_id="r1", pending=(pending(closed=True),), status="suspended"))
        await store.release(fence)
        assert await store.recoverable() == []

    async def test_a_suspended_run_is_for_the_sweep_when_its_abort_was_not_heard(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", pending=(pending(),), status="suspended"))
        await store.post(AbortRequest(run_id="r1"))
        assert await store.recoverable() == []
        await store.release(fence)
        assert [each.run_id for each in await store.recoverable()] == ["r1"]

    async def test_a_child_is_its_parent_s_to_recover(self, store, clock):
        child = replace(row("r2", Scope("run", "r1")), parent_id="r1")
        fence = await started(store, row("r1", Scope("run", "r1")))
        await store.commit(fence, Write(run_id="r2", run=child))
        clock.advance(LONG)
        assert [each.run_id for each in await store.recoverable()] == ["r1"]

    async def test_a_run_that_was_taken_up_is_gone_from_the_list(self, store, clock):
        await started(store)
        clock.advance(LONG)
        taken(await store.claim(THREAD, "o2", run=row(), expect="running"))
        assert await store.recoverable() == []


POSTS = [
    pytest.param(Inbox(scope=THREAD, id="m1", body={"text": "a"}), {"body": {"text": "b"}}, THREAD, id="inbox"),
    pytest.param(decide(reason="fine"), {"approved": False}, "r1", id="decide"),
    pytest.param(decide(resume_data={"a": (1, 2)}), {"resume_data": {"a": [2, 1]}}, "r1", id="resume"),
    pytest.param(AbortRequest(run_id="r1", reason="x"), {"reason": "y"}, "r1", id="abort"),
]


async def asked(store: RunStore, *calls: PendingCall) -> Fence:
    """A run that waits for decisions on `calls`."""
    fence = await started(store)
    await store.commit(fence, Write(run_id="r1", pending=calls or (pending(),), status="suspended"))
    return fence


class Posting:
    @pytest.mark.parametrize(("item", "change", "target"), POSTS)
    async def test_stored_once_then_a_duplicate_then_a_conflict(self, store, item, change, target):
        await asked(store)
        assert await store.post(item) == Posted("stored", 0)
        assert await store.post(item) == Posted("duplicate", 0)
        assert (await store.post(replace(item, **change))).outcome == "conflict"
        kept = await store.posts(target)
        assert [codec.encode(each) for each in kept] == [codec.encode(item)]

    @pytest.mark.parametrize(("item", "change", "target"), POSTS)
    async def test_of_many_threads_one_is_stored(self, store, item, change, target):
        await asked(store)
        answers = in_threads(*[lambda: store.post(item)] * 6)
        assert sorted(answer.outcome for answer in answers) == ["duplicate"] * 5 + ["stored"]
        assert len(await store.posts(target)) == 1

    @pytest.mark.parametrize(("item", "change", "target"), POSTS[1:])
    async def test_the_same_decision_after_the_end_is_still_a_duplicate(self, store, item, change, target):
        fence = await asked(store)
        await store.post(item)
        await store.commit(fence, Write(run_id="r1", pending=(pending(closed=True),), status="success"))
        assert (await store.post(item)).outcome == "duplicate"
        assert (await store.post(replace(item, **change))).outcome == "conflict"

    @pytest.mark.parametrize(
        "item",
        [
            decide("c2"),
            decide(args_hash="h2"),
            decide(attempt=1),
            decide(run_id="nobody"),
            AbortRequest(run_id="nobody"),
        ],
        ids=["another call", "other arguments", "another attempt", "another run", "abort of another run"],
    )
    async def test_what_was_not_asked_cannot_be_answered(self, store, item):
        await asked(store)
        assert await store.post(item) == Posted("conflict")
        assert await store.posts(item.run_id) == []

    async def test_a_closed_call_cannot_be_decided(self, store):
        fence = await asked(store)
        await store.commit(fence, Write(run_id="r1", pending=(pending(closed=True),)))
        assert await store.post(decide()) == Posted("conflict")

    @pytest.mark.parametrize("durable", [True, False])
    @pytest.mark.parametrize("status", sorted(TERMINAL_STATUS))
    async def test_of_a_run_that_is_over_nothing_can_be_decided(self, store, status, durable):
        fence = await started(store, row(durable=durable))
        await store.commit(fence, Write(run_id="r1", pending=(pending(),), status=status))
        assert await store.post(decide()) == Posted("conflict")
        assert await store.post(AbortRequest(run_id="r1")) == Posted("conflict")

    async def test_a_call_is_approved_then_resumed_and_resumed_again(self, store):
        fence = await asked(store)
        approval = decide()
        assert await store.post(approval) == Posted("stored", 0)
        for attempt in (1, 2):
            waiting = pending(kind="suspension", attempt=attempt)
            await store.commit(fence, Write(run_id="r1", pending=(waiting,)))
            assert (await store.post(approval)).outcome == "duplicate"
            resume = decide(attempt=attempt, resume_data={"ok": True})
            assert await store.post(resume) == Posted("stored", attempt)
            assert await store.post(resume) == Posted("duplicate", attempt)

    async def test_posts_are_read_in_the_order_they_were_stored(self, store):
        calls = [pending(f"c{n}") for n in range(5)]
        await asked(store, *calls)
        items = [decide(f"c{n}") for n in (3, 0, 4)] + [AbortRequest(run_id="r1"), decide("c1")]
        assert [await store.post(item) for item in items] == [Posted("stored", place) for place in range(5)]
        assert await store.posts("r1") == items
        inbox = [Inbox(scope=THREAD, id=letter, body=n) for n, letter in enumerate("cab")]
        assert [(await store.post(item)).seq for item in inbox] == [0, 1, 2]
        assert await store.posts(THREAD) == inbox

    async def test_who_polls_goes_on_from_where_it_stopped(self, store):
        await asked(store, pending("c0"), pending("c1"))
        items = [decide("c0"), decide("c1"), AbortRequest(run_id="r1")]
        for item in items:
            await store.post(item)
        for start in (-1, 0, 1, 2, 3, 9):
            assert await store.posts("r1", start=start) == items[max(start, 0) :]
        assert await store.posts(THREAD, start=1) == []

    async def test_queues_are_apart(self, store):
        await started(store)
        await store.post(Inbox(scope=THREAD, id="abort", body=1))
        await store.post(AbortRequest(run_id="r1"))
        assert (await store.post(Inbox(scope=OTHER_THREAD, id="abort", body=2))).outcome == "stored"
        assert (await store.post(Inbox(scope=replace(THREAD, resource="bob"), id="abort", body=3))).seq == 0
        assert [item.body for item in await store.posts(THREAD)] == [1]
        assert await store.posts("t1") == []

    async def test_ids_that_look_like_keys_do_not_collide(self, store):
        calls = [pending(call_id) for call_id in ("abort", "1 c", "c", "decide:c")]
        await asked(store, *calls)
        items = [*(decide(call.call_id) for call in calls), AbortRequest(run_id="r1")]
        assert [(await store.post(item)).outcome for item in items] == ["stored"] * 5

    async def test_anyone_may_post_whoever_holds_the_scope(self, store):
        await started(store)
        assert (await store.post(Inbox(scope=THREAD, id="m1", body=None))).outcome == "stored"
        assert (await store.post(Inbox(scope=Scope("thread", "new", "zoe"), id="m1", body=None))).outcome == "stored"

    async def test_what_json_cannot_hold_is_refused(self, store):
        await refused(store.post(Inbox(scope=THREAD, id="m1", body=object())), "STORE_NOT_JSON")
        assert await store.posts(THREAD) == []


class Swapping:
    async def test_only_the_version_that_was_read_is_replaced(self, store):
        assert await store.versioned("wm", "ann") is None
        assert not await store.swap(Versioned("wm", "ann", "x"), 1)
        assert await store.swap(Versioned("wm", "ann", "a", version=9), 0)
        assert not await store.swap(Versioned("wm", "ann", "b"), 0)
        assert not await store.swap(Versioned("wm", "ann", "b"), 2)
        assert await store.versioned("wm", "ann") == Versioned("wm", "ann", "a", 1)
        assert await store.swap(Versioned("wm", "ann", "b"), 1)
        assert await store.versioned("wm", "ann") == Versioned("wm", "ann", "b", 2)

    async def test_rows_are_apart_by_kind_and_key(self, store):
        for kind, key in (("wm", "ann"), ("wm", "bob"), ("lane", "ann")):
            assert await store.swap(Versioned(kind, key, f"{kind}-{key}"), 0)
        assert (await store.versioned("lane", "ann")).value == "lane-ann"

    async def test_no_increment_of_twenty_threads_is_lost(self, store):
        async def count() -> int:
            done = 0
            while done < 10:
                known = await store.versioned("n", "k") or Versioned("n", "k", 0)
                done += await store.swap(replace(known, value=known.value + 1), known.version)
            return done

        assert in_threads(*[count] * 20) == [10] * 20
        assert await store.versioned("n", "k") == Versioned("n", "k", 200, 200)

    async def test_what_json_cannot_hold_is_refused(self, store):
        await refused(store.swap(Versioned("n", "k", object()), 0), "STORE_NOT_JSON")
        assert await store.versioned("n", "k") is None


READS: dict[str, Callable[[RunStore, str | None], Awaitable[Any]]] = {
    "run": lambda store, resource: store.run("r1", resource=resource),
    "runs": lambda store, resource: store.runs(resource=resource),
    "runs by status": lambda store, resource: store.runs(resource=resource, status="suspended"),
    "records": lambda store, resource: store.records("r1", resource=resource),
    "events": lambda store, resource: store.events("r1", resource=resource),
    "event_count": lambda store, resource: store.event_count("r1", resource=resource),
    "pending": lambda store, resource: store.pending("r1", resource=resource),
}


class Reading:
    @pytest.mark.parametrize("read", READS.values(), ids=READS)
    @pytest.mark.parametrize("owner", ["ann", "", None])
    async def test_a_read_finds_its_own_resource_and_nothing_of_another_s(self, store, read, owner):
        fence = await started(store, row(resource=owner))
        await store.commit(fence, FULL)
        assert await read(store, owner)
        for other in {"ann", "bob", "", "ANN", "ann ", "%", "a%", "_nn", None} - {owner}:
            assert not await read(store, other), other

    async def test_runs_come_newest_first_up_to_the_limit(self, store, clock):
        for name in ("r1", "r2", "r3"):
            fence = await started(store, row(name, Scope("run", name)))
            if name == "r2":
                await store.commit(fence, Write(run_id=name, status="suspended"))
        await started(store, row("r4", Scope("run", "r4"), resource="bob"))

        async def names(**how: Any) -> list[str]:
            return [found.run_id for found in await store.runs(resource="ann", **how)]

        assert await names() == ["r3", "r2", "r1"]
        assert await names(limit=2) == ["r3", "r2"]
        assert await names(limit=0) == []
        assert await names(status="running") == ["r3", "r1"]
        assert await names(status="running", limit=1) == ["r3"]
        assert await names(status="failed") == []

    @pytest.mark.parametrize(
        ("start", "limit", "expected"),
        [
            (0, None, [0, 1, 2, 3]),
            (2, None, [2, 3]),
            (4, None, []),
            (9, None, []),
            (1, 2, [1, 2]),
            (3, 5, [3]),
            (0, 0, []),
            (-1, None, [0, 1, 2, 3]),
            (-1, 1, [0]),
        ],
    )
    async def test_events_are_read_from_a_place_on(self, store, start, limit, expected):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", events=tuple(delta(n, str(n)) for n in range(4))))
        found = await store.events("r1", resource="ann", start=start, limit=limit)
        assert found == [delta(n, str(n)) for n in expected]

    async def test_what_is_not_there_is_nothing(self, store):
        assert await contents(store) == (None, [], [], [], None)
        assert await store.runs(resource="ann") == []
        assert await store.posts("r1") == await store.posts(THREAD) == []
        assert await store.versioned("a", "b") is None


CALLS: dict[str, Callable[[RunStore], Awaitable[Any]]] = {
    "claim": lambda store: store.claim(THREAD, "o1"),
    "renew": lambda store: store.renew(Fence(THREAD, 1, "o1")),
    "release": lambda store: store.release(Fence(THREAD, 1, "o1")),
    "commit": lambda store: store.commit(Fence(THREAD, 1, "o1"), Write(run_id="r1")),
    "post": lambda store: store.post(AbortRequest(run_id="r1")),
    "swap": lambda store: store.swap(Versioned("a", "b", 1), 0),
    **{name: (lambda store, read=read: read(store, "ann")) for name, read in READS.items()},
    "effect": lambda store: store.effect("k1"),
    "forget_events": lambda store: store.forget_events("r1", resource="ann"),
    "posts": lambda store: store.posts("r1"),
    "recoverable": lambda store: store.recoverable(),
    "versioned": lambda store: store.versioned("a", "b"),
}


def port_calls() -> set[str]:
    """The names of all calls of the port."""
    return {
        name
        for kind in RunStore.__mro__
        if kind.__module__.startswith("tenuto.")
        for name, value in vars(kind).items()
        if callable(value) and not name.startswith("_")
    }


class Living:
    def test_every_call_of_the_port_is_in_the_table(self):
        from tests.store.conformance_threads import THREAD_CALLS

        assert {name.partition(" ")[0] for name in (*CALLS, *THREAD_CALLS)} == port_calls() - {"aclose"}

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    async def test_after_closing_every_call_raises(self, store, call):
        await store.aclose()
        await refused(call(store), "STORE_CLOSED")

    async def test_closing_twice_is_closing_once(self, store):
        await store.aclose()
        await store.aclose()

    async def test_one_store_serves_several_event_loops_one_after_the_other(self, store):
        fence = await started(store)
        for place in range(3):
            write = Write(run_id="r1", records=(Note(place),), first_seq=place)
            assert in_threads(lambda write=write: store.commit(fence, write)) == [Committed(place + 1, 0)]
        assert len(await store.records("r1", resource="ann")) == 3

    @pytest.mark.parametrize("turns", range(6))
    async def test_a_cancelled_commit_is_stored_whole_or_not_at_all(self, store, turns):
        fence = await started(store)
        before = await contents(store)
        task = asyncio.ensure_future(store.commit(fence, FULL))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        after = await contents(store)
        if after == before:
            assert await store.commit(fence, FULL) == Committed(2, 2)
        else:
            await refused(store.commit(fence, FULL), "STORE_OUT_OF_ORDER")
        assert [len(part) for part in (await contents(store))[1:4]] == [2, 2, 1]

    @pytest.mark.parametrize("turns", range(6))
    async def test_a_cancelled_claim_leaves_the_scope_to_be_claimed(self, store, clock, turns):
        task = asyncio.ensure_future(store.claim(THREAD, "o1", run=row(durable=False)))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        clock.advance(LONG)
        fence = taken(await store.claim(THREAD, "o2", run=row("r2")))
        assert await store.commit(fence, Write(run_id="r2", records=(Note(1),))) == Committed(1, 0)


class RunStoreConformance(
    Claiming, Settling, Holding, Committing, Keeping, Forgetting, Recovering, Posting, Swapping, Reading, Living
):
    """All of it."""
