"""`create_tool` and `provider_tool`: tools of a schema, tools that a client carries out, and tools of a provider.

Invariant: what they make is a `Tool` like any other; where its calls are carried out is all that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import TypeVar, Unpack

from tenuto.core.errors import ConfigurationError
from tenuto.models.ports import ProviderTool
from tenuto.tools.context import ToolContext
from tenuto.tools.fields import ToolFields
from tenuto.tools.options import check_elsewhere
from tenuto.tools.shape import DataSchema
from tenuto.tools.tool import Tool
from tenuto.tools.whole import ANYTHING, WholeInput

if TYPE_CHECKING:
    from pydantic import TypeAdapter

A = TypeVar("A")
D = TypeVar("D")
V = TypeVar("V")
R = TypeVar("R")


@overload
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: type[A] | TypeAdapter[A],
    execute: Callable[[A, ToolContext[D, V]], R],
    **fields: Unpack[ToolFields],
) -> Tool[D, [A, ToolContext[D, V]], R]: ...
@overload
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: type[A] | TypeAdapter[A],
    execute: Callable[[A], R],
    **fields: Unpack[ToolFields],
) -> Tool[object, [A], R]: ...
@overload
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: Mapping[str, Any] | UnionType | None = None,
    execute: Callable[[Any, ToolContext[D, V]], R],
    **fields: Unpack[ToolFields],
) -> Tool[D, [Any, ToolContext[D, V]], R]: ...
@overload
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: Mapping[str, Any] | UnionType | None = None,
    execute: Callable[[Any], R],
    **fields: Unpack[ToolFields],
) -> Tool[object, [Any], R]: ...
@overload
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: DataSchema | None = None,
    execute: None = None,
    **fields: Unpack[ToolFields],
) -> Tool[object, ..., Any]: ...
def create_tool(
    *,
    id: str,
    description: str = "",
    input_schema: DataSchema | None = None,
    execute: Callable[..., Any] | None = None,
    **fields: Unpack[ToolFields],
) -> Tool[Any, ..., Any]:
    """Make a tool whose input is one value of a schema; without `execute` it is a client tool.

    A call of a client tool ends the run after its step, with the finish reason `tool-calls` and the call unanswered;
    whoever called the agent carries it out and brings the result in a message of the next call.

    Args:
        id: The name the model uses; in a dict of tools the key is.
        description: What the model reads.
        input_schema: A type (Pydantic model, dataclass, TypedDict, ...), a `TypeAdapter`, or a JSON Schema as a dict;
            of an object. None takes no arguments.
        execute: Called as `execute(args, ctx)`, or as `execute(args)` if it takes one argument: `args` is a value of
            the type, or the dict itself for a JSON Schema. Sync functions run in a thread.
        **fields: As for `tool`.

    Raises:
        TypeError: An unknown keyword.
        ConfigurationError: The schema, the function or an option cannot work as a tool.
    """
    made: Tool[Any, ..., Any] = Tool(
        execute, id=id, description=description, whole=WholeInput(id, input_schema, execute), **fields
    )
    if execute is None:
        check_elsewhere(made)
    return made


def provider_tool(
    id: str,
    *,
    name: str | None = None,
    args: Mapping[str, Any] | None = None,
    execute: Callable[..., Any] | None = None,
    **fields: Unpack[ToolFields],
) -> Tool[Any, ..., Any]:
    """A tool that a provider defines, to stand among `tools=`: `provider_tool("openai.web_search")`.

    Most run at the provider: the stream then has their calls and results with `provider_executed`, and no hook or
    approval of ours applies. A model of another provider is not offered it; the step's warnings say so.

    Args:
        id: `provider.type`, such as `openai.web_search` or `anthropic.web_search_20250305`.
        name: The name it goes by here; default: the type without a date at its end.
        args: The provider's own settings of the tool, in the provider's names.
        execute: For a tool that the provider defines and does not run (a shell, a computer): called like that of
            `create_tool`, with the arguments as a dict. Without it, such a call is answered by the client.
        **fields: As for `tool`.

    Raises:
        ConfigurationError: `id` is not of that form.
    """
    provider, _, kind = id.partition(".")
    if not provider or not kind:
        raise ConfigurationError(f"provider_tool({id!r}): the id is 'provider.type', such as 'openai.web_search'.")
    chosen = name or kind.rstrip("0123456789").rstrip("_") or kind
    defined = ProviderTool(id, chosen, dict(args or {}))
    whole = WholeInput(chosen, ANYTHING, execute)
    made: Tool[Any, ..., Any] = Tool(execute, id=chosen, description="", whole=whole, provider=defined, **fields)
    if execute is None:
        check_elsewhere(made)
    return made
