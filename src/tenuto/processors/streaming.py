"""Passes the chunks of a run through `process_output_stream` before anybody sees them.

Invariant: each hook sees what the one before it returned, in order. What holds a stream together for its readers (the
frame of runs and steps, and that each call has one outcome) can be changed but not taken away: without it no client
could fold the stream. A hook that fails leaves its chunk as it was, unless its processor is `fail_closed`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from tenuto.core import chunks as c
from tenuto.core.foreign import contained
from tenuto.processors.contexts import OutputStreamContext
from tenuto.processors.hooks import BoundHook, tell
from tenuto.processors.tripwire import Tripwire

_log = logging.getLogger("tenuto")

FRAME: frozenset[type] = frozenset({
    c.Start, c.StepStart, c.StepFinish, c.Finish, c.Error, c.Abort, c.Tripwire, c.AttemptRestarted,
    c.ToolCallApproval, c.ToolCallSuspended, c.ToolError, c.ToolOutputDenied,
})  # fmt: skip
"""What is never dropped."""

_CHUNKS: frozenset[type] = frozenset(c.TaggedChunk.__args__) | {c.Data}


class Strainer:
    """The `process_output_stream` hooks of one run.

    Args:
        hooks: In order.
    """

    def __init__(self, hooks: Sequence[BoundHook]) -> None:
        self._stages = [_Stage(hook) for hook in hooks]

    async def strain(self, chunks: Sequence[c.AnyChunk]) -> tuple[list[c.AnyChunk], Tripwire | None]:
        """The chunks as they may be seen; with a tripwire, those before the one that was blocked.

        Raises:
            ProcessorError: A hook of a `fail_closed` processor failed.
        """
        passed: list[c.AnyChunk] = []
        for chunk in chunks:
            try:
                await self._pass(chunk, passed)
            except Tripwire as tripwire:
                return passed, tripwire
        return passed, None

    async def _pass(self, chunk: c.AnyChunk, passed: list[c.AnyChunk]) -> None:
        current: list[c.AnyChunk] = [chunk]
        for stage in self._stages:
            following: list[c.AnyChunk] = []
            for part in current:
                answer = await stage.ask(part)
                if type(answer) is list:
                    following += answer
                else:
                    following.append(cast("c.AnyChunk", answer))
            if not following:
                return
            current = following
        passed += current


class _Stage:
    """One hook and what it has been given in this step."""

    __slots__ = ("_hook", "_seen", "_takes_data")

    def __init__(self, hook: BoundHook) -> None:
        self._hook = hook
        self._takes_data = bool(getattr(hook.processor, "process_data_parts", False))
        self._seen: list[c.AnyChunk] = []

    async def ask(self, part: c.AnyChunk) -> c.AnyChunk | list[c.AnyChunk]:
        kind = type(part)
        if kind is c.Data and not self._takes_data:
            return part
        if kind is c.StepStart:
            self._seen = []
        self._seen.append(part)
        try:
            with contained():
                answer = self._hook.call(OutputStreamContext(self._hook.shared, part, self._seen))
                if type(answer) is kind:
                    return answer
                if inspect.isawaitable(answer):
                    answer = await answer
            return _kept(part, answer)
        except Tripwire as tripwire:
            await tell(self._hook.processor, tripwire)
            raise
        except Exception as error:
            if getattr(self._hook.processor, "fail_closed", False):
                raise self._hook.failed(error) from error
            _log.exception(
                "%s of processor %r failed; the chunk passes as it came.",
                self._hook.name,
                self._hook.shared.processor_id,
            )
            return part


def _kept(part: c.AnyChunk, answer: Any) -> c.AnyChunk | list[c.AnyChunk]:
    """What a hook made of `part`, with what it may not take away."""
    if type(answer) in _CHUNKS:
        chunks = [answer]
    elif answer is None:
        chunks: list[Any] = []
    elif isinstance(answer, (list, tuple)):
        chunks = list(cast("Sequence[Any]", answer))
    else:
        message = f"it returns a chunk, several, or None, not {type(answer).__name__}"
        raise TypeError(message)
    if wrong := [each for each in chunks if type(each) not in _CHUNKS]:
        message = f"it returns chunks, not {type(wrong[0]).__name__}"
        raise TypeError(message)
    kind = type(part)
    others = [each for each in chunks if type(each) not in FRAME]
    if kind in FRAME:
        return [*others, next((each for each in chunks if type(each) is kind), part)]
    if isinstance(part, c.ToolResult) and not any(type(each) is kind for each in others):
        return [*others, replace(part, payload=replace(part.payload, result=None))]
    return others
