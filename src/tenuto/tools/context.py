"""`ToolContext`: what a running tool knows of the call it answers.

Invariant: a context belongs to one attempt of one call and never changes; what it points to (request context,
dependencies, abort signal, ledger of steps) is shared with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Never, cast

from msgspec import Struct, field
from typing_extensions import TypeVar

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ConfigurationError
from tenuto.core.request_context import RequestContext
from tenuto.tools.callables import is_async
from tenuto.tools.entry import Entry
from tenuto.tools.ports import Effects, MemoryLedger, StepLedger
from tenuto.tools.writer import ToolWriter

if TYPE_CHECKING:
    from tenuto.messages.turns import Turn
    from tenuto.tools.shape import DataSchema

D_co = TypeVar("D_co", covariant=True, default=object)
V_co = TypeVar("V_co", covariant=True, default=object)


class ToolContext(Struct, Generic[D_co, V_co], frozen=True, kw_only=True, eq=False):
    """The first parameter of a tool that asks for it: `ctx: ToolContext[Services]`.

    Every field has a default, so a test can call a tool directly: `await refund(ToolContext(deps=fake), "A-17")`.

    Attributes:
        run_id: The run.
        agent_id: The agent whose model made the call.
        thread_id: The thread that the run writes to, else None.
        resource_id: Whose thread it is, else None.
        tool_call_id: The call, unique in the run.
        tool_name: The name the model used.
        step_number: The model call of this run that asked for it, from 1.
        attempt: 1 for the first execution of this call, 2 for the next.
        messages: The input of this run in model form, without what its own steps added.
        request_context: The request's values; what is set here, later steps see.
        values: The same values validated by the agent's `request_context_schema`, else None.
        deps: The run's dependencies; in a run that was given none, a `ConfigurationError` that says where they go.
        app: The agent's app, else None.
        abort_signal: Fires when the run is aborted. A thread cannot be stopped: a long sync tool should look at it.
        idempotency_key: The same on every attempt of this call; hand it to the service that takes effect.
        args: The validated arguments by name, defaults filled in; empty when a tool is called directly.
        resume_data: What the call was resumed with, as a value of the tool's `resume_schema`; None before a resume.
        suspend_payload: What the call had been suspended with, as JSON; None before a resume.
        writer: Shows chunks on the run's stream while the tool runs; see `ToolWriter`.
        ledger: Where the steps of this call are recorded.
        entry: The runtime's own.
    """

    run_id: str = ""
    agent_id: str = ""
    thread_id: str | None = None
    resource_id: str | None = None
    tool_call_id: str = ""
    tool_name: str = ""
    step_number: int = 0
    attempt: int = 1
    messages: Sequence[Turn] = ()
    request_context: RequestContext = field(default_factory=RequestContext)
    values: V_co = cast("Any", None)
    deps: D_co = cast("Any", None)
    app: Any = None
    abort_signal: AbortSignal = field(default_factory=AbortSignal)
    idempotency_key: str = ""
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    resume_data: Any = None
    suspend_payload: Any = None
    writer: ToolWriter = field(default_factory=ToolWriter)
    ledger: StepLedger = field(default_factory=MemoryLedger)
    entry: Entry = field(default_factory=Entry)

    async def suspend(self, payload: Any = None, *, resume_schema: DataSchema | None = None) -> Never:
        """End this entry of the body: the call waits for data, and the body is then entered again from its top.

        Nothing after it runs, but for `finally` and `with`. Effects before it belong in a `step`: the next entry gets
        their results from the record. Somebody who catches the signal (a bare `except BaseException`) stops nothing:
        no further step begins, and what the body returns is dropped.

        Args:
            payload: What it waits for, for whoever decides: a value of the tool's `suspend_schema`, or any JSON.
            resume_schema: What the data have to fit, instead of the tool's `resume_schema`.

        Raises:
            BaseException: A private one, for the runtime only.
            ToolError: `TOOL_SUSPEND_INVALID`: the payload does not fit, or it was called inside a step.
            ConfigurationError: `resume_schema` is neither a type nor a JSON Schema.
        """
        self.entry.suspend(payload, resume_schema)

    def suspend_sync(self, payload: Any = None, *, resume_schema: DataSchema | None = None) -> Never:
        """`suspend` for tools that are not async."""
        self.entry.suspend(payload, resume_schema)

    async def step(self, name: str, fn: Callable[..., Any], *args: Any, effects: Effects = "once") -> Any:
        """Run `fn(*args)` once for this call, and record it: later entries of the body get the recorded answer.

        An entry follows the first one after a suspension, or when the process of an `"idempotent"` or `"none"` tool
        ended in between. The record belongs to the call and the name, not to the arguments.

        Args:
            name: Unique in the body.
            fn: Async: run on the loop; else in a thread. What it raises leaves `step`; a `ToolFailed` is recorded,
                and raised again by later entries.
            *args: For `fn`.
            effects: What to do when an earlier entry began the step and no outcome was stored (the process ended, the
                tool was cancelled, `fn` raised): `"once"` raises `StepUnknown`, the others run `fn` again.

        Returns:
            The result as JSON, the first time too: a model comes back as a dict.

        Raises:
            StepUnknown: See `effects`.
            ToolError: `TOOL_STEP_NAME_TWICE`: this body has had a step of that name; `TOOL_RESULT_NOT_SERIALISABLE`;
                `TOOL_CALL_OVER`: the call has its outcome.
            ConfigurationError: `effects` is none.
        """
        body = partial(fn, *args)
        return await self.entry.step(self.ledger, name, body, effects, inline=is_async(fn))

    def step_sync(self, name: str, fn: Callable[..., Any], *args: Any, effects: Effects = "once") -> Any:
        """`step` for tools that are not async: `fn` runs in this thread, or on the run's loop if it is async."""
        return self.entry.step_sync(self.ledger, name, partial(fn, *args), effects)

    def __repr__(self) -> str:
        return f"ToolContext(run_id={self.run_id!r}, tool_name={self.tool_name!r}, tool_call_id={self.tool_call_id!r})"


class ContextWithoutDeps(ToolContext[Any, V_co], Generic[V_co], frozen=True, kw_only=True, eq=False):
    """The context in a run that nobody gave dependencies."""

    @property
    def deps(self) -> Any:
        """Nothing.

        Raises:
            ConfigurationError: `TOOL_DEPS_MISSING`.
        """
        message = (
            f"Tool {self.tool_name!r} asks for ctx.deps, and nobody gave any: pass deps= to agent {self.agent_id!r}, "
            "to its app (Tenuto(deps=...)), or to the call."
        )
        raise ConfigurationError(message, id="TOOL_DEPS_MISSING")
