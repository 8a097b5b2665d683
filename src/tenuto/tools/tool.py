"""`@tool`: a function with hints becomes something a model can call, and stays a function.

Invariant: nothing changes a tool after it was made; calling it calls the function and nothing else; what the model may
send is derived from the hints once, when it is first needed.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, cast, overload

from msgspec.structs import replace
from typing_extensions import TypeVar, Unpack

from tenuto.core.errors import ConfigurationError
from tenuto.models.ports import ProviderTool, ToolSpec
from tenuto.tools.callables import body_of, is_async
from tenuto.tools.context import ToolContext
from tenuto.tools.docstring import Docstring, parse_docstring
from tenuto.tools.fields import ArgumentPolicy, KeyScope, OnUnknown, Reconcile, ToolFields, ToolSettings
from tenuto.tools.options import check_effects, check_key, check_limits, key_names, listed_key
from tenuto.tools.parameters import local_names, read_parameters, signature_of
from tenuto.tools.ports import Effects
from tenuto.tools.schema import InputSchema, build_schema
from tenuto.tools.shape import DataSchema, Shape, shape_of
from tenuto.tools.transform import Target, Transform, read_tool_transform
from tenuto.tools.whole import ANYTHING, WholeInput, check_whole_key

D = TypeVar("D")
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")
D_contra = TypeVar("D_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Tool(Generic[D_contra, P, R_co]):
    """Something a model can call; made by `@tool`, `create_tool` or `provider_tool`.

    Calling it directly calls the function with its own signature: `await` it when the function is async.

    Attributes:
        fn: The function; None for a tool that is carried out elsewhere (a client tool, a provider's own).
        id: Its name in a list of tools; in a dict of tools the key is the model's name.
        description: What the model reads.
        settings: What else was given.
        effects: What a repetition would do; see `tool`.
        key: The parameters that tell one effect from another, else None; see `tool`.
        key_scope: Within what the key is unique.
        require_approval: Whether a person has to approve a call, or the function that says so.
        reconcile: Finds out what became of a call with an unknown outcome, else None.
        on_unknown: What happens when that cannot be found out.
        suspend_schema: What `ctx.suspend` takes, else None.
        resume_schema: What a suspended call is resumed with, else None.
        output_shape: `output_schema` at work; the other shapes alike.
        timeout: Seconds the body may take, else None.
        strict: Whether the model's arguments are generated under its schema, where the provider can.
        title: For user interfaces; never sent to the model.
        transforms: `transform` at work.
        max_result_chars: The longest text of a result that the model is given.
        is_async: Whether the function is a coroutine function; any other runs in a thread.
        provider: The provider's own tool that this is, else None.
    """

    def __init__(
        self,
        fn: Callable[P, R_co] | None,
        *,
        id: str | None = None,
        description: str | None = None,
        whole: WholeInput | None = None,
        provider: ProviderTool | None = None,
        **fields: Unpack[ToolFields],
    ) -> None:
        if fn is not None:
            functools.update_wrapper(self, fn, ("__module__", "__name__", "__qualname__", "__doc__"), ())
        self.settings: ToolSettings = _settings(fields, whole=whole is not None)
        given = self.settings
        self.fn: Callable[P, R_co] | None = fn
        self.id: str = id or _name_of(fn)
        self.provider: ProviderTool | None = provider
        self.effects: Effects = given.effects
        self.key_scope: KeyScope = given.key_scope
        self.require_approval: bool | ArgumentPolicy = given.require_approval
        self.reconcile: Reconcile | None = given.reconcile
        self.on_unknown: OnUnknown = given.on_unknown
        self.suspend_schema: DataSchema | None = given.suspend_schema
        self.resume_schema: DataSchema | None = given.resume_schema
        self.timeout: float | None = given.timeout
        self.strict: bool | None = given.strict
        self.title: str | None = given.title
        self.max_result_chars: int = given.max_result_chars
        self.is_async: bool = fn is not None and is_async(fn)
        self._doc = _docstring_of(fn if whole is None else None)
        self.description: str = self._doc.text if description is None else inspect.cleandoc(description)
        owner = f"Tool {self.id!r}"
        self.output_shape: Shape | None = shape_of(f"{owner}: output_schema", given.output_schema)
        self.suspend_shape: Shape | None = shape_of(f"{owner}: suspend_schema", given.suspend_schema)
        self.resume_shape: Shape | None = shape_of(f"{owner}: resume_schema", given.resume_schema)
        self.request_shape: Shape | None = shape_of(f"{owner}: request_context_schema", given.request_context_schema)
        self.transforms: Mapping[Target, Mapping[str, Transform]] = read_tool_transform(self.id, given.transform)
        self._whole = whole
        self._schema: InputSchema | None = None
        self._lock = threading.Lock()
        self.key: tuple[str, ...] | None = self._read_signature(given.key)
        check_effects(self)
        check_limits(self)

    def _read_signature(self, key: Sequence[str] | None) -> tuple[str, ...] | None:
        """Look at the function now, while the names around it are there; its hints are resolved when needed."""
        if self._whole is not None or self.fn is None:
            return listed_key(self.id, key)
        self._signature = signature_of(self.fn, self.id)
        self._names = local_names(self.fn)
        return key_names(self.id, key, self.fn, self._signature)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself: no validation, no timeout, no thread.

        Raises:
            TypeError: It has none.
        """
        if self.fn is None:
            message = f"Tool {self.id!r} has no function here: its calls are answered by the client or the provider."
            raise TypeError(message)
        return self.fn(*args, **kwargs)

    @property
    def name(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def schema(self) -> InputSchema:
        """The JSON Schema of the arguments and their validator; built at the first use, in any thread.

        Raises:
            ConfigurationError: A hint cannot be resolved or has no JSON Schema; the message names the parameter.
        """
        if self._schema is None:
            with self._lock:
                if self._schema is None:
                    self._schema = self._whole_schema() if self._whole is not None else self._hinted_schema()
        return self._schema

    def _whole_schema(self) -> InputSchema:
        whole = cast("WholeInput", self._whole)
        if self.provider is None:
            check_whole_key(self.id, self.key, whole.json_schema)
        return whole

    def _hinted_schema(self) -> InputSchema:
        parameters = read_parameters(cast("Any", self.fn), self._signature, self._names, self.id)
        check_key(self.id, self.key, parameters)
        schema = build_schema(self.id, parameters, self._doc.parameters)
        self._names = dict[str, Any]()
        return schema

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, an object; do not change it."""
        return self.schema.json_schema

    def spec(self, name: str | None = None) -> ToolSpec:
        """The tool as a model sees it, under `name` or its id."""
        return ToolSpec(name or self.id, self.description, self.parameters, self.strict, self.settings.provider_options)

    def provider_spec(self, name: str | None = None) -> ProviderTool | None:
        """The provider's own tool that this is, under `name` or its id; None for any other tool."""
        return None if self.provider is None else replace(self.provider, name=name or self.id)

    def for_client(self) -> Tool[Any, ..., Any]:
        """The same tool without its function: the client carries its calls out.

        A provider's own tool stays as it is.
        """
        if self.fn is None or self.provider is not None:
            return cast("Tool[Any, ..., Any]", self)
        schema = self.schema  # while it still has the function it is made from
        return self._copied(_schema=schema, fn=None, is_async=False)

    def with_results_of(self, other: Tool[Any, ..., Any]) -> Tool[Any, ..., Any]:
        """The same tool with what `other` does with results, where it does nothing itself."""
        mine, theirs = self.settings, other.settings
        names = ("to_model_output", "on_output", "transform")
        found = {name: getattr(theirs, name) for name in names if getattr(mine, name) is None}
        transforms = self.transforms if mine.transform is not None else other.transforms
        return self._copied(settings=replace(mine, **found), transforms=transforms)

    def _copied(self, **changes: Any) -> Tool[Any, ..., Any]:
        copy = cast("Tool[Any, ..., Any]", object.__new__(type(self)))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def __repr__(self) -> str:
        return f"Tool({self.id!r})"


class PlainFunction(Protocol):
    """A function or a bound method. A `Tool` is none (it has no `__name__` to a type checker), so its types count."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        ...


AnyTool = Tool[D, ..., Any] | ProviderTool | PlainFunction | partial[Any]
"""What can stand in a list of tools of an agent with dependencies `D`."""

Tools = Sequence[AnyTool[D]] | Mapping[str, AnyTool[D]]
"""The option `tools=`: a list (names from the functions) or a dict (its keys are the names)."""


class ToolDecorator(Protocol):
    """What `tool(...)` with options returns."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[ToolContext[D, V], P], R], /
    ) -> Tool[D, Concatenate[ToolContext[D, V], P], R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Tool[object, P, R]: ...


@overload
def tool(fn: Callable[Concatenate[ToolContext[D, V], P], R], /) -> Tool[D, Concatenate[ToolContext[D, V], P], R]: ...
@overload
def tool(fn: Callable[P, R], /) -> Tool[object, P, R]: ...
@overload
def tool(
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    **fields: Unpack[ToolFields],
) -> ToolDecorator: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    **fields: Unpack[ToolFields],
) -> Any:
    """Make a tool of a function, bare (`@tool`) or with options (`@tool(timeout=30)`).

    The schema comes from the hints, the texts from the docstring (its part before `Args:` describes the tool). A
    first parameter annotated `ToolContext[...]` gets the context and is not shown to the model. A function that is
    not async runs in a thread of its own, with the context variables of the run.

    Args:
        fn: The function.
        id: The name the model uses; default: the function's. Letters, digits, `_` and `-`, at most 64.
        name: Another word for `id`.
        description: Instead of the docstring's text.
        **fields: What follows.
        effects: `"none"`: it only reads, and is run again freely. `"idempotent"`: run again with the same
            `ctx.idempotency_key`. `"once"` (default): never run again by us; when it fails other than by `ToolFailed`,
            the model is told that it may have taken effect.
        key: Names of parameters. Calls with the same values of these are one effect, also when the model plans it
            anew: after a success the stored result is the answer, and the body does not run. Values are compared as
            validated (1, 1.0 and "1" for an int are the same). `()`: all calls are one effect. Without `key`, a call
            is the same effect only as itself.
        key_scope: Within what `key` is unique: this `"run"`, its `"thread"`, or all runs of its `"resource"`.
        require_approval: True, or a function of the validated arguments as a dict that says whether a person has to
            approve the call before it runs; sync or async. One that raises, or answers other than True or False,
            means yes. Agents and runs can ask for approval too; nobody can take this one back.
        reconcile: For `"once"`: called with the context of a call whose outcome is unknown (`ctx.args`,
            `ctx.idempotency_key`), it answers `Applied(result)`, `NotApplied()` (then the tool is run again) or
            `Unknown()`; sync or async. One that raises answers `Unknown()`.
        on_unknown: Without `reconcile`, or when it does not know: `"error"` tells the model that the call may have
            taken effect; `"suspend"` waits for a person who knows.
        output_schema: What the function returns has to fit it, and becomes what it makes of it. A result that does not
            fit is an error that the model is told.
        request_context_schema: The request's values have to fit it, else the model is told so and the body does not
            run; `ctx.values` is what it makes of them.
        suspend_schema: What `ctx.suspend` takes: a type (model, dataclass, TypedDict, ...) or a JSON Schema as a dict.
        resume_schema: What a suspended call is resumed with, in `ctx.resume_data`; alike.
        timeout: Seconds. Then an async tool is cancelled and waited for; the thread of a sync one is left alone.
        strict: Ask the provider to generate arguments under the schema.
        title: For user interfaces only.
        max_result_chars: Longer results are cut, with a marker, in what the model reads; the result itself is whole.
        to_model_output: What the model is told in place of the result, which stays whole for you: a function of the
            result as JSON, sync or async, that returns a plain value or `{"type": "text" | "json" | "content",
            "value": ...}`; content is a list of `{"type": "text", "text": ...}` and `{"type": "media", "data": base64
            or "url": ..., "media_type": ...}`. When it fails the model is told so, not the result.
        transform: What displays and transcripts show of its payloads: `{"display": {"input": fn, "output": fn, ...},
            "transcript": {...}}`, each a function of a `TransformContext`. For a target that is named here, what has
            no function, or one that fails, is hidden.
        on_input_start: Told, like the next two, while the model writes a call; see `tenuto.tools.listeners`.
        on_input_delta: Told of each piece of the arguments' text.
        on_input_available: Told of the arguments before they are validated.
        on_output: Told of the result.
        provider_options: By provider name: keys for this tool's definition.

    Raises:
        TypeError: An unknown keyword.
        ConfigurationError: The function or an option cannot work as a tool.
    """
    if id is not None and name is not None and id != name:
        raise ConfigurationError(f"tool(id={id!r}, name={name!r}): they are the same option; give one.")
    _settings(fields)
    chosen = id if id is not None else name

    def make(fn: Callable[..., Any]) -> Tool[Any, ..., Any]:
        if isinstance(fn, type) or not callable(fn):
            raise ConfigurationError(f"tool() takes a function, not {type(fn).__name__}.")
        return Tool(fn, id=chosen, description=description, **fields)

    return make if fn is None else make(fn)


def as_tool(given: AnyTool[D], name: str | None = None) -> Tool[D, ..., Any]:
    """A tool as it is; a function made into one with `@tool`'s defaults, called `name` or by its own name.

    A provider's own tool becomes one too.

    Raises:
        ConfigurationError: It is neither, or the function cannot work as a tool.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, ProviderTool):
        return Tool(None, id=given.name, provider=given, whole=WholeInput(given.name, ANYTHING, None))
    if isinstance(given, type) or not callable(given):
        raise ConfigurationError(f"{given!r} is no tool: give a function, or what @tool made of one.")
    return Tool(cast("Callable[..., Any]", given), id=name)


def _settings(fields: Mapping[str, Any], *, whole: bool = False) -> ToolSettings:
    for name in fields:
        if name not in ToolSettings.__struct_fields__:
            raise TypeError(_no_option(name, whole=whole))
    return ToolSettings(**fields)


_MEANT = {
    **dict.fromkeys(("parameters", "schema", "args_schema", "inputSchema", "params_json_schema"), "input_schema"),
    **dict.fromkeys(("func", "fn", "function", "handler"), "execute"),
    "name": "id",
}
_OF_CREATE_TOOL = ("input_schema", "execute")


def _no_option(name: str, *, whole: bool) -> str:
    from difflib import get_close_matches

    options = ("id", "description", *(_OF_CREATE_TOOL if whole else ()), *ToolSettings.__struct_fields__)
    near = [_MEANT[name]] if name in _MEANT else get_close_matches(name, (*options, *_OF_CREATE_TOOL), n=1)
    if near and near[0] not in options:
        return f"A tool made of a function has no option {name!r}; {near[0]}= is one of create_tool()."
    return f"A tool has no option {name!r}; " + (
        f"did you mean {near[0]!r}?" if near else f"they are: {', '.join(options)}."
    )


def _name_of(fn: Callable[..., Any] | None) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def _docstring_of(fn: Callable[..., Any] | None) -> Docstring:
    if fn is None:
        return parse_docstring("")
    body = body_of(fn)
    text = inspect.getdoc(body)
    if text is None or (body is not fn and text == inspect.getdoc(object.__call__)):
        text = ""
    return parse_docstring(text)
