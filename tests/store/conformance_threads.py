"""What every `RunStore` must do with threads, child runs, vectors and scores, told through the port alone.

Invariant: as in `tests.store.conformance`, whose fixtures these tests use.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto.core.errors import StaleLease, StoreError
from tenuto.messages.stored import Content, Message, TextPart
from tenuto.store.ports import (
    ANYONE,
    AbortRequest,
    Committed,
    CopyOf,
    Fence,
    Inbox,
    RunRow,
    Scope,
    ScoreRow,
    ThreadEdit,
    ThreadRow,
    VectorRow,
    Versioned,
    Write,
)
from tests.store.conformance import LONG, THREAD, Note, delta, in_threads, pending, refused, row, started, taken

T1 = ThreadRow(id="t1", resource="ann", title="Trip", metadata={"kind": "work", "n": 1})
CHILD = RunRow(
    run_id="r2", agent_id="b", scope=THREAD, durable=True, resource_id="ann", parent_id="r1", parent_call_id="c1"
)


def said(message_id: str, text: str = "hello", **changes: Any) -> Message:
    made = Message(message_id, "user", datetime(2026, 1, 1, tzinfo=UTC), Content((TextPart(text),)))
    return replace(made, **changes)


def many(count: int, start: int = 0) -> tuple[Message, ...]:
    return tuple(said(f"m{n}", str(n)) for n in range(start, start + count))


async def filled(store, count: int = 5, thread: ThreadRow = T1) -> Fence:
    """A thread with messages `m0`, `m1`, ..., and the fence of its scope."""
    fence = taken(await store.claim(thread.scope, "editor"))
    await store.edit(fence, ThreadEdit(thread=thread, messages=many(count)))
    return fence


async def texts(store, thread: str = "t1", resource: Any = "ann", **how: Any) -> list[tuple[int, str]]:
    return [(each.seq, each.message.text) for each in await store.messages(thread, resource=resource, **how)]


def numbers(*seqs: int) -> list[tuple[int, str]]:
    return [(seq, str(seq)) for seq in seqs]


class WritingMessages:
    async def test_a_run_makes_its_thread_and_writes_to_it_in_one_transaction(self, store, clock):
        fence = await started(store)
        write = Write(run_id="r1", records=(Note(1),), thread=T1, messages=many(2))
        assert await store.commit(fence, write) == Committed(1, 0)
        now = clock.now()
        made = replace(T1, version=1, messages=2, created_at=now, updated_at=now)
        assert await store.thread("t1", resource="ann") == made
        assert await texts(store) == numbers(0, 1)

    async def test_a_message_is_given_back_as_it_was_with_its_thread_and_owner(self, store):
        fence = await started(store)
        asked = said("m0", thread_id="elsewhere", resource_id="bob", type="text")
        await store.commit(fence, Write(run_id="r1", thread=T1, messages=(asked,)))
        (found,) = await store.messages("t1", resource="ann")
        assert found.message == replace(asked, thread_id="t1", resource_id="ann")

    async def test_a_message_that_is_replaced_keeps_its_place_and_a_new_one_comes_last(self, store, clock):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", thread=T1, messages=many(3)))
        clock.advance(5)
        await store.commit(fence, Write(run_id="r1", messages=(said("m9", "new"), said("m1", "changed"))))
        assert await texts(store) == [(0, "0"), (1, "changed"), (2, "2"), (3, "new")]
        found = await store.thread("t1", resource="ann")
        assert (found.messages, found.updated_at, found.version) == (4, clock.now(), 1)

    async def test_one_id_twice_in_a_write_is_one_message(self, store):
        fence = await started(store)
        write = Write(run_id="r1", thread=T1, messages=(said("m0", "a"), said("m1", "b"), said("m0", "c")))
        await store.commit(fence, write)
        assert await texts(store) == [(0, "c"), (1, "b")]

    async def test_one_id_in_two_threads_is_two_messages(self, store):
        await filled(store, 1)
        await filled(store, 1, ThreadRow(id="t2", resource="ann"))
        found = await store.find_messages(["m0", "m0", "nothing"], resource="ann")
        assert [each.message.thread_id for each in found] == ["t1", "t2"]

    async def test_a_thread_that_exists_is_touched_and_nothing_of_it_changed(self, store, clock):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", thread=T1))
        before = await store.thread("t1", resource="ann")
        clock.advance(5)
        await store.commit(fence, Write(run_id="r1", thread=replace(T1, title="Other", metadata={})))
        assert await store.thread("t1", resource="ann") == replace(before, updated_at=clock.now())

    @pytest.mark.parametrize(
        ("change", "id"),
        [
            ({"thread": None}, "THREAD_NOT_FOUND"),
            ({"thread": replace(T1, id="t2")}, "WRITE_MIXES_RUNS"),
            ({"thread": replace(T1, resource="bob")}, "THREAD_RESOURCE_MISMATCH"),
            ({"thread": replace(T1, root=Scope("run", "r9"))}, "THREAD_NOT_IN_SCOPE"),
            ({"messages": (said("m0", content=Content((), metadata={"x": object()})),)}, "STORE_NOT_JSON"),
            ({"thread": replace(T1, metadata={"x": object()})}, "STORE_NOT_JSON"),
            ({"first_seq": 3}, "STORE_OUT_OF_ORDER"),
        ],
    )
    async def test_a_write_that_is_refused_stores_nothing(self, store, change, id):
        fence = await started(store)
        write = Write(run_id="r1", records=(Note(1),), thread=T1, messages=many(1))
        await refused(store.commit(fence, replace(write, **change)), id)
        assert await store.thread("t1", resource=ANYONE) is None
        assert await store.records("r1", resource="ann") == []

    async def test_a_thread_of_another_resource_is_refused_to_runs_too(self, store):
        run = replace(row("r1", Scope("run", "r1"), resource="bob"), thread_id="t1")
        fence = await started(store, run)
        await filled(store)
        write = Write(run_id="r1", thread=T1, messages=many(1))
        await refused(store.commit(fence, write), "THREAD_RESOURCE_MISMATCH")

    async def test_a_stale_fence_writes_no_message(self, store, clock):
        fence = await started(store, row(durable=False))
        clock.advance(LONG)
        taken(await store.claim(THREAD, "o2"))
        with pytest.raises(StaleLease):
            await store.commit(fence, Write(run_id="r1", thread=T1, messages=many(1)))
        with pytest.raises(StaleLease):
            await store.edit(fence, ThreadEdit(thread=T1, messages=many(1)))
        assert await store.thread("t1", resource="ann") is None

    async def test_a_sub_thread_is_written_in_the_scope_of_its_root(self, store):
        fence = await started(store, replace(row(), thread_id="t1"))
        sub = ThreadRow(id="t1-x", resource="ann-helper", root=THREAD)
        child = replace(CHILD, resource_id="ann-helper", thread_id="t1-x")
        await store.commit(fence, Write(run_id="r2", run=child, thread=sub, messages=many(2)))
        assert await texts(store, "t1-x", "ann-helper") == numbers(0, 1)
        await store.commit(fence, Write(run_id="r1", thread=T1, messages=many(1)))
        assert await texts(store) == numbers(0)
        own = taken(await store.claim(Scope("thread", "t1-x", "ann-helper"), "o2"))
        await refused(store.edit(own, ThreadEdit(thread=sub, messages=many(1))), "THREAD_NOT_IN_SCOPE")

    async def test_messages_of_a_plain_run_are_kept(self, store):
        fence = await started(store, row(durable=False))
        write = Write(run_id="r1", thread=T1, messages=many(1), status="success", records=(Note(1),))
        await store.commit(fence, write)
        assert await texts(store) == numbers(0)

    async def test_what_is_stored_does_not_change_with_what_was_given_or_read(self, store):
        metadata: dict[str, Any] = {"list": [1]}
        thread = ThreadRow(id="t1", resource="ann", metadata=metadata)
        message = said("m0", content=Content((), metadata=metadata))
        fence = taken(await store.claim(THREAD, "o1"))
        await store.edit(fence, ThreadEdit(thread=thread, messages=(message,)))
        for _ in range(2):
            found = await store.thread("t1", resource="ann")
            (kept,) = await store.messages("t1", resource="ann")
            assert found.metadata == kept.message.content.metadata == {"list": [1]}
            for each in (metadata, found.metadata, kept.message.content.metadata):
                each["list"].append(2)


class EditingThreads:
    async def test_messages_are_dropped_and_no_seq_is_given_twice(self, store):
        fence = await filled(store, 3)
        edited = await store.edit(fence, ThreadEdit(thread=T1, drop=("m2", "m0", "nothing")))
        assert edited.messages == 3
        await store.edit(fence, ThreadEdit(thread=T1, messages=(said("m2", "again"),)))
        assert await texts(store) == [(1, "1"), (3, "again")]

    async def test_dropping_from_no_thread_makes_none(self, store):
        fence = taken(await store.claim(THREAD, "o1"))
        assert await store.edit(fence, ThreadEdit(thread=T1, drop=("m0",))) is None
        assert await store.thread("t1", resource="ann") is None

    async def test_a_deleted_thread_takes_its_messages_vectors_and_sub_threads_along(self, store):
        fence = await filled(store)
        sub = ThreadRow(id="sub", resource="ann-helper", root=THREAD)
        other = ThreadRow(id="other", resource="ann-helper", root=Scope("thread", "t2", "ann"))
        await store.edit(fence, ThreadEdit(thread=sub, messages=many(2)))
        await filled(store, 1, other)
        await store.index([vector("m0"), vector("m0", thread="sub", resource="ann-helper")])
        assert await store.edit(fence, ThreadEdit(thread=T1, delete=True)) is None
        for thread_id, resource in (("t1", "ann"), ("sub", "ann-helper")):
            assert await store.thread(thread_id, resource=resource) is None
            assert await store.messages(thread_id, resource=ANYONE) == []
            assert await store.vectors(resource=resource, space="s") == []
        assert await texts(store, "other", "ann-helper") == numbers(0)
        assert len(await store.find_messages(["m0", "m1"], resource=ANYONE)) == 1

    async def test_a_deleted_thread_can_be_made_again_and_by_anybody(self, store):
        fence = await filled(store)
        await store.edit(fence, ThreadEdit(thread=T1, delete=True))
        await store.edit(fence, ThreadEdit(thread=T1, delete=True))
        theirs = ThreadRow(id="t1", resource="bob")
        await filled(store, 1, theirs)
        assert await texts(store, "t1", "bob") == numbers(0)

    async def test_a_sub_thread_goes_alone(self, store):
        fence = await filled(store)
        sub = ThreadRow(id="sub", resource="ann-helper", root=THREAD)
        await store.edit(fence, ThreadEdit(thread=sub, messages=many(2)))
        await store.edit(fence, ThreadEdit(thread=sub, delete=True))
        assert await store.thread("sub", resource=ANYONE) is None
        assert len(await texts(store)) == 5

    @pytest.mark.parametrize(
        ("start", "end", "expected"), [(0, None, "01234"), (1, 3, "12"), (3, 9, "34"), (4, 2, ""), (0, 0, "")]
    )
    async def test_a_copy_has_the_same_messages_under_new_ids(self, store, start, end, expected):
        await filled(store)
        await store.index([vector("m1"), vector("m1", part=1)])
        copy = ThreadRow(id="copy", resource="bob", title="Copy")
        fence = taken(await store.claim(copy.scope, "o1"))
        source = CopyOf(thread="t1", resource="ann", start=start, end=end)
        made = await store.edit(fence, ThreadEdit(thread=copy, copy=source, messages=(said("x", "last"),)))
        assert (made.title, made.resource, made.messages) == ("Copy", "bob", len(expected) + 1)
        found = await store.messages("copy", resource="bob")
        assert [each.message.text for each in found] == [*expected, "last"]
        assert {each.message.id for each in found}.isdisjoint({f"m{n}" for n in range(5)})
        assert {(each.message.thread_id, each.message.resource_id) for each in found} == {("copy", "bob")}
        copied = await store.vectors(resource="bob", space="s")
        ids = [each.message.id for each in found if each.message.text == "1"]
        assert {(each.message_id, each.thread, each.part) for each in copied} == {
            (each, "copy", part) for each in ids for part in (0, 1)
        }
        assert len(await texts(store)) == 5

    async def test_a_copy_is_made_once_and_of_what_the_owner_named_has(self, store):
        fence = await filled(store)
        copy = ThreadRow(id="copy", resource="ann")
        other = taken(await store.claim(copy.scope, "o1"))
        mine = CopyOf(thread="t1", resource="ann")
        for wrong in (replace(mine, resource="bob"), replace(mine, thread="t9")):
            await refused(store.edit(other, ThreadEdit(thread=copy, copy=wrong)), "THREAD_NOT_FOUND")
        await refused(store.edit(fence, ThreadEdit(thread=T1, copy=mine)), "THREAD_EXISTS")
        assert await store.thread("copy", resource="ann") is None

    async def test_title_and_metadata_are_replaced_by_version(self, store, clock):
        assert await store.swap(T1, 0)
        assert not await store.swap(T1, 0)
        clock.advance(5)
        assert await store.swap(replace(T1, title="New", metadata={}), 1)
        assert not await store.swap(replace(T1, title="Late"), 1)
        found = await store.thread("t1", resource="ann")
        assert (found.title, found.metadata, found.version, found.messages) == ("New", {}, 2, 0)
        assert found.updated_at == clock.now() == found.created_at + 5

    async def test_a_swap_leaves_the_messages_alone(self, store):
        await filled(store)
        assert await store.swap(replace(T1, title="New", root=Scope("run", "r"), messages=0), 1)
        found = await store.thread("t1", resource="ann")
        assert (found.title, found.messages, found.root) == ("New", 5, None)

    async def test_what_is_no_thread_cannot_be_replaced(self, store):
        assert not await store.swap(T1, 1)
        assert await store.thread("t1", resource="ann") is None


class ReadingMessages:
    @pytest.mark.parametrize(
        ("how", "expected"),
        [
            ({}, [0, 1, 3, 4, 5]),
            ({"last": 2}, [4, 5]),
            ({"last": 0}, []),
            ({"last": 99}, [0, 1, 3, 4, 5]),
            ({"first": 2}, [0, 1]),
            ({"first": -1}, []),
            ({"after": 1}, [3, 4, 5]),
            ({"before": 4}, [0, 1, 3]),
            ({"after": 0, "before": 5}, [1, 3, 4]),
            ({"before": 5, "last": 2}, [3, 4]),
            ({"after": 0, "first": 2}, [1, 3]),
            ({"after": 2, "last": 1}, [5]),
            ({"after": 9}, []),
            ({"before": 0}, []),
            ({"ids": ["m3"]}, [3]),
            ({"ids": ["m5", "m0", "m5", "m2", "nothing"]}, [0, 5]),
            ({"ids": []}, []),
            ({"ids": ["m3"], "around": (1, 1)}, [1, 3, 4]),
            ({"ids": ["m0", "m5"], "around": (2, 1)}, [0, 1, 3, 4, 5]),
            ({"ids": ["m3", "m4"], "around": (0, 1)}, [3, 4, 5]),
            ({"ids": ["m1"], "around": (9, 9)}, [0, 1, 3, 4, 5]),
        ],
    )
    async def test_a_window_of_a_thread(self, store, how, expected):
        fence = await filled(store, 6)
        await store.edit(fence, ThreadEdit(thread=T1, drop=("m2",)))
        assert await texts(store, **how) == numbers(*expected)

    async def test_the_same_window_of_no_thread_is_empty(self, store):
        assert await store.messages("t1", resource="ann") == []
        assert await store.messages("t1", resource="ann", ids=["m0"]) == []

    async def test_threads_come_by_a_time_in_pages(self, store, clock):
        for name in ("a", "b", "c"):
            await store.swap(ThreadRow(id=name, resource="ann", metadata={"kind": name, "team": 1}), 0)
            clock.advance(1)
        await store.swap(ThreadRow(id="d", resource="bob"), 0)
        await store.swap(ThreadRow(id="a", resource="ann", metadata={"kind": "a", "team": 2}), 1)

        async def names(**how: Any) -> tuple[str, int]:
            page = await store.threads(resource="ann", **how)
            return "".join(each.id for each in page.threads), page.total

        assert await names() == ("cba", 3)
        assert await names(descending=False) == ("abc", 3)
        assert await names(order_by="updated_at") == ("acb", 3)
        assert await names(offset=1, limit=1) == ("b", 3)
        assert await names(limit=0) == ("", 3)
        assert await names(metadata={"team": 1}) == ("cb", 2)
        assert await names(metadata={"team": 1, "kind": "b"}, limit=1) == ("b", 1)
        assert await names(metadata={"none": None}) == ("", 0)
        assert (await store.threads(resource=ANYONE)).total == 4

    async def test_threads_of_one_time_come_in_the_order_they_were_made(self, store):
        for name in ("a", "b", "c"):
            await store.swap(ThreadRow(id=name, resource="ann"), 0)
        for descending, expected in ((False, "abc"), (True, "cba")):
            page = await store.threads(resource="ann", descending=descending)
            assert "".join(each.id for each in page.threads) == expected

    async def test_sub_threads_are_listed_by_their_root_only(self, store):
        fence = await filled(store)
        await store.edit(fence, ThreadEdit(thread=ThreadRow(id="sub", resource="ann", root=THREAD)))
        assert [each.id for each in (await store.threads(resource="ann")).threads] == ["t1"]
        assert [each.id for each in (await store.threads(resource="ann", root=THREAD)).threads] == ["sub"]
        assert (await store.threads(resource="ann", root=Scope("run", "t1", "ann"))).total == 0

    async def test_many_threads_of_execution_write_to_one_thread_in_one_order(self, store):
        fence = await filled(store, 0)
        edits = [ThreadEdit(thread=T1, messages=(said(f"m{n}", str(n)),)) for n in range(12)]
        in_threads(*[lambda edit=edit: store.edit(fence, edit) for edit in edits])
        found = await texts(store)
        assert [seq for seq, _ in found] == list(range(12))
        assert sorted(text for _, text in found) == sorted(str(n) for n in range(12))


def vector(message_id: str, **changes: Any) -> VectorRow:
    made = VectorRow(resource="ann", thread="t1", message_id=message_id, part=0, space="s", vector=b"\0\0\x80?")
    return replace(made, **changes)


class Indexing:
    async def test_vectors_are_scanned_in_batches_in_the_order_they_were_stored(self, store):
        await filled(store)
        assert await store.index([vector("m1"), vector("m0"), vector("m0", part=1)]) == 3
        first = await store.vectors(resource="ann", space="s", limit=2)
        rest = await store.vectors(resource="ann", space="s", after=first[-1].place)
        assert [replace(each, place=0) for each in first + rest] == [
            vector("m1"),
            vector("m0"),
            vector("m0", part=1),
        ]
        assert await store.vectors(resource="ann", space="s", limit=0) == []

    async def test_indexing_a_message_again_replaces_its_vectors_of_that_space(self, store):
        await filled(store)
        await store.index([vector("m0"), vector("m0", part=1), vector("m0", space="other"), vector("m1")])
        await store.index([vector("m0", vector=b"new!")])
        found = await store.vectors(resource="ann", space="s")
        assert [(each.message_id, each.vector) for each in found] == [("m1", vector("m1").vector), ("m0", b"new!")]
        assert len(await store.vectors(resource="ann", space="other")) == 1

    async def test_what_is_not_stored_has_no_vector(self, store):
        await filled(store, 1)
        rows = [vector("m9"), vector("m0", thread="t2"), vector("m0", resource="bob"), vector("m0")]
        assert await store.index(rows) == 1
        assert await store.index([]) == 0
        assert len(await store.vectors(resource=ANYONE, space="s")) == 1

    async def test_a_scan_is_of_a_resource_or_one_thread(self, store):
        for name, resource in (("t1", "ann"), ("t2", "ann"), ("t3", "bob")):
            await filled(store, 1, ThreadRow(id=name, resource=resource))
            await store.index([vector("m0", thread=name, resource=resource)])
        found = await store.vectors(resource="ann", space="s")
        assert [each.thread for each in found] == ["t1", "t2"]
        assert [each.thread for each in await store.vectors(resource="ann", space="s", thread="t2")] == ["t2"]
        assert await store.vectors(resource="ann", space="s", thread="t3") == []

    async def test_a_message_that_is_dropped_takes_its_vectors_along(self, store):
        fence = await filled(store)
        await store.index([vector("m0"), vector("m1")])
        await store.edit(fence, ThreadEdit(thread=T1, drop=("m0",)))
        assert [each.message_id for each in await store.vectors(resource="ann", space="s")] == ["m1"]

    @pytest.mark.parametrize(
        ("how", "dropped", "left"),
        [
            ({}, 4, 0),
            ({"thread": "t1"}, 3, 1),
            ({"ids": ["m0"]}, 3, 1),
            ({"thread": "t1", "ids": ["m0"]}, 2, 2),
            ({"thread": "t1", "ids": ["m0"], "space": "other"}, 1, 3),
            ({"space": "s"}, 3, 1),
            ({"thread": "t9"}, 0, 4),
            ({"ids": []}, 0, 4),
        ],
    )
    async def test_vectors_are_dropped_as_far_as_they_are_named(self, store, how, dropped, left):
        await filled(store)
        await filled(store, 1, ThreadRow(id="t2", resource="ann"))
        await store.index([vector("m0"), vector("m0", space="other"), vector("m1"), vector("m0", thread="t2")])
        assert await store.unindex(resource="ann", **how) == dropped
        found = [each for space in ("s", "other") for each in await store.vectors(resource="ann", space=space)]
        assert len(found) == left


def score(score_id: str = "s1", **changes: Any) -> ScoreRow:
    made = ScoreRow(id=score_id, scorer_id="tone", run_id="r1", score=0.5, entity_id="a", resource_id="ann")
    return replace(made, **changes)


class Scoring:
    async def test_a_score_is_posted_once(self, store, clock):
        full = score(reason="fair", input=[1], output={"a": None}, metadata={"x": 1}, details={"y": [2]})
        assert (await store.post(full)).outcome == "stored"
        clock.advance(1)
        assert (await store.post(full)).outcome == "duplicate"
        assert (await store.post(replace(full, score=0.6))).outcome == "conflict"
        assert await store.scores(resource="ann") == [replace(full, created_at=clock.now() - 1)]

    async def test_scores_come_newest_first_by_what_is_asked(self, store):
        await store.post(score("s1"))
        await store.post(score("s2", run_id="r2", scorer_id="bias"))
        await store.post(score("s3", entity_id="b"))
        await store.post(score("s4", resource_id=None))

        async def names(**how: Any) -> list[str]:
            return [each.id for each in await store.scores(**{"resource": "ann", **how})]

        assert await names() == ["s3", "s2", "s1"]
        assert await names(run_id="r1") == ["s3", "s1"]
        assert await names(scorer_id="bias") == ["s2"]
        assert await names(entity_id="a", run_id="r1") == ["s1"]
        assert await names(offset=1, limit=1) == ["s2"]
        assert await names(limit=0) == []
        assert await names(resource=None) == ["s4"]
        assert await names(resource=ANYONE) == ["s4", "s3", "s2", "s1"]

    async def test_what_json_cannot_hold_is_refused(self, store):
        await refused(store.post(score(output=object())), "STORE_NOT_JSON")
        assert await store.scores(resource="ann") == []


class Children:
    async def test_a_child_is_added_by_its_first_write_under_the_fence_of_its_root(self, store, clock):
        fence = await started(store)
        write = Write(run_id="r2", run=CHILD, records=(Note(1),), events=(delta(0),))
        assert await store.commit(fence, write) == Committed(1, 1)
        now = clock.now()
        made = replace(CHILD, root_id="r1", created_at=now, updated_at=now)
        assert await store.run("r2", resource="ann") == made
        assert await store.children("r1", resource="ann") == [made]
        write = Write(run_id="r2", records=(Note(2),), first_seq=1, status="success")
        assert await store.commit(fence, write) == Committed(2, 1)
        assert (await store.run("r1", resource="ann")).status == "running"

    async def test_a_child_belongs_to_its_parent_s_resource_unless_it_names_one(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=replace(CHILD, resource_id=None)))
        other = replace(CHILD, run_id="r3", resource_id="ann-helper")
        await store.commit(fence, Write(run_id="r3", run=other))
        assert (await store.run("r2", resource=ANYONE)).resource_id == "ann"
        assert (await store.run("r3", resource=ANYONE)).resource_id == "ann-helper"
        assert await store.runs(resource=None) == []

    async def test_a_grandchild_has_the_same_root(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=CHILD))
        await store.commit(fence, Write(run_id="r3", run=replace(CHILD, run_id="r3", parent_id="r2", root_id="x")))
        assert (await store.run("r3", resource="ann")).root_id == "r1"
        assert [each.run_id for each in await store.children("r1", resource="ann")] == ["r2"]

    @pytest.mark.parametrize(
        ("change", "id"),
        [
            ({"run": replace(CHILD, run_id="r3")}, "WRITE_MIXES_RUNS"),
            ({"run": replace(CHILD, scope=Scope("run", "r2"))}, "RUN_NOT_IN_SCOPE"),
            ({"run": replace(CHILD, parent_id="nobody")}, "RUN_NOT_OPEN"),
            ({"run": replace(CHILD, parent_id=None)}, "RUN_NOT_OPEN"),
            ({"run": replace(CHILD, parent_id="over")}, "RUN_NOT_OPEN"),
            ({"run": replace(CHILD, parent_id="far")}, "RUN_NOT_IN_SCOPE"),
            ({"run_id": "r1", "run": replace(CHILD, run_id="r1")}, "RUN_EXISTS"),
            ({"first_seq": 1}, "STORE_OUT_OF_ORDER"),
            ({"run": None}, "RUN_NOT_OPEN"),
        ],
    )
    async def test_a_child_that_is_refused_leaves_nothing(self, store, change, id):
        await started(store, row("far", Scope("run", "far")))
        fence = await started(store, row("over"))
        await store.commit(fence, Write(run_id="over", status="success"))
        fence = taken(await store.claim(THREAD, "o1", run=row()))
        write = replace(Write(run_id="r2", run=CHILD, records=(Note(1),)), **change)
        await refused(store.commit(fence, write), id)
        assert await store.run("r2", resource="ann") is None
        assert await store.children("r1", resource="ann") == []

    async def test_a_claim_neither_adds_nor_wakes_a_child(self, store):
        fence = await started(store)
        await refused(store.claim(THREAD, "o1", run=CHILD), "RUN_NOT_IN_SCOPE")
        await store.commit(fence, Write(run_id="r2", run=CHILD, status="suspended"))
        await refused(store.claim(THREAD, "o1", run=CHILD, expect="suspended"), "RUN_NOT_IN_SCOPE")
        hidden = replace(CHILD, parent_id=None)
        await refused(store.claim(THREAD, "o1", run=hidden, expect="suspended"), "RUN_NOT_IN_SCOPE")

    async def test_a_write_wakes_a_suspended_child_while_its_parent_runs(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=CHILD, status="suspended", reason="approval"))
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        await refused(store.commit(fence, Write(run_id="r2", status="running")), "RUN_STATUS_CHANGED")
        fence = taken(await store.claim(THREAD, "o1", run=row(), expect="suspended"))
        await store.commit(fence, Write(run_id="r2", status="running"))
        found = await store.run("r2", resource="ann")
        assert (found.status, found.reason) == ("running", None)

    @pytest.mark.parametrize("status", ["running", "suspended"])
    async def test_a_plain_tree_left_behind_is_interrupted_whole(self, store, clock, status):
        fence = await started(store, row(durable=False))
        child = replace(CHILD, durable=False)
        await store.commit(fence, Write(run_id="r2", run=child, pending=(pending(run_id="r2"),), status=status))
        await store.commit(fence, Write(run_id="r3", run=replace(child, run_id="r3", parent_id="r2")))
        clock.advance(LONG)
        assert taken(await store.claim(THREAD, "o2")).unfinished is None
        for name in ("r1", "r2", "r3"):
            assert (await store.run(name, resource="ann")).status == "interrupted"
        assert await store.pending("r2", resource="ann") == []

    async def test_of_a_durable_tree_left_behind_the_root_is_named(self, store, clock):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=CHILD, records=(Note(1),)))
        clock.advance(LONG)
        assert [each.run_id for each in await store.recoverable()] == ["r1"]
        assert taken(await store.claim(THREAD, "o2", run=row("r9"))).unfinished == "r1"
        again = taken(await store.claim(THREAD, "o2", run=row(), expect="running"))
        assert again.unfinished is None
        write = Write(run_id="r2", records=(Note(2),), first_seq=1)
        assert await store.commit(again, write) == Committed(2, 0)
        with pytest.raises(StaleLease):
            await store.commit(fence, write)

    async def test_a_suspended_tree_is_found_by_its_root_only(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r2", run=CHILD, pending=(pending(run_id="r2"),), status="suspended"))
        await store.commit(fence, Write(run_id="r1", status="suspended"))
        await store.post(AbortRequest(run_id="r2"))
        await store.release(fence)
        assert await store.recoverable() == []
        await store.post(AbortRequest(run_id="r1"))
        assert [each.run_id for each in await store.recoverable()] == ["r1"]

    @pytest.mark.parametrize("durable", [True, False])
    async def test_the_end_of_a_run_ends_what_is_open_of_its_children(self, store, durable):
        fence = await started(store, row(durable=durable))
        child = replace(CHILD, durable=durable)
        await store.commit(fence, Write(run_id="r2", run=child))
        await store.commit(fence, Write(run_id="r3", run=replace(child, run_id="r3", parent_id="r2")))
        await store.commit(fence, Write(run_id="r4", run=replace(child, run_id="r4"), status="success"))
        await store.commit(fence, Write(run_id="r1", status="success"))
        found = {name: (await store.run(name, resource="ann")).status for name in ("r1", "r2", "r3", "r4")}
        assert found == {"r1": "success", "r2": "interrupted", "r3": "interrupted", "r4": "success"}
        assert taken(await store.claim(THREAD, "o1")).unfinished is None

    async def test_a_child_is_kept_when_it_stops_like_any_run(self, store):
        fence = await started(store, row(durable=False))
        child = replace(CHILD, durable=False)
        await store.commit(fence, Write(run_id="r2", run=child, records=(Note(1),)))
        write = Write(run_id="r2", records=(Note(1), Note(2)), keep=True, status="suspended")
        assert await store.commit(fence, write) == Committed(2, 0)
        assert len(await store.records("r2", resource="ann")) == 2

    async def test_events_of_a_tree_are_forgotten_together(self, store):
        fence = await started(store)
        events = tuple(delta(n) for n in range(3))
        await store.commit(fence, Write(run_id="r2", run=CHILD, events=events, status="success"))
        await store.commit(fence, Write(run_id="r1", events=events, status="success"))
        assert not await store.forget_events("r2", resource="ann")
        assert len(await store.events("r2", resource="ann")) == 3
        assert await store.forget_events("r1", resource="ann")
        for name in ("r1", "r2"):
            assert [each.index for each in await store.events(name, resource="ann")] == [2]
            assert (await store.run(name, resource="ann")).first_event == 2


async def parked(task: "asyncio.Task[bool]") -> bool:
    """Whether the task still waits after everybody else had a turn."""
    for _ in range(20):
        await asyncio.sleep(0)
    return not task.done()


class Freeing:
    @pytest.mark.parametrize("status", ["running", "suspended"])
    async def test_a_thread_that_a_run_may_make_is_the_owners_of_the_run(self, store, status):
        """Two who begin on one new id at once, or after the thread was deleted under a run that waits."""
        fence = await started(store)
        if status == "suspended":
            await store.commit(fence, Write(run_id="r1", status="suspended"))
            await store.release(fence)
        others = Scope("thread", THREAD.id, "somebody else")
        for attempt in (
            store.claim(others, "o2", run=row("r2", scope=others)),
            store.claim(others, "o2"),
            store.swap(ThreadRow(id=THREAD.id, resource="somebody else"), 0),
        ):
            await refused(attempt, "THREAD_RESOURCE_MISMATCH")
        if status == "suspended":
            mine = await store.run("r1", resource=ANYONE)
            fence = taken(await store.claim(THREAD, "o1", run=mine, expect="suspended"))
        await store.commit(fence, Write(run_id="r1", status="failed"))
        await store.release(fence)
        taken(await store.claim(others, "o2", run=row("r2", scope=others)))

    async def test_a_free_scope_is_free_at_once(self, store, clock):
        assert await store.freed(THREAD, 0)
        fence = await started(store)
        assert not await store.freed(THREAD, 0)
        clock.advance(LONG)
        assert await store.freed(THREAD, 0)
        await store.renew(fence)
        assert not await store.freed(THREAD, 0)
        await store.release(fence)
        assert await store.freed(THREAD, 0)

    async def test_who_waits_is_told_of_a_release(self, store):
        fence = await started(store)
        other = taken(await store.claim(Scope("run", "other"), "o1"))
        waiting = [asyncio.ensure_future(store.freed(THREAD, 60)) for _ in range(3)]
        assert await parked(waiting[0])
        await store.release(other)
        assert await parked(waiting[0])
        await store.release(fence)
        assert await asyncio.gather(*waiting) == [True] * 3

    async def test_a_reserved_scope_is_free_to_its_owner_only(self, store, clock):
        await store.release(await started(store), handover="o2")
        assert not await store.freed(THREAD, 0)
        assert not await store.freed(THREAD, 0, owner="o3")
        assert await store.freed(THREAD, 0, owner="o2")
        clock.advance(LONG)
        assert await store.freed(THREAD, 0)

    async def test_a_holder_does_not_free_its_own_scope(self, store):
        await started(store, owner="o1")
        assert not await store.freed(THREAD, 0, owner="o1")

    async def test_a_wait_that_is_cancelled_leaves_nothing(self, store):
        fence = await started(store)
        task = asyncio.ensure_future(store.freed(THREAD))
        assert await parked(task)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert not store._waiters.waiting()
        await store.release(fence)

    async def test_event_loops_wake_each_other(self, store):
        fence = await started(store)

        async def release() -> None:
            for _ in iter(lambda: list(store._waiters.waiting()), [THREAD]):
                await asyncio.sleep(0)
            await store.release(fence)

        assert in_threads(lambda: store.freed(THREAD, 60), release) == [True, None]

    async def test_a_closed_store_lets_everybody_go(self, store):
        await started(store)
        task = asyncio.ensure_future(store.freed(THREAD))
        assert await parked(task)
        await store.aclose()
        await asyncio.wait([task])
        await refused(store.freed(THREAD), "STORE_CLOSED")

    async def test_turns_of_many_waiters_are_all_taken(self, store):
        turns: list[int] = []

        async def turn(place: int) -> None:
            while isinstance(fence := await store.claim(THREAD, f"o{place}"), Fence) is False:
                await store.freed(THREAD, 60)
            turns.append(place)
            await store.release(fence)

        await asyncio.gather(*[turn(place) for place in range(8)])
        assert sorted(turns) == list(range(8))


async def refuses(call: Any) -> bool:
    """Whether a call is refused as another resource's."""
    try:
        answer = await call
    except StoreError as error:
        return error.id in {"THREAD_RESOURCE_MISMATCH", "THREAD_NOT_FOUND", "RUN_STATUS_CHANGED", "RUN_NOT_IN_SCOPE"}
    return not getattr(answer, "total", answer)


