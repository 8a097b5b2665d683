"""Request values: the JSON facts of one request (user, tenant, plan) that travel with a run.

Invariant: one run uses one instance; what a tool writes, a later step reads.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, cast

import msgspec

from tenuto.core.credentials import AUTH_TOKEN

Init = Mapping[str, Any] | Iterable[tuple[str, Any]]


class RequestContext:
    """A mutable map from names to values, created for one request.

    Args:
        init: A mapping or pairs to start with.
    """

    __slots__ = ("_values",)

    def __init__(self, init: Init | None = None) -> None:
        self._values: dict[str, Any] = dict(init or ())

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, else `default`."""
        return self._values.get(key, default)

    def set(self, key: str, value: Any) -> None:
        """Set `key`; later steps of the run see it."""
        self._values[key] = value

    def has(self, key: str) -> bool:
        """Whether `key` is set, be it to None."""
        return key in self._values

    def delete(self, key: str) -> bool:
        """Remove `key`; returns whether it was there."""
        return self._values.pop(key, _ABSENT) is not _ABSENT

    def clear(self) -> None:
        """Remove all keys."""
        self._values.clear()

    def keys(self) -> KeysView[str]:
        """The names that are set."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """The values that are set."""
        return self._values.values()

    def entries(self) -> ItemsView[str, Any]:
        """Name and value of each entry."""
        return self._values.items()

    def for_each(self, visit: Callable[[Any, str], object]) -> None:
        """Call `visit(value, key)` for each entry."""
        for key, value in list(self._values.items()):
            visit(value, key)

    def size(self) -> int:
        """How many keys are set."""
        return len(self._values)

    @property
    def all(self) -> dict[str, Any]:
        """A plain dict of all entries; changing it does not change the context."""
        return dict(self._values)

    def to_json(self) -> dict[str, Any]:
        """The entries as JSON values, without the auth token and what JSON cannot hold (functions, cycles, files)."""
        found: dict[str, Any] = {}
        for key, value in list(self._values.items()):  # a tool in a thread may write meanwhile
            if key == AUTH_TOKEN:
                continue
            try:
                found[key] = msgspec.json.decode(msgspec.json.encode(value))
            except (TypeError, ValueError, RecursionError, OverflowError):
                continue
        return found

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value

    def __repr__(self) -> str:
        return f"RequestContext({', '.join(list(self._values))})"


_ABSENT = object()


def as_request_context(given: object) -> RequestContext:
    """Make a context of what a caller may pass: a context (kept as it is), a mapping, an instance of a schema.

    Raises:
        TypeError: It is none of these.
    """
    if given is None:
        return RequestContext()
    if isinstance(given, RequestContext):
        return given
    if isinstance(given, Mapping):
        return RequestContext(cast("Mapping[str, Any]", given))
    dump = None if isinstance(given, type) else getattr(given, "model_dump", None)
    if callable(dump):
        return RequestContext(cast("Mapping[str, Any]", dump()))
    try:
        fields: object = msgspec.to_builtins(given)
    except TypeError:
        fields = None
    if isinstance(fields, dict):
        return RequestContext(cast("Mapping[str, Any]", fields))
    message = f"request_context= takes a RequestContext, a mapping or an instance of its schema, not {type(given)!r}."
    raise TypeError(message)
