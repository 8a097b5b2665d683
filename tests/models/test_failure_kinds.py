"""The table of failures: what is more particular stands higher, and a plain failure has no kind."""

from __future__ import annotations

import pytest

from tenuto.models.failure_kinds import KINDS, kind_of
from tenuto.models.http_errors import ProviderError, from_response, in_band

SAID = [
    (429, "insufficient_quota", "insufficient_quota", "You exceeded your quota.", "MODEL_QUOTA_EXHAUSTED"),
    (429, None, "RESOURCE_EXHAUSTED", "You exceeded your current quota.", "MODEL_RATE_LIMITED"),
    (402, None, None, "Pay first.", "MODEL_QUOTA_EXHAUSTED"),
    (429, "rate_limit_exceeded", "tokens", "Request too large for the context window.", "MODEL_RATE_LIMITED"),
    (400, "context_length_exceeded", "invalid_request_error", "Too long.", "MODEL_CONTEXT_EXCEEDED"),
    (400, None, "exceed_context_size_error", "Too long.", "MODEL_CONTEXT_EXCEEDED"),
    (413, None, "request_too_large", "Request exceeds the maximum size.", "MODEL_CONTEXT_EXCEEDED"),
    (400, None, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", "MODEL_AUTHENTICATION_FAILED"),
    (401, None, None, "no", "MODEL_AUTHENTICATION_FAILED"),
    (403, None, "PERMISSION_DENIED", "no", "MODEL_AUTHENTICATION_FAILED"),
    (404, "model_not_found", None, "no", "MODEL_NOT_FOUND"),
    (422, None, None, "Input should match the schema", "MODEL_SCHEMA_REFUSED"),
    (500, None, None, "The schema service is down.", None),
    (400, None, "invalid_request_error", "Unknown parameter: 'zip'.", None),
    (529, None, None, "no", "MODEL_OVERLOADED"),
    (None, "server_is_overloaded", None, "no", "MODEL_OVERLOADED"),
    (None, None, None, "Something broke.", None),
]


@pytest.mark.parametrize(("status", "code", "kind", "message", "expected"), SAID)
def test_a_line_of_the_table(status, code, kind, message, expected):
    found = kind_of(status, code, kind, message)
    assert (None if found is None else found.id) == expected


def test_every_kind_is_in_the_cases_or_on_the_page():
    assert {kind.id for kind in KINDS} - {each[-1] for each in SAID} == {"MODEL_CONTENT_FILTERED"}


def test_a_plain_failure_keeps_the_general_id_and_the_message():
    http = from_response("test", 418, {}, b'{"error": {"message": "teapot"}}')
    assert (http.id, str(http)) == ("MODEL_HTTP_ERROR", "test answered 418: teapot")
    assert in_band("test", ProviderError("broke")).id == "AGENT_STREAM_ERROR"


def test_the_remedy_follows_a_whole_sentence():
    http = from_response("test", 404, {}, b'{"error": {"message": "No such model"}}')
    assert "No such model. Check the model's name" in str(http)
    assert "No such model! Check" in str(in_band("test", ProviderError("No such model!", code="404")))
