"""The failpoints of the source, and what the specification calls them.

Invariant: the list is the source's: a name that is in one and not in the other fails a test.
"""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "tenuto"

POINTS = {
    "run.after_claim": "before the first record: nothing is stored but the row",
    "model.before_call": "FP2: the input is stored, the model has not been asked",
    "model.mid_stream": "FP3",
    "model.before_retry": "the model could not be opened; nothing of that is stored",
    "model.before_fallback": "a model of the list has failed, the next one has not been asked",
    "model.after_commit": "FP4",
    "model.before_reject": "a processor does not accept an answer, and nothing of that is stored",
    "model.after_reject": "it is stored, and the model has not been asked again",
    "tool.after_intent": "FP5",
    "tool.before_check": "it is stored that the tool ran; processors have not seen its result",
    "tool.after_effect": "FP6",
    "tool.after_result": "FP7",
    "delegation.after_child": "between a child run's end, or its wait, and the outcome of its parent's call",
    "call.before_pending": "FP8: the call's wait is not stored",
    "run.before_park": "the call's wait is stored and shown, the run still runs",
    "run.after_park": "FP9",
    "run.after_post": "a decision is stored, the run not yet claimed for it",
    "run.after_abort": "an abort is stored, nobody has heard of it",
    "run.after_resume_claim": "FP10",
    "run.after_decision": "the decision is in the journal, its tool not begun",
    "judge.after_check": "scorers have said whether the task is complete; that is not stored",
    "judge.after_verdict": "it is stored, nobody was told",
    "run.after_finalise": "FP11",
    "run.before_terminal": "FP12",
    "run.after_terminal": "FP13, published",
    "run.after_recover_claim": "during a recovery",
    "journal.commit.before": "before any commit of the log",
    "journal.commit.after": "after it, nothing of it published",
    "store.group_commit.before": "in a transaction, before its COMMIT",
    "store.group_commit.after": "after the COMMIT, nobody told",
    "thread.save.before": "before a commit that holds messages of a thread",
    "thread.save.after": "after it, nobody told",
    "run.before_release": "the run has ended or waits, and still holds its thread",
    "compaction.taken": "somebody has taken it on to note what a long thread said",
    "compaction.asked": "what is to be noted of a thread is known and not stored",
    "store.messages.mid": "in a transaction, its records written, its messages not",
    "store.migrate.mid": "between two migrations",
}

_HIT = re.compile(r"""faults\.hit\(\s*["']([\w.]+)["']\s*\)""")


def points_in_source() -> dict[str, int]:
    """Each name, and in how many places it stands."""
    found: dict[str, int] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for name in _HIT.findall(path.read_text(encoding="utf-8")):
            found[name] = found.get(name, 0) + 1
    return found
