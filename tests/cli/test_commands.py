"""The commands, run in this process on agents whose model is scripted."""

import importlib
import re
import runpy
import sys

import pytest
from typer.testing import CliRunner

import tenuto.cli
from tenuto.cli.commands import app
from tenuto.cli.screen import printable
from tenuto.models.local import KNOWN
from tests.models.local.test_weights import CONTENT, TINY

AGENTS = '''
from tenuto import Agent, tool
from tenuto.testing import Call, ScriptedModel

@tool(effects="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    if a < 0:
        raise ValueError("no negative numbers")
    return a + b

agent = Agent(id="calc", model=ScriptedModel(SCRIPT), tools=[add])
other = 3
'''


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Run a command line in an empty folder, with a module `bots` whose agent follows `script`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("TENUTO_CACHE", str(tmp_path / "cache"))
    before = set(sys.modules)

    def run(*arguments, script="['Hi there.']", stdin=None):
        (tmp_path / "bots.py").write_text(AGENTS.replace("SCRIPT", script))
        importlib.invalidate_caches()
        return CliRunner().invoke(app, arguments, input=stdin)

    yield run
    for name in set(sys.modules) & ({"bots", "broken"} - before):
        del sys.modules[name]


CALLS = "[Call('add', {'a': 2, 'b': 3}), 'That is 5.']"


# -- run -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bots:agent", "bots.py:agent"])
def test_run_streams_the_answer_to_stdout_alone(command, name):
    result = command("run", name, "2 + 3?", script=CALLS)
    assert result.exit_code == 0
    assert result.stdout == "That is 5.\n"
    assert "→ add(a=2, b=3)" in result.stderr
    assert "← 5" in result.stderr


def test_a_tool_that_fails_is_shown_and_the_run_goes_on(command):
    result = command("run", "bots:agent", "?", script="[Call('add', {'a': -1, 'b': 3}), 'I cannot.']")
    assert "✗ add:" in result.stderr
    assert "no negative numbers" in result.stderr
    assert result.stdout == "I cannot.\n"


def test_a_prompt_can_come_from_stdin(command):
    result = command("run", "bots:agent", "-", stdin="What?")
    assert result.stdout == "Hi there.\n"


def test_options_of_the_call(command):
    result = command("run", "bots:agent", "?", "--max-steps", "1", "--tool-choice", "add", script=CALLS)
    assert result.exit_code == 0
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bots", "write module:agent"),
        ("nowhere:agent", "There is no module 'nowhere'"),
        ("none.py:agent", "There is no file none.py"),
        ("bots:nobody", "it has: agent"),
        ("bots:other", "it has: agent"),
        ("json:agent", "defines no Agent"),
    ],
)
def test_an_agent_that_is_not_there_is_one_line(command, name, said):
    result = command("run", name, "Hi")
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize("source", ["1 / 0", "import no_such_package"])
def test_a_module_that_fails_says_where(command, tmp_path, source):
    (tmp_path / "broken.py").write_text(f"x = 1\n{source}\n")
    result = command("run", "broken:agent", "Hi")
    assert result.exit_code == 1
    assert "broken.py:2" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_failed_run_is_one_line_and_keeps_what_was_said(command):
    result = command("run", "bots:agent", "Hi", script="[ValueError('out of luck')]")
    assert result.exit_code == 1
    assert "out of luck" in result.stderr
    assert "Traceback" not in result.output


def test_what_a_model_writes_cannot_control_the_terminal(command):
    result = command("run", "bots:agent", "Hi", script=r"['a\x1b[2Jb\x07\tc\r\n']")
    assert result.stdout == "a[2Jb\tc\n"
    assert printable("a\x9bb\n") == "ab\n"


# -- chat ----------------------------------------------------------------------------------------------------------

TELLING = """[lambda request: ' / '.join(str(m["content"]) for m in request.messages)] * 3"""


def test_chat_keeps_the_conversation(command):
    result = command("chat", "bots:agent", stdin="One\n\nTwo\n", script=TELLING)
    assert result.exit_code == 0
    assert result.stdout == "One\nOne / One / Two\n"


