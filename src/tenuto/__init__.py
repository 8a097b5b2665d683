"""tenuto: a runtime for AI agents whose runs outlive the request, the connection and the process.

from tenuto import Agent, tool
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenuto.agent import Agent
    from tenuto.app import Tenuto
    from tenuto.conditions import has_tool_call, step_count_is, total_tokens_over
    from tenuto.core.abort import AbortController, AbortSignal
    from tenuto.core.errors import TenutoError
    from tenuto.core.request_context import RequestContext
    from tenuto.durable import DurableAgent, create_durable_agent
    from tenuto.memory.memory import Memory
    from tenuto.steps.functions import durable_function
    from tenuto.structured.output import StructuredOutput
    from tenuto.tools import ToolContext, create_tool, tool
else:
    from tenuto.core.later import later

    __getattr__ = later(
        globals(),
        {
            "AbortController": "tenuto.core.abort",
            "AbortSignal": "tenuto.core.abort",
            "Agent": "tenuto.agent",
            "DurableAgent": "tenuto.durable",
            "Memory": "tenuto.memory.memory",
            "RequestContext": "tenuto.core.request_context",
            "StructuredOutput": "tenuto.structured.output",
            "Tenuto": "tenuto.app",
            "TenutoError": "tenuto.core.errors",
            "ToolContext": "tenuto.tools.context",
            "create_durable_agent": "tenuto.durable",
            "create_tool": "tenuto.tools.create",
            "durable_function": "tenuto.steps.functions",
            "has_tool_call": "tenuto.conditions",
            "step_count_is": "tenuto.conditions",
            "tool": "tenuto.tools.tool",
            "total_tokens_over": "tenuto.conditions",
        },
    )

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
