"""`is_task_complete`: asks scorers whether a run's task is done.

Invariant: there is always a verdict, and it comes within the time that all scorers share: a scorer that raises, or that
is late, has not passed.

Source: `isTaskComplete` of Mastra's agents; a scorer passes when its score is 1.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, assert_never, cast

from msgspec import Struct

from tenuto.core.clock import Clock
from tenuto.core.foreign import message_of
from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.core.payloads import ScorerVerdict, wire_name
from tenuto.core.request_context import RequestContext
from tenuto.evals.sample import CompletionContext
from tenuto.evals.scorer import Scorer, ask_scorer
from tenuto.messages.bounded import valid_text

_log = logging.getLogger("tenuto")

TIMEOUT_MS = 600_000.0
"""What all scorers together may take when nothing else is said."""

Strategy = Literal["all", "any"]


class CompletionResult(Struct, frozen=True, rename=wire_name):
    """What `on_complete` gets; durations in ms.

    Attributes:
        completion_reason: The reasons of the scorers that decided it.
        scorers: In their order; of scorers asked one after the other, those that were asked.
    """

    complete: bool
    scorers: tuple[ScorerVerdict, ...]
    total_duration: float
    timed_out: bool
    completion_reason: str | None = None


class IsTaskCompleteDict(TypedDict, total=False):
    """Whether a run's task is done, asked after each step that the model holds for the last one.

    Attributes:
        scorers: Scorers, or ids of scorers that the app or the agent has; each passes with a score of 1. A
            scorer's input is a `CompletionContext`, its output the text so far.
        scorer_names: Further ids of scorers that the app or the agent has.
        strategy: Whether `all` must pass (default), or `any` is enough.
        parallel: Whether they are asked at once (default); else in order, up to the one that decides.
        timeout: Milliseconds that all of them together may take (default 600000).
        suppress_feedback: Marks the feedback so that interfaces do not show it (default False).
        on_complete: Gets the `CompletionResult` of each check.
    """

    scorers: Sequence[Scorer | str]
    scorer_names: Sequence[str]
    strategy: Strategy
    parallel: bool
    timeout: float
    suppress_feedback: bool
    on_complete: Callable[[CompletionResult], object | Awaitable[object]]


_KEYS = spellings(IsTaskCompleteDict.__annotations__)


class TaskCompletion(Struct, frozen=True):
    """See `IsTaskCompleteDict`; `timeout` in ms."""

    scorers: tuple[Scorer | str, ...]
    strategy: Strategy = "all"
    parallel: bool = True
    timeout: float = TIMEOUT_MS
    suppress_feedback: bool = False
    on_complete: Callable[[CompletionResult], Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """What another process can have of it: everything but the scorers' code and `on_complete`."""
        return {
            "scorer_names": [each if isinstance(each, str) else each.id for each in self.scorers],
            "strategy": self.strategy,
            "parallel": self.parallel,
            "timeout": self.timeout,
            "suppress_feedback": self.suppress_feedback,
        }


def read_completion(given: object) -> TaskCompletion:
    """The value of `is_task_complete=`.

    Raises:
        TypeError: A key that is unknown, or a value of the wrong type; there is no scorer.
        ValueError: A timeout that is not above 0.
    """
    said = renamed(mapping(given, "is_task_complete"), _KEYS, "is_task_complete key")
    scorers = (*_listed(said, "scorers", (Scorer, str)), *_listed(said, "scorer_names", (str,)))
    if not scorers:
        message = "is_task_complete= needs at least one scorer: {'scorers': [scorer]}."
        raise TypeError(message)
    strategy, timeout, callback = said.get("strategy") or "all", said.get("timeout"), said.get("on_complete")
    if strategy not in {"all", "any"}:
        message = f"is_task_complete['strategy'] is 'all' or 'any', not {strategy!r}."
        raise TypeError(message)
    if callback is not None and not callable(callback):
        message = f"is_task_complete['on_complete'] takes a function of one argument, not {callback!r}."
        raise TypeError(message)
    return TaskCompletion(
        tuple(scorers),
        strategy,
        _flag(said, "parallel", default=True),
        TIMEOUT_MS if timeout is None else _milliseconds(timeout),
        _flag(said, "suppress_feedback", default=False),
        callback,
    )


def _listed(said: Mapping[str, Any], key: str, kinds: tuple[type, ...]) -> Sequence[Any]:
    given = said.get(key) or ()
    if isinstance(given, (list, tuple)) and all(isinstance(each, kinds) for each in cast("Sequence[Any]", given)):
        return cast("Sequence[Any]", given)
    what = "scorers or their ids" if Scorer in kinds else "ids of scorers"
    message = f"is_task_complete[{key!r}] takes a list of {what}, not {given!r:.100}."
    raise TypeError(message)


