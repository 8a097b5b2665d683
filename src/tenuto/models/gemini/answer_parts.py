"""The parts of a Gemini answer, one after the other.

Invariant: texts are joined only where nothing is signed: a signed part is a part of its own, so that it can go back as
it came. Each call is complete when it is given out, and a part with an id is given out once.

Source: Gemini API reference, "Part"; guide "Thought signatures" (do not join signed parts with others).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tenuto.core.payloads import FilePayload
from tenuto.models.assemble import Assembler, ToolDelta
from tenuto.models.gemini.partial_args import PartialCall
from tenuto.models.gemini.parts import CODE, CODE_RESULT, OPAQUE, TOOL_CALL, TOOL_RESPONSE, keeping
from tenuto.models.gemini.wire import NOTHING, FunctionCall, PartIn
from tenuto.models.http_errors import broken_stream

_CODE_TOOL = "code_execution"


class AnswerParts:
    """Gives the parts of one answer to its assembler."""

    __slots__ = ("_assembler", "_calls", "_code", "_given", "_partial", "_provider", "_server")

    def __init__(self, provider: str, assembler: Assembler) -> None:
        self._provider = provider
        self._assembler = assembler
        self._given: set[tuple[str, ...]] = set()
        self._calls = 0
        self._partial: PartialCall | None = None
        self._code: str | None = None
        self._server: dict[str, str] = {}

    def take(self, part: PartIn) -> bool:
        """Add a part; False when it is of no kind that we know."""
        signature = part.thought_signature
        if part.function_call is not None:
            self._call(part.function_call, signature)
        elif part.text is not None:
            self._text(part.text, signature, thought=bool(part.thought))
        elif part.inline_data is not None or part.file_data is not None:
            self._file(part, signature)
        elif part.executable_code is not None:
            self._run_code(part.executable_code, signature)
        elif part.code_execution_result is not None and self._code is not None:
            self._code_result(self._code, part.code_execution_result, signature)
        elif part.tool_call is not None:
            self._server_call(part.tool_call, signature)
        elif part.tool_response is not None:
            return self._server_result(part.tool_response, signature)
        else:
            return False
        return True

    def opaque(self, part: dict[str, Any]) -> None:
        """Keep a part whole."""
        self._assembler.custom(OPAQUE, keeping(None, part=part))

    def end(self) -> None:
        """Close what is open.

        Raises:
            ModelError: A call that comes in pieces has not ended.
        """
        if self._partial is not None:
            raise broken_stream(self._provider, "it ends in the middle of a tool call")
        self._assembler.end()

    def _text(self, text: str, signature: str | None, *, thought: bool) -> None:
        assembler = self._assembler
        add = assembler.reasoning if thought else assembler.text
        if signature is None:
            add(text)
            return
        assembler.block("reasoning" if thought else "text", keeping(signature))
        if text:
            add(text)
        assembler.close()

    def _file(self, part: PartIn, signature: str | None) -> None:
        kept = keeping(signature, thought=True) if part.thought else keeping(signature)
        if part.inline_data is not None:
            data = part.inline_data.data or ""
            kind = part.inline_data.mime_type or "application/octet-stream"
            self._assembler.file(FilePayload(data, kind, data, provider_metadata=kept))
        elif part.file_data is not None:
            kind = part.file_data.mime_type or "application/octet-stream"
            self._assembler.file(FilePayload(part.file_data.file_uri or "", kind, provider_metadata=kept))

    def _call(self, call: FunctionCall, signature: str | None) -> None:
        begins = bool(call.name)
        if begins and self._partial is not None:
            raise broken_stream(self._provider, f"a call of {call.name} begins before the one before it has ended")
        if not begins and self._partial is None:
            raise broken_stream(self._provider, "a piece of a call that never began")
        if call.will_continue or call.partial_args or not begins:
            self._piece(call, signature)
        else:
            self._give(self._delta(call, signature))

    def _piece(self, call: FunctionCall, signature: str | None) -> None:
        if self._partial is None:
            self._partial = PartialCall(self._delta(call, signature))
        self._partial.take(call.partial_args or [])
        if call.will_continue:
            return
        if not self._partial.complete:
            raise broken_stream(self._provider, "a tool call ends in the middle of a text")
        self._give(self._partial.whole())
        self._partial = None

    def _delta(self, call: FunctionCall, signature: str | None) -> ToolDelta:
        self._calls += 1
        args = None if call.args is NOTHING else bytes(call.args).decode()
        return ToolDelta(self._calls, call.id or None, call.name, None if args == "null" else args, keeping(signature))

    def _give(self, delta: ToolDelta) -> None:
        if self._again("functionCall", delta.id, delta.name, delta.arguments):
            return
        self._assembler.tools([delta])
        self._assembler.end_call(cast("int", delta.index))

    def _again(self, kind: str, label: str | None, *said: str | None) -> bool:
        """Whether a part with an id came before, word for word; without one nobody can tell."""
        mark = (kind, label or "", *(each or "" for each in said))
        if label and mark in self._given:
            return True
        self._given.add(mark)
        return False

    def _run_code(self, code: dict[str, Any], signature: str | None) -> None:
        if not self._again(CODE, _id(code)):
            kept = keeping(signature, part=CODE)
            self._code = self._assembler.provider_call(_id(code), _CODE_TOOL, code, kept)

    def _code_result(self, call_id: str, result: dict[str, Any], signature: str | None) -> None:
        if self._again(CODE_RESULT, _id(result)):
            return
        failed = result.get("outcome") not in (None, "OUTCOME_OK")
        kept = keeping(signature, part=CODE_RESULT)
        self._assembler.provider_result(call_id, _CODE_TOOL, result, is_error=failed or None, metadata=kept)

    def _server_call(self, call: dict[str, Any], signature: str | None) -> None:
        if self._again(TOOL_CALL, _id(call)):
            return
        kept = keeping(signature, part=TOOL_CALL, **_names(call))
        call_id = self._assembler.provider_call(_id(call), _tool(call), call.get("args"), kept)
        self._server[_id(call)] = call_id

    def _server_result(self, answer: dict[str, Any], signature: str | None) -> bool:
        call_id = self._server.get(_id(answer))
        if call_id is None:
            return False
        if self._again(TOOL_RESPONSE, _id(answer)):
            return True
        kept = keeping(signature, part=TOOL_RESPONSE, **_names(answer))
        self._assembler.provider_result(call_id, _tool(answer), answer.get("response"), metadata=kept)
        return True


def _id(record: Mapping[str, Any]) -> str:
    found = record.get("id")
    return found if isinstance(found, str) else ""


def _names(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("id", "toolType") if name in record}


def _tool(record: Mapping[str, Any]) -> str:
    return str(record.get("toolType") or "tool").lower()
