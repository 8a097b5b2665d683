"""The sync twins: every public coroutine method of an agent under its full name and `_sync`.

Invariant: a twin only waits, on the portal's event loop, for the method it is named after; it works in scripts, in
threads and where a loop is running already (Jupyter). Ctrl-C aborts what it waits for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from typing_extensions import TypeVar, Unpack, deprecated

from tenuto.legacy import GENERATE, MAX_IDLE_MS, STREAM, LegacyVerbs, check_idle
from tenuto.steps.definition import UNSET

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from tenuto.messages.input import Messages
    from tenuto.options import OutputType, ResumeOptions, RunOptions
    from tenuto.runs.listing import ActiveRuns, Recovered, SuspendedRuns
    from tenuto.runs.output import RunOutput
    from tenuto.runs.result import Result
    from tenuto.runs.sync import SyncRunOutput

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)
T = TypeVar("T")


class SyncTwins(LegacyVerbs[DepsT, OutputT]):
    """The twins of `Agent`'s methods."""

    __slots__ = ()

    @overload
    def generate_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: None = None,
        **options: Unpack[RunOptions],
    ) -> Result[OutputT]: ...
    @overload
    def generate_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: OutputType[T] | TypeAdapter[T],
        **options: Unpack[RunOptions],
    ) -> Result[T]: ...
    @overload
    def generate_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: Mapping[str, Any] | UnionType,
        **options: Unpack[RunOptions],
    ) -> Result[Any]: ...
    def generate_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> Result[Any]:
        """`generate` for code without an event loop; also works inside Jupyter. Ctrl-C aborts the run."""
        agent = cast("Any", self)
        return _waited(lambda: agent.generate(messages, deps=deps, structured_output=structured_output, **options))

    @overload
    def stream_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: None = None,
        **options: Unpack[RunOptions],
    ) -> SyncRunOutput[OutputT]: ...
    @overload
    def stream_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: OutputType[T] | TypeAdapter[T],
        **options: Unpack[RunOptions],
    ) -> SyncRunOutput[T]: ...
    @overload
    def stream_sync(
        self,
        messages: Messages,
        *,
        deps: DepsT = UNSET,
        structured_output: Mapping[str, Any] | UnionType,
        **options: Unpack[RunOptions],
    ) -> SyncRunOutput[Any]: ...
    def stream_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> SyncRunOutput[Any]:
        """`stream` for code without an event loop: `for chunk in output.full_stream`, then `output.text`."""
        agent = cast("Any", self)
        return _output(lambda: agent.stream(messages, deps=deps, structured_output=structured_output, **options))

    def resume_stream_sync(
        self,
        resume_data: Any,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> SyncRunOutput[Any]:
        """`resume_stream` for code without an event loop."""
        agent = cast("Any", self)
        return _output(
            lambda: agent.resume_stream(resume_data, run_id=run_id, tool_call_id=tool_call_id, deps=deps, **options)
        )

    def resume_generate_sync(
        self,
        resume_data: Any,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`resume_generate` for code without an event loop."""
        agent = cast("Any", self)
        return _waited(
            lambda: agent.resume_generate(resume_data, run_id=run_id, tool_call_id=tool_call_id, deps=deps, **options)
        )

    def approve_tool_call_sync(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        args: dict[str, Any] | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> SyncRunOutput[Any]:
        """`approve_tool_call` for code without an event loop."""
        agent = cast("Any", self)
        return _output(
            lambda: agent.approve_tool_call(run_id=run_id, tool_call_id=tool_call_id, args=args, deps=deps, **options)
        )

    def approve_tool_call_generate_sync(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        args: dict[str, Any] | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`approve_tool_call_generate` for code without an event loop."""
        agent = cast("Any", self)
        return _waited(
            lambda: agent.approve_tool_call_generate(
                run_id=run_id, tool_call_id=tool_call_id, args=args, deps=deps, **options
            )
        )

    def decline_tool_call_sync(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> SyncRunOutput[Any]:
        """`decline_tool_call` for code without an event loop."""
        agent = cast("Any", self)
        return _output(
            lambda: agent.decline_tool_call(
                run_id=run_id, tool_call_id=tool_call_id, reason=reason, deps=deps, **options
            )
        )

    def decline_tool_call_generate_sync(
        self,
        *,
        run_id: str,
        tool_call_id: str | None = None,
        reason: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> Result[Any]:
        """`decline_tool_call_generate` for code without an event loop."""
        agent = cast("Any", self)
        return _waited(
            lambda: agent.decline_tool_call_generate(
                run_id=run_id, tool_call_id=tool_call_id, reason=reason, deps=deps, **options
            )
        )

    @deprecated(
        "generate_legacy_sync() is generate_sync() under default_generate_options_legacy; call generate_sync()."
    )
    def generate_legacy_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> Result[Any]:
        """`generate_legacy` for code without an event loop."""
        return _waited(lambda: self._drained(self._legacy_call(GENERATE, messages, deps, structured_output, options)))

    @deprecated("stream_legacy_sync() is stream_sync() under default_stream_options_legacy; call stream_sync().")
    def stream_legacy_sync(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> SyncRunOutput[Any]:
        """`stream_legacy` for code without an event loop."""
        return _output(lambda: self._pending(self._legacy_call(STREAM, messages, deps, structured_output, options)))

    @deprecated("stream_until_idle_sync() is stream_sync(); call stream_sync().")
    def stream_until_idle_sync(
        self,
        messages: Messages,
        *,
        max_idle_ms: float = MAX_IDLE_MS,
        deps: DepsT = UNSET,
        structured_output: Any = UNSET,
        **options: Unpack[RunOptions],
    ) -> SyncRunOutput[Any]:
        """`stream_until_idle` for code without an event loop."""
        check_idle(max_idle_ms)
        return self.stream_sync(messages, deps=deps, structured_output=structured_output, **options)

    def list_suspended_runs_sync(
        self,
        *,
        thread_id: str | None = None,
        resource_id: str | None = None,
        per_page: int | None = None,
        page: int | None = None,
    ) -> SuspendedRuns:
        """`list_suspended_runs` for code without an event loop."""
        which = {"thread_id": thread_id, "resource_id": resource_id, "per_page": per_page, "page": page}
        return _waited(lambda: cast("Any", self).list_suspended_runs(**which))


class DurableTwins(Generic[DepsT, OutputT]):
    """The twins of what `DurableAgent` adds."""

    __slots__ = ()

    def resume_sync(
        self,
        run_id: str,
        resume_data: Any,
        *,
        tool_call_id: str | None = None,
        deps: DepsT = UNSET,
        **options: Unpack[ResumeOptions],
    ) -> SyncRunOutput[Any]:
        """`resume` for code without an event loop."""
        agent = cast("Any", self)
        return _output(lambda: agent.resume(run_id, resume_data, tool_call_id=tool_call_id, deps=deps, **options))

    def observe_sync(
        self, run_id: str, *, offset: int | None = None, **options: Unpack[ResumeOptions]
    ) -> SyncRunOutput[Any]:
        """`observe` for code without an event loop."""
        return _output(lambda: cast("Any", self).observe(run_id, offset=offset, **options))

    def recover_sync(self, run_id: str, *, deps: DepsT = UNSET, **options: Unpack[ResumeOptions]) -> SyncRunOutput[Any]:
        """`recover` for code without an event loop."""
        return _output(lambda: cast("Any", self).recover(run_id, deps=deps, **options))

    def recover_active_runs_sync(
        self, *, run_id: str | None = None, limit: int = 100, created_before: float | None = None
    ) -> Recovered:
        """`recover_active_runs` for code without an event loop."""
        agent = cast("Any", self)
        return _waited(lambda: agent.recover_active_runs(run_id=run_id, limit=limit, created_before=created_before))

    def list_active_runs_sync(self, *, per_page: int | None = None, page: int | None = None) -> ActiveRuns:
        """`list_active_runs` for code without an event loop."""
        return _waited(lambda: cast("Any", self).list_active_runs(per_page=per_page, page=page))

    def abort_run_stream_sync(self, run_id: str, reason: str | None = None) -> bool:
        """`abort_run_stream` for code without an event loop."""
        return _waited(lambda: cast("Any", self).abort_run_stream(run_id, reason))


def _waited(call: Callable[[], Awaitable[Any]]) -> Any:
    from tenuto.core.portal import Portal

    return Portal.current().run(_awaited(call))


def _output(call: Callable[[], Awaitable[RunOutput[Any]]]) -> SyncRunOutput[Any]:
    from tenuto.core.portal import Portal
    from tenuto.runs.sync import SyncRunOutput

    portal = Portal.current()
    return SyncRunOutput(portal, portal.run(_awaited(call), undo=lambda output: output.abort("interrupted")))


async def _awaited(call: Callable[[], Awaitable[Any]]) -> Any:
    """Made on the portal's loop, so that nothing is left unawaited when the portal refuses."""
    return await call()
