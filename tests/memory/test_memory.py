"""`Memory` as an object: threads, messages, working memory, and whose they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import Memory
from tenuto.core.ids import CountingIds
from tenuto.errors import ConfigurationError, TenutoError
from tenuto.store import InMemoryStore, SQLiteStore


@pytest.fixture(params=["memory", "sqlite"])
async def memory(request: Any, tmp_path: Any) -> Any:
    store: Any = InMemoryStore() if request.param == "memory" else SQLiteStore(str(tmp_path / "t.db"))
    yield Memory(store=store, ids=CountingIds(), working_memory={"enabled": True})
    await store.aclose()


async def texts(memory: Memory, **which: Any) -> list[str]:
    page = await memory.recall(**{"thread_id": "t", "resource_id": "ann", "per_page": False, **which})
    return [message.text for message in page.messages]


async def fill(memory: Memory, count: int, thread: str = "t") -> None:
    said = [
        {"id": f"{thread}{n}", "role": "user" if n % 2 else "assistant", "content": str(n)} for n in range(1, count + 1)
    ]
    await memory.save_messages(said, thread_id=thread, resource_id="ann")


async def test_a_thread_is_made_changed_listed_and_deleted(memory: Memory) -> None:
    made = await memory.create_thread(resource_id="ann", title="One", metadata={"a": 1, "b": 1})
    await memory.update_thread(thread_id=made.id, resource_id="ann", metadata={"b": 2})
    thread = await memory.get_thread_by_id(thread_id=made.id, resource_id="ann")
    assert thread is not None
    assert (thread.title, dict(thread.metadata)) == ("One", {"a": 1, "b": 2})
    assert thread.to_dict()["resourceId"] == "ann"
    other = await memory.create_thread(resource_id="ann", thread_id="t2")
    page = await memory.list_threads(resource_id="ann", direction="asc")
    assert [each.id for each in page] == [made.id, other.id]
    assert page.total == 2
    found = await memory.list_threads(resource_id="ann", metadata={"b": 2})
    assert [each.id for each in found.threads] == [made.id]
    assert await memory.delete_thread(thread_id=made.id, resource_id="ann")
    assert not await memory.delete_thread(thread_id=made.id, resource_id="ann")
    assert await memory.get_thread_by_id(thread_id=made.id, resource_id="ann") is None


async def test_pages_of_messages_are_in_the_order_of_the_thread(memory: Memory) -> None:
    await fill(memory, 7)
    assert await texts(memory) == list("1234567")
    assert await texts(memory, per_page=3) == list("567")
    assert await texts(memory, per_page=3, page=1) == list("234")
    assert await texts(memory, per_page=3, page=2) == ["1"]
    assert await texts(memory, per_page=3, page=3) == []
    assert await texts(memory, per_page=3, direction="asc", page=1) == list("456")
    assert await texts(memory, last=2) == list("67")
    page = await memory.recall(thread_id="t", resource_id="ann", per_page=3, page=1)
    assert (page.has_more, page.total) == (True, None)
    page = await memory.recall(thread_id="t", resource_id="ann", per_page=3, page=2)
    assert (page.has_more, page.total) == (False, 7)


async def test_a_recall_reads_as_many_as_a_run_would() -> None:
    memory = Memory(store=InMemoryStore(), last_messages=2)
    await fill(memory, 3)
    assert len(await memory.recall(thread_id="t", resource_id="ann")) == 2


async def test_a_message_of_a_known_id_replaces_that_one_in_its_place(memory: Memory) -> None:
    await fill(memory, 3)
    again = {"id": "t2", "role": "assistant", "content": "two"}
    [stored] = await memory.save_messages(again, thread_id="t", resource_id="ann")
    assert (stored.thread_id, stored.resource_id) == ("t", "ann")
    assert await texts(memory) == ["1", "two", "3"]


async def test_system_messages_are_not_kept(memory: Memory) -> None:
    said: Any = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    await memory.save_messages(said, thread_id="t", resource_id="ann")
    assert await texts(memory) == ["u"]


async def test_messages_are_deleted_and_pruned(memory: Memory) -> None:
    await fill(memory, 6)
    assert await memory.delete_messages(["t2", "nobody"], thread_id="t", resource_id="ann") == 1
    assert await texts(memory) == list("13456")
    assert await memory.prune(thread_id="t", resource_id="ann", keep=2) == 3
    assert await texts(memory) == list("56")
    assert await memory.prune(thread_id="t", resource_id="ann", keep=0) == 2


async def test_a_clone_has_messages_of_its_own(memory: Memory) -> None:
    await memory.create_thread(resource_id="ann", thread_id="t", title="One", metadata={"a": 1})
    await fill(memory, 4)
    copy = await memory.clone_thread(
        thread_id="t", resource_id="ann", new_thread_id="c", metadata={"b": 2}, last_messages=3
    )
    assert (copy.title, dict(copy.metadata)) == ("One", {"a": 1, "b": 2})
    await memory.delete_messages("t2", thread_id="t", resource_id="ann")
    assert await texts(memory, thread_id="c") == list("234")


async def test_working_memory_of_a_resource_and_of_a_thread(memory: Memory) -> None:
    assert await memory.get_working_memory(resource_id="ann") is None
    await memory.update_working_memory("Ann likes tea.", resource_id="ann", thread_id="t1")
    assert await memory.get_working_memory(resource_id="ann", thread_id="t2") == "Ann likes tea."
    assert await memory.get_working_memory(resource_id="bob") is None
    data: Any = {"working_memory": {"scope": "thread", "schema": {"type": "object", "properties": {"a": {}}}}}
    await memory.update_working_memory({"a": 1, "b": {"c": 1}}, resource_id="ann", thread_id="t", options=data)
    after = await memory.update_working_memory({"b": {"c": None}}, resource_id="ann", thread_id="t", options=data)
    assert after == {"a": 1, "b": {}}
    assert await memory.get_working_memory(resource_id="ann", thread_id="t", options=data) == {"a": 1, "b": {}}
    with pytest.raises(ConfigurationError, match="thread_id="):
        await memory.get_working_memory(resource_id="ann", options=data)
    with pytest.raises(ConfigurationError, match="it is data"):
        await memory.update_working_memory("text", resource_id="ann", thread_id="t", options=data)


async def test_a_memory_without_working_memory_says_so() -> None:
    memory = Memory(store=InMemoryStore())
    assert memory.list_tools() == {}
    with pytest.raises(ConfigurationError, match="working_memory="):
        await memory.get_working_memory(resource_id="ann")


async def test_the_tools_of_a_memory(memory: Memory) -> None:
    assert list(memory.list_tools()) == ["updateWorkingMemory"]
    assert memory.list_tools({"read_only": True}) == {}
    assert memory.list_tools({"working_memory": {"read_only": True}}) == {}


def test_a_twin_waits_for_its_method() -> None:
    memory = Memory(store=InMemoryStore())
    assert memory.create_thread_sync(thread_id="t", resource_id="ann").id == "t"
    assert [each.id for each in memory.list_threads_sync(resource_id="ann")] == ["t"]


def test_every_method_has_its_twin() -> None:
    public = [name for name, value in vars(Memory).items() if inspect.iscoroutinefunction(value) and name[0] != "_"]
    own = {name for name in public if not name.endswith("_sync")}
    assert own == {name.removesuffix("_sync") for name in dir(Memory) if name.endswith("_sync")}


OF_THREAD: Any = {"working_memory": {"scope": "thread"}}


async def _saved_as_bobs(memory: Memory) -> Any:
    thread = await memory.get_thread_by_id(thread_id="t", resource_id="ann")
    assert thread is not None
    return await memory.save_thread(replace(thread, resource_id="bob", title="mine"))


OWNED: dict[str, Callable[[Memory], Any]] = {
    "create_thread": lambda m: m.create_thread(thread_id="t", resource_id="bob", title="mine"),
    "save_thread": _saved_as_bobs,
    "get_thread_by_id": lambda m: m.get_thread_by_id(thread_id="t", resource_id="bob"),
    "update_thread": lambda m: m.update_thread(thread_id="t", resource_id="bob", title="mine"),
    "delete_thread": lambda m: m.delete_thread(thread_id="t", resource_id="bob"),
    "clone_thread": lambda m: m.clone_thread(thread_id="t", resource_id="bob"),
    "recall": lambda m: m.recall(thread_id="t", resource_id="bob"),
    "save_messages": lambda m: m.save_messages("x", thread_id="t", resource_id="bob"),
    "delete_messages": lambda m: m.delete_messages("t1", thread_id="t", resource_id="bob"),
    "prune": lambda m: m.prune(thread_id="t", resource_id="bob", keep=0),
    "index_messages": lambda m: m.index_messages(thread_id="t", resource_id="bob"),
    "get_working_memory": lambda m: m.get_working_memory(thread_id="t", resource_id="bob", options=OF_THREAD),
    "update_working_memory": lambda m: m.update_working_memory(
        "mine", thread_id="t", resource_id="bob", options=OF_THREAD
    ),
}
"""Each method that touches a thread, asked by somebody else."""

UNOWNED = {"list_threads", "settled"}
"""They name no thread: what they see is the asker's own."""


