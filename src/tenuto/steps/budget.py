"""`cost_limit` and `token_limit`: what a run may spend, with all runs of its tree, counted before it is spent.

Invariant: a request is made only when what it is reckoned to take fits into what is left, with everything that is on
its way; there is one counter for a tree, and a request is in it once. A limit that cannot be reckoned with is an error,
never no limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto.core import codec
from tenuto.core.errors import ConfigurationError, RunError
from tenuto.core.payloads import Usage
from tenuto.messages.turns import AssistantTurn, CallPart, FilePart, Reasoning, SystemTurn, Text, ToolTurn, UserTurn
from tenuto.models.catalogue import priced

if TYPE_CHECKING:
    from tenuto.messages.turns import Turn
    from tenuto.models.catalogue import ModelInfo
    from tenuto.models.ports import LanguageModel, ModelRequest

ASSUMED_OUTPUT = 4_096
"""Tokens that an answer is reckoned with when no `max_output_tokens` is set."""

BYTES_PER_TOKEN = 3
"""Of text; most tokens are longer, so that a prompt is reckoned rather too long."""

FILE_TOKENS = 2_000
"""What an image or another file is reckoned with."""


class LimitReached(RunError):
    """The next request would take more than is left; it was not made."""


class Reserved(Struct, frozen=True, eq=False):
    """What a request on its way is reckoned to take."""

    usage: Usage


class Counter:
    """One limit, and what counts towards it: requests that were made, and what is put aside for those on their way.

    Args:
        cost: US dollars; None: no limit.
        tokens: Input and output together; None: no limit.
    """

    __slots__ = ("_aside", "_cost", "_spent_cost", "_spent_tokens", "_tokens")

    def __init__(self, cost: float | None, tokens: int | None) -> None:
        self._cost = cost
        self._tokens = tokens
        self._spent_cost = 0.0
        self._spent_tokens = 0
        self._aside: list[Reserved] = []

    def check(self, usage: Usage, model: str) -> None:
        """See whether `usage` is left; see `Budget.reserve`."""
        if self._cost is not None:
            if usage.cost is None:
                raise _no_price(self._cost, model)
            aside = sum(each.usage.cost or 0.0 for each in self._aside)
            if self._spent_cost + aside + usage.cost > self._cost:
                numbers = (f"{number:.6g}" for number in (self._spent_cost, aside, usage.cost))
                raise _reached("cost", f"{self._cost:g} USD", *numbers)
        if self._tokens is not None:
            aside = sum(each.usage.total_tokens for each in self._aside)
            if self._spent_tokens + aside + usage.total_tokens > self._tokens:
                numbers = (str(number) for number in (self._spent_tokens, aside, usage.total_tokens))
                raise _reached("token", f"{self._tokens} tokens", *numbers)

    def put_aside(self, reserved: Reserved) -> None:
        """Keep it for a request."""
        self._aside.append(reserved)

    def free(self, reserved: Reserved) -> None:
        """The request is over."""
        self._aside.remove(reserved)

    def count(self, usage: Usage) -> None:
        """It is spent."""
        self._spent_tokens += usage.total_tokens
        self._spent_cost += usage.cost or 0.0


class Budget:
    """What a run may spend: its own limit, if it has one, and those of the runs above it.

    Args:
        counters: The run's own first; those above count all of its requests, too.
    """

    __slots__ = ("counters",)

    def __init__(self, counters: tuple[Counter, ...]) -> None:
        self.counters: tuple[Counter, ...] = counters

    def reserve(self, request: ModelRequest, model: LanguageModel, info: ModelInfo | None) -> Reserved:
        """Put aside what `request` may take.

        Raises:
            LimitReached: `AGENT_COST_LIMIT_REACHED`, `AGENT_TOKEN_LIMIT_REACHED`; nothing was put aside.
            ConfigurationError: `AGENT_COST_LIMIT_NO_PRICE`: nobody knows what the model costs.
        """
        reserved = Reserved(reckoned(request, info))
        for counter in self.counters:
            counter.check(reserved.usage, f"{model.provider}/{model.model_id}")
        for counter in self.counters:
            counter.put_aside(reserved)
        return reserved

    def settle(self, reserved: Reserved, took: Usage | None) -> None:
        """The request is over; `took` is what it took, None: nothing that is known."""
        for counter in self.counters:
            counter.free(reserved)
        if took is not None:
            self.also(took)

    def before(self, usage: Usage) -> None:
        """Count what the run had spent when it went on here; those above know of it."""
        self.counters[0].count(usage)

    def also(self, usage: Usage) -> None:
        """Count what was spent on a request that nothing was put aside for."""
        for counter in self.counters:
            counter.count(usage)


def budget_of(cost: float | None, tokens: int | None, above: Budget | None = None) -> Budget | None:
    """The counter of a run with these limits; that of the run above it, or None, when it has none of its own."""
    if cost is None and tokens is None:
        return above
    return Budget((Counter(cost, tokens), *(() if above is None else above.counters)))


def reckoned(request: ModelRequest, info: ModelInfo | None) -> Usage:
    """What a request may take: its prompt by its length, and the longest answer it allows, with their price."""
    prompt = request.prompt
    read = sum(_tokens_of(turn) for turn in (*prompt.system, *prompt.turns))
    read += sum(_length(codec.encode(tool).decode()) for tool in request.tools)
    most = info.max_output if info is not None and info.max_output is not None else ASSUMED_OUTPUT
    written = request.settings.max_output_tokens or min(ASSUMED_OUTPUT, most)
    return priced(Usage(read, written, read + written), info)


def reckoned_answer(request: Reserved, text: str) -> Usage:
    """What a request took whose provider does not say."""
    written = _length(text)
    return Usage(request.usage.input_tokens, written, request.usage.input_tokens + written)


def _tokens_of(turn: Turn) -> int:
    match turn:
        case SystemTurn():
            return _length(turn.text)
        case UserTurn() | AssistantTurn():
            return sum(_tokens_of_part(part) for part in turn.content)
        case ToolTurn():
            return sum(
                _length(result.text) + FILE_TOKENS * sum(isinstance(part, FilePart) for part in result.content or ())
                for result in turn.results
            )


def _tokens_of_part(part: Any) -> int:
    match part:
        case Text() | Reasoning():
            return _length(part.text)
        case FilePart():
            return FILE_TOKENS
        case CallPart():
            return _length(part.raw_args or codec.encode(part.args).decode())
        case _:
            return _length(codec.encode(part).decode())


def _length(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    return size // BYTES_PER_TOKEN + 1


def _no_price(limit: float, model: str) -> ConfigurationError:
    message = (
        f"cost_limit is {limit:g} USD, and nobody knows what {model} costs; set token_limit=, or give the model "
        "an info= with its price."
    )
    return ConfigurationError(message, id="AGENT_COST_LIMIT_NO_PRICE", domain="AGENT")


def _reached(what: str, limit: str, spent: str, aside: str, more: str) -> LimitReached:
    name = f"{what}_limit"
    message = (
        f"{name} is {limit}: {spent} are spent, {aside} put aside for requests on their way, and the next one may take "
        f"{more}, so it was not made. Raise {name}=, or set a smaller max_output_tokens."
    )
    return LimitReached(message, id=f"AGENT_{what.upper()}_LIMIT_REACHED", domain="AGENT", category="USER")
