"""`make demo`: the run that is killed ends all the same, and was paid once."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"

pytestmark = [pytest.mark.slow, pytest.mark.local_model]


def test_a_run_that_is_killed_is_driven_on_and_paid_once():
    done = subprocess.run([sys.executable, DEMO], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^killed   process \d+, which drove the run; exit code -9$", done.stdout, re.MULTILINE)
    before, after = done.stdout.split("killed   ")
    assert before.splitlines()[-1].startswith("answer   ")  # in the middle of the answer
    assert "again    the model is asked once more" in after
    assert "its process ended before an answer was stored" in after
    assert "The paid tool ran once: payments.txt has 1 line." in after
