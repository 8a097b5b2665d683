"""The fuzz run: streams cut anywhere, cut short, with an event lost or doubled, with events that nobody should send.

`make test` plays a sample; `make test-long` plays every stream that the suite's own tests send, cut at every byte.
"""

from __future__ import annotations

import faulthandler
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tenuto.core.errors import ModelError
from tenuto.models.sse import SseSplitter
from tenuto.testing.provider import Bytes, Call, FakeProvider, Reply, Usage
from tenuto.testing.provider.delivery import prepare
from tenuto.testing.provider.dialect import Wanted
from tests.fuzz.corpus import LIMIT, Stream, corpus, dialects, payload_of
from tests.fuzz.damage import carries, faults_of
from tests.fuzz.odd import framed, with_odd_bytes, with_odd_values
from tests.fuzz.play import MODELS, Player, assert_kept, cut_at, in_pieces
from tests.fuzz.record import read
from tests.fuzz.story import differences, story_of
from tests.models.drive import model_of, run

DIALECTS = tuple(MODELS)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)
sizes = pytest.mark.parametrize("size", [1, 2, 3, 7])
TESTS = ("tests/models", "tests/testing", "tests/breaks", "tests/agent")
"""Whose streams are recorded."""
PLACES, PLACES_RECORDED = 1_000, 150
"""Cuts for the whole model, spread evenly; the splitter, which alone sees bytes, gets every one."""


@pytest.fixture
def player(dialect):
    return Player(dialect)


def outcome(played: Any) -> tuple[list[Any], str]:
    return played.parts, repr(played.error)


# -- cut anywhere ------------------------------------------------------------------------------------------------------


@each_dialect
@sizes
def test_pieces_of_any_size_give_the_same_parts(player, dialect, size):
    for stream in corpus(dialect):
        assert outcome(player.play(in_pieces(stream.whole, size))) == outcome(player.play([stream.whole])), stream


@each_dialect
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_other_line_ends_give_the_same_parts(player, dialect, line_end):
    for stream in corpus(dialect):
        other = stream.whole.replace(b"\n", line_end)
        assert outcome(player.play(in_pieces(other, 5))) == outcome(player.play([stream.whole])), stream


@each_dialect
@pytest.mark.parametrize("name", ["text and two calls", "reasoning"])
def test_a_cut_at_every_byte(player, dialect, name):
    (stream,) = (each for each in corpus(dialect) if each.name == name)
    assert not cut_faults(stream, player, range(0, len(stream.whole), 9))


@each_dialect
async def test_a_cut_at_every_byte_of_a_socket(dialect):
    (stream,) = (each for each in corpus(dialect) if each.name == "one call")
    expected = outcome(Player(dialect).play([stream.whole]))
    with FakeProvider([Bytes(stream.whole, cut=size) for size in (1, 0)], strict=False) as fake:
        model = model_of(fake, MODELS[dialect], api=dialect)
        for _ in range(2):
            parts = [part for part in await run(model) if type(part).__name__ not in _OF_THE_SOCKET]
            assert parts == [part for part in expected[0] if type(part).__name__ not in _OF_THE_SOCKET]


_OF_THE_SOCKET = {"RequestStart", "ResponseMetadataPayload"}


def cut_faults(stream: Stream, player: Player, places: Any) -> list[str]:
    expected = outcome(player.play([stream.whole]))
    return [
        f"{stream!r} cut at {place}"
        for place in places
        if outcome(player.play(cut_at(stream.whole, place))) != expected
    ]


# -- cut short ---------------------------------------------------------------------------------------------------------


@each_dialect
def test_a_stream_that_stops_early_is_no_success(player, dialect):
    for stream in corpus(dialect):
        faults = truncation_faults(stream, player, range(0, len(stream.whole), 41))
        assert not faults, "\n".join(faults)


@each_dialect
async def test_a_dropped_connection_is_no_success(dialect):
    (stream,) = (each for each in corpus(dialect) if each.name == "one call")
    with FakeProvider([Bytes(stream.whole, cut=40, drop_after=6)], strict=False) as fake, pytest.raises(ModelError):
        await run(model_of(fake, MODELS[dialect], api=dialect))


