"""Scorers that compare words and characters, without a model: keyword coverage, content similarity.

Invariant: the same texts give the same score, from 0 to 1, in any script and for empty texts too.
"""

from __future__ import annotations

from tenuto.evals.pipeline import create_scorer
from tenuto.evals.sample import Sample
from tenuto.evals.scorer import Scorer
from tenuto.evals.words import dice, keywords, listed, normal, squeezed, words


def create_keyword_coverage_scorer(*, keywords: list[str] | tuple[str, ...] | None = None) -> Scorer:
    """How many of the keywords occur in the answer: from 0 (none) to 1 (all); 1 where there are no keywords.

    The keywords are `keywords`, else the content words of the right answer (`ground_truth`), else those of the
    question. A keyword of several words counts when all of them occur.

    Source: recall over a set of terms; function words are left out.
    """
    wanted = None if keywords is None else tuple(keywords)
    return create_scorer(
        id="keyword-coverage",
        name="Keyword coverage",
        description="Share of the keywords that occur in the answer; 1 is best.",
        preprocess=lambda sample: _found(sample, wanted),
        score=lambda sample: _share(len(sample.preprocessed["found"]), len(sample.preprocessed["missing"])),
        reason=_covered,
    )


def _found(sample: Sample, given: tuple[str, ...] | None) -> dict[str, list[str]]:
    source = sample.truth_text or sample.input_text
    wanted = keywords(source) if given is None else list(dict.fromkeys(given))
    there = set(words(sample.output_text))
    found = [word for word in wanted if set(words(word)) <= there]
    return {"found": found, "missing": [word for word in wanted if word not in found]}


def _share(found: int, missing: int) -> float:
    return found / (found + missing) if found + missing else 1.0


def _covered(sample: Sample) -> str:
    missing = sample.preprocessed["missing"]
    count = len(missing) + len(sample.preprocessed["found"])
    if not missing:
        return f"All {count} keywords occur." if count else "There are no keywords."
    return f"{count - len(missing)} of {count} keywords occur; missing: {listed(missing)}."


def create_content_similarity_scorer(*, ignore_case: bool = True, ignore_whitespace: bool = True) -> Scorer:
    """How alike the answer and the right answer are as texts: from 0 (no pair of characters shared) to 1 (equal).

    The answer is compared with `ground_truth`, or with the question where there is none.

    Args:
        ignore_case: Whether case does not count (nor other differences that Unicode holds for none).
        ignore_whitespace: Whether white space does not count.

    Source: the coefficient of Dice (1945) and Sørensen (1948) on character bigrams.
    """

    def kept(text: str) -> str:
        text = normal(text) if ignore_case else text
        return squeezed(text) if ignore_whitespace else text

    def score(sample: Sample) -> float:
        other = sample.input_text if sample.ground_truth is None else sample.truth_text
        return dice(kept(sample.output_text), kept(other))

    return create_scorer(
        id="content-similarity",
        name="Content similarity",
        description="How alike the answer and the expected one are, character by character; 1 is equal.",
        score=score,
        reason=lambda sample: f"The texts share {sample.score or 0:.0%} of their pairs of characters.",
    )
