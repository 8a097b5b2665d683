"""`tools/catalogue.py`: from the data of models.dev to the files of the snapshot."""

import json
import sys

import pytest

from tools import catalogue

MODEL = {
    "id": "small",
    "name": "Small",
    "attachment": False,
    "reasoning": True,
    "tool_call": True,
    "release_date": "2026-01-01",
    "modalities": {"input": ["text"], "output": ["text"]},
    "limit": {"context": 1000, "output": 100},
}
PROVIDER = {"id": "acme", "name": "Acme", "env": ["ACME_API_KEY"], "npm": "@ai-sdk/openai-compatible"}
URL = "https://api.acme.example/v1"


def written(tmp_path, **changes):
    """The lines of a provider that has `MODEL` and `changes`."""
    data = {"acme": {**PROVIDER, "api": URL, "models": {"small": MODEL}, **changes}}
    source, out = tmp_path / "api.json", tmp_path / "out"
    source.write_text(json.dumps(data))
    catalogue.write(json.loads(source.read_text()), out)
    return [json.loads(line) for line in (out / "acme.jsonl").read_text().splitlines()]


def row(tmp_path, **changes):
    return written(tmp_path, models={"small": {**MODEL, **changes}})[1]


def test_a_provider_and_its_models(tmp_path):
    first, second, third = written(
        tmp_path, doc="https://acme.example/docs", models={"b": {**MODEL, "id": "b"}, "a": {**MODEL, "id": "a"}}
    )
    assert first == {
        "name": "acme",
        "label": "Acme",
        "url": URL,
        "keys": ["ACME_API_KEY"],
        "docs": "https://acme.example/docs",
    }
    assert second == {"id": "a", "context": 1000, "max_output": 100, "reasoning": True}
    assert third["id"] == "b"


def test_what_is_not_in_the_data_any_more_goes(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "gone.jsonl").write_text("{}")
    written(tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["acme.jsonl"]


@pytest.mark.parametrize(
    ("variables", "keys"),
    [
        (["ODD"], ["ODD"]),
        (["A_PAT", "A_KEY", "A_TOKEN"], ["A_TOKEN", "A_KEY", "A_PAT"]),
        (["A_KEY", "A_API_KEY", "A_API_TOKEN"], ["A_API_TOKEN", "A_API_KEY", "A_KEY"]),
        (["ACME_ACCOUNT", "ACME_TOKEN"], ["ACME_TOKEN"]),
        (["ACME_PROJECT", "ACME_PLACE"], ["ACME_API_KEY"]),
        ([], ["ACME_API_KEY"]),
    ],
)  # fmt: skip
def test_the_variables_of_a_key(tmp_path, variables, keys):
    assert written(tmp_path, env=variables)[0]["keys"] == keys


def test_a_server_on_this_computer_needs_no_key(tmp_path):
    assert "keys" not in written(tmp_path, api="http://127.0.0.1:1234/v1")[0]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"npm": "@ai-sdk/openai"}, {"dialect": "responses", "url": URL}),
        ({"npm": "@ai-sdk/anthropic"}, {"dialect": "anthropic", "url": URL}),
        ({"npm": "@ai-sdk/google"}, {"dialect": "google", "url": URL}),
        ({"npm": "@ai-sdk/amazon-bedrock", "api": None}, {"dialect": None}),
        ({"npm": "@ai-sdk/groq", "api": None}, {}),
        ({"api": f"{URL}/"}, {"url": URL}),
        ({"api": f"{URL}/chat/completions"}, {"url": URL}),
    ],
)
def test_where_and_how_a_provider_is_reached(tmp_path, changes, expected):
    found = written(tmp_path, **changes)[0]
    assert {name: found[name] for name in ("dialect", "url") if name in found} == expected


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ({"npm": "@ai-sdk/anthropic"}, {"dialect": "anthropic"}),
        ({"npm": "@ai-sdk/anthropic", "api": "https://else.example/v1/"}, {"dialect": "anthropic", "url": "https://else.example/v1"}),
        ({"npm": "@ai-sdk/openai-compatible", "shape": "responses"}, {"dialect": "responses"}),
        ({"npm": "@ai-sdk/openai", "shape": "completions"}, {}),
        ({"npm": "@ai-sdk/openai-compatible"}, {}),
    ],
)  # fmt: skip
def test_where_and_how_a_model_differs(tmp_path, at, expected):
    found = row(tmp_path, provider=at)
    assert {name: found[name] for name in ("dialect", "url") if name in found} == expected


@pytest.mark.parametrize(
    ("cost", "price"),
    [
        (None, None),
        ({"input": -1, "output": -1}, None),
        ({"input": 1, "output": 2}, {"input": 1, "output": 2}),
        (
            {"input": 1, "output": 2, "cache_read": 0.1, "cache_write": 1.25, "reasoning": 3},
            {"input": 1, "output": 2, "cached": 0.1, "cache_write": 1.25, "reasoning": 3},
        ),
        ({"input": 1, "output": 2, "cache_read": 5, "cache_write": 0}, {"input": 1, "output": 2}),
        (
            {
                "input": 1,
                "output": 2,
                "cache_read": 0.1,
                "tiers": [
                    {"input": 4, "output": 8, "cache_read": 0.3, "tier": {"type": "context", "size": 400}},
                    {"input": 2, "output": 4, "tier": {"type": "context", "size": 200}},
                ],
            },
            {
                "input": 1,
                "output": 2,
                "cached": 0.1,
                "tiers": [
                    {"input": 2, "output": 4, "cached": 0.2, "above": 200},
                    {"input": 4, "output": 8, "cached": 0.3, "above": 400},
                ],
            },
        ),
    ],
)
def test_prices(tmp_path, cost, price):
    assert row(tmp_path, cost=cost).get("price") == price


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"temperature": False}, {"temperature": False}),
        ({"temperature": True}, {}),
        ({"tool_call": False}, {"tools": False}),
        ({"structured_output": False}, {"structured": False}),
        ({"interleaved": {"field": "reasoning_content"}}, {"echo_reasoning": True}),
        ({"interleaved": True}, {}),
        ({"status": "deprecated"}, {"deprecated": True}),
        ({"modalities": {"input": ["text", "image"], "output": ["text"]}}, {"input": ["text", "image"]}),
        ({"limit": {"context": 0, "output": 0}}, {}),
    ],
)
def test_what_a_model_can_do(tmp_path, changes, expected):
    found = row(tmp_path, **changes)
    usual = {"id": "small", "context": 1000, "max_output": 100, "reasoning": True}
    assert {name: value for name, value in found.items() if usual.get(name) != value} == expected


def test_a_model_that_writes_no_text_is_left_out(tmp_path):
    image = {**MODEL, "id": "painter", "modalities": {"input": ["text"], "output": ["image"]}}
    assert len(written(tmp_path, models={"painter": image})) == 1


def test_the_command(tmp_path, monkeypatch, capsys):
    source, out = tmp_path / "api.json", tmp_path / "out"
    source.write_text(json.dumps({"acme": {**PROVIDER, "models": {"small": MODEL}}}))
    monkeypatch.setattr(sys, "argv", ["catalogue", "--data", str(source), "--out", str(out)])
    catalogue.main()
    assert "1 providers from api.json" in capsys.readouterr().out
    assert json.loads((out / "snapshot.json").read_text()) == {"source": "api.json"}
