"""Working memory: what an agent keeps of a person or a conversation, and how it is told to keep it.

Invariant: a text is replaced whole; of data, only what a change names changes: null deletes, lists are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from tenuto.core.payloads import Json
from tenuto.memory.config import WorkingMemory
from tenuto.messages.tags import tagged

TOOL = "updateWorkingMemory"
"""The name of the tool that writes it."""

TEMPLATE = """\
# About the user
- **First name**:
- **Last name**:
- **Location**:
- **Occupation**:
- **Interests**:
- **Goals**:
- **Events**:
- **Facts**:
- **Projects**:
"""
"""The form of a text when nobody gives another one."""

_KEEP = (
    "You have a working memory: what you know for good about {whom}. It is given below and comes back in every "
    "conversation it belongs to. Whenever you learn something that fits into it, or that changes what it says, call "
    "the tool {tool} {how}. Do it without asking and without mentioning it. Call it only when something has changed."
)
_TEXT = "with the whole text, in the form of the template: what you leave out is forgotten"
_DATA = (
    "with the fields that have changed: others stay as they are, null deletes a field, a list replaces the one there"
)
_READ = "You have a working memory: what you know for good about {whom}. You can read it and not change it."


def merged(before: Json, change: Mapping[str, Any]) -> dict[str, Any]:
    """Data with a change applied, at every depth: null deletes, lists and everything else are replaced."""
    after = dict(cast("Mapping[str, Any]", before)) if isinstance(before, Mapping) else {}
    for name, value in change.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, Mapping):
            after[name] = merged(after.get(name), cast("Mapping[str, Any]", value))
        else:
            after[name] = value
    return after


def instructions(config: WorkingMemory, value: Json, schema: Mapping[str, Any] | None, *, writes: bool) -> str:
    """The system message: what is known, its form, and how to change it.

    Args:
        config: Which kind.
        value: What is stored; None: nothing yet.
        schema: The JSON Schema of data.
        writes: Whether the tool is there.
    """
    whom = "this user" if config.scope == "resource" else "this conversation"
    how = _TEXT if schema is None else _DATA
    head = _KEEP.format(whom=whom, tool=TOOL, how=how) if writes else _READ.format(whom=whom)
    if schema is None:
        form, known = ("template", config.template or TEMPLATE), value if isinstance(value, str) else ""
    else:
        form, known = ("schema", json.dumps(schema)), "{}" if value is None else json.dumps(value, ensure_ascii=False)
    shape = f"\n\n{tagged(f'working_memory_{form[0]}', form[1].strip())}" if writes else ""
    return f"{head}{shape}\n\n{tagged('working_memory', known.strip())}"
