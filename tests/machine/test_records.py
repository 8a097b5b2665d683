import json
from typing import get_args

import pytest

from tenuto.core import codec
from tenuto.core.errors import StoreError
from tenuto.core.payloads import Usage
from tenuto.machine import records as r
from tenuto.machine.records import decode_record
from tests.machine import samples as s

SAMPLES = [
    s.run_started(),
    r.RunStarted("r", "a", "m", 5, loop_version=7),
    s.prepared(),
    s.model_started(3, 2),
    s.model_ended("c1", "c2"),
    s.model_ended(reason="stop"),
    s.model_failed(),
    s.attempt_failed(),
    s.step_prepared(),
    r.StepPrepared(2),
    s.assessed(c1="run", c2="ask", c3="refuse", c4="client"),
    s.tool_started(),
    *(s.tool_ended(outcome=outcome) for outcome in get_args(r.ToolEnd)),
    r.ToolEnded("c1", 1, "failed", "no", None, s.FAILURE),
    r.ToolEnded(
        "c1", 2, "suspended", "{}", delegated=r.Delegated(Usage(1, 2, 3), waits_for=r.WaitsFor("r2", "c2", "h", 1, 7))
    ),
    r.ToolEnded("c1", 2, "ok", "done", delegated=r.Delegated(feedback="Name it.", bail=True)),
    r.Decision("c1", approved=False, reason="no", inner=True),
    r.DataWritten("c1", "data-progress", {"done": 3}, "d1"),
    s.decision(),
    r.Decision("c1", approved=False),
    s.segment(),
    r.SegmentStarted("resume"),
    s.judged(),
    s.aborted(),
    r.AbortRequested(),
    s.parked("c1", "c2"),
    s.finalised(),
    r.Finalised("stop"),
    r.Finished(),
    r.Finished(s.blocked().tripwire),
    s.step_rejected(),
    s.step_rejected(again=False),
    s.blocked(),
    s.blocked(s.FAILURE),
    s.processor_state(),
    r.AttemptFailed(1, 1, "openai/x", s.FAILURE, again=True),
    r.Finalised("other", None, 1.0, (), s.blocked().tripwire),
]


def test_there_is_a_sample_of_every_record():
    assert {type(record) for record in SAMPLES} == set(get_args(r.AnyRecord))


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record):
    assert decode_record(codec.encode(record)) == record


def test_the_versions_are_written_even_when_they_are_the_default():
    assert json.loads(codec.encode(s.run_started())) == {
        "kind": "run-started",
        "runId": "r1",
        "agentId": "agent",
        "messageId": "m1",
        "maxSteps": 2,
        "options": None,
        "requestContext": None,
        "degraded": [],
        "trace": None,
        "loopVersion": r.LOOP_VERSION,
        "format": r.FORMAT,
    }


@pytest.mark.parametrize(
    "raw",
    [
        b'{"kind":"from-the-future"}',
        b'{"kind":"prepared","system":[],"turns":[],"mood":"new"}',
        b'{"kind":"model-started","step":"one","attempt":1}',
        b'{"kind":"model-started","step":1}',
        b'{"kind":"assessed","verdicts":[["c1","perhaps"]]}',
        b'{"step":1,"attempt":1}',
        b"[]",
        b"{",
        b"",
        b'{"kind":"finished"}x',
        b'{"kind":"tool-ended","callId":"c","attempt":1,"outcome":"ok","text":"","result":'
        + b"[" * 9_999
        + b"]" * 9_999
        + b"}",
        codec.encode(r.RunStarted("r", "a", "m", 5, format=r.FORMAT + 1)),
    ],
    ids=lambda raw: raw[:40].decode(),
)
def test_what_is_no_record_of_this_format_is_refused(raw):
    with pytest.raises(StoreError, match=r"format 1; update tenuto") as caught:
        decode_record(raw)
    assert caught.value.id == "RECORD_UNKNOWN"
