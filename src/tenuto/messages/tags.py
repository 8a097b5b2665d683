"""The one function that puts text into a tag, for a model to tell what is said from what is quoted.

Invariant: nothing that stands inside a tag can close it or open another: its text and its attributes are escaped here
and nowhere else, and a name that is none is refused before anything is stored.

Source: names as in XML 1.0 without colons; escapes of XML character data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tenuto.core import codec
from tenuto.core.payloads import Json

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def tagged(name: str, text: str, attributes: Mapping[str, Json] | None = None) -> str:
    """`<name key="value">text</name>`; without text `<name key="value" />`.

    Args:
        name: ASCII letters, digits, `_`, `.` and `-`, beginning with a letter or `_`.
        text: As it is; it is escaped here.
        attributes: In this order; None is left out, and what is no string is written as JSON.

    Raises:
        ValueError: A name is none.
    """
    opening = " ".join([checked_name(name), *_attributes(attributes or {})])
    return f"<{opening}>{escaped(text)}</{name}>" if text else f"<{opening} />"


def escaped(text: str) -> str:
    """`text` as the content of a tag."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def checked_name(name: str) -> str:
    """The name of a tag or of an attribute.

    Raises:
        ValueError: It is none.
    """
    if not _NAME.fullmatch(name):
        message = f"{name!r} cannot name a tag or an attribute: use letters, digits, `_`, `.` and `-`, a letter first."
        raise ValueError(message)
    return name


def _attributes(attributes: Mapping[str, Json]) -> list[str]:
    pairs = ((name, value) for name, value in attributes.items() if value is not None)
    return [f'{checked_name(name)}="{_value(value)}"' for name, value in pairs]


def _value(value: Json) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = value if isinstance(value, str) else codec.encode(value).decode()
    return escaped(text).replace('"', "&quot;")
