"""The responses dialect: OpenAI's newer interface, where an answer is a list of items; xAI speaks it too."""

from tenuto.models.responses.format import ResponsesFormat

__all__ = ["ResponsesFormat"]
