"""The chat completions dialect: OpenAI's, and that of everyone who copied it."""

from tenuto.models.chat.format import ChatFormat

__all__ = ["ChatFormat"]
