"""What a memory does on a thread: its options, in one place, with what each is when nobody says.

Invariant: options are merged as mappings, a call's over the memory's, and read into a `MemoryConfig` once; a key that
is unknown or given in two spellings is a `TypeError`. A schema, a template, a filter and a model are one value each
and never merged with another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict, cast

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.core.option_keys import mapping, renamed, spellings

Scoped = Literal["resource", "thread"]

LAST_MESSAGES = 10
"""Stored messages of the thread that a run reads, when nobody says how many."""

REMOVED_AT_MAX = 0.25
"""Of a token limit, what is left out at once when a history outgrows it, so that the next turns keep its beginning."""


NOTED_FROM, CONDENSED_FROM, BUDGET = 30_000, 10_000, 1_000_000
"""Tokens of observational memory, when nobody says otherwise; see `Observational`."""


class MessageHistoryDict(TypedDict, total=False):
    """A token limit for the history; `at_max_remove_tokens` (default: a quarter) goes at once when it is passed."""

    max_tokens: int
    at_max_remove_tokens: int


class SemanticRecallDict(TypedDict, total=False):
    """What is looked for beyond the history: `top_k` hits (4), each with `message_range` messages around it (1)."""

    top_k: int
    message_range: int | Mapping[str, int]
    scope: Scoped
    threshold: float
    filter: Mapping[str, Any]
    index_config: Mapping[str, Any]


class WorkingMemoryDict(TypedDict, total=False):
    """What the agent keeps of a resource (default) or a thread: a text by `template`, or data by `schema`."""

    enabled: bool
    scope: Scoped
    template: str
    schema: Any
    read_only: bool
    version: str
    use_state_signals: bool
    agent_managed: bool


class ObservationalMemoryDict(TypedDict, total=False):
    """How a long thread is compacted in the background; counts are tokens. See `Observational`."""

    model: Any
    instructions: str
    message_tokens: int
    keep_tokens: int
    observation_tokens: int
    budget_tokens: int | None


class GenerateTitleDict(TypedDict, total=False):
    """How a thread gets its title; `model` and `instructions` may be functions of the request context."""

    model: Any
    instructions: str | Callable[..., str | Awaitable[str]]
    min_messages: int
    emit_event: bool


class MemoryOptions(TypedDict, total=False):
    """The options of a memory; see `Memory`."""

    last_messages: int | Literal[False]
    message_history: MessageHistoryDict
    semantic_recall: bool | SemanticRecallDict
    working_memory: bool | WorkingMemoryDict
    observational_memory: bool | ObservationalMemoryDict
    generate_title: bool | GenerateTitleDict
    read_only: bool
    filter_incomplete_tool_calls: bool
    retain_full_input: bool


class TokenLimit(Struct, frozen=True):
    """See `MessageHistoryDict`."""

    max_tokens: int
    remove: int


class SemanticRecall(Struct, frozen=True):
    """See `SemanticRecallDict`; `before` and `after` are the messages around a hit."""

    top_k: int = 4
    before: int = 1
    after: int = 1
    scope: Scoped = "resource"
    threshold: float | None = None
    filter: Mapping[str, Any] | None = None
    index_config: Mapping[str, Any] | None = None


class WorkingMemory(Struct, frozen=True):
    """See `WorkingMemoryDict`; `schema` is a type or a JSON Schema, and `template` is None when there is one."""

    scope: Scoped = "resource"
    template: str | None = None
    schema: Any = None
    read_only: bool = False


class Observational(Struct, frozen=True):
    """What becomes of a thread that grows long: a model notes what its older messages say, and runs read the notes.

    Attributes:
        model: That takes the notes; None: the agent's.
        instructions: For it, in place of tenuto's.
        message_tokens: How much of a thread is read as it is before the older part of it is noted down.
        keep_tokens: How much of its newest part stays as it is then, at the least.
        observation_tokens: From how much on the notes themselves are condensed.
        budget_tokens: What notes of one thread may cost in all, in and out; None: whatever it takes.
    """

    model: Any = None
    instructions: str | None = None
    message_tokens: int = NOTED_FROM
    keep_tokens: int = NOTED_FROM // 5
    observation_tokens: int = CONDENSED_FROM
    budget_tokens: int | None = BUDGET


class TitleOptions(Struct, frozen=True):
    """See `GenerateTitleDict`."""

    model: Any = None
    instructions: Any = None
    min_messages: int = 1
    emit_event: bool = False


class MemoryConfig(Struct, frozen=True):
    """Options, checked; see `Memory`.

    Attributes:
        last_messages: None: as many as there are, under `message_history` or `observational_memory`.
    """

    last_messages: int | None = LAST_MESSAGES
    message_history: TokenLimit | None = None
    semantic_recall: SemanticRecall | None = None
    working_memory: WorkingMemory | None = None
    observational_memory: Observational | None = None
    generate_title: TitleOptions | None = None
    read_only: bool = False
    filter_incomplete_tool_calls: bool = True
    retain_full_input: bool = False

    @property
    def keeps_history(self) -> bool:
        """Whether messages are loaded and saved at all."""
        return self.last_messages != 0

    @property
    def saves(self) -> bool:
        """Whether messages are saved."""
        return self.keeps_history and not self.read_only


_OPTIONS = spellings(MemoryOptions.__annotations__)
_NESTED: Mapping[str, Mapping[str, str]] = {
    "message_history": spellings(MessageHistoryDict.__annotations__),
    "semantic_recall": spellings(SemanticRecallDict.__annotations__),
    "working_memory": spellings(WorkingMemoryDict.__annotations__),
    "observational_memory": spellings(ObservationalMemoryDict.__annotations__),
    "generate_title": spellings(GenerateTitleDict.__annotations__),
}
_EITHER = ("template", "schema")


def normalise_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their snake_case names, at every depth.

    Raises:
        TypeError: An unknown option, or one given under both spellings.
        ConfigurationError: `threads.generateTitle`, the place where Mastra once had that option.
    """
    if "threads" in given:
        message = "generate_title stands beside the other options of a memory, not in threads={...}."
        raise ConfigurationError(message, id="MEMORY_CONFIG_INVALID", domain="MEMORY")
    options = renamed(given, _OPTIONS, "memory option")
    for name, keys in _NESTED.items():
        if isinstance(nested := options.get(name), Mapping):
            options[name] = renamed(cast("Mapping[str, Any]", nested), keys, f"{name} option")
    return options