def test_chat_forgets_when_asked_and_leaves(command):
    result = command("chat", "bots:agent", stdin="One\n/new\nTwo\n/exit\nThree\n", script=TELLING)
    assert result.stdout == "One\nTwo\n"
    assert "forgotten" in result.stderr


def test_a_turn_that_fails_does_not_end_the_chat(command):
    result = command("chat", "bots:agent", stdin="One\nTwo\n/help\n", script="['Yes.', ValueError('no luck')]")
    assert result.exit_code == 0
    assert result.stdout == "Yes.\n"
    assert "no luck" in result.stderr
    assert "Ctrl-D" in result.stderr


def test_chat_without_the_extra_says_how_to_get_it(command, monkeypatch):
    monkeypatch.setattr("tenuto.models.local.backend.find_spec", lambda name: None)
    result = command("chat", stdin="Hi\n")
    assert result.exit_code == 1
    assert "pip install 'tenuto[local]'" in result.stderr


# -- pull, doctor, version -----------------------------------------------------------------------------------------


def test_pull_lists_what_can_be_fetched(command):
    result = command("pull", "--list")
    assert result.exit_code == 0
    assert "smollm2" in result.stdout
    assert "Apache-2.0" in result.stdout
    assert "tenuto pull smollm2" in result.stdout


def test_pull_prints_the_path_of_what_is_there(command, tmp_path, monkeypatch):
    monkeypatch.setitem(KNOWN, "tiny", TINY)
    path = tmp_path / "cache" / "models" / "tiny.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert command("pull", "tiny").stdout == f"{path}\n"
    path.write_bytes(b"GGUF")
    result = command("pull", "tiny")
    assert result.exit_code == 1
    assert "Delete it" in result.stderr
    assert "refused" in command("pull", "--list").stdout


def test_pull_of_an_unknown_name(command):
    result = command("pull", "nope")
    assert result.exit_code == 1
    assert "Known: smollm2" in result.stderr


@pytest.fixture
def _no_model(monkeypatch):
    """The native library stays unloaded in the fast tests."""
    monkeypatch.setattr("tenuto.cli.doctor.load_backend", lambda: None)


@pytest.mark.usefixtures("_no_model")
def test_doctor_names_keys_but_never_their_values(command, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    result = command("doctor")
    assert result.exit_code == 0
    assert "OPENAI_API_KEY" in result.stdout
    assert "sk-canary" not in result.output
    assert "tenuto pull smollm2" in result.stdout
    assert {line.split()[0] for line in result.stdout.splitlines()} <= {"ok", "warn"}


@pytest.mark.usefixtures("_no_model")
def test_doctor_fails_with_a_remedy_and_an_exit_code(command, tmp_path):
    path = tmp_path / "cache" / "models" / KNOWN["smollm2"].file
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    result = command("doctor")
    assert result.exit_code == 1
    assert "Delete it" in result.stdout


def test_doctor_without_the_extra_warns(command, monkeypatch):
    monkeypatch.setattr("tenuto.models.local.backend.find_spec", lambda name: None)
    result = command("doctor")
    assert result.exit_code == 0
    assert "pip install 'tenuto[local]'" in result.stdout


@pytest.mark.usefixtures("_no_model")
def test_doctor_looks_at_a_store(command, tmp_path):
    result = command("doctor", "--store", "runs.db")
    assert result.exit_code == 0
    assert "runs.db is not there yet" in result.stdout
    assert not (tmp_path / "runs.db").exists()
    (tmp_path / "runs.db").write_text("This is something else altogether." * 100)
    result = command("doctor", "--store", "runs.db")
    assert result.exit_code == 1
    assert re.search(r"^fail +store file", result.stdout, re.MULTILINE)


def test_version(command):
    assert command("--version").stdout.startswith("tenuto ")


def test_the_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tenuto", "--version"])
    with pytest.raises(SystemExit) as left:
        runpy.run_module("tenuto", run_name="__main__")
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("tenuto ")
    assert callable(tenuto.cli.main)
