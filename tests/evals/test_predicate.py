"""The filter of a live scorer: operators, absent facts, and what is no predicate."""

import pytest

from tenuto.errors import ConfigurationError
from tenuto.evals.predicate import check_filter, holds

FACTS = {
    "requestContext": {"plan": "pro", "user.age": 40, "beta": False, "n": 1},
    "entity": {"id": "a", "name": "Ann"},
    "entityType": "AGENT",
    "source": "LIVE",
    "threadId": "t1",
    "resourceId": None,
}


def path(name):
    return {"path": name}


def literal(value):
    return {"literal": value}


def compared(op, left, right):
    return {"op": op, "left": left, "right": right}


PLAN = path("requestContext.plan")
AGE = path("requestContext.user.age")
GONE = path("requestContext.gone")


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (compared("eq", PLAN, literal("pro")), True),
        (compared("ne", PLAN, literal("pro")), False),
        (compared("eq", path(["request_context", "plan"]), literal("pro")), True),
        (compared("eq", path("requestContext.n"), literal(True)), False),
        (compared("lt", AGE, literal(40)), False),
        (compared("lte", AGE, literal(40)), True),
        (compared("gt", literal(41), AGE), True),
        (compared("gte", AGE, literal(41)), False),
        (compared("eq", path("entity.name"), literal("Ann")), True),
        (compared("eq", path("thread_id"), literal("t1")), True),
        (compared("eq", path("source"), literal("LIVE")), True),
        (compared("eq", GONE, literal(None)), False),
        (compared("ne", GONE, literal("x")), False),
        (compared("lt", GONE, literal(1)), False),
        (compared("eq", path("resourceId"), literal(None)), False),
        (compared("eq", path("projectId"), literal("p")), False),
        (compared("eq", path("source.more"), literal("x")), False),
        ({"op": "in", "value": PLAN, "set": ["free", "pro"]}, True),
        ({"op": "in", "value": PLAN, "set": [literal("pro"), path("entity.id")]}, True),
        ({"op": "in", "value": GONE, "set": [None]}, False),
        ({"op": "notIn", "value": PLAN, "set": ["free"]}, True),
        ({"op": "notIn", "value": GONE, "set": ["free"]}, True),
        ({"op": "exists", "path": "requestContext.plan"}, True),
        ({"op": "exists", "path": "requestContext.gone"}, False),
        ({"op": "notExists", "path": "resourceId"}, True),
        ({"op": "notExists", "path": "threadId"}, False),
        ({"op": "truthy", "value": PLAN}, True),
        ({"op": "truthy", "value": path("requestContext.beta")}, False),
        ({"op": "truthy", "value": GONE}, False),
        ({"op": "falsy", "value": path("requestContext.beta")}, True),
        ({"op": "falsy", "value": GONE}, True),
        ({"op": "and", "args": []}, True),
        ({"op": "or", "args": []}, False),
        ({"op": "and", "args": [compared("eq", PLAN, literal("pro")), compared("gt", AGE, literal(50))]}, False),
        ({"op": "or", "args": [compared("eq", PLAN, literal("pro")), compared("gt", AGE, literal(50))]}, True),
        ({"op": "not", "arg": {"op": "exists", "path": "threadId"}}, False),
    ],
    ids=str,
)
def test_what_holds(predicate, expected):
    check_filter(predicate, "x")
    assert holds(predicate, FACTS) is expected


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (None, "has to be a dict"),
        ([], "has to be a dict"),
        ({}, "has the operator None"),
        ({"op": ["eq"]}, "has the operator"),
        ({"op": "eq", "left": PLAN}, "it takes .'left', 'right'."),
        ({"op": "eq", "left": PLAN, "right": "pro"}, "has the operand 'pro'"),
        ({"op": "eq", "left": {"path": "x", "literal": 1}, "right": PLAN}, "has the operand"),
        ({"op": "in", "value": PLAN, "set": "pro"}, "no list"),
        ({"op": "in", "value": PLAN, "set": [{"x": 1}]}, "has the operand"),
        ({"op": "and", "args": {}}, "no list"),
        ({"op": "not", "arg": {"op": "exists", "path": "output"}}, "looks at 'output'"),
        ({"op": "exists", "path": ""}, "has the path ''"),
        ({"op": "exists", "path": 3}, "has the path 3"),
        ({"op": "exists", "path": ["threadId", 3]}, "has the path"),
        ({"op": "eq", "left": PLAN, "right": {"literal": object()}}, "is no JSON"),
    ],
    ids=str,
)
def test_what_is_no_predicate(wrong, match):
    with pytest.raises(ConfigurationError, match=match) as caught:
        check_filter(wrong, "x")
    assert caught.value.id == "SCORER_FILTER_INVALID"


def test_what_cannot_be_compared():
    with pytest.raises(TypeError):
        holds(compared("lt", PLAN, literal(3)), FACTS)
