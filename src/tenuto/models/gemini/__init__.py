"""The dialect of Google's Gemini models: `generateContent`, streamed."""

from tenuto.models.gemini.format import GeminiFormat

__all__ = ["GeminiFormat"]
