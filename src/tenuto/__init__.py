"""tenuto: a runtime for AI agents whose runs outlive the request, the connection and the process.

from tenuto import Agent, tool
"""

from typing import TYPE_CHECKING, Any

from tenuto.agent import Agent
from tenuto.conditions import has_tool_call, step_count_is, total_tokens_over
from tenuto.core.abort import AbortController, AbortSignal
from tenuto.core.errors import TenutoError
from tenuto.core.request_context import RequestContext
from tenuto.steps.functions import durable_function
from tenuto.structured.output import StructuredOutput
from tenuto.tools import ToolContext, create_tool, tool

if TYPE_CHECKING:
    from tenuto.app import Tenuto
    from tenuto.durable import DurableAgent, create_durable_agent
    from tenuto.memory.memory import Memory

__all__ = [
    "AbortController",
    "AbortSignal",
    "Agent",
    "DurableAgent",
    "Memory",
    "RequestContext",
    "StructuredOutput",
    "Tenuto",
    "TenutoError",
    "ToolContext",
    "create_durable_agent",
    "create_tool",
    "durable_function",
    "has_tool_call",
    "step_count_is",
    "tool",
    "total_tokens_over",
]

_LATER = {"Tenuto": "app", "DurableAgent": "durable", "create_durable_agent": "durable", "Memory": "memory.memory"}


def __getattr__(name: str) -> Any:
    """Import what plain agents do not need when it is first asked for."""
    if name not in _LATER:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
