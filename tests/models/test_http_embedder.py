"""Vectors over HTTP: what is asked, what is taken, what is refused."""

import openai
import pytest

from tenuto.errors import ConfigurationError, ModelError, ModelHTTPError
from tenuto.models.embedding_wire import decode
from tenuto.models.endpoint import Endpoint
from tenuto.models.http_embedder import HttpEmbedder
from tenuto.models.resolve_embedder import resolve_embedder
from tenuto.testing import Bytes, FakeProvider, HTTPError, ScriptedEmbedder, Silence, Vectors

KEY = "sk-canary-0123456789"


class Waits:
    """A clock that does not wait."""

    def __init__(self):
        self.waited = []

    async def sleep(self, seconds):
        self.waited.append(seconds)


def at(provider, **more):
    return resolve_embedder({"id": "openai/text-embedding-3-small", "url": provider.base_url, "api_key": KEY} | more)


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_texts_become_vectors_in_their_order():
    with FakeProvider(embeddings=Vectors(dimensions=16), api_key=KEY) as provider:
        embedder = at(provider)
        assert embedder.id == "openai/text-embedding-3-small"
        assert embedder.dimensions is None
        one, two, three = await embedder.embed(["red apples", "Apples, red!", "a blue car"])
        assert embedder.dimensions == 16
        assert cosine(one, two) == pytest.approx(1)
        assert cosine(one, three) < 0.9
        body = provider.requests[0].body
        assert body == {
            "model": "text-embedding-3-small",
            "input": ["red apples", "Apples, red!", "a blue car"],
            "encoding_format": "float",
        }


async def test_the_vendors_own_client_reads_the_same_vectors():
    with FakeProvider(api_key=KEY) as provider:
        [ours] = await at(provider, dimensions=32).embed(["hello there"])
        async with openai.AsyncOpenAI(api_key=KEY, base_url=provider.base_url) as client:
            theirs = await client.embeddings.create(
                model="text-embedding-3-small", input=["hello there"], dimensions=32
            )
        assert theirs.data[0].embedding == pytest.approx(list(ours))
        assert len(ours) == 32
        assert [each.body.get("encoding_format") for each in provider.requests] == ["float", "base64"]


async def test_dimensions_that_are_asked_for_are_part_of_the_name():
    with FakeProvider() as provider:
        embedder = at(provider, dimensions=8)
        assert (embedder.id, embedder.dimensions) == ("openai/text-embedding-3-small@8", 8)
        assert len((await embedder.embed(["x"]))[0]) == 8
        assert provider.requests[0].body["dimensions"] == 8


@pytest.mark.parametrize(("status", "tries"), [(429, 3), (500, 3), (503, 3), (400, 1), (401, 1), (404, 1)])
async def test_what_may_pass_is_tried_again_and_nothing_else(status, tries):
    clock = Waits()
    with FakeProvider(embeddings=HTTPError(status)) as provider:
        embedder = HttpEmbedder("openai", "m", Endpoint(url=provider.base_url, api_key=KEY), clock=clock)
        with pytest.raises(ModelHTTPError) as caught:
            await embedder.embed(["x"])
        assert caught.value.status == status
        assert len(provider.requests) == tries
        assert clock.waited == [1.0, 2.0][: tries - 1]


async def test_the_provider_says_how_long_to_wait():
    clock = Waits()
    with FakeProvider(embeddings=[HTTPError(429, headers={"retry-after": "7"}), Vectors()]) as provider:
        embedder = HttpEmbedder("openai", "m", Endpoint(url=provider.base_url, api_key=KEY), clock=clock)
        assert len(await embedder.embed(["x"])) == 1
    assert clock.waited == [7.0]


async def test_a_secret_comes_back_in_no_error():
    said = {"error": {"message": f"bad key {KEY} in Bearer {KEY}", "type": "invalid_request_error"}}
    with FakeProvider(embeddings=[HTTPError(400, said), Bytes(f"<p>{KEY}</p>".encode())]) as provider:
        for _ in range(2):
            with pytest.raises(ModelError) as caught:
                await at(provider).embed(["x"])
            assert KEY not in str(caught.value)
        assert KEY not in repr(at(provider))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>not here</html>",
        b'{"data": []}',
        b'{"data": [{"embedding": [1, 2], "index": 0}, {"embedding": [1], "index": 1}]}',
        b'{"data": [{"embedding": [1], "index": 0}, {"embedding": [2], "index": 0}]}',
        b'{"data": [{"embedding": [], "index": 0}, {"embedding": [], "index": 1}]}',
        b'{"data": [{"embedding": [1e999], "index": 0}, {"embedding": [2], "index": 1}]}',
        b'{"data": [{"embedding": "AAAA", "index": 0}, {"embedding": "AAAA", "index": 1}]}',
    ],
)
async def test_what_is_not_one_vector_for_each_text_is_refused(body):
    with FakeProvider(embeddings=Bytes(body, content_type="application/json")) as provider:
        with pytest.raises(ModelError, match="did not answer with vectors") as caught:
            await at(provider).embed(["x", "y"])
        assert caught.value.id == "EMBEDDING_RESPONSE_INVALID"