def truncation_faults(stream: Stream, player: Player, places: Any) -> list[str]:
    before = player.play([stream.whole])
    if before.error is not None:
        return []
    found: list[str] = []
    for place in places:
        after = player.play([stream.whole[:place]])
        if after.error is not None:
            continue
        if not is_ended(stream.dialect, stream.whole[:place]):
            found.append(f"{stream!r} cut short at {place} is a success")
        elif differs := differences(story_of(before.parts), story_of(after.parts)) - left(stream, place):
            found.append(f"{stream!r} cut short at {place}: {differs}")
    return found


def left(stream: Stream, place: int) -> set[str]:
    """What comes after the first `place` bytes, in the formats whose success marker need not be the last event.

    Usage always may; some servers send a finish reason with every event, and text after it.
    """
    if stream.dialect in {"responses", "anthropic"}:
        return set()
    start, found = 0, {"usage", "about"}
    for event in stream.events:
        start += len(event)
        if start > place:
            found.update(carries(stream.dialect, payload_of(event)))
    return found


def is_ended(dialect: str, stream: bytes) -> bool:
    """Whether the success marker stands in these bytes."""
    normal = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    payloads = [payload_of(event) for event in normal.split(b"\n\n")]
    return any(_ENDS[dialect](payload) for payload in payloads if isinstance(payload, dict))


_ENDS: dict[str, Any] = {
    "chat": lambda event: any(choice.get("finish_reason") for choice in event.get("choices") or ()),
    "responses": lambda event: event.get("type") in {"response.completed", "response.incomplete"},
    "anthropic": lambda event: event.get("type") == "message_stop",
    "google": lambda event: (
        any(candidate.get("finishReason") for candidate in event.get("candidates") or ())
        or (event.get("promptFeedback") or {}).get("blockReason")
    ),
}


# -- an event lost, an event twice -------------------------------------------------------------------------------------


@each_dialect
@pytest.mark.parametrize("twice", [False, True], ids=["lost", "twice"])
def test_one_event_lost_or_doubled(player, dialect, twice):
    faults = [fault for stream in corpus(dialect) for fault in faults_of(stream, player, twice=twice)]
    assert not faults, "\n".join(faults)


# -- what no provider should send --------------------------------------------------------------------------------------


@each_dialect
def test_odd_events_and_values(player, dialect):
    random = Random(dialect)
    for stream in corpus(dialect):
        odd = [*with_odd_bytes(stream), *with_odd_values(stream, random, 0.01)]
        for what, whole in random.sample(odd, min(len(odd), 40)):
            assert_read_or_refused(player, stream, what, whole)


def assert_read_or_refused(player: Player, stream: Stream, what: str, whole: bytes) -> None:
    try:
        assert_kept(player.play([whole]))
    except Exception as error:
        error.add_note(f"{stream!r}, {what}")
        raise


@each_dialect
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes(dialect, data):
    player = Player(dialect)
    junk = data.draw(st.lists(st.binary(max_size=40) | st.sampled_from([b"data: ", b"\n\n", b"{", b'"', b"[DONE]"])))
    event = data.draw(st.booleans())
    assert player.play([framed(b"".join(junk))] if event else junk).error is not None
    body = player.play([b"".join(junk)], "application/json")
    assert body.error is not None


