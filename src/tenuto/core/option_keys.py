"""Option mappings: keys in two spellings, and one mapping laid over another.

Invariant: snake_case is ours and camelCase is accepted; a mapping is renamed once, on its way in, and a key that is
unknown or given in both spellings is a `TypeError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from tenuto.core.payloads import wire_name


def spellings(known: Iterable[str]) -> Mapping[str, str]:
    """Both spellings of each name, with its own one last."""
    names = tuple(known)
    return {**{wire_name(name): name for name in names}, **{name: name for name in names}}


def renamed(
    given: Mapping[str, Any], names: Mapping[str, str], what: str, meant: Callable[[str], str | None] | None = None
) -> dict[str, Any]:
    """`given` under its snake_case keys; `names` is what `spellings` made, `meant` knows keys that belong elsewhere.

    Raises:
        TypeError: A key that is unknown, with what was meant or the nearest one, or given in both spellings.
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = names.get(key)
        if name is None:
            raise TypeError(unknown_key(key, names, what, meant))
        if name in found:
            message = f"The {what} {name!r} is given twice, as {name!r} and as {wire_name(name)!r}; give it once."
            raise TypeError(message)
        found[name] = value
    return found


def mapping(given: object, name: str) -> Mapping[str, Any]:
    """`given`, if it is a mapping.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(given, Mapping):
        message = f"{name}= takes a mapping, not {type(given).__name__}."
        raise TypeError(message)
    return cast("Mapping[str, Any]", given)


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`: mappings key by key, at every depth; anything else whole."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            merged[key] = overlaid(cast("Mapping[str, Any]", under), cast("Mapping[str, Any]", value))
        else:
            merged[key] = value
    return merged


def unknown_key(key: str, names: Mapping[str, str], what: str, meant: Callable[[str], str | None] | None = None) -> str:
    """The message for a key that is none of `names`; see `renamed`."""
    from difflib import get_close_matches

    if meant is not None and (elsewhere := meant(key)) is not None:
        return f"Unknown {what} {key!r}; {elsewhere}"
    near = get_close_matches(key, names, n=1)
    hint = f"; did you mean {names[near[0]]!r}?" if near else f"; known: {', '.join(dict.fromkeys(names.values()))}."
    return f"Unknown {what} {key!r}{hint}"
