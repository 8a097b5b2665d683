"""Answer relevancy: whether the answer speaks of what was asked.

Invariant: the judge divides the answer and gives verdicts; the score is their weighted share, computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tenuto.evals.judging import JudgePrompt, material
from tenuto.evals.pipeline import create_scorer
from tenuto.evals.sample import Sample
from tenuto.evals.scorer import Scorer
from tenuto.evals.words import listed


@dataclass(frozen=True)
class RelevantStatement:
    """A statement of the answer, and whether it helps to answer the question."""

    statement: str
    why: str
    relevant: Literal["yes", "unsure", "no"]


@dataclass(frozen=True)
class Relevance:
    """All statements of the answer, in order."""

    statements: list[RelevantStatement]


def create_answer_relevancy_scorer(*, model: Any, uncertainty_weight: float = 0.3) -> Scorer:
    """How much of the answer is about the question: from 0 (nothing) to 1 (all of it).

    The judge takes the answer apart into statements and says of each whether it helps to answer the question: yes (1),
    unsure (`uncertainty_weight`), no (0). The score is the mean; 0 for an empty answer.

    Args:
        model: The judge.
        uncertainty_weight: What an unsure verdict counts, 0 to 1.

    Source: answer relevance of RAGAS (Es et al. 2023, arXiv:2309.15217), with verdicts on statements in place of
    generated questions, as DeepEval does it; the weight is that of Mastra's scorer.
    """
    weights = {"yes": 1.0, "unsure": uncertainty_weight, "no": 0.0}

    def score(sample: Sample) -> float:
        found = _statements(sample)
        return sum(weights[each.relevant] for each in found) / len(found) if found else 0.0

    return create_scorer(
        id="answer-relevancy",
        name="Answer relevancy",
        description="Share of the answer that is about the question; 1 is best.",
        judge=model,
        analyze=JudgePrompt(_prompt, Relevance),
        score=score,
        reason=_reason,
    )


def _statements(sample: Sample) -> list[RelevantStatement]:
    return [] if sample.analysis is None else sample.analysis.statements


def _prompt(sample: Sample) -> str | None:
    if not sample.output_text.strip():
        return None
    return (
        "Take the answer apart into its statements, each of which says one thing. Say of each whether it helps to "
        "answer the question: 'yes' if it answers a part of it or is needed to understand the answer, 'unsure' if it "
        "may be of use but was not asked for, 'no' if it has nothing to do with the question. Whether a statement is "
        "true does not matter here. An answer without a statement gives an empty list.\n\n"
        + material(question=sample.input_text, answer=sample.output_text)
    )


def _reason(sample: Sample) -> str:
    found = _statements(sample)
    beside = [f"{each.statement!r} ({each.why})" for each in found if each.relevant == "no"]
    if not found:
        return "The answer says nothing."
    relevant = sum(each.relevant == "yes" for each in found)
    text = f"{relevant} of {len(found)} statements are about the question."
    return f"{text} Beside it: {listed(beside, 3)}" if beside else text
