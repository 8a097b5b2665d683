"""Completeness: whether the answer takes up everything that was asked for.

Invariant: from 0 to 1 with and without a model; a question that asks for nothing is answered completely.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tenuto.evals.judging import JudgePrompt, material
from tenuto.evals.pipeline import create_scorer
from tenuto.evals.sample import Sample
from tenuto.evals.scorer import Scorer
from tenuto.evals.words import keywords, listed, stem, words


@dataclass(frozen=True)
class Point:
    """Something that was asked for."""

    point: str
    why: str
    answered: bool


@dataclass(frozen=True)
class Points:
    """Everything that was asked for, in order."""

    points: list[Point]


def create_completeness_scorer(*, model: Any = None) -> Scorer:
    """How much of what was asked for the answer takes up: from 0 (nothing) to 1 (everything).

    Without a model: the share of the question's content words that the answer takes up, endings apart. With one: the
    judge lists the points that were asked for and says of each whether it is answered.

    Args:
        model: The judge, if there is to be one.

    Source: coverage of the input's elements, as in Mastra's scorer; with a judge, of its requested points.
    """
    return create_scorer(
        id="completeness",
        name="Completeness",
        description="Share of what was asked for that the answer takes up; 1 is best.",
        judge=model,
        analyze=_points if model is None else JudgePrompt(_prompt, Points),
        score=_share,
        reason=_reason,
    )


def _points(sample: Sample) -> Points:
    there = {stem(word) for word in words(sample.output_text)}
    return Points([Point(word, "", stem(word) in there) for word in keywords(sample.input_text)])


def _prompt(sample: Sample) -> str | None:
    if not sample.input_text.strip():
        return None
    return (
        "List the points that the request asks for, each by itself: every question, every thing to be delivered, every "
        "condition on it. Say of each whether the answer gives it; half an answer is none. Whether it is right does "
        "not matter here. A request that asks for nothing gives an empty list.\n\n"
        + material(request=sample.input_text, answer=sample.output_text)
    )


def _all(sample: Sample) -> list[Point]:
    return [] if sample.analysis is None else sample.analysis.points


def _share(sample: Sample) -> float:
    found = _all(sample)
    return sum(each.answered for each in found) / len(found) if found else 1.0


def _reason(sample: Sample) -> str:
    found = _all(sample)
    missing = [repr(each.point) for each in found if not each.answered]
    if not found:
        return "Nothing was asked for."
    text = f"{len(found) - len(missing)} of {len(found)} points are taken up."
    return f"{text} Missing: {listed(missing)}" if missing else text