async def test_an_error_in_a_successful_answer_is_that_error():
    body = b'{"error": {"message": "no such model", "code": "model_not_found"}}'
    answer = Bytes(body, content_type="application/json")
    with FakeProvider(embeddings=answer) as provider, pytest.raises(ModelError, match="no such model"):
        await at(provider).embed(["x"])


async def test_another_length_than_before_is_another_model():
    with FakeProvider(embeddings=[Vectors(dimensions=8), Vectors(dimensions=9)]) as provider:
        embedder = at(provider)
        await embedder.embed(["x"])
        with pytest.raises(ModelError, match="9 numbers, and 8 were expected"):
            await embedder.embed(["x"])


def test_vectors_are_ordered_by_their_index():
    body = b'{"data": [{"embedding": [2], "index": 1}, {"embedding": [1], "index": 0}]}'
    assert decode(body, 2) == [(1.0,), (2.0,)]
    assert decode(b'{"data": [{"embedding": [2]}, {"embedding": [1]}]}', 2) == [(2.0,), (1.0,)]


async def test_a_cancelled_call_drops_its_connection():
    import asyncio

    with FakeProvider(embeddings=Silence()) as provider:
        task = asyncio.ensure_future(at(provider).embed(["x"]))
        await provider.wait_for_requests(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"input": []}, "empty_input"),
        ({"input": ["a", ""]}, "empty_input"),
        ({"input": ["a"] * 2049}, "bad_parameter"),
        ({"input": ["a" * 40_000]}, "bad_parameter"),
        ({"input": [1]}, "bad_parameter"),
        ({"input": ["a"], "encoding_format": "int8"}, "bad_parameter"),
        ({"input": ["a"], "dimensions": 0}, "bad_parameter"),
        ({"input": ["a"], "stream": True}, "unknown_key"),
        ({"input": ["a"], "model": ""}, "missing_model"),
    ],
)
async def test_the_fake_provider_is_as_strict_as_the_real_one(body, reason):
    with FakeProvider(allow_refused=True) as provider:
        async with openai.AsyncOpenAI(api_key=KEY, base_url=provider.base_url, max_retries=0) as client:
            with pytest.raises(openai.BadRequestError) as caught:
                await client.post("/embeddings", body={"model": "m"} | body, cast_to=object)
        assert caught.value.code == reason


# -- what embedder= takes ----------------------------------------------------------------------------------------------


def test_a_string_names_a_provider_of_the_catalogue(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    embedder = resolve_embedder("openai/text-embedding-3-small")
    assert embedder.id == "openai/text-embedding-3-small"
    assert "https://api.openai.com/v1" in repr(embedder)
    assert KEY not in repr(embedder)


def test_an_embedder_is_itself():
    own = ScriptedEmbedder()
    assert resolve_embedder(own) is own


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (5, "got int"),
        (ScriptedEmbedder, "got type"),
        ({"id": "openai/x", "colour": 1}, "no key 'colour'"),
        ({"id": "openai/x", "dimensions": 0}, "above 0"),
        ({"id": "openai/x", "dimensions": True}, "above 0"),
        ({"id": "openai/x", "dimensions": "8"}, "above 0"),
        ({"id": "openai/x", "api": "chat"}, "no key 'api'"),
        ({"url": "http://x"}, "either 'id'"),
    ],
)
def test_what_is_no_embedder_says_what_one_is(config, message):
    with pytest.raises(TypeError, match=message):
        resolve_embedder(config)


@pytest.mark.parametrize(
    ("config", "id"),
    [
        ("text-embedding-3-small", "MODEL_NAME_INVALID"),
        ("opnai/x", "MODEL_PROVIDER_UNKNOWN"),
        ("anthropic/claude", "EMBEDDER_PROVIDER_UNSUITABLE"),
        ({"id": "x/y", "url": "host/v1"}, "MODEL_URL_INVALID"),
        ("local/smollm2", "LOCAL_MODEL_UNSUITABLE"),
        ("local/nothing", "LOCAL_MODEL_UNKNOWN"),
        ("local/no/such.gguf", "LOCAL_MODEL_NOT_FOUND"),
    ],
)
def test_a_configuration_that_cannot_work_says_so(config, id):
    with pytest.raises(ConfigurationError) as caught:
        resolve_embedder(config)
    assert caught.value.id == id


async def test_a_missing_key_is_told_when_it_is_asked(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ModelError, match="Set OPENAI_API_KEY"):
        await resolve_embedder("openai/text-embedding-3-small").embed(["x"])
