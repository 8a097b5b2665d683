"""`ToolContext`: what a running tool knows of the call it answers.

Invariant: a context belongs to one attempt of one call and never changes; what it points to (request context,
dependencies, abort signal) is shared with the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, cast

from msgspec import Struct, field
from typing_extensions import TypeVar

from tenuto.core.abort import AbortSignal
from tenuto.core.request_context import RequestContext
from tenuto.messages.turns import Turn

D_co = TypeVar("D_co", covariant=True, default=object)
V_co = TypeVar("V_co", covariant=True, default=object)


class ToolContext(Struct, Generic[D_co, V_co], frozen=True, kw_only=True, eq=False):
    """The first parameter of a tool that asks for it: `ctx: ToolContext[Services]`.

    Every field has a default, so a test can call a tool directly: `await refund(ToolContext(deps=fake), "A-17")`.

    Attributes:
        run_id: The run.
        agent_id: The agent whose model made the call.
        tool_call_id: The call, unique in the run.
        tool_name: The name the model used.
        step: The model call of this run that asked for it, from 1.
        attempt: 1 for the first execution of this call, 2 for the next.
        messages: The input of this run in model form, without what its own steps added.
        request_context: The request's values; what is set here, later steps see.
        values: The same values validated by the agent's `request_context_schema`, else None.
        deps: The run's dependencies, else None.
        abort_signal: Fires when the run is aborted. A thread cannot be stopped: a long sync tool should look at it.
        idempotency_key: The same on every attempt of this call; hand it to the service that takes effect.
    """

    run_id: str = ""
    agent_id: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    step: int = 0
    attempt: int = 1
    messages: Sequence[Turn] = ()
    request_context: RequestContext = field(default_factory=RequestContext)
    values: V_co = cast("Any", None)
    deps: D_co = cast("Any", None)
    abort_signal: AbortSignal = field(default_factory=AbortSignal)
    idempotency_key: str = ""

    def __repr__(self) -> str:
        return f"ToolContext(run_id={self.run_id!r}, tool_name={self.tool_name!r}, tool_call_id={self.tool_call_id!r})"