THEIRS = Scope("thread", "t1", "bob")
SUB = ThreadRow(id="b2", resource="ann", root=THREAD)

FOREIGN: dict[str, Any] = {
    "claim": lambda store, fence: store.claim(THEIRS, "o2"),
    "claim to wake": lambda store, fence: store.claim(
        THEIRS, "o2", run=row("r1", THEIRS, resource="bob"), expect="suspended"
    ),
    "commit": lambda store, fence: store.commit(
        fence, Write(run_id="b1", thread=ThreadRow(id="t1", resource="bob"), messages=many(1))
    ),
    "commit a child": lambda store, fence: store.commit(
        fence, Write(run_id="b2", run=replace(CHILD, run_id="b2", scope=fence.scope, resource_id="bob"))
    ),
    "edit": lambda store, fence: store.edit(
        fence, ThreadEdit(thread=ThreadRow(id="t1", resource="bob"), messages=many(1))
    ),
    "edit to delete": lambda store, fence: store.edit(
        fence, ThreadEdit(thread=ThreadRow(id="t1", resource="bob"), delete=True)
    ),
    "edit to copy": lambda store, fence: store.edit(
        fence,
        ThreadEdit(thread=replace(SUB, resource="bob", root=fence.scope), copy=CopyOf(thread="t1", resource="bob")),
    ),
    "post": lambda store, fence: store.post(Inbox(scope=THEIRS, id="i1", body="hello")),
    "swap": lambda store, fence: store.swap(ThreadRow(id="t1", resource="bob", title="Mine"), 1),
    "index": lambda store, fence: store.index([vector("m0", resource="bob", vector=b"evil")]),
    "unindex": lambda store, fence: store.unindex(resource="bob", thread="t1", ids=["m0"]),
    "run": lambda store, fence: store.run("r1", resource="bob"),
    "runs": lambda store, fence: store.runs(resource="eve"),
    "children": lambda store, fence: store.children("r1", resource="bob"),
    "records": lambda store, fence: store.records("r1", resource="bob"),
    "events": lambda store, fence: store.events("r1", resource="bob"),
    "event_count": lambda store, fence: store.event_count("r1", resource="bob"),
    "pending": lambda store, fence: store.pending("r1", resource="bob"),
    "forget_events": lambda store, fence: store.forget_events("r1", resource="bob"),
    "thread": lambda store, fence: store.thread("t1", resource="bob"),
    "threads": lambda store, fence: store.threads(resource="bob"),
    "threads under a root": lambda store, fence: store.threads(resource="bob", root=THREAD),
    "messages": lambda store, fence: store.messages("t1", resource="bob"),
    "messages by id": lambda store, fence: store.messages("t1", resource="bob", ids=["m0"], around=(5, 5)),
    "find_messages": lambda store, fence: store.find_messages(["m0"], resource="bob"),
    "vectors": lambda store, fence: store.vectors(resource="bob", space="s"),
    "vectors of a thread": lambda store, fence: store.vectors(resource="bob", space="s", thread="t1"),
    "scores": lambda store, fence: store.scores(resource="bob", run_id="r1"),
}

