"""`ScriptedModel`: a model that says what a test wrote, without HTTP.

Invariant: a script is used up in order, one entry per model call, and what happened is kept: every request, and what
is left over. The parts of a reply come from the assembler that real providers' answers go through, so their ids and
their order are those of production.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError
from tenuto.core.payloads import Usage as TokenUsage
from tenuto.messages.turns import ProviderOptions, Turn
from tenuto.models.assemble import Assembler, ToolDelta
from tenuto.models.chat.messages import ChatMessages
from tenuto.models.ports import (
    Finish,
    ModelRequest,
    ModelSettings,
    Part,
    ProviderReason,
    ProviderTool,
    RequestStart,
    ResponseFormat,
    StructuredSupport,
    ToolChoice,
    ToolSpec,
)
from tenuto.models.render import rendered
from tenuto.testing.provider.gate import Gate
from tenuto.testing.provider.script import Call, Delivery, Reply

__all__ = ["Answer", "Batches", "ScriptExhausted", "ScriptedModel", "ScriptedRequest"]

_ONLY_HTTP = frozenset(Delivery.__struct_fields__) - {"gate", "hang_after", "drop_after"}
_REASONS: Mapping[str, ProviderReason] = {"tool_calls": "tool-calls", "content_filter": "content-filter"}
_KNOWN_REASONS = frozenset({"stop", "length", "content-filter", "tool-calls", "error", "other"})


class ScriptExhausted(AssertionError):
    """The run asked for a model call that the script has no entry for; the run fails with it as the cause."""


class ScriptedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A model call as it was made; later steps of the run do not change it.

    Attributes:
        messages: What a provider of chat completions would be sent: calls and results paired, as plain dicts.
        turns: System turns and history before rendering.
        tools: The tools offered.
        provider_tools: The provider's own tools offered.
        abort: Fires when the run is aborted.
        response_format: Of `structured_output=`, where the model takes it.
    """

    messages: tuple[dict[str, Any], ...]
    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...]
    provider_tools: tuple[ProviderTool, ...]
    tool_choice: ToolChoice
    settings: ModelSettings
    provider_options: ProviderOptions | None
    abort: AbortSignal | None
    response_format: ResponseFormat | None = None

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools offered."""
        return tuple(spec.name for spec in self.tools)

    @property
    def last(self) -> str:
        """The text of the last message, be it the user's or a tool's result."""
        content: object = self.messages[-1].get("content") if self.messages else None
        return content if isinstance(content, str) else msgspec.json.encode(content).decode()


class Batches(msgspec.Struct, frozen=True):
    """Exactly these batches of parts, in this order; the model adds nothing.

    An exception among them is raised there; a `Gate` takes a permit there, and holds until it has one. Without a
    `Finish` at the end the stream counts as cut off. An integration that needs a rule broken breaks it here.
    """

    items: Sequence[Sequence[Part] | Gate | BaseException]


Answer = str | Reply | Call | Sequence[Call] | Batches | BaseException | type[BaseException]
"""An entry of a script: text, a reply, tool calls, exact batches, or an exception to fail with."""

Answering = Callable[[ScriptedRequest], Answer | Awaitable[Answer]]


class ScriptedModel:
    """A `LanguageModel` for tests of agents: pass it as `model=`, or put it in place with `override`.

        model = ScriptedModel([Call("weather", {"city": "Lagos"}), "It is 31 degrees."])
        result = await Agent(id="a", model=model, tools=[weather]).generate("How warm is it?")
        assert model.requests[1].last == '{"temp":31}'

    One model may serve any number of runs, threads and event loops; entries go out in the order of the calls.

    Args:
        script: A list is used up, one entry per model call (a list inside it makes parallel tool calls), and a call
            beyond its end fails the run. A single entry or a function of the request (sync or async) answers every
            call.
        provider: The part before the slash of the model's name.
        model_id: The part after it.
        structured: How it takes `structured_output=`; see `StructuredSupport`.

    Attributes:
        requests: Every call made, in order.
    """

    def __init__(
        self,
        script: Answer | Answering | Sequence[Answer | Answering] = (),
        *,
        provider: str = "scripted",
        model_id: str = "model",
        structured: StructuredSupport = "native",
    ) -> None:
        self.requests: list[ScriptedRequest] = []
        self._provider = provider
        self._model_id = model_id
        self.structured: StructuredSupport = structured
        self._lock = threading.Lock()
        self._released = Gate()
        self._endless: Any = None
        self._left: list[Any] = []
        if isinstance(script, (list, tuple)):
            self._left = [_checked(entry) for entry in cast("Sequence[object]", script)]
        else:
            self._endless = _checked(script)
        self._length = len(self._left)

    @property
    def provider(self) -> str:
        """See `LanguageModel.provider`."""
        return self._provider

    @property
    def model_id(self) -> str:
        """See `LanguageModel.model_id`."""
        return self._model_id

    @property
    def remaining(self) -> int:
        """Entries of a list that no call has used."""
        return len(self._left)

    def add(self, *entries: Answer | Answering) -> None:
        """Append to the script."""
        with self._lock:
            self._left += [_checked(entry) for entry in entries]
            self._length += len(entries)

    def release(self) -> None:
        """Let every reply that hangs (`hang_after`) go on; from now on none hangs."""
        self._released.open()

    def assert_done(self) -> None:
        """Fail unless the whole script was used.

        Raises:
            AssertionError: Entries are left over.
        """
        if self._left:
            message = f"{self!r}: {len(self._left)} of {self._length} entries were not used: {self._left!r:.500}"
            raise AssertionError(message)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Part], None]:
        """See `LanguageModel.stream`."""
        slot = rendered(request.prompt, _DIALECT)
        messages = slot.render(request.prompt)
        asked = _recorded(request, messages)
        entry = self._next(asked)
        yield [RequestStart(msgspec.Raw(msgspec.json.encode({"model": self._model_id, "messages": messages})))]
        if callable(entry) and not isinstance(entry, type):
            answer: Any = entry(asked)
            entry = _checked(await answer if inspect.isawaitable(answer) else answer)
        async with aclosing(self._play(entry, Assembler(request.scope, request.used(slot.used_ids)))) as batches:
            async for batch in batches:
                yield batch

    def __repr__(self) -> str:
        return f"ScriptedModel({self._provider}/{self._model_id})"

    def _next(self, asked: ScriptedRequest) -> Any:
        with self._lock:
            self.requests.append(asked)
            if self._endless is not None:
                return self._endless
            if self._left:
                return self._left.pop(0)
        raise ScriptExhausted(_exhausted(self, self._length, asked))

    def _play(self, entry: Any, assembler: Assembler) -> AsyncGenerator[Sequence[Part], None]:
        match entry:
            case Batches():
                return _exactly(entry)
            case BaseException():
                raise entry
            case type():
                raise entry(f"{self!r} was told to fail here.")
            case _:
                return self._reply(_as_reply(entry), assembler)

    async def _reply(self, reply: Reply, assembler: Assembler) -> AsyncGenerator[Sequence[Part], None]:
        for place, batch in enumerate(_batches(reply, assembler)):
            if place == reply.drop_after:
                message = f"{self!r} was cut off after {place} batches, as its script says."
                raise ModelError(message, id="MODEL_STREAM_CUT_OFF", provider=self._provider, retryable=True)
            if place == reply.hang_after:
                await self._released.take()
            if reply.gate is not None:
                await reply.gate.take()
            yield batch
            await asyncio.sleep(0)  # a network would let others run here


_DIALECT = ChatMessages("scripted")


def _checked(entry: object) -> Any:
    if isinstance(entry, Reply):
        defaults = Reply()
        if wrong := [name for name in sorted(_ONLY_HTTP) if getattr(entry, name) != getattr(defaults, name)]:
            message = f"{', '.join(wrong)} of a Reply need HTTP; use FakeProvider for them."
            raise TypeError(message)
        return entry
    if isinstance(entry, (str, Call, Batches, BaseException)) or callable(entry):
        return entry
    if isinstance(entry, (list, tuple)):
        calls = cast("Sequence[object]", entry)
        if calls and all(isinstance(each, Call) for each in calls):
            return Reply(calls=tuple(cast("Sequence[Call]", calls)))
    message = (
        f"A script has text, Reply, Call, a list of Calls, Batches, an exception or a function of the request; "
        f"not {entry!r:.100}."
    )
    raise TypeError(message)


def _as_reply(entry: str | Call | Reply) -> Reply:
    if isinstance(entry, str):
        return Reply(entry)
    return Reply(calls=[entry]) if isinstance(entry, Call) else entry


def _recorded(request: ModelRequest, messages: Sequence[msgspec.Raw]) -> ScriptedRequest:
    prompt = request.prompt
    return ScriptedRequest(
        messages=tuple(msgspec.json.decode(each) for each in messages),
        turns=(*prompt.system, *prompt.turns),
        tools=request.tools,
        provider_tools=request.provider_tools,
        tool_choice=request.tool_choice,
        settings=request.settings,
        provider_options=request.provider_options,
        abort=request.abort,
        response_format=request.response_format,
    )


def _exhausted(model: ScriptedModel, length: int, asked: ScriptedRequest) -> str:
    said = msgspec.json.encode(asked.messages[-1]).decode() if asked.messages else "nothing"
    return (
        f"{model!r}: the script has {length} {'entry' if length == 1 else 'entries'}, and this is call "
        f"{len(model.requests)}. Its last message: {said[:300]}. Add an entry, or stop the run earlier (max_steps)."
    )


async def _exactly(given: Batches) -> AsyncGenerator[Sequence[Part], None]:
    for item in given.items:
        match item:
            case Gate():
                await item.take()
            case BaseException():
                raise item
            case _:
                yield item
                await asyncio.sleep(0)


def _batches(reply: Reply, assembler: Assembler) -> Iterable[Sequence[Part]]:
    """The reply's parts, a batch for each piece, as a provider would send them; the last holds `Finish`."""
    for piece in _pieces(reply.reasoning, reply.chunk_size):
        assembler.reasoning(piece)
        yield assembler.take()
    for piece in _pieces(reply.text + reply.refusal, reply.chunk_size):
        assembler.text(piece)
        yield assembler.take()
    for place, call in enumerate(reply.calls):
        assembler.tools([ToolDelta(place, call.id, call.name, "")])
        for piece in _pieces(call.arguments, reply.chunk_size):
            assembler.tools([ToolDelta(place, None, None, piece)])
            if batch := assembler.take():
                yield batch
    if reply.finish == "":
        return
    assembler.end()
    yield [*assembler.take(), Finish(_reason(reply), _usage(reply), reply.finish)]


def _pieces(text: str, size: int) -> Iterable[str]:
    step = size or len(text) or 1
    return (text[at : at + step] for at in range(0, len(text), step))


def _reason(reply: Reply) -> ProviderReason:
    if reply.finish is None:
        return "tool-calls" if reply.calls else "stop"
    known = _REASONS.get(reply.finish, reply.finish)
    return cast("ProviderReason", known) if known in _KNOWN_REASONS else "other"


def _usage(reply: Reply) -> TokenUsage:
    used = reply.usage
    if used is None:
        return TokenUsage()
    return TokenUsage(used.input, used.output, used.total, used.reasoning or None, used.cached or None)
