import re
import sys
from types import ModuleType

import pytest

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.messages.turns import Prompt, Text, UserTurn
from tenuto.models.catalogue import find_provider, names
from tenuto.models.catalogue.own import ALIASES
from tenuto.models.http_model import HttpModel
from tenuto.models.ports import LanguageModel, ModelRequest
from tenuto.models.resolve import resolve_model
from tenuto.testing.provider import FakeProvider, Reply
from tests.models.drive import run


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in [*names(), *ALIASES]:
        monkeypatch.delenv(f"{name.upper().replace('-', '_')}_BASE_URL", raising=False)
        for key in find_provider(name).keys:
            monkeypatch.delenv(key, raising=False)


def test_the_first_slash_splits():
    model = resolve_model("openrouter/anthropic/claude-x")
    assert (model.provider, model.model_id) == ("openrouter", "anthropic/claude-x")
    assert isinstance(model, LanguageModel)


@pytest.mark.parametrize(
    "record",
    [
        {"id": "a/b/c", "url": "http://h/v1"},
        {"provider_id": "a", "model_id": "b/c", "url": "http://h/v1"},
        {
            "providerId": "a",
            "modelId": "b/c",
            "url": "http://h/v1",
            "apiKey": "k",
            "headers": {"x": "y"},
            "api": "chat",
        },
        {"id": "a/b/c", "url": "http://h/v1", "api_key": None, "headers": None},
    ],
)
def test_records(record):
    model = resolve_model(record)
    assert (model.provider, model.model_id) == ("a", "b/c")


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "a/b", "apikey": "k"}, "did you mean 'api_key'"),
        ({"id": "a/b", "colour": "k"}, "known keys: id"),
        ({"id": "a/b", "apiKey": "k", "api_key": "k"}, "twice"),
        ({"url": "http://h"}, "either 'id'"),
        ({"id": "a/b", "model_id": "c"}, "either 'id'"),
        ({"provider_id": "a"}, "either 'id'"),
        ({"id": 3}, "'id' of a model record is text, not int"),
        ({"id": "a/b", "headers": {"x": 1}}, "text to text"),
        ({"id": "a/b", "headers": "x"}, "text to text"),
        ({"id": "a/b", "api": "soap"}, "'chat', 'responses'"),
        (["openai/a"], "stands alone"),
        (3, "got int"),
        (None, "got NoneType"),
        (HttpModel, "got type"),
    ],
)
def test_what_is_no_model_is_a_type_error(record, message):
    with pytest.raises(TypeError, match=message):
        resolve_model(record)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("opnai/gpt", "Near names: openai.*'url': 'http://host/v1'"),
        ("togetherr/gpt", "Near names: together"),
        ("zzz/gpt", "tenuto models"),
        ("../openai/x", "no provider '..'"),
        ("gitlab/m", "protocol of its own.*'url'"),
        ("azure/gpt-5", "needs AZURE_RESOURCE_NAME.*AZURE_BASE_URL"),
        ("gpt-5", "write 'provider/model'"),
        ("/x", "write 'provider/model'"),
        ({"id": "a/b", "api": "responses"}, "no provider 'a'"),
        ({"id": "a/b"}, "no provider 'a'"),
        ({"id": "a/b", "url": "h/v1"}, "begin with http"),
    ],
)
def test_what_cannot_work_is_a_configuration_error(config, message):
    with pytest.raises(ConfigurationError, match=message):
        resolve_model(config)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("openai/m", "/responses"),
        ("xai/m", "/responses"),
        ({"id": "openai/m", "api": "chat"}, "/chat/completions"),
        ({"id": "openai/m", "url": "http://h/v1"}, "/chat/completions"),
        ({"id": "a/m", "url": "http://h/v1", "api": "responses"}, "/responses"),
        ("groq/m", "/chat/completions"),
    ],
)
def test_which_dialect_a_model_speaks(config, path):
    asked = ModelRequest(prompt=Prompt(turns=[UserTurn((Text("hi"),))]))
    assert resolve_model(config)._format.request("m", asked).path == path


def test_a_model_is_itself():
    model = resolve_model("openai/x")
    assert resolve_model(model) is model


async def test_a_missing_key_surfaces_at_the_call_and_names_the_variable():
    with pytest.raises(ModelError) as caught:
        await run(resolve_model("groq/llama"))
    assert "GROQ_API_KEY" in str(caught.value)
    assert "groq/llama" in str(caught.value)
    assert (caught.value.id, caught.value.category, caught.value.retryable) == ("MODEL_API_KEY_MISSING", "USER", False)


@pytest.mark.parametrize("record", [{}, {"api_key": "explicit"}])
async def test_keys_and_base_urls_from_the_environment(monkeypatch, record):
    with FakeProvider([Reply("x")]) as fake:
        monkeypatch.setenv("GROQ_BASE_URL", fake.base_url + "/")
        monkeypatch.setenv("GROQ_API_KEY", "from-env")
        await run(resolve_model({"id": "groq/m", **record}))
        (seen,) = fake.requests
    assert seen.headers["authorization"] == f"Bearer {record.get('api_key', 'from-env')}"
    assert seen.path == "/v1/chat/completions"


