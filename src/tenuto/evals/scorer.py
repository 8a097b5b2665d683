"""`Scorer`: gives an answer a number, and says why.

Invariant: a scorer keeps nothing from one answer to the next; what it says of an answer changes nothing about it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.errors import ConfigurationError
from tenuto.core.foreign import contained
from tenuto.core.payloads import Json, wire_name
from tenuto.core.request_context import RequestContext
from tenuto.messages.bounded import valid_text


class ScorerResult(Struct, frozen=True, omit_defaults=True, rename=wire_name):
    """What a scorer says of an answer.

    Attributes:
        score: On the scorer's scale; None: it has nothing to say of this answer, and nothing is stored.
        reason: Why, for people.
        metadata: JSON: what the scorer's steps found, and the `usage` of the models it asked.
    """

    score: float | None
    reason: str | None = None
    metadata: Mapping[str, Json] = {}


class Scorer(ABC):
    """Something that scores answers: made by `create_scorer`, or a class of your own with `run`.

    Args:
        id: Names it in stored scores and wherever it is looked up.
        name: For people; default: `id`.
        description: For people.

    Raises:
        ConfigurationError: `SCORER_ID_REQUIRED`.
    """

    def __init__(self, id: str, name: str | None = None, description: str = "") -> None:
        if not id or not isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a user's value
            message = f"A scorer needs id= as text, not {id!r}."
            raise ConfigurationError(message, id="SCORER_ID_REQUIRED")
        self.id: str = id
        self.name: str = name or id
        self.description: str = description

    @abstractmethod
    async def run(
        self,
        input: Any,
        output: Any,
        request_context: RequestContext | Mapping[str, Any] | None = None,
        *,
        ground_truth: Any = None,
    ) -> ScorerResult:
        """Score one answer.

        Args:
            input: What was asked: text, a `ScorerInput`, a `CompletionContext`, or what this scorer understands.
            output: The answer: text, stored messages, or what this scorer understands.
            request_context: Values of the request.
            ground_truth: A right answer, where there is one.

        Returns:
            The score; one without a score when this answer cannot be scored.
        """
        ...

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"


async def ask_scorer(
    scorer: Scorer,
    input: Any,
    output: Any,
    request_context: RequestContext | Mapping[str, Any] | None = None,
    **truth: Any,
) -> ScorerResult:
    """What the scorer says of an answer, in a form that can be stored; see `Scorer.run`.

    Raises:
        TypeError: It returned something else than a `ScorerResult` with a number for a score, or with none.
    """
    with contained():
        result: Any = await scorer.run(input, output, request_context, **truth)
    if not isinstance(result, ScorerResult):
        message = f"Scorer {scorer.id!r} returned {type(result).__name__}; run() returns a ScorerResult."
        raise TypeError(message)
    score: Any = result.score
    if score is not None and not (isinstance(score, (int, float)) and math.isfinite(score)):
        message = f"Scorer {scorer.id!r} gave the score {score!r}; a score is a finite number, or None."
        raise TypeError(message)
    reason: Any = result.reason
    return result if reason is None else replace(result, reason=valid_text(str(reason)))
