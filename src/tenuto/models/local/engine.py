"""The engine: one model file, loaded once per process, and the one thread that makes every native call.

Invariant: an engine is used only by the process that made it; a native call never runs on an event loop; a cancelled
generation stops at its next token, and the next one starts only after that.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol, assert_never
from urllib.parse import urlsplit

from msgspec import Struct

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local.backend import Backend, Server, load_backend
from tenuto.models.local.fork import keep_for_ever, skip_native_exit

_JOIN = 5.0
"""Seconds an exiting process waits for the token that is being made."""


class Chat(Struct, frozen=True):
    """A conversation for the template inside the model file; `opening` is how the answer begins."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    opening: str = ""


class Completion(Struct, frozen=True):
    """One generation.

    Attributes:
        prompt: Rendered text, or what the file's own template is to render.
        options: Sampling and limits, by the engine's names.
        schema: The answer is held to this JSON Schema.
    """

    prompt: str | Chat
    options: Mapping[str, Any]
    schema: Mapping[str, Any] | None = None


class Embedding(Struct, frozen=True):
    """Vectors to make: what the engine says of each text is put into the sink, in their order."""

    texts: Sequence[str]


class Sink(Protocol):
    """Who waits for a generation or for vectors; every method is called by the engine's thread."""

    @property
    def cancelled(self) -> bool:
        """Whether to stop at the next token or text."""
        ...

    def put(self, chunk: Mapping[str, Any]) -> None:
        """Take what the engine said."""
        ...

    def end(self, error: BaseException | None) -> None:
        """Take the end: of the answer, or by an error. Called exactly once."""
        ...


class Engine:
    """One model file; generations run one after another, in the order they were submitted."""

    def __init__(
        self,
        path: Path,
        context: int,
        *,
        embeds: bool = False,
        backend: Callable[[], Backend] = load_backend,
        forked: bool = False,
    ) -> None:
        """Start the worker thread; it loads the file before its first generation.

        Args:
            path: The GGUF file.
            context: Tokens of prompt and answer together, or of one text that becomes a vector.
            embeds: The file is a model that makes vectors.
            backend: Where the native library comes from.
            forked: The parent of this process had loaded it: what is loaded here is not freed.
        """
        self.path: Path = path
        self.context: int = context
        self._embeds = embeds
        self.pid: int = os.getpid()
        self._backend = backend
        self._forked = forked
        self._touched = False
        self._server: Server | None = None
        self._key = secrets.token_hex(16)
        self._jobs: queue.SimpleQueue[tuple[Completion | Embedding, Sink] | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name=f"tenuto-local-{path.stem}", daemon=True)
        self._thread.start()

    def submit(self, job: Completion | Embedding, sink: Sink) -> None:
        """Queue a generation, or texts to embed; what comes of it goes to `sink`.

        Raises:
            ModelError: The engine was inherited over a fork, or is closed.
        """
        if self.pid != os.getpid():
            raise _forked(
                f"The local engine belongs to process {self.pid} and cannot be used in its fork {os.getpid()}"
            )
        if self._closed:
            raise ModelError(
                "The local engine is closed; make the model again.", id="LOCAL_ENGINE_CLOSED", provider="local"
            )
        self._jobs.put((job, sink))

    def close(self) -> None:
        """Stop the running generation, free the model, end the thread; waits at most 5 s. Does nothing in a fork."""
        if self.pid == os.getpid() and not self._closed:
            self._closed = True
            self._jobs.put(None)
            self._thread.join(_JOIN)

    def disown(self) -> bool:
        """In a fork: never free what the parent loaded. Whether it had begun to load anything."""
        if self._server is not None:
            keep_for_ever(self._server)
        return self._touched

    def _work(self) -> None:
        while (queued := self._jobs.get()) is not None:
            job, sink = queued
            sink.end(self._run(job, sink))
        self._server = None

    def _run(self, job: Completion | Embedding, sink: Sink) -> BaseException | None:
        try:
            if sink.cancelled or self._closed:
                return None
            match job:
                case Completion():
                    self._generate(job, sink)
                case Embedding():
                    self._embed(job, sink)
                case _:
                    assert_never(job)
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
            return error
        return None

    def _loaded(self) -> tuple[Backend, Server]:
        self._touched = True
        backend = self._backend()
        if self._server is None:
            self._server = self._load(backend)
            if self._forked:
                keep_for_ever(self._server)
        return backend, self._server

    def _embed(self, embedding: Embedding, sink: Sink) -> None:
        """One text at a time: a call cannot be stopped, and many at once are no faster."""
        _, server = self._loaded()
        for text in embedding.texts:
            if sink.cancelled or self._closed:
                return
            sink.put(server.handle_embeddings({"input": [text]}))

    def _generate(self, completion: Completion, sink: Sink) -> None:
        backend, server = self._loaded()
        body = {**completion.options, "prompt": self._rendered(server, completion.prompt), "stream": True}
        if completion.schema is not None:
            body["grammar"] = backend.json_schema_to_grammar(completion.schema)

        def on_chunk(chunk: Mapping[str, Any]) -> bool:
            sink.put(chunk)
            return sink.cancelled or self._closed

        server.handle_completions(body, on_chunk)

    def _load(self, backend: Backend) -> Server:
        params = backend.CommonParams()
        params.model.path = str(self.path)
        params.n_ctx = self.context
        if self._embeds:
            params.embedding = True
            params.n_batch = params.n_ubatch = self.context  # a text is read in one piece
        params.n_parallel = 1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = thread_count()
        params.verbosity = 0
        params.warmup = False
        params.use_jinja = True
        params.port = 0
        params.api_keys = [self._key]  # it listens on the loopback interface: keep everybody else out
        try:
            return backend.Server(params)
        except Exception as error:
            raise ConfigurationError(
                f"The local engine could not load {self.path} ({error}); is the file whole, and the memory enough?",
                id="LOCAL_MODEL_INVALID",
                details={"path": str(self.path)},
            ) from error

    def _rendered(self, server: Server, prompt: str | Chat) -> str:
        """The prompt as text; the template inside the file is reached over the engine's own port only."""
        if isinstance(prompt, str):
            return prompt
        body = {"messages": prompt.messages, **({"tools": prompt.tools} if prompt.tools else {})}
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._key}"}
        connection = HTTPConnection(urlsplit(server.listening_address).netloc)
        try:
            connection.request("POST", "/apply-template", json.dumps(body), headers)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if "prompt" not in answer:
            said = str(answer.get("error", answer))[:300]
            message = f"The chat template in {self.path.name} does not take this conversation: {said}"
            raise ModelError(message, id="LOCAL_TEMPLATE_FAILED", provider="local")
        return answer["prompt"] + prompt.opening


