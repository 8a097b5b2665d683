"""`examples/evaluated_summariser.py` on a scripted model."""

import runpy
from pathlib import Path

from tenuto.testing import ScriptedModel
from tests.agent.kit import all_scored

EXAMPLE = Path(__file__).parents[2] / "examples" / "evaluated_summariser.py"


async def test_the_evaluated_summariser(capsys):
    example = runpy.run_path(str(EXAMPLE))
    long = "The Rhine is long. " * 20
    model = ScriptedModel(
        [
            long,
            "The Rhine runs from the Alps past Basel and Cologne to Rotterdam.",
            "Lovelace described a program for Babbage's Analytical Engine.",
        ]
    )
    report = await example["evaluate"](model)
    first, second = report.items
    assert len(first.result.steps) == 2
    assert "80 words, at most 30 are wanted" in first.result.messages[2].text
    assert report.means == {"short": 1, "keyword-coverage": 0.875}
    assert second.scores["keyword-coverage"].score == 0.75
    assert report.failed == ()
    out = capsys.readouterr().out
    assert "Rotterdam.  [2 tries]" in out
    assert "[1 try]" in out
    assert "2 items, 0 without an answer" in out
    model.assert_done()
    await all_scored()