_words = st.text(max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_calls = st.lists(
    st.builds(Call, st.sampled_from(["f", "get_it"]), st.dictionaries(_words, _json, max_size=3)),
    max_size=3,
)
_replies = st.builds(
    Reply,
    _words,
    _calls,
    reasoning=_words,
    usage=st.none() | st.builds(Usage, st.integers(0, 99), st.integers(0, 99)),
    chunk_size=st.integers(0, 5),
)


@each_dialect
@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(reply=_replies, places=st.lists(st.floats(0, 1), max_size=4), data=st.data())
def test_any_reply(dialect, reply, places, data):
    """What was said comes out, however it is cut; with an event lost or doubled it does, or the loss is seen."""
    player = Player(dialect)
    items = prepare(dialects()[dialect], reply, Wanted("m", stream=True, usage=True, results=0), 7).items
    stream = Stream(dialect, "any", tuple(items))
    played = player.play([stream.whole])
    story = story_of(played.parts)
    assert played.error is None
    assert (story.text, story.reasoning) == (reply.text, reply.reasoning)
    assert [[call.name, dict(call.args)] for call in reply.calls] == [
        [call[1], args[0]] for call, args in zip(story.calls, story.arguments, strict=True)
    ]
    cuts = sorted(int(place * len(stream.whole)) for place in places)
    assert outcome(player.play(cut_at(stream.whole, *cuts))) == outcome(played)
    assert not faults_of(stream, player, twice=data.draw(st.booleans()))


@each_dialect
@pytest.mark.parametrize("args", ['{"amount": 12', '{"amount": 1', "{", '"x"', "[1]", "12", "nope"])
def test_damaged_arguments_never_run(dialect, args, player):
    if dialect == "google":
        return  # its arguments are part of the event's own JSON
    reply = Reply(calls=[Call("pay", args, "c")], chunk_size=3)
    items = prepare(dialects()[dialect], reply, Wanted("m", stream=True, usage=True, results=0), 7).items
    played = player.play(items)
    assert played.error is not None or story_of(played.parts).arguments == [[None, args]]


def test_a_stream_is_ended_only_by_its_marker():
    for dialect in DIALECTS:
        for stream in corpus(dialect):
            assert is_ended(dialect, stream.whole), stream
    assert set(LIMIT) == set(DIALECTS)


# -- the long run ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def recorded(tmp_path_factory) -> list[Stream]:
    """Every stream that the tests of `TESTS` play, recorded now."""
    faulthandler.cancel_dump_traceback_later()
    path = tmp_path_factory.mktemp("recorded") / "streams.jsonl"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.fuzz.record", f"--record-streams={path}"]
    chosen = "not long and not slow and not local_model"
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-m", chosen, *TESTS],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert path.exists(), ran.stdout[-2000:] + ran.stderr[-2000:]
    streams = read(path)
    assert all(any(each.dialect == dialect for each in streams) for dialect in DIALECTS)
    return streams


@pytest.fixture(scope="session")
def tally():
    return Counter[str]()


def every(dialect: str, recorded: list[Stream]) -> Iterator[Stream]:
    faulthandler.cancel_dump_traceback_later()
    yield from corpus(dialect)
    yield from (stream for stream in recorded if stream.dialect == dialect and len(stream.whole) < 50_000)


def spread(stream: Stream) -> range:
    most = PLACES_RECORDED if stream.name.startswith("recorded") else PLACES
    return range(1, len(stream.whole), max(1, len(stream.whole) // most))


def split_faults(stream: Stream) -> list[str]:
    """Every cut at which the splitter gives other events."""
    whole = stream.whole
    expected = split(whole)
    return [
        f"{stream!r} split at {place}" for place in range(1, len(whole)) if split(*cut_at(whole, place)) != expected
    ]


def split(*pieces: bytes) -> list[bytes]:
    splitter = SseSplitter()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return events + [event.data for event in splitter.flush()]


@pytest.mark.long
@each_dialect
def test_every_stream_cut_at_every_byte(dialect, player, recorded, tally):
    faults: list[str] = []
    for stream in every(dialect, recorded):
        places = spread(stream)
        faults += split_faults(stream) + cut_faults(stream, player, places)
        tally["streams"] += 1
        tally["cuts"] += len(stream.whole) + len(places)
    tally["violations"] += len(faults)
    assert not faults, "\n".join(faults[:20])


@pytest.mark.long
@each_dialect
def test_every_stream_cut_short(dialect, player, recorded, tally):
    faults: list[str] = []
    for stream in every(dialect, recorded):
        places = spread(stream)
        faults += truncation_faults(stream, player, places)
        tally["cut short"] += len(places)
    tally["violations"] += len(faults)
    assert not faults, "\n".join(faults[:20])


@pytest.mark.long
@each_dialect
def test_every_event_lost_and_doubled(dialect, player, recorded, tally):
    faults: list[str] = []
    for stream in every(dialect, recorded):
        for twice in (False, True):
            faults += faults_of(stream, player, twice=twice)
            tally["lost or doubled"] += len(stream.events)
    tally["violations"] += len(faults)
    assert not faults, "\n".join(faults[:20])


@pytest.mark.long
@each_dialect
def test_every_odd_event_and_value(dialect, player, tally):
    for stream in every(dialect, []):
        for what, whole in (*with_odd_bytes(stream), *with_odd_values(stream, Random(stream.name), 0.1)):
            assert_read_or_refused(player, stream, what, whole)
            tally["odd events"] += 1


@pytest.mark.long
def test_what_came_of_it(tally, capsys):
    with capsys.disabled():
        sys.stdout.write("\nfuzz run: " + ", ".join(f"{name}: {count}" for name, count in tally.items()) + "\n")
        sys.stdout.write(f"violations: {tally['violations']}\n")
    assert tally["violations"] == 0