async def test_the_key_is_read_at_the_call(monkeypatch):
    with FakeProvider([Reply("x")], api_key="late") as fake:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.base_url)
        model = resolve_model("openai/m")
        monkeypatch.setenv("OPENAI_API_KEY", "late")
        await run(model)


async def test_a_url_needs_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "not for strangers")
    with FakeProvider([Reply("x")]) as fake:
        await run(resolve_model({"id": "openai/m", "url": fake.base_url}))
        assert "authorization" not in fake.requests[0].headers


async def test_headers_of_the_record_are_sent():
    with FakeProvider([Reply("x")]) as fake:
        await run(resolve_model({"id": "a/m", "url": fake.base_url, "headers": {"X-Team": "t"}}))
        assert fake.requests[0].headers["x-team"] == "t"
        assert fake.requests[0].headers["user-agent"].startswith("tenuto")


def test_nothing_shows_a_key():
    model = resolve_model(
        {"id": "a/m", "url": "http://h/v1", "api_key": "sk-canary", "headers": {"x-key": "sk-canary"}}
    )
    assert "canary" not in repr(model)
    assert "canary" not in repr(model._endpoint)


def test_local_models_are_asked_of_their_own_room(monkeypatch):
    room = ModuleType("tenuto.models.local")
    room.local_model = lambda name: ("local", name)
    monkeypatch.setitem(sys.modules, "tenuto.models.local", room)
    assert resolve_model("local/smollm2") == ("local", "smollm2")
    assert resolve_model("local/path/to/model.gguf") == ("local", "path/to/model.gguf")


UNREACHABLE = {
    "amazon-bedrock",
    "gitlab",
    "google-vertex",
    "google-vertex-anthropic",
    "sap-ai-core",
}
"""They speak a protocol that is not built, and no chat completions."""


@pytest.mark.parametrize("name", [*names(), *ALIASES])
def test_every_provider_of_the_catalogue_resolves(name, monkeypatch):
    entry = find_provider(name)
    for variable in re.findall(r"\$\{(\w+)\}", f"{entry.url} {entry.chat_url}"):
        monkeypatch.setenv(variable, "mine")
    if name in UNREACHABLE:
        with pytest.raises(ConfigurationError, match="which is not built"):
            resolve_model(f"{name}/m")
        return
    model = resolve_model(f"{name}/m")
    assert model.provider == name
    assert model._endpoint.url.startswith("http")
    assert "$" not in model._endpoint.url
    assert entry.keys or model._endpoint.url.startswith(("http://127.0.0.1", "http://localhost"))


def test_a_missing_key_names_every_variable():
    with pytest.raises(ModelError, match="Set GOOGLE_API_KEY or GOOGLE_GENERATIVE_AI_API_KEY or GEMINI_API_KEY"):
        model = resolve_model("google/gemini-2.5-pro")
        model._endpoint.key(model.provider, model.model_id)


async def test_a_key_goes_into_the_header_of_its_provider(monkeypatch):
    with FakeProvider([Reply("x"), Reply("x")]) as fake:
        monkeypatch.setenv("AZURE_BASE_URL", fake.base_url)
        monkeypatch.setenv("AZURE_API_KEY", "k1")
        monkeypatch.setenv("CLOUDFLARE_AI_GATEWAY_BASE_URL", fake.base_url)
        monkeypatch.setenv("CLOUDFLARE_API_TOKEN", "k2")
        await run(resolve_model("azure/gpt-5"))
        await run(resolve_model("cloudflare-ai-gateway/openai/gpt-5"))
        first, second = (seen.headers for seen in fake.requests)
    assert (first["api-key"], "authorization" in first) == ("k1", False)
    assert (second["cf-aig-authorization"], "authorization" in second) == ("Bearer k2", False)


def test_what_the_catalogue_knows_of_a_model_goes_with_it():
    assert resolve_model("openai/gpt-5").info.id == "gpt-5"
    assert resolve_model("openai/no-such-model").info is None
    assert resolve_model({"id": "openai/gpt-5", "url": "http://h/v1"}).info is None
    assert resolve_model("zai/glm-4.7")._format._quirks.echo_reasoning


@pytest.mark.parametrize(
    ("config", "shown"),
    [
        (
            "google/gemini-3-pro",
            "<GeminiFormat google/gemini-3-pro at https://generativelanguage.googleapis.com/v1beta>",
        ),
        (
            "gemini/gemini-3-pro",
            "<GeminiFormat gemini/gemini-3-pro at https://generativelanguage.googleapis.com/v1beta>",
        ),
        (
            {"id": "google/x", "api": "chat"},
            "<ChatFormat google/x at https://generativelanguage.googleapis.com/v1beta/openai>",
        ),
        ({"id": "google/x", "url": "http://h/v1"}, "<ChatFormat google/x at http://h/v1>"),
        ({"id": "mine/x", "url": "http://h/v1", "api": "google"}, "<GeminiFormat mine/x at http://h/v1>"),
    ],
)
def test_a_model_is_asked_in_its_providers_dialect_or_the_one_that_a_record_names(config, shown):
    assert repr(resolve_model(config)) == shown
