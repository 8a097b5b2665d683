"""The kinds of items beside text, reasoning and functions: who acts on each, and how it is answered.

Invariant: an item that waits for an answer is a call of ours and gets one in its own form; any other is kept as it
came and sent back unchanged, so an unknown kind is never lost.

Source: OpenAI API reference, "Responses", input and output items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from tenuto.messages.turns import ResultPart

Item = Mapping[str, Any]

_BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
"""One transparent pixel: the answer to a computer call can be nothing but a picture."""

_YES = frozenset({"true", "yes", "approved", '{"approve":true}', '{"approved":true}'})


class Hosted(NamedTuple):
    """A tool the provider runs itself; `called` and `answered` are the keys that hold arguments and result."""

    name: str
    called: tuple[str, ...]
    answered: tuple[str, ...]


HOSTED: Mapping[str, Hosted] = {
    "web_search_call": Hosted("web_search", ("action",), ("status", "action", "results")),
    "file_search_call": Hosted("file_search", ("queries",), ("status", "queries", "results")),
    "code_interpreter_call": Hosted("code_interpreter", ("code", "container_id"), ("status", "outputs")),
    "image_generation_call": Hosted(
        "image_generation", ("revised_prompt",), ("status", "revised_prompt", "size", "quality", "background", "error")
    ),
    "mcp_call": Hosted("mcp", ("arguments",), ("server_label", "output", "error")),
}
"""By the kind of item."""

CLIENT: Mapping[str, str] = {
    "custom_tool_call": "custom",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
    "mcp_approval_request": "mcp_approval_request",
}
"""Items that we must answer, with the name of the tool that answers."""


def is_ours(item: Item) -> bool:
    """Whether the item waits for an answer of ours; a shell in a container is the provider's own."""
    kind = item.get("type")
    if kind == "shell_call":
        environment: Any = item.get("environment")
        return not isinstance(environment, Mapping) or cast("Item", environment).get("type") == "local"
    return kind in CLIENT


def client_args(item: Item) -> Any:
    """What a tool of ours is called with."""
    match item.get("type"):
        case "custom_tool_call":
            return {"input": item.get("input", "")}
        case "apply_patch_call":
            return item.get("operation")
        case "mcp_approval_request":
            return {key: item.get(key) for key in ("server_label", "name", "arguments")}
        case "computer_call" if "action" not in item:
            return {"actions": item.get("actions")}
        case _:
            return item.get("action")


def hosted_args(item: Item, hosted: Hosted) -> Any:
    """What the provider called its tool with."""
    if len(hosted.called) == 1 and (value := item.get(hosted.called[0])) is not None:
        if isinstance(value, Mapping):
            return cast("Item", value)
        if hosted.name == "mcp" and isinstance(value, str):
            return _parsed(value)
    return {key: item[key] for key in hosted.called if item.get(key) is not None}


def _parsed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return {"arguments": text}


def output_item(result: ResultPart, call: Item, parts: Sequence[Item]) -> Mapping[str, Any]:
    """The answer to a call in the form that its kind demands.

    Args:
        result: The answer.
        call: The item of the call, empty for a function.
        parts: The answer as content, when it is more than text.
    """
    call_id = result.tool_call_id
    match call.get("type"):
        case "custom_tool_call":
            return {"type": "custom_tool_call_output", "call_id": call_id, "output": parts or result.text}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": result.text}
        case "shell_call":
            return {"type": "shell_call_output", "call_id": call_id, "output": [_shell_output(result)]}
        case "apply_patch_call":
            status = "failed" if result.is_error else "completed"
            return {"type": "apply_patch_call_output", "call_id": call_id, "status": status, "output": result.text}
        case "computer_call":
            return _screenshot(result, call, parts)
        case "mcp_approval_request":
            return _decision(result, call)
        case _:
            return {"type": "function_call_output", "call_id": call_id, "output": parts or result.text}


def _shell_output(result: ResultPart) -> Mapping[str, Any]:
    out, err = ("", result.text) if result.is_error else (result.text, "")
    return {"stdout": out, "stderr": err, "outcome": {"type": "exit", "exit_code": int(bool(result.is_error))}}


def _screenshot(result: ResultPart, call: Item, parts: Sequence[Item]) -> Mapping[str, Any]:
    text = result.text.strip()
    shown = (part["image_url"] for part in parts if "image_url" in part)
    url = next(shown, text if text.startswith(("data:image/", "https://", "http://")) else _BLANK)
    item = {
        "type": "computer_call_output",
        "call_id": result.tool_call_id,
        "output": {"type": "computer_screenshot", "image_url": url},
    }
    checks = call.get("pending_safety_checks")
    return item | {"acknowledged_safety_checks": checks} if checks and not result.is_error else item


def _decision(result: ResultPart, call: Item) -> Mapping[str, Any]:
    approve = not result.is_error and result.text.strip().lower().replace(" ", "") in _YES
    item = {"type": "mcp_approval_response", "approval_request_id": call.get("id"), "approve": approve}
    return item if approve else item | {"reason": result.text}
