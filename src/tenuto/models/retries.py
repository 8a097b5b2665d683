"""When a model call that could not be opened is worth another try, and after how long.

Invariant: never sooner than the provider asked; where it asks for more than `LONGEST_WAIT` there is no other try.
"""

from __future__ import annotations

from tenuto.core.errors import ModelError, ModelTimeout

FIRST_WAIT = 1.0
"""Seconds before the first retry; each further one waits twice as long."""

LONGEST_WAIT = 30.0
"""Seconds a provider may ask to wait (`Retry-After`); who wants more would only be asked too early."""


def retries_of(entry: int | None, agent: int | None, settings: int | None) -> int:
    """How often a call is retried: what the entry of the list says, else the agent, else the settings, else never."""
    return next((each for each in (entry, agent, settings) if each is not None), 0)


def seconds_until_retry(tries: int, error: ModelError) -> float | None:
    """The wait after `tries` failed tries, of which `error` ended the last; None: another one is not worth it."""
    told = error.retry_after or 0.0
    if not error.retryable or isinstance(error, ModelTimeout) or told > LONGEST_WAIT:
        return None
    return max(FIRST_WAIT * 2 ** (tries - 1), told)
