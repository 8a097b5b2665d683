"""Equal values have equal texts, different values different ones."""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import ip_address
from pathlib import PurePosixPath
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel, SecretStr

from tenuto.core.errors import ToolError
from tenuto.tools.canonical import canonical, digest


class Colour(Enum):
    RED = "red"


class Money(BaseModel):
    amount: Decimal
    note: str = Field(default="", exclude=True)


class Names(RootModel[list[str]]):
    pass


@dataclass
class Point:
    x: int


class Pair(msgspec.Struct):
    x: int


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "values",
    [
        [1, 1.0, Decimal(1), Decimal("1.00"), Decimal("0.1E1")],
        [0, 0.0, -0.0, Decimal("-0.00")],
        [0.1, Decimal("0.1"), Decimal("0.10")],
        [100, 1e2, Decimal("1E+2")],
        [-1.5, Decimal("-1.50")],
        [NOON, NOON.astimezone(timezone(timedelta(hours=5)))],
        [{"a": 1, "b": 2}, {"b": 2, "a": 1}],
        [[1, 2], (1, 2), deque([1, 2])],
        [{3, 1, 2}, frozenset([2, 3, 1])],
        [Colour.RED, "red"],
        [Point(1), Pair(1), {"x": 1}, {"x": 1.0}],
        [Names(["a"]), ["a"]],
        [UUID(int=1), str(UUID(int=1))],
        [PurePosixPath("a/b"), "a/b"],
        [date(2026, 1, 2), "2026-01-02"],
        [ip_address("10.0.0.1"), "10.0.0.1"],
    ],
)
def test_equal(values):
    assert len({canonical(value) for value in values}) == 1


@pytest.mark.parametrize(
    "values",
    [
        [1, "1", True, [1], {"1": 1}],
        [None, "null", False, 0, "", [], {}],
        [10, 1, 100, 0.1, -1],
        [float("inf"), float("-inf"), float("nan"), "Infinity"],
        [2**63, 2**63 + 1, 10**40, 10**40 + 1],
        [Decimal("0.1"), Decimal("0.10000000000000000000000000000000000001")],
        [datetime(2026, 1, 2, 12), NOON, date(2026, 1, 2)],  # noqa: DTZ001 - a naive one is another value
        [[["a"], "b"], ["a", ["b"]], ["a", "b"], ["a,b"]],
        [{"a": "b"}, {"a": {"b": None}}, {"a,b": ""}],
        [SecretStr("a"), SecretStr("b")],
        [Money(amount=1, note="x"), Money(amount=1, note="y")],
        [b"a", b"b"],
        ["\ud800", "\udfff", "\ufffd"],
    ],
)
def test_different(values):
    assert len({canonical(value) for value in values}) == len(values)


def test_a_long_number_is_whole():
    assert canonical(10**6000 + 1) == f"1{'0' * 5999}1e0"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def same(a, b):
    """Equal as JSON: Python's 1 == True is not."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, int):
        return same(b, a)
    if isinstance(a, int) and isinstance(b, float):
        return Decimal(a) == Decimal(repr(b))
    return type(a) is type(b) and a == b


@given(JSON, JSON)
def test_texts_are_equal_when_values_are(a, b):
    assert (canonical(a) == canonical(b)) is same(a, b)
    assert canonical(a) == canonical(msgspec.json.decode(msgspec.json.encode(a)))


def test_what_has_no_text_is_refused():
    endless = []
    endless.append(endless)
    for value in (object(), {"a": [lambda: 1]}, endless):
        with pytest.raises(ToolError) as raised:
            digest(value)
        assert raised.value.id == "TOOL_KEY_UNUSABLE"
