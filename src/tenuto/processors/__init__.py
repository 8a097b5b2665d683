"""Processors: code that stands around a run's messages, model calls, chunks, tool results and errors.

The interface is here; the processors that come with tenuto are in `builtin_processors`, above this room, and are found
under these names when somebody asks for them.
"""

from typing import TYPE_CHECKING, Any

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
else:
    from tenuto.core.later import later

    __getattr__ = later(
        globals(),
        {
            "APIErrorChange": "tenuto.processors.processor",
            "APIErrorContext": "tenuto.processors.contexts",
            "HookContext": "tenuto.processors.contexts",
            "InputContext": "tenuto.processors.contexts",
            "InputStepContext": "tenuto.processors.contexts",
            "LLMRequestContext": "tenuto.processors.contexts",
            "LLMResponseContext": "tenuto.processors.contexts",
            "MemoryWriter": "tenuto.processors.ports",
            "MessageChange": "tenuto.processors.processor",
            "ModelResponse": "tenuto.processors.ports",
            "OutputResultContext": "tenuto.processors.contexts",
            "OutputStepContext": "tenuto.processors.contexts",
            "OutputStreamContext": "tenuto.processors.contexts",
            "Processor": "tenuto.processors.processor",
            "ProcessorError": "tenuto.processors.hooks",
            "RequestChange": "tenuto.processors.processor",
            "ResultSoFar": "tenuto.processors.ports",
            "Step": "tenuto.processors.ports",
            "StepChange": "tenuto.processors.processor",
            "Surroundings": "tenuto.processors.contexts",
            "ToolResultChange": "tenuto.processors.processor",
            "ToolResultContext": "tenuto.processors.contexts",
            "Tripwire": "tenuto.processors.tripwire",
            "Violation": "tenuto.processors.tripwire",
            "Writer": "tenuto.processors.ports",
        },
    )

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
