"""The items of a response, whole and as the events that build them.

Invariant: the events of an item end with the item itself; ids follow from the serial number of the response.

Source: https://platform.openai.com/docs/api-reference/responses/object
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from tenuto.testing.provider.script import Call, Made, ProviderCall, Reply

__all__ = ["Item", "events_of", "items_of"]

Item = dict[str, Any]

_HOSTED: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "web_search": ("ws", {"action": {"type": "search", "query": ""}}),
    "file_search": ("fs", {"queries": [], "results": None}),
    "code_interpreter": ("ci", {"code": None, "container_id": "cntr_1", "outputs": None}),
    "local_shell": ("lsh", {"action": {"type": "exec", "command": [], "env": {}}}),
    "mcp_list_tools": ("mcpl", {"server_label": "server", "tools": []}),
    "mcp_approval_request": ("mcpr", {"server_label": "server", "name": "f", "arguments": "{}"}),
    "compaction": ("cmp", {"encrypted_content": "sealed"}),
}
"""By name: the prefix of ids, and what an item of the kind must have."""

_STATED = ("web_search", "file_search", "code_interpreter")
_WITHOUT_STATUS = frozenset({"mcp_list_tools", "mcp_approval_request", "compaction"})


def items_of(reply: Reply, serial: int) -> list[Item]:
    """Give the items of a reply in the order in which the model makes them."""
    items: list[Item] = []
    if reply.reasoning or reply.signature:
        items.append(_reasoning(f"rs_{serial}", reply.reasoning, reply.signature))
    items += [_reasoning(f"rs_{serial}_{place}", "", data) for place, data in enumerate(reply.redacted)]
    items += [_hosted(call, f"{serial}_{place}") for place, call in enumerate(reply.provider_calls)]
    if reply.text or reply.refusal or not (reply.calls or reply.files or items):
        items.append(_message(reply, serial))
    items += [_image(made, f"ig_{serial}_{place}") for place, made in enumerate(reply.files)]
    items += [_call(call, f"{serial}_{place}") for place, call in enumerate(reply.calls)]
    return items


def _reasoning(item_id: str, text: str, sealed: str) -> Item:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": item_id, "type": "reasoning", "summary": summary, "encrypted_content": sealed or f"sealed:{item_id}"}


def _message(reply: Reply, serial: int) -> Item:
    content: list[Item] = []
    if reply.text or not reply.refusal:
        cited = [
            {"type": "url_citation", "url": url, "title": title, "start_index": 0, "end_index": len(reply.text)}
            for url, title in reply.sources
        ]
        content.append({"type": "output_text", "text": reply.text, "annotations": cited, "logprobs": []})
    if reply.refusal:
        content.append({"type": "refusal", "refusal": reply.refusal})
    return {"id": f"msg_{serial}", "type": "message", "status": "completed", "role": "assistant", "content": content}


def _hosted(call: ProviderCall, label: str) -> Item:
    found = _HOSTED.get(call.name)
    if found is None:
        return _mcp(call, label)
    prefix, must = found
    item_id = call.id or f"{prefix}_{label}"
    kind = call.name if call.name in _WITHOUT_STATUS else f"{call.name}_call"
    given: Item = cast("Item", call.result or {})
    status = {} if call.name in _WITHOUT_STATUS else {"status": "failed" if call.is_error else "completed"}
    called = {"call_id": f"call_{label}"} if call.name == "local_shell" else {}
    return {"id": item_id, "type": kind, **status, **called, **must, **call.args, **given}


def _mcp(call: ProviderCall, label: str) -> Item:
    text = call.result if isinstance(call.result, str) else msgspec.json.encode(call.result).decode()
    failed = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": text}]}
    answer: Item = {"error": failed, "output": None} if call.is_error else {"error": None, "output": text}
    return {
        "id": call.id or f"mcp_{label}",
        "type": "mcp_call",
        "status": "failed" if call.is_error else "completed",
        "server_label": "server",
        "name": call.name,
        "arguments": msgspec.json.encode(call.args).decode(),
        "approval_request_id": None,
        **answer,
    }


def _image(made: Made, item_id: str) -> Item:
    kind = made.media_type.partition("/")[2]
    return {
        "id": item_id,
        "type": "image_generation_call",
        "status": "completed",
        "output_format": kind,
        "result": made.data,
    }


def _call(call: Call, label: str) -> Item:
    return {
        "id": f"fc_{label}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call_{label}" if call.id is None else call.id,
        "name": call.name,
        "arguments": call.arguments,
    }


def events_of(item: Item, index: int, size: int) -> Iterator[Item]:
    """Give the events that build an item, `size` characters in each delta."""
    yield {"type": "response.output_item.added", "output_index": index, "item": _begun(item)}
    at = {"item_id": item["id"], "output_index": index}
    match item["type"]:
        case "message":
            for place, part in enumerate(item["content"]):
                yield from _content(part, {**at, "content_index": place}, size)
        case "reasoning":
            for place, part in enumerate(item["summary"]):
                yield from _summary(part, {**at, "summary_index": place}, size)
        case "function_call":
            for piece in _pieces(item["arguments"], size):
                yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
            done = {"type": "response.function_call_arguments.done", "name": item["name"]}
            yield {**done, **at, "arguments": item["arguments"]}
        case kind:
            if kind.removesuffix("_call") in _STATED:
                yield from ({"type": f"response.{kind}.{state}", **at} for state in ("in_progress", "completed"))
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _begun(item: Item) -> Item:
    begun = {**item, "status": "in_progress"} if "status" in item else dict(item)
    empty: Mapping[str, Item] = {
        "message": {"content": []},
        "reasoning": {"summary": [], "encrypted_content": ""},
        "function_call": {"arguments": ""},
        "image_generation_call": {"result": None},
    }
    return begun | empty.get(item["type"], {})


def _content(part: Item, at: Item, size: int) -> Iterator[Item]:
    refused = part["type"] == "refusal"
    key, kind = ("refusal", "refusal") if refused else ("text", "output_text")
    more: Item = {} if refused else {"logprobs": []}
    empty: Item = {key: ""} if refused else {key: "", "annotations": []}
    yield {"type": "response.content_part.added", **at, "part": {**part, **empty}}
    for piece in _pieces(part[key], size):
        yield {"type": f"response.{kind}.delta", **at, "delta": piece, **more}
    for place, annotation in enumerate(part.get("annotations", ())):
        yield {
            "type": "response.output_text.annotation.added",
            **at,
            "annotation_index": place,
            "annotation": annotation,
        }
    yield {"type": f"response.{kind}.done", **at, key: part[key], **more}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary(part: Item, at: Item, size: int) -> Iterator[Item]:
    yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
    for piece in _pieces(part["text"], size):
        yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **at, "text": part["text"]}
    yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _pieces(text: str, size: int) -> Iterator[str]:
    step = size or len(text) or 1
    return (text[start : start + step] for start in range(0, len(text), step))
