from typing import Annotated, NotRequired

import msgspec
import pytest
from pydantic import AfterValidator
from typing_extensions import TypedDict

from tenuto.tools import tool
from tenuto.tools.outcome import Failed
from tenuto.tools.validate import bind_arguments


class Filter(TypedDict):
    name: str
    limit: NotRequired[int]


@tool
def find(
    query: str,
    tags: list[int] = [],  # noqa: B006
    filter: Filter | None = None,
    limit: int = 10,
    note: str | None = "none",
) -> None: ...


def bind(args, made=find):
    return bind_arguments(made.id, made.schema, args)


@pytest.mark.parametrize(
    ("args", "keywords"),
    [
        ({"query": "x"}, {"query": "x"}),
        ({"query": "x", "limit": "3"}, {"query": "x", "limit": 3}),
        ({"query": "x", "limit": None}, {"query": "x"}),  # null where the schema has none: left out
        ({"query": "x", "note": None}, {"query": "x", "note": None}),  # null where it may be: kept
        ({"query": "x", "tags": "[1, 2]"}, {"query": "x", "tags": [1, 2]}),
        ({"query": "x", "filter": '{"name": "n"}'}, {"query": "x", "filter": {"name": "n"}}),
        ({"query": "x", "filter": '{"name": "n", "limit": null}'}, {"query": "x", "filter": {"name": "n"}}),
        ({"query": "[1]"}, {"query": "[1]"}),  # a string where one is wanted stays one
        ("{query: 'x',}", {"query": "x"}),
    ],
)
def test_accepted(args, keywords):
    assert bind(args).keywords == keywords


def test_what_the_caller_gave_is_not_changed():
    args = {"query": "x", "limit": None, "tags": "[1]"}
    bind(args)
    assert args == {"query": "x", "limit": None, "tags": "[1]"}


def test_a_refusal_says_each_place_the_arguments_and_what_to_do():
    refused = bind({"tags": ["a", 1], "other": 1, "filter": {"name": 1}})
    assert isinstance(refused, Failed)
    lines = refused.text.splitlines()
    assert lines[0] == "Tool 'find' was not called: its arguments do not fit its schema."
    assert "- query: Field required" in lines
    assert any(line.startswith("- tags.0: Input should be a valid integer") for line in lines)
    assert "- other: Extra inputs are not permitted" in lines
    assert lines[-2] == 'Given: {"tags":["a",1],"other":1,"filter":{"name":1}}'
    assert lines[-1] == "Call it again with corrected arguments."
    assert refused.result["error"] is True
    assert refused.result["message"] == refused.text
    fields = refused.result["validationErrors"]["fields"]
    assert fields["query"] == {"errors": ["Field required"], "fields": {}}
    assert fields["tags"]["fields"]["0"]["errors"]
    assert refused.error.id == "TOOL_ARGUMENTS_INVALID"
    assert type(refused.error.__cause__).__name__ == "ValidationError"


def test_a_refusal_is_bounded():
    refused = bind({"query": 1, "tags": ["x" * 1_000] * 1_000, **{f"{at}" * 1_000: 1 for at in range(100)}})
    assert len(refused.text) < 6_000
    assert "more" in refused.text
    assert len(bind("{" + "x" * 100_000).text) < 600
    msgspec.json.encode(refused.result)


def test_lone_surrogates_in_arguments_break_nothing():
    assert bind({"query": "\ud83d"}).keywords == {"query": "\ufffd"}
    msgspec.json.encode(bind({"\ud83d": "\ud83d"}).result)
    msgspec.json.encode(bind("{\ud83d").result)


def test_a_validator_that_raises_anything_is_a_refusal():
    def check(value):
        raise RuntimeError("broken")

    def take(x: Annotated[int, AfterValidator(check)]) -> None: ...

    refused = bind({"x": 1}, tool(take))
    assert "- arguments: RuntimeError: broken" in refused.text


def test_arguments_for_a_tool_that_has_none():
    assert bind(None, tool(lambda: 1)).keywords == {}
    assert "Extra inputs" in bind({"x": 1}, tool(id="none")(lambda: 1)).text
