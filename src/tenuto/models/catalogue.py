"""The providers that `provider/model` strings name: where they are, which variable holds the key, how they differ.

Invariant: the table holds facts of the providers' own documentation and no secret; a provider that is not in it is
reached with a model record that has a `url`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class Quirks(Struct, frozen=True, kw_only=True):
    """How a provider's chat completions differ from the common form.

    Attributes:
        max_tokens: The name of the output limit.
        echo_reasoning: Reasoning must come back as `reasoning_content` on its assistant message.
        include_usage: Understands `stream_options: {"include_usage": true}`.
        short_ids: Call ids must be nine letters or digits.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    echo_reasoning: bool = False
    include_usage: bool = True
    short_ids: bool = False


class Provider(Struct, frozen=True, kw_only=True):
    """One provider; `keys` are tried in order, and none means that no key is needed."""

    url: str
    keys: tuple[str, ...] = ()
    quirks: Quirks = Quirks()


_ECHO = Quirks(echo_reasoning=True)

PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        url="https://api.openai.com/v1",
        keys=("OPENAI_API_KEY",),
        quirks=Quirks(max_tokens="max_completion_tokens"),
    ),
    "groq": Provider(url="https://api.groq.com/openai/v1", keys=("GROQ_API_KEY",)),
    "openrouter": Provider(url="https://openrouter.ai/api/v1", keys=("OPENROUTER_API_KEY",)),
    "deepseek": Provider(url="https://api.deepseek.com/v1", keys=("DEEPSEEK_API_KEY",), quirks=_ECHO),
    "mistral": Provider(
        url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        quirks=Quirks(short_ids=True, include_usage=False),
    ),
    "xai": Provider(url="https://api.x.ai/v1", keys=("XAI_API_KEY",)),
    "together": Provider(url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "togetherai": Provider(url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "fireworks": Provider(url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
    "fireworks-ai": Provider(url="https://api.fireworks.ai/inference/v1", keys=("FIREWORKS_API_KEY",)),
    "cerebras": Provider(
        url="https://api.cerebras.ai/v1",
        keys=("CEREBRAS_API_KEY",),
        quirks=Quirks(max_tokens="max_completion_tokens"),
    ),
    "perplexity": Provider(
        url="https://api.perplexity.ai", keys=("PERPLEXITY_API_KEY",), quirks=Quirks(include_usage=False)
    ),
    "moonshotai": Provider(url="https://api.moonshot.ai/v1", keys=("MOONSHOT_API_KEY",), quirks=_ECHO),
    "deepinfra": Provider(url="https://api.deepinfra.com/v1/openai", keys=("DEEPINFRA_API_KEY",)),
    "huggingface": Provider(url="https://router.huggingface.co/v1", keys=("HF_TOKEN",)),
    "nvidia": Provider(url="https://integrate.api.nvidia.com/v1", keys=("NVIDIA_API_KEY",)),
    "vercel": Provider(url="https://ai-gateway.vercel.sh/v1", keys=("AI_GATEWAY_API_KEY",)),
    "ollama-cloud": Provider(url="https://ollama.com/v1", keys=("OLLAMA_API_KEY",)),
    "ollama": Provider(url="http://127.0.0.1:11434/v1"),
    "lmstudio": Provider(url="http://127.0.0.1:1234/v1"),
    "vllm": Provider(url="http://127.0.0.1:8000/v1"),
    "llamacpp": Provider(url="http://127.0.0.1:8080/v1"),
}
"""By the name before the slash."""
