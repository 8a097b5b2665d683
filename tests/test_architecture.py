"""The rules of the house that no linter knows."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tenuto

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src" / "tenuto"
MODULES = sorted(SRC.rglob("*.py"))

MAX_LINES = 500
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
IMPURE = {
    # clocks and chance
    "datetime",
    "random",
    "secrets",
    "time",
    "uuid",
    # the outside world
    "asyncio",
    "concurrent",
    "contextvars",
    "io",
    "logging",
    "os",
    "pathlib",
    "socket",
    "sqlite3",
    "subprocess",
    "threading",
    "tempfile",
}
LATER = {
    # of the standard library: what only a run, a file or an address needs
    "dataclasses",
    "difflib",
    "email",
    "fnmatch",
    "hashlib",
    "http",
    "ipaddress",
    "json",
    "pathlib",
    "urllib",
    "uuid",
    # of ours: what runs are made of, and what most agents do without
    "tenuto.builtin_processors",
    "tenuto.bus",
    "tenuto.calls",
    "tenuto.evals",
    "tenuto.machine",
    "tenuto.memory",
    "tenuto.options",
    "tenuto.processors",
    "tenuto.read_options",
    "tenuto.runs",
    "tenuto.steps.run",
    "tenuto.store",
    "tenuto.structured",
}
HEAVY = {"aiohttp", "fastapi", "opentelemetry", "pydantic", "rich", "sqlite3", "typer", "xllamacpp"}


def imported(source: str) -> set[str]:
    """The top-level packages that a module names in an import, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def called(source: str) -> set[str]:
    """The plain names that a module calls."""
    calls = (node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def relative(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def test_the_package_under_test_is_this_checkout():
    assert Path(tenuto.__file__).resolve().parent == SRC
    assert MODULES


MACHINE = sorted((SRC / "machine").rglob("*.py"))


def test_there_is_a_machine():
    assert MACHINE


@pytest.mark.parametrize("path", MACHINE, ids=relative)
def test_the_machine_has_no_clock_no_chance_and_no_io(path):
    source = path.read_text(encoding="utf-8")
    assert not imported(source) & (IMPURE | HEAVY)
    assert not called(source) & {"open", "print", "input"}
    tree = ast.parse(source)
    assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Await)]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_long_module_says_why(path):
    source = path.read_text(encoding="utf-8")
    if source.count("\n") > MAX_LINES:
        header = ast.get_docstring(ast.parse(source)) or ""
        assert "Long because" in header


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_opens_with_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_nothing_is_left_unfinished(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [(number, line) for number, line in enumerate(lines, 1) if UNFINISHED.search(line)]


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import tenuto", "from tenuto import Agent, tool"])
def test_importing_loads_nothing_that_only_a_run_needs(statement):
    script = f"import asyncio, msgspec, sys\nbefore = {{*sys.modules}}\n{statement}\nprint(*{{*sys.modules}} - before)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    assert not {name.partition(".")[0] for name in loaded} & HEAVY
    assert not [name for name in loaded if any(f"{name}.".startswith(f"{each}.") for each in LATER)]


@pytest.mark.slow
def test_the_public_interface_is_typed():
    scripts = Path(sys.executable).parent  # pyright asks the first Python on the path what is installed
    env = os.environ | {
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1",
    }
    command = [scripts / "pyright", "--verifytypes", "tenuto", "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=110, check=False)
    report = json.loads(done.stdout)["typeCompleteness"]
    untyped = [symbol["name"] for symbol in report["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert report["completenessScore"] >= 0.99, untyped
