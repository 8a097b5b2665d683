"""What an agent is, as a driver sees it; its runs share it.

Invariant: it is what was given to the agent, checked; nothing of it is resolved before a run asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tenuto.evals.scorer import Scorer
    from tenuto.steps.candidates import Candidate
    from tenuto.tools.approval import ApprovalPolicy
    from tenuto.tools.toolbox import Toolbox


class _Unset:
    def __repr__(self) -> str:
        return "..."


UNSET: Any = _Unset()
"""Stands for a parameter that was not given, where None means something."""


class Definition(Struct, frozen=True):
    """What an agent is, as a driver sees it; values may be callables of the request context."""

    id: str
    name: str
    model: Any
    instructions: Any = ""
    tools: Any = None
    deps: Any = UNSET
    request_context_schema: Any = None
    abort_grace: float = 5.0
    require_tool_approval: ApprovalPolicy = False
    max_retries: int | None = None
    hooks: Any = None
    transform: Any = None
    agents: Any = None
    input_processors: Any = None
    output_processors: Any = None
    error_processors: Any = None
    max_processor_retries: Any = None
    scorers: Any = None
    app_scorers: Mapping[str, Scorer] = {}
    memory: Any = None
    app: Any = None
    resolved: dict[str, tuple[Candidate, ...]] = {}
    """The models, once a run has resolved them; empty for dynamic ones."""

    delegates: dict[str, Toolbox] = {}
    """The tools with those of the sub-agents, once a run has put them together; empty for dynamic ones."""

    def __repr__(self) -> str:
        """The id alone: a model record may hold a key, and dependencies anything."""
        return f"Definition({self.id!r})"
