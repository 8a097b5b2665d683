"""The Anthropic messages dialect: Claude's own, and that of the vendors who offer their models in it."""

from tenuto.models.anthropic.format import AnthropicFormat

__all__ = ["AnthropicFormat"]
