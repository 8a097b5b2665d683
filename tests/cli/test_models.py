"""`tenuto models`: what it lists, and that no key is ever in it."""

import json

import pytest
from typer.testing import CliRunner

from tenuto.cli.commands import app
from tenuto.cli.models import abilities
from tenuto.cli.usage import dollars, tokens
from tenuto.core.payloads import Usage
from tenuto.models.catalogue import ModelInfo, find_model, find_provider, models_of, names

SECRET = "sk-canary-0123456789"


@pytest.fixture
def listed(monkeypatch):
    """What `tenuto models` prints when only OPENAI_API_KEY is set."""
    for name in names():
        for key in find_provider(name).keys:
            monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)

    def run(*arguments):
        result = CliRunner().invoke(app, ["models", *arguments])
        assert SECRET not in result.output
        return result

    return run


def test_without_a_pattern_it_lists_the_providers(listed):
    result = listed()
    head, *rows = result.stdout.splitlines()
    assert result.exit_code == 0
    assert head.split() == ["PROVIDER", "MODELS", "SPEAKS", "KEY"]
    assert [row.split()[0] for row in rows] == list(names())
    (openai,) = (row for row in rows if row.startswith("openai "))
    assert openai.split(maxsplit=3) == [
        "openai",
        str(len(models_of("openai"))),
        "responses",
        openai.split(maxsplit=3)[3],
    ]
    assert "OPENAI_API_KEY is set" in openai
    (google,) = (row for row in rows if row.startswith("google "))
    assert "set GOOGLE_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY" in google
    (ollama,) = (row for row in rows if row.startswith("ollama "))
    assert "none needed" in ollama


def test_a_pattern_lists_models(listed):
    head, *rows = listed("OpenAI/gpt-5-mini").stdout.splitlines()
    assert head.split() == ["MODEL", "CONTEXT", "$", "IN", "$", "OUT", "CAN", "KEY"]
    (row,) = (row for row in rows if row.startswith("openai/gpt-5-mini "))
    assert row.split()[1:4] == ["400k", "0.25", "2"]
    assert "tools, reasoning, schema, reads image" in row
    assert any(row.startswith("openrouter/openai/gpt-5-mini") for row in rows)


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (["openai/gpt-4o*", "--provider", "openai"], 5),
        (["--provider", "openai"], len(models_of("openai"))),
        (["--provider", "gemini"], len(models_of("google"))),
        (["gpt-5-mini", "--with-key", "--provider", "openai"], 1),
    ],
)
def test_narrowed_down(listed, arguments, count):
    assert len(listed(*arguments).stdout.splitlines()) == count + 1


def test_only_what_can_be_used_here(listed):
    rows = [row.split()[0] for row in listed("--with-key").stdout.splitlines()[1:]]
    assert {"openai", "ollama", "vllm"} <= set(rows)
    assert not {"anthropic", "google"} & set(rows)


def test_json_of_models_has_everything(listed):
    (row,) = json.loads(listed("gpt-5-mini", "--provider", "openai", "--json").stdout)
    assert row["model"] == "openai/gpt-5-mini"
    assert row["price"] == {"input": 0.25, "output": 2, "cached": 0.025}
    assert (row["context"], row["temperature"], row["dialect"]) == (400_000, False, "responses")
    assert (row["keys"], row["key_set"], row["usable"]) == (["OPENAI_API_KEY"], "OPENAI_API_KEY", True)


def test_json_of_providers(listed):
    rows = {row["provider"]: row for row in json.loads(listed("--json").stdout)}
    assert rows["anthropic"]["usable"] is False
    assert rows["ollama"]["usable"] is True
    assert rows["openai"]["models"] == len(models_of("openai"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["zzzz"], "nothing fits"),
        (["claude", "--provider", "anthropic", "--with-key"], "nothing fits among the providers with a key"),
        (["--provider", "opnai"], "near names: openai"),
        (["--provider", "zzzzzz"], "lists them all"),
    ],
)
def test_nothing_to_list(listed, arguments, said):
    result = listed(*arguments)
    assert result.exit_code == 1
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_abilities():
    assert abilities(ModelInfo(id="m")) == ["tools"]
    assert abilities(ModelInfo(id="m", tools=False, output=("text", "image"), deprecated=True)) == [
        "writes image",
        "deprecated",
    ]
    assert "reads pdf" in abilities(find_model("anthropic", "claude-sonnet-4-5"))


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (0, "$0"),
        (12.346, "$12.35"),
        (1, "$1.00"),
        (0.5, "$0.50"),
        (0.1234, "$0.123"),
        (0.0003014, "$0.000301"),
        (0.0003, "$0.0003"),
        (2e-9, "$0.000000002"),
        (0.99999, "$1.00"),
    ],
)
def test_dollars(amount, said):
    assert dollars(amount) == said


def test_tokens_in_words():
    assert tokens(Usage(188, 10, 198)) == "188 tokens in, 10 out"
    assert tokens(Usage(188, 10, 198, cached_input_tokens=64, cost=0.0003)) == (
        "188 tokens in (64 cached), 10 out, $0.0003"
    )
