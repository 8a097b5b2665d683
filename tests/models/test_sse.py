from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.errors import ModelError
from tenuto.models.sse import Event, SseSplitter


def events(*pieces: bytes, limit: int = 1 << 20) -> list[bytes]:
    splitter = SseSplitter(limit)
    return [data for piece in pieces for data in splitter.feed(piece)]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a\n\n", [b" a"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data\ndata: b\n\n", [b"\nb"]),
        (b"data: a\n\n\n\ndata: b\n\n\n", [b"a", b"b"]),
        (b": comment\n\ndata: a\n: more\n\n", [b"a"]),
        (b"retry: 3000\n\nid: 7\n\nevent: ping\n\ndata: a\n\n", [b"a"]),
        (b"data:\n\ndata: \n\ndata: a\n\n", [b"a"]),
        (b"data: a\n\ndata: \n\ndata: b\n\n", [b"a", b"b"]),
        (b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", [b"1", b"2"]),
        (b"event: a\ndata: 1\n\ndata: 2\n\nevent: b\ndata: 3\n\n", [b"1", b"2", b"3"]),
        (b"event: a\ndata: 1\ndata: 2\n\nevent: b\n\n", [b"1\n2"]),
        (b"event: a\ndata:  1\n\nevent: b\ndata: \n\nevent: c\ndata:2\n\n", [b" 1", b"2"]),
        (b"event: a\nid: 1\n\nevent: b\ndata: 1\n\n", [b"1"]),
        (b"datax: a\n\nda: b\n\n data: c\n\n", []),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: \xef\xbb\xbfa\n\n", [b"\xef\xbb\xbfa"]),
        (b"data: a: b\n\n", [b"a: b"]),
        (b"data: a\n\ndata: b", [b"a"]),
        (b"", []),
    ],
)
def test_events_of_a_stream_in_every_two_cuts(raw, expected):
    assert events(raw) == expected
    for cut in range(len(raw) + 1):
        assert events(raw[:cut], raw[cut:]) == expected
    assert events(*(raw[i : i + 1] for i in range(len(raw)))) == expected


LINES = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"data: ", b": c", b"event: e", b"id: 1", b"retry: 5", b"z", b"", b"",
     "data: né 漢 🙂".encode()]
)  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(
    st.booleans(),
    st.lists(st.tuples(LINES, ENDS), max_size=14),
    st.lists(st.integers(0, 200), max_size=12),
)
def test_the_cut_does_not_matter(bom, lines, cuts):
    raw = (b"\xef\xbb\xbf" if bom else b"") + b"".join(line + end for line, end in lines)
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    pieces = [raw[a:b] for a, b in pairwise(places)]
    whole, cut = SseSplitter(), SseSplitter()
    expected = whole.feed_events(raw)
    assert [event for piece in pieces for event in cut.feed_events(piece)] == expected
    assert events(raw) == events(*pieces) == [event.data for event in expected]
    assert whole.flush() == cut.flush()


def test_names_for_the_dialects_that_need_them():
    splitter = SseSplitter()
    assert splitter.feed_events(b"event: ping\ndata: {}\n\ndata: a\n\n") == [
        Event("ping", b"{}"),
        Event("message", b"a"),
    ]


def test_flush_gives_the_last_block_without_its_blank_line():
    splitter = SseSplitter()
    assert splitter.feed(b"data: a\n\ndata: b") == [b"a"]
    assert splitter.flush() == [Event("message", b"b")]
    assert splitter.flush() == []


def test_an_event_beyond_the_limit_is_a_typed_error():
    with pytest.raises(ModelError, match="more than 100 bytes") as caught:
        events(*[b"data: " + b"x" * 40] * 3, limit=100)
    assert caught.value.id == "MODEL_EVENT_TOO_LARGE"


def test_a_long_event_in_many_reads_is_not_quadratic_in_events():
    pieces = [b"data: ", *[b"x" * 1000] * 2000, b"\n\n"]
    assert events(*pieces, limit=1 << 24) == [b"x" * 2_000_000]
