"""`@tool`: what is accepted, what is refused, and that a tool is still its function."""

import functools
import inspect

import pytest

from tenuto.core.errors import ConfigurationError
from tenuto.tools import Tool, ToolContext, tool
from tenuto.tools.execute import run_tool
from tenuto.tools.tool import as_tool


async def test_a_tool_is_still_its_function():
    @tool
    async def later(ctx: ToolContext[str], x: int, y: int = 1) -> int:
        """Add."""
        return x + y + len(ctx.deps)

    @tool(timeout=3)
    def now(x: int) -> int:
        return x

    assert await later(ToolContext(deps="ab"), 1, y=2) == 5
    assert now(4) == 4
    assert later.__name__ == "later"
    assert inspect.signature(later) == inspect.signature(later.fn)


def test_options():
    @tool(
        id="plus",
        description="  Add.\n  Well.",
        effects="none",
        timeout=2,
        strict=True,
        title="Plus",
        max_result_chars=300,
    )
    def add(a: int) -> int:
        """Not this."""
        return a

    assert (add.id, add.name, add.description, add.effects) == ("plus", "plus", "Add.\nWell.", "none")
    assert (add.timeout, add.strict, add.title, add.max_result_chars) == (2, True, "Plus", 300)
    assert add.spec("sum").name == "sum"
    assert add.spec().strict is True
    assert tool(name="other")(add.fn).id == "other"
    assert tool(add.fn).effects == "once"
    assert tool(add.fn).description == "Not this."
    assert repr(add) == "Tool('plus')"


@pytest.mark.parametrize("option", ["background", "mcp", "to_model"])
def test_an_option_not_built_yet_is_a_type_error(option):
    with pytest.raises(TypeError, match=option):
        tool(**{option: None})


@pytest.mark.parametrize(
    "options",
    [
        {"effects": "twice"},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"max_result_chars": 10},
        {"id": "a", "name": "b"},
    ],
)
def test_an_option_that_cannot_work_is_refused_at_once(options):
    with pytest.raises(ConfigurationError):
        tool(**options)(lambda: None)


def variadic(*args: int):
    pass


def open_ended(**options: int):
    pass


def generates():
    yield 1


async def generates_later():
    yield 1


class Shop:
    def price(self, item: str) -> int:
        """The price.

        Args:
            item: What.
        """
        return len(item)

    async def __call__(self, item: str) -> str:
        """Buy."""
        return item

    @staticmethod
    def open(day: str) -> bool:
        return bool(day)

    @classmethod
    def kind(cls, item: str) -> str:
        return cls.__name__ + item


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (variadic, r"\*args"),
        (open_ended, r"\*\*options"),
        (generates, "generator"),
        (generates_later, "generator"),
        (Shop.price, "'self' is unbound"),
        (Shop, "function"),
        (3, "function"),
    ],
)
def test_what_cannot_be_a_tool(fn, text):
    with pytest.raises(ConfigurationError, match=text):
        tool(fn)


async def test_methods_partials_and_callable_objects():
    shop = Shop()
    made = [tool(each) for each in (shop.price, shop, Shop.open, Shop.kind, functools.partial(shop.price))]
    assert [each.id for each in made] == ["price", "Shop", "open", "kind", "price"]
    assert made[0].description == "The price."
    assert made[0].parameters["properties"] == {"item": {"type": "string", "description": "What."}}
    assert made[1].description == "Buy."
    assert [each.is_async for each in made] == [False, True, False, False, False]
    results = [
        (await run_tool(each, ToolContext(), {next(iter(each.parameters["properties"])): "xy"})).result for each in made
    ]
    assert results == [2, "xy", True, "Shopxy", 2]


