"""`tenuto evals run`, on an agent whose model is scripted."""

import json
import sys

import pytest
from typer.testing import CliRunner

from tenuto.cli.commands import app

BOTS = """
from tenuto import Agent
from tenuto.evals import create_scorer
from tenuto.testing import ScriptedModel

def answer(request):
    text = request.messages[-1]["content"]
    if text == "bad":
        raise RuntimeError("down")
    return f"You said {text}"

agent = Agent(id="echo", model=ScriptedModel(answer))
length = create_scorer(id="length", score=lambda sample: len(sample.output_text))
"""
LINES = '"one"\n\n{"input": "three", "ground_truth": "three"}\n'


@pytest.fixture
def evaluate(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "bots.py").write_text(BOTS)

    def run(lines, *args):
        (tmp_path / "data.jsonl").write_text(lines)
        return CliRunner().invoke(app, ["evals", "run", "bots:agent", "data.jsonl", *args])

    yield run
    sys.modules.pop("bots", None)


def test_a_table(evaluate):
    done = evaluate(LINES, "--scorer", "bots:length", "--scorer", "keyword-coverage")
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "scorer              mean     min     max  scored  not scored  failed",
        "----------------  ------  ------  ------  ------  ----------  ------",
        "length            13.000  12.000  14.000       2           0       0",
        "keyword-coverage   1.000   1.000   1.000       2           0       0",
        "",
        "2 items, 0 without an answer",
    ]
    assert done.stderr.splitlines() == ["evals: 1 of 2", "evals: 2 of 2"]


def test_json(evaluate):
    done = evaluate(LINES, "--scorer", "bots:length", "--json")
    report = json.loads(done.stdout)
    assert report["summary"]["length"]["mean"] == 13
    assert [item["text"] for item in report["items"]] == ["You said one", "You said three"]


@pytest.mark.parametrize(("least", "code"), [("0.5", 0), ("14", 1)])
def test_a_mean_that_is_wanted(evaluate, least, code):
    assert evaluate(LINES, "--scorer", "bots:length", "--min", least).exit_code == code


def test_a_question_without_an_answer(evaluate):
    done = evaluate('"bad"\n"good"\n', "--scorer", "bots:length")
    assert done.exit_code == 1
    assert "2 items, 1 without an answer" in done.stdout
    assert "line 1: ModelError" in done.stderr


@pytest.mark.parametrize(
    ("lines", "scorer", "message"),
    [
        ("{", "bots:length", "data.jsonl, line 1: not JSON"),
        ('"a"\n3\n', "bots:length", "data.jsonl, line 2: write a text"),
        (LINES, "bots:agent", "bots has no scorer 'agent'; it has: length"),
        (LINES, "toxicity", "'toxicity' names no scorer"),
    ],
)
def test_what_cannot_work_is_one_line(evaluate, lines, scorer, message):
    done = evaluate(lines, "--scorer", scorer)
    assert done.exit_code == 1
    assert message in done.stderr
    assert "Traceback" not in done.output


def test_a_file_that_is_not_there(evaluate, tmp_path):
    done = CliRunner().invoke(app, ["evals", "run", "bots:agent", "nowhere.jsonl", "--scorer", "keyword-coverage"])
    assert done.exit_code == 1
    assert "nowhere.jsonl" in done.stderr
