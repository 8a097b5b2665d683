"""When another try is worth it, and after how long."""

from __future__ import annotations

import pytest

from tenuto.errors import ModelError, ModelTimeout
from tenuto.models.retries import retries_of, seconds_until_retry


def failure(**more):
    return ModelError("no", **({"retryable": True} | more))


@pytest.mark.parametrize(
    ("tries", "error", "seconds"),
    [
        (1, failure(), 1.0),
        (2, failure(), 2.0),
        (5, failure(), 16.0),
        (1, failure(retry_after=2.5), 2.5),
        (3, failure(retry_after=2.5), 4.0),
        (1, failure(retry_after=30.0), 30.0),
        (1, failure(retry_after=30.1), None),
        (1, failure(retry_after=86400.0), None),
        (7, failure(retry_after=0.0), 64.0),
        (1, failure(retryable=False), None),
        (1, failure(retryable=False, retry_after=1.0), None),
        (1, ModelTimeout("late"), None),
    ],
    ids=str,
)
def test_the_wait_before_a_retry(tries, error, seconds):
    assert seconds_until_retry(tries, error) == seconds


@pytest.mark.parametrize(
    ("entry", "agent", "settings", "retries"),
    [(None, None, None, 0), (None, None, 3, 3), (None, 2, 3, 2), (None, 0, 3, 0), (1, 2, 3, 1), (0, 2, 3, 0)],
)
def test_who_says_how_often(entry, agent, settings, retries):
    assert retries_of(entry, agent, settings) == retries
