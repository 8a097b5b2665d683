"""Faithfulness and hallucination: what of the answer its sources carry.

Invariant: both ask the same question about the same claims; a claim that the answer itself calls uncertain is neither
faithful nor hallucinated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tenuto.evals.judging import JudgePrompt, material
from tenuto.evals.pipeline import create_scorer
from tenuto.evals.sample import Sample, text_of
from tenuto.evals.scorer import Scorer
from tenuto.evals.words import listed

Context = Sequence[str] | Callable[[Sample], Sequence[str]] | None


@dataclass(frozen=True)
class Claim:
    """Something the answer says is so."""

    claim: str
    why: str
    verdict: Literal["supported", "contradicted", "unsupported", "hedged"]


@dataclass(frozen=True)
class Claims:
    """All claims of the answer, in order."""

    claims: list[Claim]


def create_faithfulness_scorer(*, model: Any, context: Context = None) -> Scorer:
    """How much of what the answer claims follows from its sources: from 0 (nothing) to 1 (all, or it claims nothing).

    Args:
        model: The judge.
        context: The sources, or a function of the sample that gives them. Default: what the answer's tools returned.
            An answer without sources cannot be scored.

    Source: faithfulness of RAGAS (Es et al. 2023, arXiv:2309.15217): supported claims over all claims; here they are
    found and judged in one request.
    """
    return create_scorer(
        id="faithfulness",
        name="Faithfulness",
        description="Share of the answer's claims that follow from its sources; 1 is best.",
        judge=model,
        preprocess=lambda sample: list(_sources(sample, context)),
        analyze=JudgePrompt(_prompt, Claims),
        score=lambda sample: _share(sample, {"supported"}, empty=1.0),
        reason=lambda sample: _reason(sample, "follow from the sources", {"supported"}),
    )


def create_hallucination_scorer(*, model: Any, context: Context = None) -> Scorer:
    """How much of what the answer claims its sources contradict or do not hold: from 0 (nothing, the best) to 1 (all).

    Args:
        model: The judge.
        context: See `create_faithfulness_scorer`.

    Source: intrinsic and extrinsic hallucination (Ji et al. 2023, arXiv:2202.03629) counted over claims as in RAGAS.
    """
    return create_scorer(
        id="hallucination",
        name="Hallucination",
        description="Share of the answer's claims that its sources contradict or do not hold; 0 is best.",
        judge=model,
        preprocess=lambda sample: list(_sources(sample, context)),
        analyze=JudgePrompt(_prompt, Claims),
        score=lambda sample: _share(sample, {"contradicted", "unsupported"}, empty=0.0),
        reason=lambda sample: _reason(sample, "are not carried by the sources", {"contradicted", "unsupported"}),
    )


def _sources(sample: Sample, context: Context) -> Sequence[str]:
    if context is None:
        return sample.tool_results
    given = context(sample) if callable(context) else context
    return [text_of(each) for each in given]


def _prompt(sample: Sample) -> str | None:
    if not sample.preprocessed or not sample.output_text.strip():
        return None
    sources = "\n\n".join(f"[{place}] {text}" for place, text in enumerate(sample.preprocessed, 1))
    return (
        "List every claim of fact that the answer makes, each by itself. Say of each how the sources stand to it: "
        "'supported' if it follows from them, 'contradicted' if they say otherwise, 'unsupported' if they do not speak "
        "of it, whether or not it is true, 'hedged' if the answer itself says that it is unsure of it. Questions, "
        "greetings and opinions are no claims. An answer that claims nothing gives an empty list.\n\n"
        + material(sources=sources, answer=sample.output_text)
    )


def _share(sample: Sample, verdicts: set[str], *, empty: float) -> float | None:
    if not sample.preprocessed:
        return None
    claims: Sequence[Claim] = () if sample.analysis is None else sample.analysis.claims
    return sum(each.verdict in verdicts for each in claims) / len(claims) if claims else empty


def _reason(sample: Sample, what: str, verdicts: set[str]) -> str:
    claims: Sequence[Claim] = () if sample.analysis is None else sample.analysis.claims
    if not claims:
        return "The answer claims nothing."
    count = sum(each.verdict in verdicts for each in claims)
    wrong = [f"{each.claim!r} ({each.why})" for each in claims if each.verdict in {"contradicted", "unsupported"}]
    text = f"{count} of {len(claims)} claims {what}."
    return f"{text} Not carried: {listed(wrong, 3)}" if wrong else text
