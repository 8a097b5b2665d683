"""Tools: functions with hints that a model can call, and the one way a call is carried out."""

from typing import TYPE_CHECKING

from tenuto.tools.tool import Tool, tool  # at once: `tool` is the function, not the module it is in

if TYPE_CHECKING:
    from tenuto.tools.approval import ApprovalRequest
    from tenuto.tools.context import ToolContext
    from tenuto.tools.create import create_tool, provider_tool
    from tenuto.tools.entry import StepUnknown
    from tenuto.tools.hooks import ToolAfterHookContext, ToolHookContext, ToolHooks
    from tenuto.tools.outcome import ToolFailed
    from tenuto.tools.settlement import Applied, NotApplied, Unknown
    from tenuto.tools.transform import ToolTransform, TransformContext, TransformPolicy
    from tenuto.tools.writer import ToolWriter
else:
    from tenuto.core.later import later

    __getattr__ = later(
        globals(),
        {
            "Applied": "tenuto.tools.settlement",
            "ApprovalRequest": "tenuto.tools.approval",
            "NotApplied": "tenuto.tools.settlement",
            "StepUnknown": "tenuto.tools.entry",
            "ToolAfterHookContext": "tenuto.tools.hooks",
            "ToolContext": "tenuto.tools.context",
            "ToolFailed": "tenuto.tools.outcome",
            "ToolHookContext": "tenuto.tools.hooks",
            "ToolHooks": "tenuto.tools.hooks",
            "ToolTransform": "tenuto.tools.transform",
            "ToolWriter": "tenuto.tools.writer",
            "TransformContext": "tenuto.tools.transform",
            "TransformPolicy": "tenuto.tools.transform",
            "Unknown": "tenuto.tools.settlement",
            "create_tool": "tenuto.tools.create",
            "provider_tool": "tenuto.tools.create",
        },
    )

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
