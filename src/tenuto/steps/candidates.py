"""The models of a run in the order in which they are asked: one, or a list of fallbacks.

Invariant: an entry that is not enabled is dropped before anything of it is resolved; each candidate has an id of its
own, the same in every process that resolves the same list, so a journal can say which one failed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError, TenutoError
from tenuto.core.option_keys import mapping, overlaid, renamed, spellings
from tenuto.messages.turns import ProviderOptions
from tenuto.models.ports import LanguageModel, ModelSettings
from tenuto.models.resolve import resolve_model
from tenuto.models.settings import (
    CallSettings,
    check_retries,
    laid_over,
    read_settings,
    renamed_settings,
    with_headers,
)
from tenuto.steps.callbacks import resolve

ENTRY_KEYS = ("id", "model", "max_retries", "enabled", "model_settings", "provider_options", "headers")
_KEYS = spellings(ENTRY_KEYS)


class Candidate(Struct, frozen=True, kw_only=True):
    """A model that may be asked, and what of the call is its own.

    Attributes:
        id: Of the entry, else `provider/model`, with a number where the list has it twice.
        max_retries: None = the entry does not say.
    """

    id: str
    model: LanguageModel
    max_retries: int | None = None
    settings: CallSettings = CallSettings()
    provider_options: ProviderOptions | None = None
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        """The id alone: a model, headers and options may hold a secret."""
        return f"Candidate({self.id!r})"

    def settings_of(self, given: CallSettings) -> CallSettings:
        """The call's settings `given` with the entry's over them; its `headers` are the lowest layer."""
        lowest = CallSettings(sent=ModelSettings(headers=with_headers(self.headers) or None))
        return laid_over(laid_over(lowest, given) if self.headers else given, self.settings)

    def options_of(self, given: ProviderOptions | None) -> ProviderOptions | None:
        """The call's provider options with the entry's over them."""
        return given if not self.provider_options else overlaid(given or {}, self.provider_options)


def check_models(given: Sequence[Any], owner: str) -> None:
    """Check the shape of a list of models without resolving anything.

    Raises:
        ConfigurationError: `AGENT_RESOLVE_MODEL_EMPTY_ARRAY`: nothing is left of it.
        TypeError: An entry of the wrong shape.
        ValueError: A number out of range.
    """
    if not [entry for entry in map(_entry, given) if _enabled(entry)]:
        message = f"{owner}: the list of models is empty, or none of it is enabled; give at least one."
        raise ConfigurationError(message, id="AGENT_RESOLVE_MODEL_EMPTY_ARRAY", domain="AGENT")


async def find_candidates(given: Any, context: object, owner: str) -> tuple[Candidate, ...]:
    """The candidates of `model=`: a model in any form, a list of entries, or a function that gives one of these.

    Raises:
        ConfigurationError: `AGENT_GET_MODEL_MISSING_MODEL_INSTANCE`: it is no model; or as `check_models` and
            `resolve_model`.
    """
    found = await _resolved(given, context)
    try:
        if not isinstance(found, list | tuple):
            model = resolve_model(found)
            return (Candidate(id=name_of_model(model), model=model),)
        entries = cast("Sequence[Any]", found)
        check_models(entries, owner)
        candidates = [await _candidate(entry, context) for entry in map(_entry, entries) if _enabled(entry)]
    except (TypeError, ValueError) as error:
        message = f"{owner} has no usable model: {error}"
        raise ConfigurationError(
            message,
            id="AGENT_GET_MODEL_MISSING_MODEL_INSTANCE",
            domain="AGENT",
            details={"originalError": str(error)},
        ) from error
    return tuple(_numbered(candidates))


def is_static(given: Any) -> bool:
    """Whether every run of an agent with this `model=` gets the same candidates."""
    if not isinstance(given, list | tuple):
        return not _is_function(given)
    entries = (_entry(each) for each in cast("Sequence[Any]", given))
    return not any(_is_function(value) for entry in entries for value in entry.values())


def current(candidates: Sequence[Candidate], failed: Collection[str]) -> Candidate:
    """The first that has not failed in this run; the last one when all have."""
    return next((each for each in candidates if each.id not in failed), candidates[-1])


def following(candidates: Sequence[Candidate], failed: Collection[str], after: Candidate) -> Candidate | None:
    """The first behind `after` that has not failed in this run."""
    left = candidates[candidates.index(after) + 1 :]
    return next((each for each in left if each.id not in failed), None)


def name_tried(error: TenutoError, failed: Collection[str], last: Candidate) -> None:
    """Name in `error` each model that failed in this run, when there were several."""
    if names := [each for each in failed if each != last.id]:
        error.details["triedModels"] = ", ".join([*names, last.id])


def name_of_model(model: LanguageModel) -> str:
    """`provider/model`."""
    if not model.model_id:
        message = f"A model of {model.provider or 'an unnamed provider'} has no model_id; give it one."
        raise ConfigurationError(message, id="AGENT_PREPARE_MODELS_MISSING_MODEL_ID", domain="AGENT")
    return f"{model.provider}/{model.model_id}"


def read_entry(given: Mapping[str, Any]) -> dict[str, Any]:
    """An entry under our keys, its settings too.

    Raises:
        TypeError: A key or a value that does not belong there.
        ValueError: A number out of range.
    """
    entry = renamed(given, _KEYS, "key of a fallback model")
    check_retries(entry.get("max_retries"))
    if not isinstance(entry.get("id"), str | None):
        message = f"'id' of a fallback model is text, not {entry['id']!r}."
        raise TypeError(message)
    for key in ("model_settings", "provider_options", "headers"):
        if entry.get(key) is not None and not _is_function(entry[key]):
            _read(key, entry[key])
    if isinstance(entry.get("model_settings"), Mapping):
        entry["model_settings"] = renamed_settings(entry["model_settings"])
    return entry


def _entry(given: Any) -> dict[str, Any]:
    """A model in any other form is an entry of its own."""
    named = isinstance(given, Mapping) and "model" in given
    return read_entry(cast("Mapping[str, Any]", given)) if named else {"model": given}


def _enabled(entry: Mapping[str, Any]) -> bool:
    enabled = entry.get("enabled")
    if not isinstance(enabled, bool | None):
        message = f"'enabled' of a fallback model is True or False, not {enabled!r}."
        raise TypeError(message)
    return enabled is not False


async def _candidate(entry: Mapping[str, Any], context: object) -> Candidate:
    model = resolve_model(await _resolved(entry["model"], context))
    values = {
        key: _read(key, await _resolved(entry[key], context))
        for key in ("model_settings", "provider_options", "headers")
        if entry.get(key) is not None
    }
    return Candidate(
        id=entry.get("id") or name_of_model(model),
        model=model,
        max_retries=entry.get("max_retries"),
        settings=values.get("model_settings") or CallSettings(),
        provider_options=values.get("provider_options"),
        headers=values.get("headers") or {},
    )


def _read(key: str, value: Any) -> Any:
    if value is None:
        return None
    if key == "model_settings":
        settings = read_settings(renamed_settings(value))
        if settings.timeout.total_ms is not None:
            message = "'total_ms' is of the whole run: set it on the call or in default_options, not on one model."
            raise TypeError(message)
        return settings
    given = mapping(value, key)
    if key == "headers" and not all(isinstance(part, str) for pair in given.items() for part in pair):
        message = "'headers' of a fallback model is a mapping of text to text."
        raise TypeError(message)
    if key == "provider_options":
        for name, options in given.items():
            mapping(options, f"provider_options[{name!r}]")
    return given


def _numbered(candidates: Sequence[Candidate]) -> list[Candidate]:
    counts: dict[str, int] = {}
    numbered: list[Candidate] = []
    for each in candidates:
        count = counts[each.id] = counts.get(each.id, 0) + 1
        numbered.append(each if count == 1 else replace(each, id=f"{each.id}#{count}"))
    return numbered


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "stream")


async def _resolved(value: Any, context: object) -> Any:
    return await resolve(cast("Callable[..., Any]", value), context) if _is_function(value) else value
