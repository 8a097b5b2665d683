"""The processors that come with tenuto; users import them from `tenuto.processors`."""

from tenuto.builtin_processors.batch_parts import BatchPartsProcessor
from tenuto.builtin_processors.error_retry import StreamErrorRetryProcessor
from tenuto.builtin_processors.language import LanguageDetector
from tenuto.builtin_processors.moderation import ModerationProcessor
from tenuto.builtin_processors.pii_detector import PIIDetector
from tenuto.builtin_processors.prefill import PrefillErrorHandler, TrailingAssistantGuard
from tenuto.builtin_processors.prompt_injection import PromptInjectionDetector
from tenuto.builtin_processors.regex_filter import RegexFilterProcessor
from tenuto.builtin_processors.response_cache import (
    CacheInput,
    InMemoryResponseStore,
    ResponseCache,
    ResponseStore,
    response_key,
)
from tenuto.builtin_processors.rules import RegexRule
from tenuto.builtin_processors.structured_output import StructuredOutputProcessor
from tenuto.builtin_processors.system_prompt_scrubber import SystemPromptScrubber
from tenuto.builtin_processors.token_limiter import TokenLimiterProcessor
from tenuto.builtin_processors.tokens import TokenCounter, estimate_tokens
from tenuto.builtin_processors.tool_call_filter import ToolCallFilter
from tenuto.builtin_processors.unicode_normalizer import UnicodeNormalizer

__all__ = [
    "BatchPartsProcessor",
    "CacheInput",
    "InMemoryResponseStore",
    "LanguageDetector",
    "ModerationProcessor",
    "PIIDetector",
    "PrefillErrorHandler",
    "PromptInjectionDetector",
    "RegexFilterProcessor",
    "RegexRule",
    "ResponseCache",
    "ResponseStore",
    "StreamErrorRetryProcessor",
    "StructuredOutputProcessor",
    "SystemPromptScrubber",
    "TokenCounter",
    "TokenLimiterProcessor",
    "ToolCallFilter",
    "TrailingAssistantGuard",
    "UnicodeNormalizer",
    "estimate_tokens",
    "response_key",
]
