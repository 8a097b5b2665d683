"""Calls a hook, in one way everywhere: sync or async, with its block told and its failure named.

Invariant: what comes out of a hook is its answer, a `Tripwire` or a `ProcessorError`; nothing in it looks like the end
of the task that calls it.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tenuto.core.errors import TenutoError
from tenuto.core.foreign import contained, message_of
from tenuto.processors.contexts import HookContext, Surroundings
from tenuto.processors.tripwire import Tripwire, Violation

_log = logging.getLogger("tenuto")


class ProcessorError(TenutoError):
    """A processor's hook failed, or returned what it may not."""

    default_id = "AGENT_PROCESSOR_FAILED"
    default_domain = "AGENT"


class BoundHook(Struct, frozen=True):
    """A processor's hook, with what the processor has in this run."""

    name: str
    call: Callable[[Any], Any]
    shared: Surroundings
    processor: Any

    async def ask(self, context: HookContext) -> Any:
        """What the hook returns.

        Raises:
            Tripwire: It blocked; `on_violation` has been told.
            ProcessorError: It raised something else.
        """
        try:
            with contained():
                answer = self.call(context)
                return await answer if inspect.isawaitable(answer) else answer
        except Tripwire as tripwire:
            await tell(self.processor, tripwire)
            raise
        except Exception as error:
            raise self.failed(error) from error

    def failed(self, error: Exception) -> ProcessorError:
        """The failure of this hook."""
        what = f"{type(error).__name__}: {message_of(error)}"
        identity = "AGENT_INPUT_PROCESSOR_ERROR" if self.name == "process_input" else None
        details = {"processor_id": self.shared.processor_id, "hook": self.name}
        message = f"{self.name} of processor {self.shared.processor_id!r} failed: {what}"
        return ProcessorError(message, id=identity, category="USER", details=details)

    def refused(self, answer: object, expected: str) -> ProcessorError:
        """The failure of a hook that returned what it may not."""
        return self.failed(TypeError(f"it returns {expected}, not {type(answer).__name__}"))


async def tell(processor: Any, tripwire: Tripwire) -> None:
    """Tell `on_violation`; what it raises is logged."""
    listener = getattr(processor, "on_violation", None)
    if listener is None:
        return
    violation = Violation(tripwire.processor_id, tripwire.reason, tripwire.metadata)
    try:
        with contained():
            answer = listener(violation)
            if inspect.isawaitable(answer):
                await answer
    except Exception:  # noqa: BLE001 - a user's function
        _log.exception("on_violation of processor %r failed; the block stands.", tripwire.processor_id)
