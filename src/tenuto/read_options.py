"""The options of `generate()` and `stream()` as they are given, read: names, defaults, and an agent's below a call's.

Invariant: every option is honoured; anything else is a `TypeError` with the nearest name. Keys are snake_case;
camelCase is accepted and normalised once, here; the user's own data is never renamed. None is "not given".

A new option: its type in `tenuto.options`, its field in `tenuto.steps.run.Options`, its class in `tenuto.persisted`,
its reader in `_READERS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from tenuto.core.abort import AbortController, AbortSignal
from tenuto.core.option_keys import mapping, overlaid, renamed, spellings
from tenuto.messages.input import system_turns
from tenuto.misplaced import meant
from tenuto.models.downloads import Downloads, read_downloads
from tenuto.models.settings import read_settings, read_tool_choice, renamed_settings
from tenuto.persisted import LOCAL, PLAIN, PROCESSORS, RESOLVED, SPECIAL
from tenuto.steps.candidates import check_models
from tenuto.steps.delegation_hooks import read_delegation, rename_delegation
from tenuto.steps.run import Options
from tenuto.steps.tracing_options import read_tracing, rename_tracing
from tenuto.structured.output import KEYS, read_output, without_schema
from tenuto.tools.hooks import HOOK_KEYS, read_hooks
from tenuto.tools.transform import read_policy

if TYPE_CHECKING:
    from tenuto.conditions import StopWhen
    from tenuto.tools.approval import ApprovalPolicy

_log = logging.getLogger("tenuto")

DEFAULT_MAX_STEPS = 5
"""The step limit when neither `max_steps` nor `stop_when` is given."""

STOP_WHEN_MAX_STEPS = 100
"""The step limit when `stop_when` is given alone."""

OPTIONS = spellings((*PLAIN, *RESOLVED, *SPECIAL, *LOCAL, "output"))
"""Both spellings of the options of a call; `output` is an alias."""

_STRUCTURED = spellings(KEYS)
_CHOICE = spellings(("type", "tool_name"))
_DOWNLOADS = spellings(Downloads.__struct_fields__)
_HOOKS = spellings(HOOK_KEYS)
_WHOLE = (
    *PROCESSORS,
    "model",
    "tool_choice",
    "instructions",
    "system",
    "context",
    "transform",
    "scorers",
    "is_task_complete",
)
_BY_NAME = ("toolsets", "client_tools", "structured_output")


def normalise(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their snake_case names, nested option dicts too.

    Raises:
        TypeError: An unknown option, or one given under both spellings.
    """
    if not given:
        return {}
    options = renamed(given, OPTIONS, "option", meant)
    if (settings := options.get("model_settings")) is not None:
        options["model_settings"] = renamed_settings(settings)
    if isinstance(hooks := options.get("hooks"), Mapping):
        options["hooks"] = renamed(cast("Mapping[str, Any]", hooks), _HOOKS, "hook")
    rename_tracing(options)
    rename_delegation(options)
    if (downloads := options.get("downloads")) is not None:
        options["downloads"] = renamed(mapping(downloads, "downloads"), _DOWNLOADS, "downloads key")
    if isinstance(choice := options.get("tool_choice"), Mapping):
        named = cast("Mapping[str, Any]", choice)
        options["tool_choice"] = renamed(named, _CHOICE, "tool_choice key")
    if options.get("memory") is not None:
        from tenuto.memory.call import normalise_call

        options["memory"] = normalise_call(options["memory"])
    if "output" in options:
        _read_alias(options)
    if isinstance(wanted := options.get("structured_output"), Mapping):
        options["structured_output"] = _structured(cast("Mapping[str, Any]", wanted))
    return options


def _read_alias(options: dict[str, Any]) -> None:
    """`output=` is `structured_output=` without a model; a JSON Schema stands there by itself."""
    import warnings

    if "structured_output" in options:
        message = "output= is the old name of structured_output=; give only the latter."
        raise TypeError(message)
    warnings.warn("output= is deprecated; use structured_output=.", DeprecationWarning, stacklevel=4)
    given = options.pop("output")
    bare = isinstance(given, Mapping) and "schema" not in given
    options["structured_output"] = {"schema": given} if bare else given


def _structured(given: Mapping[str, Any]) -> Mapping[str, Any]:
    if "schema" not in given and given.keys() - _STRUCTURED.keys():
        raise without_schema(given)
    return renamed(given, _STRUCTURED, "structured_output key")


