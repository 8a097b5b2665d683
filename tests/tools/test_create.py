"""`create_tool` and `provider_tool`: any schema, any place where a call is carried out."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypedDict

from tenuto import RequestContext, ToolContext, create_tool, tool
from tenuto.errors import ConfigurationError
from tenuto.models.ports import ProviderTool
from tenuto.tools import provider_tool
from tenuto.tools.execute import run_tool
from tenuto.tools.outcome import Failed, Ok, UnknownOutcome
from tenuto.tools.toolbox import Toolbox, sanitised


class City(BaseModel):
    """A city."""

    name: str
    size: int = Field(3, description="In thousands.")


@dataclass
class Point:
    x: int
    y: int = 0


class Query(TypedDict):
    text: str


JSON = {"type": "object", "properties": {"n": {"type": "integer"}, "tags": {"type": "array"}}, "required": ["n"]}


async def call(made, args, context=None):
    return await run_tool(made, context or ToolContext(), args)


async def test_a_model_is_what_execute_gets():
    async def execute(city: City, ctx: ToolContext) -> str:
        return f"{city.name} {city.size} {ctx.tool_name}"

    made = create_tool(id="city", description="A city.", input_schema=City, execute=execute)
    outcome = await call(made, {"name": "Lagos", "size": "15"}, ToolContext(tool_name="city"))
    assert outcome == Ok("Lagos 15 city", "Lagos 15 city")
    assert made.description == "A city."
    assert made.parameters == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer", "default": 3, "description": "In thousands."},
        },
        "required": ["name"],
    }
    assert await made(City(name="Oslo"), ToolContext(tool_name="x")) == "Oslo 3 x"


@pytest.mark.parametrize(
    ("schema", "args", "expected"),
    [
        (Point, {"x": "1"}, Point(1)),
        (Query, {"text": "hi"}, {"text": "hi"}),
        (TypeAdapter(dict[str, int]), {"a": "1"}, {"a": 1}),
        (JSON, {"n": 1}, {"n": 1}),
        (None, {}, {}),
    ],
    ids=["dataclass", "typeddict", "adapter", "json schema", "none"],
)
async def test_any_schema(schema, args, expected):
    seen = []
    made = create_tool(id="t", input_schema=schema, execute=seen.append)
    assert isinstance(await call(made, args), Ok)
    assert seen == [expected]
    assert made.parameters["type"] == "object"


async def test_arguments_that_do_not_fit_a_json_schema_are_named_and_mended_like_any():
    made = create_tool(id="t", input_schema=JSON, execute=lambda args: args)
    refused = await call(made, {"n": "many"})
    assert isinstance(refused, Failed)
    assert "- n: 'many' is not of type 'integer'" in refused.text
    assert refused.result["validationErrors"]["fields"]["n"]["errors"]
    assert (await call(made, {"n": 1, "tags": '["a"]'})).result == {"n": 1, "tags": ["a"]}
    assert (await call(made, {"n": 1, "tags": None})).result == {"n": 1}


async def test_a_type_that_contains_itself():
    class Node(BaseModel):
        value: int
        next: Node | None = None

    Node.model_rebuild(_types_namespace={"Node": Node})
    made = create_tool(id="t", input_schema=Node, execute=lambda node: node.next.value)
    assert made.parameters["type"] == "object"
    assert (await call(made, {"value": 1, "next": {"value": 2}})).result == 2


@pytest.mark.parametrize("schema", [int, {"type": "string"}, list[int]])
def test_an_input_that_is_no_object_is_refused(schema):
    with pytest.raises(ConfigurationError, match="has to describe a JSON object"):
        create_tool(id="t", input_schema=schema, execute=print).spec()


@pytest.mark.parametrize("execute", [lambda: 1, lambda a, b, c: 1, lambda a, *, b: 1])
def test_an_execute_that_cannot_be_called_is_refused(execute):
    with pytest.raises(ConfigurationError, match=r"execute\(args\) or execute\(args, ctx\)"):
        create_tool(id="t", execute=execute)


async def test_a_key_names_properties():
    made = create_tool(id="t", input_schema=City, key=("name",), execute=lambda city: city.name)
    assert made.spec().name == "t"
    with pytest.raises(ConfigurationError, match=r"key has 'nam'.*name, size"):
        create_tool(id="t", input_schema=City, key=("nam",), execute=lambda city: city.name).spec()


def test_without_execute_it_is_a_client_tool():
    made = create_tool(id="confirm", description="Ask.", input_schema=JSON)
    assert made.fn is None
    assert made.spec().parameters == JSON
    with pytest.raises(TypeError, match="answered by the client"):
        made()
    with pytest.raises(ConfigurationError, match=r"timeout, require_approval would do nothing"):
        create_tool(id="confirm", timeout=3, require_approval=True)


async def test_a_result_has_to_fit_its_output_schema():
    reads = create_tool(id="t", output_schema=City, effects="none", execute=lambda _: {"name": "Oslo"})
    assert (await call(reads, {})).result == {"name": "Oslo", "size": 3}

    @tool(output_schema={"type": "object", "required": ["id"]}, effects="none")
    async def wrong() -> dict[str, int]:
        return {"no": 1}

    refused = await call(wrong, {})
    assert isinstance(refused, Failed)
    assert refused.result["error"] is True
    assert "'id' is a required property" in refused.text

    once = create_tool(id="t", output_schema=City, execute=lambda _: {"size": 1})
    unknown = await call(once, {})
    assert isinstance(unknown, UnknownOutcome)
    assert "may have taken effect" in unknown.text
    assert unknown.result["validationErrors"]["fields"]["name"]


async def test_a_tool_s_own_request_context_schema():
    class Tenant(BaseModel):
        plan: str
        api_key: int = 0

    made = create_tool(id="t", request_context_schema=Tenant, execute=lambda _, ctx: ctx.values.plan)
    assert (await call(made, {}, ToolContext(request_context=RequestContext({"plan": "pro"})))).result == "pro"
    refused = await call(made, {}, ToolContext(request_context=RequestContext({"api_key": "sk-canary"})))
    assert isinstance(refused, Failed)
    assert "- plan: Field required" in refused.text
    assert "- api_key: does not fit" in refused.text
    assert "canary" not in refused.text


def test_a_provider_s_tool_is_offered_as_such():
    search = provider_tool("anthropic.web_search_20250305", args={"max_uses": 2})
    box = Toolbox([search, create_tool(id="own"), ProviderTool("openai.code_interpreter", "python")])
    assert box.offer().names == ("web_search", "own", "python")
    assert [spec.name for spec in box.specs()] == ["own"]
    assert box.offer().provider == (
        ProviderTool("anthropic.web_search_20250305", "web_search", {"max_uses": 2}),
        ProviderTool("openai.code_interpreter", "python"),
    )
    assert box.offer(["own"]).provider == ()
    assert Toolbox({"find": search}).offer().provider[0].name == "find"
    with pytest.raises(ConfigurationError, match=r"provider\.type"):
        provider_tool("web_search")


def test_names_of_a_call_s_tools_are_made_fit():
    own = create_tool(id="x")
    found = sanitised({"a": {"server.tool": own, "1st": own}, "b": {"server_tool": own, "x" * 80: own}}, "toolsets")
    assert list(found) == ["server_tool", "_1st", "x" * 63]
    with pytest.raises(ConfigurationError, match=r"'a\.b' and 'a_b' are both 'a_b'") as refused:
        sanitised({"a": {"a.b": own, "a_b": own}}, "toolsets")
    assert refused.value.id == "AGENT_TOOL_NAME_COLLISION"
