"""The Gemini dialect: renders replies as `generateContent` responses and knows its paths, keys and errors.

Invariant: a response is a function of the reply, of what the request wants and of its serial number only.

Source: Gemini API reference, "models.streamGenerateContent"; google.rpc.Status for errors.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tenuto.testing.provider.dialect import Wanted, refuse_to_render
from tenuto.testing.provider.gemini_request import check_request
from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import Call, Event, ProviderCall, Reply, Usage
from tenuto.testing.provider.strict import Refused, Rules

__all__ = ["Gemini", "gemini_chunk"]

Json = dict[str, Any]
_PATH = re.compile(r"/(?:models|tunedModels)/([^/:]+):(streamGenerateContent|generateContent)$")
_STATUS = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
    413: "INVALID_ARGUMENT", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
_NO_PLACE = ("redacted", "refusal")


def gemini_chunk(
    *parts: Mapping[str, Any],
    finish: str | None = None,
    usage: Usage | None = None,
    model: str = "fake",
    serial: int = 0,
    **more: Any,
) -> Json:
    """Build one streamed `GenerateContentResponse` for `Raw`.

    Args:
        *parts: The parts of the candidate's content.
        finish: Finish reason.
        usage: Reported usage.
        model: Name of the model.
        serial: Number of the response.
        **more: Further keys of the candidate, such as `groundingMetadata`.
    """
    candidate: Json = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    chunk: Json = {"candidates": [candidate | more]}
    if usage is not None:
        chunk["usageMetadata"] = _usage(usage)
    return chunk | {"modelVersion": model, "responseId": f"resp-{serial}"}


class Gemini:
    """Google's own dialect; remembers the signatures that it gave to calls."""

    def __init__(self) -> None:
        self._signatures: dict[str, str] = {}

    def serves(self, path: str) -> bool:
        """Whether this is a model's path."""
        return _PATH.search(path) is not None

    def authorize(self, request: Request, rules: Rules) -> None:
        """Refuse a wrong key, an unknown model and a stream that is not asked for as events."""
        key = request.headers.get("x-goog-api-key")
        if rules.api_key is not None and key != rules.api_key:
            if key is None:
                raise Refused("invalid_api_key", "Method doesn't allow unregistered callers.", status=403)
            raise Refused("invalid_api_key", "API key not valid. Please pass a valid API key.")
        model = _model(request)
        if rules.models is not None and model not in rules.models:
            raise Refused("model_not_found", f"models/{model} is not found for API version v1beta.", status=404)

    def check(self, body: Json, rules: Rules) -> None:
        """Refuse what the real provider refuses."""
        check_request(body, rules, self._signatures)

    def wanted(self, request: Request) -> Wanted:
        """Read the model and the mode from the path; usage always comes."""
        stream = request.path.endswith(":streamGenerateContent") and "alt=sse" in request.query
        return Wanted(_model(request), stream, usage=True, results=request.raw.count(b'"functionResponse"'))

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:
        """Render the chunks of a streamed reply."""
        return [Event(msgspec.json.encode(chunk)) for chunk in self._chunks(reply, wanted, serial)]

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:
        """Render one response with all parts."""
        whole = msgspec.structs.replace(reply, chunk_size=0)
        *before, last = self._chunks(whole, wanted, serial)
        parts = [part for chunk in before for part in chunk["candidates"][0]["content"]["parts"]]
        content = last["candidates"][0]["content"]
        content["parts"] = parts + [part for part in content["parts"] if part != {"text": ""}]
        return msgspec.json.encode(last)

    def end(self) -> None:
        """Give nothing: the stream just ends."""
        return

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render a status object."""
        found: Json = {"code": status, "message": message, "status": _STATUS.get(status, "UNKNOWN")}
        if code == "invalid_api_key":
            found["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}]
        elif param is not None:
            violation = {"field": param, "description": f"{code}: {message}"}
            kind = "type.googleapis.com/google.rpc.BadRequest"
            found["details"] = [{"@type": kind, "fieldViolations": [violation]}]
        return msgspec.json.encode({"error": found})

    def _chunks(self, reply: Reply, wanted: Wanted, serial: int) -> list[Json]:
        refuse_to_render(reply, *_NO_PLACE)
        shared: Json = {"model": wanted.model, "serial": serial, "usage": reply.usage}
        chunks = [gemini_chunk(part, **shared) for part in self._parts(reply, serial)]
        sealed = {"thoughtSignature": reply.signature} if reply.signature and not reply.calls else {}
        finish = "STOP" if reply.finish is None else reply.finish or None
        grounding: dict[str, Any] = {"groundingMetadata": _grounding(reply)} if reply.sources else {}
        return [*chunks, gemini_chunk({"text": "", **sealed}, finish=finish, **shared, **grounding)]

    def _parts(self, reply: Reply, serial: int) -> Iterator[Json]:
        for piece in _pieces(reply.reasoning, reply.chunk_size):
            yield {"text": piece, "thought": True}
        for place, ran in enumerate(reply.provider_calls):
            yield from _ran(ran, f"srv-{serial}-{place}")
        for piece in _pieces(reply.text, reply.chunk_size):
            yield {"text": piece}
        for made in reply.files:
            yield {"inlineData": {"mimeType": made.media_type, "data": made.data}}
        for place, call in enumerate(reply.calls):
            yield self._call(call, f"fc-{serial}-{place}", reply.signature if place == 0 else "")

    def _call(self, call: Call, fresh: str, signature: str) -> Json:
        call_id = fresh if call.id is None else call.id
        args = msgspec.json.decode(call.arguments or "{}", type=Json)  # an object: play others in Raw
        fields: Json = {"name": call.name, "args": args}
        if not signature:
            return {"functionCall": {"id": call_id, **fields} if call_id else fields}
        self._signatures[msgspec.json.encode(fields, order="deterministic").decode()] = signature
        return {"functionCall": {"id": call_id, **fields} if call_id else fields, "thoughtSignature": signature}


def _model(request: Request) -> str:
    found = _PATH.search(request.path)
    return "" if found is None else found[1]


def _pieces(text: str, size: int) -> Iterator[str]:
    step = size or len(text) or 1
    return (text[start : start + step] for start in range(0, len(text), step))


def _ran(ran: ProviderCall, fresh: str) -> Iterator[Json]:
    """Code as the two parts it has, any other tool as a server-side call and its response."""
    if ran.name == "code_execution":
        outcome = "OUTCOME_FAILED" if ran.is_error else "OUTCOME_OK"
        yield {"executableCode": {"language": "PYTHON", **ran.args}}
        yield {"codeExecutionResult": {"outcome": outcome, "output": ran.result or ""}}
        return
    named = {"id": fresh if ran.id is None else ran.id, "toolType": ran.name.upper()}
    yield {"toolCall": {**named, "args": ran.args}}
    yield {"toolResponse": {**named, "response": ran.result or {}}}


def _grounding(reply: Reply) -> Json:
    return {"groundingChunks": [{"web": {"uri": url, "title": title}} for url, title in reply.sources]}


def _usage(usage: Usage) -> Json:
    """Thoughts are counted apart from the candidates; a cache write is not reported."""
    found: Json = {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "totalTokenCount": usage.total,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.input}],
    }
    if usage.cached:
        found["cachedContentTokenCount"] = usage.cached
    if usage.reasoning:
        found["thoughtsTokenCount"] = usage.reasoning
    return found
