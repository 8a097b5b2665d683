"""Semantic recall over a store: what is indexed and when, what is found, and whose."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import Memory
from tenuto.errors import ConfigurationError, ModelError, TenutoError
from tenuto.memory.config import SemanticRecall
from tenuto.memory.query import Query
from tenuto.store import InMemoryStore, SQLiteStore
from tenuto.store.ports import VectorRow
from tenuto.testing import ScriptedEmbedder

ONLY = SemanticRecall(top_k=1, before=0, after=0)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: Any, tmp_path: Any) -> Any:
    made: Any = InMemoryStore() if request.param == "memory" else SQLiteStore(str(tmp_path / "t.db"))
    yield made
    await made.aclose()


def memory_on(store: Any, embedder: Any = None, **options: Any) -> Memory:
    return Memory(store=store, embedder=embedder or ScriptedEmbedder(), semantic_recall=True, **options)


async def tell(memory: Memory, *texts: str, thread: str = "t", resource: str = "ann") -> None:
    known = await memory.store.thread(thread, resource=resource)
    begin = 0 if known is None else known.messages
    said = [
        {"id": f"{thread}{n}", "role": "assistant" if n % 2 else "user", "content": text}
        for n, text in enumerate(texts, begin)
    ]
    await memory.save_messages(said, thread_id=thread, resource_id=resource)
    await memory.settled()


async def found(
    memory: Memory, text: str, config: SemanticRecall = ONLY, *, thread: str = "t", resource: str = "ann", **more: Any
) -> tuple[str, ...]:
    assert memory.recaller is not None
    ids = await memory.recaller.find(memory.store, Query(text, thread, resource, config, **more))
    await memory.settled()
    return ids


async def vectors(memory: Memory, resource: str = "ann") -> list[VectorRow]:
    assert memory.recaller is not None
    space = f"{memory.recaller.embedder.id}#{memory.recaller.embedder.dimensions}"
    return await memory.store.vectors(resource=resource, space=space)


# -- finding -----------------------------------------------------------------------------------------------------------


async def test_the_likest_messages_with_those_around_them_in_the_order_of_their_thread(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "my dog is rex", "nice", "what is the weather", "sunny", "tax is due in may", "noted")
    assert await found(memory, "how is my dog") == ("t0",)
    around = SemanticRecall(top_k=1, before=1, after=1)
    assert await found(memory, "the weather", around) == ("t1", "t2", "t3")
    both = SemanticRecall(top_k=2, before=0, after=1)
    assert await found(memory, "tax due, my dog rex", both) == ("t0", "t1", "t4", "t5")


async def test_what_the_run_reads_anyway_is_not_found_and_takes_no_place(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "red apples", "yes", "red apples and pears", "yes")
    assert await found(memory, "red apples", known=frozenset({"t0"})) == ("t2",)
    around = SemanticRecall(top_k=1, before=2, after=1)
    assert await found(memory, "pears", around, known=frozenset({"t1", "t3"})) == ("t0", "t2")


async def test_a_scope_a_threshold_and_a_filter(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "green tea", thread="t")
    await tell(memory, "green tea please", thread="u")
    assert await found(memory, "green tea please") == ("u0",)
    assert await found(memory, "green tea please", SemanticRecall(1, 0, 0, "thread")) == ("t0",)
    assert await found(memory, "green tea", SemanticRecall(4, 0, 0, threshold=0.99)) == ("t0",)
    assert await found(memory, "green tea", SemanticRecall(4, 0, 0, filter={"thread_id": "u"})) == ("u0",)
    assert await found(memory, "green tea", SemanticRecall(4, 0, 0, filter={"role": "assistant"})) == ()


async def test_a_long_message_is_found_by_any_of_its_parts_and_once(store: Any) -> None:
    memory = memory_on(store, ScriptedEmbedder(max_characters=60))
    await tell(memory, " ".join(f"word{n}" for n in range(60)) + " violet umbrella.", "ok")
    assert len(await vectors(memory)) > 5
    assert await found(memory, "violet umbrella") == ("t0",)
    assert await found(memory, "violet umbrella", SemanticRecall(4, 0, 0)) == ("t0", "t1")


@pytest.mark.parametrize("text", ["", "   ", "\n"])
async def test_without_a_text_nobody_is_asked(store: Any, text: str) -> None:
    embedder = ScriptedEmbedder()
    memory = memory_on(store, embedder)
    assert await found(memory, text) == ()
    assert embedder.batches == []


async def test_more_vectors_than_a_page_are_all_looked_at(store: Any, monkeypatch: Any) -> None:
    from tenuto.memory import search

    monkeypatch.setattr(search, "PAGE", 3)
    memory = memory_on(store)
    await tell(memory, *(f"item{n}" for n in range(10)))
    for n in (0, 2, 3, 9):
        assert await found(memory, f"item{n}") == (f"t{n}",)


# -- whose -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["resource", "thread"])
@pytest.mark.parametrize(("thread", "resource"), [("t", "bob"), ("b", "bob"), ("t", "ann"), ("b", "ann"), ("x", "eve")])
async def test_only_what_belongs_to_the_resource_is_ever_found(
    store: Any, scope: Any, thread: str, resource: str
) -> None:
    memory = memory_on(store)
    await tell(memory, "the secret of ann is lilac", "I keep it", thread="t", resource="ann")
    await tell(memory, "the secret of bob is olive", "I keep it", thread="b", resource="bob")
    everything = SemanticRecall(50, 5, 5, scope)
    ids = await found(memory, "the secret is lilac olive", everything, thread=thread, resource=resource)
    whose = {"ann": "t", "bob": "b"}.get(resource, "-")
    assert all(each.startswith(whose) for each in ids)
    assert bool(ids) == (whose == thread or (scope == "resource" and whose != "-"))


# -- indexing ----------------------------------------------------------------------------------------------------------


async def test_storing_messages_does_not_wait_for_their_vectors(store: Any) -> None:
    gate = asyncio.Event()
    memory = memory_on(store, ScriptedEmbedder(on_embed=lambda texts: gate.wait()))
    await memory.save_messages("hello", thread_id="t", resource_id="ann")
    assert await vectors(memory) == []
    gate.set()
    await memory.settled()
    assert len(await vectors(memory)) == 1


async def test_only_what_is_new_is_embedded_in_full_batches(store: Any) -> None:
    embedder = ScriptedEmbedder(max_batch=4)
    memory = memory_on(store, embedder)
    await tell(memory, *(f"message {n}" for n in range(9)))
    assert [len(batch) for batch in embedder.batches] == [4, 4, 1]
    await tell(memory, "one more")
    assert embedder.batches[3:] == [("one more",)]


async def test_a_failure_is_made_good_by_the_next_message(store: Any) -> None:
    failures = [ModelError("down")]

    def fail(texts: Sequence[str]) -> None:
        if failures:
            raise failures.pop()

    memory = memory_on(store, ScriptedEmbedder(on_embed=fail))
    await tell(memory, "first")
    assert await vectors(memory) == []
    await tell(memory, "second")
    assert [row.message_id for row in await vectors(memory)] == ["t0", "t1"]


async def test_what_a_process_that_is_gone_left_is_made_after_the_first_search(store: Any) -> None:
    plain = Memory(store=store)
    await tell(plain, "the key is under the mat", "ok")
    memory = memory_on(store)
    assert await found(memory, "where is the key") == ()
    assert await found(memory, "where is the key") == ("t0",)


async def test_a_crash_between_vectors_and_position_makes_them_again_and_once(store: Any, monkeypatch: Any) -> None:
    memory = memory_on(store)
    swap, calls = store.swap, []

    async def cut(row: Any, expect: int) -> bool:
        if getattr(row, "kind", "") == "message-index":
            calls.append(row)
            raise ModelError("the process ends here")
        return await swap(row, expect)

    monkeypatch.setattr(store, "swap", cut)
    await tell(memory, "blue whale")
    monkeypatch.setattr(store, "swap", swap)
    assert calls
    assert len(await vectors(memory)) == 1
    await tell(memory, "yes")
    assert [row.message_id for row in await vectors(memory)] == ["t0", "t1"]


async def test_another_embedder_makes_its_own_vectors_and_never_uses_the_old_ones(store: Any) -> None:
    await tell(memory_on(store), "a violin", "a cello")
    other = memory_on(store, ScriptedEmbedder(id="test/other", dimensions=32))
    assert await found(other, "violin") == ()
    assert await found(other, "violin") == ("t0",)
    longer = memory_on(store, ScriptedEmbedder(dimensions=128))
    assert await longer.index_messages(resource_id="ann") == 2
    assert await found(longer, "violin") == ("t0",)


async def test_an_old_thread_is_indexed_with_progress(store: Any) -> None:
    plain = Memory(store=store)
    await tell(plain, *(f"line {n}" for n in range(150)))
    await tell(plain, "elsewhere", thread="u")
    memory, told = memory_on(store), []
    done = await memory.index_messages(
        resource_id="ann", thread_id="t", on_progress=lambda done, total: told.append((done, total))
    )
    assert done == 150
    assert told == [(64, 150), (127, 150), (150, 150)] or told[-1] == (150, 150)
    assert await memory.index_messages(resource_id="ann", thread_id="t") == 0
    assert await memory.index_messages(resource_id="ann") == 1
    with pytest.raises(TenutoError) as caught:
        await memory.index_messages(resource_id="bob", thread_id="t")
    assert caught.value.id == "AGENT_MEMORY_THREAD_RESOURCE_MISMATCH"


async def test_a_changed_message_has_the_vectors_of_what_it_says_now(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "purple", "yes", "thanks")
    await memory.save_messages([{"id": "t0", "role": "user", "content": "orange"}], thread_id="t", resource_id="ann")
    await memory.settled()
    assert await found(memory, "orange") == ("t0",)
    assert len(await vectors(memory)) == 3


async def test_the_last_message_that_changed_while_nobody_looked_is_seen_by_the_next_round(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "hello", "wait")
    plain = Memory(store=store)
    await plain.save_messages(
        [{"id": "t1", "role": "assistant", "content": "the answer is turquoise"}], thread_id="t", resource_id="ann"
    )
    await memory.index_messages(resource_id="ann")
    assert await found(memory, "turquoise") == ("t1",)


async def test_what_is_deleted_is_not_found(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "alpha", "beta", "gamma")
    await memory.delete_messages("t0", thread_id="t", resource_id="ann")
    assert await found(memory, "alpha") != ("t0",)
    await memory.prune(thread_id="t", resource_id="ann", keep=1)
    assert [row.message_id for row in await vectors(memory)] == ["t2"]
    await memory.delete_thread(thread_id="t", resource_id="ann")
    assert await vectors(memory) == []
    await tell(memory, "delta")
    assert await found(memory, "delta") == ("t0",)


async def test_a_thread_made_anew_under_an_old_id_is_indexed_from_its_beginning(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "one", "two", "three")
    await memory.delete_thread(thread_id="t", resource_id="ann")
    await tell(memory, "four")
    assert [row.message_id for row in await vectors(memory)] == ["t0"]


async def test_a_copy_of_a_thread_is_found_too(store: Any) -> None:
    embedder = ScriptedEmbedder()
    memory = memory_on(store, embedder)
    await tell(memory, "a lighthouse", "ok")
    copy = await memory.clone_thread(thread_id="t", resource_id="ann", new_thread_id="copy")
    ids = await found(memory, "lighthouse", SemanticRecall(4, 0, 0, "thread"), thread=copy.id)
    assert len(ids) == 2
    assert not set(ids) & {"t0", "t1"}


class Elsewhere:
    """A place for vectors that is not the store."""

    def __init__(self) -> None:
        self.rows: list[VectorRow] = []
        self.place = 0

    async def index(self, rows: Sequence[VectorRow]) -> int:
        of = {(row.message_id, row.space) for row in rows}
        self.rows = [row for row in self.rows if (row.message_id, row.space) not in of]
        for row in rows:
            self.place += 1
            self.rows.append(replace(row, place=self.place))
        return len(rows)

    async def unindex(self, *, resource: str, thread: Any = None, ids: Any = None, space: Any = None) -> int:
        before = len(self.rows)
        self.rows = [row for row in self.rows if row.thread != thread or (ids and row.message_id not in ids)]
        return before - len(self.rows)

    async def vectors(
        self, *, resource: Any, space: str, thread: Any = None, after: int = 0, limit: int = 4096
    ) -> list[VectorRow]:
        return [row for row in self.rows if row.place > after and row.resource == resource][:limit]


async def test_vectors_may_be_kept_elsewhere_and_go_with_their_messages(store: Any) -> None:
    place = Elsewhere()
    memory = memory_on(store, vector=place)
    await tell(memory, "amber", "beige", "coral", "denim")
    assert await found(memory, "coral") == ("t2",)
    assert await vectors(memory) == []
    await memory.delete_messages("t2", thread_id="t", resource_id="ann")
    await memory.prune(thread_id="t", resource_id="ann", keep=2)
    assert [row.message_id for row in place.rows] == ["t1", "t3"]
    await memory.delete_thread(thread_id="t", resource_id="ann")
    assert place.rows == []


@pytest.mark.local_model
async def test_a_real_embedder_finds_the_same_meaning_in_other_words(store: Any) -> None:
    memory = memory_on(store, "local/minilm")
    await tell(memory, "My dog is called Rex.", "Taxes are due in May.", "It rains in Bergen.", "I like chess.")
    assert await found(memory, "What is the name of my pet?") == ("t0",)
    assert await found(memory, "How is the weather in Norway?") == ("t2",)


# -- when it fails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ModelError("no such model"), RuntimeError("a bug of the embedder")])
async def test_a_search_that_cannot_be_made_finds_nothing_and_says_why(store: Any, error: Exception) -> None:
    async def fail(texts: Sequence[str]) -> None:
        raise error

    warned: list[str] = []
    memory = memory_on(store, ScriptedEmbedder(on_embed=fail))
    assert await found(memory, "hello", warn=warned.append) == ()
    assert str(error) in warned[0]


async def test_a_search_that_takes_too_long_is_left_out(store: Any) -> None:
    async def hang(texts: Sequence[str]) -> None:
        await asyncio.Event().wait()

    warned: list[str] = []
    memory = memory_on(store, ScriptedEmbedder(on_embed=hang))
    assert memory.recaller is not None
    memory.recaller._timeout = 0.001
    query = Query("hello", "t", "ann", ONLY, warn=warned.append)
    assert await memory.recaller.find(store, query) == ()
    assert "longer than 0.001 s" in warned[0]
    for task in memory.recaller._desk().tasks:
        task.cancel()
    await memory.settled()


async def test_an_embedder_that_gives_too_few_vectors_is_told(store: Any) -> None:
    class Lazy(ScriptedEmbedder):
        async def embed(self, texts: Sequence[str]) -> list[list[float]]:
            return (await super().embed(texts))[1:]

    await tell(memory_on(store), "x")
    with pytest.raises(ModelError, match="gave 0 vectors for 1 texts"):
        await memory_on(store, Lazy()).recall(thread_id="t", resource_id="ann", vector_search_string="x")


# -- recall, and what is missing ---------------------------------------------------------------------------------------


async def test_recall_by_a_text(store: Any) -> None:
    memory = memory_on(store)
    await tell(memory, "my cat is called mia", "a fine name", "bye", "bye")
    page = await memory.recall(thread_id="t", resource_id="ann", vector_search_string="what is my cat called")
    assert [message.text for message in page][:2] == ["my cat is called mia", "a fine name"]
    one = await memory.recall(
        thread_id="t",
        resource_id="ann",
        vector_search_string="my cat is called",
        options={"semantic_recall": {"top_k": 1, "message_range": 0}},
    )
    assert [message.id for message in one] == ["t0"]
    with pytest.raises(TenutoError) as caught:
        await memory.recall(thread_id="t", resource_id="bob", vector_search_string="cat")
    assert caught.value.id == "AGENT_MEMORY_THREAD_RESOURCE_MISMATCH"


@pytest.mark.parametrize(
    ("given", "id"),
    [
        ({"semantic_recall": True}, "SEMANTIC_RECALL_MISSING_EMBEDDER"),
        ({"semantic_recall": {"top_k": 2}, "vector": InMemoryStore()}, "SEMANTIC_RECALL_MISSING_EMBEDDER"),
        ({"embedder": ScriptedEmbedder(), "vector": object()}, "SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER"),
        (
            {"semantic_recall": True, "embedder": ScriptedEmbedder(), "store": object()},
            "SEMANTIC_RECALL_MISSING_STORAGE_ADAPTER",
        ),
        ({"embedder": "nobody/x"}, "MODEL_PROVIDER_UNKNOWN"),
    ],
)
def test_what_is_missing_is_said_when_the_memory_is_made(given: dict[str, Any], id: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Memory(**given)
    assert caught.value.id == id


def test_a_store_without_vectors_needs_a_place_for_them() -> None:
    class Threads:
        thread = threads = messages = find_messages = staticmethod(lambda: None)

    class Vectors:
        index = unindex = vectors = staticmethod(lambda: None)

    given: dict[str, Any] = {"store": Threads(), "embedder": ScriptedEmbedder(), "semantic_recall": True}
    with pytest.raises(ConfigurationError, match="leave out vector=") as caught:
        Memory(**given)
    assert caught.value.id == "SEMANTIC_RECALL_MISSING_VECTOR_ADAPTER"
    assert Memory(**given, vector=Vectors()).recaller is not None  # type: ignore[arg-type]


async def test_a_call_that_asks_for_it_needs_an_embedder_too(store: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Memory(store=store).merged({"semantic_recall": True})
    assert caught.value.id == "SEMANTIC_RECALL_MISSING_EMBEDDER"
    with pytest.raises(ConfigurationError):
        await Memory(store=store).index_messages(resource_id="ann")
