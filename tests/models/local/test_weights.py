"""Fetching weights, keeping them, and refusing what is not them."""

import hashlib
import os
import subprocess
import sys
import threading

import msgspec
import pytest

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local import known, weights
from tenuto.models.local.known import KNOWN, Weights
from tenuto.models.local.progress import LineProgress
from tenuto.models.local.weights import cache_dir, find, pull

CONTENT = b"GGUF" + bytes(range(256)) * 40
TINY = Weights(
    name="tiny",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="MIT",
    requirement="tiny-weights==1.0",
    home="the authors",
)


class Told:
    """Keeps what a person would be told."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def bar(self, title, total):
        yield lambda done: self.lines.append(f"{title} {done}")


class Source:
    """Where the file comes from: counts the visits."""

    def __init__(self, content=CONTENT, error=None):
        self.content = content
        self.error = error
        self.visits = 0

    def __call__(self, wanted, scratch, progress):
        self.visits += 1
        part = scratch / f"{wanted.file}.part"
        part.write_bytes(self.content)
        if self.error:
            raise self.error
        return [part]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TENUTO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(KNOWN, "tiny", TINY)
    return tmp_path / "cache" / "models"


def left(cache):
    """What is in the cache besides the lock."""
    return sorted(path.name for path in cache.iterdir() if path.suffix != ".lock")


def test_a_pull_fetches_verifies_and_says_size_licence_and_path(cache):
    told = Told()
    assert pull("tiny", progress=told, fetch=Source()) == cache / "tiny.gguf"
    assert (cache / "tiny.gguf").read_bytes() == CONTENT
    assert left(cache) == ["tiny.gguf", "tiny.gguf.verified"]
    assert "MIT" in told.lines[0]
    assert str(cache / "tiny.gguf") in told.lines[1]
    assert "verified" in told.lines[-1]


def test_a_second_pull_does_nothing_and_says_nothing(cache):
    source, told = Source(), Told()
    pull("tiny", progress=Told(), fetch=source)
    pull("tiny", progress=told, fetch=source)
    assert source.visits == 1
    assert told.lines == []


def test_the_wrong_file_is_thrown_away_with_a_remedy(cache):
    with pytest.raises(ModelError, match="tenuto pull tiny") as caught:
        pull("tiny", progress=Told(), fetch=Source(b"GGUF something else"))
    assert caught.value.id == "LOCAL_WEIGHTS_MISMATCH"
    assert TINY.sha256 in str(caught.value)
    assert left(cache) == []
    assert find("tiny") is None


def test_a_file_of_the_right_size_and_another_content_is_wrong(cache):
    with pytest.raises(ModelError, match="SHA-256"):
        pull("tiny", progress=Told(), fetch=Source(bytes(len(CONTENT))))


@pytest.mark.parametrize("error", [ModelError("offline"), KeyboardInterrupt()])
def test_a_pull_that_fails_leaves_nothing_and_the_next_one_works(cache, error):
    with pytest.raises(type(error)):
        pull("tiny", progress=Told(), fetch=Source(error=error))
    assert left(cache) == []
    pull("tiny", progress=Told(), fetch=Source())
    assert find("tiny")


def test_what_a_killed_pull_left_is_not_used_but_removed(cache):
    dead = cache / ".tiny-abc123.part"
    dead.mkdir(parents=True)
    (dead / "tiny.gguf.part").write_bytes(CONTENT[:100])
    source = Source()
    pull("tiny", progress=Told(), fetch=source)
    assert source.visits == 1
    assert left(cache) == ["tiny.gguf", "tiny.gguf.verified"]


def test_another_file_under_a_known_name_is_refused_and_kept(cache):
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(b"GGUF mine")
    for attempt in (find, lambda name: pull(name, progress=Told(), fetch=Source())):
        with pytest.raises(ConfigurationError, match="Delete it") as caught:
            attempt("tiny")
        assert caught.value.id == "LOCAL_WEIGHTS_UNVERIFIED"
    assert (cache / "tiny.gguf").read_bytes() == b"GGUF mine"


def test_a_file_put_there_by_hand_is_hashed_once(cache, monkeypatch):
    cache.mkdir(parents=True)
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert find("tiny") == cache / "tiny.gguf"
    monkeypatch.setattr(weights, "_sha256", lambda path: pytest.fail("hashed again"))
    assert find("tiny") == cache / "tiny.gguf"


@pytest.mark.parametrize("damage", [b"", b"{", b'{"sha256": "x", "size": 1, "mtime_ns": 2}'])
def test_a_damaged_memory_of_the_check_means_to_check_again(cache, damage):
    pull("tiny", progress=Told(), fetch=Source())
    (cache / "tiny.gguf.verified").write_bytes(damage)
    assert find("tiny")


def test_a_file_changed_after_its_check_is_refused(cache):
    pull("tiny", progress=Told(), fetch=Source())
    (cache / "tiny.gguf").write_bytes(bytes(len(CONTENT)))
    os.utime(cache / "tiny.gguf", ns=(1, 1))
    with pytest.raises(ConfigurationError):
        find("tiny")


def test_a_file_that_is_made_here_is_made_of_checked_parts_and_checked_itself(cache, monkeypatch):
    made = CONTENT[::-1]

    def write(one, two, target):
        target.write_bytes((one.read_bytes() + two.read_bytes())[::-1])

    def part(name, content):
        return known.Source(name, len(content), hashlib.sha256(content).hexdigest())

    def fetch(contents):
        def fetched(wanted, scratch, progress):
            for source, content in zip(wanted.sources, contents, strict=True):
                (scratch / source.file).write_bytes(content)
            return [scratch / source.file for source in wanted.sources]

        return fetched

    pieces = CONTENT[:100], CONTENT[100:]
    recipe = known.Recipe((part("one", pieces[0]), part("two", pieces[1])), write)
    right = msgspec.structs.replace(TINY, recipe=recipe, sha256=hashlib.sha256(made).hexdigest())
    monkeypatch.setitem(KNOWN, "tiny", right)
    with pytest.raises(ModelError, match="the file two"):
        pull("tiny", progress=Told(), fetch=fetch((pieces[0], b"x")))
    told = Told()
    assert pull("tiny", progress=told, fetch=fetch(pieces)).read_bytes() == made
    assert any("converting" in line for line in told.lines)
    assert left(cache) == ["tiny.gguf", "tiny.gguf.verified"]


def test_an_unknown_name_is_refused():
    with pytest.raises(ConfigurationError, match="'nope'"):
        pull("nope")


def test_the_cache_is_where_the_user_says(monkeypatch, tmp_path):
    assert cache_dir() == tmp_path / "cache" / "models"
    monkeypatch.delenv("TENUTO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "tenuto" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir().parts[-3:] == (".cache", "tenuto", "models")


def test_a_cache_that_cannot_be_made_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TENUTO_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="TENUTO_CACHE"):
        pull("tiny", progress=Told(), fetch=Source())


def test_two_pulls_at_once_fetch_once(cache):
    inside, go = threading.Event(), threading.Event()

    class Slow(Source):
        def __call__(self, *args):
            inside.set()
            assert go.wait(30)
            return super().__call__(*args)

    slow, other, found = Slow(), Source(), []
    first = threading.Thread(target=lambda: found.append(pull("tiny", progress=Told(), fetch=slow)))
    second = threading.Thread(target=lambda: found.append(pull("tiny", progress=Told(), fetch=other)))
    first.start()
    assert inside.wait(30)
    second.start()
    go.set()
    first.join(30)
    second.join(30)
    assert found == [cache / "tiny.gguf"] * 2
    assert (slow.visits, other.visits) == (1, 0)


SCRIPT = """
import hashlib, sys
from pathlib import Path
from tenuto.models.local.known import KNOWN, Weights
from tenuto.models.local.weights import pull
content = b"GGUF" * 1000
KNOWN["tiny"] = Weights("tiny", "tiny.gguf", len(content), hashlib.sha256(content).hexdigest(), "MIT", "r", "h")
def fetch(weights, scratch, progress):
    with open(sys.argv[1], "a") as visits: visits.write("x")
    print("fetching", flush=True); sys.stdin.readline()
    (scratch / "p").write_bytes(content)
    return [scratch / "p"]
