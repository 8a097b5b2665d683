import copy
import inspect
import pickle

import pytest

from tenuto.core import errors as e

KINDS = [value for value in vars(e).values() if inspect.isclass(value) and issubclass(value, Exception)]

IDENTITY = {
    e.TenutoError: ("TENUTO_ERROR", "TENUTO", "SYSTEM"),
    e.ConfigurationError: ("CONFIGURATION_INVALID", "TENUTO", "USER"),
    e.RunError: ("RUN_FAILED", "RUN", "SYSTEM"),
    e.ToolError: ("TOOL_EXECUTION_FAILED", "TOOL", "SYSTEM"),
    e.OutputInvalid: ("STRUCTURED_OUTPUT_INVALID", "AGENT", "THIRD_PARTY"),
    e.StoreError: ("STORE_FAILED", "STORAGE", "SYSTEM"),
    e.StaleLease: ("STORE_STALE_LEASE", "STORAGE", "SYSTEM"),
    e.ModelError: ("AGENT_STREAM_ERROR", "LLM", "THIRD_PARTY"),
    e.ModelHTTPError: ("MODEL_HTTP_ERROR", "LLM", "THIRD_PARTY"),
    e.ModelTimeout: ("MODEL_TIMEOUT", "LLM", "THIRD_PARTY"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_own_identity_and_the_one_root(kind):
    error = kind("It broke.")
    assert isinstance(error, e.TenutoError)
    assert (error.id, error.domain, error.category) == IDENTITY[kind]
    assert (str(error), error.message, error.details, error.result) == ("It broke.", "It broke.", {}, None)
    assert error.error is error


def test_what_is_given_wins():
    given = {"n": 1}
    error = e.TenutoError("no", id="X", domain="LLM", category="USER", details=given)
    given["n"] = 2
    assert (error.id, error.domain, error.category, error.details) == ("X", "LLM", "USER", {"n": 1})


@pytest.mark.parametrize("kind", [e.ModelError, e.ModelHTTPError])
def test_a_model_error_says_what_the_provider_said(kind):
    error = kind(
        "no", provider="openai", code="c", type="t", status=429, retryable=True, request_id="q", retry_after=1.5
    )
    assert (error.provider, error.code, error.type, error.status) == ("openai", "c", "t", 429)
    assert (error.retryable, error.request_id, error.retry_after) == (True, "q", 1.5)


def test_a_wrapped_error_keeps_its_cause():
    cause = ValueError("bad")
    with pytest.raises(e.ToolError) as caught:
        raise e.ToolError("no") from cause
    assert caught.value.__cause__ is cause


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_that_crosses_a_process_is_the_same(kind, again):
    error = kind("no", id="X", details={"n": 1})
    error.result = "partial"
    other = again(error)
    assert type(other) is kind
    assert (str(other), vars(other)) == (str(error), vars(error))
