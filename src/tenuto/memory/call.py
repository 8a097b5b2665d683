"""The `memory` option of a call: which thread, whose, and what is different in this call.

Invariant: a thread is named once, and so is its owner; both spellings, and the names Mastra's durable agents use
(`thread_id`, `resource_id`), are accepted and normalised here. Ids that middleware has put into the request context win
over those of the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import codec
from tenuto.core.errors import ConfigurationError
from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.core.request_context import RequestContext
from tenuto.memory.config import MemoryOptions, merge_config, normalise_config, read_config

THREAD_KEY = "mastra__threadId"
RESOURCE_KEY = "mastra__resourceId"
"""Reserved request values: set by middleware, they override what a caller says."""


class ThreadDict(TypedDict, total=False):
    """A thread, and what it gets when it is made; metadata are merged into those of a thread that is there."""

    id: str
    title: str
    metadata: Mapping[str, Any]


class MemoryDict(TypedDict, total=False):
    """The `memory` option: `thread` and `resource` (or `thread_id` and `resource_id`) name the conversation.

    `options` lie over those of the agent's `Memory`; `on_title_generated` gets the title once it is stored.
    """

    thread: str | ThreadDict
    thread_id: str
    resource: str
    resource_id: str
    options: MemoryOptions
    on_title_generated: Callable[[str], object | Awaitable[object]]


class MemoryCall(Struct, frozen=True):
    """The option, read.

    Attributes:
        options: Normalised; see `merge_config`.
    """

    thread: str | None = None
    resource: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = {}
    on_title_generated: Callable[[str], Any] | None = None


_KEYS = spellings(("thread", "resource", "options", "on_title_generated"))
_THREAD = spellings(ThreadDict.__annotations__)
_ALIASES = {"thread_id": "thread", "threadId": "thread", "resource_id": "resource", "resourceId": "resource"}


def normalise_call(given: object) -> dict[str, Any]:
    """The option under its snake_case names, and the names of 9.1.

    Raises:
        TypeError: An unknown key, or one given twice.
    """
    named: dict[str, Any] = {}
    for key, value in mapping(given, "memory").items():
        name = _ALIASES.get(key, key)
        if name in named:
            message = f"memory= names the {name} twice, as {name!r} and as {name + '_id'!r}; give it once."
            raise TypeError(message)
        named[name] = value
    options = renamed(named, _KEYS, "memory key")
    if isinstance(thread := options.get("thread"), Mapping):
        options["thread"] = renamed(cast("Mapping[str, Any]", thread), _THREAD, "thread key")
    if options.get("options") is not None:
        options["options"] = normalise_config(mapping(options["options"], "memory['options']"))
    return options


def merge_call(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, both normalised."""
    merged = {**below, **above}
    if below.get("options") and above.get("options"):
        merged["options"] = merge_config(below["options"], above["options"])
    return merged


def read_call(given: object) -> MemoryCall:
    """The option, normalised before, checked.

    Raises:
        TypeError: A value of the wrong type.
    """
    options = mapping(given, "memory")
    thread = options.get("thread")
    fields: Mapping[str, Any] = cast("Mapping[str, Any]", thread) if isinstance(thread, Mapping) else {"id": thread}
    callback = options.get("on_title_generated")
    if callback is not None and not callable(callback):
        message = f"on_title_generated= takes a function of the title, not {type(callback).__name__}."
        raise TypeError(message)
    metadata = fields.get("metadata")
    own: Mapping[str, Any] = options.get("options") or {}
    read_config(own)
    return MemoryCall(
        _text(fields.get("id"), "memory['thread']"),
        _text(options.get("resource"), "memory['resource']"),
        _text(fields.get("title"), "memory['thread']['title']"),
        None if metadata is None else dict(mapping(metadata, "memory['thread']['metadata']")),
        own,
        callback,
    )


def storable_call(given: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """What JSON can hold of the option, normalised before, and whether that is all that matters elsewhere."""
    kept = {name: value for name, value in given.items() if name != "on_title_generated"}
    options, whole = _storable(kept.pop("options", None) or {})
    return {**kept, **({"options": options} if options else {})}, whole


def _storable(options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    kept: dict[str, Any] = {}
    whole = True
    for name, value in options.items():
        if isinstance(value, Mapping):
            kept[name], below = _storable(cast("Mapping[str, Any]", value))
            whole = whole and below
            continue
        try:
            codec.encode(value)
        except TypeError:
            whole = False
        else:
            kept[name] = value
    return kept, whole


def overridden(call: MemoryCall, context: RequestContext) -> MemoryCall:
    """The call with the ids that the request context holds in place of its own."""
    thread, resource = context.get(THREAD_KEY), context.get(RESOURCE_KEY)
    if thread:
        call = replace(call, thread=_text(thread, THREAD_KEY))
    return replace(call, resource=_text(resource, RESOURCE_KEY)) if resource else call


def check_named(call: MemoryCall, agent_id: str) -> None:
    """See that a thread has its owner.

    Raises:
        ConfigurationError: `AGENT_MEMORY_MISSING_RESOURCE_ID`.
    """
    if (call.thread is None) != (call.resource is None):
        given, missing = ("thread", "resource") if call.resource is None else ("resource", "thread")
        message = (
            f"Agent {agent_id!r} has a memory and the call names a {given} without a {missing}; give both: "
            "memory={'thread': ..., 'resource': ...}."
        )
        raise ConfigurationError(message, id="AGENT_MEMORY_MISSING_RESOURCE_ID", domain="AGENT")


def _text(given: object, name: str) -> str | None:
    if given is None:
        return None
    if not isinstance(given, str) or not given:
        message = f"{name} takes a text that is not empty, not {given!r}."
        raise TypeError(message)
    return given
