"""A file as a caller gives it: a URL, a data URL, bytes, base64 text, a provider's file id, or a path on this computer.

Invariant: a stored file has either a `url` that is fetched over the network, or `data`; text is never taken for the
path of a local file, so what a client sends can never make this process read one.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import cast
from urllib.parse import unquote_to_bytes

from tenuto.messages.media import named, sniffed, sniffed_base64
from tenuto.messages.stored import StoredFilePart

FORMS = "an http(s) URL, a data URL, bytes, base64 text or a pathlib.Path"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BASE64 = re.compile(r"[A-Za-z0-9+/\-_\s]*={0,2}\s*")
_FILE_ID = re.compile(r"file[-_][A-Za-z0-9_-]+")
_NO_TYPE = frozenset({"", "*/*", "image/*"})


class NotAFile(ValueError):
    """What was given is no file; the message says why, and repeats nothing of a file's content."""


def read_file(source: object, media_type: str | None, filename: str | None = None) -> StoredFilePart:
    """The stored form of a file.

    Args:
        source: One of `FORMS`, or the id of a file that a provider keeps.
        media_type: As the caller says; else it is taken from the bytes, the file's name or the URL. `image/*` asks for
            that and stays where nothing shows more.
        filename: For the model.

    Raises:
        NotAFile: It is none of these, a path that cannot be read, or its type cannot be told.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _from_bytes(bytes(cast("bytes", source)), media_type, filename)
    if isinstance(source, Path):
        return _from_path(source, media_type, filename)
    if not isinstance(source, str) or not source:
        given = "nothing" if source is None or source == "" else type(source).__name__
        raise NotAFile(f"its content is {given}; give {FORMS}")
    return _from_text(source, media_type, filename)


def _from_bytes(content: bytes, media_type: str | None, filename: str | None) -> StoredFilePart:
    kind = _type(media_type, sniffed(content), filename)
    return StoredFilePart(kind, data=base64.b64encode(content).decode(), filename=filename)


def _from_path(path: Path, media_type: str | None, filename: str | None) -> StoredFilePart:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NotAFile(f"{path} cannot be read ({error.strerror or type(error).__name__})") from error
    return _from_bytes(content, media_type, filename or path.name)


def _from_text(text: str, media_type: str | None, filename: str | None) -> StoredFilePart:
    if text[:5].lower() == "data:":
        return _from_data_url(text, media_type, filename)
    if scheme := _SCHEME.match(text):
        if scheme[0].lower() == "file://":
            raise NotAFile("a file: URL is never read; pass pathlib.Path(...) for a file on this computer")
        return StoredFilePart(_type(media_type, None, filename or text), url=text, filename=filename)
    if _FILE_ID.fullmatch(text):
        return StoredFilePart(_type(media_type, None, filename), data=text, filename=filename)
    if not _BASE64.fullmatch(text):
        raise NotAFile(f"its content is text that is neither a URL nor base64; give {FORMS}")
    data = "".join(text.split()).translate(str.maketrans("-_", "+/"))
    return StoredFilePart(_type(media_type, sniffed_base64(data), filename), data=data, filename=filename)


def _from_data_url(url: str, media_type: str | None, filename: str | None) -> StoredFilePart:
    head, comma, body = url[5:].partition(",")
    if not comma:
        raise NotAFile("a data URL has a comma between its type and its content, and this one has none")
    said, *parameters = [each.strip() for each in head.split(";")]
    coded = "base64" in (each.lower() for each in parameters)
    data = "".join(body.split()) if coded else base64.b64encode(unquote_to_bytes(body)).decode()
    kind = said or media_type or sniffed_base64(data) or "text/plain"
    return StoredFilePart(kind, data=data, filename=filename)


def _type(said: str | None, shown: str | None, name: str | None) -> str:
    """What the caller says, unless that is no exact type; then what bytes or name show."""
    if said is not None and said not in _NO_TYPE:
        return said
    found = shown or (named(name) if name else None) or said
    if not found:
        raise NotAFile("its media type cannot be told from it; give media_type, such as 'application/pdf'")
    return found