def merge_config(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`, the options in a mapping one by one. Both normalised before."""
    merged = {**below, **above}
    for name in _NESTED:
        under, over = below.get(name), above.get(name)
        if isinstance(under, Mapping) and isinstance(over, Mapping):
            merged[name] = _merged(cast("Mapping[str, Any]", under), cast("Mapping[str, Any]", over))
        elif isinstance(under, Mapping) and over is True:
            merged[name] = {**under, "enabled": True} if name == "working_memory" else under
    return merged


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    if any(name in above for name in _EITHER):  # one kind of working memory takes the place of the other
        below = {name: value for name, value in below.items() if name not in _EITHER}
    return {**below, **above}


def read_config(options: Mapping[str, Any]) -> MemoryConfig:
    """The options, checked; what is None or not there has its default.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A number out of range.
        ConfigurationError: `template` and `schema` at once.
    """
    limit = _limit(options.get("message_history"))
    observational = _observational(options.get("observational_memory"))
    whole = limit is not None or observational is not None
    return MemoryConfig(
        last_messages=_last(options.get("last_messages"), None if whole else LAST_MESSAGES),
        message_history=limit,
        semantic_recall=_recall(options.get("semantic_recall")),
        working_memory=_working(options.get("working_memory")),
        observational_memory=observational,
        generate_title=_title(options.get("generate_title")),
        read_only=_flag(options, "read_only", default=False),
        filter_incomplete_tool_calls=_flag(options, "filter_incomplete_tool_calls", default=True),
        retain_full_input=_flag(options, "retain_full_input", default=False),
    )


def _last(given: object, default: int | None) -> int | None:
    if given is None:
        return default
    return 0 if given is False else _count(given, "last_messages", 0)


def _limit(given: object) -> TokenLimit | None:
    if given is None or given is False:
        return None
    options = mapping(given, "message_history")
    if options.get("max_tokens") is None:
        message = "message_history= takes {'max_tokens': n}; there is no max_tokens in it."
        raise TypeError(message)
    most = _count(options["max_tokens"], "max_tokens", 1)
    removed = options.get("at_max_remove_tokens")
    remove = int(most * REMOVED_AT_MAX) if removed is None else _count(removed, "at_max_remove_tokens", 0)
    if remove >= most:
        message = f"at_max_remove_tokens= must be below max_tokens={most}, not {remove}: nothing would be left."
        raise ValueError(message)
    return TokenLimit(most, remove)


def _recall(given: object) -> SemanticRecall | None:
    if given is None or isinstance(given, bool):
        return SemanticRecall() if given else None
    options = mapping(given, "semantic_recall")
    before, after = _range(options.get("message_range"))
    threshold, only = options.get("threshold"), options.get("filter")
    if only is not None:
        from tenuto.memory.filters import check_filter

        check_filter(mapping(only, "filter"))
    return SemanticRecall(
        _count(options.get("top_k", 4), "top_k", 1),
        before,
        after,
        _scope(options),
        None if threshold is None else float(threshold),
        only,
        options.get("index_config"),
    )


def _range(given: object) -> tuple[int, int]:
    if isinstance(given, Mapping):
        around = cast("Mapping[str, Any]", given)
        return _count(around.get("before", 0), "before", 0), _count(around.get("after", 0), "after", 0)
    both = 1 if given is None else _count(given, "message_range", 0)
    return both, both


def _working(given: object) -> WorkingMemory | None:
    if given is None or isinstance(given, bool):
        return WorkingMemory() if given else None
    options = mapping(given, "working_memory")
    if not _flag(options, "enabled", default=False):
        return None
    template, schema = options.get("template"), options.get("schema")
    if template is not None and schema is not None:
        message = "working_memory takes a template or a schema, not both: the one is a text, the other data."
        raise ConfigurationError(message, id="MEMORY_CONFIG_INVALID", domain="MEMORY")
    if template is not None and not isinstance(template, str):
        message = f"template= takes text, not {type(template).__name__}."
        raise TypeError(message)
    return WorkingMemory(_scope(options), template, schema, _flag(options, "read_only", default=False))


def _observational(given: object) -> Observational | None:
    if given is None or isinstance(given, bool):
        return Observational() if given else None
    options = mapping(given, "observational_memory")
    most = _count(options.get("message_tokens", NOTED_FROM), "message_tokens", 1)
    keep = _count(options.get("keep_tokens", most // 5), "keep_tokens", 0)
    if keep >= most:
        message = f"keep_tokens= must be below message_tokens={most}, not {keep}: nothing would be noted down."
        raise ValueError(message)
    budget = options.get("budget_tokens", BUDGET)
    return Observational(
        options.get("model"),
        options.get("instructions"),
        most,
        keep,
        _count(options.get("observation_tokens", CONDENSED_FROM), "observation_tokens", 1),
        None if budget is None else _count(budget, "budget_tokens", 0),
    )


def _title(given: object) -> TitleOptions | None:
    if given is None or isinstance(given, bool):
        return TitleOptions() if given else None
    options = mapping(given, "generate_title")
    least = options.get("min_messages")
    return TitleOptions(
        options.get("model"),
        options.get("instructions"),
        1 if least is None else _count(least, "min_messages", 0),
        _flag(options, "emit_event", default=False),
    )


def _scope(options: Mapping[str, Any]) -> Scoped:
    given = options.get("scope") or "resource"
    if given not in {"resource", "thread"}:
        message = f"scope= takes 'resource' or 'thread', not {given!r}."
        raise ValueError(message)
    return given


def _flag(options: Mapping[str, Any], name: str, *, default: bool) -> bool:
    given = options.get(name)
    if given is None:
        return default
    if not isinstance(given, bool):
        message = f"{name}= takes True or False, not {given!r}."
        raise TypeError(message)
    return given


def _count(given: object, name: str, least: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        message = f"{name}= takes a whole number, not {given!r}."
        raise TypeError(message)
    if given < least:
        message = f"{name}= must be at least {least}, not {given}."
        raise ValueError(message)
    return given
