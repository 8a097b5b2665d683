"""Tools: functions with hints that a model can call, and the one way a call is carried out."""

from tenuto.tools.context import ToolContext
from tenuto.tools.outcome import ToolFailed
from tenuto.tools.tool import Tool, tool

__all__ = ["Tool", "ToolContext", "ToolFailed", "tool"]