print(pull("tiny", fetch=fetch), flush=True)
"""


@pytest.mark.slow
def test_two_processes_pull_at_once_and_a_killed_one_lets_the_other_go_on(tmp_path, cache):
    visits = tmp_path / "visits"

    def start():
        command = [sys.executable, "-c", SCRIPT, str(visits)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    with start() as first:
        assert first.stdout.readline() == "fetching\n"
        with start() as second, start() as third:
            first.kill()
            first.wait()
            outputs = []
            for each in (second, third):
                each.stdin.write("\n")
                each.stdin.flush()
            for each in (second, third):
                outputs += each.communicate(timeout=60)[0].splitlines()
    assert visits.read_text() == "xx"  # the killed one and one of the others
    assert outputs.count(str(cache / "tiny.gguf")) == 2
    assert left(cache) == ["tiny.gguf", "tiny.gguf.verified"]


def test_plain_lines_say_each_quarter_once(capsys):
    progress = LineProgress()
    for advance in progress.bar("x", 1_000_000):
        for done in (0, 250_000, 260_000, 900_000, 2_000_000):
            advance(done)
    assert capsys.readouterr().err.splitlines() == ["x: 25 % of 1 MB", "x: 75 % of 1 MB", "x: 100 % of 1 MB"]
    assert capsys.readouterr().out == ""
