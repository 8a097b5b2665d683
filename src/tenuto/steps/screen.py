"""Puts what a tool writes into the run's log.

Invariant: a chunk that is not transient is shown after the commit that holds it; data that belong to the answer's
message are in the journal with their chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenuto.core import chunks as c
from tenuto.core import payloads as p
from tenuto.machine.records import DataWritten
from tenuto.steps.processing import block, strained

if TYPE_CHECKING:
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run


class CallScreen:
    """See `tools.writer.Screen`.

    Args:
        run: The run.
        call_id: The call that writes.
        tool_name: Its tool.
        log: Where it is written.
    """

    def __init__(self, run: Run, call_id: str, tool_name: str, log: RunLog) -> None:
        self._run = run
        self._run_id = run.run_id
        self._call_id = call_id
        self._tool_name = tool_name
        self._log = log

    async def output(self, output: p.Json) -> None:
        """See `Screen.output`."""
        payload = p.ToolOutputPayload(output, self._call_id, self._tool_name)
        await self._show(c.ToolOutput(self._run_id, "USER", payload))

    async def data(self, chunk: c.Data) -> None:
        """See `Screen.data`."""
        await self._show(chunk)

    async def _show(self, chunk: c.AnyChunk) -> None:
        chunks, tripwire = await strained(self._run, self._log, [chunk])
        for each in chunks:
            if isinstance(each, c.Data) and each.transient:
                await self._log.stream([each], deltas=1)
            elif isinstance(each, c.Data):
                await self._log.commit(DataWritten(self._call_id, each.type, each.data, each.id), chunks=[each])
            else:
                await self._log.commit(chunks=[each])
        if tripwire is not None and self._log.state.blocked is None:
            await block(self._run, self._log, tripwire)
