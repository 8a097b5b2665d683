"""How one attempt of a tool call ended: the closed union that the tool step records.

Invariant: `Failed` means surely no effect; whatever may have taken effect without a result is `Unknown`. `text` is
bounded and made for the model: it has no traceback and no path of this machine.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from tenuto.core.errors import ToolError
from tenuto.core.payloads import Json


class ToolFailed(ToolError):
    """Raise it in a tool to say: nothing took effect. The model reads the message as it is, and may call again."""

    default_id: ClassVar[str] = "TOOL_FAILED"


class Ok(Struct, frozen=True):
    """The tool returned.

    Attributes:
        result: The whole value as JSON builtins.
        text: The bounded form for the model.
    """

    result: Json
    text: str


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


class Unknown(Struct, frozen=True):
    """The body ran and gave no result: it may have taken effect; `text` says so."""

    error: BaseException
    text: str


class Aborted(Struct, frozen=True):
    """The run was aborted: before the body (`error` is None), or while it ran and raised."""

    error: BaseException | None = None


Outcome = Ok | Failed | Unknown | Aborted
