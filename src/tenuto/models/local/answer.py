"""One answer of the engine as parts: free text in which calls may stand, or a forced call.

Invariant: a forced call is whole and follows the tool's grammar, or the stream raises; each text and each call is
opened, filled and closed once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from tenuto.core.abort import AbortSignal
from tenuto.core.errors import ModelError
from tenuto.core.payloads import (
    ResponseMetadataPayload,
    TextDeltaPayload,
    TextEndPayload,
    TextStartPayload,
    ToolCallPayload,
    ToolInputDeltaPayload,
    ToolInputEndPayload,
    ToolInputStartPayload,
    Usage,
)
from tenuto.messages.turns import Prompt
from tenuto.models.local.engine import Chat, Completion, Engine
from tenuto.models.local.generation import EngineChunk, TokenCounts, generate
from tenuto.models.local.grammar import Schema, answer_grammar, arguments_grammar, choice_grammar
from tenuto.models.local.profiles import Profile
from tenuto.models.local.prompt import render
from tenuto.models.local.toolcalls import CHOOSING, CLOSE, Call, CallScanner, opening
from tenuto.models.ports import Finish, Part, ProviderReason, ResponseFormat, ToolSpec

Parts = AsyncGenerator[Sequence[Part], None]


class Answer:
    """One `stream()`: which engine, what prompt, under which options."""

    def __init__(
        self,
        engine: Engine,
        prompt: Prompt,
        tools: Sequence[ToolSpec],
        *,
        model_id: str,
        profile: Profile,
        options: Mapping[str, Any],
        abort: AbortSignal | None,
        new_id: Callable[[], str],
        form: ResponseFormat | None = None,
    ) -> None:
        self._engine = engine
        self._prompt = prompt
        self._tools = tools
        self._model_id = model_id
        self._profile = profile
        self._options = options
        self._abort = abort
        self._new_id = new_id
        self._form = None if form is None else answer_grammar(form.schema)
        self._counts = TokenCounts()
        self._earlier = TokenCounts()
        self._reason: str | None = None
        self._text_parts = 0
        self._text_open = False

    async def free(self) -> Parts:
        """Let the model write; its calls, if it was given tools, are found in what it writes."""
        scanner = CallScanner({tool.name for tool in self._tools}) if self._tools else None
        called = False
        async with aclosing(self._generate(self._rendered(), self._form, [])) as chunks:
            first = True
            async for batch in chunks:
                parts: list[Part] = [self._metadata(batch[0])] if first else []
                first = False
                text = self._read(batch)
                found = [text] if scanner is None else scanner.feed(text)
                if scanner is not None and self._reason is not None:
                    self._refuse_cut(scanner)
                    found += scanner.end()
                for piece in found:
                    called |= isinstance(piece, Call)
                    parts += self._piece(piece)
                if self._reason is not None:
                    parts += [*self._close_text(), self._finish("tool-calls" if called else None)]
                if parts:
                    yield parts

    async def forced(self, names: Sequence[str]) -> Parts:
        """Make the model call one of the tools `names`: it writes the name, if there are several, and the arguments."""
        name = names[0] if len(names) == 1 else await self._choose(names)
        tool = next(tool for tool in self._tools if tool.name == name)
        call_id, written, first = self._new_id(), "", True
        schema = arguments_grammar(tool.parameters)
        async with aclosing(self._generate(self._rendered(opening(name)), schema, [CLOSE])) as chunks:
            async for batch in chunks:
                parts: list[Part] = []
                if first:
                    parts += [self._metadata(batch[0]), ToolInputStartPayload(call_id, name)]
                    first = False
                if text := self._read(batch):
                    written += text
                    parts.append(ToolInputDeltaPayload(call_id, text, name))
                if self._reason is not None:
                    args = self._whole(written, name)
                    parts += [
                        ToolInputEndPayload(call_id),
                        ToolCallPayload(call_id, name, args),
                        self._finish("tool-calls"),
                    ]
                if parts:
                    yield parts

    async def _choose(self, names: Sequence[str]) -> str:
        written = ""
        schema = choice_grammar(names)
        async with aclosing(self._generate(self._rendered(CHOOSING), schema, [])) as chunks:
            async for batch in chunks:
                written += self._read(batch)
        name = self._whole(written, "one of " + ", ".join(names))
        if name not in names:
            raise _ignored(written, name)
        self._earlier, self._counts, self._reason = self._counts, TokenCounts(), None
        return name

    def _rendered(self, begun: str = "") -> str | Chat:
        return render(self._prompt, self._profile, self._tools, begun)

    def _generate(
        self, prompt: str | Chat, schema: Schema | None, stop: Sequence[str]
    ) -> AsyncGenerator[Sequence[EngineChunk], None]:
        options = {**self._options, "stop": [*self._options.get("stop", ()), *stop]}
        return generate(self._engine, Completion(prompt, options, schema), self._abort)

    def _read(self, batch: Sequence[EngineChunk]) -> str:
        for chunk in batch:
            self._counts = chunk.usage or self._counts
            self._reason = chunk.finish_reason or self._reason
        return "".join(chunk.text for chunk in batch)

    def _whole(self, written: str, what: str) -> Any:
        """The JSON value that a grammar promised."""
        if self._reason == "length":
            raise _cut(what, self._options.get("max_tokens"))
        try:
            return json.loads(written)
        except ValueError:
            raise _ignored(written, what) from None

    def _refuse_cut(self, scanner: CallScanner) -> None:
        if scanner.inside and self._reason == "length":
            raise _cut("a call", self._options.get("max_tokens"))

    def _metadata(self, chunk: EngineChunk) -> ResponseMetadataPayload:
        timestamp = None if chunk.created is None else chunk.created * 1000
        return ResponseMetadataPayload(chunk.id or None, timestamp, self._model_id)

    def _piece(self, piece: str | Call) -> list[Part]:
        if isinstance(piece, Call):
            return [*self._close_text(), *_call_parts(piece, self._new_id())]
        if not piece:
            return []
        parts: list[Part] = []
        if not self._text_open:
            self._text_open = True
            self._text_parts += 1
            parts.append(TextStartPayload(self._text_id))
        return [*parts, TextDeltaPayload(self._text_id, piece)]

    @property
    def _text_id(self) -> str:
        return f"text-{self._text_parts}"

    def _close_text(self) -> list[Part]:
        was_open, self._text_open = self._text_open, False
        return [TextEndPayload(self._text_id)] if was_open else []

    def _finish(self, reason: ProviderReason | None = None) -> Finish:
        raw = self._reason
        said: ProviderReason = "stop" if raw == "stop" else "length" if raw == "length" else "other"
        before = self._earlier
        prompt, output = self._counts.prompt_tokens, self._counts.completion_tokens + before.completion_tokens
        # Of two generations for one call the second finds the prompt of the first in the engine's memory.
        cached = (before if before.prompt_tokens else self._counts).prompt_tokens_details.get("cached_tokens")
        return Finish(reason or said, Usage(prompt, output, prompt + output, cached_input_tokens=cached), raw)


def _call_parts(call: Call, call_id: str) -> list[Part]:
    raw = call.text if call.args is None else None
    return [
        ToolInputStartPayload(call_id, call.name),
        ToolInputDeltaPayload(call_id, call.text, call.name),
        ToolInputEndPayload(call_id),
        ToolCallPayload(call_id, call.name, call.args, raw_args=raw),
    ]


def _cut(what: str, limit: Any) -> ModelError:
    return ModelError(
        f"The model wrote a call ({what}) up to its limit of {limit} tokens without coming to an end, and half a "
        "call is none; raise max_output_tokens, or bound the tool's text with a maximum length.",
        id="MODEL_OUTPUT_CUT",
        provider="local",
        code="length",
    )


def _ignored(written: str, what: str) -> ModelError:
    return ModelError(
        f"The local engine did not hold the model to the grammar of {what}; it wrote: {written[:200]!r}. Simplify the "
        "tool's schema, or report it.",
        id="LOCAL_GRAMMAR_IGNORED",
        provider="local",
    )
