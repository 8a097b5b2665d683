"""`ctx.writer`: what a tool shows while it runs.

Invariant: what is written is shown in the order of the writing, before the call's outcome; once the call has its
outcome nothing more can be written.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json
from tenuto.tools.results import to_json

if TYPE_CHECKING:
    from tenuto.core.chunks import Data
    from tenuto.tools.entry import Entry

_KEYS = frozenset({"type", "data", "id", "transient"})


class Screen(Protocol):
    """Where a run shows what its tools write."""

    async def output(self, output: Json) -> None:
        """Show a `tool-output` chunk."""
        ...

    async def data(self, chunk: Data) -> None:
        """Show a `data-*` chunk; one that is not transient becomes a part of the answer's message, too."""
        ...


class MemoryScreen:
    """Keeps what is written by a tool that a test calls directly: `ctx.writer.written`."""

    def __init__(self) -> None:
        self.written: list[Any] = []

    async def output(self, output: Json) -> None:
        """See `Screen`."""
        self.written.append(output)

    async def data(self, chunk: Data) -> None:
        """See `Screen`."""
        self.written.append(chunk)


class ToolWriter:
    """Writes to the run's stream.

    Args:
        screen: Of the run; without one, what is written is kept in `written`.
        entry: The entry of the tool's body that writes.
    """

    __slots__ = ("_entry", "_screen")

    def __init__(self, screen: Screen | None = None, entry: Entry | None = None) -> None:
        self._screen: Screen = screen or MemoryScreen()
        self._entry = entry

    @property
    def written(self) -> list[Any]:
        """What was written outside of a run."""
        return self._screen.written if isinstance(self._screen, MemoryScreen) else []

    def of(self, entry: Entry) -> ToolWriter:
        """The writer of one entry of the body."""
        return ToolWriter(self._screen, entry)

    async def write(self, value: Any) -> None:
        """Show `value`, as JSON, as a `tool-output` chunk.

        Raises:
            ToolError: `TOOL_RESULT_NOT_SERIALISABLE`; `TOOL_CALL_OVER`: the call has its outcome.
        """
        output = to_json(value)
        self._open()
        await self._screen.output(output)

    async def custom(self, chunk: Mapping[str, Any] | Data) -> None:
        """Show a chunk of your own: `{"type": "data-<name>", "data": ..., "id": ..., "transient": ...}`.

        One that is not transient also becomes a part of the answer's message; of two with one type and id the later
        one stays.

        Raises:
            ToolError: `TOOL_CHUNK_INVALID`: it has another form; `TOOL_RESULT_NOT_SERIALISABLE`; `TOOL_CALL_OVER`.
        """
        data = read_data(chunk)
        self._open()
        await self._screen.data(data)

    async def pipe(self, source: AsyncIterable[Any]) -> None:
        """Write each item of `source`; `data-*` chunks among them pass through as they are."""
        from tenuto.core.chunks import Data

        async for item in source:
            await (self.custom(item) if isinstance(item, Data) else self.write(item))

    def write_sync(self, value: Any) -> None:
        """`write` for tools that are not async."""
        self._here(self.write(value))

    def custom_sync(self, chunk: Mapping[str, Any] | Data) -> None:
        """`custom` for tools that are not async."""
        self._here(self.custom(chunk))

    def _here(self, writing: Any) -> None:
        from tenuto.tools.entry import Entry

        (self._entry or Entry()).wait(writing)

    def _open(self) -> None:
        if self._entry is not None:
            self._entry.check_open()


def read_data(given: object) -> Data:
    """A `data-*` chunk as it was given, its data as JSON.

    Raises:
        ToolError: `TOOL_CHUNK_INVALID`; `TOOL_RESULT_NOT_SERIALISABLE`.
    """
    from tenuto.core.chunks import Data

    if isinstance(given, Data):
        return Data(given.type, to_json(given.data), given.id, given.transient)
    said: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    kind, transient, name = said.get("type"), said.get("transient"), said.get("id")
    fits = (
        isinstance(kind, str)
        and kind.startswith("data-")
        and "data" in said
        and said.keys() <= _KEYS
        and isinstance(transient, bool | None)
        and isinstance(name, str | None)
    )
    if not fits:
        message = (
            f"custom() takes {{'type': 'data-<name>', 'data': ...}}, with 'id' (text) and 'transient' (True or False) "
            f"if needed, not {given!r:.200}; write() shows any value."
        )
        raise ToolError(message, id="TOOL_CHUNK_INVALID", category="USER")
    return Data(cast("str", kind), to_json(said["data"]), name, transient)
