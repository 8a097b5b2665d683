"""What a model takes, read from its name: limits, ways of thinking, settings it refuses.

Invariant: a Claude whose name is new has the traits of the newest family; a model that is no Claude is never refused
anything, for its vendor knows better.

Source: Anthropic documentation: models overview, "Thinking", "Effort", "Structured outputs", migration guides to 4.6,
4.7, 5 and 5.5.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

EFFORTS = ("low", "medium", "high", "xhigh", "max")
_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")


class Traits(Struct, frozen=True, kw_only=True):
    """How a model differs from another.

    Attributes:
        claude: Its rules are known; else nothing is refused on its behalf.
        max_output: Tokens of an answer, at most.
        sampling: `one`: not both temperature and top_p; `none`: no temperature, top_p or top_k at all.
        thinking: `budget`: with a number of tokens; `adaptive`: by itself; `both`; `none`.
        off: How thinking is switched off.
        thinks: It thinks unless told otherwise.
        efforts: The levels of effort it knows.
        forced: A tool can be forced.
        structured: It can be held to a JSON schema, and tools can be strict.
        prefill: The last message may be the model's own, to be gone on with.
    """

    claude: bool = True
    max_output: int = 128_000
    sampling: Literal["free", "one", "none"] = "none"
    thinking: Literal["none", "budget", "both", "adaptive"] = "adaptive"
    off: Literal["disabled", "between_tools", "never"] = "disabled"
    thinks: bool = True
    efforts: tuple[str, ...] = EFFORTS
    forced: bool = True
    structured: bool = True
    prefill: bool = False


_OTHER = Traits(
    claude=False, max_output=4096, sampling="free", thinking="budget", thinks=False, efforts=EFFORTS, structured=False,
    prefill=True,
)  # fmt: skip
_LEGACY = Traits(
    max_output=4096, sampling="free", thinking="none", thinks=False, efforts=(), structured=False, prefill=True
)


@lru_cache(maxsize=256)
def traits_of(model_id: str) -> Traits:
    """The traits of a model."""
    name = model_id.lower()
    if "claude" not in name:
        return _OTHER
    found = _NAME.search(name)
    if found is None:
        return _LEGACY if re.search(r"claude-(v\d|instant)", name) else Traits(forced=False, off="never")
    version = (int(found[2]), int(found[3] or 0))
    family = found[1] or found[4] or ""
    return Traits(
        max_output=_max_output(family, version),
        sampling=_sampling(family, version),
        thinking=_thinking(version),
        off=_off(family, version),
        thinks=version >= (5, 0),
        efforts=_efforts(family, version),
        forced=not _refuses_force(family, version),
        structured=version >= (4, 1),
        prefill=version < (4, 6),
    )


def _max_output(family: str, version: tuple[int, int]) -> int:
    if version < (3, 7):
        return 8192 if version >= (3, 5) else 4096
    if version < (4, 2) and family == "opus":
        return 32_000
    return 128_000 if version >= (4, 7) or (version == (4, 6) and family == "opus") else 64_000


def _sampling(family: str, version: tuple[int, int]) -> Literal["free", "one", "none"]:
    if version >= (5, 0) or (family == "opus" and version >= (4, 7)):
        return "none"
    return "one" if version >= (4, 1) else "free"


def _thinking(version: tuple[int, int]) -> Literal["none", "budget", "both", "adaptive"]:
    if version < (3, 7):
        return "none"
    if version < (4, 6):
        return "budget"
    return "both" if version == (4, 6) else "adaptive"


def _off(family: str, version: tuple[int, int]) -> Literal["disabled", "between_tools", "never"]:
    if family in {"fable", "mythos"} or (family == "opus" and version >= (5, 5)):
        return "never"
    return "between_tools" if family == "sonnet" and version >= (5, 5) else "disabled"


def _efforts(family: str, version: tuple[int, int]) -> tuple[str, ...]:
    if version >= (4, 7):
        return EFFORTS
    if version == (4, 6):
        return ("low", "medium", "high", "max")
    return ("low", "medium", "high") if version == (4, 5) and family == "opus" else ()


def _refuses_force(family: str, version: tuple[int, int]) -> bool:
    if family in {"fable", "mythos"}:
        return version >= (5, 1)
    return family in {"opus", "sonnet"} and version >= (5, 5)
