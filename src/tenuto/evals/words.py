"""Texts as sets of words and pairs of characters: what scorers without a model compare.

Invariant: two texts that Unicode holds for the same (NFKC, without regard to case) are the same here; writing without
spaces between words is cut into pairs of characters, so that it has more than one "word".
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

_INSIDE = "'\u2019.-"
_LETTER = r"[\w\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0eff\u1780-\u17ff]"
_WORD = re.compile(rf"{_LETTER}+(?:[{_INSIDE}]{_LETTER}+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1780-\u17ff]+")
_POSSESSIVE = re.compile("['\u2019]s$")
_SPACES = re.compile(r"\s+")

_FUNCTION_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both
    but by can could did do does doing don't down during each else ever every few for from further get give had
    has have having he her here hers him his how i if in into is isn't it it's its itself just let like may me
    might more most must my no nor not now of off on once only or other our ours out over own please same shall
    she should so some such tell than that that's the their theirs them then there there's these they this those
    through to too under until up upon us very was we were what what's when where which while who whom why will
    with would yes you your yours
    """.split()  # noqa: SIM905 - a text is easier to read than a list of strings
)
"""English words that say little by themselves."""


_ENDINGS = (("ingly", 4), ("edly", 4), ("ing", 4), ("ies", 3), ("ied", 3), ("es", 4), ("ed", 4), ("s", 3))
"""Each with the letters that must be left before it."""


def normal(text: str) -> str:
    """`text` without differences that do not count."""
    return unicodedata.normalize("NFKC", text).casefold()


def words(text: str) -> list[str]:
    """The words of `text` in order; of writing without spaces, its pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(normal(text)):
        rest = _UNSPACED.sub(" ", word).split()
        found += [_POSSESSIVE.sub("", piece).strip(_INSIDE) for piece in rest]
        for run in _UNSPACED.findall(word):
            found += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
    return [word for word in found if word]


def keywords(text: str) -> list[str]:
    """The different words of `text` that say something, in order."""
    return list(dict.fromkeys(word for word in words(text) if word not in _FUNCTION_WORDS))


def stem(word: str) -> str:
    """`word` without the commonest English endings: enough to hold `refunds` and `refunded` for the same."""
    for ending, least in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= least and not word.endswith("ss"):
            kept = word[: -len(ending)]
            return kept + "y" if ending in {"ies", "ied"} else kept.removesuffix("e")
    return word.removesuffix("e") if len(word) > 4 else word


def dice(one: str, other: str) -> float:
    """How alike two texts are, from 0 to 1: twice the shared pairs of characters over all pairs, as multisets.

    Source: the coefficient of Dice (1945) and Sørensen (1948) on character bigrams.
    """
    if one == other:
        return 1.0
    a, b = _pairs(one), _pairs(other)
    total = a.total() + b.total()
    return 0.0 if not total else 2 * (a & b).total() / total


def squeezed(text: str) -> str:
    """`text` without white space."""
    return _SPACES.sub("", text)


def listed(items: Iterable[str], limit: int = 10) -> str:
    """`items` for a reason; at most `limit` of them by name."""
    given = list(items)
    more = f" and {len(given) - limit} more" if len(given) > limit else ""
    return ", ".join(given[:limit]) + more


def _pairs(text: str) -> Counter[str]:
    return Counter(text[at : at + 2] for at in range(len(text) - 1))
