"""What kind of file some bytes are, by how they begin, and what a name's ending says.

Invariant: a type is given only where the bytes or the ending leave no doubt; everything else is None.

Source: the file signatures of the WHATWG MIME Sniffing standard, and of ISO base media files ("ftyp" brands).
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from urllib.parse import urlsplit

_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"\0\0\1\0", "image/x-icon"),
    (b"%PDF-", "application/pdf"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF: Mapping[bytes, str] = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/avi"}
_BRANDS: Mapping[bytes, str] = {
    b"avif": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"M4A ": "audio/mp4",
}
_ENDINGS: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "svg": "image/svg+xml",
    "avif": "image/avif",
    "heic": "image/heic",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "json": "application/json",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "ogg": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "mp4": "video/mp4",
    "webm": "video/webm",
}


def sniffed(content: bytes) -> str | None:
    """The media type that the first bytes show."""
    for start, media_type in _STARTS:
        if content.startswith(start):
            return media_type
    if content[:4] == b"RIFF":
        return _RIFF.get(content[8:12])
    if content[4:8] == b"ftyp":
        return _BRANDS.get(content[8:12], "video/mp4")
    return None


def sniffed_base64(text: str) -> str | None:
    """The media type of what `text` encodes, from its first letters."""
    try:
        return sniffed(base64.b64decode(text[:32]))
    except (binascii.Error, ValueError):
        return None


def named(name: str) -> str | None:
    """The media type that the ending of a file's name, or of a URL's path, stands for."""
    try:
        path = urlsplit(name).path if "://" in name else name
    except ValueError:
        return None
    _, dot, ending = path.rpartition(".")
    return _ENDINGS.get(ending.lower()) if dot else None
