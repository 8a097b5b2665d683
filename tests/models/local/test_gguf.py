"""The head of a model file."""

import struct

import pytest

from tenuto.core.errors import ConfigurationError
from tenuto.models.local.gguf import chat_template
from tenuto.models.local.profiles import Profile, profile_of


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def gguf(path, *pairs, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, 0, len(pairs))
    path.write_bytes(head + b"".join(pairs))
    return path


def string(key, value):
    return text(key) + struct.pack("<I", 8) + text(value)


COUNT = text("general.count") + struct.pack("<II", 4, 7)
NUMBERS = text("numbers") + struct.pack("<IIQ", 9, 5, 3) + struct.pack("<iii", 1, 2, 3)
WORDS = text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("bc")
NESTED = text("nested") + struct.pack("<IIQ", 9, 9, 1) + struct.pack("<IQ", 8, 1) + text("x")


def template(value):
    return string("tokenizer.chat_template", value)


def test_the_template_is_found_behind_every_kind_of_value(tmp_path):
    path = gguf(tmp_path / "m.gguf", COUNT, NUMBERS, WORDS, NESTED, string("a", "b"), template("{{ x }}"))
    assert chat_template(path) == "{{ x }}"


def test_a_file_without_one_has_none(tmp_path):
    assert chat_template(gguf(tmp_path / "m.gguf", COUNT)) is None


@pytest.mark.parametrize("content", [b"", b"GGUF", b"PK\x03\x04", b"GGUF" + b"\0" * 100, b"GGUF\3\0\0\0" + b"\1" * 40])
def test_anything_else_is_refused_by_name(tmp_path, content):
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"bad\.gguf is not a readable GGUF"):
        chat_template(path)


@pytest.mark.parametrize(
    ("pairs", "profile"),
    [
        ([template("<|im_start|> {{ tools }}")], Profile("chatml", "hermes", calls_tools=True)),
        ([template("<|im_start|>")], Profile("chatml", calls_tools=False, folds_results=True)),
        ([template("<start_of_turn>")], Profile("own", calls_tools=False, folds_results=True)),
        ([template("[INST] {{ tools }}")], Profile("own", calls_tools=True)),
        ([], Profile("chatml", calls_tools=False, folds_results=True)),
    ],
)
def test_a_profile_comes_from_the_template(tmp_path, pairs, profile):
    assert profile_of(gguf(tmp_path / "m.gguf", *pairs)) == profile