def _flag(said: Mapping[str, Any], key: str, *, default: bool) -> bool:
    given = said.get(key)
    if given is None:
        return default
    if not isinstance(given, bool):
        message = f"is_task_complete[{key!r}] takes True or False, not {given!r}."
        raise TypeError(message)
    return given


def _milliseconds(given: Any) -> float:
    if not isinstance(given, (int, float)) or isinstance(given, bool):
        message = f"is_task_complete['timeout'] takes milliseconds, not {given!r}."
        raise TypeError(message)
    if not given > 0:
        message = f"is_task_complete['timeout'] must be above 0 ms, not {given}."
        raise ValueError(message)
    return float(given)


async def check_completion(
    asked: TaskCompletion, scorers: Sequence[Scorer], context: CompletionContext, values: RequestContext, clock: Clock
) -> CompletionResult:
    """Ask `scorers` within the time that `asked` gives them."""
    check = _Check(asked, context, values, clock)
    verdicts = await (check.at_once(scorers) if asked.parallel else check.in_order(scorers))
    passed = [each.passed for each in verdicts]
    match asked.strategy:
        case "all":
            complete = all(passed)
        case "any":
            complete = any(passed)
        case _:
            assert_never(asked.strategy)
    return CompletionResult(complete, tuple(verdicts), check.elapsed, check.timed_out, _reasons(verdicts, complete))


class _Check:
    """One check: its deadline, and what was late."""

    def __init__(self, asked: TaskCompletion, context: CompletionContext, values: RequestContext, clock: Clock) -> None:
        self._asked = asked
        self._context = context
        self._values = values
        self._clock = clock
        self._begun = clock.monotonic()
        self._deadline = asyncio.get_running_loop().time() + asked.timeout / 1000
        self.timed_out: bool = False

    @property
    def elapsed(self) -> float:
        """Milliseconds since it began."""
        return round((self._clock.monotonic() - self._begun) * 1000, 3)

    async def at_once(self, scorers: Sequence[Scorer]) -> list[ScorerVerdict]:
        """All verdicts; a single scorer needs no task."""
        if len(scorers) == 1:
            return [await self._verdict(scorers[0])]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._verdict(scorer)) for scorer in scorers]
        return [task.result() for task in tasks]

    async def in_order(self, scorers: Sequence[Scorer]) -> list[ScorerVerdict]:
        """Verdicts up to the one that decides."""
        verdicts: list[ScorerVerdict] = []
        for scorer in scorers:
            verdicts.append(await self._verdict(scorer))
            if verdicts[-1].passed == (self._asked.strategy == "any"):
                break
        return verdicts

    async def _verdict(self, scorer: Scorer) -> ScorerVerdict:
        before = self.elapsed
        limit = asyncio.timeout_at(self._deadline)
        try:
            async with limit:
                result = await ask_scorer(scorer, self._context, self._context.text, self._values)
        except Exception as error:  # noqa: BLE001 - a user's code, or a judge's model
            return self._failed(scorer, before, error, late=limit.expired())
        if asyncio.get_running_loop().time() >= self._deadline:  # it went on, or held the loop, beyond its time
            return self._failed(scorer, before, TimeoutError(), late=True)
        score = 0.0 if result.score is None else result.score
        return ScorerVerdict(score, score == 1, scorer.id, scorer.name, self._since(before), result.reason)

    def _failed(self, scorer: Scorer, before: float, error: Exception, *, late: bool) -> ScorerVerdict:
        if late:
            self.timed_out = True
            why = f"not done after {self._asked.timeout:g} ms"
            _log.warning("Scorer %r was %s; it counts as not passed.", scorer.id, why)
        else:
            why = valid_text(f"{type(error).__name__}: {message_of(error)}")
            _log.warning("Scorer %r raised; it counts as not passed.", scorer.id, exc_info=error)
        return ScorerVerdict(0.0, False, scorer.id, scorer.name, self._since(before), why, errored=True)

    def _since(self, before: float) -> float:
        return round(self.elapsed - before, 3)


def _reasons(verdicts: Sequence[ScorerVerdict], complete: bool) -> str | None:  # noqa: FBT001 - what was decided
    decisive = [each.reason for each in verdicts if each.passed == complete and each.reason]
    return "; ".join(decisive) or None


def feedback_of(result: CompletionResult, *, last: bool) -> str:
    """What the model is told of a check that was not passed; `last`: there is no further step."""
    passed = sum(each.passed for each in result.scorers)
    lines = [f"The task is not complete yet: {passed} of {len(result.scorers)} checks passed."]
    for each in result.scorers:
        verdict = "passed" if each.passed else "could not be made" if each.errored else f"failed (score {each.score:g})"
        lines.append(f"- {each.scorer_name}: {verdict}" + (f": {each.reason}" if each.reason else ""))
    lines.append("That was the last step." if last else "Go on with the task, and make up for what failed.")
    return "\n".join(lines)
