"""The body of a messages request.

Invariant: `stream`, `messages`, `system` and `tools` are ours; any other key can be set by the caller's provider
options, which win over settings. What the model would refuse is fitted, with a warning, or raises before anything is
sent.

Source: Anthropic API reference, "Create a message"; "Beta headers".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from tenuto.messages.turns import AssistantTurn, CallPart, Custom, Prompt, Reasoning, ToolTurn
from tenuto.models.anthropic.marks import MARK, MOST, Raws, fit_marks
from tenuto.models.anthropic.options import Options
from tenuto.models.anthropic.schema import strict_schema
from tenuto.models.anthropic.thinking import Thinker, Thinking
from tenuto.models.anthropic.tools import Tools, write_choice
from tenuto.models.anthropic.traits import Traits
from tenuto.models.anthropic.trouble import Warnings, changed, left_out, refused
from tenuto.models.ports import ModelRequest, ModelSettings

CONTAINER = "container"
"""Kind of the custom part that remembers which container the provider's code ran in."""

_GO_ON = msgspec.Raw(b'{"role":"user","content":[{"type":"text","text":"Continue."}]}')
_SKILLS = ("code-execution-2025-08-25", "skills-2025-10-02", "files-api-2025-04-14")
_FEATURES: Mapping[str, tuple[str, ...]] = {
    "context_management": ("context-management-2025-06-27",),
    "mcp_servers": ("mcp-client-2025-04-04",),
}
_encode = msgspec.json.Encoder().encode


