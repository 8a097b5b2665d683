"""The command line in a terminal, or a file, that cannot take what the model writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

AGENT = """
from tenuto import Agent
from tenuto.testing import ScriptedModel
agent = Agent(id="a", model=ScriptedModel("caf\\u00e9 \\U0001f600"))
"""


def tenuto_run(folder: Path, stdout, **env: str):
    (folder / "written.py").write_text(AGENT)
    return subprocess.run(
        [sys.executable, "-m", "tenuto", "run", "written:agent", "hi"],
        check=False, cwd=folder, stdout=stdout, stderr=subprocess.PIPE, env={**os.environ, **env}, timeout=60,
    )  # fmt: skip


def test_an_encoding_that_lacks_a_character(tmp_path):
    done = tenuto_run(tmp_path, subprocess.PIPE, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"caf? ?\n", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a disk that is always full")
def test_a_full_disk_is_one_line(tmp_path):
    with Path("/dev/full").open("wb") as full:
        done = tenuto_run(tmp_path, full)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr
