"""Tools: functions with hints that a model can call, and the one way a call is carried out."""

from tenuto.tools.approval import ApprovalRequest
from tenuto.tools.context import ToolContext
from tenuto.tools.create import create_tool, provider_tool
from tenuto.tools.entry import StepUnknown
from tenuto.tools.hooks import ToolAfterHookContext, ToolHookContext, ToolHooks
from tenuto.tools.outcome import ToolFailed
from tenuto.tools.settlement import Applied, NotApplied, Unknown
from tenuto.tools.tool import Tool, tool
from tenuto.tools.transform import ToolTransform, TransformContext, TransformPolicy
from tenuto.tools.writer import ToolWriter

__all__ = [
    "Applied",
    "ApprovalRequest",
    "NotApplied",
    "StepUnknown",
    "Tool",
    "ToolAfterHookContext",
    "ToolContext",
    "ToolFailed",
    "ToolHookContext",
    "ToolHooks",
    "ToolTransform",
    "ToolWriter",
    "TransformContext",
    "TransformPolicy",
    "Unknown",
    "create_tool",
    "provider_tool",
    "tool",
]
