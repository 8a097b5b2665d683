"""The kill matrix: where a driver dies, in which run, and what must come of it.

Invariant: a cell stands for what differs: a point is crossed with the tools, runs and policies that change what happens
there, not with all of them. The soak crosses everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.proof.cells import Cell, Kill

UNKNOWN = "may have taken effect"
AFTER_INTENT = Kill("tool.after_intent")
IN_BODY = Kill("proof.effect")
AFTER_EFFECT = Kill("tool.after_effect")
AFTER_RESULT = Kill("tool.after_result")


def unpublished(after: str) -> Kill:
    """Dies when the commit behind that point is stored and nothing of it was shown."""
    return Kill("journal.commit.after", after=after)


def in_commit(after: str) -> Kill:
    """Dies inside the transaction behind that point, before its COMMIT."""
    return Kill("store.group_commit.before", after=after)


def committed(after: str) -> Kill:
    """Dies when the transaction behind that point is stored and nobody was told."""
    return Kill("store.group_commit.after", after=after)


TEXT: Mapping[str, Cell] = {
    "after-claim": Cell(scenario="text", kills=[Kill("run.after_claim")], requests={}, status="failed"),
    "before-first-commit": Cell(scenario="text", kills=[in_commit("run.after_claim")], requests={}, status="failed"),
    "after-claim-twice": Cell(
        scenario="text",
        kills=[Kill("run.after_claim"), Kill("journal.commit.after")],
        requests={},
        status="failed",
    ),
    "S26-FP1": Cell(scenario="text", kills=[unpublished("run.after_claim")], requests={1: 1}),
    "S26-FP1-nobody-told": Cell(scenario="text", kills=[committed("run.after_claim")], requests={1: 1}),
    "S27-FP2": Cell(scenario="text", kills=[Kill("model.before_call")], requests={1: 1}),
    "S27-FP2-in-commit": Cell(scenario="text", kills=[in_commit("model.before_call")], requests={1: 1}),
    "S28-FP3": Cell(scenario="text", kills=[Kill("model.mid_stream", 12)], requests={1: 2}),
    "S28-FP3-twice": Cell(
        scenario="text", kills=[Kill("model.mid_stream", 9), Kill("model.mid_stream", 5)], requests={1: 3}
    ),
    "S29-FP4-text": Cell(scenario="text", kills=[Kill("model.after_commit")], requests={1: 1}),
    "S37-FP11": Cell(scenario="text", kills=[Kill("run.after_finalise")], requests={1: 1}),
    "S38-FP12": Cell(scenario="text", kills=[Kill("run.before_terminal")], requests={1: 1}),
    "S38-FP12-in-commit": Cell(scenario="text", kills=[in_commit("run.before_terminal")], requests={1: 1}),
    "S38-FP13-unpublished": Cell(scenario="text", kills=[unpublished("run.before_terminal")], requests={1: 1}),
    "S38-FP13-nobody-told": Cell(scenario="text", kills=[committed("run.before_terminal")], requests={1: 1}),
    "S38-FP13": Cell(scenario="text", kills=[Kill("run.after_terminal")], requests={1: 1}),
}

FAILED = "model.before_fallback"

ATTEMPTS: Mapping[str, Cell] = {
    "retry": Cell(scenario="busy", kills=[Kill("model.before_retry")], requests={1: 1}),
    "retried": Cell(scenario="busy", kills=[Kill("model.after_commit")], requests={1: 1}),
    "fallback": Cell(scenario="gone", kills=[Kill(FAILED)], requests={1: 1}),
    "fallback-twice": Cell(scenario="gone", kills=[Kill(FAILED), Kill(FAILED)], requests={1: 1}),
    "fallback-in-commit": Cell(scenario="gone", kills=[in_commit(FAILED)], requests={1: 1}),
    "fallback-unpublished": Cell(scenario="gone", kills=[unpublished(FAILED)], requests={1: 1}),
    "fallback-nobody-told": Cell(scenario="gone", kills=[committed(FAILED)], requests={1: 1}),
    "fallback-committed": Cell(scenario="gone", kills=[Kill("model.after_commit")], requests={1: 1}),
    "partial": Cell(scenario="cut", kills=[Kill(FAILED)], requests={1: 1}),
    "partial-in-commit": Cell(scenario="cut", kills=[in_commit(FAILED)], requests={1: 1}),
    "partial-unpublished": Cell(scenario="cut", kills=[unpublished(FAILED)], requests={1: 1}),
    "partial-then-mid-stream": Cell(scenario="cut", kills=[Kill("model.mid_stream", 9, after=FAILED)], requests={1: 2}),
    "partial-then-both": Cell(
        scenario="cut", kills=[Kill(FAILED), Kill("model.mid_stream", 9, after=FAILED)], requests={1: 2}
    ),
    "fallback-stays": Cell(
        scenario="gone-tools", kills=[Kill("tool.after_result")], effects={"a": 1, "b": 1}, requests={1: 1, 2: 1, 3: 1}
    ),
}

ASKED_ONCE = {1: 1, 2: 1}
CHECKED = "judge.after_check"
CHECKED_ONCE = {"check 1": 1, "check 2": 1}
CHECKED_TWICE = {"check 1": 2, "check 2": 1}

CHECKS: Mapping[str, Cell] = {
    name: Cell(scenario="checked-task", kills=kills, effects=effects, requests=ASKED_ONCE)
    for name, kills, effects in (
        ("check", [Kill(CHECKED)], CHECKED_TWICE),
        ("check-twice", [Kill(CHECKED), Kill(CHECKED)], {"check 1": 3, "check 2": 1}),
        ("check-in-commit", [in_commit(CHECKED)], CHECKED_TWICE),
        ("check-nobody-told", [committed(CHECKED)], CHECKED_ONCE),
        ("check-unpublished", [unpublished(CHECKED)], CHECKED_ONCE),
        ("check-stored", [Kill("judge.after_verdict")], CHECKED_ONCE),
        ("check-stored-then-passed", [Kill("judge.after_verdict"), Kill("judge.after_verdict")], CHECKED_ONCE),
        ("check-passed", [Kill("judge.after_verdict", 2)], CHECKED_ONCE),
        ("check-next-step", [Kill("model.before_call", 2)], CHECKED_ONCE),
    )
}

SAVED: Mapping[str, Cell] = {
    "input-unsaved": Cell(scenario="turn", kills=[Kill("thread.save.before")], requests={}, status="failed"),
    "input-saved": Cell(scenario="turn", kills=[Kill("thread.save.after")], requests={1: 1}),
    "turn-asked": Cell(scenario="turn", kills=[Kill("model.before_call")], requests={1: 1}),
    "turn-mid-stream": Cell(scenario="turn", kills=[Kill("model.mid_stream", 12)], requests={1: 2}),
    "turn-said": Cell(scenario="turn", kills=[Kill("model.after_commit")], requests={1: 1}),
    "answer-unsaved": Cell(scenario="turn", kills=[Kill("thread.save.before", 2)], requests={1: 1}),
    "answer-mid": Cell(scenario="turn", kills=[Kill("store.messages.mid", 2)], requests={1: 1}),
    "answer-saved": Cell(scenario="turn", kills=[Kill("thread.save.after", 2)], requests={1: 1}),
    "answer-each": Cell(
        scenario="turn",
        kills=[Kill("thread.save.after"), Kill("thread.save.before"), Kill("run.before_terminal")],
        requests={1: 1},
    ),
    "turn-unreleased": Cell(scenario="turn", kills=[Kill("run.before_release")], requests={1: 1}),
    "turn-FP5-once": Cell(scenario="turn-once", kills=[AFTER_INTENT], effects={}, told=UNKNOWN),
    "turn-FP6-once": Cell(scenario="turn-once", kills=[AFTER_EFFECT], effects={"a": 1}, told=UNKNOWN),
    "turn-FP7-once": Cell(scenario="turn-once", kills=[AFTER_RESULT], effects={"a": 1}, told="paid a"),
    "turn-FP8": Cell(scenario="turn-approved", kills=[Kill("call.before_pending")], effects={"a": 1}, told="paid a"),
    "turn-before-park": Cell(scenario="turn-approved", kills=[Kill("run.before_park")], effects={"a": 1}),
    "turn-FP9": Cell(scenario="turn-approved", kills=[Kill("run.after_park")], effects={"a": 1}),
    "turn-parked-unreleased": Cell(scenario="turn-approved", kills=[Kill("run.before_release")], effects={"a": 1}),
    "turn-FP10": Cell(scenario="turn-approved", kills=[None, Kill("run.after_resume_claim")], effects={"a": 1}),
}

LOST = "its result was lost before it was checked"

PROCESSED: Mapping[str, Cell] = {
    "rejection": Cell(scenario="rejected", kills=[Kill("model.before_reject")], requests={1: 2, 2: 1}),
    "rejection-in-commit": Cell(scenario="rejected", kills=[in_commit("model.before_reject")], requests={1: 2, 2: 1}),
    "rejection-unpublished": Cell(scenario="rejected", kills=[unpublished("model.before_reject")], requests=ASKED_ONCE),
    "rejected": Cell(scenario="rejected", kills=[Kill("model.after_reject")], requests=ASKED_ONCE),
    "rejected-twice": Cell(
        scenario="rejected",
        kills=[Kill("model.before_reject"), Kill("model.after_reject")],
        requests={1: 2, 2: 1},
    ),
    "result-unchecked": Cell(scenario="screened", kills=[Kill("tool.before_check")], effects={"a": 1}, told=LOST),
    "result-checked": Cell(scenario="screened", kills=[AFTER_EFFECT], effects={"a": 1}, told=LOST),
    "result-recorded": Cell(scenario="screened", kills=[AFTER_RESULT], effects={"a": 1}, told="screened: 6"),
}

TOOLS: Mapping[str, Cell] = {
    "S29-FP4-once": Cell(scenario="once", kills=[Kill("model.after_commit")], effects={"a": 1}, requests=ASKED_ONCE),
    "before-intent": Cell(scenario="once", kills=[in_commit("model.after_commit")], effects={"a": 1}),
    "FP5-none": Cell(scenario="none", kills=[AFTER_INTENT], effects={"a": 1}, requests=ASKED_ONCE),
    "FP6-none": Cell(scenario="none", kills=[AFTER_EFFECT], effects={"a": 2}, requests=ASKED_ONCE),
    "FP7-none": Cell(scenario="none", kills=[AFTER_RESULT], effects={"a": 1}, requests=ASKED_ONCE),
    "S30-FP5-idempotent": Cell(scenario="idempotent", kills=[AFTER_INTENT], effects={"a": 1}, requests=ASKED_ONCE),
    "S31-FP6-idempotent": Cell(scenario="idempotent", kills=[AFTER_EFFECT], effects={"a": 2}, requests=ASKED_ONCE),
    "FP7-idempotent": Cell(scenario="idempotent", kills=[AFTER_RESULT], effects={"a": 1}, requests=ASKED_ONCE),
    "FP5-once": Cell(scenario="once", kills=[AFTER_INTENT], effects={}, requests=ASKED_ONCE, told=UNKNOWN),
    "FP5-once-nobody-told": Cell(
        scenario="once", kills=[committed("model.after_commit")], effects={}, requests=ASKED_ONCE, told=UNKNOWN
    ),
    "S32-FP6-once": Cell(scenario="once", kills=[AFTER_EFFECT], effects={"a": 1}, requests=ASKED_ONCE, told=UNKNOWN),
    "S32-in-body": Cell(scenario="once", kills=[IN_BODY], effects={"a": 1}, requests=ASKED_ONCE, told=UNKNOWN),
    "S32-FP6-in-commit": Cell(scenario="once", kills=[in_commit("tool.after_effect")], effects={"a": 1}, told=UNKNOWN),
    "FP6-once-sync": Cell(scenario="once-sync", kills=[AFTER_EFFECT], effects={"a": 1}, told=UNKNOWN),
    "FP7-once-nobody-told": Cell(
        scenario="once", kills=[committed("tool.after_effect")], effects={"a": 1}, told="paid a"
    ),
    "FP7-once-unpublished": Cell(
        scenario="once", kills=[unpublished("tool.after_effect")], effects={"a": 1}, told="paid a"
    ),
    "FP7-once": Cell(scenario="once", kills=[AFTER_RESULT], effects={"a": 1}, requests=ASKED_ONCE, told="paid a"),
    "after-step": Cell(scenario="once", kills=[Kill("model.before_call", 2)], effects={"a": 1}, requests=ASKED_ONCE),
    "FP5-reconcile": Cell(scenario="checked", kills=[AFTER_INTENT], effects={"a": 1}, told="paid a"),
    "FP6-reconcile": Cell(scenario="checked", kills=[AFTER_EFFECT], effects={"a": 1}, told="as the bank says"),
    "FP7-reconcile": Cell(scenario="checked", kills=[AFTER_RESULT], effects={"a": 1}, told="paid a"),
    "FP5-reconcile-FP6": Cell(
        scenario="checked", kills=[AFTER_INTENT, AFTER_EFFECT], effects={"a": 1}, told="as the bank says"
    ),
    "S32-FP6-suspend": Cell(scenario="asking", kills=[AFTER_EFFECT], effects={"a": 1}, told="as a person says"),
    "FP5-suspend-applied": Cell(scenario="asking", kills=[AFTER_INTENT], effects={}, told="as a person says"),
    "FP5-suspend-not-applied": Cell(scenario="asking-no", kills=[AFTER_INTENT], effects={"a": 1}, told="paid a"),
    "FP5-suspend-FP8": Cell(
        scenario="asking", kills=[AFTER_INTENT, Kill("call.before_pending")], effects={}, told="as a person says"
    ),
    "FP5-suspend-FP9": Cell(
        scenario="asking", kills=[AFTER_INTENT, Kill("run.after_park")], effects={}, told="as a person says"
    ),
    "FP5-suspend-FP10": Cell(
        scenario="asking-no", kills=[AFTER_INTENT, None, Kill("run.after_resume_claim")], effects={"a": 1}
    ),
    "FP5-suspend-again": Cell(
        scenario="asking", kills=[AFTER_INTENT, None, Kill("run.after_decision")], effects={}, told="as a person says"
    ),
    "step-in-body": Cell(scenario="steps", kills=[IN_BODY], effects={"a:charge": 1}, told=UNKNOWN),
    "step-recorded": Cell(
        scenario="steps", kills=[unpublished("proof.effect")], effects={"a:charge": 1, "a:mail": 1}, told="charged and"
    ),
    "steps-FP6": Cell(
        scenario="steps", kills=[AFTER_EFFECT], effects={"a:charge": 1, "a:mail": 1}, told="charged and mailed"
    ),
    "S33-FP7-second": Cell(
        scenario="parallel", kills=[Kill("tool.after_result", 2)], requests=ASKED_ONCE, effects=None
    ),
    "parallel-FP5-second": Cell(scenario="parallel", kills=[Kill("tool.after_intent", 2)], requests=ASKED_ONCE),
    "parallel-FP6-third": Cell(scenario="parallel", kills=[Kill("tool.after_effect", 3)], requests=ASKED_ONCE),
    "chain-FP4-second": Cell(scenario="chain", kills=[Kill("model.after_commit", 2)], effects={"a": 1, "b": 1, "c": 1}),
    "chain-FP7-third": Cell(scenario="chain", kills=[Kill("tool.after_result", 3)], effects={"a": 1, "b": 1, "c": 1}),
    "chain-each": Cell(
        scenario="chain",
        kills=[AFTER_RESULT, AFTER_RESULT, AFTER_RESULT, Kill("run.before_terminal")],
        effects={"a": 1, "b": 1, "c": 1},
        requests={1: 1, 2: 1, 3: 1, 4: 1},
    ),
    "replanned-FP5": Cell(scenario="replanned", kills=[AFTER_INTENT], effects={}, told=UNKNOWN),
    "replanned-FP6": Cell(scenario="replanned", kills=[AFTER_EFFECT], effects={"a": 1}, told=UNKNOWN),
    "replanned-FP7": Cell(scenario="replanned", kills=[AFTER_RESULT], effects={"a": 1}, told="paid a"),
    "replanned-second-FP7": Cell(
        scenario="replanned", kills=[Kill("model.after_commit", 2)], effects={"a": 1}, told="paid a"
    ),
    "replanned-reconcile-FP5": Cell(scenario="replanned-checked", kills=[AFTER_INTENT], effects={"a": 1}),
    "replanned-reconcile-FP6": Cell(
        scenario="replanned-checked", kills=[AFTER_EFFECT], effects={"a": 1}, told="as the bank says"
    ),
    "replanned-suspend-FP6": Cell(
        scenario="replanned-asking", kills=[AFTER_EFFECT], effects={"a": 1}, told="as a person says"
    ),
    "twins": Cell(scenario="twins", effects={"a": 1}, told="paid a"),
    "twins-FP5": Cell(scenario="twins", kills=[AFTER_INTENT], effects={}, told=UNKNOWN),
    "twins-FP6": Cell(scenario="twins", kills=[AFTER_EFFECT], effects={"a": 1}, told=UNKNOWN),
    "twins-FP7": Cell(scenario="twins", kills=[AFTER_RESULT], effects={"a": 1}, told="paid a"),
    "twins-reconcile": Cell(scenario="twins-checked", effects={"a": 1}, told="paid a"),
    "twins-reconcile-FP5": Cell(scenario="twins-checked", kills=[AFTER_INTENT], effects={"a": 1}, told="paid a"),
    "twins-reconcile-FP6": Cell(scenario="twins-checked", kills=[AFTER_EFFECT], effects={"a": 1}, told="the bank says"),
}

PAID = {"a": 1}

DECISIONS: Mapping[str, Cell] = {
    "S34-FP8": Cell(scenario="approval", kills=[Kill("call.before_pending")], effects=PAID, requests=ASKED_ONCE),
    "S34-FP8-in-commit": Cell(scenario="approval", kills=[in_commit("call.before_pending")], effects=PAID),
    "S34-FP8-run-level": Cell(scenario="run-approval", kills=[Kill("call.before_pending")], effects=PAID),
    "S35-wait-unpublished": Cell(scenario="approval", kills=[unpublished("call.before_pending")], effects=PAID),
    "S35-before-park": Cell(scenario="approval", kills=[Kill("run.before_park")], effects=PAID),
    "S35-park-in-commit": Cell(scenario="approval", kills=[in_commit("run.before_park")], effects=PAID),
    "S35-FP9-nobody-told": Cell(scenario="approval", kills=[committed("run.before_park")], effects=PAID),
    "S35-FP9": Cell(scenario="approval", kills=[Kill("run.after_park")], effects=PAID, requests=ASKED_ONCE),
    "after-post": Cell(scenario="approval", kills=[None, Kill("run.after_post")], effects=PAID),
    "S36-FP10": Cell(scenario="approval", kills=[None, Kill("run.after_resume_claim")], effects=PAID),
    "S36-FP10-segment": Cell(scenario="approval", kills=[None, unpublished("run.after_resume_claim")], effects=PAID),
    "S36-FP10-run-level": Cell(scenario="run-approval", kills=[None, Kill("run.after_resume_claim")], effects=PAID),
    "S36-decided": Cell(scenario="approval", kills=[None, Kill("run.after_decision")], effects=PAID),
    "S36-declined": Cell(
        scenario="decline", kills=[None, Kill("run.after_resume_claim")], effects={}, told="too expensive"
    ),
    "S36-declined-decided": Cell(
        scenario="decline", kills=[None, Kill("run.after_decision")], effects={}, told="too expensive"
    ),
    "declined-after-post": Cell(
        scenario="decline", kills=[None, Kill("run.after_post")], effects={}, told="too expensive"
    ),
    "S40-FP5": Cell(scenario="approval", kills=[None, AFTER_INTENT], effects={}, told=UNKNOWN),
    "S40-FP6": Cell(scenario="approval", kills=[None, AFTER_EFFECT], effects=PAID, told=UNKNOWN),
    "S40-FP7": Cell(scenario="approval", kills=[None, AFTER_RESULT], effects=PAID, told="paid a"),
    "S51-one-of-two": Cell(
        scenario="approvals", kills=[None, Kill("run.after_resume_claim")], effects={"a": 1, "b": 1}
    ),
    "S51-between": Cell(scenario="approvals", kills=[None, AFTER_RESULT], effects={"a": 1, "b": 1}),
    "S51-parked-again": Cell(scenario="approvals", kills=[None, Kill("run.after_park")], effects={"a": 1, "b": 1}),
    "S51-both": Cell(
        scenario="approvals",
        kills=[Kill("call.before_pending"), None, Kill("run.after_decision"), None, Kill("run.after_decision")],
        effects={"a": 1, "b": 1},
    ),
    "mixed-FP7": Cell(scenario="mixed", kills=[AFTER_RESULT], effects=None),
    "mixed-before-park": Cell(scenario="mixed", kills=[Kill("run.before_park")], effects={"a": 1, "b": 1, "c": 1}),
    "suspension-FP8": Cell(scenario="suspension", kills=[Kill("call.before_pending")], effects=None, told=None),
    "suspension-FP9": Cell(scenario="suspension", kills=[Kill("run.after_park")], effects=PAID),
    "suspension-after-post": Cell(scenario="suspension", kills=[None, Kill("run.after_post")], effects=PAID),
    "suspension-FP10": Cell(scenario="suspension", kills=[None, Kill("run.after_resume_claim")], effects=PAID),
    "suspension-decided": Cell(scenario="suspension", kills=[None, Kill("run.after_decision")], effects=PAID),
    "suspension-FP6": Cell(scenario="suspension", kills=[None, AFTER_EFFECT], effects=PAID, told=UNKNOWN),
    "approval-then-suspension": Cell(
        scenario="approval-suspension",
        kills=[None, Kill("run.after_park"), Kill("run.after_resume_claim")],
        effects=PAID,
        told="from savings",
    ),
    "approval-then-suspension-decided": Cell(
        scenario="approval-suspension", kills=[None, Kill("run.after_decision"), Kill("run.after_park")], effects=PAID
    ),
}

RECOVERY: Mapping[str, Cell] = {
    "claimed": Cell(scenario="once", kills=[AFTER_RESULT, Kill("run.after_recover_claim")], effects=PAID),
    "segment-in-commit": Cell(
        scenario="once", kills=[AFTER_RESULT, in_commit("run.after_recover_claim")], effects=PAID
    ),
    "segment": Cell(scenario="once", kills=[AFTER_RESULT, unpublished("run.after_recover_claim")], effects=PAID),
    "FP6-twice": Cell(scenario="idempotent", kills=[AFTER_EFFECT, AFTER_EFFECT], effects={"a": 3}),
    "settling": Cell(
        scenario="once", kills=[AFTER_EFFECT, Kill("journal.commit.before", 2)], effects=PAID, told=UNKNOWN
    ),
    "settled": Cell(scenario="once", kills=[AFTER_EFFECT, Kill("journal.commit.after", 2)], effects=PAID, told=UNKNOWN),
    "model": Cell(scenario="once", kills=[AFTER_RESULT, Kill("model.before_call")], effects=PAID, requests=ASKED_ONCE),
    "terminal": Cell(
        scenario="text",
        kills=[Kill("run.before_terminal"), Kill("run.before_terminal"), in_commit("run.before_terminal")],
        requests={1: 1},
    ),
}

BOTH = {1: 1, 2: 1}
BETWEEN = Kill("delegation.after_child")

DELEGATION: Mapping[str, Cell] = {
    "whole": Cell(scenario="aided", effects=PAID, requests=BOTH, told="paid a"),
    "before-child": Cell(scenario="aided", kills=[AFTER_INTENT], effects=PAID, requests=BOTH),
    "child-begun": Cell(scenario="aided", kills=[in_commit("tool.after_intent")], effects=PAID, requests=BOTH),
    "child-stored": Cell(scenario="aided", kills=[unpublished("tool.after_intent")], effects=PAID, requests=BOTH),
    "child-model": Cell(scenario="aided", kills=[Kill("model.before_call", 2)], effects=PAID, requests=BOTH),
    "child-mid-stream": Cell(scenario="aided-text", kills=[Kill("model.mid_stream", 9, after="tool.after_intent")]),
    "child-mid-stream-twice": Cell(
        scenario="aided-text",
        kills=[Kill("model.mid_stream", 9, after="tool.after_intent"), Kill("model.mid_stream", 5)],
    ),
    "child-decided": Cell(scenario="aided", kills=[Kill("model.after_commit", 2)], effects=PAID, requests=BOTH),
    "child-FP5": Cell(scenario="aided", kills=[Kill("tool.after_intent", 2)], effects={}, told=UNKNOWN),
    "child-in-body": Cell(scenario="aided", kills=[IN_BODY], effects=PAID, told=UNKNOWN),
    "child-FP6": Cell(scenario="aided", kills=[AFTER_EFFECT], effects=PAID, told=UNKNOWN),
    "child-FP7-in-commit": Cell(scenario="aided", kills=[in_commit("tool.after_effect")], effects=PAID, told=UNKNOWN),
    "child-FP7": Cell(scenario="aided", kills=[AFTER_RESULT], effects=PAID, told="paid a", requests=BOTH),
    "child-shown-late": Cell(scenario="aided", kills=[unpublished("tool.after_effect")], effects=PAID, told="paid a"),
    "child-before-end": Cell(scenario="aided", kills=[Kill("run.before_terminal")], effects=PAID, requests=BOTH),
    "child-ended-unpublished": Cell(scenario="aided", kills=[unpublished("run.before_terminal")], effects=PAID),
    "child-ended": Cell(scenario="aided", kills=[Kill("run.after_terminal")], effects=PAID, requests=BOTH),
    "between": Cell(scenario="aided", kills=[BETWEEN], effects=PAID, requests=BOTH, told="paid a"),
    "between-twice": Cell(scenario="aided", kills=[BETWEEN, BETWEEN], effects=PAID, requests=BOTH),
    "outcome-in-commit": Cell(scenario="aided", kills=[in_commit("delegation.after_child")], effects=PAID),
    "outcome-unpublished": Cell(scenario="aided", kills=[unpublished("delegation.after_child")], effects=PAID),
    "recovering": Cell(scenario="aided", kills=[AFTER_RESULT, Kill("run.after_recover_claim")], effects=PAID),
    "each": Cell(
        scenario="aided-chain",
        kills=[AFTER_RESULT, AFTER_RESULT, BETWEEN, Kill("run.before_terminal")],
        effects=None,
    ),
    "approval": Cell(scenario="aided-approval", effects=PAID, requests=BOTH, told="paid a"),
    "approval-FP8": Cell(scenario="aided-approval", kills=[Kill("call.before_pending")], effects=PAID),
    "approval-child-parks": Cell(scenario="aided-approval", kills=[Kill("run.before_park")], effects=PAID),
    "approval-child-parked": Cell(scenario="aided-approval", kills=[Kill("run.after_park")], effects=PAID),
    "approval-between": Cell(scenario="aided-approval", kills=[BETWEEN], effects=PAID),
    "approval-parent-FP8": Cell(scenario="aided-approval", kills=[Kill("call.before_pending", 2)], effects=PAID),
    "approval-parent-parked": Cell(scenario="aided-approval", kills=[Kill("run.after_park", 2)], effects=PAID),
    "approval-after-post": Cell(scenario="aided-approval", kills=[None, Kill("run.after_post")], effects=PAID),
    "approval-FP10": Cell(scenario="aided-approval", kills=[None, Kill("run.after_resume_claim")], effects=PAID),
    "approval-decided": Cell(scenario="aided-approval", kills=[None, Kill("run.after_decision")], effects=PAID),
    "approval-handed-on": Cell(scenario="aided-approval", kills=[None, Kill("run.after_decision", 2)], effects=PAID),
    "approval-child-FP5": Cell(
        scenario="aided-approval", kills=[None, Kill("tool.after_intent", 2)], effects={}, told=UNKNOWN
    ),
    "approval-child-FP6": Cell(scenario="aided-approval", kills=[None, AFTER_EFFECT], effects=PAID, told=UNKNOWN),
    "approval-child-ended": Cell(scenario="aided-approval", kills=[None, BETWEEN], effects=PAID, told="paid a"),
    "approvals-between": Cell(
        scenario="aided-approvals",
        kills=[BETWEEN, None, BETWEEN, None, Kill("run.after_decision")],
        effects={"a": 1, "b": 1},
    ),
    "suspension": Cell(scenario="aided-suspension", kills=[BETWEEN, None, Kill("run.after_decision", 2)], effects=PAID),
    "two-levels": Cell(
        scenario="aided-twice",
        kills=[BETWEEN, Kill("run.after_park", 2), Kill("run.after_decision", 2), Kill("delegation.after_child", 2)],
        effects=PAID,
        told="paid a",
    ),
}

MATRIX: Mapping[str, Cell] = {
    f"{group}:{name}": cell
    for group, cells in (
        ("text", TEXT),
        ("attempt", ATTEMPTS),
        ("check", CHECKS),
        ("processor", PROCESSED),
        ("thread", SAVED),
        ("tool", TOOLS),
        ("decision", DECISIONS),
        ("recovery", RECOVERY),
        ("delegation", DELEGATION),
    )
    for name, cell in cells.items()
}
