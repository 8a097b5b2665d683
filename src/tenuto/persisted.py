"""The options of a call as the journal keeps them, and what another process makes of them.

Invariant: every option is in exactly one class: persisted as JSON, kept as a stricter shadow or not at all (and then
named in `degraded`), refused, or local to the caller by nature (`LOCAL`). No credential is ever persisted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json
from tenuto.steps.delegation_hooks import FUNCTIONS as DELEGATION_HOOKS
from tenuto.steps.delegation_hooks import lost_filter
from tenuto.steps.functions import function_named, name_of
from tenuto.steps.storable import keep_choice, keep_model, keep_settings, stored_model
from tenuto.structured.output import OWN_MODEL, read_output
from tenuto.tools.client import client_tools, described
from tenuto.tools.transform import Policy, read_policy

PLAIN = (
    "max_steps",
    "max_processor_retries",
    "active_tools",
    "tool_call_concurrency",
    "provider_options",
    "include_raw_chunks",
    "downloads",
    "telemetry",
    "tracing_options",
    "cost_limit",
    "token_limit",
    "return_scorer_data",
    "save_per_step",
)
"""Persisted as they are."""

RESOLVED = ("instructions", "system", "context", "request_context")
"""Persisted elsewhere: in the prompt's record and beside the options."""

LOCAL = (
    "abort_signal",
    "tracing_context",
    "run_id",
    "on_chunk",
    "on_step_finish",
    "on_finish",
    "on_error",
    "on_abort",
    "on_suspended",
    "close_on_suspend",
)
"""Belong to the caller's process; another one gives its own."""

PROCESSORS = ("input_processors", "output_processors", "error_processors")
"""A durable run refuses them: what guards a run must be there wherever it goes on. See `refuse_processors`."""

NAMED = ("on_iteration_complete", "prepare_step")
"""Functions that are kept by the name they are registered under."""

SPECIAL = (
    "tool_choice",
    "model_settings",
    "stop_when",
    "require_tool_approval",
    *NAMED,
    "model",
    "toolsets",
    "client_tools",
    "hooks",
    "structured_output",
    "transform",
    "delegation",
    *PROCESSORS,
    "scorers",
    "is_task_complete",
    "memory",
)
"""Have a persisted form of their own, below."""


def persist(options: Mapping[str, Any]) -> tuple[Json, tuple[str, ...]]:
    """The persisted form of normalised `options`, and the names of those that will be missing or stricter elsewhere.

    Raises:
        ConfigurationError: `DURABLE_OPTION_REFUSED`: a model record with a key of its own.
    """
    if not options:
        return {}, ()
    kept: dict[str, Any] = {name: options[name] for name in PLAIN if options.get(name) is not None}
    degraded: list[str] = []
    for name, keep in _KEEPERS.items():
        if options.get(name) is not None:
            keep(options[name], kept, degraded)
    return kept, tuple(degraded)


def restore(kept: Json) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Normalised options from their persisted form, and the names of the functions this process does not have."""
    options: dict[str, Any] = dict(kept or {})
    missing: list[str] = []
    if (names := options.pop("stop_when", None)) is not None:
        found = [function_named(name) for name in names]
        options["stop_when"] = [each for each in found if each is not None]
        if None in found:
            missing.append("stop_when")
    if isinstance(transform := options.get("transform"), Mapping):
        said = cast("Mapping[str, Any]", transform)
        function = function_named(said["function"]) if "function" in said else None
        if "function" in said and function is None:
            missing.append("transform")
        options["transform"] = {"targets": said["targets"], "transform_tool_payload": function}
    approval = options.get("require_tool_approval")
    if isinstance(approval, Mapping):
        policy = function_named(cast("Mapping[str, str]", approval)["function"])
        options["require_tool_approval"] = True if policy is None else policy
        if policy is None:
            missing.append("require_tool_approval")
    for option in NAMED:
        if (name := options.pop(option, None)) is not None and (function := function_named(name)) is not None:
            options[option] = function
        elif name is not None:
            missing.append(option)
    if (output := options.get("structured_output")) is not None:
        options["structured_output"] = _restored_output(output, missing)
    if (delegation := options.get("delegation")) is not None:
        options["delegation"] = _restored_delegation(delegation, missing)
    return options, tuple(missing)


def _keep_conditions(given: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    conditions = list(cast("Any", given)) if isinstance(given, (list, tuple)) else [given]
    names = [name_of(condition) for condition in conditions]
    kept["stop_when"] = [name for name in names if name is not None]
    if None in names:
        degraded.append("stop_when")


def _keep_approval(policy: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    name = name_of(policy) if callable(policy) else None
    kept["require_tool_approval"] = {"function": name} if name else bool(policy)
    if callable(policy) and name is None:
        degraded.append("require_tool_approval")


def _by_name(option: str) -> Callable[[Any, dict[str, Any], list[str]], None]:
    """A function is kept if it is registered."""

    def keep(function: Any, kept: dict[str, Any], degraded: list[str]) -> None:
        if name := name_of(function):
            kept[option] = name
        else:
            degraded.append(option)

    return keep


def _keep_output(given: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    """The schema as JSON Schema: a type is code, which comes from the agent or the caller of the process."""
    output = read_output(given)
    if output is None:
        return
    below: dict[str, Any] = {
        "schema": output.schema.json_schema,
        "typed": output.schema.typed,
        "error_strategy": output.error_strategy,
        "instructions": output.instructions,
        "json_prompt_injection": output.json_prompt_injection,
        "provider_options": output.provider_options,
    }
    if output.has_fallback:
        below["fallback_value"] = output.fallback
    if output.model is not None:
        below["model"] = stored_model(output.model)
        if below["model"] is None:
            degraded.append("structured_output.model")
    kept["structured_output"] = below


def _restored_output(kept: Mapping[str, Any], missing: list[str]) -> dict[str, Any]:
    output = dict(kept)
    if output.pop("typed", False):
        missing.append("structured_output")
    if "model" in output and output["model"] is None:
        output["model"] = OWN_MODEL
    return output


def retyped(options: Mapping[str, Any], own: Any) -> dict[str, Any] | None:
    """Restored `options` with the type of the agent's `own` structured output, if it is the one the run was given."""
    kept, mine = options.get("structured_output"), read_output(own)
    if kept is None or mine is None or mine.schema.json_schema != kept["schema"]:
        return None
    model = mine.model if kept.get("model") is OWN_MODEL and mine.model is not None else kept.get("model")
    return {**options, "structured_output": {**kept, "schema": mine.schema, "model": model}}


