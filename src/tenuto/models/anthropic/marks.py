"""Prompt-cache markers: no request has more than the provider takes.

Invariant: what stands first is kept: tools and instructions, which every request shares; then the newest messages.

Source: Anthropic documentation, "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from tenuto.models.anthropic.trouble import Warnings, changed

MOST = 4
MARK = b'"cache_control":'
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Raws = Sequence[msgspec.Raw]


def fit_marks(tools: Raws, system: Raws, messages: Raws, warnings: Warnings, *, taken: int) -> tuple[Raws, Raws, Raws]:
    """The three lists with `MOST` markers at most; `taken` stand elsewhere in the request."""
    found = sum(bytes(raw).count(MARK) for raw in (*tools, *system, *messages))
    if found + taken <= MOST:
        return tools, system, messages
    budget = _Budget(MOST - taken)
    tools = [budget.spend(raw) for raw in tools]
    system = [budget.spend(raw) for raw in system]
    messages = [budget.spend(raw) for raw in reversed(messages)][::-1]
    if budget.dropped:
        warnings.append(changed(f"A request has {MOST} cache markers at most; {budget.dropped} were left out."))
    return tools, system, messages


class _Budget:
    def __init__(self, left: int) -> None:
        self._left = left
        self.dropped = 0

    def spend(self, raw: msgspec.Raw) -> msgspec.Raw:
        """The block or message without the markers that there is no place for."""
        if MARK not in bytes(raw):
            return raw
        value: dict[str, Any] = _decode(raw)
        blocks: list[dict[str, Any]] = value["content"] if isinstance(value.get("content"), list) else [value]
        before = self.dropped
        for block in reversed(blocks):
            if "cache_control" in block:
                if self._left > 0:
                    self._left -= 1
                else:
                    del block["cache_control"]
                    self.dropped += 1
        return raw if self.dropped == before else msgspec.Raw(_encode(value))
