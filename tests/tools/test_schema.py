"""Hints and docstrings become the schema a model sees, and the values a function gets."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Optional

import msgspec
import pydantic
import pytest
from pydantic import Field
from typing_extensions import TypedDict

from tenuto.core.errors import ConfigurationError
from tenuto.tools import ToolContext, tool
from tenuto.tools.execute import run_tool

if TYPE_CHECKING:
    from nowhere import Missing


class Colour(enum.Enum):
    RED = "red"


class Point(TypedDict):
    x: int
    label: NotRequired[str]


@dataclasses.dataclass
class Size:
    width: int
    title: str = "wide"


class City(pydantic.BaseModel):
    """A city."""

    name: str
    title: str | None = None


class Native(msgspec.Struct):
    x: int


def schema_of(fn):
    return tool(fn).parameters


def test_a_tool_without_parameters_has_an_empty_closed_object():
    assert schema_of(lambda: 1) == {"type": "object", "properties": {}, "additionalProperties": False}


async def test_types_descriptions_and_defaults():
    @tool
    async def refund(  # noqa: PLR0917
        ctx: ToolContext[str],
        order_id: str,
        amount: decimal.Decimal,
        reason: Optional[str] = None,  # noqa: UP045
        mode: Literal["full", "part"] = "full",
        colour: Colour = Colour.RED,
        tags: Annotated[list[str], Field(max_length=3, description="Mine.")] = [],  # noqa: B006
        size: int = Field(5, gt=0, alias="sizeInCm"),
        schema: int = 1,
        _private: int = 2,
        model_config: int = 3,
    ) -> Missing:
        """Refund an order.

        It cannot be undone.

        Args:
            order_id: As printed
                on the invoice.
            tags: Not this.

        Returns:
            A receipt.
        """
        return [order_id, amount, reason, mode, colour, tags, size, schema, _private, model_config]

    found = refund.parameters
    assert refund.description == "Refund an order.\n\nIt cannot be undone."
    assert found["additionalProperties"] is False
    assert found["required"] == ["order_id", "amount"]
    assert list(found["properties"]) == [
        *("order_id", "amount", "reason", "mode", "colour", "tags", "sizeInCm", "schema", "_private", "model_config")
    ]
    assert found["properties"]["order_id"] == {"type": "string", "description": "As printed on the invoice."}
    assert found["properties"]["tags"]["description"] == "Mine."
    assert found["properties"]["reason"] == {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    assert found["properties"]["sizeInCm"] == {"type": "integer", "exclusiveMinimum": 0, "default": 5}
    outcome = await run_tool(refund, ToolContext(deps=""), {"order_id": "A", "amount": "1.10", "sizeInCm": 7})
    assert outcome.result == ["A", "1.10", None, "full", "red", [], 7, 1, 2, 3]
    outcome = await run_tool(refund, ToolContext(deps=""), {"order_id": "A", "amount": 1})
    assert outcome.result[6] == 5


async def test_values_come_as_the_types_of_the_hints():
    seen = []

    @tool
    def take(  # noqa: PLR0917
        point: Point,
        size: Size,
        city: City,
        colour: Colour,
        day: dt.date,
        id: uuid.UUID,
        pair: tuple[int, str],
        names: set[str],
        anything: Any,
        untyped,
    ) -> None:
        seen.extend([point, size, city, colour, day, id, pair, names, anything, untyped])

    args = {
        "point": {"x": 1},
        "size": {"width": 2},
        "city": {"name": "Rome"},
        "colour": "red",
        "day": "2026-11-30",
        "id": "12345678-1234-5678-1234-567812345678",
        "pair": [1, "a"],
        "names": ["a", "a"],
        "anything": {"deep": [None]},
        "untyped": 1,
    }
    outcome = await run_tool(take, ToolContext(), args)
    assert outcome.text == "null"
    assert seen[:5] == [{"x": 1}, Size(2), City(name="Rome"), Colour.RED, dt.date(2026, 11, 30)]
    assert seen[5:] == [uuid.UUID(args["id"]), (1, "a"), {"a"}, {"deep": [None]}, 1]


def test_titles_go_and_properties_called_title_stay():
    def take(city: City, title: str, size: Size) -> None: ...

    found = schema_of(take)
    assert found["properties"]["title"] == {"type": "string"}
    assert "title" in found["$defs"]["City"]["properties"]
    assert '"title":"' not in msgspec.json.encode(found).decode()


def test_a_default_json_cannot_hold_is_no_obstacle():
    marker = object()

    def take(x: Any = marker) -> None: ...

    assert schema_of(take)["properties"] == {"x": {}}


async def test_a_default_is_the_functions_own_object():
    marker = object()

    @tool
    def take(x: Any = marker, /, y: Any = marker) -> bool:
        return x is marker and y is marker

    assert (await run_tool(take, ToolContext(), {})).result is True
    assert (await run_tool(take, ToolContext(), {"x": 1})).result is False


def test_names_of_the_enclosing_function_resolve():
    class Local(pydantic.BaseModel):
        x: int

    @tool
    def take(ctx: ToolContext[Local], local: Local) -> None: ...

    assert take.parameters["required"] == ["local"]


@pytest.mark.parametrize("bad", [Native, threading.Lock, "Missing"])
def test_a_hint_without_a_schema_names_tool_and_parameter(bad):
    def take(fine: int, wrong) -> None: ...

    take.__annotations__["wrong"] = bad
    with pytest.raises(ConfigurationError, match=r"Tool 'take'.* parameter 'wrong'"):
        schema_of(take)


def test_the_schema_is_built_once_by_however_many_threads(monkeypatch):
    module = sys.modules["tenuto.tools.tool"]  # the name in the package is the decorator
    built = []
    build = module.build_schema
    monkeypatch.setattr(module, "build_schema", lambda *args: built.append(1) or build(*args))

    @tool
    def take(x: int) -> None: ...

    start = threading.Barrier(8)
    found = []

    def ask():
        start.wait(30)
        found.append(take.parameters)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert all(each is found[0] for each in found)


@pytest.mark.slow
def test_pydantic_is_not_loaded_before_a_schema_is_needed():
    import subprocess

    define = "import sys, tenuto.tools as t\n@t.tool\ndef f(x: int): pass\n"
    check = "assert 'pydantic' not in sys.modules\nf.parameters\nassert 'pydantic' in sys.modules"
    subprocess.run([sys.executable, "-c", define + check], check=True, timeout=60)
