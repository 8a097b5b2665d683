"""Which messages a recall may find at all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tenuto import Memory
from tenuto.memory.filters import check_filter, takes
from tenuto.testing import ScriptedEmbedder
from tests.memory.samples import said

MESSAGE = replace(said("user", "hi", id="m1", at=1_700_000_000.0, team="red", size=3), thread_id="t1")


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({}, True),
        ({"role": "user"}, True),
        ({"role": "assistant"}, False),
        ({"thread_id": "t1", "id": "m1"}, True),
        ({"threadId": {"$ne": "t1"}}, False),
        ({"created_at": {"$gte": "2023-11-14", "$lt": "2023-11-15"}}, True),
        ({"team": "red"}, True),
        ({"team": {"$in": ["blue", "red"]}}, True),
        ({"team": {"$nin": ["blue", "red"]}}, False),
        ({"size": {"$gt": 2, "$lte": 3}}, True),
        ({"size": {"$gt": "2"}}, False),
        ({"missing": {"$ne": 1}}, False),
        ({"$or": [{"team": "blue"}, {"size": 3}]}, True),
        ({"$and": [{"team": "red"}, {"size": 4}]}, False),
        ({"$nor": [{"team": "blue"}, {"size": 4}]}, True),
        ({"$or": []}, False),
    ],
)
def test_a_filter(filter: dict[str, Any], found: Any) -> None:
    check_filter(filter)
    assert takes(filter, MESSAGE) is found


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ({"$where": "x"}, r"no '\$where' here; known: \$and"),
        ({"team": {"$regex": "r"}}, r"no '\$regex' here; known: \$eq"),
        ({"$or": {"a": 1}}, "takes a list of filters"),
        ({"$or": [1]}, "1 is none"),
        ({"team": {"$in": "red"}}, "takes a list, not 'red'"),
    ],
)
def test_a_filter_that_cannot_be_asked_is_refused_at_once(filter: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Memory(embedder=ScriptedEmbedder(), semantic_recall={"filter": filter})
