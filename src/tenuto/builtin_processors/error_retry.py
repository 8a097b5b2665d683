"""`StreamErrorRetryProcessor`: asks a model again after an error that will pass.

Invariant: it asks for no more than `max_retries` retries of a step, waits by the run's clock, and stops waiting when
the run is aborted.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from tenuto.builtin_processors.options import count
from tenuto.core.errors import ModelError, TenutoError
from tenuto.processors import APIErrorChange, APIErrorContext, Processor

Matcher = Callable[[TenutoError], bool]
Delay = float | Callable[[APIErrorContext], float | Awaitable[float]]


class StreamErrorRetryProcessor(Processor):
    """For `error_processors=`: retries a model call that failed, in its stream as well, when it may succeed later.

    Args:
        max_retries: Of each step.
        delay_ms: Milliseconds before a retry, or a function of the context that gives them.
        max_retry_after_ms: The longest wait a provider may ask for; when it asks for more, the call is not retried.
        matchers: Functions of the error that say of more errors that they will pass.
        retry_all_errors: Retry any error.
    """

    id = "stream-error-retry-processor"
    name: str | None = "Stream Error Retry Processor"

    def __init__(
        self,
        *,
        max_retries: int = 1,
        delay_ms: Delay = 0,
        max_retry_after_ms: float = 30_000,
        matchers: Iterable[Matcher] = (),
        retry_all_errors: bool = False,
    ) -> None:
        self._most = count("max_retries", max_retries)
        self._delay: Delay = delay_ms
        self._longest = max_retry_after_ms
        self._matchers = tuple(matchers)
        self._all = retry_all_errors

    async def process_api_error(self, context: APIErrorContext) -> APIErrorChange | None:
        """See `Processor`."""
        error, state = context.error, context.state
        done = state.get("retries", 0) if state.get("step") == context.step_number else 0
        asked = (error.retry_after or 0) * 1000 if isinstance(error, ModelError) else 0
        if done >= self._most or asked > self._longest or not self._passes(error):
            return None
        state.update(step=context.step_number, retries=done + 1)
        wait = max(asked, await self._delay_ms(context))
        if wait > 0 and not await _waited(context, wait / 1000):
            return None
        return {"retry": True}

    def _passes(self, error: TenutoError) -> bool:
        if self._all or (isinstance(error, ModelError) and error.retryable):
            return True
        return any(matches(error) for matches in self._matchers)

    async def _delay_ms(self, context: APIErrorContext) -> float:
        given: Any = self._delay(context) if callable(self._delay) else self._delay
        wait = await given if inspect.isawaitable(given) else given
        return wait if math.isfinite(wait) and wait > 0 else 0


async def _waited(context: APIErrorContext, seconds: float) -> bool:
    """Wait; False when the run was aborted meanwhile."""
    pause = asyncio.ensure_future(context.clock.sleep(seconds))
    aborted = asyncio.ensure_future(context.abort_signal.wait())
    try:
        await asyncio.wait((pause, aborted), return_when=asyncio.FIRST_COMPLETED)
    finally:
        pause.cancel()
        aborted.cancel()
        await asyncio.wait((pause, aborted))
    return not context.abort_signal.aborted
