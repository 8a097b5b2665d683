import threading
from collections import OrderedDict
from dataclasses import dataclass

import msgspec
import pytest
from pydantic import BaseModel

from tenuto.core.request_context import RequestContext, as_request_context


@pytest.mark.parametrize("init", [{"a": 1, "b": 2}, [("a", 1), ("b", 2)], iter([("a", 1), ("b", 2)])])
def test_made_of_a_mapping_or_of_pairs(init):
    assert RequestContext(init).all == {"a": 1, "b": 2}


def test_made_of_another_one_it_is_a_copy():
    first = RequestContext({"a": 1})
    second = RequestContext(first)
    second.set("a", 2)
    assert first.get("a") == 1


@pytest.mark.parametrize("init", [None, {}, []])
def test_empty(init):
    context = RequestContext(init)
    assert (context.size(), len(context), context.all, context.to_json()) == (0, 0, {}, {})


def test_the_map():
    context = RequestContext({"a": 1})
    context.set("b", None)
    assert (context.get("a"), context.get("b", 5), context.get("c"), context.get("c", 5)) == (1, None, None, 5)
    assert (context.has("b"), context.has("c"), "b" in context, "c" in context) == (True, False, True, False)
    assert list(context.keys()) == list(context) == ["a", "b"]
    assert list(context.values()) == [1, None]
    assert list(context.entries()) == [("a", 1), ("b", None)]
    assert context.size() == len(context) == 2
    assert (context.delete("a"), context.delete("a")) == (True, False)
    context["d"] = 4
    assert context["d"] == 4
    with pytest.raises(KeyError):
        context["a"]
    context.clear()
    assert context.size() == 0


def test_visiting_gives_value_then_key_and_may_change_the_map():
    context = RequestContext({"a": 1, "b": 2})
    seen = []

    def visit(value, key):
        seen.append((value, key))
        context.delete(key)

    context.for_each(visit)
    assert seen == [(1, "a"), (2, "b")]
    assert context.size() == 0


def test_all_is_a_copy():
    context = RequestContext({"a": 1})
    context.all["a"] = 2
    assert context.get("a") == 1


def test_json_leaves_out_what_json_cannot_hold():
    circle: dict = {}
    circle["self"] = circle
    context = RequestContext(
        {"user": "ann", "roles": ("a", "b"), "none": None, "function": len, "circle": circle, "half": "\ud800"}
    )
    context.set("context", context)
    context.set("deep", {"lock": threading.Lock()})
    assert context.to_json() == {"user": "ann", "roles": ["a", "b"], "none": None}


def test_json_is_a_copy():
    roles = ["a"]
    context = RequestContext({"roles": roles})
    found = context.to_json()
    roles.append("b")
    assert found == {"roles": ["a"]}


def test_json_is_taken_while_a_tool_in_a_thread_writes():
    context = RequestContext()
    failures = []
    done = threading.Event()

    def write():
        for n in range(3_000):
            context.set(f"k{n}", n)
        done.set()

    def read():
        try:
            while not done.is_set():
                context.to_json()
                repr(context)
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for work in (write, read)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_its_text_shows_names_and_no_values():
    assert repr(RequestContext({"token": "sk-canary"})) == "RequestContext(token)"


class Model(BaseModel):
    user: str


class Plain(msgspec.Struct):
    user: str


@dataclass
class Data:
    user: str


@pytest.mark.parametrize(
    "given", [{"user": "ann"}, OrderedDict(user="ann"), Model(user="ann"), Plain("ann"), Data("ann")]
)
def test_what_a_caller_may_pass(given):
    assert as_request_context(given).all == {"user": "ann"}


def test_a_context_is_kept_and_nothing_is_an_empty_one():
    context = RequestContext()
    assert as_request_context(context) is context
    assert as_request_context(None).size() == 0


@pytest.mark.parametrize("given", ["user", 7, ["user"], object(), Model, Data], ids=repr)
def test_what_a_caller_may_not_pass(given):
    with pytest.raises(TypeError, match="takes a RequestContext, a mapping or an instance of its schema, not"):
        as_request_context(given)
