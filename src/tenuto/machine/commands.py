"""Commands: what the machine asks its driver to do next."""

from __future__ import annotations

from msgspec import Struct

from tenuto.core.payloads import FinishReason


class Prepare(Struct, frozen=True):
    """Resolve the definition and assemble the prompt."""


class CallModel(Struct, frozen=True):
    """Make the model call of `step`; `attempt` counts from 1."""

    step: int
    attempt: int


class AssessCalls(Struct, frozen=True):
    """Give every `decided` call a verdict."""

    call_ids: tuple[str, ...]


class RunTool(Struct, frozen=True):
    """Store the intent, run the body, store the outcome."""

    call_id: str
    attempt: int


class RefuseCall(Struct, frozen=True):
    """Answer a call that cannot run (unknown tool, declined) without running anything."""

    call_id: str


class SettleUnknown(Struct, frozen=True):
    """A call was begun and its outcome is not known; settle it by its tool's policy."""

    call_id: str
    attempt: int


class Park(Struct, frozen=True):
    """Give everything back and wait for decisions on these calls."""

    call_ids: tuple[str, ...]


class JudgeStep(Struct, frozen=True):
    """Decide whether the run goes on after this step."""

    step: int


class Finalise(Struct, frozen=True):
    """Fix and save the result."""

    reason: FinishReason


class Finish(Struct, frozen=True):
    """Write the terminal chunk."""


Command = (
    Prepare | CallModel | AssessCalls | RunTool | RefuseCall | SettleUnknown | Park | JudgeStep | Finalise | Finish
)