def _forked(fact: str) -> ModelError:
    return ModelError(
        f"{fact}; ask the model in the parent, fork before its first use, or start workers with 'spawn'.",
        id="LOCAL_ENGINE_FORKED",
        provider="local",
        category="USER",
    )


def thread_count() -> int:
    """Threads for one generation: the processors this process may use, at most 4."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(4, cpus or 1))


class _Engines:
    """The engines of this process, and of no other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engines: dict[tuple[Path, int, bool], Engine] = {}
        self._forked = False
        self._refused = False

    def get(self, path: Path, context: int, *, embeds: bool = False) -> Engine:
        if self._refused:
            raise _forked(f"Process {os.getpid()} was forked after its parent had loaded the local engine")
        key = (path.resolve(), context, embeds)
        with self._lock:
            engine = self._engines.get(key)
            if engine is None:
                engine = self._engines[key] = Engine(key[0], context, embeds=embeds, forked=self._forked)
            return engine

    def close(self) -> None:
        with self._lock:
            engines = list(self._engines.values())
            self._engines.clear()
        for engine in engines:
            engine.close()

    def forget_in_fork(self) -> None:
        """Start afresh in the child; where it could not end with an engine of its own, refuse one."""
        self._lock = threading.Lock()  # another thread may have held it
        inherited = [engine for engine in self._engines.values() if engine.disown()]
        self._engines = {}
        if inherited:
            self._forked = True
            self._refused = not skip_native_exit()


_ENGINES = _Engines()
atexit.register(_ENGINES.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ENGINES.forget_in_fork)


def engine_for(path: Path, context: int, *, embeds: bool = False) -> Engine:
    """This process's engine for a file and a context size: the same one for every caller, not loaded yet."""
    return _ENGINES.get(path, context, embeds=embeds)


def close_engines() -> None:
    """Free every loaded model of this process; the next use loads again."""
    _ENGINES.close()
