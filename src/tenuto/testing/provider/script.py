"""What a test writes: the replies of a fake provider, and how they are delivered.

Invariant: replies are frozen and know no dialect, so the same script can be played in each of them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from tenuto.testing.provider.gate import Gate
from tenuto.testing.provider.http1 import Request

__all__ = [
    "AnyReply",
    "Burst",
    "Bytes",
    "Call",
    "Delivery",
    "Event",
    "HTTPError",
    "Made",
    "ProviderCall",
    "Raw",
    "Reply",
    "Script",
    "Silence",
    "ToolRounds",
    "Usage",
    "Vectors",
]


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    r"""How a reply goes over the wire; every reply accepts these keywords.

    Attributes:
        cut: Write the body in pieces of this many bytes, each its own HTTP chunk and write; 0 leaves events whole.
        line_ending: Ends each SSE line.
        keepalives: SSE blocks sent before each event, such as `": ping"`, `"retry: 3000"` or `"event: ping\ndata: {}"`.
        hang_after: Send this many events, then hold the connection until `FakeProvider.release()` or a disconnect.
        drop_after: Send this many events, then close the socket without the final chunk.
        gate: Each event waits for a permit of this gate.
        pace: Real seconds between events. For benchmarks; tests use `gate`.
        done: End an SSE stream with the dialect's own end marker, such as `[DONE]`.
        headers: Response headers; they replace defaults of the same name.
        expect: Called with the request first; raising or returning False is a failure of the script.
    """

    cut: int = 0
    line_ending: Literal["\n", "\r", "\r\n"] = "\n"
    keepalives: Sequence[str] = ()
    hang_after: int | None = None
    drop_after: int | None = None
    gate: Gate | None = None
    pace: float = 0.0
    done: bool = True
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    expect: Callable[[Request], object] | None = None

    @property
    def is_paced(self) -> bool:
        """Whether events must be written one at a time."""
        stops = self.hang_after is not None or self.drop_after is not None
        return stops or self.gate is not None or self.pace > 0


class Call(msgspec.Struct, frozen=True):
    """A tool call of the model.

    Attributes:
        name: Name of the tool.
        args: Arguments; a string goes out as it is, so it need not be JSON.
        id: Id of the call; None makes a fresh one, "" sends an empty one.
    """

    name: str
    args: Mapping[str, Any] | str = msgspec.field(default_factory=dict[str, Any])
    id: str | None = None

    @property
    def arguments(self) -> str:
        """The arguments as text."""
        return self.args if isinstance(self.args, str) else msgspec.json.encode(self.args).decode()


class ProviderCall(msgspec.Struct, frozen=True):
    """A tool that the provider ran itself, such as its web search.

    Attributes:
        name: Name of the tool, as the provider's format spells it.
        args: What it was called with.
        result: What it answered, in the provider's own shape.
        is_error: It failed.
        id: Id of the call; None makes a fresh one.
    """

    name: str
    args: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    result: Any = None
    is_error: bool = False
    id: str | None = None


class Made(msgspec.Struct, frozen=True):
    """A file that the model made; `data` is base64 text."""

    media_type: str
    data: str


class Usage(msgspec.Struct, frozen=True):
    """Token counts that the provider reports.

    Attributes:
        input: All input tokens, the cached ones among them.
        cached: Read from a cache.
        cache_write: Written to a cache; formats without such a count leave it out.
    """

    input: int = 10
    output: int = 5
    cached: int = 0
    reasoning: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output


class Reply(Delivery, frozen=True):
    """An answer of the model, rendered in the dialect and mode (streamed or not) that the request asks for.

    The order on the wire is reasoning, provider's calls, text, refusal, files, calls; use `Raw` for any other. A
    dialect that has no place for something refuses to render it.

    Attributes:
        text: The answer.
        calls: Tool calls.
        reasoning: Reasoning text, sent before the answer.
        signature: The provider's seal over the reasoning, or over the first call where its format has it there.
        redacted: Encrypted reasoning, after the readable one.
        provider_calls: Tools that the provider ran itself.
        sources: Pages that the answer cites, as (URL, title).
        files: What the model made.
        refusal: The model's refusal text.
        finish: Finish reason in the dialect's own words; None picks the plain one for calls or for none, "" sends none.
        usage: Reported usage; None reports nothing.
        chunk_size: Characters per delta of text, reasoning and arguments; 0 sends each whole.
    """

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    signature: str = ""
    redacted: Sequence[str] = ()
    provider_calls: Sequence[ProviderCall] = ()
    sources: Sequence[tuple[str, str]] = ()
    files: Sequence[Made] = ()
    refusal: str = ""
    finish: str | None = None
    usage: Usage | None = Usage()
    chunk_size: int = 4


class Burst(Delivery, frozen=True):
    """A text of `count` deltas of `size` characters; encoded once, sent with one write."""

    count: int
    size: int = 4

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(
            f" {'abcdefghijklmnop'[(i * 5) % 13 :]}"[: self.size].ljust(self.size, "x") for i in range(self.count)
        )

    def as_reply(self) -> Reply:
        """Write it as the plain reply it stands for, without its delivery."""
        return Reply(self.text, chunk_size=self.size)


class ToolRounds(Delivery, frozen=True):
    """Calls a tool in `rounds` successive answers, then answers with a short text.

    The round is counted from the tool results in the request, so one value serves any number of runs at once; give
    it to the provider alone, not in a list.

    Attributes:
        rounds: Answers with calls.
        width: Parallel calls in each.
        tool: Name of the tool.
        args: Its arguments.
    """

    rounds: int
    width: int = 1
    tool: str = "add"
    args: Mapping[str, Any] = msgspec.field(default_factory=lambda: {"a": 1, "b": 2})

    def as_reply(self, results: int) -> Reply:
        """Write the reply to a request that holds `results` tool results."""
        turn = results // self.width
        if turn >= self.rounds:
            return Burst(4).as_reply()
        ids = (f"call_{turn}_{position}" for position in range(self.width))
        return Reply(calls=[Call(self.tool, self.args, call_id) for call_id in ids])


class Event(msgspec.Struct, frozen=True):
    """One SSE event. Text with line breaks becomes several data lines; bytes go out untouched."""

    data: str | bytes
    name: str = ""


class Raw(Delivery, frozen=True):
    """An SSE stream of exactly these payloads, whatever the request asked for.

    Attributes:
        events: A mapping is encoded as JSON, a string is the payload as it is (so it may be broken JSON), bytes too
            (so they may be broken UTF-8); `Event` adds an event name. `done` still appends the end marker.
    """

    events: Sequence[Mapping[str, Any] | str | bytes | Event]


class Bytes(Delivery, frozen=True):
    """Exactly this response body. With `cut`, `hang_after` and `drop_after` count its pieces.

    Attributes:
        body: The bytes.
        status: HTTP status.
        content_type: Value of the header.
    """

    body: bytes
    status: int = 200
    content_type: str = "text/event-stream"


class Vectors(Delivery, frozen=True):
    """The answer of the embeddings endpoint.

    Attributes:
        vectors: One for each text, in their order; None makes them of the texts' words, so that texts which share
            words are alike.
        dimensions: Numbers of a vector that is made, unless the request asks for another number.
    """

    vectors: Sequence[Sequence[float]] | None = None
    dimensions: int = 64


class HTTPError(Delivery, frozen=True):
    """An error response.

    Attributes:
        status: HTTP status.
        body: JSON, text or bytes; None makes the dialect's usual error object.
    """

    status: int
    body: Mapping[str, Any] | str | bytes | None = None


class Silence(Delivery, frozen=True):
    """No response at all: holds the connection until `FakeProvider.release()`, then closes it."""


AnyReply = Reply | Burst | ToolRounds | Raw | Bytes | Vectors | HTTPError | Silence
Answering = Callable[[Request], AnyReply]


class Script:
    """Hands out replies: a list once each in order, a function or a single reply for ever."""

    def __init__(self, plan: AnyReply | Answering | Sequence[AnyReply | Answering]) -> None:
        """Play `plan`."""
        self._endless: AnyReply | Answering | None = None
        self._left: list[AnyReply | Answering] = []
        if isinstance(plan, AnyReply) or callable(plan):
            self._endless = plan
        else:
            self._left.extend(plan)
        self._lock = threading.Lock()

    @property
    def unused(self) -> int:
        """Replies of the list that nobody has asked for yet."""
        return len(self._left)

    def add(self, *replies: AnyReply | Answering) -> None:
        """Append to the list."""
        with self._lock:
            self._left.extend(replies)

    def answer(self, request: Request) -> AnyReply:
        """Give the reply to this request.

        Raises:
            AssertionError: The list is at its end, or the reply's `expect` returned False.
            Exception: Whatever a function of the script raises.
        """
        entry = self._take()
        reply = entry if isinstance(entry, AnyReply) else entry(request)
        if reply.expect is not None and reply.expect(request) is False:
            message = "the reply's `expect` returned False"
            raise AssertionError(message)
        return reply

    def _take(self) -> AnyReply | Answering:
        if self._endless is not None:
            return self._endless
        with self._lock:
            if not self._left:
                message = "a request beyond the end of the script"
                raise AssertionError(message)
            return self._left.pop(0)
