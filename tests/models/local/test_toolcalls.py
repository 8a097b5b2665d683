"""Finding calls in text, leniently."""

import pytest

from tenuto.models.local.toolcalls import Call, CallScanner, opening

NAMES = {"add", "get_weather"}
PARIS = Call("get_weather", {"city": "Paris"}, '{"city": "Paris"}')
TAGGED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def scan(*pieces):
    scanner = CallScanner(NAMES)
    found = [each for piece in pieces for each in scanner.feed(piece)]
    found += scanner.end()
    joined = []
    for each in found:
        if isinstance(each, str) and joined and isinstance(joined[-1], str):
            joined[-1] += each
        else:
            joined.append(each)
    return joined


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Hello there.", ["Hello there."]),
        (TAGGED, [PARIS]),
        (f"Let me look. {TAGGED}", ["Let me look. ", PARIS]),
        (TAGGED + TAGGED, [PARIS, PARIS]),
        (f"{TAGGED} Done.", [PARIS, "Done."]),
        (TAGGED.removesuffix("\n</tool_call>"), [PARIS]),
        ('{"name": "get_weather", "parameters": {"city": "Paris"}}', [PARIS]),
        ('```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```', [PARIS]),
        ('[{"name": "get_weather", "arguments": {"city": "Paris"}}]', [PARIS]),
        ('<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>', [PARIS]),
        ('<tool_call>{"name": "nope", "arguments": {}}</tool_call>', [Call("nope", {}, "{}")]),
        ('<tool_call>{"name": "add"}</tool_call>', [Call("add", {}, "{}")]),
        ('{"name": "nope", "arguments": {}}', ['{"name": "nope", "arguments": {}}']),
        ('{"name": "add"}', ['{"name": "add"}']),
        ('{"answer": 4}', ['{"answer": 4}']),
        ("<tool_call>just words</tool_call>", ["<tool_call>just words</tool_call>"]),
        ("a < b, and <tool", ["a < b, and <tool"]),
        ("", []),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_what_is_found_does_not_depend_on_how_it_arrives(text, found, size):
    assert scan(*(text[at : at + size] for at in range(0, len(text), size))) == found


def test_broken_arguments_are_a_call_with_its_text():
    [call] = scan('<tool_call>{"name": "add", "arguments": {"a": }}</tool_call>')
    assert call == Call("add", None, '{"name": "add", "arguments": {"a": }}')


def test_text_goes_out_at_once_and_the_beginning_of_a_tag_waits():
    scanner = CallScanner(NAMES)
    assert scanner.feed("Hello ") == ["Hello "]
    assert scanner.feed("you<tool") == ["you"]
    assert scanner.feed("box") == ["<toolbox"]


def test_an_open_call_is_known():
    scanner = CallScanner(NAMES)
    scanner.feed('<tool_call>{"name"')
    assert scanner.inside


def test_the_opening_leaves_only_the_arguments():
    assert opening('a"b') == '<tool_call>\n{"name": "a\\"b", "arguments": '