class Body:
    """Writes one request; afterwards `warnings` and `betas` say what else there is to send and to tell."""

    __slots__ = ("_most", "_options", "_provider", "_request", "_traits", "betas", "warnings")

    def __init__(self, provider: str, request: ModelRequest, options: Options, traits: Traits, most: int) -> None:
        self._provider = provider
        self._request = request
        self._options = options
        self._traits = traits
        self._most = most
        self.warnings: Warnings = []
        self.betas: list[str] = list(options.betas)

    def write(self, model_id: str, system: Raws, messages: Raws, tools: Tools) -> bytes:
        """The bytes of the request.

        Raises:
            ModelError: It asks for what the model cannot do.
        """
        request, options = self._request, self._options
        listed, previews = tools.encode(request, options, self._traits, self.warnings)
        self.betas += previews
        choice = write_choice(request.tool_choice, options) if listed else None
        forced = choice is not None and choice["type"] in {"any", "tool"}
        thinker = Thinker(self._provider, self._traits, self.warnings)
        unthought = _is_unthought(request.prompt)
        thinking = thinker.decide(options, request.settings, forced=forced, unthought=unthought)
        body: dict[str, Any] = {
            "model": model_id,
            "stream": True,
            "max_tokens": thinker.max_tokens(options, request.settings, thinking, self._most),
            **self._settings(thinking),
        }
        if choice is not None:
            body["tool_choice"] = choice
        if thinking.config is not None:
            body["thinking"] = thinking.config
        body.update({name: value for name, value in options.body.items() if name != "max_tokens"})
        self._output(body, thinking)
        self._features(body, request)
        return self._joined(body, system, self._turns(messages), listed)

    def _joined(self, body: dict[str, Any], system: Raws, messages: Raws, tools: Raws) -> bytes:
        """All of it, with no more cache markers than the provider takes; nearly always it has no more."""
        taken = 1 if body.get("cache_control") else 0
        written = self._written(body, system, messages, tools)
        if written.count(MARK) <= MOST:
            return written
        tools, system, messages = fit_marks(tools, system, messages, self.warnings, taken=taken)
        return self._written(body, system, messages, tools)

    def _written(self, body: dict[str, Any], system: Raws, messages: Raws, tools: Raws) -> bytes:
        if tools:
            body["tools"] = tools
        else:
            body.pop("tool_choice", None)  # refused on a step that offers no tools
        if system:
            body["system"] = system
        body["messages"] = messages
        return _encode(body)

    def _turns(self, messages: Raws) -> Raws:
        """The history from a user's word to one that the model may answer."""
        turns = list(messages)
        if not turns or not bytes(turns[0]).startswith(b'{"role":"user"'):
            turns.insert(0, _GO_ON)
        last = self._request.prompt.turns[-1] if self._request.prompt.turns else None
        if isinstance(last, AssistantTurn) and not _is_paused(last) and bytes(turns[-1]).startswith(b'{"role":"assis'):
            if self._traits.prefill:
                turns[-1] = _without_blanks(turns[-1])
            else:
                self.warnings.append(changed("This model does not go on with its own words; it is told to continue."))
                turns.append(_GO_ON)
        return turns

    def _settings(self, thinking: Thinking) -> dict[str, Any]:
        settings = self._request.settings
        named = self._sampling(settings, thinking)
        for name in ("presence_penalty", "frequency_penalty", "seed"):
            if getattr(settings, name) is not None:
                self._leave_out(name, f"{self._provider} has no {name}.")
        if settings.stop_sequences:
            said = [each for each in settings.stop_sequences if each.strip()]
            if len(said) < len(settings.stop_sequences):
                self._leave_out("stop_sequences", "A stop sequence of nothing but blanks was left out.")
            named["stop_sequences"] = said or None
        return {name: value for name, value in named.items() if value is not None}

    def _sampling(self, settings: ModelSettings, thinking: Thinking) -> dict[str, Any]:
        named: dict[str, Any] = {name: getattr(settings, name) for name in ("temperature", "top_p", "top_k")}
        if self._traits.sampling == "none":
            self._drop(named, named, "This model takes no {}.")
        elif thinking.on and self._traits.claude:
            narrow = named["top_p"] is None or 0.95 <= named["top_p"] <= 1
            self._drop(
                named, ("temperature", "top_k", *(() if narrow else ("top_p",))), "A model that thinks takes no {}."
            )
        elif self._traits.sampling == "one" and named["temperature"] is not None:
            self._drop(named, ("top_p",), "This model takes temperature or {}, not both.")
        if (warmth := named["temperature"]) is not None and self._traits.claude and not 0 <= warmth <= 1:
            named["temperature"] = min(max(warmth, 0), 1)
            self.warnings.append(changed(f"temperature {warmth} is not between 0 and 1; it is {named['temperature']}."))
        return named

    def _drop(self, named: dict[str, Any], names: Iterable[str], why: str) -> None:
        for name in tuple(names):
            if named[name] is not None:
                named[name] = None
                self._leave_out(name, f"{why.format(name)} It was left out.")

    def _leave_out(self, name: str, details: str) -> None:
        first, *rest = name.split("_")
        self.warnings.append(left_out(first + "".join(part.title() for part in rest), details))

    def _output(self, body: dict[str, Any], thinking: Thinking) -> None:
        """Effort, task budget and the form of the answer, which all stand in `output_config`."""
        config: dict[str, Any] = {**(body.get("output_config") or {})}
        if thinking.effort is not None:
            config["effort"] = thinking.effort
        if self._options.task_budget is not None:
            config["task_budget"] = self._options.task_budget
            self.betas.append("task-budgets-2026-03-13")
        if self._request.response_format is not None:
            config["format"] = self._format(self._request.response_format.schema)
        if config:
            body["output_config"] = config

    def _format(self, schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
        if schema is None or not self._traits.structured:
            why = "JSON without a schema is not something it can be held to" if schema is None else "it cannot"
            raise refused(
                self._provider,
                f"The model was to be held to a JSON schema, but {why}. Let the answer come as a tool's arguments, or "
                "put the schema in the prompt.",
            )
        if self._options.structured_output_mode == "jsonTool":
            details = "A model that can be held to a schema is held to it, not made to call a tool."
            self.warnings.append(left_out("structuredOutputMode", details))
        return {"type": "json_schema", "schema": strict_schema(schema)}

    def _features(self, body: dict[str, Any], request: ModelRequest) -> None:
        for name, betas in _FEATURES.items():
            if body.get(name):
                self.betas += betas
        management: Mapping[str, Any] = body.get("context_management") or {}
        edits = cast("Sequence[Mapping[str, Any]]", management.get("edits") or ())
        if any(edit.get("type") == "compact_20260112" for edit in edits):
            self.betas.append("compact-2026-01-12")
        if body.get("speed") == "fast":
            self.betas.append("fast-mode-2026-02-01")
        container: Any = body.get("container")
        if isinstance(container, Mapping) and cast("Mapping[str, Any]", container).get("skills"):
            self.betas += _SKILLS
        runs_code = any(tool.id.partition(".")[2].startswith("code_execution") for tool in request.provider_tools)
        if container is None and runs_code and (known := _container(request.prompt, self._provider)) is not None:
            body["container"] = known


def _is_unthought(prompt: Prompt) -> bool:
    """Whether the request answers calls of a step that did not begin with reasoning."""
    if not prompt.turns or not isinstance(prompt.turns[-1], ToolTurn):
        return False
    said = next((turn for turn in reversed(prompt.turns) if not isinstance(turn, ToolTurn)), None)
    if not isinstance(said, AssistantTurn) or not said.content:
        return False
    first = said.content[0]
    return not (isinstance(first, Reasoning) and (first.signature or first.redacted))


def _is_paused(turn: AssistantTurn) -> bool:
    """Whether the provider's own tools were at work, so that the answer goes on where it was."""
    return any(isinstance(part, CallPart) and part.provider_executed for part in turn.content)


def _container(prompt: Prompt, provider: str) -> str | None:
    """The container in which the provider's code ran last."""
    kind = f"{provider}.{CONTAINER}"
    for turn in reversed(prompt.turns):
        for part in turn.content if isinstance(turn, AssistantTurn) else ():
            if isinstance(part, Custom) and part.kind == kind:
                kept: Mapping[str, Any] = (part.provider_metadata or {}).get(provider) or {}
                return kept.get("id")
    return None


def _without_blanks(raw: msgspec.Raw) -> msgspec.Raw:
    """A last message of the model without the blanks at its end, which are refused."""
    message = msgspec.json.decode(raw)
    last = message["content"][-1]
    if last["type"] == "text":
        last["text"] = last["text"].rstrip()
    return msgspec.Raw(_encode(message))
