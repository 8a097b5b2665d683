"""`RegexRule`: what a regular expression finds, and by which characters a stream knows that it may still be growing.

Invariant: a rule with `characters` matches nothing but those (or, if it goes on to the end of the text, begins with
nothing but those), so text that ends with another character cannot be the beginning of a match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from msgspec import Struct

from tenuto.core.errors import ConfigurationError


class RegexRule(Struct, frozen=True):
    """Something to find.

    Attributes:
        name: Of what it finds, such as `order-number`; what is told of a match is this name, never the match.
        pattern: A regular expression, compiled or as text.
        replacement: What is put in its place; default: the name, as `[ORDER_NUMBER]`.
        characters: A class of all characters a match is made of, such as `[A-Z0-9-]`. It lets a stream go on as soon as
            no match can be growing; without it a text part is held back until its end, for a match may have begun
            anywhere.
        length_of: Takes the text found and gives how much of its beginning counts; 0 = none.
        kept: Letters and digits at the end that a mask leaves as they are.
    """

    name: str
    pattern: str | re.Pattern[str]
    replacement: str | None = None
    characters: str | None = None
    length_of: Callable[[str], int] | None = None
    kept: int = 0

    @property
    def label(self) -> str:
        """What stands in its place by default."""
        return self.replacement if self.replacement is not None else f"[{self.name.upper().replace('-', '_')}]"

    @property
    def compiled(self) -> re.Pattern[str]:
        """The pattern."""
        return re.compile(self.pattern)  # that of a compiled one is itself, that of a text is remembered by `re`

    @property
    def outside(self) -> re.Pattern[str] | None:
        """Finds a character that no match has in it; None = there is none known."""
        if self.characters is None:
            return None
        inner = self.characters.removeprefix("[").removeprefix("^")
        return re.compile(f"[{inner}" if self.characters.startswith("[^") else f"[^{inner}")


def read_rule(given: object) -> RegexRule:
    """A rule, or a mapping of its fields, of which every one was checked.

    Raises:
        ConfigurationError: It is no rule, or its pattern is none.
    """
    if isinstance(given, Mapping):
        given = _from_fields(cast("Mapping[str, Any]", given))
    if not isinstance(given, RegexRule):
        message = f"{given!r:.120} is no rule. Give RegexRule(name, pattern), or a dict with these keys."
        raise ConfigurationError(message, id="PROCESSOR_RULE_INVALID")
    for what, pattern in (("pattern", given.pattern), ("characters", given.characters)):
        _check(given.name, what, pattern)
    return given


def _from_fields(fields: Mapping[str, Any]) -> RegexRule:
    known = RegexRule.__struct_fields__
    unknown = [name for name in fields if name not in known]
    if unknown or not {"name", "pattern"} <= set(fields):
        what = f"has the unknown key {unknown[0]!r}" if unknown else "has no name or no pattern"
        message = f"A rule {what}: {dict(fields)!r:.120}. Its keys: {', '.join(known)}."
        raise ConfigurationError(message, id="PROCESSOR_RULE_INVALID")
    return RegexRule(**fields)


def _check(name: str, what: str, pattern: str | re.Pattern[str] | None) -> None:
    if pattern is None:
        return
    if what == "characters" and not re.fullmatch(r"\[.+\]", str(pattern), re.DOTALL):
        message = f"The characters of rule {name!r} are no class: {pattern!r}. Write one like '[A-Za-z0-9-]'."
        raise ConfigurationError(message, id="PROCESSOR_RULE_INVALID")
    try:
        re.compile(pattern)
    except re.error as error:
        message = f"The {what} of rule {name!r} cannot be compiled: {error}."
        raise ConfigurationError(message, id="PROCESSOR_RULE_INVALID") from error
