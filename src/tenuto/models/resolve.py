"""From what a user gives as `model=` to a `LanguageModel`.

Invariant: resolving opens nothing and needs no key; a key that is missing surfaces when the model is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, cast, get_args

from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.models.catalogue import Dialect, ModelInfo, Provider, Quirks, find_model, find_provider, names
from tenuto.models.catalogue.own import ALIASES
from tenuto.models.formats import FORMATS
from tenuto.models.ports import LanguageModel

_KEYS = ("id", "provider_id", "model_id", "url", "api_key", "headers", "api")
_MEANT = {"model": "id", "name": "id", "model_name": "id", "base_url": "url", "api_base": "url", "endpoint": "url"}
_APIS: tuple[Dialect, ...] = get_args(Dialect)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def resolve_model(config: object) -> LanguageModel:
    """The model that `config` names: a `provider/model` string, a model record, or a model itself.

    Raises:
        ConfigurationError: No such provider, or a string without a slash; it names near ones and the record form.
        TypeError: Not a model at all, or a record with unknown, doubled, missing or ill-typed keys.
    """
    if isinstance(config, str):
        provider, model_id = _split(config)
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


def _split(name: str) -> tuple[str, str]:
    provider, slash, model_id = name.partition("/")
    if not (slash and provider and model_id):
        raise ConfigurationError(
            f"{name!r} does not name a model; write 'provider/model', such as 'openai/gpt-5-mini' or 'local/smollm2'.",
            id="MODEL_NAME_INVALID",
            details={"model": name},
        )
    return provider, model_id


def _from_record(given: Mapping[str, Any]) -> LanguageModel:
    record = _normalised(given)
    provider, model_id = _identity(record)
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


def _normalised(given: Mapping[str, Any]) -> dict[str, Any]:
    """Snake-case keys, checked, without those whose value is None."""
    record: dict[str, Any] = {}
    for name, value in given.items():
        key = _HUMP.sub(r"_\1", name).lower()
        if key not in _KEYS:
            from difflib import get_close_matches

            near = [_MEANT[key]] if key in _MEANT else get_close_matches(key, _KEYS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(_KEYS)}."
            raise TypeError(f"A model record has no key {name!r}; {hint}")
        if key in record:
            raise TypeError(f"The key {key!r} is in the model record twice.")
        if value is not None:
            record[key] = value
    for key, value in record.items():
        _check_type(key, value)
    return record


def _check_type(key: str, value: object) -> None:
    if key == "headers":
        pairs = cast("Mapping[Any, Any]", value).items() if isinstance(value, Mapping) else [(None, None)]
        if not all(isinstance(part, str) for pair in pairs for part in pair):
            raise TypeError("'headers' of a model record is a mapping of text to text.")
    elif not isinstance(value, str):
        raise TypeError(f"{key!r} of a model record is text, not {type(value).__name__}.")


def _identity(record: Mapping[str, Any]) -> tuple[str, str]:
    if "id" in record and not record.keys() & {"provider_id", "model_id"}:
        return _split(record["id"])
    if "id" not in record and record.get("provider_id") and record.get("model_id"):
        return record["provider_id"], record["model_id"]
    raise TypeError("A model record has either 'id' ('provider/model') or both 'provider_id' and 'model_id'.")


def _known(provider: str, model_id: str, record: Mapping[str, Any]) -> LanguageModel:
    if provider == "local":
        return _local(model_id)
    entry = find_provider(provider)
    if entry is None:
        raise _unknown(provider, model_id)
    info = find_model(provider, model_id)
    place = _place(entry, info, record.get("api"))
    if place is None:
        raise _unreachable(entry, info, provider, model_id)
    dialect, template = place
    url = os.environ.get(f"{_variable(provider)}_BASE_URL") or _filled(template, provider, model_id)
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


def _filled(url: str, provider: str, model_id: str) -> str:
    """`url` with the values of the variables that it names."""
    missing = [name for name in _VARIABLE.findall(url) if not os.environ.get(name)]
    if missing:
        raise ConfigurationError(
            f"The address of {provider}/{model_id} needs {' and '.join(missing)}, which the environment does not have; "
            f"set that, or {_variable(provider)}_BASE_URL.",
            id="MODEL_URL_VARIABLE_MISSING",
            details={"model": f"{provider}/{model_id}", "variables": ", ".join(missing)},
        )
    return _VARIABLE.sub(lambda found: os.environ[found[1]], url)


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
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"The base URL of {provider}/{model_id} must begin with http:// or https://.", id="MODEL_URL_INVALID"
        )
    from tenuto.models.http_model import Endpoint, HttpModel

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


def _variable(provider: str) -> str:
    return provider.upper().replace("-", "_")


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


def _unknown(provider: str, model_id: str) -> ConfigurationError:
    from difflib import get_close_matches

    near = get_close_matches(provider, [*names(), *ALIASES, "local"], 3, 0.5)
    hint = f"Near names: {', '.join(near)}." if near else "`tenuto models` lists them all."
    return ConfigurationError(
        f"There is no provider {provider!r} in the catalogue. {hint} For any other OpenAI-compatible server pass a "
        f"record: {{'id': '{provider}/{model_id}', 'url': 'http://host/v1'}}.",
        id="MODEL_PROVIDER_UNKNOWN",
        details={"provider": provider},
    )
