"""`StructuredOutput`: that an answer must be data, of which schema, by which way, and what happens when it is not.

Invariant: what can be wrong with it is found when it is made: a schema that is none, a fallback that does not fit,
an unknown strategy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, cast

from typing_extensions import TypeVar

from tenuto.core.errors import ConfigurationError
from tenuto.core.payloads import Json
from tenuto.messages.turns import ProviderOptions
from tenuto.structured.schema import OutputSchema, Unfit, schema_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from tenuto.models.ports import LanguageModel

T = TypeVar("T", default=Any)

ErrorStrategy = Literal["strict", "warn", "fallback"]
Injection = bool | Literal["system", "inline", "auto"]

KEYS = (
    "schema", "model", "error_strategy", "fallback_value", "instructions", "json_prompt_injection", "logger",
    "provider_options",
)  # fmt: skip
"""What a `structured_output=` mapping may hold."""


class _Absent:
    def __repr__(self) -> str:
        return "..."


ABSENT: Any = _Absent()
"""Stands for a fallback that was not given: None may be one."""


class StructuredOutput(Generic[T]):
    """The answer as data: `structured_output=StructuredOutput(City, error_strategy="warn")`.

    Args:
        schema: A Pydantic model, dataclass, TypedDict, enum, `list[...]` or other type, a `TypeAdapter`, or a JSON
            Schema as a dict (its values are plain JSON).
        model: A model that turns the finished answer into data; without it the agent's model answers in JSON itself.
        error_strategy: What happens when the answer does not fit: `strict` fails the run with `OutputInvalid`, `warn`
            logs and leaves the object out, `fallback` takes `fallback_value`.
        fallback_value: For `fallback`; checked here.
        instructions: For the model that writes the data, in your words; where the schema is put into the prompt they
            replace it.
        json_prompt_injection: How the schema reaches the model. False: by the provider's own means, or in the prompt
            where it has none; True or `system`: in the system messages; `inline`: in the last user message; `auto`:
            as False, but in the last user message where the provider has no means.
        logger: Gets the warnings; default: the logger `tenuto`.
        provider_options: For the calls of `model`.

    Raises:
        ConfigurationError: See the module.
    """

    __slots__ = (
        "error_strategy", "fallback", "has_fallback", "instructions", "json_prompt_injection", "logger", "model",
        "provider_options", "schema",
    )  # fmt: skip

    schema: OutputSchema[T]

    def __init__(
        self,
        schema: type[T] | TypeAdapter[T] | UnionType | Mapping[str, Any],
        *,
        model: str | LanguageModel | Mapping[str, Any] | None = None,
        error_strategy: ErrorStrategy = "strict",
        fallback_value: T = ABSENT,
        instructions: str | None = None,
        json_prompt_injection: Injection = False,
        logger: logging.Logger | None = None,
        provider_options: ProviderOptions | None = None,
    ) -> None:
        self.schema = schema_of(schema)
        self.model: str | LanguageModel | Mapping[str, Any] | None = model
        self.error_strategy: ErrorStrategy = _one_of(error_strategy, ("strict", "warn", "fallback"), "error_strategy")
        injections = (False, True, "system", "inline", "auto")
        self.json_prompt_injection: Injection = _one_of(json_prompt_injection, injections, "json_prompt_injection")
        self.instructions: str | None = _text(instructions)
        self.logger: logging.Logger = logger or logging.getLogger("tenuto")
        self.provider_options: ProviderOptions | None = provider_options
        self.has_fallback: bool = fallback_value is not ABSENT
        self.fallback: Json = self._checked(fallback_value) if self.has_fallback else None
        if self.error_strategy == "fallback" and not self.has_fallback:
            message = "error_strategy='fallback' needs a fallback_value; give one, or use 'warn'."
            raise ConfigurationError(message, id="STRUCTURED_OUTPUT_FALLBACK_MISSING", domain="AGENT")

    def __repr__(self) -> str:
        return f"StructuredOutput({self.schema.name!r}, error_strategy={self.error_strategy!r})"

    def _checked(self, value: object) -> Json:
        try:
            return self.schema.dump(value)
        except Unfit as unfit:
            message = f"fallback_value does not fit the schema {self.schema.name!r}: {unfit}."
            raise ConfigurationError(message, id="STRUCTURED_OUTPUT_FALLBACK_INVALID", domain="AGENT") from unfit


OWN_MODEL: Any = _Absent()
"""Stands for a structuring model that this process does not have: the run's own model does its work."""


def read_output(given: object) -> StructuredOutput[Any] | None:
    """What was given as `structured_output=`; None switches it off.

    Raises:
        TypeError: It is a mapping with an unknown key, or a JSON Schema that is not under `schema`.
        ConfigurationError: See `StructuredOutput`.
    """
    if given is None or isinstance(given, StructuredOutput):
        return cast("StructuredOutput[Any] | None", given)
    if not isinstance(given, Mapping):
        return StructuredOutput(cast("Any", given))
    options = dict(cast("Mapping[str, Any]", given))
    if "schema" not in options:
        raise without_schema(options)
    schema = options.pop("schema")
    if isinstance(schema, StructuredOutput):
        message = "'schema' of structured_output= is a type or a JSON Schema, not a StructuredOutput; pass that alone."
        raise TypeError(message)
    return StructuredOutput(schema, **options)


def without_schema(given: Mapping[str, Any]) -> TypeError:
    """The error of a mapping that has no schema, or is one."""
    found = ", ".join(map(repr, given)) or "nothing"
    return TypeError(
        "structured_output= takes a type, a TypeAdapter, a StructuredOutput or a mapping with the key 'schema'; this "
        f"mapping has {found}. Write a JSON Schema as structured_output={{'schema': {{...}}}}."
    )


def _one_of(given: Any, known: tuple[Any, ...], name: str) -> Any:
    for each in known:
        if given == each and type(given) is type(each):
            return each
    message = f"{name} is one of {', '.join(map(repr, known))}, not {given!r}."
    raise ConfigurationError(message, id="STRUCTURED_OUTPUT_OPTION_INVALID", domain="AGENT")


def _text(given: object) -> str | None:
    if given is None or isinstance(given, str):
        return given.strip() or None if isinstance(given, str) else None
    message = f"instructions of structured_output= are text, not {type(given).__name__}."
    raise ConfigurationError(message, id="STRUCTURED_OUTPUT_OPTION_INVALID", domain="AGENT")
