"""From what a user gives as `embedder=` to an `Embedder`.

Invariant: as for models, resolving opens nothing and needs no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.models.catalogue import find_provider
from tenuto.models.embedder import Embedder
from tenuto.models.naming import KEYS, base_url, check_url, identity, normalised, split_name, unknown_provider

_KEYS = (*KEYS, "dimensions")
_WITHOUT = frozenset({"anthropic", "groq", "xai", "cerebras", "perplexity", "deepseek"})
"""Providers whose own documentation has no embeddings in this format."""


def resolve_embedder(config: object) -> Embedder:
    """The embedder that `config` names: a `provider/model` string, a record, or an embedder itself.

    A record has `id` (or `provider_id` and `model_id`), and may have `url`, `api_key`, `headers` and `dimensions`.

    Raises:
        ConfigurationError: No such provider, or one without embeddings.
        TypeError: Not an embedder at all, or a record with unknown, doubled, missing or ill-typed keys.
    """
    if isinstance(config, str):
        return _named(*split_name(config), {})
    if isinstance(config, Mapping):
        record = normalised(cast("Mapping[str, Any]", config), _KEYS)
        return _named(*identity(record), record)
    if isinstance(config, Embedder) and not isinstance(config, type):
        return config
    raise TypeError(
        "An embedder is a 'provider/model' string such as 'openai/text-embedding-3-small' or 'local/minilm', a record "
        "{'id': 'provider/model'}, or an object with id, dimensions, max_batch, max_characters and embed(); got "
        f"{type(config).__name__}."
    )


def _named(provider: str, model_id: str, record: Mapping[str, Any]) -> Embedder:
    if provider == "local" and "url" not in record:
        from tenuto.models.local.embedder import local_embedder

        return local_embedder(model_id)
    entry = find_provider(provider)
    own = record.get("url")
    if own is None and entry is None:
        raise unknown_provider(provider, model_id)
    url = own or base_url(_address(provider, model_id), provider, model_id)
    check_url(url, provider, model_id)
    from tenuto.models.endpoint import Endpoint
    from tenuto.models.http_embedder import HttpEmbedder

    endpoint = Endpoint(
        url=url,
        api_key=record.get("api_key"),
        key_variables=() if own or entry is None else entry.keys,
        key_header=None if own or entry is None else entry.key_header,
        headers=record.get("headers", {}),
    )
    return HttpEmbedder(provider, model_id, endpoint, dimensions=record.get("dimensions"))


def _address(provider: str, model_id: str) -> str:
    """The base URL at which a provider of the catalogue makes vectors."""
    entry = find_provider(provider)
    url = None if entry is None or entry.name in _WITHOUT else entry.url_of("chat")
    if url is None:
        raise ConfigurationError(
            f"{provider} has no embeddings in OpenAI's format, so {provider}/{model_id} cannot be an embedder; take "
            "'openai/text-embedding-3-small', 'google/gemini-embedding-001' or, without a key, 'local/minilm'.",
            id="EMBEDDER_PROVIDER_UNSUITABLE",
            details={"embedder": f"{provider}/{model_id}"},
        )
    return url
