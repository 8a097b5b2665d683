import contextlib
import os
import shutil
import sqlite3
from types import SimpleNamespace

import pytest

from tenuto.store import SQLiteStore
from tenuto.store.doctor import doctor_checks
from tests.store.conformance import started
from tests.store.conformance_threads import filled, vector


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
async def made(path):
    store = SQLiteStore(path)
    await store.runs(resource=None)
    await store.aclose()
    return path


def states(checks):
    return {check.name: check.state for check in checks}


@pytest.fixture
def plenty(monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**39))


def mounted(tmp_path, kind, point=None):
    table = tmp_path / "mounts"
    point = str(point or tmp_path).replace(" ", "\\040")
    table.write_text(f"/dev/a / ext4 rw 0 0\nserver:/x {point} {kind} rw 0 0\nproc /proc proc rw 0 0\n")
    return table


async def test_a_sound_store_is_all_right(made, plenty, tmp_path):
    checks = doctor_checks(made, mounts=mounted(tmp_path, "ext4"))
    assert {check.state for check in checks} == {"ok"}
    assert [check.name for check in checks] == [
        "directory",
        "file system",
        "space",
        "file",
        "log",
        "version",
        "threads",
    ]
    assert all(not check.remedy for check in checks)


async def test_a_store_in_use_is_all_right(path, plenty):
    store = SQLiteStore(path)
    await store.runs(resource=None)
    assert set(states(doctor_checks(path, mounts=path / "none")).values()) == {"ok"}
    await store.aclose()


def test_a_file_that_is_not_there_yet_is_not_made(path, plenty):
    assert set(states(doctor_checks(path)).values()) <= {"ok", "fail"}
    assert not path.exists()


def test_a_directory_that_is_missing(path):
    (check,) = doctor_checks(path / "below" / "runs.db")
    assert (check.state, check.remedy.startswith("mkdir")) == ("fail", True)


def test_a_directory_that_cannot_be_written(path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    (check,) = doctor_checks(path)
    assert check.state == "fail"
    assert "right to write" in check.remedy


async def test_a_file_that_cannot_be_written(made, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *args: False)
    assert states(doctor_checks(made)) == {"directory": "fail"}


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse", "virtiofs"])
def test_a_file_system_without_locks(path, tmp_path, kind, plenty):
    (check,) = [each for each in doctor_checks(path, mounts=mounted(tmp_path, kind)) if each.name == "file system"]
    assert check.state == "fail"
    assert kind in check.text
    assert "local disk" in check.remedy


@pytest.mark.parametrize("kind", ["ext4", "xfs", "overlay", "tmpfs", "btrfs", "apfs"])
def test_a_file_system_with_locks(path, tmp_path, kind, plenty):
    assert states(doctor_checks(path, mounts=mounted(tmp_path, kind)))["file system"] == "ok"


def test_the_nearest_mount_counts(tmp_path, plenty):
    inner = tmp_path / "in ner"
    inner.mkdir()
    table = mounted(tmp_path, "nfs4", inner)
    assert states(doctor_checks(inner / "a.db", mounts=table))["file system"] == "fail"
    assert states(doctor_checks(tmp_path / "a.db", mounts=table))["file system"] == "ok"


@pytest.mark.parametrize(("free", "state"), [(2**20, "fail"), (2**27, "warn"), (2**32, "ok")])
def test_free_space(path, monkeypatch, free, state):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert states(doctor_checks(path))["space"] == state


def test_a_file_that_is_no_database(path, plenty):
    path.write_text("no database at all, just a text " * 50)
    (check,) = [each for each in doctor_checks(path) if each.name == "file"]
    assert check.state == "fail"
    assert "not an SQLite database" in check.text


async def test_a_damaged_file(made, plenty):
    content = bytearray(made.read_bytes())
    content[8192:20480] = b"\x55" * 12288
    made.write_bytes(content)
    assert states(doctor_checks(made))["file"] == "fail"


@pytest.mark.parametrize(
    ("sql", "name", "state"),
    [
        ("PRAGMA journal_mode = DELETE", "log", "warn"),
        ("DELETE FROM migrations WHERE number = 2", "version", "warn"),
        ("INSERT INTO migrations VALUES (99, 'later', 'x', 0)", "version", "fail"),
        ("PRAGMA application_id = 7", "version", "fail"),
    ],
)
async def test_what_the_next_opening_would_meet(made, plenty, sql, name, state):
    with contextlib.closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.execute(sql)
    assert states(doctor_checks(made))[name] == state


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE threads SET messages = 1", "1 messages without a place in a thread"),
        ("DELETE FROM threads", "2 messages without a place in a thread"),
        ("DELETE FROM messages WHERE message_id = 'm0'", "1 vectors without a message"),
        ("UPDATE runs SET parent_id = 'nobody'", "1 child runs without a parent"),
    ],
)
async def test_what_does_not_fit_together_is_found(path, plenty, damage, said):
    store = SQLiteStore(path)
    await store.release(await filled(store, 2))
    await store.index([vector("m0")])
    await started(store)
    await store.aclose()
    (sound,) = [check for check in doctor_checks(path) if check.name == "threads"]
    assert (sound.state, sound.text) == ("ok", "1 threads with 2 messages and 1 vectors.")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(damage)
        connection.commit()
    (found,) = [check for check in doctor_checks(path) if check.name == "threads"]
    assert found.state == "fail"
    assert said in found.text
    assert found.remedy
