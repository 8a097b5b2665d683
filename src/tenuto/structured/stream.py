"""`AnswerStream`: the stream of a model that was asked for data, as the loop and its viewers see it.

Invariant: whatever the mode, the answer arrives as text parts that hold its bare JSON; a call of the answer's tool
becomes such a part and is no call any more, so that every history is one of calls with results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from tenuto.core import payloads as p
from tenuto.core.payloads import Json
from tenuto.models.ports import Finish, Part
from tenuto.structured.modes import Fitted
from tenuto.structured.output import StructuredOutput
from tenuto.structured.partial import PartialReader
from tenuto.structured.unwrap import Unwrapper


class AnswerStream:
    """For one model call."""

    __slots__ = ("_calls", "_fitted", "_open", "_reader", "_unwrappers", "_written")

    def __init__(self, output: StructuredOutput[Any], fitted: Fitted) -> None:
        self._fitted = fitted
        self._reader = PartialReader(output.schema.json_schema)
        self._unwrappers: dict[str, Unwrapper] = {}
        self._open: set[str] = set()
        self._written: set[str] = set()
        self._calls = False

    def take(self, batch: Sequence[Part]) -> list[Part]:
        """The batch as it goes on."""
        return [made for part in batch for made in self._taken(part)]

    def partials(self, batch: Sequence[Part]) -> list[Json]:
        """What the answer has become by a batch that `take` gave: at most one value for each of its pieces."""
        found: list[Json] = []
        for part in batch:
            if isinstance(part, p.TextStartPayload):
                self._reader.restart()
            elif isinstance(part, p.TextDeltaPayload):
                value, changed = self._reader.feed(part.text)
                if changed:
                    found.append(value)
        return found

    def _taken(self, part: Part) -> Sequence[Part]:
        if self._fitted.answer_tool is not None and (made := self._of_answer(part)) is not None:
            return made
        match part:
            case p.TextStartPayload(id=id) if self._fitted.key is not None:
                self._unwrappers[id] = Unwrapper(self._fitted.key)
                return (part,)
            case p.TextDeltaPayload(id=id) if id in self._unwrappers:
                text = self._unwrappers[id].feed(part.text)
                return (replace(part, text=text),) if text else ()
            case p.TextEndPayload(id=id) if id in self._unwrappers:
                text = self._unwrappers.pop(id).end()
                return (p.TextDeltaPayload(id, text), part) if text else (part,)
            case Finish(reason="tool-calls") if self._written and not self._calls:
                return (replace(part, reason="stop"),)
            case p.ToolCallPayload():
                self._calls = True
                return (part,)
            case _:
                return (part,)

    def _of_answer(self, part: Part) -> Sequence[Part] | None:
        """The text that a part of the answer's call is; None for parts of anything else."""
        match part:
            case p.ToolInputStartPayload(tool_call_id=id, tool_name=self._fitted.answer_tool):
                return self._begun(id)
            case p.ToolInputDeltaPayload(tool_call_id=id) if id in self._open:
                return self._wrote(id, part.args_text_delta)
            case p.ToolInputEndPayload(tool_call_id=id) if id in self._open:
                return ()
            case p.ToolCallPayload(tool_call_id=id, tool_name=self._fitted.answer_tool):
                return self._called(id, part)
            case _:
                return None

    def _begun(self, call_id: str) -> Sequence[Part]:
        self._open.add(call_id)
        return self._taken(p.TextStartPayload(call_id))

    def _wrote(self, call_id: str, text: str) -> Sequence[Part]:
        self._written.add(call_id)
        return self._taken(p.TextDeltaPayload(call_id, text))

    def _called(self, call_id: str, part: p.ToolCallPayload) -> Sequence[Part]:
        """The end of the call; a model that does not stream its arguments has said nothing of them before."""
        begun = () if call_id in self._open else self._begun(call_id)
        said: Sequence[Part] = ()
        if call_id not in self._written:
            said = self._wrote(call_id, part.raw_args or msgspec.json.encode(part.args).decode())
        self._open.discard(call_id)
        return (*begun, *said, *self._taken(p.TextEndPayload(call_id)))
