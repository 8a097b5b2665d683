"""Tool-call accuracy: whether the answer came about by the right tools, checked by code or by a judge.

Invariant: what is scored is which tools were called and in what order; whether they succeeded is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenuto.core import codec
from tenuto.core.errors import ConfigurationError
from tenuto.evals.judging import JudgePrompt, material
from tenuto.evals.pipeline import create_scorer
from tenuto.evals.sample import Sample
from tenuto.evals.scorer import Scorer
from tenuto.evals.words import listed


@dataclass(frozen=True)
class JudgedCall:
    """A call, by its place from 1, and whether it was right to make it."""

    call: int
    why: str
    appropriate: bool


@dataclass(frozen=True)
class JudgedCalls:
    """A verdict on every call, and the tools that should have been called and were not."""

    calls: list[JudgedCall]
    missing: list[str]


def create_tool_call_accuracy_scorer_code(
    *, expected_tool: str | None = None, expected_order: Sequence[str] | None = None, strict: bool = False
) -> Scorer:
    """Whether the expected tools were called: 1 (yes) or 0 (no).

    Args:
        expected_tool: This tool is among those called.
        expected_order: These tools were called in this order; others may come between.
        strict: Nothing else was called: one call of `expected_tool`, or exactly `expected_order`.

    Raises:
        ConfigurationError: `SCORER_TOOL_REQUIRED`: not exactly one of the two is given.

    Source: the checks of Mastra's scorer of this name.
    """
    if (expected_tool is None) == (expected_order is None):
        message = "Give expected_tool= or expected_order=, one of them."
        raise ConfigurationError(message, id="SCORER_TOOL_REQUIRED")
    wanted = (expected_tool,) if expected_tool is not None else tuple(expected_order or ())

    def fits(sample: Sample) -> bool:
        called = [call.tool_name for call in sample.tool_calls]
        return called == list(wanted) if strict else _in_order(wanted, called)

    return create_scorer(
        id="tool-call-accuracy",
        name="Tool-call accuracy",
        description="Whether the expected tools were called; 1 is yes.",
        score=fits,
        reason=lambda sample: f"Expected {listed(map(str, wanted))}; called {listed(_names(sample)) or 'nothing'}.",
    )


def create_tool_call_accuracy_scorer_llm(*, model: Any, available_tools: Sequence[Mapping[str, str]]) -> Scorer:
    """How many of the calls made or needed were right: from 0 (none) to 1 (all; or none was needed and none made).

    Args:
        model: The judge.
        available_tools: The tools there were, each with its `id` (or `name`) and `description`.

    Source: the judged form of Mastra's scorer of this name; tools that were needed and not called count as wrong ones.
    """
    offered = "\n".join(
        f"- {each.get('id') or each['name']}: {each.get('description', '')}" for each in available_tools
    )

    def prompt(sample: Sample) -> str:
        made = [f"{place}. {call.tool_name}({_args(call.args)})" for place, call in enumerate(sample.tool_calls, 1)]
        return (
            "An assistant with the tools below was given a request. Say of each call it made whether that call was "
            "right: it serves the request, its tool is the fitting one of those offered, and the assistant had no "
            "better way. Then name the tools that the request needed and that were not called.\n\n"
            + material(tools=offered, request=sample.input_text, calls="\n".join(made) or "(none)")
        )

    return create_scorer(
        id="tool-call-accuracy-judged",
        name="Tool-call accuracy (judged)",
        description="Share of the calls made or needed that were right; 1 is best.",
        judge=model,
        analyze=JudgePrompt(prompt, JudgedCalls),
        score=_share,
        reason=_reason,
    )


def _in_order(wanted: Sequence[str], called: Sequence[str]) -> bool:
    left = iter(called)
    return all(any(name == each for each in left) for name in wanted)


def _names(sample: Sample) -> list[str]:
    return [call.tool_name for call in sample.tool_calls]


def _args(args: Any) -> str:
    return "" if args is None else codec.encode(args).decode()


def _right(sample: Sample) -> set[int]:
    """Places of the calls that were right; a verdict on no call, or a second one on the same, does not count."""
    wrong = {each.call for each in sample.analysis.calls if not each.appropriate}
    return {each.call for each in sample.analysis.calls} & set(range(1, len(sample.tool_calls) + 1)) - wrong


def _share(sample: Sample) -> float:
    needed = len(sample.tool_calls) + len(sample.analysis.missing)
    return len(_right(sample)) / needed if needed else 1.0


def _reason(sample: Sample) -> str:
    calls, right, missing = sample.tool_calls, _right(sample), sample.analysis.missing
    why = {each.call: each.why for each in sample.analysis.calls}
    wrong = [
        f"{call.tool_name} ({why.get(place) or 'no verdict'})"
        for place, call in enumerate(calls, 1)
        if place not in right
    ]
    text = f"{len(right)} of {len(calls)} calls were right."
    text = f"{text} Wrong: {listed(wrong, 3)}." if wrong else text
    return f"{text} Not called: {listed(missing)}." if missing else text
