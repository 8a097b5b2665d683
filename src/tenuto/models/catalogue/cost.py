"""What a model call costs.

Invariant: None is "not known", never "free"; every token is counted at one rate. `Usage` holds cached and written
input within `input_tokens`, and reasoning within `output_tokens`, whatever the dialect: each dialect sees to that.

Source: the vendors' price pages; a cache entry of Anthropic's that lives an hour costs twice the input rate to write.
"""

from __future__ import annotations

from msgspec.structs import replace

from tenuto.core.payloads import Usage
from tenuto.models.catalogue.facts import ModelInfo, Rates

_MILLION = 1_000_000
_HOUR = 2.0
"""Writing a token to a cache for an hour, by the rate of input."""


def priced(usage: Usage, info: ModelInfo | None) -> Usage:
    """The usage of one call with its cost; as it is when the price or the number of tokens is not known."""
    if info is None or info.price is None or not (usage.input_tokens or usage.output_tokens):
        return usage
    rates = info.price.rates(usage.input_tokens)
    return replace(usage, cost=round((_input(usage, rates) + _output(usage, rates)) / _MILLION, 12))


def _input(usage: Usage, rates: Rates) -> float:
    read = usage.cached_input_tokens or 0
    written = usage.cache_creation_input_tokens or 0
    long = min(usage.cache_creation_input_tokens_1h or 0, written)
    plain = max(0, usage.input_tokens - read - written)
    return (
        plain * rates.input
        + read * _rate(rates.cached, rates.input)
        + (written - long) * _rate(rates.cache_write, rates.input)
        + long * (rates.input if rates.cache_write is None else _HOUR * rates.input)
    )


def _output(usage: Usage, rates: Rates) -> float:
    reasoning = min(usage.reasoning_tokens or 0, usage.output_tokens)
    plain = usage.output_tokens - reasoning
    return plain * rates.output + reasoning * _rate(rates.reasoning, rates.output)


def _rate(own: float | None, usual: float) -> float:
    return usual if own is None else own
