"""What differs between Google's models, told by their names.

Invariant: a model that no rule knows is taken for the newest kind, since new names come more often than old ones.

Source: Gemini API guides "Thinking", "Gemini 3", "Function calling", "OpenAI compatibility" (budgets of the efforts).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_BUDGETS = {"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576}
_LEVELS = {"none": "minimal", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high", "xhigh": "high"}
_LEAST_OF_PRO = 128


class Family(Struct, frozen=True):
    """One kind of model.

    Attributes:
        version: Of Gemini, such as (2, 5).
        gemma: An open model: no instructions apart, no thinking.
        pro: The largest of its version, which cannot stop thinking.
    """

    version: tuple[int, int] = (3, 0)
    gemma: bool = False
    pro: bool = False

    @property
    def signed(self) -> bool:
        """Refuses calls without a signature; combines functions with Google's tools, and with JSON answers."""
        return self.version >= (3, 0) and not self.gemma

    @property
    def penalties(self) -> bool:
        """Has presence and frequency penalties."""
        return self.version != (2, 5)


def family_of(model_id: str) -> Family:
    """The family of a model."""
    name = model_id.rpartition("/")[2].lower()
    if name.startswith("gemma-"):
        return Family(gemma=True)
    found = _VERSION.match(name)
    version = (int(found[1]), int(found[2] or 0)) if found else (3, 0)
    return Family(version, pro="pro" in name.split("-"))


def thinking(effort: str, family: Family) -> Mapping[str, Any] | str:
    """The `thinkingConfig` for an effort, or why there is none."""
    if effort not in _LEVELS:
        return f"The effort {effort!r} is none of {', '.join(_LEVELS)}."
    if family.gemma or family.version < (2, 5):
        return "This model does not think."
    if family.version >= (3, 0):
        level = _LEVELS[effort]
        return {"thinkingLevel": "low" if level == "minimal" and family.pro else level}
    if effort == "none":
        return {"thinkingBudget": _LEAST_OF_PRO if family.pro else 0}
    return {"thinkingBudget": _BUDGETS[effort]}
