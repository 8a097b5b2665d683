"""How structs of the port are written into rows of a SQLite file, and read back.

Invariant: every row says in which format it was written, and one in another format than `FORMAT` is refused, never
guessed at.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from tenuto.core import codec
from tenuto.core.errors import StoreError
from tenuto.core.events import Event
from tenuto.core.payloads import ErrorInfo
from tenuto.store.owners import is_gone
from tenuto.store.ports import ANYONE, AbortRequest, Decide, Inbox, Owner, Post, RunRow, Scope, ThreadRow
from tenuto.store.statements import DIRECTORY, named

_S = TypeVar("_S", bound=Struct)

SQL: Final = named(DIRECTORY / "sqlite" / "statements.sql") | named(DIRECTORY / "sqlite" / "threads.sql")

FORMAT: Final = 1
"""The format of every row this version writes."""

LAST: Final = 2**63 - 1
"""The highest number SQLite knows."""


def check_format(form: int) -> None:
    """Whether this version can read a row of that format.

    Raises:
        StoreError: `STORE_FORMAT_UNKNOWN`.
    """
    if form != FORMAT:
        message = (
            f"The store holds a row of format {form}, and this version of tenuto reads format {FORMAT} only; "
            "update tenuto to the version that wrote it."
        )
        raise StoreError(message, id="STORE_FORMAT_UNKNOWN", details={"format": form})


def lives(owner: str, expires_at: float, now: float) -> bool:
    """Whether a lease keeps others off: it has not expired, and its owner is not known to be gone."""
    return now < expires_at and not is_gone(owner)


def place_of(scope: Scope) -> tuple[str, str, str]:
    """The columns of a scope."""
    return scope.kind, scope.id, scope.resource


def queue_of(target: Scope | str) -> tuple[str, str, str]:
    """The columns of a queue of posts."""
    return ("run", target, "") if isinstance(target, str) else (f"inbox of {target.kind}", target.id, target.resource)


def owner_of(owner: Owner) -> tuple[bool, str | None]:
    """The owner as statements take it: whether it is anyone, or else who."""
    return (True, None) if owner is ANYONE else (False, owner)


def run_of(row: Sequence[Any]) -> RunRow:
    """The run in a row of the statements `run`, `runs`, ..."""
    check_format(row[0])
    return RunRow(
        run_id=row[1],
        agent_id=row[2],
        scope=Scope(row[3], row[4], row[5]),
        status=row[6],
        durable=bool(row[7]),
        resource_id=row[8],
        thread_id=row[9],
        parent_id=row[10],
        parent_call_id=row[11],
        root_id=row[12],
        loop_version=row[13],
        first_event=row[14],
        reason=row[15],
        error=None if row[16] is None else decoded(row[16], ErrorInfo),
        created_at=row[17],
        updated_at=row[18],
    )


class StoredThread(Struct, frozen=True):
    """A thread and its number in the file."""

    n: int
    row: ThreadRow


def thread_of(row: Sequence[Any]) -> StoredThread:
    """The thread in a row of the statements `thread`, ..."""
    check_format(row[0])
    made = ThreadRow(
        id=row[2],
        resource=row[3],
        title=row[4],
        version=row[5],
        messages=row[6],
        root=None if row[7] is None else Scope(row[7], row[8], row[9]),
        created_at=row[10],
        updated_at=row[11],
        metadata=metadata_of(row[12]),
    )
    return StoredThread(row[1], made)


def metadata_of(raw: bytes) -> dict[str, Any]:
    """The metadata of a thread.

    Raises:
        StoreError: `STORE_ROW_INVALID`.
    """
    try:
        return _metadata.decode(raw)
    except msgspec.MsgspecError as error:
        message = f"The store holds metadata of a thread that cannot be read ({error}); restore a backup."
        raise StoreError(message, id="STORE_ROW_INVALID") from error


_metadata = msgspec.json.Decoder(dict[str, Any])


def post_of(raw: bytes, key: str, queue_kind: str) -> Post:
    """The item in a row of `posts`."""
    if queue_kind != "run":
        return decoded(raw, Inbox)
    return decoded(raw, AbortRequest if key == "abort" else Decide)


def decoded(raw: bytes, kind: type[_S]) -> _S:
    """The struct that `raw` encodes.

    Raises:
        StoreError: `STORE_ROW_INVALID`.
    """
    try:
        return _decoder(kind).decode(raw)
    except msgspec.MsgspecError as error:
        message = f"The store holds a {kind.__name__} that cannot be read ({error}); restore a backup."
        raise StoreError(message, id="STORE_ROW_INVALID") from error


@cache
def _decoder(kind: type[_S]) -> msgspec.json.Decoder[_S]:
    return msgspec.json.Decoder(kind)


def packed(chunks: list[bytes]) -> bytes:
    """Encoded chunks as one value: a line each."""
    lines = b"\n".join(chunks)
    if lines.count(b"\n") >= len(chunks):  # a part that a provider wrote over several lines is in it as it came
        lines = b"\n".join([msgspec.json.format(chunk, indent=-1) for chunk in chunks])
    return lines


def unpacked(rows: Sequence[tuple[int, int, bytes]], start: int, end: int) -> list[Event]:
    """The events of `rows` (format, first index, lines) from `start` up to, not including, `end`."""
    found: list[Event] = []
    for form, first, lines in rows:
        check_format(form)
        chunks = lines.split(b"\n")
        found += [
            Event(index, codec.decode_chunk(chunk)) for index, chunk in enumerate(chunks, first) if start <= index < end
        ]
    return found
