"""A summariser that is not done before its summary is short enough and keeps the names, and that is tried on texts.

python examples/evaluated_summariser.py                       # a small model on this computer
python examples/evaluated_summariser.py openai/gpt-5-mini     # a better one, with its key in OPENAI_API_KEY
"""

import asyncio
import sys
from typing import Any

from tenuto import Agent
from tenuto.evals import (
    EvalReport,
    EvalResult,
    Sample,
    Scorer,
    create_keyword_coverage_scorer,
    create_scorer,
    run_evals,
)

WORDS = 30

TEXTS = [
    {
        "input": "The Rhine rises in the Swiss Alps, forms Lake Constance on the border with Germany and Austria, "
        "turns north at Basel, passes Cologne and reaches the North Sea in the Netherlands near Rotterdam, after "
        "1,230 kilometres. More goods are carried on it than on any other river of Europe.",
        "ground_truth": "Rhine Alps Basel Rotterdam",
    },
    {
        "input": "Ada Lovelace translated an article by Luigi Menabrea on the Analytical Engine of Charles Babbage in "
        "1843. Her notes are three times as long as the article. Note G describes how the engine would calculate "
        "Bernoulli numbers, and is often called the first published computer program.",
        "ground_truth": "Lovelace Babbage Engine Bernoulli",
    },
]


def length(sample: Sample) -> int:
    return len(sample.output_text.split())


short = create_scorer(
    id="short",
    name="Length",
    score=lambda sample: 0 < length(sample) <= WORDS,
    reason=lambda sample: f"{length(sample)} words, at most {WORDS} are wanted",
)

SCORERS: list[Scorer] = [short, create_keyword_coverage_scorer()]


def summariser(model: Any) -> Agent[Any, Any]:
    return Agent(
        id="summariser",
        instructions=f"Summarise the text in one sentence of at most {WORDS} words. Keep names. Say nothing else.",
        model=model,
        scorers={"short": {"scorer": short, "sampling": {"type": "ratio", "rate": 0.1}}},  # a tenth of what users ask
        default_options={"is_task_complete": {"scorers": [short]}, "max_steps": 3},
    )


def show(result: EvalResult) -> None:
    if result.error is not None:
        print(f"- no answer: {result.error}")
        return
    tries = len(result.result.steps)
    print(f"- {result.result.steps[-1].text.strip()}  [{tries} {'try' if tries == 1 else 'tries'}]")


async def evaluate(model: Any) -> EvalReport:
    report = await run_evals(target=summariser(model), data=TEXTS, scorers=SCORERS, concurrency=1, on_item=show)
    print(f"\n{report.table()}")
    return report


if __name__ == "__main__":
    asyncio.run(evaluate(sys.argv[1] if len(sys.argv) > 1 else "local/smollm2"))
