"""`local_model`: a `LanguageModel` over a model file on this computer.

Invariant: weights and engine are touched by the first `stream()`, never earlier, and never on the event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from msgspec import Struct

from tenuto.core.errors import ModelError
from tenuto.messages.turns import ToolTurn
from tenuto.models.local.answer import Answer
from tenuto.models.local.backend import require_installed
from tenuto.models.local.engine import Engine, engine_for
from tenuto.models.local.known import KNOWN, known, own_file
from tenuto.models.local.profiles import PROFILES, Profile, profile_of
from tenuto.models.local.prompt import render
from tenuto.models.local.weights import pull
from tenuto.models.ports import ModelRequest, ModelSettings, NamedTool, Part, RequestStart, StructuredSupport, ToolSpec

_LOG = logging.getLogger("tenuto.models.local")

CONTEXT = 4096
"""Tokens of prompt and answer together, unless the caller says otherwise: 94 MB of memory with SmolLM2."""

MAX_OUTPUT_TOKENS = 512
"""Tokens of an answer, unless the settings say otherwise: about ten seconds."""


def local_model(name: str, *, context: int = CONTEXT) -> LocalModel:
    """A model that runs in this process. Nothing is fetched or loaded before its first `stream()`.

    Args:
        name: A known model (`smollm2`), fetched and verified at its first use, or the path of a GGUF file.
        context: Tokens of prompt and answer together; more cost memory.

    Raises:
        ConfigurationError: The extra `local` is missing, or the name is neither known nor a GGUF file.
    """
    require_installed()
    if name in KNOWN:
        known(name, "chat")
        return LocalModel(name, lambda: pull(name), PROFILES[name], context=context)
    path = own_file(name, "chat")
    return LocalModel(path.name, lambda: path, profile_of(path), context=context)


class LocalModel:
    """A `LanguageModel` whose tool calls, prompt and grammar are made here; the engine only completes text."""

    def __init__(
        self,
        model_id: str,
        locate: Callable[[], Path],
        profile: Profile,
        *,
        context: int = CONTEXT,
        engines: Callable[[Path, int], Engine] = engine_for,
        new_id: Callable[[], str] = lambda: f"call_{uuid4().hex}",
    ) -> None:
        """See `local_model`.

        Args:
            model_id: The name in messages and metadata.
            locate: Returns the model file; it may fetch it, and is called in a worker thread, once.
            profile: What the model can do.
            context: Tokens of prompt and answer together.
            engines: Where engines come from.
            new_id: Makes ids of tool calls.
        """
        self._model_id = model_id
        self._locate = locate
        self._profile = profile
        self._context = context
        self._engines = engines
        self._new_id = new_id
        self._path: Path | None = None
        self._said_no_calls = False

    def __repr__(self) -> str:
        return f"<LocalModel {self._model_id}>"

    @property
    def provider(self) -> str:
        """See `LanguageModel.provider`."""
        return "local"

    @property
    def model_id(self) -> str:
        """See `LanguageModel.model_id`."""
        return self._model_id

    @property
    def structured(self) -> StructuredSupport:
        """By a grammar; a model that calls tools by itself cannot be held to one while it may."""
        return "native-alone" if self._profile.calls_tools else "native"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Sequence[Part], None]:
        """See `LanguageModel.stream`. Closing it, or an abort, stops the engine at its next token.

        Raises:
            ConfigurationError: The engine or the model file cannot be used.
            ModelError: The weights cannot be fetched, the prompt is too long, a forced call was cut by
                `max_output_tokens`, or the engine failed.
        """
        plan = self._plan(request)
        options = _options(request, self._profile)
        shown = render(request.prompt, self._profile, plan.tools)
        body = {"prompt": shown if isinstance(shown, str) else shown.messages, **options}
        yield [RequestStart(body, plan.warnings)]
        if self._path is None:
            self._path = await asyncio.to_thread(self._locate)
        answer = Answer(
            self._engines(self._path, self._context),
            request.prompt,
            plan.tools,
            model_id=self._model_id,
            profile=self._profile,
            options=options,
            abort=request.abort,
            new_id=self._new_id,
            form=None if plan.tools else request.response_format,
        )
        async with aclosing(answer.forced(plan.forced) if plan.forced else answer.free()) as parts:
            async for batch in parts:
                yield batch

    def _plan(self, request: ModelRequest) -> _Plan:
        """What this model can do of what is asked, and what the caller should know about the rest."""
        choice, tools, warnings = request.tool_choice, request.tools, _unsupported(request.settings)
        answered = bool(request.prompt.turns) and isinstance(request.prompt.turns[-1], ToolTurn)
        if not tools or choice == "none":
            return _Plan(warnings=warnings)
        if self._profile.folds_results and answered:
            return _Plan(warnings=warnings if choice == "auto" else (*warnings, self._once_a_turn()))
        if choice != "auto":
            return _Plan(tools, _forced(tools, choice), warnings)
        if self._profile.calls_tools:
            return _Plan(tools, (), warnings)
        return _Plan(warnings=(*warnings, self._no_calls()))

    def _once_a_turn(self) -> Mapping[str, str]:
        return _warning(
            "toolChoice",
            f"local/{self._model_id} answers in text once it has a result; the next user turn can force a call again.",
        )

    def _no_calls(self) -> Mapping[str, str]:
        details = (
            f"local/{self._model_id} never calls a tool by itself, so it was asked without tools; force a call with "
            "tool_choice, or use a larger model."
        )
        if not self._said_no_calls:
            self._said_no_calls = True
            _LOG.warning("%s", details)
        return _warning("toolChoice", details)


class _Plan(Struct, frozen=True):
    """Which tools the prompt lists, which of them must be called (one of `forced`), and what could not be honoured."""

    tools: tuple[ToolSpec, ...] = ()
    forced: tuple[str, ...] = ()
    warnings: tuple[Mapping[str, str], ...] = ()


def _forced(tools: Sequence[ToolSpec], choice: Literal["auto", "none", "required"] | NamedTool) -> tuple[str, ...]:
    names = tuple(tool.name for tool in tools)
    if not isinstance(choice, NamedTool):
        return names
    if choice.tool_name in names:
        return (choice.tool_name,)
    raise ModelError(
        f"tool_choice names the tool {choice.tool_name!r}, which this request does not offer; it offers "
        f"{', '.join(names)}.",
        id="MODEL_TOOL_CHOICE_UNKNOWN",
        provider="local",
        category="USER",
    )


def _options(request: ModelRequest, profile: Profile) -> dict[str, Any]:
    """Sampling and limits by the engine's names; `provider_options["local"]` goes in unchanged."""
    settings = request.settings
    named = {
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "presence_penalty": settings.presence_penalty,
        "frequency_penalty": settings.frequency_penalty,
        "seed": settings.seed,
    }
    return {
        "temperature": settings.temperature or 0.0,
        "max_tokens": MAX_OUTPUT_TOKENS if settings.max_output_tokens is None else settings.max_output_tokens,
        "stop": [*(settings.stop_sequences or ()), *(["<|im_end|>"] if profile.template == "chatml" else [])],
        **{name: value for name, value in named.items() if value is not None},
        **(request.provider_options or {}).get("local", {}),
    }


def _unsupported(settings: ModelSettings) -> tuple[Mapping[str, str], ...]:
    if settings.reasoning is None:
        return ()
    return (_warning("reasoning", "Local models have no setting for reasoning."),)


def _warning(setting: str, details: str) -> Mapping[str, str]:
    return {"type": "unsupported-setting", "setting": setting, "details": details}
