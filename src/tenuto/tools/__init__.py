"""Tools: functions with hints that a model can call, and the one way a call is carried out."""

from tenuto.tools.approval import ApprovalRequest
from tenuto.tools.context import ToolContext
from tenuto.tools.entry import StepUnknown
from tenuto.tools.outcome import ToolFailed
from tenuto.tools.settlement import Applied, NotApplied, Unknown
from tenuto.tools.tool import Tool, tool

__all__ = [
    "Applied",
    "ApprovalRequest",
    "NotApplied",
    "StepUnknown",
    "Tool",
    "ToolContext",
    "ToolFailed",
    "Unknown",
    "tool",
]
