"""`Scorer`: gives an answer a number, and says why.

Invariant: a scorer keeps nothing from one answer to the next; what it says of an answer changes nothing about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json, wire_name
from tenuto.core.request_context import RequestContext


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
