"""The thread of its own that a delegation has: fresh, of a resource of its own, written under the fence of its root.

Invariant: a sub-agent never reads or writes its supervisor's thread. It remembers with its own memory, else with its
supervisor's own, which is lent for this run and no further; nothing of either agent is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tenuto.steps.definitions import memory_of

if TYPE_CHECKING:
    from tenuto.core.request_context import RequestContext
    from tenuto.memory.bound import RunMemory
    from tenuto.memory.memory import Memory
    from tenuto.steps.definition import Definition
    from tenuto.steps.run import Run

OPTIONS: dict[str, Any] = {"generate_title": False, "observational_memory": False}
"""What a memory does not do for a delegation."""


async def sub_memory(
    parent: Run, definition: Definition, context: RequestContext, key: str, child_id: str
) -> RunMemory | None:
    """The memory of a child run that begins; None when its supervisor is on no thread, or neither has a memory."""
    above = parent.memory
    if above is None:
        return None
    memory = await _memory(parent, definition, context, above)
    if memory is None:
        return None
    return replace(
        above,
        memory=memory,
        config=memory.merged(OPTIONS if above.writes else {**OPTIONS, "read_only": True}),
        thread=f"{above.thread}-{child_id.removeprefix('run_')}",
        resource=f"{above.resource}-{key}",
        title=None,
        metadata=None,
        on_title_generated=None,
        root=above.scope,
    )


async def sub_memory_again(parent: Run, child: Run) -> RunMemory | None:
    """The memory of a child run that goes on, on the thread where it began."""
    mine, above = child.memory, parent.memory
    if mine is None or above is None:
        return mine
    memory = await _memory(parent, child.definition, child.request_context, above)
    if memory is None:
        return mine
    config = memory.merged(OPTIONS if above.writes else {**OPTIONS, "read_only": True})
    return replace(mine, memory=memory, config=config, store=above.store, root=above.scope)


async def _memory(parent: Run, definition: Definition, context: RequestContext, above: RunMemory) -> Memory | None:
    own = await memory_of(definition, context, above.store)
    return above.memory if own is None and parent.definition.memory is not None else own
