"""Working memory in a store, and the tool that an agent writes it with.

Invariant: a change is a compare-and-set on what it was made of, tried again until nobody was faster, so of two runs
that learn something at once neither is lost. What is kept of a resource stands in a row of its own; what is kept of a
thread in the metadata of the thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json
from tenuto.memory import threads
from tenuto.memory.config import WorkingMemory
from tenuto.memory.working import TOOL, merged
from tenuto.store.ports import RunStore, ThreadRow, Versioned
from tenuto.structured.schema import schema_of
from tenuto.tools.context import ToolContext
from tenuto.tools.create import create_tool
from tenuto.tools.outcome import ToolFailed
from tenuto.tools.tool import Tool

KIND = "working-memory"
"""Of the rows that hold what is kept of a resource."""

FIELD = "workingMemory"
"""Where a thread's metadata hold what is kept of it."""

_TEXT_INPUT: Mapping[str, Any] = {
    "type": "object",
    "properties": {"memory": {"type": "string", "description": "The whole text, in the form of the template."}},
    "required": ["memory"],
    "additionalProperties": False,
}


class Kept(Protocol):
    """Whoever knows the store."""

    @property
    def store(self) -> RunStore:
        """Where things are kept."""
        ...


class Knowledge:
    """What is kept of one resource or one thread."""

    def __init__(self, store: RunStore, config: WorkingMemory, resource: str, thread: str | None) -> None:
        if config.scope == "thread" and thread is None:
            message = "This working memory belongs to threads; name one with thread_id=."
            raise ConfigurationError(message, id="MEMORY_THREAD_REQUIRED", domain="MEMORY")
        self._store = store
        self._config = config
        self._resource = resource
        self._thread = thread

    async def read(self) -> Json:
        """What is kept; None: nothing.

        Raises:
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        if self._thread is not None:
            row = await threads.find(self._store, self._thread, self._resource)
            if self._config.scope == "thread":
                return None if row is None else row.metadata.get(FIELD)
        known = await self._store.versioned(KIND, self._resource)
        return None if known is None else known.value

    async def write(self, given: Json) -> Json:
        """Replace a text, change data; returns what is kept then.

        Raises:
            ConfigurationError: `WORKING_MEMORY_INVALID`: it does not fit.
            RunError: `AGENT_MEMORY_THREAD_RESOURCE_MISMATCH`.
        """
        if self._thread is not None:
            await threads.find(self._store, self._thread, self._resource)
        return await (self._write_thread(given) if self._config.scope == "thread" else self._write_resource(given))

    async def _write_resource(self, given: Json) -> Json:
        while True:
            row = await self._store.versioned(KIND, self._resource)
            after = self._after(None if row is None else row.value, given)
            if await self._store.swap(Versioned(KIND, self._resource, after), 0 if row is None else row.version):
                return after

    async def _write_thread(self, given: Json) -> Json:
        def changed(row: ThreadRow | None) -> ThreadRow:
            row = row or ThreadRow(id=cast("str", self._thread), resource=self._resource)
            return replace(row, metadata={**row.metadata, FIELD: self._after(row.metadata.get(FIELD), given)})

        row = await threads.change(self._store, cast("str", self._thread), self._resource, changed)
        return cast("ThreadRow", row).metadata.get(FIELD)

    def _after(self, before: Json, given: Json) -> Json:
        if self._config.schema is None:
            if not isinstance(given, str):
                raise _misfit(f"it is a text, and {type(given).__name__} was given")
            return given
        if not isinstance(given, Mapping):
            raise _misfit(f"it is data by a schema, and {type(given).__name__} was given")
        return merged(before, cast("Mapping[str, Any]", given))


def json_schema(config: WorkingMemory) -> Mapping[str, Any] | None:
    """The JSON Schema of data; None for a text."""
    return None if config.schema is None else schema_of(config.schema).json_schema


def tool_for(config: WorkingMemory, kept: Kept) -> Tool[Any, ..., Any]:
    """The tool that writes it: what its run's thread and resource are is known from the run, never from the model."""

    async def execute(args: Mapping[str, Any], ctx: ToolContext[Any, Any]) -> Mapping[str, Any]:
        if ctx.resource_id is None:
            message = "There is no working memory in this run: it belongs to no thread."
            raise ToolFailed(message)
        try:
            await Knowledge(kept.store, config, ctx.resource_id, ctx.thread_id).write(args["memory"])
        except ConfigurationError as error:
            raise ToolFailed(str(error)) from error
        return {"success": True}

    return create_tool(
        id=TOOL,
        description="Keep what you have learned for good in the working memory.",
        input_schema=_input(config),
        execute=execute,
        effects="idempotent",
    )


def _input(config: WorkingMemory) -> Mapping[str, Any]:
    schema = json_schema(config)
    if schema is None:
        return _TEXT_INPUT
    return {
        "type": "object",
        "properties": {"memory": _partial(schema)},
        "required": ["memory"],
        **({"$defs": schema["$defs"]} if "$defs" in schema else {}),
    }


def _partial(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of a change: no field is required, and each may be null, which deletes it."""
    if "properties" not in schema:
        return {name: value for name, value in schema.items() if name != "$defs"}
    fields = {name: {"anyOf": [_partial(each), {"type": "null"}]} for name, each in schema["properties"].items()}
    kept = {name: value for name, value in schema.items() if name not in {"required", "properties", "$defs"}}
    return {**kept, "properties": fields}


def _misfit(why: str) -> ConfigurationError:
    message = f"The working memory cannot be changed like this: {why}."
    return ConfigurationError(message, id="WORKING_MEMORY_INVALID", domain="MEMORY")
