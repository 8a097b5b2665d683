"""A run's memory: which thread it is on, whose, and what it may do there.

Invariant: made once, before the run is driven; from then on nothing decides anew whose thread it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.memory import threads
from tenuto.memory.call import MemoryCall, check_named, overridden
from tenuto.memory.config import MemoryConfig
from tenuto.memory.knowledge import Knowledge
from tenuto.store.ports import RunStore, Scope, ThreadRow

if TYPE_CHECKING:
    from tenuto.core.request_context import RequestContext
    from tenuto.memory.memory import Memory
    from tenuto.messages.stored import Message

_log = logging.getLogger("tenuto")


class RunMemory(Struct, frozen=True, kw_only=True, eq=False):
    """What a run remembers with.

    Attributes:
        memory: The agent's; None where a run is only looked at.
        title: That the thread gets when it is made.
        metadata: That are merged into those of the thread.
        root: Of a sub-agent's run: the scope of the run at the top of its tree, in which its thread is written.
    """

    memory: Memory | None
    config: MemoryConfig
    store: RunStore
    thread: str
    resource: str
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    on_title_generated: Callable[[str], Any] | None = None
    root: Scope | None = None

    @property
    def writes(self) -> bool:
        """Whether the run takes the thread."""
        return not self.config.read_only

    @property
    def scope(self) -> Scope:
        """The thread, as what is written to."""
        return self.root or Scope("thread", self.thread, self.resource)

    @property
    def row(self) -> ThreadRow:
        """The thread, as it is made if it is not there."""
        given = dict(self.metadata or {})
        return ThreadRow(id=self.thread, resource=self.resource, title=self.title, metadata=given, root=self.root)

    @property
    def knowledge(self) -> Knowledge | None:
        """Its working memory."""
        working = self.config.working_memory
        return None if working is None else Knowledge(self.store, working, self.resource, self.thread)

    def apart(self) -> RunMemory:
        """The same thread for a run that neither reads nor writes it."""
        return replace(self, config=MemoryConfig(last_messages=0, read_only=True))

    def saved(self, messages: Sequence[Message]) -> None:
        """These messages of the thread are stored now: they become searchable, aside from the run."""
        recaller = None if self.memory is None else self.memory.recaller
        if recaller is not None and self.config.semantic_recall is not None:
            recaller.saved(self.store, self.thread, self.resource, messages)

    async def thread_row(self) -> ThreadRow | None:
        """The thread, with the call's metadata in it; None when it is not there yet.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        given = self.metadata
        if not given or not self.writes:
            return await threads.find(self.store, self.thread, self.resource)

        def merged(row: ThreadRow | None) -> ThreadRow | None:
            return None if row is None else replace(row, metadata={**row.metadata, **given})

        return await threads.change(self.store, self.thread, self.resource, merged)


def bind_memory(
    memory: Memory | None, call: MemoryCall | None, context: RequestContext, store: RunStore, agent_id: str
) -> RunMemory | None:
    """The memory of a call; None when it is on no thread.

    Raises:
        ConfigurationError: `AGENT_MEMORY_MISSING_RESOURCE_ID`; options that cannot work.
    """
    call = call or MemoryCall()
    if memory is None:
        if call.thread is not None or call.resource is not None:
            _log.warning("Agent %r has no memory: what memory= of the call names is not used.", agent_id)
        return None
    call = overridden(call, context)
    check_named(call, agent_id)
    if call.thread is None or call.resource is None:
        return None
    return RunMemory(
        memory=memory,
        config=memory.merged(call.options),
        store=store,
        thread=call.thread,
        resource=call.resource,
        title=call.title,
        metadata=call.metadata,
        on_title_generated=call.on_title_generated,
    )
