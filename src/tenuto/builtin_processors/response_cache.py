"""`ResponseCache`: answers a request that was answered before without asking the model again.

Invariant: two requests have one key only if everything that decides about the answer is the same: who asks, the model,
the prompt, the tools, the settings, the schema. What is kept is bounded in number and in time.
"""

from __future__ import annotations

import inspect
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from types import EllipsisType
from typing import Any, Protocol, cast

import msgspec
from msgspec import Struct

from tenuto.builtin_processors.options import count
from tenuto.core.clock import Clock, SystemClock
from tenuto.core.payloads import Json
from tenuto.core.request_context import RequestContext
from tenuto.messages.turns import Turn
from tenuto.processors import LLMRequestContext, LLMResponseContext, ModelResponse, Processor, RequestChange

_log = logging.getLogger("tenuto")

CONTEXT_KEY = "tenuto.response_cache"
"""Where `ResponseCache.context` puts what a call wants otherwise."""

_WHOLE = frozenset({"stop", "tool-calls"})


class CacheInput(Struct, frozen=True):
    """What a key is made of.

    Attributes:
        scope: Whose answers these are; None = everybody's.
        request: Tools, settings and schema of the call.
    """

    agent_id: str
    scope: str | None
    model: str
    prompt: tuple[Turn, ...]
    step_number: int
    request: Json = None


Key = str | Callable[[CacheInput], str | Awaitable[str]]


class ResponseStore(Protocol):
    """Where answers are kept; each call may be a plain function or a coroutine function."""

    def get(self, key: str) -> bytes | Awaitable[bytes | None] | None:
        """What was put under `key`, unless it is gone."""
        ...

    def put(self, key: str, value: bytes, ttl: float) -> Awaitable[None] | None:
        """Keep `value` under `key` for up to `ttl` seconds."""
        ...


class InMemoryResponseStore:
    """Answers in this process; of more than fit the ones go that were not asked for longest.

    Args:
        max_entries: How many are kept.
        max_bytes: How much of them.
        clock: Tells when they are too old.
    """

    def __init__(self, max_entries: int = 1_000, max_bytes: int = 64 << 20, clock: Clock | None = None) -> None:
        self._most = count("max_entries", max_entries, least=1)
        self._largest = count("max_bytes", max_bytes, least=1)
        self._clock = clock or SystemClock()
        self._kept: OrderedDict[str, tuple[bytes, float]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: str) -> bytes | None:
        """See `ResponseStore`."""
        found = self._kept.get(key)
        if found is None:
            return None
        if found[1] <= self._clock.monotonic():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: str, value: bytes, ttl: float) -> None:
        """See `ResponseStore`."""
        self._drop(key)
        if len(value) > self._largest:
            return
        self._kept[key] = (value, self._clock.monotonic() + ttl)
        self._size += len(value)
        while len(self._kept) > self._most or self._size > self._largest:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        value, _ = self._kept.pop(key, (b"", 0.0))
        self._size -= len(value)


def response_key(given: CacheInput) -> str:
    """The key of a request: a hash of all that decides about its answer."""
    return sha256(msgspec.json.encode(given, order="deterministic", enc_hook=str)).hexdigest()


class ResponseCache(Processor):
    """Keeps whole answers of the model, step by step, and gives them again for an equal request.

    It belongs into `input_processors=`. An answer from the cache passes the output processors like any other, and its
    usage is zero. Calls in it run again: what is saved is the model's work, not the tools'.

    Args:
        cache: Where answers are kept; default: in this process, up to 1,000 of them.
        ttl: Seconds an answer is good for.
        scope: Whose answers these are. Not given: the run's resource, so that nobody is given an answer to somebody
            else; None: everybody shares them.
        key: In place of the one made of the request: a text, or a function of `CacheInput`. If it raises, the request
            makes the key.
        bust: Ask the model each time, and keep its answer.
        agent_id: In the key; default: the agent's.
    """

    id = "response-cache"
    name: str | None = "Response Cache"

    def __init__(
        self,
        *,
        cache: ResponseStore | None = None,
        ttl: float = 300,
        scope: str | EllipsisType | None = ...,
        key: Key | None = None,
        bust: bool = False,
        agent_id: str | None = None,
    ) -> None:
        self._cache: ResponseStore = cache or InMemoryResponseStore()
        self._ttl = ttl
        self._settings: dict[str, Any] = {"scope": scope, "key": key, "bust": bust}
        self._agent_id = agent_id

    @staticmethod
    def context(**options: Any) -> RequestContext:
        """A request context with `key`, `scope` or `bust` for one call.

        Raises:
            TypeError: There is no such option, or a value that no request context can hold: a key is a text here.
        """
        return ResponseCache.apply_context(RequestContext(), **options)

    @staticmethod
    def apply_context(request_context: RequestContext, **options: Any) -> RequestContext:
        """The same in a request context that is there already."""
        unknown = set(options) - {"key", "scope", "bust"}
        if unknown:
            message = f"ResponseCache has no option {min(unknown)!r} for a call; it has key, scope and bust."
            raise TypeError(message)
        request_context.set(CONTEXT_KEY, options)
        return request_context

    async def process_llm_request(self, context: LLMRequestContext) -> RequestChange | None:
        """See `Processor`."""
        options = self._settings | dict(cast("Mapping[str, Any]", context.request_context.get(CONTEXT_KEY) or {}))
        key = await self._key(context, options)
        context.state["key"] = key
        if options["bust"]:
            return None
        raw = await _now(self._cache.get(key))
        if raw is None:
            return None
        try:
            response = msgspec.json.decode(raw, type=ModelResponse)
        except msgspec.MsgspecError:
            _log.warning("Processor %r has something else than an answer under %s; the model is asked.", self.id, key)
            return None
        del context.state["key"]
        return {"response": response}

    async def process_llm_response(self, context: LLMResponseContext) -> None:
        """See `Processor`."""
        key = context.state.pop("key", None)
        if key is not None and context.response.finish.reason in _WHOLE:
            await _now(self._cache.put(key, msgspec.json.encode(context.response), self._ttl))

    async def _key(self, context: LLMRequestContext, options: Mapping[str, Any]) -> str:
        model = context.model
        given = CacheInput(
            self._agent_id or context.agent_id,
            context.resource_id if options["scope"] is ... else options["scope"],
            "" if model is None else f"{model.provider}/{model.model_id}",
            context.prompt,
            context.step_number,
            _request(context),
        )
        key: Key | None = options["key"]
        if callable(key):
            try:
                return await _now(key(given))
            except Exception:  # noqa: BLE001 - a key of the user's
                _log.exception("The key= of processor %r failed; the request makes the key.", self.id)
                key = None
        return response_key(given) if key is None else key


def _request(context: LLMRequestContext) -> Json:
    request = context.request
    if request is None:
        return [context.tools, context.schema]
    settings = msgspec.structs.replace(request.settings, headers=None)
    tools = [request.tools, request.provider_tools, request.tool_choice]
    return [tools, settings, request.provider_options, context.schema]


async def _now(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
