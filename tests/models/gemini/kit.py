"""How the tests of this room ask a Gemini model, and what they look at."""

from __future__ import annotations

import base64
from typing import Any

from tenuto.models.ports import LanguageModel, ModelRequest
from tenuto.testing.provider import FakeProvider, Raw, Reply
from tests.models.drive import model_of, request, run

SEAL = base64.b64encode(b"seal").decode()
LATER = base64.b64encode(b"later").decode()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n....").decode()


def gemini(fake: FakeProvider, name: str = "google/gemini-3-pro", **record: Any) -> LanguageModel:
    return model_of(fake, name, api="google", **record)


async def body_of(asked: ModelRequest, name: str = "google/gemini-3-pro", **fake: Any) -> dict[str, Any]:
    """The body that a request becomes, accepted by the strict provider and by the oracle."""
    async with FakeProvider(Reply("ok"), **fake) as provider:
        await run(gemini(provider, name), asked)
    return provider.requests[0].body


async def sent(*turns: Any, name: str = "google/gemini-3-pro", **options: Any) -> dict[str, Any]:
    return await body_of(request(*turns, **options), name)


async def warned(asked: ModelRequest, name: str = "google/gemini-3-pro") -> list[tuple[str, str]]:
    """What the request could not say, as (kind, of what)."""
    async with FakeProvider(Reply("ok")) as provider:
        parts: list[Any] = await run(gemini(provider, name), asked)
    return [(each["type"], each.get("setting") or each.get("tool")) for each in parts[0].warnings]


async def parts_of(*events: dict[str, Any] | str, **raw: Any) -> list[Any]:
    async with FakeProvider(Raw(events=events, **raw)) as provider:
        return await run(gemini(provider))
