"""What can be said of a tool beside its function: the keywords that `@tool` and `create_tool` share.

Invariant: every keyword here is honoured for every kind of tool, or refused when the tool is made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from msgspec import Struct

from tenuto.messages.bounded import MODEL_TEXT_LIMIT
from tenuto.tools.context import ToolContext
from tenuto.tools.settlement import Settlement

if TYPE_CHECKING:
    from tenuto.messages.turns import ProviderOptions
    from tenuto.tools.listeners import OnInputAvailable, OnInputDelta, OnInputStart, OnOutput
    from tenuto.tools.ports import Effects
    from tenuto.tools.shape import DataSchema
    from tenuto.tools.told import ToModelOutput
    from tenuto.tools.transform import ToolTransform

KeyScope = Literal["run", "thread", "resource"]
OnUnknown = Literal["error", "suspend"]
ArgumentPolicy = Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""`require_approval=` of a tool: asked with the validated arguments by name, defaults filled in."""

Reconcile = Callable[[ToolContext[Any, Any]], Settlement | Awaitable[Settlement]]
"""`reconcile=` of a tool: finds out what became of a call whose outcome nobody stored."""


class ToolFields(TypedDict, total=False):
    """The keywords of `@tool` and `create_tool`; see `tool`."""

    effects: Effects
    key: Sequence[str] | None
    key_scope: KeyScope
    require_approval: bool | ArgumentPolicy
    reconcile: Reconcile | None
    on_unknown: OnUnknown
    output_schema: DataSchema | None
    suspend_schema: DataSchema | None
    resume_schema: DataSchema | None
    request_context_schema: DataSchema | None
    timeout: float | None
    strict: bool | None
    title: str | None
    max_result_chars: int
    provider_options: ProviderOptions | None
    to_model_output: ToModelOutput | None
    transform: ToolTransform | None
    on_input_start: OnInputStart | None
    on_input_delta: OnInputDelta | None
    on_input_available: OnInputAvailable | None
    on_output: OnOutput | None


class ToolSettings(Struct, frozen=True, kw_only=True):
    """The same with their defaults."""

    effects: Effects = "once"
    key: Any = None
    key_scope: KeyScope = "run"
    require_approval: bool | ArgumentPolicy = False
    reconcile: Reconcile | None = None
    on_unknown: OnUnknown = "error"
    output_schema: Any = None
    suspend_schema: Any = None
    resume_schema: Any = None
    request_context_schema: Any = None
    timeout: float | None = None
    strict: bool | None = None
    title: str | None = None
    max_result_chars: int = MODEL_TEXT_LIMIT
    provider_options: ProviderOptions | None = None
    to_model_output: ToModelOutput | None = None
    transform: Any = None
    on_input_start: OnInputStart | None = None
    on_input_delta: OnInputDelta | None = None
    on_input_available: OnInputAvailable | None = None
    on_output: OnOutput | None = None