@pytest.mark.parametrize("method", OWNED)
async def test_d13_what_is_anothers_is_refused_by_every_method(memory: Memory, method: str) -> None:
    await memory.create_thread(thread_id="t", resource_id="ann", title="Ann's")
    await fill(memory, 2)
    await memory.update_working_memory("Ann's", thread_id="t", resource_id="ann", options=OF_THREAD)
    with pytest.raises(TenutoError) as refused:
        await OWNED[method](memory)
    assert refused.value.id == "AGENT_MEMORY_THREAD_RESOURCE_MISMATCH"
    assert "Ann" not in str(refused.value)
    thread = await memory.get_thread_by_id(thread_id="t", resource_id="ann")
    assert thread is not None
    assert (thread.title, thread.metadata["workingMemory"]) == ("Ann's", "Ann's")
    assert await texts(memory) == list("12")
    assert len(await memory.list_threads(resource_id="bob")) == 0


def test_every_method_is_asked() -> None:
    public = {name for name, value in vars(Memory).items() if inspect.iscoroutinefunction(value) and name[0] != "_"}
    assert {name for name in public if not name.endswith("_sync")} == OWNED.keys() | UNOWNED


def test_a_working_memory_that_is_not_on_says_so(caplog):
    Memory(working_memory={"template": "x"})
    assert "'enabled': True" in caplog.text
    caplog.clear()
    for given in (True, False, {"enabled": False, "template": "x"}, {"enabled": True, "template": "x"}):
        Memory(working_memory=given)
    assert caplog.text == ""
