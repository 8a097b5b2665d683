"""How a user names a model and where it is: `provider/model` strings, records, base URLs.

Invariant: nothing is opened, and no key is read; a message about a record shows no value that may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.models.catalogue import names
from tenuto.models.catalogue.own import ALIASES

KEYS = ("id", "provider_id", "model_id", "url", "api_key", "headers")
"""Of every model record."""
_NUMBERS = frozenset({"dimensions"})
_MEANT = {"model": "id", "name": "id", "model_name": "id", "base_url": "url", "api_base": "url", "endpoint": "url"}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")


def split_name(name: str) -> tuple[str, str]:
    """Provider and model of `provider/model`.

    Raises:
        ConfigurationError: There is no slash.
    """
    provider, slash, model_id = name.partition("/")
    if not (slash and provider and model_id):
        raise ConfigurationError(
            f"{name!r} does not name a model; write 'provider/model', such as 'openai/gpt-5-mini' or 'local/smollm2'.",
            id="MODEL_NAME_INVALID",
            details={"model": name},
        )
    return provider, model_id


def normalised(given: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    """Snake-case keys, checked, without those whose value is None.

    Raises:
        TypeError: An unknown, doubled or ill-typed key.
    """
    record: dict[str, Any] = {}
    for name, value in given.items():
        key = _HUMP.sub(r"_\1", name).lower()
        if key not in keys:
            from difflib import get_close_matches

            near = [_MEANT[key]] if key in _MEANT else get_close_matches(key, keys, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(keys)}."
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
    elif key in _NUMBERS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise TypeError(f"{key!r} of a model record is a whole number above 0, not {value!r}.")
    elif not isinstance(value, str):
        raise TypeError(f"{key!r} of a model record is text, not {type(value).__name__}.")


def identity(record: Mapping[str, Any]) -> tuple[str, str]:
    """Provider and model of a record.

    Raises:
        ConfigurationError: Its `id` has no slash.
        TypeError: It has none, or two.
    """
    if "id" in record and not record.keys() & {"provider_id", "model_id"}:
        return split_name(record["id"])
    if "id" not in record and record.get("provider_id") and record.get("model_id"):
        return record["provider_id"], record["model_id"]
    raise TypeError("A model record has either 'id' ('provider/model') or both 'provider_id' and 'model_id'.")


def base_url(template: str, provider: str, model_id: str) -> str:
    """Where a provider of the catalogue is asked: at `PROVIDER_BASE_URL` if that is set, else at `template`.

    Raises:
        ConfigurationError: The address needs variables that are not set.
    """
    return os.environ.get(f"{_variable(provider)}_BASE_URL") or _filled(template, provider, model_id)


def check_url(url: str, provider: str, model_id: str) -> None:
    """Refuse a base URL that is none.

    Raises:
        ConfigurationError: `MODEL_URL_INVALID`.
    """
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"The base URL of {provider}/{model_id} must begin with http:// or https://.", id="MODEL_URL_INVALID"
        )


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


def _variable(provider: str) -> str:
    return provider.upper().replace("-", "_")


def unknown_provider(provider: str, model_id: str) -> ConfigurationError:
    """The error for a provider that the catalogue does not have."""
    from difflib import get_close_matches

    near = get_close_matches(provider, [*names(), *ALIASES, "local"], 3, 0.5)
    hint = f"Near names: {', '.join(near)}." if near else "`tenuto models` lists them all."
    return ConfigurationError(
        f"There is no provider {provider!r} in the catalogue. {hint} For any other OpenAI-compatible server pass a "
        f"record: {{'id': '{provider}/{model_id}', 'url': 'http://host/v1'}}.",
        id="MODEL_PROVIDER_UNKNOWN",
        details={"provider": provider},
    )