async def test_what_a_partial_binds_the_model_does_not_see():
    def fetch(ctx: ToolContext, key: str, path: str, depth: int = 1) -> str:
        return f"{key} {path} {depth} {ctx.run_id}"

    made = tool(functools.partial(fetch, key="secret"))
    assert list(made.parameters["properties"]) == ["path", "depth"]
    outcome = await run_tool(made, ToolContext(run_id="r"), {"path": "p"})
    assert outcome.result == "secret p 1 r"


def test_as_tool_takes_tools_and_functions():
    def plain(x: int) -> int:
        return x

    made = tool(plain)
    assert as_tool(made) is made
    assert isinstance(as_tool(plain), Tool)
    assert as_tool(lambda: 1, "one").id == "one"
    for wrong in ("plain", int, None):
        with pytest.raises(ConfigurationError):
            as_tool(wrong)


def test_the_context_has_to_come_first():
    def late(x: int, ctx: ToolContext) -> None: ...

    def keyword(*, ctx: ToolContext, x: int) -> None: ...

    def named(ctx, x: int) -> None: ...

    for fn in (late, keyword):
        with pytest.raises(ConfigurationError, match="ToolContext 'ctx' has to be"):
            _ = tool(fn).parameters
    assert list(tool(named).parameters["properties"]) == ["ctx", "x"]  # found by its hint, not by its name


def test_a_context_shows_no_values():
    assert "secret" not in repr(ToolContext(deps="secret", tool_name="t"))


def test_options_of_effects_and_approval():
    def asks(args):
        return bool(args)

    def looks(ctx):
        return None

    @tool(
        key=["b", "a"],
        key_scope="thread",
        require_approval=asks,
        reconcile=looks,
        on_unknown="suspend",
        suspend_schema=int,
        resume_schema={"type": "string"},
    )
    def pay(ctx: ToolContext, a: int, b: int, /) -> None: ...

    assert (pay.key, pay.key_scope, pay.on_unknown) == (("b", "a"), "thread", "suspend")
    assert (pay.require_approval, pay.reconcile) == (asks, looks)
    assert (pay.suspend_schema, pay.resume_schema) == (int, {"type": "string"})
    plain = tool(pay.fn)
    assert (plain.key, plain.key_scope, plain.require_approval) == (None, "run", False)
    assert (plain.reconcile, plain.on_unknown, plain.suspend_schema) == (None, "error", None)
    assert tool(key=())(pay.fn).key == ()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"key": "a"}, r"key=\('a',\)"),
        ({"key": ("a", "x")}, "'x', which is no parameter of it; they are: ctx, a"),
        ({"key": ("bound",)}, "'bound', which is no parameter"),
        ({"key": ("a", "a")}, "twice"),
        ({"key": {"a"}}, "tuple of parameter names"),
        ({"key": ("a",), "effects": "none"}, "says that it has none"),
        ({"key": ("a",), "key_scope": "user"}, "takes 'run', 'thread', 'resource', not 'user'"),
        ({"key_scope": "thread"}, "does nothing without key="),
        ({"require_approval": "always"}, "True, False or a function"),
        ({"require_approval": None}, "True, False or a function"),
        ({"reconcile": True}, "has to be a function"),
        ({"reconcile": lambda ctx: None, "effects": "none"}, "says that it has none"),
        ({"on_unknown": "retry"}, "takes 'error', 'suspend', not 'retry'"),
        ({"on_unknown": "suspend", "effects": "none"}, "says that it has none"),
        ({"suspend_schema": "Question"}, "a type or a JSON Schema"),
    ],
)
def test_an_option_that_cannot_work_names_itself(options, text):
    def pay(ctx: ToolContext, a: int, bound: int) -> None: ...

    with pytest.raises(ConfigurationError, match=text):
        tool(**options)(functools.partial(pay, bound=1))


def test_the_context_is_no_part_of_a_key():
    @tool(key=("ctx",))
    def pay(ctx: ToolContext, a: int) -> None: ...

    with pytest.raises(ConfigurationError, match="'ctx', which is the context"):
        _ = pay.parameters
