"""How linked files are fetched, and what was fetched: the words of `remote_files`, which is loaded when needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import msgspec
from msgspec import Struct


class Downloads(Struct, frozen=True, kw_only=True):
    """How linked files are fetched.

    Attributes:
        always: Also where the model could fetch them itself.
        max_bytes: Of one file.
        timeout: Seconds for one file, redirects and further tries included.
        concurrency: Files fetched at once.
        allow_hosts: Hosts (`host` or `host:port`) that may have a private address.
    """

    always: bool = False
    max_bytes: int = 20_000_000
    timeout: float = 60.0
    concurrency: int = 10
    allow_hosts: tuple[str, ...] = ()


class DownloadsDict(TypedDict, total=False):
    """How files that messages link to are fetched, where the model's provider cannot.

    `always` fetches them where it could, too. `max_bytes` (20,000,000) and `timeout` (60 seconds) are of one file,
    `concurrency` (10) of all. `allow_hosts` names hosts (`host` or `host:port`) that may have a private address; any
    other file is fetched from public addresses only.
    """

    always: bool
    max_bytes: int
    timeout: float
    concurrency: int
    allow_hosts: Sequence[str]


class RemoteFile(Struct, frozen=True):
    """A file that was fetched; `data` is base64 text."""

    media_type: str
    data: str


def read_downloads(given: Mapping[str, Any]) -> Downloads:
    """The limits that `downloads=` says, under their snake_case names.

    Raises:
        TypeError: One of the wrong type.
        ValueError: A number out of range.
    """
    if isinstance(given.get("allow_hosts"), str):
        message = f"'allow_hosts' of downloads= is a list of hosts, not {given['allow_hosts']!r}."
        raise TypeError(message)
    try:
        found = msgspec.convert({name: value for name, value in given.items() if value is not None}, Downloads)
    except msgspec.ValidationError as error:
        message = f"downloads= cannot be read: {error}."
        raise TypeError(message) from error
    if min(found.max_bytes, found.concurrency) < 1 or found.timeout <= 0:
        message = "'max_bytes', 'concurrency' and 'timeout' of downloads= are above 0."
        raise ValueError(message)
    return found
