"""Where a model is, and how one gets in.

Invariant: a key is read when a call is made, goes into the headers and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from msgspec import Struct

from tenuto.core.credentials import shown_url
from tenuto.core.errors import ModelError
from tenuto.models.catalogue import ModelInfo
from tenuto.models.transport import IDLE_TIMEOUT

USER_AGENT = "tenuto"


class Endpoint(Struct, frozen=True, kw_only=True):
    """Where a model is and how one gets in.

    Attributes:
        url: The base URL; the format's path is appended.
        api_key: Given by the caller; else the first of `key_variables` that is set, read at each call.
        key_variables: When not empty and there is no key, a call fails before any request.
        key_header: Carries the key, when it is not the format's usual one.
        idle_timeout: Seconds without a byte until a call fails.
        info: What the catalogue knows of the model at this place.
    """

    url: str
    api_key: str | None = None
    key_variables: tuple[str, ...] = ()
    key_header: str | None = None
    headers: Mapping[str, str] = {}
    idle_timeout: float = IDLE_TIMEOUT
    info: ModelInfo | None = None

    def __repr__(self) -> str:
        """The URL alone: keys and headers stay out of logs."""
        return f"Endpoint({shown_url(self.url)!r})"

    def key(self, provider: str, model_id: str) -> str | None:
        """The key for a call of this model; None when it needs none.

        Raises:
            ModelError: `MODEL_API_KEY_MISSING`: it needs one, and no variable has it.
        """
        if self.api_key is not None:
            return self.api_key.strip()
        found = (os.environ.get(name, "").strip() for name in self.key_variables)
        key = next((value for value in found if value), None)
        if key is None and self.key_variables:
            names = " or ".join(self.key_variables)
            raise ModelError(
                f"There is no API key for {provider}/{model_id}. Set {names}, or pass api_key in a model record.",
                id="MODEL_API_KEY_MISSING",
                provider=provider,
                category="USER",
                details={"model": f"{provider}/{model_id}", "variables": names},
            )
        return key

    def key_headers(self, key: str) -> Mapping[str, str] | None:
        """The header that carries the key; None: the usual one of the format."""
        name = self.key_header
        return None if name is None else {name: f"Bearer {key}" if name.endswith("authorization") else key}
