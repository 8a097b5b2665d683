"""Options of a tool that cannot work, refused when the tool is made.

Invariant: what needs the hints resolved (is the first parameter the context?) waits for the schema; all else is
checked at construction. An option that would silently do nothing is refused too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from tenuto.core.errors import ConfigurationError
from tenuto.tools.parameters import Parameters
from tenuto.tools.ports import Effects

if TYPE_CHECKING:
    from tenuto.tools.tool import Tool

_MIN_RESULT_CHARS = 200
_ONLY_HERE = (
    "timeout",
    "reconcile",
    "suspend_schema",
    "resume_schema",
    "output_schema",
    "request_context_schema",
    "key",
)
_SCOPES = ("run", "thread", "resource")
_ON_UNKNOWN = ("error", "suspend")


def key_names(
    tool: str, key: Sequence[str] | None, fn: Callable[..., Any], signature: inspect.Signature
) -> tuple[str, ...] | None:
    """`key` as a tuple.

    Raises:
        ConfigurationError: It is no list of names, or names something that is no parameter, or one twice.
    """
    listed = listed_key(tool, key)
    if listed is None:
        return None
    bound = cast("partial[Any]", fn).keywords if isinstance(fn, partial) else {}
    known = [name for name in signature.parameters if name not in bound]
    for name in listed:
        if name not in known:
            raise ConfigurationError(
                f"Tool {tool!r}: key has {name!r}, which is no parameter of it; they are: {', '.join(known) or 'none'}."
            )
    return listed


def listed_key(tool: str, key: Sequence[str] | None) -> tuple[str, ...] | None:
    """`key` as a tuple, whatever its names mean.

    Raises:
        ConfigurationError: It is no list of names, or has one twice.
    """
    if key is None:
        return None
    if isinstance(key, str) or not isinstance(cast("object", key), Sequence):
        raise ConfigurationError(f"Tool {tool!r}: key={key!r} has to be a tuple of parameter names: key=({key!r},).")
    for at, name in enumerate(key):
        if name in key[:at]:
            raise ConfigurationError(f"Tool {tool!r}: key has {name!r} twice.")
    return tuple(key)


def check_key(tool: str, key: Sequence[str] | None, parameters: Parameters) -> None:
    """Refuse the context as part of a key, once it is known to be one.

    Raises:
        ConfigurationError: The key has it.
    """
    names = {argument.name for argument in parameters.arguments}
    for name in key or ():
        if name not in names:
            raise ConfigurationError(f"Tool {tool!r}: key has {name!r}, which is the context and no argument.")


def check_effects(tool: Tool[Any, ..., Any]) -> None:
    """Check what a tool says about its effects, and about who decides on them.

    Raises:
        ConfigurationError: A value is none of those it may have, or would do nothing.
    """
    _one_of(tool.id, "effects", tool.effects, get_args(Effects))
    _one_of(tool.id, "key_scope", tool.key_scope, _SCOPES)
    _one_of(tool.id, "on_unknown", tool.on_unknown, _ON_UNKNOWN)
    if tool.key_scope != "run" and tool.key is None:
        raise ConfigurationError(f"Tool {tool.id!r}: key_scope={tool.key_scope!r} does nothing without key=.")
    if tool.effects == "none":
        given = {"key": tool.key is not None, "reconcile": tool.reconcile, "on_unknown": tool.on_unknown != "error"}
        for option in (name for name, there in given.items() if there):
            raise ConfigurationError(
                f'Tool {tool.id!r}: {option}= is about an effect, and effects="none" says that it has none.'
            )
    if not isinstance(cast("object", tool.require_approval), bool) and not callable(tool.require_approval):
        raise ConfigurationError(
            f"Tool {tool.id!r}: require_approval={tool.require_approval!r} has to be True, False or a function."
        )
    if tool.reconcile is not None and not callable(cast("object", tool.reconcile)):
        raise ConfigurationError(f"Tool {tool.id!r}: reconcile={tool.reconcile!r} has to be a function.")


def check_elsewhere(tool: Tool[Any, ..., Any]) -> None:
    """Refuse what would do nothing for a tool whose calls are carried out elsewhere.

    Raises:
        ConfigurationError: Such an option is given.
    """
    given = [name for name in _ONLY_HERE if getattr(tool.settings, name) is not None]
    if tool.require_approval is not False:
        given.append("require_approval")
    if given:
        raise ConfigurationError(
            f"Tool {tool.id!r}: {', '.join(given)} would do nothing, for without execute= its calls are carried out "
            "elsewhere."
        )


def check_limits(tool: Tool[Any, ..., Any]) -> None:
    """Check the numbers.

    Raises:
        ConfigurationError: One is out of its range.
    """
    if tool.timeout is not None and not (tool.timeout > 0 and math.isfinite(tool.timeout)):
        raise ConfigurationError(f"Tool {tool.id!r}: timeout={tool.timeout!r} has to be a positive number of seconds.")
    if tool.max_result_chars < _MIN_RESULT_CHARS:
        raise ConfigurationError(
            f"Tool {tool.id!r}: max_result_chars={tool.max_result_chars!r} has to be at least {_MIN_RESULT_CHARS}."
        )


def _one_of(tool: str, option: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigurationError(f"Tool {tool!r}: {option}= takes {', '.join(map(repr, known))}, not {value!r}.")
