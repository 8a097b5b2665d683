"""Tokens and money in words.

Invariant: a cost is shown only when it is known.
"""

from __future__ import annotations

import math

from tenuto.core.payloads import Usage


def tokens(usage: Usage) -> str:
    """Tokens, and what they cost where that is known: `188 tokens in (64 cached), 10 out, $0.00031`."""
    cached = f" ({usage.cached_input_tokens} cached)" if usage.cached_input_tokens else ""
    cost = "" if usage.cost is None else f", {dollars(usage.cost)}"
    return f"{usage.input_tokens} tokens in{cached}, {usage.output_tokens} out{cost}"


def dollars(amount: float) -> str:
    """An amount to the cent; below a dollar to three digits that say something."""
    if amount == 0:
        return "$0"
    places = 2 if amount >= 1 else 2 - math.floor(math.log10(amount))
    whole, _, rest = f"{amount:.{places}f}".partition(".")
    return f"${whole}.{rest.rstrip('0'):0<2}"
