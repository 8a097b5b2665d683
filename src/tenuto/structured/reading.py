"""Reads a finished answer: the object in it, or the one error that says why there is none.

Invariant: only a whole answer is read. One that was cut off, filtered or refused is an error of its own, whatever
JSON it holds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Generic, cast

from msgspec import Struct
from typing_extensions import TypeVar

from tenuto.core.errors import Issue, OutputInvalid
from tenuto.core.payloads import FinishReason, Json
from tenuto.messages.bounded import bounded, valid_text
from tenuto.structured.output import StructuredOutput
from tenuto.structured.schema import OutputSchema, Unfit
from tenuto.structured.text import NotJSON, find_json, read_whole
from tenuto.structured.transport import wrapping_key

T = TypeVar("T", default=Any)

_SHOWN = 200
_ISSUES_SHOWN = 10
_VALUE_KEPT = 2_000

TRUNCATED = "STRUCTURED_OUTPUT_TRUNCATED"
REFUSED = "STRUCTURED_OUTPUT_REFUSED"
INVALID = "STRUCTURED_OUTPUT_SCHEMA_VALIDATION_FAILED"


class Said(Struct, frozen=True):
    """A finished answer.

    Attributes:
        texts: Its text parts, in order.
        model: As `provider/model`.
        refusal: The model's own word that it will not answer.
    """

    texts: tuple[str, ...]
    reason: FinishReason
    model: str
    raw_reason: str | None = None
    refusal: str | None = None


class Given(Struct, Generic[T], frozen=True):
    """What was found.

    Attributes:
        object: Of the schema's type.
        value: The JSON it was made of, as it was accepted.
    """

    object: T
    value: Json


def read_answer(output: StructuredOutput[T], said: Said) -> Given[T]:
    """The object in an answer.

    Raises:
        OutputInvalid: There is none; its id says why.
    """
    _check_whole(said)
    text = "".join(said.texts)
    try:
        value = _found(said.texts)
    except NotJSON as error:
        issue = Issue((), f"it is not JSON: {error}" if text.strip() else "it is empty")
        raise _invalid(output, said, text, None, (issue,)) from error
    try:
        return _loaded(output.schema, value)
    except Unfit as unfit:
        raise _invalid(output, said, text, value, unfit.issues) from unfit


def refusal_of(metadata: Mapping[str, Any] | None) -> str | None:
    """The refusal among a provider's metadata."""
    for of_provider in (metadata or {}).values():
        if isinstance(of_provider, Mapping):
            refusal = cast("Mapping[str, Any]", of_provider).get("refusal")
            if isinstance(refusal, str):
                return refusal
    return None


def _found(texts: Sequence[str]) -> Json:
    """The value of all text together; else that of the last part, before which the model may have thought aloud."""
    if len(texts) < 2:
        return find_json("".join(texts))
    for read, text in ((read_whole, "".join(texts)), (find_json, texts[-1])):
        with contextlib.suppress(NotJSON):
            return read(text)
    return find_json("".join(texts))


def _loaded(schema: OutputSchema[T], value: Json) -> Given[T]:
    """The object of `value`, or of what a model wrapped although it need not, or as it was asked to."""
    key = wrapping_key(schema.json_schema)
    if key is not None and isinstance(value, dict) and set(cast("dict[str, Any]", value)) == {key}:
        try:
            return Given(*schema.load(value[key]))
        except Unfit:
            pass
    return Given(*schema.load(value))


def check_answered(said: Said) -> None:
    """See that a model has answered, be it cut off.

    Raises:
        OutputInvalid: It refused, or was kept from it.
    """
    text = "".join(said.texts)
    if said.refusal is not None or said.raw_reason == "refusal":
        shown = bounded(valid_text(said.refusal or text), _SHOWN)
        message = f"{said.model} refused to answer: {shown!r}. Change what is asked for, or the model."
        raise OutputInvalid(message, id=REFUSED, text=text)
    if said.reason == "content-filter":
        message = f"The answer of {said.model} was cut off by the provider's content filter; change what is asked for."
        raise OutputInvalid(message, id=TRUNCATED, text=text, details={"reason": "content-filter"})


def _check_whole(said: Said) -> None:
    check_answered(said)
    if said.reason == "length":
        message = (
            f"The answer of {said.model} was cut off at its length limit, and half an object is none; raise "
            "model_settings['max_output_tokens'], or ask for less."
        )
        raise OutputInvalid(message, id=TRUNCATED, text="".join(said.texts), details={"reason": "length"})


def _invalid(
    output: StructuredOutput[Any], said: Said, text: str, value: Json, issues: tuple[Issue, ...]
) -> OutputInvalid:
    shown = [f"- {issue}" for issue in issues[:_ISSUES_SHOWN]]
    if len(issues) > _ISSUES_SHOWN:
        shown.append(f"- and {len(issues) - _ISSUES_SHOWN} more")
    lines = [f"The answer of {said.model} does not fit the schema {output.schema.name!r}:", *shown]
    lines.append(f"It wrote: {bounded(valid_text(text), _SHOWN)!r}")
    return OutputInvalid(
        "\n".join(lines),
        id=INVALID,
        details={"value": bounded(valid_text(text), _VALUE_KEPT)},
        text=text,
        value=value,
        issues=issues,
    )
