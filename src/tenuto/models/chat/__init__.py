"""The chat completions dialect: OpenAI's, and that of everyone who copied it."""

from tenuto.models.chat.model import ChatModel

__all__ = ["ChatModel"]
