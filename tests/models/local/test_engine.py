"""The engine's thread, on a native library of paper."""

import os
import queue
import threading

import pytest

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local import backend, engine
from tenuto.models.local.engine import Completion, Engine
from tests.models.local.kit import FakeBackend, token


class Waiting:
    """A sink that the test reads."""

    def __init__(self):
        self.cancelled = False
        self.chunks = queue.SimpleQueue()
        self.over = threading.Event()
        self.error = None
        self.thread = None

    def put(self, chunk):
        self.thread = threading.current_thread()
        self.chunks.put(chunk)

    def end(self, error):
        self.error = error
        self.over.set()

    def wait(self):
        assert self.over.wait(30)
        return self


@pytest.fixture
def make(tmp_path):
    made = []

    def new(library):
        made.append(Engine(tmp_path / "m.gguf", 64, backend=lambda: library))
        return made[-1]

    yield new
    for each in made:
        each.pid = os.getpid()
        each.close()


def run(engine_, **options):
    sink = Waiting()
    engine_.submit(Completion("Hi", {"temperature": 0}, **options), sink)
    return sink.wait()


def test_the_model_is_loaded_once_by_the_first_generation(make):
    library = FakeBackend()
    one = make(library)
    assert library.servers == []
    run(one)
    run(one)
    [server] = library.servers
    assert server.bodies[0] == {"temperature": 0, "prompt": "Hi", "stream": True}


def test_it_is_quiet_alone_and_behind_a_key(make):
    library = FakeBackend()
    run(make(library))
    params = library.servers[0].params
    assert (params.verbosity, params.port, params.n_parallel, params.n_ctx) == (0, 0, 1, 64)
    assert 1 <= params.cpuparams.n_threads == params.cpuparams_batch.n_threads <= 4
    run(make(library))
    keys = {server.params.api_keys[0] for server in library.servers}
    assert len(keys) == 2
    assert min(map(len, keys)) >= 32


def test_native_calls_are_made_by_one_thread(make):
    one = make(FakeBackend())
    threads = {run(one).thread for _ in range(3)}
    assert len(threads) == 1
    assert threading.main_thread() not in threads


def test_a_schema_becomes_a_grammar(make):
    library = FakeBackend()
    run(make(library), schema={"enum": ["a"]})
    assert library.servers[0].bodies[0]["grammar"] == "grammar of {'enum': ['a']}"


def test_a_cancelled_generation_stops_at_the_next_token_and_the_next_one_runs(make):
    sink = Waiting()

    def answer(body):
        yield token("one")
        sink.cancelled = True
        yield token("two")
        yield token("three")

    library = FakeBackend(answer)
    one = make(library)
    one.submit(Completion("Hi", {}), sink)
    sink.wait()
    assert library.servers[0].stopped_after == 2
    assert run(one).error is None


def test_what_was_cancelled_before_its_turn_is_never_started(make):
    library = FakeBackend()
    sink = Waiting()
    sink.cancelled = True
    make(library).submit(Completion("Hi", {}), sink)
    assert sink.wait().error is None
    assert library.servers == []


def test_a_file_that_cannot_be_loaded_is_named(make):
    sink = run(make(FakeBackend(error=RuntimeError("bad magic"))))
    assert isinstance(sink.error, ConfigurationError)
    assert "m.gguf" in str(sink.error)
    assert "bad magic" in str(sink.error)


def test_a_fork_may_not_use_it(make):
    one = make(FakeBackend())
    one.pid -= 1
    with pytest.raises(ModelError, match="fork") as caught:
        one.submit(Completion("Hi", {}), Waiting())
    assert caught.value.id == "LOCAL_ENGINE_FORKED"


def test_a_closed_engine_says_so(make):
    one = make(FakeBackend())
    one.close()
    with pytest.raises(ModelError, match="closed"):
        one.submit(Completion("Hi", {}), Waiting())


def test_closing_stops_what_runs(make):
    started, go = threading.Event(), threading.Event()

    def answer(body):
        started.set()
        assert go.wait(30)
        yield token("one")
        yield token("two")

    library = FakeBackend(answer)
    one, sink = make(library), Waiting()
    one.submit(Completion("Hi", {}), sink)
    assert started.wait(30)
    closing = threading.Thread(target=one.close)
    closing.start()
    while not one._closed:
        pass
    go.set()
    closing.join(30)
    sink.wait()
    assert library.servers[0].stopped_after == 1


def test_a_process_has_one_engine_for_a_file_and_its_fork_starts_afresh(tmp_path):
    engines = engine._Engines()
    try:
        one = engines.get(tmp_path / "m.gguf", 64)
        assert engines.get(tmp_path / "x" / ".." / "m.gguf", 64) is one
        assert engines.get(tmp_path / "m.gguf", 128) is not one
        assert engines.get(tmp_path / "m.gguf", 64, embeds=True) is not one
        engines.close()
        again = engines.get(tmp_path / "m.gguf", 64)
        engines.forget_in_fork()
        assert engines.get(tmp_path / "m.gguf", 64) is not again
        again.close()
    finally:
        engines.close()


def test_a_fork_of_a_process_that_loaded_it_frees_nothing(tmp_path, monkeypatch):
    kept, exits = [], iter([True, False])
    monkeypatch.setattr(engine, "keep_for_ever", kept.append)
    monkeypatch.setattr(engine, "skip_native_exit", lambda: next(exits))
    engines, library = engine._Engines(), FakeBackend()
    parent = engines._engines["x"] = Engine(tmp_path / "m.gguf", 64, backend=lambda: library)
    run(parent)
    engines.forget_in_fork()
    assert kept == library.servers
    child = engines.get(tmp_path / "m.gguf", 64)
    child._backend = lambda: library
    run(child)
    assert kept == library.servers  # and its own is not freed either
    engines.forget_in_fork()
    with pytest.raises(ModelError, match="spawn"):
        engines.get(tmp_path / "m.gguf", 64)
    parent.close()
    child.close()


# -- the import ----------------------------------------------------------------------------------------------------


def failing(monkeypatch, error):
    def import_module(name):
        raise error

    monkeypatch.setattr(backend, "import_module", import_module)
    with pytest.raises(ConfigurationError) as caught:
        backend.load_backend()
    return str(caught.value)


def test_a_missing_system_library_is_named(monkeypatch):
    said_ = failing(monkeypatch, ImportError("libgomp.so.1: cannot open shared object file"))
    assert "apt install libgomp1" in said_


def test_another_import_error_is_shown(monkeypatch):
    assert "wrong ELF class" in failing(monkeypatch, ImportError("wrong ELF class"))


def test_a_missing_extra_is_named(monkeypatch):
    assert "pip install 'tenuto[local]'" in failing(monkeypatch, ModuleNotFoundError("No module", name="xllamacpp"))


@pytest.mark.parametrize("own", [None, "active"])
def test_openmp_waits_passively_unless_the_user_said_otherwise(monkeypatch, own):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    if own:
        monkeypatch.setenv("OMP_WAIT_POLICY", own)
    seen = []
    monkeypatch.setattr(backend, "import_module", lambda name: seen.append(os.environ["OMP_WAIT_POLICY"]))
    backend.load_backend()
    assert seen == [own or "passive"]
    assert os.environ.get("OMP_WAIT_POLICY") == own
