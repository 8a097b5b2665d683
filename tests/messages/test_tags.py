"""Text in a tag stays in it."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenuto.messages.tags import escaped, tagged

TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]))


@pytest.mark.parametrize(
    ("text", "attributes", "told"),
    [
        ('x & "y"', {}, '<t>x &amp; "y"</t>'),
        ("", {}, "<t />"),
        (" ", {}, "<t> </t>"),
        ("", {"a": 1}, '<t a="1" />'),
        ("hi", {"name": "Devin", "from": "slack"}, '<t name="Devin" from="slack">hi</t>'),
        (
            "hi",
            {"x": 1, "y": 1.5, "w": 1.0, "z": True, "n": None, "q": "a\"b<c>&'"},
            '<t x="1" y="1.5" w="1" z="true" q="a&quot;b&lt;c&gt;&amp;\'">hi</t>',
        ),
        ("hi", {"l": [1, "<"]}, '<t l="[1,&quot;&lt;&quot;]">hi</t>'),
        ("</t><t>", {}, "<t>&lt;/t&gt;&lt;t&gt;</t>"),
    ],
)
def test_how_it_is_written(text, attributes, told):
    assert tagged("t", text, attributes) == told


@pytest.mark.parametrize("name", ["", "1a", "a b", "a\n", "a:b", "é", "a>", "-a"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(ValueError, match="cannot name a tag"):
        tagged(name, "x")
    with pytest.raises(ValueError, match="cannot name a tag"):
        tagged("t", "x", {name: 1})


@given(TEXT, TEXT)
def test_whatever_it_is_it_comes_back_whole_and_alone(text, value):
    read = ET.fromstring(tagged("t", text, {"a": value}))
    assert (read.tag, read.text or "", read.attrib, len(read)) == ("t", text, {"a": value}, 0)


@given(st.text())
def test_no_angle_bracket_is_left(text):
    assert not set("<>") & set(escaped(text))
