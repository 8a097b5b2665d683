"""From turns to the text a local model reads.

Invariant: text of users and tools cannot open or close a turn: control markers in it are defused before it is placed
in the template.

Source: ChatML (`<|im_start|>role ... <|im_end|>`); the tool prompts of the SmolLM2 and the Hermes/Qwen 2.5 templates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from msgspec import Struct

from tenuto.core.errors import ModelError
from tenuto.messages.turns import (
    AssistantPart,
    AssistantTurn,
    CallPart,
    Custom,
    FilePart,
    Prompt,
    ProviderResult,
    Reasoning,
    ResultPart,
    SystemTurn,
    Text,
    ToolTurn,
    Turn,
    UserTurn,
)
from tenuto.models.local.engine import Chat
from tenuto.models.local.profiles import Profile
from tenuto.models.ports import ToolSpec

DEFAULT_SYSTEM = "You are a helpful assistant."

_MARKER = re.compile(r"<\|(\w+)\|>")
_RESPONSE_END = "</tool_response>"

# Without its description of the form: a grammar holds the model to that, and a prompt is read at 100 tokens a second.
_SMOLLM2_TOOLS = """\
You are an expert in composing functions. You are given a question and a set of possible functions. Based on the \
question, you will need to make a function call to achieve the purpose.

You have access to the following tools:
<tools>{tools}</tools>"""

_HERMES_TOOLS = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


class Message(Struct, frozen=True):
    """One turn of the template; calls and results are text in it already, unless the template is the file's own."""

    role: str
    content: str
    calls: tuple[CallPart, ...] = ()
    call_id: str | None = None


def render(prompt: Prompt, profile: Profile, tools: Sequence[ToolSpec], opening: str = "") -> str | Chat:
    """The whole prompt, up to and including how the answer begins (`opening`).

    Raises:
        ModelError: A turn holds a file; these models read text only.
    """
    messages = _merged(_messages(prompt, profile))
    system = _system(prompt)
    if profile.template == "own":
        spoken = [Message("system", system)] if system else []
        return Chat([_wire(message) for message in [*spoken, *messages]], [function(tool) for tool in tools], opening)
    listed = _tool_prompt(tools, profile) if tools else ""
    # The tool prompt of SmolLM2 stands for the default system text: it is trained on the one or the other.
    default = "" if listed and profile.tool_prompt == "smollm2" else DEFAULT_SYSTEM
    head = Message("system", "\n\n".join(part for part in (system or default, listed) if part))
    return "".join(_chatml(message) for message in [head, *messages]) + f"<|im_start|>assistant\n{opening}"


def function(tool: ToolSpec) -> Mapping[str, Any]:
    """A tool in the form that chat templates expect."""
    described = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": described}


def _system(prompt: Prompt) -> str:
    inner = [turn for turn in prompt.turns if isinstance(turn, SystemTurn)]
    return _defused("\n\n".join(turn.text for turn in [*prompt.system, *inner] if turn.text))


def _tool_prompt(tools: Sequence[ToolSpec], profile: Profile) -> str:
    functions = [function(tool) for tool in tools]
    if profile.tool_prompt == "smollm2":
        return _SMOLLM2_TOOLS.format(tools=_json([each["function"] for each in functions]))
    return _HERMES_TOOLS.format(tools="\n".join(map(_json, functions)))


def _messages(prompt: Prompt, profile: Profile) -> list[Message]:
    messages: list[Message] = []
    for turn in prompt.turns:
        if profile.folds_results:
            _fold(messages, turn)
        else:
            messages += _message(turn, own=profile.template == "own")
    return messages


def _fold(messages: list[Message], turn: Turn) -> None:
    """Add a turn the way a model without tools reads it: results stand as facts before the question they answer."""
    match turn:
        case AssistantTurn() if turn.calls:
            pass
        case ToolTurn():
            facts = "\n".join(_defused(result.text) for result in turn.results)
            if messages and messages[-1].role == "user":
                question = messages.pop().content
                facts = f"{facts}\n\n{question}"
            messages.append(Message("user", facts))
        case _:
            messages += _message(turn, own=False)


def _message(turn: Turn, *, own: bool) -> list[Message]:
    match turn:
        case SystemTurn():
            return []
        case UserTurn():
            return [Message("user", "\n".join(_user_text(part) for part in turn.content))]
        case AssistantTurn() if own:
            return [Message("assistant", _defused(turn.text), turn.calls)]
        case AssistantTurn():
            return [Message("assistant", "\n".join(filter(None, map(_assistant_text, turn.content))))]
        case ToolTurn() if own:
            return [Message("tool", _defused(result.text), call_id=result.tool_call_id) for result in turn.results]
        case ToolTurn():
            return [Message("user", "\n".join(map(_response, turn.results)))]
        case _ as never:
            assert_never(never)


def _user_text(part: Text | FilePart) -> str:
    if isinstance(part, Text):
        return _defused(part.text)
    raise ModelError(
        f"Local models read text only, and a user turn holds a file of the type {part.media_type}; leave it out, or "
        "use a provider whose model reads it.",
        id="MODEL_INPUT_UNSUPPORTED",
        provider="local",
        category="USER",
        details={"media_type": part.media_type},
    )


def _assistant_text(part: AssistantPart) -> str:
    match part:
        case Text():
            return _defused(part.text)
        case Reasoning() | FilePart() | ProviderResult() | Custom():
            return ""
        case CallPart():
            call = _json({"name": part.tool_name, "arguments": _arguments(part)})
            return f"<tool_call>\n{_defused(call)}\n</tool_call>"
        case _ as never:
            assert_never(never)


def _arguments(call: CallPart) -> Any:
    return call.raw_args if call.args is None and call.raw_args is not None else call.args or {}


def _response(result: ResultPart) -> str:
    text = _defused(result.text).replace(_RESPONSE_END, "< /tool_response>")
    return f"<tool_response>\n{text}\n{_RESPONSE_END}"


def _merged(messages: Sequence[Message]) -> list[Message]:
    """Join neighbours of one role: many templates insist that roles alternate."""
    merged: list[Message] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last.role == message.role != "tool":
            content = "\n\n".join(filter(None, (last.content, message.content)))
            merged[-1] = Message(last.role, content, last.calls + message.calls)
        else:
            merged.append(message)
    return merged


def _wire(message: Message) -> Mapping[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.calls:
        wire["tool_calls"] = [
            {
                "id": call.tool_call_id,
                "type": "function",
                "function": {"name": call.tool_name, "arguments": _json(call.args or {})},
            }
            for call in message.calls
        ]
    if message.call_id is not None:
        wire["tool_call_id"] = message.call_id
    return wire


def _chatml(message: Message) -> str:
    return f"<|im_start|>{message.role}\n{message.content}<|im_end|>\n"


def _defused(text: str) -> str:
    return _MARKER.sub(r"<| \1 |>", text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
