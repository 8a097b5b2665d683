"""What a model file can do, and how it wants to be spoken to.

Invariant: a known model has a profile by hand, because its template does not tell what it is able to do; any other
file gets one from its own chat template.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from tenuto.models.local.gguf import chat_template


class Profile(Struct, frozen=True):
    """The capability flags of one model.

    Attributes:
        template: `chatml` is rendered here; `own` by the engine, with the template inside the file.
        tool_prompt: How tools are listed in the system turn: the wording the model was trained on.
        calls_tools: It decides by itself to call a tool. Without it a call has to be forced.
        folds_results: It answers best when the results of its calls stand as text before the question, without tools
            and without the calls; such a model is asked to call again only by the next user turn.
    """

    template: Literal["chatml", "own"] = "chatml"
    tool_prompt: Literal["smollm2", "hermes"] = "hermes"
    calls_tools: bool = True
    folds_results: bool = False


PROFILES: dict[str, Profile] = {
    # Measured over 20 questions that need a tool and 20 that do not: 0 calls of its own; forced, 14 of 20 are right.
    "smollm2": Profile(tool_prompt="smollm2", calls_tools=False, folds_results=True),
}


def profile_of(path: Path) -> Profile:
    """The profile a file's own chat template stands for.

    Raises:
        ConfigurationError: The file is not a GGUF file.
    """
    template = chat_template(path)
    return Profile(
        template="chatml" if template is None or "<|im_start|>" in template else "own",
        calls_tools=template is not None and "tool" in template,
        folds_results=template is None or "tool" not in template,
    )
