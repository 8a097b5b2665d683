"""What the catalogue says of a provider and of a model.

Invariant: public facts and no secret: names of variables, never their values. A field that is not known has its
default, and a default never claims more than the vendor does.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from tenuto.models.ports import StructuredSupport

Dialect = Literal["chat", "responses", "anthropic", "google"]
"""The wire formats: OpenAI's two, Anthropic's messages, Google's Gemini."""


TEXT = ("text",)
"""What nearly every model reads or writes; the one object, since only a default itself is left out of a line."""


class Quirks(Struct, frozen=True, kw_only=True):
    """How a provider's chat completions differ from the common form.

    Attributes:
        max_tokens: The name of the output limit.
        echo_reasoning: Reasoning must come back as `reasoning_content` on its assistant message.
        include_usage: Understands `stream_options: {"include_usage": true}`.
        short_ids: Call ids must be nine letters or digits.
        structured: How it takes a JSON Schema; see `models.ports.StructuredSupport`.
        image_urls: Fetches images from URLs itself.
    """

    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    echo_reasoning: bool = False
    include_usage: bool = True
    short_ids: bool = False
    structured: StructuredSupport = "native"
    image_urls: bool = True


class Provider(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One provider.

    Attributes:
        name: The part before the slash.
        label: As it writes itself.
        url: Base URL of its own dialect; may hold `${VARIABLE}`; None when it is reached in none of ours.
        dialect: What it speaks by itself; None when that is none of ours.
        chat_url: Base URL of its chat completions; None when it has none.
        keys: Variables that may hold its key, tried in order; none means that no key is needed.
        key_header: Header that carries the key, when it is not the dialect's usual one.
        docs: Where it describes its models.
        quirks: Of its chat completions; never in the snapshot.
    """

    name: str
    label: str = ""
    url: str | None = None
    dialect: Dialect | None = "chat"
    chat_url: str | None = None
    keys: tuple[str, ...] = ()
    key_header: str | None = None
    docs: str | None = None
    quirks: Quirks = Quirks()

    def url_of(self, dialect: Dialect) -> str | None:
        """The base URL at which it speaks `dialect`; None when it does not."""
        if dialect == self.dialect:
            return self.url
        return self.chat_url if dialect == "chat" else None


class Rates(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """US dollars for a million tokens.

    Attributes:
        cached: Of input read from the provider's cache; None: as other input.
        cache_write: Of input written to it; None: as other input.
        reasoning: Of output that is reasoning; None: as other output.
    """

    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None


class Tier(Rates, frozen=True, kw_only=True, omit_defaults=True):
    """The rates of a whole request whose input has more than `above` tokens."""

    above: int


class Price(Rates, frozen=True, kw_only=True, omit_defaults=True):
    """What a model's tokens cost; `tiers` by growing `above`."""

    tiers: tuple[Tier, ...] = ()

    def rates(self, input_tokens: int) -> Rates:
        """The rates of a request with so many input tokens."""
        reached = [tier for tier in self.tiers if input_tokens > tier.above]
        return reached[-1] if reached else self


class ModelInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model at one provider.

    A `LanguageModel` of your own may have an attribute `info` of this type: then its calls have a cost, and settings
    it does not take are left out.

    Attributes:
        id: The part after the slash.
        context: Tokens of input and output together, at most.
        max_output: Tokens of an answer, at most.
        price: None when it is not known.
        temperature: False when it is known to refuse `temperature`, `top_p` and `top_k`.
        reasoning: Whether it reasons before it answers.
        tools: Whether it can call tools.
        structured: Whether it keeps to a JSON schema; None when it is not known.
        input: What it reads: `text`, `image`, `pdf`, `audio`, `video`.
        output: What it writes.
        echo_reasoning: Its reasoning must be sent back; see `Quirks`.
        dialect: When it is not its provider's.
        url: Base URL, when it is not its provider's.
        deprecated: Its provider is about to switch it off.
    """

    id: str
    context: int | None = None
    max_output: int | None = None
    price: Price | None = None
    temperature: bool = True
    reasoning: bool = False
    tools: bool = True
    structured: bool | None = None
    input: tuple[str, ...] = TEXT
    output: tuple[str, ...] = TEXT
    echo_reasoning: bool = False
    dialect: Dialect | None = None
    url: str | None = None
    deprecated: bool = False
