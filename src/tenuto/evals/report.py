"""What `run_evals` found: every item with its answer and its scores, and what they come to for each scorer.

Invariant: values only; an item that failed has no scores, a scorer that failed on an item has an error there, and
neither is counted as a score of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tenuto.evals.scorer import ScorerResult


class EvalItem(Struct, frozen=True):
    """Something to try.

    Attributes:
        input: What the target is asked: text or messages.
        ground_truth: A right answer, for scorers that look at one.
        request_context: Values of the request.
        options: Further options of this call.
    """

    input: Any
    ground_truth: Any = None
    request_context: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = {}


class EvalResult(Struct, frozen=True):
    """What came of one item.

    Attributes:
        place: Of the item in the data, from 0.
        text: The answer as text.
        scores: By scorer id.
        errors: By scorer id, why it could not score this answer.
        error: Why there is no answer.
        result: What the target returned: a `Result`, or the value of a function.
    """

    place: int
    item: EvalItem
    text: str = ""
    scores: Mapping[str, ScorerResult] = {}
    errors: Mapping[str, str] = {}
    error: str | None = None
    result: Any = None


class ScoreSummary(Struct, frozen=True):
    """The scores of one scorer; without any, the three figures are None.

    Attributes:
        scored: How many answers have a score.
        unscored: How many it had nothing to say of.
        failed: How many it failed on.
    """

    mean: float | None
    least: float | None
    greatest: float | None
    scored: int
    unscored: int
    failed: int


class EvalReport(Struct, frozen=True):
    """What `run_evals` returns; `print` shows it as a table.

    Attributes:
        items: In the order of the data.
        scorers: The ids of the scorers, in their order.
    """

    items: tuple[EvalResult, ...]
    scorers: tuple[str, ...]

    @property
    def failed(self) -> tuple[EvalResult, ...]:
        """The items without an answer."""
        return tuple(each for each in self.items if each.error is not None)

    @property
    def summary(self) -> Mapping[str, ScoreSummary]:
        """By scorer id."""
        return {scorer: _summed(scorer, self.items) for scorer in self.scorers}

    @property
    def means(self) -> Mapping[str, float | None]:
        """The mean score by scorer id; None where there is no score."""
        return {scorer: each.mean for scorer, each in self.summary.items()}

    def table(self) -> str:
        """The summary as text: a line for each scorer."""
        head = ("scorer", "mean", "min", "max", "scored", "not scored", "failed")
        rows = [head, *(_row(scorer, each) for scorer, each in self.summary.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
        lines = ["  ".join(_aligned(row, widths)).rstrip() for row in rows]
        lines.insert(1, "  ".join("-" * width for width in widths))
        count = f"{len(self.items)} item{'' if len(self.items) == 1 else 's'}"
        return "\n".join([*lines, "", f"{count}, {len(self.failed)} without an answer"])

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values: texts, scores and errors, without what targets returned."""
        return {
            "summary": {scorer: _plain_summary(each) for scorer, each in self.summary.items()},
            "items": [_plain(each) for each in self.items],
        }

    def __str__(self) -> str:
        return self.table()


def _summed(scorer: str, items: Sequence[EvalResult]) -> ScoreSummary:
    given = [each.scores[scorer].score for each in items if scorer in each.scores]
    scores = [score for score in given if score is not None]
    failed = sum(scorer in each.errors for each in items)
    if not scores:
        return ScoreSummary(None, None, None, 0, len(given), failed)
    mean = sum(scores) / len(scores)
    return ScoreSummary(mean, min(scores), max(scores), len(scores), len(given) - len(scores), failed)


def _row(scorer: str, each: ScoreSummary) -> tuple[str, ...]:
    figures = (each.mean, each.least, each.greatest)
    return (
        scorer,
        *("-" if figure is None else f"{figure:.3f}" for figure in figures),
        str(each.scored),
        str(each.unscored),
        str(each.failed),
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The name to the left, figures to the right."""
    return [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]


def _plain_summary(each: ScoreSummary) -> dict[str, Any]:
    return {
        "mean": each.mean,
        "min": each.least,
        "max": each.greatest,
        "scored": each.scored,
        "notScored": each.unscored,
        "failed": each.failed,
    }


def _plain(each: EvalResult) -> dict[str, Any]:
    scores = {
        scorer: {"score": said.score, "reason": said.reason, "metadata": dict(said.metadata)}
        for scorer, said in each.scores.items()
    }
    return {"place": each.place, "text": each.text, "scores": scores, "errors": dict(each.errors), "error": each.error}
