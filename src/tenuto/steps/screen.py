"""Puts what a tool writes into the run's log.

Invariant: a chunk that is not transient is shown after the commit that holds it; data that belong to the answer's
message are in the journal with their chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.machine.records import DataWritten

if TYPE_CHECKING:
    from tenuto.steps.ports import RunLog


class CallScreen:
    """See `tools.writer.Screen`.

    Args:
        run_id: The run.
        call_id: The call that writes.
        tool_name: Its tool.
        log: Where it is written.
    """

    def __init__(self, run_id: str, call_id: str, tool_name: str, log: RunLog) -> None:
        self._run_id = run_id
        self._call_id = call_id
        self._tool_name = tool_name
        self._log = log

    async def output(self, output: p.Json) -> None:
        """See `Screen.output`."""
        payload = p.ToolOutputPayload(output, self._call_id, self._tool_name)
        await self._log.commit(chunks=[c.ToolOutput(self._run_id, "USER", payload)])

    async def data(self, chunk: c.Data) -> None:
        """See `Screen.data`."""
        if chunk.transient:
            await self._log.stream([chunk], deltas=1)
        else:
            await self._log.commit(DataWritten(self._call_id, chunk.type, chunk.data, chunk.id), chunks=[chunk])
