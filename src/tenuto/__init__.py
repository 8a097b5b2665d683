"""tenuto: a runtime for AI agents whose runs outlive the request, the connection and the process.

from tenuto import Agent, tool
"""

from tenuto.agent import Agent
from tenuto.core.abort import AbortController, AbortSignal
from tenuto.core.errors import TenutoError
from tenuto.core.request_context import RequestContext
from tenuto.options import has_tool_call, step_count_is, total_tokens_over
from tenuto.tools import ToolContext, tool

__all__ = [
    "AbortController",
    "AbortSignal",
    "Agent",
    "RequestContext",
    "TenutoError",
    "ToolContext",
    "has_tool_call",
    "step_count_is",
    "tool",
    "total_tokens_over",
]
