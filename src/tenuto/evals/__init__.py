"""Scorers: what they are made of, those that are shipped, and `run_evals`, which tries an agent on many inputs.

Invariant: importing this costs next to nothing; each name is loaded when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tenuto.evals.batch import run_evals
    from tenuto.evals.builtins.completeness import create_completeness_scorer
    from tenuto.evals.builtins.grounding import create_faithfulness_scorer, create_hallucination_scorer
    from tenuto.evals.builtins.harm import create_bias_scorer, create_toxicity_scorer
    from tenuto.evals.builtins.relevancy import create_answer_relevancy_scorer
    from tenuto.evals.builtins.text import create_content_similarity_scorer, create_keyword_coverage_scorer
    from tenuto.evals.builtins.tool_calls import (
        create_tool_call_accuracy_scorer_code,
        create_tool_call_accuracy_scorer_llm,
    )
    from tenuto.evals.completion import CompletionResult, IsTaskCompleteDict
    from tenuto.evals.declared import SamplingDict, ScorerDict
    from tenuto.evals.judging import JudgePrompt
    from tenuto.evals.pipeline import create_scorer
    from tenuto.evals.report import EvalItem, EvalReport, EvalResult, ScoreSummary
    from tenuto.evals.sample import CompletionContext, Sample, ScorerInput, ScoringData
    from tenuto.evals.scorer import Scorer, ScorerResult

__all__ = [
    "CompletionContext",
    "CompletionResult",
    "EvalItem",
    "EvalReport",
    "EvalResult",
    "IsTaskCompleteDict",
    "JudgePrompt",
    "Sample",
    "SamplingDict",
    "ScoreSummary",
    "Scorer",
    "ScorerDict",
    "ScorerInput",
    "ScorerResult",
    "ScoringData",
    "create_answer_relevancy_scorer",
    "create_bias_scorer",
    "create_completeness_scorer",
    "create_content_similarity_scorer",
    "create_faithfulness_scorer",
    "create_hallucination_scorer",
    "create_keyword_coverage_scorer",
    "create_scorer",
    "create_tool_call_accuracy_scorer_code",
    "create_tool_call_accuracy_scorer_llm",
    "create_toxicity_scorer",
    "run_evals",
]

_WHERE = {
    "CompletionContext": "sample",
    "CompletionResult": "completion",
    "EvalItem": "report",
    "EvalReport": "report",
    "EvalResult": "report",
    "IsTaskCompleteDict": "completion",
    "JudgePrompt": "judging",
    "Sample": "sample",
    "SamplingDict": "declared",
    "ScoreSummary": "report",
    "Scorer": "scorer",
    "ScorerDict": "declared",
    "ScorerInput": "sample",
    "ScorerResult": "scorer",
    "ScoringData": "sample",
    "create_answer_relevancy_scorer": "builtins.relevancy",
    "create_bias_scorer": "builtins.harm",
    "create_completeness_scorer": "builtins.completeness",
    "create_content_similarity_scorer": "builtins.text",
    "create_faithfulness_scorer": "builtins.grounding",
    "create_hallucination_scorer": "builtins.grounding",
    "create_keyword_coverage_scorer": "builtins.text",
    "create_scorer": "pipeline",
    "create_tool_call_accuracy_scorer_code": "builtins.tool_calls",
    "create_tool_call_accuracy_scorer_llm": "builtins.tool_calls",
    "create_toxicity_scorer": "builtins.harm",
    "run_evals": "batch",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first asked for."""
    if name not in _WHERE:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
