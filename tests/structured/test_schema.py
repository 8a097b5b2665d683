"""Schemas of answers: what they are made of, what they accept, and every issue they tell."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict

from tenuto.errors import ConfigurationError
from tenuto.structured.schema import Unfit, schema_of


class City(BaseModel):
    name: str
    people: int = 3


@dataclass
class Point:
    x: int
    y: int = 0


class Answer(TypedDict):
    amount: int


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


CITY = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("given", "value", "expected"),
    [
        (City, {"name": "Rome", "people": 2}, City(name="Rome", people=2)),
        (Point, {"x": 1}, Point(1)),
        (Answer, {"amount": 2}, {"amount": 2}),
        (Mood, "good", Mood.GOOD),
        (list[City], [{"name": "Rome"}], [City(name="Rome")]),
        (Literal["a", "b"], "b", "b"),
        (City | Point, {"x": 1, "y": 2}, Point(1, 2)),
        (City | None, None, None),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (TypeAdapter(list[int]), [1, 2], [1, 2]),
        (Strict, {"day": "2026-01-02"}, Strict(day=date(2026, 1, 2))),
        (int, 3, 3),
        (CITY, {"name": "Rome", "more": 1}, {"name": "Rome", "more": 1}),
    ],
)
def test_a_schema_loads_what_fits(given, value, expected):
    schema = schema_of(given)
    assert schema.load(value) == (expected, value)
    assert schema.typed is (given is not CITY)
    assert schema_of(schema) is schema


@pytest.mark.parametrize(
    "given", [City(name="Rome"), "City", object(), lambda: City, {"type": "nonsense"}, {"$ref": "#/x"}, 3]
)
def test_what_is_no_schema_is_refused_with_the_remedy(given):
    with pytest.raises(ConfigurationError, match="has no JSON Schema") as caught:
        schema_of(given)
    assert caught.value.id == "STRUCTURED_OUTPUT_SCHEMA_INVALID"


class Order(BaseModel):
    customer: str = Field(alias="customerName")
    boxes: int = Field(alias="boxCount")
    items: list[City]


@pytest.mark.parametrize("given", [Order, Order.model_json_schema()])
def test_every_issue_is_told_with_its_path_by_the_names_of_json(given):
    with pytest.raises(Unfit) as caught:
        schema_of(given).load({"customerName": "Ana", "items": [{"name": "Rome"}, {"people": "many"}]})
    paths = {issue.path for issue in caught.value.issues}
    assert paths == {("boxCount",), ("items", 1, "name"), ("items", 1, "people")}


def test_a_validator_that_raises_anything_is_an_issue():
    class Odd(BaseModel):
        a: int

        def model_post_init(self, _context):
            raise ZeroDivisionError("oops")

    with pytest.raises(Unfit, match="ZeroDivisionError: oops"):
        schema_of(Odd).load({"a": 1})


@pytest.mark.parametrize(
    ("given", "value", "fewer"),
    [
        (City, {"name": "Rome", "people": None}, {"name": "Rome"}),
        (list[City], [{"name": "Rome", "people": None}], [{"name": "Rome"}]),
        (City | Point, {"x": 1, "y": None}, {"x": 1}),
        (
            CITY | {"properties": {"name": {"type": "string"}, "note": {"type": "string"}}},
            {"name": "a", "note": None},
            {"name": "a"},
        ),
    ],
)
def test_null_for_what_may_be_left_out_counts_as_left_out(given, value, fewer):
    assert schema_of(given).load(value)[1] == fewer


def test_a_null_that_means_something_stays_and_one_that_is_missed_is_an_issue():
    class Note(BaseModel):
        text: str
        by: str | None = "nobody"

    assert schema_of(Note).load({"text": "a", "by": None})[0].by is None
    with pytest.raises(Unfit) as caught:
        schema_of(Note).load({"text": None, "by": None})
    assert [issue.path for issue in caught.value.issues] == [("text",)]


def test_dump_takes_instances_and_what_they_are_made_of():
    assert schema_of(Strict).dump(Strict(day=date(2026, 1, 2))) == {"day": "2026-01-02"}
    assert schema_of(Strict).dump({"day": "2026-01-02"}) == {"day": "2026-01-02"}
    assert schema_of(Mood).dump(Mood.BAD) == "bad"
    assert schema_of(CITY).dump({"name": "Rome"}) == {"name": "Rome"}
    for given, value in [(City, {"people": 1}), (CITY, {}), (CITY, {"name": object()})]:
        with pytest.raises(Unfit):
            schema_of(given).dump(value)


def test_a_name_is_one_that_providers_take():
    assert schema_of(City).name == "City"
    assert schema_of({"title": "My city: größe" + "x" * 100, "type": "object"}).name.startswith("My_city_gr_")
    assert len(schema_of({"title": "x" * 100, "type": "object"}).name) == 64
    assert schema_of(list[int]).name == "response"
