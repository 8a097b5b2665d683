"""What must hold of a run, whatever happened to the processes that drove it.

Invariant: nothing here asks the runtime what it did; it compares what tools, the model's provider and onlookers wrote
down with each other and with the log that a further process reads.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from tenuto.core.chunks import DELTAS, AnyChunk
from tenuto.core.codec import decode_chunk
from tenuto.testing import check_stream
from tests.proof.scenarios import EFFECTS, Scenario

ENDED = frozenset({"success", "failed", "canceled"})


class Evidence(Struct, kw_only=True):
    """What was written down of one run.

    Attributes:
        effects: By tools, in order.
        requests: By the provider: step, time, body.
        log: The whole log as a further process reads it: index and chunk.
        seen: By outside viewers, each a list of index and chunk.
        live: By the readers in the driving processes, each a list of chunks from an index on.
        status: At the end.
        text: Of the result that the last process reports; None: nobody reported one.
        thread: The messages of its thread, in order.
        inner: What the child runs asked their models, with their scenarios.
        kills: Where drivers died.
        drivers: How many processes drove the run.
    """

    scenario: Scenario
    effects: list[dict[str, Any]]
    requests: list[tuple[int, int, Mapping[str, Any]]]
    log: list[tuple[int, dict[str, Any]]]
    seen: list[list[tuple[int, dict[str, Any]]]]
    live: list[tuple[int, list[dict[str, Any]]]]
    status: str | None
    text: str | None
    thread: Sequence[Mapping[str, Any]] = ()
    inner: list[tuple[Scenario, list[tuple[int, int, Mapping[str, Any]]]]] = []
    kills: list[str] = []
    drivers: int = 1


def violations(given: Evidence) -> list[str]:
    """Everything that does not hold."""
    return [
        *_ended(given),
        *_log(given),
        *_effects(given),
        *_requests(given.scenario, given.requests, given),
        *(wrong for scenario, requests in given.inner for wrong in _requests(scenario, requests, given)),
        *_nested(given),
        *_thread(given),
        *_seen(given),
        *_live(given),
    ]


def _ended(given: Evidence) -> list[str]:
    wrong: list[str] = []
    if given.status not in ENDED:
        wrong.append(f"the run did not end: {given.status}")
    terminal = [index for index, chunk in given.log if chunk["type"] == "finish"]
    if len(terminal) != 1 or terminal[0] != given.log[-1][0]:
        wrong.append(f"terminal events at {terminal} of {len(given.log)}")
    if given.status == "success" and answer_of(given.log) != given.scenario.text:
        wrong.append(f"the answer is {answer_of(given.log)!r}")
    if given.status == "success" and given.text is not None and not given.text.endswith(given.scenario.text):
        wrong.append(f"the result's text is {given.text!r}")
    return wrong


def _log(given: Evidence) -> list[str]:
    wrong: list[str] = []
    indexes = [index for index, _ in given.log]
    if indexes != list(range(len(indexes))):
        wrong.append(f"indexes are not contiguous: {indexes}")
    try:
        check_stream([chunk_of(chunk) for _, chunk in given.log], complete=given.status in ENDED)
    except AssertionError as error:
        wrong.append(f"grammar: {error}")
    asked = Counter(
        (chunk["type"], chunk["payload"]["toolCallId"], str(chunk["payload"]["args"]))
        for _, chunk in given.log
        if chunk["type"] in {"tool-call-approval", "tool-call-suspended"}
    )
    wrong += [f"{kind} of {call} {count} times" for (kind, call, _), count in asked.items() if count > 1]
    return wrong


def _thread(given: Evidence) -> list[str]:
    """The question and its answer are kept, each once, in order, every call with its outcome."""
    if not given.scenario.thread or given.status != "success":
        return []
    wrong: list[str] = []
    if [message["role"] for message in given.thread] != ["user", "assistant"]:
        wrong.append(f"the thread holds {[message['role'] for message in given.thread]}")
    elif not given.thread[1]["text"].endswith(given.scenario.text):
        wrong.append(f"the thread's answer is {given.thread[1]['text']!r}")
    elif given.thread[1]["calls"] != [
        state for state in given.thread[1]["calls"] if state in {"result", "output-error"}
    ]:
        wrong.append(f"the thread keeps open calls: {given.thread[1]['calls']}")
    if [message["seq"] for message in given.thread] != list(range(len(given.thread))):
        wrong.append(f"the thread has the places {[message['seq'] for message in given.thread]}")
    return wrong


def _nested(given: Evidence) -> list[str]:
    """What the stream shows of the child run is a stream: once begun, once ended, its answer whole."""
    inner = given.scenario.inner
    if inner is None or given.status != "success":
        return []
    kept: dict[int, Mapping[str, Any]] = {}
    for _, chunk in given.log:
        if chunk["type"] == "tool-output" and "index" in chunk["payload"]:
            index, nested = chunk["payload"]["index"], chunk["payload"]["output"]
            if nested["type"] == "attempt-restarted":
                kept = {at: each for at, each in kept.items() if at < nested["payload"]["discardFrom"]}
            kept[index] = nested
    kinds = [chunk["type"] for chunk in kept.values()]
    wrong = [
        f"the child's stream has {kinds.count(kind)} {kind}" for kind in ("start", "finish") if kinds.count(kind) != 1
    ]
    if (said := answer_of(list(kept.items()))) != inner.text:
        wrong.append(f"the child's stream says {said!r}")
    return wrong


def _effects(given: Evidence) -> list[str]:
    wrong: list[str] = []
    once = Counter(
        (line["tool"], line["order"])
        for line in given.effects
        if EFFECTS[line["tool"]] == "once" or line["order"].endswith((":charge", ":mail"))
    )
    wrong += [f"{tool} took effect on {order} {count} times" for (tool, order), count in once.items() if count > 1]
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    for line in given.effects:
        keys[line["tool"], line["call"]].add(line["key"])
    wrong += [
        f"{tool} had {len(found)} keys for the call {call}" for (tool, call), found in keys.items() if len(found) > 1
    ]
    return wrong


def _requests(scenario: Scenario, requests: Sequence[tuple[int, int, Mapping[str, Any]]], given: Evidence) -> list[str]:
    """A step's call is committed when its successor was asked for, or a call of it took effect."""
    wrong: list[str] = []
    first_of: dict[int, int] = {}
    for step, at, _ in requests:
        first_of.setdefault(step, at)
    committed: dict[int, int] = {step - 1: at for step, at in first_of.items()}
    for line in given.effects:
        if line["call"].startswith("call_") and not line["call"].startswith(f"call_{scenario.name}_"):
            continue  # of another run of the tree
        step = int(line["call"].split("_")[-2])
        committed[step] = min(committed.get(step, line["at"]), line["at"])
    for step, at, _ in requests:
        if at > committed.get(step, at):
            wrong.append(f"the model was asked for step {step} again after that step was committed")
    counts = Counter(step for step, _, _ in requests)
    for step, count in counts.items():
        if count > given.drivers:
            wrong.append(f"the model was asked for step {step} {count} times, by {given.drivers} drivers")
    return wrong


