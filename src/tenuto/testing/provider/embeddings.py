"""The embeddings endpoint: checks requests as OpenAI's does and answers with vectors.

Invariant: by itself the vector of a text depends on the text's words alone, so texts that share words are alike, in
any process and in any order of the batch.

Source: https://platform.openai.com/docs/api-reference/embeddings/create
"""

import re
from array import array
from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast
from zlib import crc32

import msgspec

from tenuto.testing.provider.chat import openai_error
from tenuto.testing.provider.dialect import Wanted
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import Bytes, Event, Reply, Vectors
from tenuto.testing.provider.strict import Refused, Rules, check_bearer, require

__all__ = ["Embeddings", "render", "word_vector"]

_MOST_TEXTS = 2048
_LONGEST = 8192 * 4
"""Characters of a text that must have more than 8,192 tokens, were it plain English."""
_WORD = re.compile(r"\w+")


class _Parameters(msgspec.Struct):
    """The documented parameters; the fields are the keys that are allowed."""

    input: object = None
    model: object = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    user: str | None = None


_KEYS = frozenset(_Parameters.__struct_fields__)


def word_vector(text: str, dimensions: int) -> list[float]:
    """A vector of length one that says which words a text has, whatever their order and case."""
    vector = [0.0] * dimensions
    for word in _WORD.findall(text.lower()):
        seed = crc32(word.encode())
        vector[seed % dimensions] += 1.0
        vector[(seed >> 16) % dimensions] += 0.5
    length = sum(number * number for number in vector) ** 0.5
    return [number / length for number in vector] if length else [1.0, *vector[1:]]


class Embeddings:
    """OpenAI's embeddings, as far as requests and errors go; `render` makes the answers."""

    def serves(self, path: str) -> bool:
        """Whether this is the path of embeddings."""
        return path.endswith("/embeddings")

    def authorize(self, request: Request, rules: Rules) -> None:
        """Refuse a wrong bearer key."""
        check_bearer(request.headers, rules)

    def check(self, body: dict[str, Any], rules: Rules) -> None:
        """Refuse what a real provider refuses."""
        for key in body:
            require(key in _KEYS | rules.allow_extra, "unknown_key", f"Unrecognized argument: {key}", key)
        model = body.get("model")
        require(isinstance(model, str) and model, "missing_model", "You must provide a model.", "model")
        if rules.models is not None and model not in rules.models:
            raise Refused("model_not_found", f"The model {model!r} does not exist.", "model", status=404)
        try:
            msgspec.convert(body, _Parameters)
        except msgspec.ValidationError as error:
            raise Refused("bad_parameter", str(error)) from None
        _check_input(body.get("input"))

    def wanted(self, request: Request) -> Wanted:  # noqa: ARG002 - of the port
        """Never a stream."""
        return Wanted("", stream=False, usage=True, results=0)

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:  # noqa: ARG002 - of the port
        """Refuse: vectors are not streamed."""
        raise _no_place()

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:  # noqa: ARG002 - of the port
        """Refuse: a model's answer is no vector."""
        raise _no_place()

    def end(self) -> None:
        """There is no stream to end."""

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render an error object."""
        return openai_error(status, message, code, param)


def _no_place() -> ValueError:
    return ValueError("The embeddings endpoint answers with Vectors, HTTPError, Bytes or Silence.")


def _check_input(given: object) -> None:
    texts = cast("list[object]", given) if isinstance(given, list) else [given]
    require(texts, "empty_input", "'input' must not be empty.", "input")
    require(len(texts) <= _MOST_TEXTS, "bad_parameter", f"'input' has more than {_MOST_TEXTS} texts.", "input")
    for position, text in enumerate(texts):
        at = f"input[{position}]"
        require(isinstance(text, str), "bad_parameter", "'$.input' is invalid: it must be text.", at)
        require(text, "empty_input", "'$.input' is invalid: an empty text.", at)
        require(len(cast("str", text)) <= _LONGEST, "bad_parameter", "maximum context length is 8192 tokens", at)


def render(reply: Vectors, request: Request) -> Bytes:
    """The body that answers `request`."""
    body = cast("dict[str, Any]", request.body)
    given = body["input"]
    texts: Sequence[str] = [given] if isinstance(given, str) else given
    dimensions = body.get("dimensions") or reply.dimensions
    made = reply.vectors or [word_vector(text, dimensions) for text in texts]
    pack = _packed if body.get("encoding_format") == "base64" else list[float]
    tokens = sum(len(_WORD.findall(text)) for text in texts)
    items = [{"object": "embedding", "index": index, "embedding": pack(each)} for index, each in enumerate(made)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "data": items, "model": body["model"], "usage": usage}
    delivery = {name: getattr(reply, name) for name in reply.__struct_fields__ if name not in {"vectors", "dimensions"}}
    return Bytes(msgspec.json.encode(answer), content_type="application/json", **delivery)


def _packed(vector: Sequence[float]) -> str:
    return b64encode(array("f", vector).tobytes()).decode()
