"""Brings a SQLite file to the schema of this version: numbered scripts, each run once, in order.

Invariant: a script and the row that remembers it (number, name, checksum) are one transaction, taken while nobody
else writes; so it does not matter where a process dies or how many open a new file at once. A file that this version
does not fully know is refused before anything is changed in it.
"""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Final

from msgspec import Struct

from tenuto.core import faults
from tenuto.core.errors import StoreError
from tenuto.store.statements import DIRECTORY

APPLICATION_ID: Final = 0x74656E75
"""`tenu`, in the header of the file: what tells our files from other programs'."""

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS migrations (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at REAL NOT NULL
)
"""


class Migration(Struct, frozen=True):
    """A script and where it stands.

    Attributes:
        checksum: SHA-256 of the script, in hex; the ends of its lines do not count.
    """

    number: int
    name: str
    script: str
    checksum: str


def migrations(directory: Path = DIRECTORY / "sqlite") -> list[Migration]:
    """The scripts `NNNN_name.sql` of a directory, in order."""
    found: list[Migration] = []
    for path in sorted(directory.glob("[0-9][0-9][0-9][0-9]_*.sql")):
        number, _, name = path.stem.partition("_")
        script = path.read_text(encoding="utf-8")  # universal newlines
        found.append(Migration(int(number), name, script, hashlib.sha256(script.encode()).hexdigest()))
    return found


def migrate(connection: sqlite3.Connection, known: list[Migration], *, now: float) -> int:
    """Run what is missing; returns the number of scripts that were run.

    Args:
        connection: In autocommit mode, in no transaction.
        known: All scripts of this version, in order.
        now: The time, in seconds since the epoch.

    Raises:
        StoreError: `STORE_FOREIGN`, `STORE_NEWER`, `STORE_MIGRATION_ALTERED`; nothing was changed.
        sqlite3.Error: What SQLite says; the scripts before the one that failed stay.
    """
    run = 0
    while missing(connection, known):
        if run:
            faults.hit("store.migrate.mid")
        connection.execute("BEGIN IMMEDIATE")
        try:
            waiting = missing(connection, known)  # again, now that nobody else can write
            if waiting:
                _run(connection, waiting[0], now)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        run += 1
    return run


def missing(connection: sqlite3.Connection, known: list[Migration]) -> list[Migration]:
    """The scripts that have not been run on this file.

    Raises:
        StoreError: `STORE_FOREIGN`, `STORE_NEWER`, `STORE_MIGRATION_ALTERED`.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID and (application or tables):
        message = "The file is another program's database; give the store a file of its own."
        raise StoreError(message, id="STORE_FOREIGN", category="USER")
    if "migrations" not in tables:
        return known
    rows = connection.execute("SELECT number, name, checksum FROM migrations ORDER BY number").fetchall()
    by_number = {migration.number: migration for migration in known}
    for number, name, checksum in rows:
        _check(by_number.get(number), number, name, checksum)
    applied = {number for number, _, _ in rows}
    return [migration for migration in known if migration.number not in applied]


def _check(migration: Migration | None, number: int, name: str, checksum: str) -> None:
    step = f"{number:04}_{name}"
    if migration is None:
        message = (
            f"A newer version of tenuto has written this store (it has the migration {step}); "
            "update tenuto to that version, or give it another file."
        )
        raise StoreError(message, id="STORE_NEWER", category="USER", details={"migration": number})
    if migration.checksum != checksum:
        message = (
            f"This store was made by another form of the migration {step} than the one installed; "
            "install the version of tenuto that made it, or restore a backup."
        )
        raise StoreError(message, id="STORE_MIGRATION_ALTERED", details={"migration": number})


def _run(connection: sqlite3.Connection, migration: Migration, now: float) -> None:
    connection.execute(_TABLE)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in _statements(migration.script):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO migrations (number, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
        (migration.number, migration.name, migration.checksum, now),
    )


def _statements(script: str) -> list[str]:
    found: list[str] = []
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            found.append(statement)
            statement = ""
    return found
