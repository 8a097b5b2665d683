"""The old verbs of an agent: the same loop as `generate` and `stream`, under default options of their own.

Invariant: nothing runs here; each verb warns, names its successor and makes the call that its successor would make.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, cast

from msgspec.structs import replace
from typing_extensions import TypeVar, Unpack, deprecated

from tenuto.steps.definition import UNSET

if TYPE_CHECKING:
    from tenuto.calls import Call, PendingStream, Starting
    from tenuto.messages.input import Messages
    from tenuto.options import RunOptions
    from tenuto.runs.result import Result
    from tenuto.setup import Setup

DepsT = TypeVar("DepsT", default=None)
OutputT = TypeVar("OutputT", default=str)

GENERATE = "default_generate_options_legacy"
STREAM = "default_stream_options_legacy"
MAX_IDLE_MS = 300_000


class LegacyVerbs(Generic[DepsT, OutputT]):
    """What `Agent` keeps for callers of old code; every use is a `DeprecationWarning`."""

    __slots__ = ()

    if TYPE_CHECKING:  # the agent has these
        _given: dict[str, Any]

        def setup(self) -> Setup:
            """See `Agent.setup`."""
            ...

        def _pending(self, call: Starting) -> PendingStream[Any]: ...

        async def _drained(self, call: Starting) -> Result[Any]: ...

    @deprecated("generate_legacy() is generate() under default_generate_options_legacy; call generate().")
    async def generate_legacy(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> Result[Any]:
        """`generate`, with the agent's `default_generate_options_legacy` in place of its `default_options`."""
        return await self._drained(self._legacy_call(GENERATE, messages, deps, structured_output, options))

    @deprecated("stream_legacy() is stream() under default_stream_options_legacy; call stream().")
    def stream_legacy(
        self, messages: Messages, *, deps: DepsT = UNSET, structured_output: Any = UNSET, **options: Unpack[RunOptions]
    ) -> PendingStream[Any]:
        """`stream`, with the agent's `default_stream_options_legacy` in place of its `default_options`."""
        return self._pending(self._legacy_call(STREAM, messages, deps, structured_output, options))

    @deprecated("stream_until_idle() is stream(); call stream().")
    def stream_until_idle(
        self,
        messages: Messages,
        *,
        max_idle_ms: float = MAX_IDLE_MS,
        deps: DepsT = UNSET,
        structured_output: Any = UNSET,
        **options: Unpack[RunOptions],
    ) -> PendingStream[Any]:
        """`stream`: no tool goes on in the background, so the agent is idle as soon as its run has ended.

        Raises:
            ValueError: `max_idle_ms` (milliseconds) is not above 0.
        """
        check_idle(max_idle_ms)
        return cast("Any", self).stream(messages, deps=deps, structured_output=structured_output, **options)

    def _legacy_call(
        self, defaults: str, messages: Messages, deps: Any, output: Any, options: Mapping[str, Any]
    ) -> Call:
        from tenuto.calls import Call, with_output

        setup = replace(self.setup(), defaults=read_defaults(self._given[defaults]))
        return Call(setup, messages, deps, with_output(options, output))


def read_defaults(given: Any) -> Any:
    """Default options, normalised, or the function of the request context that gives them.

    Raises:
        TypeError: An unknown option, or one given under both spellings.
    """
    if callable(given) or not given:
        return given or {}
    from tenuto.read_options import normalise

    return normalise(given)


def check_idle(max_idle_ms: float) -> None:
    """Refuse a limit that would end every wait at once."""
    if not max_idle_ms > 0:
        message = f"max_idle_ms= is a number of milliseconds above 0, not {max_idle_ms!r}."
        raise ValueError(message)
