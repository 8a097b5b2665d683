"""What of a model's configuration may be stored, and in which form: no credential ever.

Invariant: what cannot be stored is named in `degraded`, or refused; nothing is left out without a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from tenuto.core.credentials import has_credential, is_credential
from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json
from tenuto.models.ports import NamedTool
from tenuto.steps.candidates import read_entry


def keep_choice(choice: Any, kept: dict[str, Any], _degraded: list[str]) -> None:
    """The tool choice; all of it can be stored."""
    named = isinstance(choice, NamedTool)
    kept["tool_choice"] = {"type": "tool", "tool_name": choice.tool_name} if named else choice


def keep_settings(settings: Mapping[str, Any], kept: dict[str, Any], degraded: list[str]) -> None:
    """Model settings, without headers that are credentials."""
    plain = {name: value for name, value in settings.items() if value is not None}
    headers: Mapping[str, str] = plain.pop("headers", None) or {}
    safe = _harmless(headers, "model_settings.headers", degraded)
    kept["model_settings"] = {**plain, "headers": safe} if safe else plain


def _harmless(headers: Mapping[str, str], name: str, degraded: list[str]) -> dict[str, str]:
    """The headers that are no credentials; the others are named in `degraded`."""
    safe = {key: value for key, value in headers.items() if not is_credential(key)}
    degraded.extend(f"{name}.{key}" for key in headers if key not in safe)
    return safe


def keep_model(given: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    """A model, or a list of them: an entry that has no stored form leaves all of it to the agent's own."""
    several = isinstance(given, (list, tuple))
    entries = cast("Sequence[Any]", given) if several else (given,)
    models = [_stored_entry(entry, degraded) for entry in entries]
    if None in models:
        degraded.append("model")
    else:
        kept["model"] = models if several else models[0]


def _stored_entry(given: Any, degraded: list[str]) -> Json:
    if not isinstance(given, Mapping) or "model" not in given:
        return stored_model(given)
    entry = read_entry(cast("Mapping[str, Any]", given))
    model = stored_model(entry.pop("model"))
    if model is None or any(map(callable, entry.values())):
        return None
    stored: dict[str, Any] = {"model": model, **{key: value for key, value in entry.items() if value is not None}}
    if (headers := stored.get("headers")) is not None:
        stored["headers"] = _harmless(headers, "model.headers", degraded)
    if (settings := stored.get("model_settings")) is not None:
        keep_settings(settings, stored, degraded)
    return stored


def stored_model(model: Any) -> Json:
    """The model as JSON; None when it has no such form.

    Raises:
        ConfigurationError: `DURABLE_OPTION_REFUSED`: it holds a credential.
    """
    if isinstance(model, str):
        return model
    if not isinstance(model, Mapping):
        return None
    record = cast("Mapping[str, Any]", model)
    headers: Mapping[str, str] = record.get("headers") or {}
    secret = record.get("api_key") or record.get("apiKey") or has_credential(str(record.get("url") or ""))
    if secret or any(is_credential(name) for name in headers):
        message = (
            "A model record with a key, a credential header or a URL with a user or a query cannot be stored with a "
            "durable run; give the record to the agent, or set the provider's key variable."
        )
        raise ConfigurationError(message, id="DURABLE_OPTION_REFUSED")
    return dict(record)
