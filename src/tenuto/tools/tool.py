"""`@tool`: a function with hints becomes something a model can call, and stays a function.

Invariant: nothing changes a tool after it was made; calling it calls the function and nothing else; what the model may
send is derived from the hints once, when it is first needed.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Protocol, cast, overload

from typing_extensions import TypeVar

from tenuto.core.errors import ConfigurationError
from tenuto.messages.bounded import MODEL_TEXT_LIMIT
from tenuto.models.ports import ToolSpec
from tenuto.tools.callables import body_of, is_async
from tenuto.tools.context import ToolContext
from tenuto.tools.docstring import Docstring, parse_docstring
from tenuto.tools.options import check_effects, check_key, check_limits, key_names
from tenuto.tools.parameters import local_names, read_parameters, signature_of
from tenuto.tools.ports import Effects
from tenuto.tools.schema import ArgumentSchema, build_schema
from tenuto.tools.settlement import Settlement
from tenuto.tools.shape import DataSchema, Shape, shape_of

KeyScope = Literal["run", "thread", "resource"]
OnUnknown = Literal["error", "suspend"]
ArgumentPolicy = Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""`require_approval=` of a tool: asked with the validated arguments by name, defaults filled in."""

Reconcile = Callable[[ToolContext[Any, Any]], Settlement | Awaitable[Settlement]]
"""`reconcile=` of a tool: finds out what became of a call whose outcome nobody stored."""

