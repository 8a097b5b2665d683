"""`run_evals`: asks an agent, or a function, many things and scores each answer.

Invariant: every item of the data has a result, in its place; what fails fails by itself. At most `concurrency` items
are under way at once, and none is left when the call ends, however it ends.

Source: `runEvals` of Mastra.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

from tenuto.core.foreign import contained, message_of
from tenuto.core.option_keys import renamed, spellings
from tenuto.core.request_context import as_request_context
from tenuto.evals.progress import Advance, showing
from tenuto.evals.report import EvalItem, EvalReport, EvalResult
from tenuto.evals.sample import ScoringData, text_of
from tenuto.evals.scorer import Scorer, ScorerResult, ask_scorer

_log = logging.getLogger("tenuto")

_KEYS = spellings(EvalItem.__struct_fields__)


@runtime_checkable
class Target(Protocol):
    """What can be evaluated beside a function: an agent."""

    async def generate(self, messages: Any, **options: Any) -> Any:
        """Answer."""
        ...


async def run_evals(
    *,
    target: Target | Callable[[Any], Any],
    data: Iterable[EvalItem | Mapping[str, Any] | str],
    scorers: Sequence[Scorer],
    concurrency: int = 4,
    progress: bool = True,
    on_item: Callable[[EvalResult], object | Awaitable[object]] | None = None,
) -> EvalReport:
    """Ask `target` each item of `data`, and have each answer scored by all `scorers`.

    An agent is asked with `generate`, without its own live scorers; scorers get what live ones get. A function gets
    the item's input and returns the answer. An answer that is missing (the target failed, or waits for a decision) is
    scored by nobody.

    Args:
        target: An agent, or a function, sync or async.
        data: Texts, or mappings with `input` and maybe `ground_truth`, `request_context` and `options` (of `generate`).
        scorers: At least one, each with an id of its own.
        concurrency: Items that are under way at once.
        progress: Whether to show on stderr how far it is.
        on_item: Gets each `EvalResult` when it is there; what it raises is logged.

    Raises:
        TypeError: An item, a target or a scorer that is none.
        ValueError: No scorer, two of one id, or a concurrency below 1.
    """
    items = [_item(given) for given in data]
    _check(target, scorers, concurrency)
    found: list[EvalResult | None] = [None] * len(items)
    left = iter(enumerate(items))
    with showing("evals", len(items), progress=progress) as advance:
        bench = _Bench(target, scorers, found, advance, on_item)
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(items))):
                group.create_task(bench.work(left))
    return EvalReport(tuple(each for each in found if each is not None), tuple(scorer.id for scorer in scorers))


class _Bench:
    """The workers of one evaluation."""

    def __init__(
        self,
        target: Any,
        scorers: Sequence[Scorer],
        found: list[EvalResult | None],
        advance: Advance,
        on_item: Callable[[EvalResult], Any] | None,
    ) -> None:
        self._target = target
        self._scorers = scorers
        self._found = found
        self._advance = advance
        self._on_item = on_item

    async def work(self, left: Iterator[tuple[int, EvalItem]]) -> None:
        """Try items until none is left."""
        for place, item in left:
            result = self._found[place] = await self._tried(place, item)
            self._advance()
            await self._tell(result)

    async def _tried(self, place: int, item: EvalItem) -> EvalResult:
        try:
            with contained():
                data, answer, result = await _answer(self._target, item)
        except Exception as error:  # noqa: BLE001 - whatever the target is
            return EvalResult(place, item, error=_said(error))
        if getattr(result, "finish_reason", None) in {"suspended", "aborted", "tripwire"}:
            why = f"the run ended with {result.finish_reason!r}"
            return EvalResult(place, item, text_of(answer), error=why, result=result)
        scores: dict[str, ScorerResult] = {}
        errors: dict[str, str] = {}
        for scorer in self._scorers:
            try:
                scores[scorer.id] = await _scored(scorer, item, data, answer)
            except Exception as error:  # noqa: BLE001 - a user's code, or a judge's model
                errors[scorer.id] = _said(error)
        return EvalResult(place, item, text_of(answer), scores, errors, None, result)

    async def _tell(self, result: EvalResult) -> None:
        if self._on_item is None:
            return
        try:
            with contained():
                told = self._on_item(result)
                if inspect.isawaitable(told):
                    await told
        except Exception:  # noqa: BLE001 - a user's function
            _log.exception("The callback on_item failed; the evaluation goes on.")


async def _answer(target: Any, item: EvalItem) -> tuple[Any, Any, Any]:
    """What scorers get as input and output, and what the target returned."""
    if isinstance(target, Target):
        asked: dict[str, Any] = {**item.options, "scorers": {}, "return_scorer_data": True}
        if item.request_context is not None:
            asked["request_context"] = item.request_context
        result = await target.generate(item.input, **asked)
        data: ScoringData = result.scoring_data
        return data.input, data.output, result
    result = target(item.input)
    if inspect.isawaitable(result):
        result = await result
    return item.input, result, result


async def _scored(scorer: Scorer, item: EvalItem, input: Any, output: Any) -> ScorerResult:
    context = as_request_context(item.request_context)
    truth = {} if item.ground_truth is None else {"ground_truth": item.ground_truth}
    return await ask_scorer(scorer, input, output, context, **truth)


def _item(given: object) -> EvalItem:
    if isinstance(given, EvalItem):
        return given
    if isinstance(given, str):
        return EvalItem(given)
    if not isinstance(given, Mapping):
        message = f"An item of data= is text or a mapping with 'input', not {type(given).__name__}."
        raise TypeError(message)
    said = renamed(cast("Mapping[str, Any]", given), _KEYS, "key of an item")
    if "input" not in said:
        message = f"An item of data= has no 'input': {given!r:.100}."
        raise TypeError(message)
    return EvalItem(**said)


def _check(target: object, scorers: Sequence[object], concurrency: int) -> None:
    if not (isinstance(target, Target) or callable(target)):
        message = f"target= takes an agent or a function, not {type(target).__name__}."
        raise TypeError(message)
    if wrong := [each for each in scorers if not isinstance(each, Scorer)]:
        message = f"scorers= takes a list of scorers, not of {type(wrong[0]).__name__}."
        raise TypeError(message)
    ids = [each.id for each in cast("Sequence[Scorer]", scorers)]
    if not ids or len(set(ids)) < len(ids):
        message = f"scorers= needs at least one scorer, and each an id of its own; given: {', '.join(ids) or 'none'}."
        raise ValueError(message)
    if concurrency < 1:
        message = f"concurrency= must be at least 1, not {concurrency}."
        raise ValueError(message)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {message_of(error)}"
