"""How a request asks for data: by the provider's format, by a tool whose arguments are the answer, or in the prompt.

Invariant: other tools stay on offer in every mode, and nothing of the mode is seen outside it: what comes back is the
answer's JSON as text, with no wrapper and no call. The request is fitted anew for each call, since another model may
be able to do something else.
"""

from __future__ import annotations

from typing import Any, Literal, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenuto.messages.turns import Prompt, SystemTurn, Text, UserTurn
from tenuto.models.ports import LanguageModel, ModelRequest, NamedTool, ResponseFormat, StructuredSupport, ToolSpec
from tenuto.structured.output import StructuredOutput
from tenuto.structured.transport import Key, Wire, wire_form

Mode = Literal["native", "tool", "prompt"]

ANSWER_TOOL = "final_answer"
"""The tool whose arguments are the answer, unless a tool of the agent has this name."""

_TOOL_DESCRIPTION = "Give the final answer. Call this once, alone, when nothing else is left to do."


_IN_PROMPT = (
    "Answer with one JSON value that fits the JSON Schema below, and with nothing else: no sentence before or after "
    "it, no code fence."
)


class Fitted(Struct, frozen=True):
    """A request that asks for data.

    Attributes:
        answer_tool: The name of the tool whose arguments are the answer, in tool mode.
        key: What the answer is wrapped in.
    """

    request: ModelRequest
    mode: Mode
    answer_tool: str | None = None
    key: Key | None = None


class Fitting:
    """Fits the requests of one run; keeps the prompts it has made, so that their encoded history stays of use."""

    __slots__ = ("_instructions", "_output", "_prompts", "_tools", "_wire")

    def __init__(self, output: StructuredOutput[Any], *, instructed: bool = False) -> None:
        """See the class; `instructed`: the model has the instructions already."""
        self._output = output
        self._instructions = None if instructed else output.instructions
        self._prompts: dict[str, tuple[Prompt, Prompt]] = {}
        self._tools: tuple[tuple[ToolSpec, ...], tuple[ToolSpec, ...]] | None = None
        self._wire: Wire | None = None

    def fit(self, request: ModelRequest, model: LanguageModel) -> Fitted:
        """The request, asking for data in the way that suits `model`."""
        mode = mode_of(self._output, request, model)
        match mode:
            case "native":
                return self._native(request)
            case "tool":
                return self._tool(request)
            case "prompt":
                return Fitted(replace(request, prompt=self._injected(request.prompt)), mode)
            case _:
                assert_never(mode)

    def with_note(self, request: ModelRequest) -> ModelRequest:
        """The request of a run whose answer another model turns into data."""
        schema = msgspec.json.encode(self._output.schema.json_schema).decode()
        note = (
            f"Your answer will be turned into data of this JSON Schema; say all it asks for, in plain text.\n{schema}"
        )
        return replace(request, prompt=self._prompt(request.prompt, "note", note))

    def _native(self, request: ModelRequest) -> Fitted:
        wire, schema = self._wire_form(), self._output.schema
        asked = ResponseFormat(
            schema=wire.schema,
            name=schema.name,
            description=schema.json_schema.get("description"),
            strict=wire.strict,
        )
        prompt = self._instructed(request.prompt)
        return Fitted(replace(request, response_format=asked, prompt=prompt), "native", key=wire.key)

    def _tool(self, request: ModelRequest) -> Fitted:
        offered = () if request.tool_choice == "none" else request.tools
        tools, name = self._with_answer(offered)
        choice = request.tool_choice
        if choice in {"auto", "none"}:
            choice = "required" if offered or request.provider_tools else NamedTool(name)
        fitted = replace(request, tools=tools, tool_choice=choice, prompt=self._instructed(request.prompt))
        return Fitted(fitted, "tool", name, self._wire_form().key)

    def _with_answer(self, offered: tuple[ToolSpec, ...]) -> tuple[tuple[ToolSpec, ...], str]:
        """The tools with the answer's; the same tuple for the same tools, which renderers keep encoded."""
        if self._tools is None or self._tools[0] is not offered:
            taken = {each.name for each in offered}
            name = ANSWER_TOOL
            while name in taken:
                name += "_"
            wire = self._wire_form()
            spec = ToolSpec(name, _TOOL_DESCRIPTION, wire.schema)
            self._tools = (offered, (*offered, spec))
        return self._tools[1], self._tools[1][-1].name

    def _wire_form(self) -> Wire:
        if self._wire is None:
            self._wire = wire_form(self._output.schema.json_schema)
        return self._wire

    def _instructed(self, prompt: Prompt) -> Prompt:
        said = self._instructions
        return prompt if said is None else self._prompt(prompt, "instructions", said)

    def _injected(self, prompt: Prompt) -> Prompt:
        return self._prompt(prompt, "inline" if is_inline(self._output) else "system", self._injection())

    def _injection(self) -> str:
        if self._instructions is not None:
            return self._instructions
        schema = msgspec.json.encode(self._output.schema.json_schema).decode()
        return f"{_IN_PROMPT}\n{schema}"

    def _prompt(self, prompt: Prompt, how: str, text: str) -> Prompt:
        source, made = self._prompts.get(how) or (None, prompt)
        if source is not prompt:
            made = _extended(prompt, text, inline=how == "inline")
            self._prompts[how] = (prompt, made)
        made.turns.extend(prompt.turns[len(made.turns) :])
        return made


def mode_of(output: StructuredOutput[Any], request: ModelRequest, model: LanguageModel) -> Mode:
    """The mode that suits the model, unless the caller wants the schema in the prompt."""
    if output.json_prompt_injection in {"system", "inline"} or output.json_prompt_injection is True:
        return "prompt"
    if _switched_off(request, model.provider):
        return "prompt"
    support: StructuredSupport = getattr(model, "structured", "prompt")
    with_tools = bool(request.tools or request.provider_tools) and request.tool_choice != "none"
    match support:
        case "native":
            return "native"
        case "native-alone":
            return "tool" if with_tools else "native"
        case "tool":
            return "prompt" if output.json_prompt_injection == "auto" else "tool"
        case "prompt":
            return "prompt"
        case _:
            assert_never(support)


def _switched_off(request: ModelRequest, provider: str) -> bool:
    """Whether the caller says that this model takes no schema: the AI SDK's option `structuredOutputs: false`."""
    options = request.provider_options or {}
    given = {**options.get("openai", {}), **options.get(provider, {})}
    return given.get("structuredOutputs", given.get("structured_outputs")) is False


def is_inline(output: StructuredOutput[Any]) -> bool:
    """Whether what is put into the prompt goes into the last user message."""
    return output.json_prompt_injection in {"inline", "auto"}


def _extended(prompt: Prompt, text: str, *, inline: bool) -> Prompt:
    """The prompt with `text` in it; without a user turn to put it into, in the system turns."""
    place = next((at for at in range(len(prompt.turns) - 1, -1, -1) if isinstance(prompt.turns[at], UserTurn)), None)
    if not inline or place is None:
        return Prompt((*prompt.system, SystemTurn(text)), prompt.turns)
    turns = list(prompt.turns)
    last = turns[place]
    assert isinstance(last, UserTurn)  # noqa: S101 - just looked for
    turns[place] = replace(last, content=(*last.content, Text(text)))
    return Prompt(prompt.system, turns)
