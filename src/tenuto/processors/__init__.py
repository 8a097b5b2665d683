"""Processors: code that stands around a run's messages, model calls, chunks, tool results and errors.

The interface is here; the processors that come with tenuto are in `builtin_processors`, above this room, and are found
under these names when somebody asks for them.
"""

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from tenuto.builtin_processors import (
        BatchPartsProcessor,
        CacheInput,
        InMemoryResponseStore,
        LanguageDetector,
        ModerationProcessor,
        PIIDetector,
        PrefillErrorHandler,
        PromptInjectionDetector,
        RegexFilterProcessor,
        RegexRule,
        ResponseCache,
        ResponseStore,
        StreamErrorRetryProcessor,
        StructuredOutputProcessor,
        SystemPromptScrubber,
        TokenCounter,
        TokenLimiterProcessor,
        ToolCallFilter,
        TrailingAssistantGuard,
        UnicodeNormalizer,
        estimate_tokens,
        response_key,
    )

__all__ = [
    "APIErrorChange",
    "APIErrorContext",
    "BatchPartsProcessor",
    "CacheInput",
    "HookContext",
    "InMemoryResponseStore",
    "InputContext",
    "InputStepContext",
    "LLMRequestContext",
    "LLMResponseContext",
    "LanguageDetector",
    "MemoryWriter",
    "MessageChange",
    "ModelResponse",
    "ModerationProcessor",
    "OutputResultContext",
    "OutputStepContext",
    "OutputStreamContext",
    "PIIDetector",
    "PrefillErrorHandler",
    "Processor",
    "ProcessorError",
    "PromptInjectionDetector",
    "RegexFilterProcessor",
    "RegexRule",
    "RequestChange",
    "ResponseCache",
    "ResponseStore",
    "ResultSoFar",
    "Step",
    "StepChange",
    "StreamErrorRetryProcessor",
    "StructuredOutputProcessor",
    "Surroundings",
    "SystemPromptScrubber",
    "TokenCounter",
    "TokenLimiterProcessor",
    "ToolCallFilter",
    "ToolResultChange",
    "ToolResultContext",
    "TrailingAssistantGuard",
    "Tripwire",
    "UnicodeNormalizer",
    "Violation",
    "Writer",
    "estimate_tokens",
    "response_key",
]


def __getattr__(name: str) -> Any:
    """A processor that comes with tenuto, imported when it is first asked for."""
    from importlib import import_module

    builtin = import_module("tenuto.builtin_processors")
    if name not in builtin.__all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(builtin, name)