def merge(defaults: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """The call's options over the defaults: mappings key by key, anything else whole. Both normalised before.

    A model record, a tool choice, a message and a tool are one value each: half of one must not end up in another (the
    key of one provider at the address of another).
    """
    if not call:
        return dict(defaults)
    merged = overlaid(defaults, call)
    merged.update((name, call[name]) for name in _WHOLE if name in call)
    for name in _BY_NAME:
        below, given = defaults.get(name), call.get(name)
        if isinstance(below, Mapping) and isinstance(given, Mapping):
            merged[name] = {**cast("Mapping[str, Any]", below), **cast("Mapping[str, Any]", given)}
    if defaults.get("memory") is not None and call.get("memory") is not None:
        from tenuto.memory.call import merge_call

        merged["memory"] = merge_call(defaults["memory"], call["memory"])
    return merged


def build_options(given: Mapping[str, Any]) -> Options:
    """Check normalised options and give them their defaults.

    Raises:
        TypeError: A value of the wrong type, such as a callback that cannot be called.
        ValueError: A number out of range.
    """
    return _built(given) if given else _defaults()


@cache
def _defaults() -> Options:
    return _built({})


def _built(given: Mapping[str, Any]) -> Options:
    said = {name: value for name, value in given.items() if value is not None}
    for name, check in _CHECKED.items():
        if name in said:
            check(said[name], name)
    read: dict[str, Any] = {name: reader(said[name], name) for name, reader in _READERS.items() if name in said}
    tracing = read_tracing(said.get("telemetry"), said.get("tracing_options"), said.get("tracing_context"))
    read.setdefault("max_steps", _step_limit(read))
    return Options(**read, tracing=tracing)


def _step_limit(read: Mapping[str, Any]) -> int:
    """The step limit of a call that gives none."""
    if "max_steps" in read or not read.get("stop_when"):
        return DEFAULT_MAX_STEPS
    _log.warning(
        "stop_when is given without max_steps: the run stops after %d steps at the latest.", STOP_WHEN_MAX_STEPS
    )
    return STOP_WHEN_MAX_STEPS


# -- readers: of a value that is not None, and the option's name ----------------------------------------------------


def _as_it_is(given: object, _name: str) -> Any:
    return given


def _function(given: object, name: str) -> Any:
    if not callable(given):
        message = f"{name}= takes a function of one argument, not {type(given).__name__}."
        raise TypeError(message)
    return given


def _flag(given: object, name: str) -> bool:
    if not isinstance(given, bool):
        message = f"{name}= takes True or False, not {given!r}."
        raise TypeError(message)
    return given


def _positive(given: object, name: str) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        message = f"{name}= takes a whole number, not {given!r}."
        raise TypeError(message)
    if given < 1:
        message = f"{name}= must be at least 1, not {given}."
        raise ValueError(message)
    return given


def _amount(given: object, name: str) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool):
        message = f"{name}= takes a number of US dollars, not {given!r}."
        raise TypeError(message)
    if not given > 0:
        message = f"{name}= must be more than 0, not {given}."
        raise ValueError(message)
    return float(given)


def _text(given: object, name: str) -> str:
    if not isinstance(given, str):
        message = f"{name}= takes text, not {given!r}."
        raise TypeError(message)
    return given


