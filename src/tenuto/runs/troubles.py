"""What can keep a run from its end beside its own steps: the errors that its readers get.

Invariant: each says what happened and what to do, and holds what was raised as its cause.
"""

from __future__ import annotations

from tenuto.core.errors import RunError, TenutoError
from tenuto.core.foreign import message_of


def never_begun(run_id: str) -> RunError:
    """Nothing of the run was stored but its row."""
    message = f"The process of run {run_id!r} ended before the run's input was stored; start it anew."
    return RunError(message, id="RUN_INPUT_LOST")


def exhausted(run_id: str, recoveries: int) -> RunError:
    """Its driver has died too often at one point."""
    message = (
        f"Run {run_id!r} was taken up {recoveries} times without completing a model call; its driver keeps dying. "
        "Its journal is kept; look at what runs at that point."
    )
    return RunError(message, id="RECOVERY_EXHAUSTED")


def preparation_failed(error: Exception) -> TenutoError:
    """What kept the run from being prepared, as an error of ours."""
    if isinstance(error, TenutoError):
        return error
    message = f"Preparing the run failed: {type(error).__name__}: {message_of(error)}"
    wrapped = TenutoError(message, id="AGENT_STREAM_FAILED", domain="AGENT", category="USER")
    wrapped.__cause__ = error
    return wrapped


def internal(error: Exception) -> TenutoError:
    """A fault outside every step."""
    wrapped = RunError(f"The run failed: {type(error).__name__}: {message_of(error)}", id="RUN_INTERNAL_ERROR")
    wrapped.__cause__ = error
    return wrapped


def closed(run_id: str) -> RunError:
    """The loop is gone, and the run with it."""
    message = f"The event loop of run {run_id!r} ended before the run did."
    return RunError(message, id="RUN_LOOP_CLOSED")
