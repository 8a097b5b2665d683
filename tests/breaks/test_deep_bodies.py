"""Answers nested deeper than any parser goes, and headers that hold no number: what is known of them is still said."""

from __future__ import annotations

import pytest

from tenuto import Agent
from tenuto.errors import ModelError, ModelHTTPError
from tenuto.models.http_errors import from_response
from tenuto.testing import Bytes, FakeProvider, HTTPError, Raw
from tests.agent.kit import run

DEEP = b"[" * 200_000
MODELS = [
    ("chat", "test/m"),
    ("responses", "openai/gpt-5"),
    ("anthropic", "anthropic/claude-sonnet-4-6"),
    ("google", "google/gemini-3-pro"),
]


def asked(provider, api, name):
    return Agent(id="a", model={"id": name, "url": provider.base_url, "api": api})


@pytest.mark.parametrize(("api", "name"), MODELS)
async def test_an_error_body_keeps_its_status(api, name):
    with FakeProvider([HTTPError(503, DEEP)]) as provider:
        ran = await run("stream", asked(provider, api, name))
    assert isinstance(ran.error, ModelHTTPError)
    assert (ran.error.status, ran.error.retryable) == (503, True)


@pytest.mark.parametrize("reply", [Raw([DEEP]), Bytes(DEEP, content_type="application/json")], ids=["event", "whole"])
@pytest.mark.parametrize(("api", "name"), MODELS)
async def test_an_answer_is_an_error_that_says_so(api, name, reply):
    with FakeProvider([reply]) as provider:
        ran = await run("stream", asked(provider, api, name))
    assert isinstance(ran.error, ModelError)
    assert ran.error.id in {"MODEL_EVENT_INVALID", "MODEL_RESPONSE_INVALID"}


def test_a_date_of_no_time_zone_there_is():
    headers = {
        "retry-after": "Fri, 31 Dec 2027 23:59:59 +99999999999999999999",
        "date": "Fri, 31 Dec 2027 23:59:58 GMT",
    }
    error = from_response("test", 429, headers, b"", ())
    assert (error.status, error.retry_after) == (429, None)
