"""What we know beside the snapshot: servers on one's own computer, addresses, quirks, other names.

Invariant: each line comes from the provider's own documentation, and wins over the snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from tenuto.models.catalogue.facts import Dialect, Provider, Quirks

_NO_IMAGE_URLS = Quirks(image_urls=False)

ALIASES: Mapping[str, str] = {
    "together": "togetherai",
    "fireworks": "fireworks-ai",
    "gemini": "google",
}
"""Other names that people write, and the provider they mean."""

SERVERS: Mapping[str, Provider] = {
    "ollama": Provider(name="ollama", label="Ollama", url="http://127.0.0.1:11434/v1", quirks=_NO_IMAGE_URLS),
    "lmstudio": Provider(name="lmstudio", label="LM Studio", url="http://127.0.0.1:1234/v1", quirks=_NO_IMAGE_URLS),
    "vllm": Provider(name="vllm", label="vLLM", url="http://127.0.0.1:8000/v1"),
    "llamacpp": Provider(name="llamacpp", label="llama.cpp", url="http://127.0.0.1:8080/v1"),
}
"""Servers of one's own, where they listen by default; none needs a key."""


class Known(TypedDict, total=False):
    """Fields of `Provider` that stand in place of the snapshot's."""

    url: str
    dialect: Dialect
    chat_url: str
    keys: tuple[str, ...]
    key_header: str
    quirks: Quirks


_LONG_LIMIT = Quirks(max_tokens="max_completion_tokens")
_ECHO = Quirks(echo_reasoning=True, structured="tool")

PROVIDERS: Mapping[str, Known] = {
    "openai": {
        "url": "https://api.openai.com/v1",
        "dialect": "responses",
        "chat_url": "https://api.openai.com/v1",
        "quirks": _LONG_LIMIT,
    },
    "anthropic": {
        "url": "https://api.anthropic.com/v1",
        "dialect": "anthropic",
        "chat_url": "https://api.anthropic.com/v1",
    },
    "google": {
        "url": "https://generativelanguage.googleapis.com/v1beta",
        "dialect": "google",
        "chat_url": "https://generativelanguage.googleapis.com/v1beta/openai",
        "keys": ("GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"),
    },
    "xai": {"url": "https://api.x.ai/v1", "dialect": "responses", "chat_url": "https://api.x.ai/v1"},
    "azure": {
        "url": "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1",
        "dialect": "responses",
        "chat_url": "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1",
        "key_header": "api-key",
    },
    "azure-cognitive-services": {
        "url": "https://${AZURE_COGNITIVE_SERVICES_RESOURCE_NAME}.cognitiveservices.azure.com/openai/v1",
        "dialect": "responses",
        "chat_url": "https://${AZURE_COGNITIVE_SERVICES_RESOURCE_NAME}.cognitiveservices.azure.com/openai/v1",
        "key_header": "api-key",
    },
    "amazon-bedrock": {"keys": ("AWS_BEARER_TOKEN_BEDROCK",)},
    "moonshotai": {
        "url": "https://api.moonshot.ai/anthropic/v1",
        "dialect": "anthropic",
        "chat_url": "https://api.moonshot.ai/v1",
        "quirks": _ECHO,
    },
    "moonshotai-cn": {
        "url": "https://api.moonshot.cn/anthropic/v1",
        "dialect": "anthropic",
        "chat_url": "https://api.moonshot.cn/v1",
        "quirks": _ECHO,
    },
    "kimi-for-coding": {"chat_url": "https://api.kimi.com/coding/v1"},
    "minimax": {"chat_url": "https://api.minimax.io/v1"},
    "minimax-cn": {"chat_url": "https://api.minimaxi.com/v1"},
    "minimax-coding-plan": {"chat_url": "https://api.minimax.io/v1"},
    "minimax-cn-coding-plan": {"chat_url": "https://api.minimaxi.com/v1"},
    "vivgrid": {"chat_url": "https://api.vivgrid.com/v1"},
    "deepseek": {"url": "https://api.deepseek.com/v1", "quirks": _ECHO},
    "mistral": {"url": "https://api.mistral.ai/v1", "quirks": Quirks(short_ids=True, include_usage=False)},
    "cerebras": {
        "url": "https://api.cerebras.ai/v1",
        "quirks": Quirks(max_tokens="max_completion_tokens", structured="native-alone"),
    },
    "perplexity": {"url": "https://api.perplexity.ai", "quirks": Quirks(include_usage=False)},
    "groq": {"url": "https://api.groq.com/openai/v1", "quirks": Quirks(structured="tool")},
    "togetherai": {"url": "https://api.together.xyz/v1"},
    "deepinfra": {"url": "https://api.deepinfra.com/v1/openai"},
    "vercel": {"url": "https://ai-gateway.vercel.sh/v1"},
    "cohere": {"url": "https://api.cohere.ai/compatibility/v1"},
    "venice": {"url": "https://api.venice.ai/api/v1"},
    "v0": {"url": "https://api.v0.dev/v1"},
    "aihubmix": {"url": "https://aihubmix.com/v1"},
    "cloudflare-ai-gateway": {
        "url": "https://gateway.ai.cloudflare.com/v1/${CLOUDFLARE_ACCOUNT_ID}/${CLOUDFLARE_GATEWAY_ID}/compat",
        "key_header": "cf-aig-authorization",
    },
}
"""By name; only providers that the snapshot has."""
