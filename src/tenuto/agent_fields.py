"""The types of the arguments of `Agent`, except those that depend on its dependencies.

Invariant: types only, for checkers and readers; the values are read by `tenuto.read_agent`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Required, TypedDict

from typing_extensions import TypeVar

from tenuto.evals.declared import Scorers
from tenuto.memory.memory import Memory
from tenuto.messages.input import SystemInput
from tenuto.options import DefaultOptions, ModelConfig, Processors
from tenuto.store.ports import RunStore
from tenuto.tools.approval import ApprovalPolicy
from tenuto.tools.hooks import ToolHooks
from tenuto.tools.tool import Tools
from tenuto.tools.transform import TransformPolicy

if TYPE_CHECKING:
    from tenuto.agent import Agent

DepsT = TypeVar("DepsT", default=None)

DynamicTools = Tools[DepsT] | Callable[..., Tools[DepsT] | Awaitable[Tools[DepsT]]]
Metadata = Mapping[str, Any] | None
Agents = Mapping[str, "Agent[Any, Any]"]


class AgentFields(TypedDict, total=False):
    """What `Agent` takes beside `tools` and `deps`; see there."""

    id: str | None
    name: str | None
    description: str
    metadata: Metadata | Callable[..., Metadata | Awaitable[Metadata]]
    instructions: SystemInput | Callable[..., SystemInput | Awaitable[SystemInput]]
    model: Required[ModelConfig | Callable[..., ModelConfig | Awaitable[ModelConfig]]]
    agents: Agents | Callable[..., Agents | Awaitable[Agents]] | None
    request_context_schema: Any
    default_options: DefaultOptions | None
    default_generate_options_legacy: DefaultOptions | None
    default_stream_options_legacy: DefaultOptions | None
    require_tool_approval: ApprovalPolicy
    hooks: ToolHooks | Callable[..., ToolHooks | Awaitable[ToolHooks | None] | None] | None
    transform: TransformPolicy | Callable[..., TransformPolicy | Awaitable[TransformPolicy | None] | None] | None
    input_processors: Processors
    output_processors: Processors
    error_processors: Processors
    max_processor_retries: int | Callable[..., int | Awaitable[int]] | None
    scorers: Scorers | Callable[..., Scorers | Awaitable[Scorers]] | None
    memory: Memory | Callable[..., Memory | Awaitable[Memory]] | None
    durable: bool | Mapping[str, Any]
    store: RunStore | None
    abort_grace: float
    max_retries: int
