"""Which models think before they answer, told by their names.

Invariant: only names that are known say yes or no; any other model gets what the caller asked for, unchanged.

Source: OpenAI model pages and reasoning guide ("limitations"); xAI documentation, "Reasoning".
"""

from __future__ import annotations

import re

_THINKS = re.compile(r"(?:o[1-9]|gpt-(?:[5-9]|\d\d)|codex|computer-use)(?![a-z])")
_THINKS_NOT = re.compile(r"gpt-(?:3|4)|chatgpt-|gpt-\d+-chat")
_SAMPLES_WITHOUT_THINKING = re.compile(r"gpt-5\.\d")
_ENCRYPTS = re.compile(r"grok-(?:3-mini|code|[4-9])")


def reasons(model_id: str) -> bool | None:
    """Whether the model is one of OpenAI's reasoning models; None when its name says nothing."""
    name = _bare(model_id)
    if _THINKS_NOT.match(name):
        return False
    return True if _THINKS.match(name) else None


def takes_sampling(model_id: str, effort: object) -> bool:
    """Whether a reasoning model takes temperature and the like: some do while they do not think."""
    return effort == "none" and _SAMPLES_WITHOUT_THINKING.match(_bare(model_id)) is not None


def encrypts(model_id: str) -> bool:
    """Whether a model that is not OpenAI's gives its reasoning out encrypted when it is asked to."""
    name = _bare(model_id)
    return _ENCRYPTS.match(name) is not None and "non-reasoning" not in name


def _bare(model_id: str) -> str:
    """The name without a gateway's prefix (`openai/gpt-5`) and that of a fine-tuned model (`ft:gpt-4.1:...`)."""
    return model_id.rpartition("/")[2].removeprefix("ft:")
