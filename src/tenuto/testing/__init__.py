"""The kit for testing agents: a scripted model, a strict fake provider, virtual time, a checker for streams."""

from tenuto.testing.embedder import ScriptedEmbedder
from tenuto.testing.grammar import check_stream
from tenuto.testing.override import override
from tenuto.testing.provider import (
    AnyReply,
    Burst,
    Bytes,
    Call,
    Event,
    FakeProvider,
    Gate,
    HTTPError,
    Made,
    ProviderCall,
    Raw,
    Reply,
    Silence,
    ToolRounds,
    Usage,
    Vectors,
    chat_chunk,
    gemini_chunk,
)
from tenuto.testing.scripted import Batches, ScriptedModel, ScriptedRequest, ScriptExhausted
from tenuto.testing.vclock import Deadlock, VirtualClock, run_virtual

__all__ = [
    "AnyReply",
    "Batches",
    "Burst",
    "Bytes",
    "Call",
    "Deadlock",
    "Event",
    "FakeProvider",
    "Gate",
    "HTTPError",
    "Made",
    "ProviderCall",
    "Raw",
    "Reply",
    "ScriptExhausted",
    "ScriptedEmbedder",
    "ScriptedModel",
    "ScriptedRequest",
    "Silence",
    "ToolRounds",
    "Usage",
    "Vectors",
    "VirtualClock",
    "chat_chunk",
    "check_stream",
    "gemini_chunk",
    "override",
    "run_virtual",
]