def _names(given: object, name: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        message = f"{name}= takes a list of tool names, not {given!r}."
        raise TypeError(message)
    return tuple(cast("Iterable[str]", given))


def _policy(given: object, name: str) -> ApprovalPolicy:
    return given if isinstance(given, bool) else _function(given, name)


def _conditions(given: object, name: str) -> tuple[StopWhen, ...]:
    conditions = tuple(cast("Iterable[Any]", given)) if isinstance(given, (list, tuple)) else (given,)
    return tuple(_function(condition, name) for condition in conditions)


def _signal(given: object, name: str) -> AbortSignal:
    if not isinstance(given, AbortSignal):
        hint = "; pass its .signal" if isinstance(given, AbortController) else ""
        message = f"{name}= takes an AbortSignal, not {type(given).__name__}{hint}."
        raise TypeError(message)
    return given


def _model(given: object, name: str) -> Any:
    if isinstance(given, (list, tuple)):
        check_models(cast("Sequence[Any]", given), f"{name}=")
    elif not (isinstance(given, (str, Mapping)) or hasattr(given, "stream") or callable(given)):
        forms = "'provider/model', a model record, a LanguageModel or a list of these"
        message = f"{name}= takes {forms}, not {type(given).__name__}."
        raise TypeError(message)
    return cast("Any", given)


def _by_provider(given: object, name: str) -> Any:
    for provider, options in mapping(given, name).items():
        mapping(options, f"{name}[{provider!r}]")
    return given


def _tools(*kinds: type) -> Callable[[object, str], Any]:
    def read(given: object, name: str) -> Any:
        fits = callable(given) or isinstance(given, kinds)
        if not fits:
            message = f"{name}= takes a dict of tools by name, not {type(given).__name__}."
            raise TypeError(message)
        return given

    return read


def check_processors(given: object, name: str) -> None:
    """See that `given` is a list of processors, or a function that will give one; None is none.

    Raises:
        TypeError: It is neither.
        ConfigurationError: `AGENT_PROCESSOR_INVALID`.
    """
    if given is not None and not callable(given):
        from tenuto.processors.chain import read_processors

        read_processors(given, name)


def _processors(given: object, name: str) -> Any:
    check_processors(given, name)
    return given


def not_negative(given: object, name: str) -> int:
    """A count that may be 0.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is below 0.
    """
    if not isinstance(given, int) or isinstance(given, bool):
        message = f"{name}= takes a whole number, not {given!r}."
        raise TypeError(message)
    if given < 0:
        message = f"{name}= must be at least 0, not {given}."
        raise ValueError(message)
    return given


def _checked(check: Callable[[Any], object]) -> Callable[[object, str], Any]:
    """The value itself, if `check` takes it."""

    def read(given: object, _name: str) -> Any:
        check(given)
        return given

    return read


def _unless_dynamic(check: Callable[[object], object]) -> Callable[[object, str], Any]:
    """The value itself, checked now unless it is a function that gives it later."""

    def read(given: object, _name: str) -> Any:
        if not callable(given):
            check(given)
        return given

    return read


def _memory(given: object, _name: str) -> Any:
    from tenuto.memory.call import read_call

    return read_call(given)


def _made(make: Callable[[Any], Any]) -> Callable[[object, str], Any]:
    """What `make` makes of the value."""
    return lambda given, _name: make(given)


def _scorers(given: object, _name: str) -> Any:
    from tenuto.evals.declared import read_scorers

    return read_scorers(given)


def _completion(given: object, _name: str) -> Any:
    from tenuto.evals.completion import read_completion

    return read_completion(given)


_READERS: Mapping[str, Callable[[object, str], Any]] = {
    "memory": _memory,
    "save_per_step": _flag,
    "max_steps": _positive,
    "stop_when": _conditions,
    "instructions": _checked(system_turns),
    "system": _checked(system_turns),
    "context": _as_it_is,
    "tool_choice": _made(read_tool_choice),
    "active_tools": _names,
    "tool_call_concurrency": _positive,
    "toolsets": _tools(Mapping),
    "client_tools": _tools(Mapping, list, tuple),
    "transform": _unless_dynamic(read_policy),
    "hooks": _unless_dynamic(read_hooks),
    **dict.fromkeys(PROCESSORS, _processors),
    "max_processor_retries": not_negative,
    "model": _model,
    "model_settings": _made(read_settings),
    "provider_options": _by_provider,
    "include_raw_chunks": _flag,
    "downloads": _made(read_downloads),
    "on_chunk": _function,
    "on_step_finish": _function,
    "prepare_step": _function,
    "on_iteration_complete": _function,
    "on_finish": _function,
    "on_error": _function,
    "on_abort": _function,
    "on_suspended": _function,
    "close_on_suspend": _flag,
    "delegation": _made(read_delegation),
    "cost_limit": _amount,
    "token_limit": _positive,
    "require_tool_approval": _policy,
    "structured_output": _made(read_output),
    "scorers": _scorers,
    "return_scorer_data": _flag,
    "is_task_complete": _completion,
}
"""By field of `Options`: what checks the option and gives the field's value."""

_CHECKED: Mapping[str, Callable[[object, str], object]] = {"run_id": _text, "abort_signal": _signal}
"""Options that are checked here and read elsewhere."""
