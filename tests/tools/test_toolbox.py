import pytest

from tenuto.core.errors import ConfigurationError
from tenuto.tools import tool
from tenuto.tools.toolbox import Toolbox


@tool(id="add")
def plus(a: int, b: int) -> int:
    """Add."""
    return a + b


def echo(text: str) -> str:
    """Echo."""
    return text


def test_a_list_is_named_by_its_functions_and_keeps_its_order():
    box = Toolbox([echo, plus])
    assert list(box) == ["echo", "add"]
    assert box["add"] is plus
    assert "plus" not in box
    assert len(Toolbox()) == 0


def test_the_keys_of_a_dict_are_the_names():
    box = Toolbox({"sum": plus, "say": echo, "one": lambda: 1})
    assert [spec.name for spec in box.specs()] == ["sum", "say", "one"]
    assert box["sum"].id == "add"
    assert box["say"].description == "Echo."


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match=r"'echo'.*test_toolbox\.echo"):
        Toolbox([echo, tool(echo)])


@pytest.mark.parametrize("name", ["", "a b", "a.b", "x" * 65, "é", "a\n", 3])
def test_a_name_that_providers_refuse_is_refused(name):
    with pytest.raises(ConfigurationError, match="no name for a tool"):
        Toolbox({name: echo})


@pytest.mark.parametrize("tools", ["echo", 3, echo, [3], ["echo"], [lambda: 1], {"x": int}])
def test_what_is_no_tool_is_refused(tools):
    with pytest.raises(ConfigurationError):
        Toolbox(tools)


def test_one_selection_is_one_tuple():
    box = Toolbox([echo, plus])
    assert box.specs() is box.specs()
    assert box.specs(["add"]) is box.specs(("add",))
    assert box.specs(["add", "echo"]) is box.specs()
    assert box.specs([]) == ()
    assert box.specs(["add"])[0].parameters["required"] == ["a", "b"]


def test_an_unknown_active_tool_is_named():
    with pytest.raises(ConfigurationError, match=r"'minus'.* are: echo, add"):
        Toolbox([echo, plus]).specs(["minus"])
