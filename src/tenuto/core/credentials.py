"""What counts as a credential, and texts without any.

Invariant: what was sent as a credential is never stored, logged or shown: texts from outside lose it before they are
cut to length, since half a key is a key to whoever can guess the rest.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult

AUTH_TOKEN = "mastra__authToken"  # noqa: S105 - the name, not a token
"""The request value that holds a caller's bearer token; it lives in the process of the request only."""

_WORDS = ("key", "token", "secret", "auth", "password", "signature")
_SHORTEST = 8
"""Parts of a header's value from this length on are secrets of their own; shorter ones are words such as `Bearer`."""

_SEPARATORS = str.maketrans(";,=\"'", "     ")


@lru_cache(256)
def is_credential(header: str) -> bool:
    """Whether a header of this name may carry a credential."""
    name = header.lower()
    return name in {"cookie", "set-cookie"} or name.startswith("proxy-") or any(word in name for word in _WORDS)


def secrets_of(url: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What must not come back in a text when this is sent, the longest first."""
    found: set[str] = set(_of_url(url))
    for name, value in headers.items():
        if is_credential(name):
            found.add(value.strip())
            found.update(part for part in value.translate(_SEPARATORS).split() if len(part) >= _SHORTEST)
    return tuple(sorted((secret for secret in found if len(secret) >= 4), key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """`text` without `secrets`."""
    for secret in secrets:
        text = text.replace(secret, "[secret]")
    return text


def has_credential(url: str) -> bool:
    """Whether a URL names a user, or holds a query that may have a key in it."""
    try:
        parts = _split(url)
    except ValueError:
        return True
    return "@" in parts.netloc or bool(parts.query)


def shown_url(url: str) -> str:
    """A URL as it may be shown: without user, query and fragment."""
    try:
        parts = _split(url)
    except ValueError:
        return "an invalid URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _split(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    return urlsplit(url)


def _of_url(url: str) -> Iterable[str]:
    try:
        parts = _split(url)
    except ValueError:
        return
    from urllib.parse import unquote

    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if password:
        yield password
        yield b64encode(f"{user}:{password}".encode()).decode()
    yield from (value for pair in parts.query.split("&") if (value := pair.partition("=")[2]))
