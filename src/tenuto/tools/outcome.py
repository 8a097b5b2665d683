"""How one attempt of a tool call ended: the closed union that the tool step records.

Invariant: `Failed` means surely no effect; whatever may have taken effect without a result is
`UnknownOutcome`. `text` is bounded and made for the model: it has no traceback and no path of this machine.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json

FIND_OUT = "The tool may have taken effect all the same; find out before you call it again."
"""The last line of every text about an unknown outcome."""


class ToolFailed(ToolError):
    """Raise it in a tool to say: nothing took effect. The model reads the message as it is, and may call again."""

    default_id: ClassVar[str] = "TOOL_FAILED"


class Ok(Struct, frozen=True):
    """The tool returned.

    Attributes:
        result: The whole value as JSON builtins.
        text: The bounded form for the model.
        told: What `to_model_output` made of it, as it is stored; None when the model is told the result itself.
    """

    result: Json
    text: str
    told: Json = None


class Failed(Struct, frozen=True):
    """Surely no effect: refused before the body, `ToolFailed`, or any error of a tool with `effects="none"`.

    Attributes:
        error: For the developer, with its chain.
        text: For the model.
        result: Set when arguments were refused: a `tool-result` with this value, not a `tool-error`.
    """

    error: BaseException
    text: str
    result: Json = None


class UnknownOutcome(Struct, frozen=True):
    """The body ran and gave no result: it may have taken effect; `text` says so.

    Attributes:
        error: For the developer.
        text: For the model.
        result: Set when what the body returned was refused: a `tool-result` with this value, not a `tool-error`.
    """

    error: BaseException
    text: str
    result: Json = None


class Aborted(Struct, frozen=True):
    """The run was aborted: before the body (`error` is None), or while it ran and raised."""

    error: BaseException | None = None


class Suspended(Struct, frozen=True):
    """The body called `suspend`: the call waits for data, and its body is entered again with them.

    Attributes:
        payload: What the body said it waits for, as JSON.
        resume_schema: The JSON Schema of the data it waits for; None: anything.
    """

    payload: Json = None
    resume_schema: Json = None


Outcome = Ok | Failed | UnknownOutcome | Aborted | Suspended
