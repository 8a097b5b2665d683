"""What a tool returns survives every codec, or says where it does not."""

import asyncio
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import types
import uuid

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.core.errors import ToolError
from tenuto.messages.bounded import bounded, model_text
from tenuto.tools.results import to_json


@dataclasses.dataclass
class Size:
    width: int
    deep: object = None


class City(pydantic.BaseModel):
    name: str
    founded: dt.date | None = None


class Struct(msgspec.Struct, rename="camel"):
    some_thing: object


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


NAMED = collections.namedtuple("NAMED", "a b")  # noqa: PYI024

VALUES = [
    (None, None),
    ("text", "text"),
    ({"a": (1, 2.5, True)}, {"a": [1, 2.5, True]}),
    (Size(1, {"x": Size(2)}), {"width": 1, "deep": {"x": {"width": 2, "deep": None}}}),
    (City(name="Rome", founded=dt.date(1, 1, 1)), {"name": "Rome", "founded": "0001-01-01"}),
    ([City(name="Rome")], [{"name": "Rome", "founded": None}]),
    (Struct(Colour.RED), {"someThing": "red"}),
    (Level.HIGH, 3),
    ({1}, [1]),
    (frozenset(), []),
    (decimal.Decimal("1.10"), "1.10"),
    (b"\x00\xff", "AP8="),
    (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00Z"),
    (dt.timedelta(seconds=3), "PT3S"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (float("nan"), None),
    ([float("inf"), -float("inf")], [None, None]),
    (2**70, 2**70),
    ({1: "a", Colour.RED: "b"}, {"1": "a", "red": "b"}),
    (NAMED(1, 2), [1, 2]),
    # What msgspec alone refuses.
    (collections.deque([1]), [1]),
    (range(3), [0, 1, 2]),
    (types.MappingProxyType({"a": Text("x")}), {"a": "x"}),
    ([Text("x"), Whole(3), Level.HIGH], ["x", 3, 3]),
    (pathlib.PurePosixPath("/a/b"), "/a/b"),
    ("a\ud83db", "a\ufffdb"),
    ("\ud83d\ude00", "\U0001f600"),
    ({"k\ud83d": ["\ud83d", float("nan"), decimal.Decimal(1)]}, {"k\ufffd": ["\ufffd", None, "1"]}),
    (Struct(Size(1, "\ud83d")), {"someThing": {"width": 1, "deep": "\ufffd"}}),
]


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=lambda value: type(value).__name__)
def test_to_json(value, expected):
    found = to_json(value)
    assert found == expected
    assert type(found) is type(expected)
    assert json.loads(msgspec.json.encode(found)) == expected
    model_text(found)


async def later():
    pass


def one_by_one():
    yield 1


def cycle():
    found = []
    found.append({"again": found})
    return found


def deep():
    found = []
    for _ in range(100_000):
        found = [found]
    return found


REFUSED = [
    (object, r"\$ is a value of type object"),
    (lambda: {"rows": [1, {"x": object()}]}, r"\$\.rows\[1\]\.x is a value of type object"),
    (lambda: Size(1, [object()]), r"\$\.deep\[0\]"),
    (lambda: Size, r"\$ is a value of type type"),
    (later, "coroutine .it was not awaited"),
    (lambda: {"x": one_by_one()}, r"\$\.x is a value of type generator .it yields"),
    (lambda: {(1, 2): 3}, r"\$ \(a key\) is a value of type tuple"),
    (lambda: ValueError("x"), "type ValueError"),
    (cycle, r"\$\[0\]\.again is a value of type list .it contains itself"),
    (deep, "nested deeper than 200"),
    (lambda: 10**5_000, "too long"),
    (lambda: lambda: 1, "type function"),
]


@pytest.mark.parametrize(("make", "text"), REFUSED)
def test_what_json_cannot_hold_names_place_and_type(make, text):
    with pytest.raises(ToolError, match=text) as caught:
        to_json(make())
    assert caught.value.id == "TOOL_RESULT_NOT_SERIALISABLE"
    assert "return" in str(caught.value) or "(" in str(caught.value)


async def test_a_forgotten_future_is_named():
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(ToolError, match="not awaited"):
        to_json([future])


class Pretender:
    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def test_an_object_that_answers_to_any_name_is_no_model():
    with pytest.raises(ToolError, match="Pretender"):
        to_json(Pretender())


def test_model_text():
    assert model_text("as it is") == "as it is"
    assert model_text({"a": [1, None]}) == '{"a":[1,null]}'
    assert model_text(None) == "null"
    assert model_text("a\0b\ud83d") == "a\ufffdb\ufffd"


@given(st.text(max_size=400), st.integers(100, 300))
def test_a_cut_text_says_how_much_is_missing(text, limit):
    found = bounded(text, limit)
    assert len(found) <= limit
    if len(text) <= limit:
        assert found == text
    else:
        kept, _, marker = found.rpartition("\n[cut: ")
        assert text.startswith(kept)
        assert int(marker.split()[0]) == len(text) - len(kept)


@given(
    st.recursive(
        st.none() | st.text() | st.floats() | st.binary() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_whatever_comes_out_can_be_written(value):
    msgspec.json.encode(to_json(value))
