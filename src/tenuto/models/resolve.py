"""From what a user gives as `model=` to a `LanguageModel`.

Invariant: resolving opens nothing and needs no key; a key that is missing surfaces when the model is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast, get_args

from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.models.catalogue import Dialect, ModelInfo, Provider, Quirks, find_model, find_provider
from tenuto.models.formats import FORMATS
from tenuto.models.naming import KEYS, base_url, check_url, identity, normalised, split_name, unknown_provider
from tenuto.models.ports import LanguageModel

_KEYS = (*KEYS, "api")
_APIS: tuple[Dialect, ...] = get_args(Dialect)


def resolve_model(config: object) -> LanguageModel:
    """The model that `config` names: a `provider/model` string, a model record, or a model itself.

    Raises:
        ConfigurationError: No such provider, or a string without a slash; it names near ones and the record form.
        TypeError: Not a model at all, or a record with unknown, doubled, missing or ill-typed keys.
    """
    if isinstance(config, str):
        provider, model_id = split_name(config)
        return _known(provider, model_id, {})
    if isinstance(config, Mapping):
        return _from_record(cast("Mapping[str, Any]", config))
    if isinstance(config, LanguageModel) and not isinstance(config, type):
        return config
    if isinstance(config, list | tuple):
        raise TypeError("A list of models stands alone: it cannot be an entry of another one.")
    raise TypeError(
        f"A model is a 'provider/model' string, a record {{'id': 'provider/model'}} or an object with provider, "
        f"model_id and stream(); got {type(config).__name__}."
    )


def _from_record(given: Mapping[str, Any]) -> LanguageModel:
    record = normalised(given, _KEYS)
    provider, model_id = identity(record)
    api = record.get("api")
    if api is not None and api not in _APIS:
        raise TypeError(f"'api' is {', '.join(map(repr, _APIS))}, not {api!r}.")
    if api is not None and api not in FORMATS:
        raise ConfigurationError(
            f"The {api!r} format is not built yet; leave out 'api' (or say 'chat') for {provider}/{model_id}.",
            id="MODEL_API_NOT_BUILT",
        )
    if "url" not in record:
        return _known(provider, model_id, record)
    entry = find_provider(provider)
    quirks = entry.quirks if entry else Quirks()
    return _speaking(api or "chat", provider, model_id, record, url=record["url"], quirks=quirks)


def _known(provider: str, model_id: str, record: Mapping[str, Any]) -> LanguageModel:
    if provider == "local":
        return _local(model_id)
    entry = find_provider(provider)
    if entry is None:
        raise unknown_provider(provider, model_id)
    info = find_model(provider, model_id)
    place = _place(entry, info, record.get("api"))
    if place is None:
        raise _unreachable(entry, info, provider, model_id)
    dialect, template = place
    url = base_url(template, provider, model_id)
    quirks = _quirks(entry, info)
    return _speaking(dialect, provider, model_id, record, url=url, quirks=quirks, entry=entry, info=info)


def _place(entry: Provider, info: ModelInfo | None, api: Dialect | None) -> tuple[Dialect, str] | None:
    """A dialect that is built and the base URL at which the model can be asked in it; None when there is none.

    A model that has a dialect of its own is asked in another one only when the caller says so.
    """
    own = (info and info.dialect) or entry.dialect
    wanted = api or own
    if wanted is not None and wanted in FORMATS:
        theirs = (info.url if info else None) or entry.url_of(wanted) or entry.url  # one address, several dialects
        url = theirs if wanted == own else entry.url_of(wanted)
        return (wanted, url) if url else None
    chat = entry.url_of("chat") if api is None and not (info and info.dialect) else None
    return ("chat", chat) if chat else None


def _quirks(entry: Provider, info: ModelInfo | None) -> Quirks:
    return replace(entry.quirks, echo_reasoning=True) if info and info.echo_reasoning else entry.quirks


def _speaking(
    dialect: Dialect,
    provider: str,
    model_id: str,
    record: Mapping[str, Any],
    *,
    url: str,
    quirks: Quirks,
    entry: Provider | None = None,
    info: ModelInfo | None = None,
) -> LanguageModel:
    """A model at `url`; `entry` and `info` when it is the catalogue's own place, which has keys and prices."""
    check_url(url, provider, model_id)
    from tenuto.models.endpoint import Endpoint
    from tenuto.models.http_model import HttpModel

    endpoint = Endpoint(
        url=url,
        api_key=record.get("api_key"),
        key_variables=entry.keys if entry else (),
        key_header=entry.key_header if entry else None,
        headers=record.get("headers", {}),
        info=info,
    )
    return HttpModel(provider, model_id, endpoint, FORMATS[dialect](provider, model_id, quirks, info))


def _local(name: str) -> LanguageModel:
    from tenuto.models.local import local_model

    return local_model(name)


def _unreachable(entry: Provider, info: ModelInfo | None, provider: str, model_id: str) -> ConfigurationError:
    speaks = (info and info.dialect) or entry.dialect
    said = f"speaks {speaks!r}" if speaks else "speaks a protocol of its own"
    other = f"'api': 'chat' asks it in chat completions at {entry.chat_url or entry.url}"
    ask = other if entry.url_of("chat") else "a record with the 'url' of an OpenAI-compatible gateway reaches it"
    return ConfigurationError(
        f"{provider}/{model_id} {said}, which is not built; {ask}.",
        id="MODEL_API_NOT_BUILT",
        details={"model": f"{provider}/{model_id}", "dialect": speaks},
    )