OWNERLESS = {
    "renew": "by the fence, which a claim gave",
    "release": "by the fence",
    "freed": "tells only when a scope may be claimed, and the claim is refused",
    "recoverable": "the sweep's",
    "effect": "the runtime's own key",
    "posts": "the runtime's own key",
    "versioned": "the runtime's own key",
    "aclose": "the app's",
}


class Owning:
    """A call that names a thing of ann's as bob's."""

    @pytest.mark.parametrize("call", FOREIGN.values(), ids=FOREIGN)
    async def test_what_is_another_s_is_refused_or_not_found(self, store, call):
        mine = await filled(store)
        await store.release(mine)
        fence = await started(store)
        sub = ThreadRow(id="sub", resource="ann", root=THREAD)
        await store.edit(fence, ThreadEdit(thread=sub, messages=many(1)))
        await store.commit(fence, Write(run_id="r2", run=CHILD))
        write = Write(run_id="r1", records=(Note(1),), events=(delta(0),), pending=(pending(),), status="suspended")
        await store.commit(fence, write)
        await store.index([vector("m0")])
        await store.post(score())
        await store.release(fence)
        theirs = row("b1", Scope("run", "b1"), resource="bob")
        fence = await started(store, replace(theirs, thread_id="t1"))
        before = await everything(store)
        assert await refuses(call(store, fence))
        assert await everything(store) == before

    def test_every_call_of_the_port_is_in_one_of_the_tables(self):
        from tests.store.conformance import port_calls

        assert {name.partition(" ")[0] for name in FOREIGN} | set(OWNERLESS) == port_calls()
        assert not {name.partition(" ")[0] for name in FOREIGN} & set(OWNERLESS)

    async def test_the_runtime_reads_by_id_alone(self, store):
        fence = await started(store)
        await store.commit(fence, Write(run_id="r1", records=(Note(1),), events=(delta(0),), pending=(pending(),)))
        await store.commit(fence, Write(run_id="r2", run=CHILD))
        assert (await store.run("r1", resource=ANYONE)).resource_id == "ann"
        assert [each.run_id for each in await store.runs(resource=ANYONE)] == ["r2", "r1"]
        assert [each.run_id for each in await store.runs(resource=ANYONE, status="running", limit=1)] == ["r2"]
        assert len(await store.children("r1", resource=ANYONE)) == 1
        assert len(await store.records("r1", resource=ANYONE)) == 1
        assert await store.event_count("r1", resource=ANYONE) == len(await store.events("r1", resource=ANYONE)) == 1
        assert len(await store.pending("r1", resource=ANYONE)) == 1
        await store.commit(fence, Write(run_id="r1", status="success"))
        assert await store.forget_events("r1", resource=ANYONE)


