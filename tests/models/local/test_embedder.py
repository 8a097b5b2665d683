"""Vectors from a model file: on an engine of paper, and with the real weights, which are pulled if need be."""

import asyncio
import json
import struct
from pathlib import Path

import pytest

from tenuto.core.errors import ConfigurationError, ModelError, TenutoError
from tenuto.models.local import KNOWN, local_model, pull
from tenuto.models.local.embedder import LocalEmbedder, local_embedder
from tenuto.models.local.engine import close_engines
from tenuto.models.local.minilm import write_minilm

VECTORS = json.loads(Path(__file__).with_name("minilm_vectors.json").read_text("utf-8"))
"""Made by a float64 implementation of the model that shares nothing with ours, with another tokeniser."""


@pytest.fixture(scope="session")
def minilm():
    try:
        pull("minilm")
    except TenutoError as error:
        pytest.fail(f"the weights of local/minilm cannot be had: {error}")
    return local_embedder("minilm")


def cosine(one, other):
    return sum(a * b for a, b in zip(one, other, strict=True))


# -- the real model ----------------------------------------------------------------------------------------------------


@pytest.mark.local_model
async def test_the_vectors_are_those_of_the_original_model(minilm):
    made = await minilm.embed([each["text"] for each in VECTORS])
    for each, vector in zip(VECTORS, made, strict=True):
        assert cosine(each["vector"], vector) > 0.999
        assert vector == pytest.approx(each["vector"], abs=0.002)
        assert cosine(vector, vector) == pytest.approx(1)
    assert {len(vector) for vector in made} == {minilm.dimensions} == {384}


@pytest.mark.local_model
async def test_like_sentences_are_nearer_than_unlike_ones(minilm):
    dog, pet, tax = await minilm.embed(
        ["My dog is called Rex.", "What is the name of my pet?", "The tax return is due in May."]
    )
    assert cosine(dog, pet) > cosine(dog, tax) + 0.2
    assert cosine(dog, pet) > cosine(pet, tax) + 0.2


@pytest.mark.local_model
async def test_a_batch_makes_the_vectors_that_single_texts_make(minilm):
    texts = ["one", "two words", "three words here", "one"]
    batch = await minilm.embed(texts)
    single = [(await minilm.embed([text]))[0] for text in texts]
    assert [*map(list, batch)] == [pytest.approx(list(each)) for each in single]


@pytest.mark.local_model
@pytest.mark.parametrize("text", ["\u6771" * 1000, "q" * 1000, "x " * 499 + "yz"])
async def test_a_text_of_more_tokens_than_the_model_takes_is_taken_in_pieces(minilm, text):
    assert len(text) <= minilm.max_characters
    [vector] = await minilm.embed([text])
    assert cosine(vector, vector) == pytest.approx(1, abs=1e-4)


@pytest.mark.local_model
async def test_the_loop_goes_on_while_it_works_and_an_engine_comes_again(minilm):
    await asyncio.to_thread(close_engines)
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            await asyncio.sleep(0)
            beats += 1

    beating = asyncio.ensure_future(beat())
    await minilm.embed(["some words to think about"] * 4)
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    assert beats > 100


# -- on paper ----------------------------------------------------------------------------------------------------------


class Engine:
    path = Path("fake.gguf")

    def __init__(self, *answers, error=None, cut=False):
        self.answers = list(answers)
        self.error, self.cut = error, cut
        self.texts = []

    def submit(self, job, sink):
        self.texts.append(tuple(job.texts))
        for _ in job.texts:
            if self.error or self.cut:
                break
            sink.put(self.answers.pop(0))
        sink.end(self.error)


def vector(*numbers):
    return {"data": [{"embedding": list(numbers)}]}


TOO_LONG = {"error": {"code": 500, "message": "input (602 tokens) is too large to process. increase the batch"}}


def on(engine):
    return LocalEmbedder("m", lambda: Path("fake.gguf"), None, engines=lambda path: engine)


async def test_a_long_text_is_halved_at_a_space_and_the_middle_of_its_halves_is_taken():
    engine = Engine(TOO_LONG, vector(1, 0), vector(0, 1))
    [made] = await on(engine).embed(["aaaa bbbb cccc"])
    assert engine.texts == [("aaaa bbbb cccc",), ("aaaa bbbb", " cccc")]
    assert list(made) == pytest.approx([0.5**0.5, 0.5**0.5])


@pytest.mark.parametrize(
    ("engine", "id"),
    [
        (Engine({"error": {"message": "out of memory"}}), "LOCAL_ENGINE_FAILED"),
        (Engine({}), "LOCAL_ENGINE_FAILED"),
        (Engine(cut=True), "LOCAL_ENGINE_CLOSED"),
        (Engine(error=ModelError("gone", id="GONE")), "GONE"),
    ],
)
async def test_a_failure_of_the_engine_is_typed(engine, id):
    with pytest.raises(ModelError) as caught:
        await on(engine).embed(["x"])
    assert caught.value.id == id


async def test_nothing_is_fetched_before_it_is_needed():
    def locate():
        raise AssertionError("fetched")

    embedder = LocalEmbedder("m", locate, None)
    assert embedder.id == "local/m"
    with pytest.raises(AssertionError, match="fetched"):
        await embedder.embed(["x"])


def test_a_model_that_answers_is_no_embedder_and_the_other_way_round():
    with pytest.raises(ConfigurationError, match="answers and makes no vectors"):
        local_embedder("smollm2")
    with pytest.raises(ConfigurationError, match="name it as embedder="):
        local_model("minilm")


# -- the conversion ----------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_the_model_is_not_converted(tmp_path):
    header = json.dumps({"embeddings.word_embeddings.weight": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}})
    (tmp_path / "w").write_bytes(struct.pack("<Q", len(header)) + header.encode() + b"\0\0")
    (tmp_path / "v").write_text("[PAD]\n")
    with pytest.raises(ValueError, match="single precision"):
        write_minilm(tmp_path / "w", tmp_path / "v", tmp_path / "out")


def test_each_known_model_says_what_it_is_made_of():
    weights = KNOWN["minilm"]
    assert weights.does == "embed"
    assert [source.file for source in weights.sources] == ["model.safetensors", "vocab.txt"]
    assert KNOWN["smollm2"].sources[0].sha256 == KNOWN["smollm2"].sha256
