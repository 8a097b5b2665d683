"""`create_scorer`: a scorer made of up to four steps, each done by a function or by a model.

Invariant: the steps run in the order `preprocess`, `analyze`, `score`, `reason`, each sees what the ones before it
found, and a score is a finite number; what a step raises is what `run` raises.

Source: the four steps of Mastra's `createScorer`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json, Usage
from tenuto.core.request_context import RequestContext, as_request_context
from tenuto.evals.judging import INSTRUCTIONS, Judge, JudgePrompt, check_judge
from tenuto.evals.sample import Sample
from tenuto.evals.scorer import Scorer, ScorerResult

Step = Callable[[Sample], Any] | JudgePrompt
Reason = Callable[[Sample], str | Awaitable[str | None] | None] | JudgePrompt

_SCORE: Mapping[str, Any] = {
    "schema": {
        "title": "score",
        "type": "object",
        "properties": {
            "reason": {"type": "string", "description": "Why, in a sentence or two."},
            "score": {"type": "number", "description": "From 0 to 1."},
        },
        "required": ["reason", "score"],
        "additionalProperties": False,
    }
}
"""What a judge is asked for where it gives the score itself; the reason first, so that the score follows from it."""


def create_scorer(
    *,
    id: str,
    name: str | None = None,
    description: str = "",
    score: Step,
    reason: Reason | None = None,
    preprocess: Step | None = None,
    analyze: Step | None = None,
    judge: Any = None,
    instructions: str = INSTRUCTIONS,
) -> Scorer:
    """Make a scorer.

    A step is a function of a `Sample`, sync or async, or a `JudgePrompt`, which a model answers.

    Args:
        id: Names it in stored scores and wherever it is looked up.
        name: For people; default: `id`.
        description: For people.
        score: Gives the score: a number, True (1) or False (0), or None where this answer cannot be scored.
        reason: Says why, for people; it sees `sample.score`.
        preprocess: Runs first; what it returns is `sample.preprocessed` for the others.
        analyze: Runs next; what it returns is `sample.analysis`.
        judge: The model for the steps that are a `JudgePrompt`: `"provider/model"`, a record or a model.
        instructions: What the judge is told first.

    Raises:
        ConfigurationError: A step is neither, or there is nobody to judge.
    """
    steps = {"preprocess": preprocess, "analyze": analyze, "score": score, "reason": reason}
    scorer = StepScorer(id, name, description, steps, Judge(judge, instructions))
    for step, given in steps.items():
        if isinstance(given, JudgePrompt):
            check_judge(id, given, judge)
        elif given is not None and not callable(given):
            message = f"{step}= of scorer {id!r} takes a function or a JudgePrompt, not {type(given).__name__}."
            raise ConfigurationError(message, id="SCORER_STEP_INVALID")
    if score is None:
        message = f"Scorer {id!r} needs score=: a function of the sample, or a JudgePrompt."
        raise ConfigurationError(message, id="SCORER_STEP_INVALID")
    return scorer


class StepScorer(Scorer):
    """A scorer made of steps; see `create_scorer`."""

    def __init__(
        self, id: str, name: str | None, description: str, steps: Mapping[str, Step | Reason | None], judge: Judge
    ) -> None:
        super().__init__(id, name, description)
        self._steps = steps
        self._judge = judge

    async def run(
        self,
        input: Any,
        output: Any,
        request_context: RequestContext | Mapping[str, Any] | None = None,
        *,
        ground_truth: Any = None,
    ) -> ScorerResult:
        """See `Scorer.run`.

        Raises:
            ConfigurationError: `SCORER_SCORE_INVALID`: the step `score` gave no finite number.
            ModelError: A judge could not be asked.
            OutputInvalid: A judge's answer does not fit.
        """
        context = as_request_context(request_context)
        work = _Work(self, self._judge, Sample(input, output, ground_truth, context))
        if (step := self._steps["preprocess"]) is not None:
            work.sample = replace(work.sample, preprocessed=await work.do("preprocess", step))
        if (step := self._steps["analyze"]) is not None:
            work.sample = replace(work.sample, analysis=await work.do("analyze", step))
        score, why = await work.score(self._steps["score"])
        if score is not None and (step := self._steps["reason"]) is not None:
            work.sample = replace(work.sample, score=score)
            why = await work.do("reason", step, str)
        return ScorerResult(score, None if why is None else str(why), work.metadata)


class _Work:
    """One answer being scored: what is known of it, and what it took."""

    def __init__(self, scorer: Scorer, judge: Judge, sample: Sample) -> None:
        self.sample: Sample = sample
        self._scorer = scorer
        self._judge = judge
        self._found: dict[str, Json] = {}
        self._usage: Usage | None = None

    async def do(self, name: str, step: Any, schema: Any = None) -> Any:
        """What the step gives, and a note of it when JSON can hold it."""
        if isinstance(step, JudgePrompt):
            asked = await self._judge.ask(step, self.sample, schema)
            if asked is None:
                return None
            self._usage = asked.usage if self._usage is None else self._usage + asked.usage
            self._note(name, asked.value)
            return asked.object
        given = step(self.sample)
        if inspect.isawaitable(given):
            given = await given
        self._note(name, given)
        return given

    async def score(self, step: Any) -> tuple[float | None, str | None]:
        """The score, and the reason that a judge gave with it."""
        if isinstance(step, JudgePrompt) and step.schema is None:
            said: Mapping[str, Any] | None = await self.do("score", step, _SCORE)
            if said is None:
                return None, None
            score = self._number(said["score"])
            if not 0 <= score <= 1:
                raise self._invalid(f"{score!r}, which is not from 0 to 1")
            return score, str(said["reason"])
        given = await self.do("score", step)
        return (None if given is None else self._number(given)), None

    @property
    def metadata(self) -> dict[str, Json]:
        """What the steps found, but for what the result says itself."""
        kept = {name: value for name, value in self._found.items() if name in {"preprocess", "analyze"}}
        usage = {} if self._usage is None else {"usage": msgspec.to_builtins(self._usage)}
        return {**kept, **usage}

    def _note(self, name: str, value: Any) -> None:
        with contextlib.suppress(TypeError, ValueError, RecursionError, OverflowError):
            self._found[name] = msgspec.json.decode(msgspec.json.encode(value))

    def _number(self, given: Any) -> float:
        if not isinstance(given, (int, float)):
            raise self._invalid(f"{given!r}, which is no number")
        if not math.isfinite(given):
            raise self._invalid(f"{given!r}")
        return float(given)

    def _invalid(self, what: str) -> ConfigurationError:
        message = f"The step score of scorer {self._scorer.id!r} gave {what}; return a number, or None if it has none."
        return ConfigurationError(message, id="SCORER_SCORE_INVALID")
