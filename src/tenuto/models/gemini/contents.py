"""Contents in the order that Gemini accepts.

Invariant: user and model take turns, the first and the last word are the user's, and there is at least one content.

Source: Gemini API guide "Text generation", multi-turn conversations; the API's refusals of other orders.
"""

from __future__ import annotations

from itertools import groupby

from msgspec import Raw

BEGIN = "."
"""What a user says before a conversation that the model begins."""

CONTINUE = "Continue."
"""What a user says when the model had the last word."""

_ROLE_AT = len('{"role":"')
_MODEL = ord("m")
_PARTS_AT = {_MODEL: len('{"role":"model","parts":['), ord("u"): len('{"role":"user","parts":[')}


class Turns:
    """The contents of one prompt; a content is looked at once, for a history only grows."""

    __slots__ = ("_contents", "_roles")

    def __init__(self) -> None:
        self._contents: list[Raw] = []
        self._roles = b""

    def of(self, contents: list[Raw]) -> list[Raw]:
        """The contents, with neighbours of one role joined and a neutral user turn where one is missing."""
        if contents[: len(self._contents)] != self._contents:
            self._roles = b""
        self._roles += bytes([memoryview(each)[_ROLE_AT] for each in contents[len(self._roles) :]])
        self._contents = contents
        return _in_turns(contents, self._roles)


def _in_turns(contents: list[Raw], roles: bytes) -> list[Raw]:
    if b"mm" in roles or b"uu" in roles:
        contents, roles = _joined(contents, roles)
    if not roles or roles[0] == _MODEL:
        contents = [_user(BEGIN), *contents]
    if roles and roles[-1] == _MODEL:
        contents = [*contents, _user(CONTINUE)]
    return contents


def _joined(contents: list[Raw], roles: bytes) -> tuple[list[Raw], bytes]:
    joined: list[Raw] = []
    kept = bytearray()
    for role, places in groupby(range(len(roles)), roles.__getitem__):
        same = [contents[place] for place in places]
        joined.append(same[0] if len(same) == 1 else _one(same, _PARTS_AT[role]))
        kept.append(role)
    return joined, bytes(kept)


def _one(same: list[Raw], start: int) -> Raw:
    """One content with the parts of all; each ends in `]}`."""
    views = [memoryview(each) for each in same]
    return Raw(b"".join((views[0][:start], b",".join(view[start:-2] for view in views), b"]}")))


def _user(text: str) -> Raw:
    return Raw(b'{"role":"user","parts":[{"text":"%b"}]}' % text.encode())