async def everything(store) -> list[Any]:
    """What is stored, as far as anybody could have changed it."""
    found = [await store.threads(resource=ANYONE), await store.threads(resource=ANYONE, root=THREAD)]
    runs = await store.runs(resource=ANYONE)
    found += [await store.messages(thread, resource=ANYONE) for thread in ("t1", "sub", "b2")]
    found += [runs, await store.vectors(resource=ANYONE, space="s"), await store.scores(resource=ANYONE)]
    return [*found, await store.events("r1", resource="ann"), await store.posts(THEIRS)]


THREAD_CALLS: dict[str, Any] = {
    "edit": lambda store: store.edit(Fence(THREAD, 1, "o1"), ThreadEdit(thread=T1)),
    "thread": lambda store: store.thread("t1", resource="ann"),
    "threads": lambda store: store.threads(resource="ann"),
    "messages": lambda store: store.messages("t1", resource="ann"),
    "find_messages": lambda store: store.find_messages(["m0"], resource="ann"),
    "index": lambda store: store.index([vector("m0")]),
    "unindex": lambda store: store.unindex(resource="ann"),
    "vectors": lambda store: store.vectors(resource="ann", space="s"),
    "scores": lambda store: store.scores(resource="ann"),
    "children": lambda store: store.children("r1", resource="ann"),
    "freed": lambda store: store.freed(THREAD, 0),
    "post a score": lambda store: store.post(score()),
    "swap a thread": lambda store: store.swap(T1, 0),
    "swap another row": lambda store: store.swap(Versioned("a", "b", 1), 0),
}


class ThreadsLiving:
    @pytest.mark.parametrize("call", THREAD_CALLS.values(), ids=THREAD_CALLS)
    async def test_after_closing_every_call_about_threads_raises(self, store, call):
        await store.aclose()
        await refused(call(store), "STORE_CLOSED")


class ThreadConformance(
    WritingMessages, EditingThreads, ReadingMessages, Indexing, Scoring, Children, Freeing, Owning, ThreadsLiving
):
    """All of it."""
