"""Processors: code that stands around a run's messages, model calls, chunks, tool results and errors."""

from tenuto.processors.contexts import (
    APIErrorContext,
    HookContext,
    InputContext,
    InputStepContext,
    LLMRequestContext,
    LLMResponseContext,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    Surroundings,
    ToolResultContext,
)
from tenuto.processors.hooks import ProcessorError
from tenuto.processors.ports import MemoryWriter, ModelResponse, ResultSoFar, Step, Writer
from tenuto.processors.processor import (
    APIErrorChange,
    MessageChange,
    Processor,
    RequestChange,
    StepChange,
    ToolResultChange,
)
from tenuto.processors.tripwire import Tripwire, Violation

__all__ = [
    "APIErrorChange",
    "APIErrorContext",
    "HookContext",
    "InputContext",
    "InputStepContext",
    "LLMRequestContext",
    "LLMResponseContext",
    "MemoryWriter",
    "MessageChange",
    "ModelResponse",
    "OutputResultContext",
    "OutputStepContext",
    "OutputStreamContext",
    "Processor",
    "ProcessorError",
    "RequestChange",
    "ResultSoFar",
    "Step",
    "StepChange",
    "Surroundings",
    "ToolResultChange",
    "ToolResultContext",
    "Tripwire",
    "Violation",
    "Writer",
]
