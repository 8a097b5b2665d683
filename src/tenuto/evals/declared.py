"""The scorers of an agent or a call, as they are declared: which, for which runs, and for how many of them.

Invariant: what can be wrong with a declaration is found when it is given; whether a run is scored depends on the run
alone, so all scorers with one rate pick the same runs, in every process.

Source: sampling and filters of Mastra's live scorers.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, Required, TypedDict, cast

from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.core.option_keys import mapping, renamed, spellings
from tenuto.evals.predicate import Facts, check_filter, holds
from tenuto.evals.scorer import Scorer

_log = logging.getLogger("tenuto")


class SamplingDict(TypedDict, total=False):
    """For how many runs: `{"type": "none"}` (every one), or `{"type": "ratio", "rate": 0.1}` (a tenth of them).

    `rate` is from 0 (never) to 1 (always).
    """

    type: Required[Literal["none", "ratio"]]
    rate: float


class ScorerDict(TypedDict, total=False):
    """A scorer of an agent or a call.

    Attributes:
        scorer: The scorer, or the id of one that the app or the agent has.
        sampling: For how many runs; default: every one.
        filter: For which runs: a JSON predicate, see `docs/evals.md`.
    """

    scorer: Required[Scorer | str]
    sampling: SamplingDict
    filter: Mapping[str, Any]


Scorers = Mapping[str, ScorerDict | Scorer | str]
"""By a name of your choice; a scorer alone scores every run."""

_ENTRY = spellings(ScorerDict.__annotations__)
_SAMPLING = spellings(SamplingDict.__annotations__)
_FRACTION_BITS = 48


class Declared(Struct, frozen=True):
    """A scorer under a name.

    Attributes:
        rate: Share of the runs that it scores; None: all.
    """

    name: str
    scorer: Scorer | str
    rate: float | None = None
    filter: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The scorer's id."""
        return self.scorer if isinstance(self.scorer, str) else self.scorer.id

    def takes(self, key: str, facts: Facts) -> bool:
        """Whether it scores the run of `facts`; `key` is its trace id or run id."""
        if self.filter is not None:
            try:
                if not holds(self.filter, facts):
                    return False
            except TypeError as error:
                _log.warning("The filter of scorer %r cannot be applied, so it scores nothing: %s", self.name, error)
                return False
        return self.rate is None or fraction_of(key) < self.rate

    def to_dict(self) -> ScorerDict:
        """The declaration as it may be given."""
        given: ScorerDict = {"scorer": self.scorer}
        if self.rate is not None:
            given["sampling"] = {"type": "ratio", "rate": self.rate}
        if self.filter is not None:
            given["filter"] = self.filter
        return given

    def to_json(self) -> dict[str, Any]:
        """The same with the scorer's id in its place."""
        return {**self.to_dict(), "scorer": self.id}


def fraction_of(key: str) -> float:
    """Where a run falls between 0 and 1: the first 48 bits of the SHA-256 of its trace id or run id."""
    first = sha256(key.encode()).digest()[: _FRACTION_BITS // 8]
    return int.from_bytes(first, "big") / (1 << _FRACTION_BITS)


def read_scorers(given: object) -> tuple[Declared, ...]:
    """The scorers of `scorers=`.

    Raises:
        TypeError: It is no mapping of scorers, or there is an unknown key.
        ConfigurationError: A sampling or a filter that cannot work.
    """
    return tuple(_declared(name, entry) for name, entry in mapping(given, "scorers").items())


def _declared(name: str, given: object) -> Declared:
    if isinstance(given, (Scorer, str)):
        return Declared(name, given)
    if not isinstance(given, Mapping):
        message = f"scorers[{name!r}] takes a scorer, its id, or {{'scorer': ...}}, not {type(given).__name__}."
        raise TypeError(message)
    entry = renamed(cast("Mapping[str, Any]", given), _ENTRY, "key of a scorer")
    scorer, predicate = entry.get("scorer"), entry.get("filter")
    if not isinstance(scorer, (Scorer, str)):
        message = f"scorers[{name!r}]['scorer'] takes a scorer or its id, not {type(scorer).__name__}."
        raise TypeError(message)
    if predicate is not None:
        check_filter(predicate, name)
    return Declared(name, scorer, _rate(name, entry.get("sampling")), predicate)


def _rate(name: str, given: object) -> float | None:
    if given is None:
        return None
    sampling = renamed(mapping(given, "sampling"), _SAMPLING, "sampling key")
    kind, rate = sampling.get("type"), sampling.get("rate")
    if kind == "none":
        return None
    if kind != "ratio":
        message = f"The sampling type of scorer {name!r} is {kind!r}; it is 'none' (every run) or 'ratio'."
        raise ConfigurationError(message, id="SCORER_SAMPLING_INVALID")
    if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 <= rate <= 1:
        message = f"Scorer {name!r} samples by ratio with rate={rate!r}; give a rate from 0 to 1."
        raise ConfigurationError(message, id="SCORER_SAMPLING_INVALID")
    return float(rate)