def _seen(given: Evidence) -> list[str]:
    stored = dict(given.log)
    wrong: list[str] = []
    for number, seen in enumerate(given.seen):
        indexes = [index for index, _ in seen]
        if indexes != list(range(len(indexes))):
            wrong.append(f"viewer {number} saw the indexes {indexes}")
        different = [index for index, chunk in seen if stored.get(index) != chunk]
        if different:
            wrong.append(f"viewer {number} saw something else than the log holds at {different}")
        if given.status == "success" and answer_of(seen) != given.scenario.text:
            wrong.append(f"viewer {number} puts together {answer_of(seen)!r}")
    return wrong


def _live(given: Evidence) -> list[str]:
    stored = dict(given.log)
    wrong: list[str] = []
    for number, (first, chunks) in enumerate(given.live):
        for index, chunk in enumerate(chunks, first):
            if type(chunk_of(chunk)) not in DELTAS and stored.get(index) != chunk:
                kept = stored.get(index, {}).get("type")
                wrong.append(f"reader {number} was shown {chunk['type']} at {index}, where the log holds {kept}")
    return wrong


def answer_of(events: Sequence[tuple[int, Mapping[str, Any]]]) -> str:
    """The last step's text, as a viewer puts it together who honours `attempt-restarted`."""
    kept: list[tuple[int, Mapping[str, Any]]] = []
    for index, chunk in events:
        if chunk["type"] == "attempt-restarted":
            kept = [each for each in kept if each[0] < chunk["payload"]["discardFrom"]]
        kept.append((index, chunk))
    text = ""
    for _, chunk in kept:
        if chunk["type"] == "step-start":
            text = ""
        elif chunk["type"] == "text-delta":
            text += chunk["payload"]["text"]
    return text


def chunk_of(wire: Mapping[str, Any]) -> AnyChunk:
    """The chunk of a wire form."""
    return decode_chunk(msgspec.json.encode(wire))
