"""The fake provider itself: a server in its own thread, answering from a script, remembering everything.

Invariant: nothing that a test should know is only said on the wire: refusals, failures of the script, unused replies
and clients that went away are kept, and `assert_clean` (called on a normal exit) raises them.
"""

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import msgspec

from tenuto.testing.provider.anthropic import Anthropic
from tenuto.testing.provider.chat import Chat
from tenuto.testing.provider.connection import Connection
from tenuto.testing.provider.delivery import Outgoing, prepare, refuse
from tenuto.testing.provider.dialect import Dialect
from tenuto.testing.provider.embeddings import Embeddings, render
from tenuto.testing.provider.gate import Gate, Watch
from tenuto.testing.provider.gemini import Gemini
from tenuto.testing.provider.http1 import BadHTTP, Request, head
from tenuto.testing.provider.responses import Responses
from tenuto.testing.provider.script import Answering, AnyReply, Burst, HTTPError, Script, ToolRounds, Vectors
from tenuto.testing.provider.strict import Refused, Rules, check_size, parse_body

__all__ = ["FakeProvider"]

_BY_WORDS = Vectors()
NewLoop = Callable[[], asyncio.AbstractEventLoop]


class FakeProvider:
    """A model provider on 127.0.0.1 that answers from a script and refuses what real providers refuse.

    Use it as a context manager, plain or async; on a normal exit it calls `assert_clean`. It runs in its own thread,
    so clients may live in any thread, event loop or process.

        with FakeProvider([Reply(calls=[Call("add", {"a": 1, "b": 2})]), Reply("3")]) as provider:
            agent = Agent(..., model={"id": "openai/fake", "url": provider.base_url})

    Attributes:
        requests: Every request to a dialect's path, in order, refused ones too.
        refused: Requests that broke a rule, as `Refused` with their `request`.
        failures: What went wrong with the script itself.
        connections: Connections accepted so far.
        open_connections: Connections open now.
        disconnects: Clients that went away before their response was complete.
    """

    def __init__(
        self,
        script: AnyReply | Answering | Sequence[AnyReply | Answering] = (),
        *,
        embeddings: AnyReply | Answering | Sequence[AnyReply | Answering] = _BY_WORDS,
        strict: bool = True,
        allow_extra: Collection[str] = (),
        models: Collection[str] | None = None,
        system_first: bool = False,
        require_reasoning_echo: bool = False,
        api_key: str | None = None,
        max_body: int | None = None,
        allow_refused: bool = False,
        allow_unused: bool = False,
        keep_requests: bool = True,
        port: int = 0,
        new_loop: NewLoop = asyncio.new_event_loop,
    ) -> None:
        """Prepare a provider; `start` (or entering it) opens the port.

        Args:
            script: A list is used up in order, and a request beyond its end is a failure; a function or a single
                reply answers every request. A refused request takes nothing from the script.
            embeddings: The script of the embeddings endpoint, which takes nothing from `script`; by default each
                text gets a vector that says which words it has.
            strict: Check bodies. Key, size and script hold either way.
            allow_extra: Keys accepted at the top and in messages besides the documented ones.
            models: The known models; None accepts every name.
            system_first: Refuse a system message after any other.
            require_reasoning_echo: An assistant message with calls must carry the `reasoning_content` that this
                provider sent with them.
            api_key: The key clients must send; None accepts anything.
            max_body: Largest body in bytes; larger ones get 413.
            allow_refused: A refused request is no failure at exit.
            allow_unused: Neither is a reply nobody asked for.
            keep_requests: False keeps `requests` empty, for long benchmarks.
            port: Port to listen on; 0 picks a free one.
            new_loop: Makes the server's event loop.
        """
        self._rules = Rules(
            strict=strict,
            allow_extra=frozenset(allow_extra),
            models=None if models is None else frozenset(models),
            system_first=system_first,
            require_reasoning_echo=require_reasoning_echo,
            api_key=api_key,
            max_body=max_body,
        )
        self._script, self._embeddings = Script(script), Script(embeddings)
        self._dialects: tuple[Dialect, ...] = (Chat(), Responses(), Anthropic(), Gemini(), Embeddings())
        self._allow_refused, self._allow_unused, self._keep = allow_refused, allow_unused, keep_requests
        self._asked_port, self._new_loop = port, new_loop
        self._watch = Watch()
        self._ready_bytes: dict[tuple[object, ...], bytes] = {}
        self._live: set[Connection] = set()
        self._thread: threading.Thread | None = None
        self.held: Gate = Gate()
        self._arrived = 0
        self.requests: list[Request] = []
        self.refused: list[Refused] = []
        self.failures: list[Exception] = []
        self.connections: int = 0
        self.disconnects: int = 0

    # -- life -------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Open the port and serve until `close`.

        Raises:
            OSError: The port is taken.
        """
        opened: Future[int] = Future()
        self._thread = threading.Thread(target=self._run, args=(opened,), name="fake-provider", daemon=True)
        self._thread.start()
        self._port = opened.result()
        return self

    def close(self) -> None:
        """Close the port and every connection; a second call does nothing."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
        if error is None:
            self.assert_clean()
        elif problems := self._problems():
            error.add_note("\n".join(["the fake provider saw:", *problems]))

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    # -- what a test asks -------------------------------------------------------------------------------------

    @property
    def base_url(self) -> str:
        """The URL that clients take as theirs, such as `http://127.0.0.1:4711/v1`."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def open_connections(self) -> int:
        """Connections open now."""
        return len(self._live)

    def add(self, *replies: AnyReply | Answering) -> None:
        """Append replies to the script."""
        self._script.add(*replies)

    def release(self) -> None:
        """Let every hanging response go on; from now on nothing hangs."""
        self.held.open()

    def assert_clean(self) -> None:
        """Raise when the script failed, a request was refused or a reply was left over.

        Raises:
            AssertionError: It lists everything.
        """
        if problems := self._problems():
            cause = next(iter(self.failures), None)
            raise AssertionError("\n".join(["the fake provider saw:", *problems])) from cause

    async def wait_for_requests(self, count: int, timeout: float = 5.0) -> None:
        """Wait until `count` requests have arrived in all.

        Raises:
            TimeoutError: They did not within `timeout` seconds.
        """
        await self._watch.wait(lambda: self._arrived >= count, timeout, f"{count} requests")

    def wait_for_requests_sync(self, count: int, timeout: float = 5.0) -> None:
        """Do the same as `wait_for_requests`, blocking this thread."""
        self._watch.wait_sync(lambda: self._arrived >= count, timeout, f"{count} requests")

    async def wait_for_disconnect(self, count: int = 1, timeout: float = 5.0) -> None:
        """Wait until `count` clients have gone away mid-response.

        Raises:
            TimeoutError: They did not within `timeout` seconds.
        """
        await self._watch.wait(lambda: self.disconnects >= count, timeout, f"{count} disconnects")

    def wait_for_disconnect_sync(self, count: int = 1, timeout: float = 5.0) -> None:
        """Do the same as `wait_for_disconnect`, blocking this thread."""
        self._watch.wait_sync(lambda: self.disconnects >= count, timeout, f"{count} disconnects")

    def _problems(self) -> list[str]:
        found = [f"- failed: {type(each).__name__}: {each}" for each in self.failures]
        if not self._allow_refused:
            found += [f"- refused: {each}" for each in self.refused]
        unused = self._script.unused + self._embeddings.unused
        if not self._allow_unused and unused:
            found.append(f"- {unused} unused replies")
        return found

    # -- the desk of the connections --------------------------------------------------------------------------

    def opened(self, connection: Connection) -> int:
        """Note a new connection; give its number."""
        self._live.add(connection)
        self.connections += 1
        return self.connections - 1

    def closed(self, connection: Connection, *, mid_stream: bool) -> None:
        """Note the end of a connection."""
        self._live.discard(connection)
        self.disconnects += mid_stream
        self._watch.notify()

    def broken(self, error: BadHTTP) -> None:
        """Note bytes that are not HTTP."""
        self.failures.append(error)
        self._watch.notify()

    def answer(self, request: Request) -> Outgoing | bytes:
        """Decide the response to a request."""
        dialect = next((each for each in self._dialects if each.serves(request.path)), None)
        if dialect is None or request.method != "POST":
            return self._elsewhere(request)
        serial = self._arrived
        if self._keep:
            self.requests.append(request)
        with self._watch.changing():
            self._arrived += 1
        out = self._decide(dialect, request, serial)
        return out.encode() if isinstance(out, Outgoing) and out.is_direct else out

    def _decide(self, dialect: Dialect, request: Request, serial: int) -> Outgoing | bytes:
        try:
            self._admit(dialect, request)
            return self._play(dialect, request, serial)
        except Refused as refused:
            refused.request = request
            self.refused.append(refused)
            return refuse(dialect, refused, serial)
        except Exception as error:  # noqa: BLE001  the script is the test's code; its errors surface at exit
            self.failures.append(error)
            return prepare(dialect, HTTPError(500), dialect.wanted(request), serial)

    def _admit(self, dialect: Dialect, request: Request) -> None:
        dialect.authorize(request, self._rules)
        check_size(request, self._rules)
        if self._rules.strict:
            dialect.check(parse_body(request), self._rules)

    def _play(self, dialect: Dialect, request: Request, serial: int) -> Outgoing | bytes:
        reply = (self._embeddings if isinstance(dialect, Embeddings) else self._script).answer(request)
        wanted = dialect.wanted(request)
        if isinstance(reply, Vectors) and isinstance(dialect, Embeddings):
            reply = render(reply, request)
        if not isinstance(reply, Burst | ToolRounds):
            return prepare(dialect, reply, wanted, serial)
        key = (dialect, repr(reply), wanted)
        if (ready := self._ready_bytes.get(key)) is not None:
            return ready
        out = prepare(dialect, reply, wanted, serial)
        return self._ready_bytes.setdefault(key, out.encode()) if out.is_direct else out

    def _elsewhere(self, request: Request) -> bytes:
        self.failures.append(AssertionError(f"unexpected request: {request.method} {request.path}"))
        body = msgspec.json.encode({"error": {"message": "not found", "type": "invalid_request_error"}})
        return head(404, [("content-type", "application/json")], length=len(body)) + body

    # -- the server's thread ----------------------------------------------------------------------------------

    def _run(self, opened: "Future[int]") -> None:
        with asyncio.Runner(loop_factory=self._new_loop) as runner:
            runner.run(self._serve(opened))

    async def _serve(self, opened: "Future[int]") -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await self._loop.create_server(
                lambda: Connection(self), "127.0.0.1", self._asked_port, backlog=2048
            )
        except OSError as error:
            opened.set_exception(error)
            return
        opened.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()
        for connection in tuple(self._live):
            connection.abort()
        await asyncio.sleep(0)  # the aborted transports report their end
