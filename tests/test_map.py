"""docs/mastra-map.md against the code: what is built is there, what comes later is not, and no name is missing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tenuto
from tenuto import Agent, RequestContext, StructuredOutput, Tenuto, agent_fields, create_durable_agent, options
from tenuto import bus as bus_room
from tenuto.core import chunks, payloads
from tenuto.core.clock import SystemClock
from tenuto.core.ids import RandomIds
from tenuto.durable import DurableAgent
from tenuto.evals.completion import IsTaskCompleteDict
from tenuto.evals.declared import SamplingDict, ScorerDict
from tenuto.memory.call import MemoryDict, ThreadDict
from tenuto.memory.config import MemoryOptions
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader, system_turns
from tenuto.models.ports import NamedTool
from tenuto.options import AllOptions, ModelSettingsDict
from tenuto.read_options import build_options, normalise
from tenuto.runs.listing import Recovered, RecoveredRun
from tenuto.runs.output import RunOutput
from tenuto.runs.result import Response, Result
from tenuto.steps.delegation_hooks import DelegationDict
from tenuto.steps.iteration import Steering
from tenuto.steps.results import IterationContext, PendingCall, RequestInfo, StepResult
from tenuto.steps.tracing_options import TelemetryDict, TracingContextDict, TracingOptionsDict
from tenuto.tools import ToolAfterHookContext, ToolHookContext, ToolHooks, TransformPolicy
from tenuto.tools.hooks import BeforeAnswer, HookMetadata
from tests.mastra_names import NAMES

PAGE = Path(__file__).parent.parent / "docs" / "mastra-map.md"
ROOMS = {
    "memory", "processors", "sub-agents", "signals", "voice", "editor", "workflows", "workspace",
    "background tasks", "evented agents", "engines", "replay caches", "prepared runs", "authorisation",
}  # fmt: skip
OBJECTS: Mapping[str, Any] = {
    **{name: getattr(tenuto, name) for name in tenuto.__all__},
    **{name: getattr(bus_room, name) for name in bus_room.__all__},
    **{
        each.__name__: each
        for each in (
            BeforeAnswer, DurableAgent, HookMetadata, IterationContext, PendingCall, Recovered, RecoveredRun,
            RequestInfo, Response, Result, StepResult, ToolAfterHookContext, ToolHookContext, chunks.ToolCall,
            chunks.ToolResult, payloads.ToolCallPayload, payloads.ToolResultPayload,
        )
    },
    "RunOutput": RunOutput("run", "message", lambda reason: None),
}  # fmt: skip
KEYS: Mapping[str, Any] = {
    "options": AllOptions.__annotations__,
    "hooks": ToolHooks.__annotations__,
    "before_tool_call()": BeforeAnswer.__annotations__,
    "model_settings": ModelSettingsDict.__annotations__,
    "telemetry": TelemetryDict.__annotations__,
    "tracing_options": TracingOptionsDict.__annotations__,
    "tracing_context": TracingContextDict.__annotations__,
    "transform": TransformPolicy.__annotations__,
    "delegation": DelegationDict.__annotations__,
    "is_task_complete": IsTaskCompleteDict.__annotations__,
    "scorers": ScorerDict.__annotations__,
    "sampling": SamplingDict.__annotations__,
    "memory": MemoryDict.__annotations__,
    "thread": ThreadDict.__annotations__,
    "memory_options": MemoryOptions.__annotations__,
}
"""The keys of dicts that have a type; those of the others are tried, below."""


class Line(NamedTuple):
    """A line of the page."""

    section: str
    theirs: str
    ours: str
    built: str


def lines() -> list[Line]:
    found: list[Line] = []
    section = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif cells := re.fullmatch(r"\| `(.+)` \| `(.+)` \| (.+) \|", line):
            found.append(Line(section, *cells.groups()))
    return found


LINES = lines()


def accepts(section: str, key: str) -> bool:
    """Whether a dict without a type of its own takes `key`."""
    match section:
        case "tool_choice" if key in {"type", "tool_name"}:
            return build_options(
                normalise({"tool_choice": {"type": "tool", "tool_name": "x"}})
            ).tool_choice == NamedTool("x")
        case "tool_choice":
            return build_options({"tool_choice": key}).tool_choice == key
        case "provider_options":
            return build_options({"provider_options": {key: {"x": 1}}}).provider_options == {key: {"x": 1}}
        case "message" | "part":
            return key in message_keys()
        case "on_iteration_complete()":
            return {"continue": "go_on", "feedback": "feedback"}.get(key) in Steering.__struct_fields__
        case _:
            return False


def message_keys() -> set[str]:
    """Keys that messages take: a model gets what is in each of them."""
    part = {"type": "text", "text": "look", "provider_options": {"test": {"a": 1}}}
    image = {"type": "image", "image": "aGk=", "mime_type": "image/png"}
    reader = MessageReader(RandomIds(), SystemClock())
    turn = to_turns(reader.read([{"role": "user", "content": [part, image]}]))[0]
    assert all(value in str(turn) for value in ("look", "aGk=", "image/png"))
    assert system_turns({"role": "system", "content": "x", "provider_options": {"test": {"a": 1}}})[0].provider_options
    return {"role", "content", *part, *image}


def exists(ours: str) -> bool:
    """Whether what the page calls `ours` is in the code."""
    if match := re.fullmatch(r'([\w()]+)\["(\w+)"\]', ours):
        owner, key = match.groups()
        return key in KEYS[owner] if owner in KEYS else accepts(owner, key)
    if match := re.fullmatch(r"([\w.]+)\((\w+)=\)", ours):
        function, parameter = found(match[1]), match[2]
        return function is not None and takes(function, parameter)
    return found(ours.removesuffix("()")) is not None


def found(path: str) -> Any:
    name, *rest = path.split(".")
    value = OBJECTS.get(name)
    for attribute in rest:
        value = inspect.getattr_static(value, attribute, None)
    if value is None and rest == [*rest[:-1], "type"]:
        return OBJECTS[name].__struct_config__.tag
    return value


def takes(function: Any, parameter: str) -> bool:
    target = function.__init__ if inspect.isclass(function) else function
    parameters = inspect.signature(target).parameters
    if parameter in parameters:
        return True
    more = [each.annotation for each in parameters.values() if each.kind is inspect.Parameter.VAR_KEYWORD]
    types = {**vars(options), **vars(agent_fields), **target.__globals__}
    named = re.findall(r"Unpack\[(\w+)", " ".join(map(str, more)))
    return any(parameter in types[name].__annotations__ for name in named)


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.section}-{line.theirs}")
def test_a_line_says_what_is(line):
    if line.built == "yes":
        assert exists(line.ours)
        return
    room = line.built.removeprefix("later: ")
    assert room in ROOMS
    assert not exists(line.ours), "it is built now: say so on the page"


def test_no_name_of_the_documents_is_missing():
    listed = {section: {line.theirs for line in LINES if line.section == section} for section in NAMES}
    assert listed == {section: set(names.split()) for section, names in NAMES.items()}
    assert {line.section for line in LINES} == NAMES.keys()


OPTIONS = [line for line in LINES if line.section == "Options of a call" and line.theirs != "output"]


@pytest.mark.parametrize("line", OPTIONS, ids=lambda line: line.theirs)
def test_an_option_is_known_under_both_names_or_under_none(line):
    key = re.findall(r'"(\w+)"', line.ours)[0]
    known = line.built == "yes"
    for name in {key, line.theirs.partition(".")[2] or line.theirs}:
        if known:
            assert normalise({name: None}).keys() == {key}
        else:
            with pytest.raises(TypeError, match="Unknown option"):
                normalise({name: None})


def test_the_old_name_of_structured_output():
    with pytest.warns(DeprecationWarning, match="structured_output="):
        assert normalise({"output": int}) == {"structured_output": int}


def test_the_verbs_have_sync_twins():
    verbs = [line.ours for line in LINES if line.section == "Verbs of an agent" and line.built == "yes"]
    for verb in verbs:
        if verb.endswith("()"):
            assert hasattr(Agent, verb.removeprefix("Agent.").replace("()", "_sync"))
    assert len(verbs) > 8


def test_what_the_registry_holds_is_what_users_get():
    assert OBJECTS["Tenuto"] is Tenuto
    assert OBJECTS["StructuredOutput"] is StructuredOutput
    assert OBJECTS["create_durable_agent"] is create_durable_agent
    assert OBJECTS["RequestContext"] is RequestContext
