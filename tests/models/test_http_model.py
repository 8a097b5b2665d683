"""What one call of an HTTP model must not know of another."""

from __future__ import annotations

import pytest

from tenuto.core.errors import ModelError
from tenuto.models.ports import ModelSettings
from tenuto.testing.provider import FakeProvider, HTTPError
from tests.models.drive import model_of, request, run


async def test_an_error_hides_the_credentials_of_its_own_call():
    def echo(asked):
        return HTTPError(400, {"error": {"message": f"no {asked.headers.get('x-token', 'token')}"}})

    async with FakeProvider(echo) as provider:
        model = model_of(provider, api_key="sk-first-key")
        said = []
        for token in ("first-token", "first-token", "other-token"):
            with pytest.raises(ModelError) as caught:
                await run(model, request(settings=ModelSettings(headers={"X-Token": token})))
            said.append(str(caught.value))
    assert all("[secret]" in each and "token" not in each for each in said)
