"""A strict, scripted model provider on a raw socket, for tests of anything that talks to a model over HTTP."""

from tenuto.testing.provider.anthropic import message_events
from tenuto.testing.provider.chat import chat_chunk
from tenuto.testing.provider.gate import Gate
from tenuto.testing.provider.gemini import gemini_chunk
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import (
    AnyReply,
    Burst,
    Bytes,
    Call,
    Event,
    HTTPError,
    Made,
    ProviderCall,
    Raw,
    Reply,
    Silence,
    ToolRounds,
    Usage,
    Vectors,
)
from tenuto.testing.provider.server import FakeProvider
from tenuto.testing.provider.strict import Reason, Refused

__all__ = [
    "AnyReply",
    "Burst",
    "Bytes",
    "Call",
    "Event",
    "FakeProvider",
    "Gate",
    "HTTPError",
    "Made",
    "ProviderCall",
    "Raw",
    "Reason",
    "Refused",
    "Reply",
    "Request",
    "Silence",
    "ToolRounds",
    "Usage",
    "Vectors",
    "chat_chunk",
    "gemini_chunk",
    "message_events",
]
