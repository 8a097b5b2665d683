import contextlib
import sqlite3

import pytest

from tenuto.core import faults
from tenuto.core.errors import StoreError
from tenuto.store import SQLiteStore
from tenuto.store.migrate import APPLICATION_ID, Migration, migrate, migrations, missing
from tests.store.conformance import refused


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def connection(path):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def applied(connection):
    return connection.execute("SELECT number, name, checksum, applied_at FROM migrations ORDER BY number").fetchall()


def schema(connection):
    return connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()


def test_a_new_file_gets_them_all_once(connection):
    known = migrations()
    assert [each.number for each in known] == list(range(1, len(known) + 1))
    assert len(known) >= 2
    assert migrate(connection, known, now=5.0) == len(known)
    assert applied(connection) == [(each.number, each.name, each.checksum, 5.0) for each in known]
    before = schema(connection)
    assert migrate(connection, known, now=6.0) == 0
    assert schema(connection) == before
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)


def test_an_older_file_gets_what_is_new(connection):
    known = migrations()
    migrate(connection, known[:1], now=5.0)
    assert missing(connection, known) == known[1:]
    assert migrate(connection, known, now=6.0) == len(known) - 1
    assert [each[3] for each in applied(connection)] == [5.0] + [6.0] * (len(known) - 1)


def test_one_that_fails_leaves_nothing_of_itself(connection):
    known = migrations()
    broken = Migration(len(known) + 1, "broken", "CREATE TABLE half (a);\nCREATE TABLE runs (a);\n", "c")
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        migrate(connection, [*known, broken], now=5.0)
    assert len(applied(connection)) == len(known)
    assert not connection.in_transaction
    assert "half" not in {name for _, name, _ in schema(connection)}


def test_there_is_a_failpoint_between_two(connection):
    seen = []
    faults.install(seen.append)
    try:
        migrate(connection, migrations(), now=5.0)
    finally:
        faults.install(None)
    assert seen == ["store.migrate.mid"] * (len(migrations()) - 1)


def test_line_ends_do_not_change_a_checksum(tmp_path):
    script = "CREATE TABLE a (b);\nCREATE TABLE c (d);\n"
    sums = set()
    for ends in ("\n", "\r\n"):
        (tmp_path / "0001_a.sql").write_bytes(script.replace("\n", ends).encode())
        sums.add(migrations(tmp_path)[0].checksum)
    assert len(sums) == 1


async def changed(path, sql, values=()):
    """Change the file of a store that was opened once; returns its schema."""
    store = SQLiteStore(path)
    await store.runs(resource=None)
    await store.aclose()
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(sql, values)
        return schema(connection)


@pytest.mark.parametrize(
    ("sql", "id", "remedy"),
    [
        ("UPDATE migrations SET checksum = 'x' WHERE number = 2", "STORE_MIGRATION_ALTERED", "restore a backup"),
        ("INSERT INTO migrations VALUES (99, 'later', 'x', 0)", "STORE_NEWER", "update tenuto"),
        ("PRAGMA application_id = 7", "STORE_FOREIGN", "a file of its own"),
    ],
)
async def test_a_file_that_is_not_fully_known_is_refused_unchanged(path, sql, id, remedy):
    before = await changed(path, sql)
    store = SQLiteStore(path)
    error = await refused(store.runs(resource=None), id)
    assert remedy in str(error)
    await store.aclose()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert schema(connection) == before


async def test_another_program_s_database_is_left_alone(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (a)")
    before = path.read_bytes()
    store = SQLiteStore(path)
    await refused(store.runs(resource=None), "STORE_FOREIGN")
    await store.aclose()
    assert path.read_bytes() == before


def test_the_errors_are_the_store_s(connection):
    connection.execute("CREATE TABLE theirs (a)")
    with pytest.raises(StoreError):
        missing(connection, migrations())