def _keep_client_tools(tools: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    """They are data: another process offers the same ones. A function that would make them is lost."""
    if callable(tools):
        degraded.append("client_tools")
    else:
        kept["client_tools"] = described(client_tools(tools, {}))


def _keep_transform(given: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    """Its targets; the function only by a registered name. Without it they are the agent's to fill, or hidden."""
    policy = Policy() if callable(given) else read_policy(given) or Policy()
    name = None if callable(given) else name_of(policy.function)
    kept["transform"] = {"targets": list(policy.targets), **({"function": name} if name else {})}
    if callable(given) or (policy.function is not None and name is None):
        degraded.append("transform")


def _keep_delegation(given: Mapping[str, Any], kept: dict[str, Any], degraded: list[str]) -> None:
    """Its hooks by their registered names; of one that has none, that there was one."""
    plain = {name: value for name, value in given.items() if name not in DELEGATION_HOOKS and value is not None}
    hooks = {name: given[name] for name in DELEGATION_HOOKS if given.get(name) is not None}
    kept["delegation"] = {**plain, "functions": {name: name_of(function) for name, function in hooks.items()}}
    degraded.extend(f"delegation.{name}" for name, function in hooks.items() if name_of(function) is None)


def _restored_delegation(kept: Mapping[str, Any], missing: list[str]) -> dict[str, Any]:
    """A lost hook is no hook; a lost `message_filter`, which holds messages back, holds back the delegation."""
    found = {name: value for name, value in kept.items() if name != "functions"}
    names: Mapping[str, str | None] = kept["functions"]
    for name, registered in names.items():
        function = None if registered is None else function_named(registered)
        if function is None:
            missing.append(f"delegation.{name}")
        if function is not None or name == "message_filter":
            found[name] = function or lost_filter
    return found


def with_own_hooks(
    options: dict[str, Any], missing: Collection[str], own: Any
) -> tuple[dict[str, Any], frozenset[str]]:
    """Restored `options` with the agent's `own` delegation hooks in place of those that are `missing`; and which."""
    hooks: Mapping[str, Any] = own or {}
    found = {name: hooks[name] for name in DELEGATION_HOOKS if hooks.get(name) and f"delegation.{name}" in missing}
    if not found:
        return options, frozenset()
    return {**options, "delegation": {**options["delegation"], **found}}, frozenset(f"delegation.{n}" for n in found)


def refuse_processors(options: Mapping[str, Any]) -> None:
    """Refuse a call's own processors for a durable run.

    Raises:
        ConfigurationError: `DURABLE_OPTION_REFUSED`.
    """
    given = next((name for name in PROCESSORS if options.get(name) is not None), None)
    if given is not None:
        message = (
            f"{given}= of this call cannot be stored with a durable run, and it must not go on without them; give "
            f"them to the agent: Agent({given}=[...])."
        )
        raise ConfigurationError(message, id="DURABLE_OPTION_REFUSED")


def _keep_scorers(given: Any, kept: dict[str, Any], _degraded: list[str]) -> None:
    """By id: whoever takes the run up looks which of them it has."""
    from tenuto.evals.declared import read_scorers

    kept["scorers"] = {each.name: each.to_json() for each in read_scorers(given)}


def _keep_completion(given: Any, kept: dict[str, Any], _degraded: list[str]) -> None:
    """By id, too; `on_complete` belongs to the caller's process."""
    from tenuto.evals.completion import read_completion

    kept["is_task_complete"] = read_completion(given).to_json()


def _keep_memory(given: Any, kept: dict[str, Any], degraded: list[str]) -> None:
    """Thread, owner and what JSON can hold of the options; functions and types come from the agent's memory."""
    from tenuto.memory.call import storable_call

    kept["memory"], whole = storable_call(given)
    if not whole:
        degraded.append("memory")


def _lose(name: str) -> Callable[[Any, dict[str, Any], list[str]], None]:
    """Functions of the caller's: another process has the agent's own, if it has any."""
    return lambda _given, _kept, degraded: degraded.append(name)


_KEEPERS: Mapping[str, Callable[[Any, dict[str, Any], list[str]], None]] = {
    "tool_choice": keep_choice,
    "model_settings": keep_settings,
    "stop_when": _keep_conditions,
    "require_tool_approval": _keep_approval,
    "on_iteration_complete": _by_name("on_iteration_complete"),
    "prepare_step": _by_name("prepare_step"),
    "model": keep_model,
    "toolsets": _lose("toolsets"),
    "client_tools": _keep_client_tools,
    "hooks": _lose("hooks"),
    "structured_output": _keep_output,
    "transform": _keep_transform,
    "delegation": _keep_delegation,
    **{name: _lose(name) for name in PROCESSORS},
    "scorers": _keep_scorers,
    "is_task_complete": _keep_completion,
    "memory": _keep_memory,
}