D = TypeVar("D")
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")
D_contra = TypeVar("D_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class Tool(Generic[D_contra, P, R_co]):
    """A function a model can call; made by `@tool`.

    Calling it directly calls the function with its own signature: `await` it when the function is async.

    Attributes:
        id: Its name in a list of tools; in a dict of tools the key is the model's name.
        description: What the model reads.
        effects: What a repetition would do; see `tool`.
        key: The parameters that tell one effect from another, else None; see `tool`.
        key_scope: Within what the key is unique.
        require_approval: Whether a person has to approve a call, or the function that says so.
        reconcile: Finds out what became of a call with an unknown outcome, else None.
        on_unknown: What happens when that cannot be found out.
        suspend_schema: What `ctx.suspend` takes, else None.
        resume_schema: What a suspended call is resumed with, else None.
        suspend_shape: `suspend_schema` at work.
        resume_shape: `resume_schema` at work.
        timeout: Seconds the body may take, else None.
        strict: Whether the model's arguments are generated under its schema, where the provider can.
        title: For user interfaces; never sent to the model.
        max_result_chars: The longest text of a result that the model is given.
        is_async: Whether the function is a coroutine function; any other runs in a thread.
    """

    def __init__(
        self,
        fn: Callable[P, R_co],
        *,
        id: str | None = None,
        description: str | None = None,
        effects: Effects = "once",
        key: Sequence[str] | None = None,
        key_scope: KeyScope = "run",
        require_approval: bool | ArgumentPolicy = False,
        reconcile: Reconcile | None = None,
        on_unknown: OnUnknown = "error",
        suspend_schema: DataSchema | None = None,
        resume_schema: DataSchema | None = None,
        timeout: float | None = None,
        strict: bool | None = None,
        title: str | None = None,
        max_result_chars: int = MODEL_TEXT_LIMIT,
    ) -> None:
        functools.update_wrapper(self, fn, ("__module__", "__name__", "__qualname__", "__doc__"), ())
        self.fn = fn
        self.id: str = id or _name_of(fn)
        self.effects: Effects = effects
        self.key_scope: KeyScope = key_scope
        self.require_approval = require_approval
        self.reconcile = reconcile
        self.on_unknown: OnUnknown = on_unknown
        self.suspend_schema = suspend_schema
        self.resume_schema = resume_schema
        self.timeout = timeout
        self.strict = strict
        self.title = title
        self.max_result_chars = max_result_chars
        self.is_async: bool = is_async(fn)
        self._doc = _docstring_of(fn)
        self.description: str = self._doc.text if description is None else inspect.cleandoc(description)
        self._signature = signature_of(fn, self.id)
        self.key: tuple[str, ...] | None = key_names(self.id, key, fn, self._signature)
        self.suspend_shape: Shape | None = shape_of(f"Tool {self.id!r}: suspend_schema", suspend_schema)
        self.resume_shape: Shape | None = shape_of(f"Tool {self.id!r}: resume_schema", resume_schema)
        self._names = local_names(fn)
        self._schema: ArgumentSchema | None = None
        self._lock = threading.Lock()
        check_effects(self)
        check_limits(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function itself: no validation, no timeout, no thread."""
        return self.fn(*args, **kwargs)

    @property
    def name(self) -> str:
        """The same as `id`."""
        return self.id

    @property
    def schema(self) -> ArgumentSchema:
        """The JSON Schema of the arguments and their validator; built at the first use, in any thread.

        Raises:
            ConfigurationError: A hint cannot be resolved or has no JSON Schema; the message names the parameter.
        """
        if self._schema is None:
            with self._lock:
                if self._schema is None:
                    parameters = read_parameters(self.fn, self._signature, self._names, self.id)
                    check_key(self.id, self.key, parameters)
                    self._schema = build_schema(self.id, parameters, self._doc.parameters)
                    self._names = dict[str, Any]()
        return self._schema

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, an object; do not change it."""
        return self.schema.json_schema

    def spec(self, name: str | None = None) -> ToolSpec:
        """The tool as a model sees it, under `name` or its id."""
        return ToolSpec(name or self.id, self.description, self.parameters, self.strict)

    def __repr__(self) -> str:
        return f"Tool({self.id!r})"


class PlainFunction(Protocol):
    """A function or a bound method. A `Tool` is none (it has no `__name__` to a type checker), so its types count."""

    @property
    def __name__(self) -> str: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        ...


AnyTool = Tool[D, ..., Any] | PlainFunction | partial[Any]
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
    effects: Effects = "once",
    key: Sequence[str] | None = None,
    key_scope: KeyScope = "run",
    require_approval: bool | ArgumentPolicy = False,
    reconcile: Reconcile | None = None,
    on_unknown: OnUnknown = "error",
    suspend_schema: DataSchema | None = None,
    resume_schema: DataSchema | None = None,
    timeout: float | None = None,
    strict: bool | None = None,
    title: str | None = None,
    max_result_chars: int = MODEL_TEXT_LIMIT,
) -> ToolDecorator: ...
def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    effects: Effects = "once",
    key: Sequence[str] | None = None,
    key_scope: KeyScope = "run",
    require_approval: bool | ArgumentPolicy = False,
    reconcile: Reconcile | None = None,
    on_unknown: OnUnknown = "error",
    suspend_schema: DataSchema | None = None,
    resume_schema: DataSchema | None = None,
    timeout: float | None = None,
    strict: bool | None = None,
    title: str | None = None,
    max_result_chars: int = MODEL_TEXT_LIMIT,
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
        suspend_schema: What `ctx.suspend` takes: a type (model, dataclass, TypedDict, ...) or a JSON Schema as a dict.
        resume_schema: What a suspended call is resumed with, in `ctx.resume_data`; alike.
        timeout: Seconds. Then an async tool is cancelled and waited for; the thread of a sync one is left alone.
        strict: Ask the provider to generate arguments under the schema.
        title: For user interfaces only.
        max_result_chars: Longer results are cut, with a marker, in what the model reads; the result itself is whole.

    Raises:
        ConfigurationError: The function or an option cannot work as a tool.
    """
    if id is not None and name is not None and id != name:
        raise ConfigurationError(f"tool(id={id!r}, name={name!r}): they are the same option; give one.")
    chosen = id if id is not None else name

    def make(fn: Callable[..., Any]) -> Tool[Any, ..., Any]:
        if isinstance(fn, type) or not callable(fn):
            raise ConfigurationError(f"tool() takes a function, not {type(fn).__name__}.")
        return Tool(
            fn,
            id=chosen,
            description=description,
            effects=effects,
            key=key,
            key_scope=key_scope,
            require_approval=require_approval,
            reconcile=reconcile,
            on_unknown=on_unknown,
            suspend_schema=suspend_schema,
            resume_schema=resume_schema,
            timeout=timeout,
            strict=strict,
            title=title,
            max_result_chars=max_result_chars,
        )

    return make if fn is None else make(fn)


def as_tool(given: AnyTool[D], name: str | None = None) -> Tool[D, ..., Any]:
    """A tool as it is; a function made into one with `@tool`'s defaults, called `name` or by its own name.

    Raises:
        ConfigurationError: It is neither, or the function cannot work as a tool.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, type) or not callable(given):
        raise ConfigurationError(f"{given!r} is no tool: give a function, or what @tool made of one.")
    return Tool(cast("Callable[..., Any]", given), id=name)


def _name_of(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


def _docstring_of(fn: Callable[..., Any]) -> Docstring:
    body = body_of(fn)
    text = inspect.getdoc(body)
    if text is None or (body is not fn and text == inspect.getdoc(object.__call__)):
        text = ""
    return parse_docstring(text)
