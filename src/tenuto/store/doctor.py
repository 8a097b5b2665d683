"""What `tenuto doctor` says about a SQLite store: can it work where it lies, and is it sound.

Invariant: nothing is changed; a file that does not exist yet is not made.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from tenuto.core.errors import StoreError
from tenuto.store.migrate import migrations, missing
from tenuto.store.sqlite_connect import connect, meaning

MOUNTS: Final = Path("/proc/self/mounts")

_NEEDED_BYTES: Final = 64 * 1024 * 1024
_WANTED_BYTES: Final = 512 * 1024 * 1024
_REMOTE: Final = re.compile(r"nfs\d?|cifs|smb\w*|9p|afs|ceph|glusterfs|lustre|virtiofs|fuse(\..+)?|fuseblk")
_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


class Check(Struct, frozen=True):
    """One finding.

    Attributes:
        name: What was looked at, a word.
        state: `warn`: it works, and may not for long; `fail`: it does not work.
        text: What was found.
        remedy: What to do about it; empty when it is `ok`.
    """

    name: str
    state: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


def doctor_checks(path: str | os.PathLike[str], *, mounts: Path = MOUNTS) -> list[Check]:
    """Look at the store in `path`, whether or not it exists; it may be in use.

    Args:
        path: The file of the store.
        mounts: The table of file systems, in the form of fstab(5); without one that check is left out.
    """
    file = Path(path).absolute()
    checks = [_directory(file)]
    if checks[0].state == "fail":
        return checks
    checks += _file_system(file, mounts)
    checks.append(_free_space(file.parent))
    return checks + (_file(file) if file.exists() else [Check("file", "ok", f"{file} is not there yet.")])


def _directory(file: Path) -> Check:
    directory = file.parent
    if not directory.is_dir():
        return Check("directory", "fail", f"There is no directory {directory}.", f"mkdir -p {directory}")
    try:
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        text = f"{directory} cannot be written ({error.strerror}); the store keeps its log beside its file."
        return Check("directory", "fail", text, "Give this user the right to write there, or take another directory.")
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        remedy = "Give this user the right to read and write it."
        return Check("directory", "fail", f"{file} cannot be read and written.", remedy)
    return Check("directory", "ok", f"{directory} can be written.")


def _file_system(file: Path, mounts: Path) -> list[Check]:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found, kind = Path(), ""
    for line in lines:
        _, point, type_, *_ = line.split(" ")
        place = Path(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), point))
        if file.resolve().is_relative_to(place) and len(place.parts) >= len(found.parts):
            found, kind = place, type_
    if not kind:
        return []
    if _REMOTE.fullmatch(kind):
        text = f"{file} is on {kind} ({found}), where SQLite's locks cannot be relied on: runs could be damaged."
        return [Check("file system", "fail", text, "Put the store on a local disk, or use PostgreSQL.")]
    return [Check("file system", "ok", f"{kind} ({found}).")]


def _free_space(directory: Path) -> Check:
    free = shutil.disk_usage(directory).free
    text = f"{free // 2**20} MiB are free."
    if free >= _WANTED_BYTES:
        return Check("space", "ok", text)
    state: Literal["warn", "fail"] = "warn" if free >= _NEEDED_BYTES else "fail"
    return Check("space", state, text, "Free some space, or drop old runs with `SQLiteStore.prune`.")


def _file(file: Path) -> list[Check]:
    try:
        connection = connect(file, busy_timeout=2.0)
        try:
            connection.execute("PRAGMA query_only = 1")
            checks = [_sound(connection), _log(connection), _version(connection)]
            return checks + ([] if any(check.state != "ok" for check in checks) else [_threads(connection)])
        finally:
            connection.close()
    except sqlite3.Error as error:
        return [Check("file", "fail", str(meaning(error, file)), "See above.")]


def _sound(connection: sqlite3.Connection) -> Check:
    found = [text for (text,) in connection.execute("PRAGMA quick_check(3)").fetchall()]
    if found == ["ok"]:
        return Check("file", "ok", "SQLite finds no damage.")
    remedy = "Stop all its processes and restore a backup, or save what can be read with `sqlite3 FILE .recover`."
    return Check("file", "fail", "; ".join(found), remedy)


def _log(connection: sqlite3.Connection) -> Check:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    if mode == "wal":
        return Check("log", "ok", "Write-ahead logging is on.")
    return Check("log", "warn", f"The journal mode is {mode}, not wal.", "The store sets it when it is next opened.")


def _version(connection: sqlite3.Connection) -> Check:
    known = migrations()
    try:
        waiting = missing(connection, known)
    except StoreError as error:
        return Check("version", "fail", str(error), "See above.")
    if waiting:
        text = f"{len(waiting)} of {len(known)} migrations have not been run."
        return Check("version", "warn", text, "The store runs them when it is next opened.")
    return Check("version", "ok", f"All {len(known)} migrations of this version have been run.")


_HELD: Final = "SELECT (SELECT COUNT(*) FROM threads), (SELECT COUNT(*) FROM messages), (SELECT COUNT(*) FROM vectors)"
_LOST: Final = {
    "messages without a place in a thread": """
        SELECT COUNT(*) FROM messages LEFT JOIN threads ON threads.n = messages.place >> 32
        WHERE threads.n IS NULL OR messages.place & 4294967295 >= threads.messages
    """,
    "vectors without a message": """
        SELECT COUNT(*) FROM vectors LEFT JOIN messages ON messages.place = vectors.message WHERE messages.place IS NULL
    """,
    "child runs without a parent": """
        SELECT COUNT(*) FROM runs LEFT JOIN runs AS parents ON parents.run_id = runs.parent_id
        WHERE runs.parent_id IS NOT NULL AND parents.n IS NULL
    """,
}


def _threads(connection: sqlite3.Connection) -> Check:
    def count(sql: str) -> int:
        (found,) = connection.execute(sql).fetchone()
        return found

    lost = [f"{number} {what}" for what, sql in _LOST.items() if (number := count(sql))]
    if lost:
        text = f"There are {', '.join(lost)}: something else than tenuto has written to the file."
        return Check("threads", "fail", text, "Restore a backup; what is left can be read, but not relied on.")
    held = connection.execute(_HELD).fetchone()
    return Check("threads", "ok", "{} threads with {} messages and {} vectors.".format(*held))
