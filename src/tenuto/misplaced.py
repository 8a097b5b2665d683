"""What somebody meant by an option that is none: where it goes here, for those who know it from elsewhere.

Invariant: it only ever adds a remedy to an error; nothing that is not an option becomes one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tenuto.core.option_keys import spellings, unknown_key
from tenuto.models.settings import SETTINGS

_SETTINGS = {
    **SETTINGS,
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "stop": "stop_sequences",
    "reasoning_effort": "reasoning",
}
_OPTIONS = {
    **dict.fromkeys(("system_prompt", "system_message", "prompt"), "instructions"),
    **dict.fromkeys(
        ("output_type", "output_schema", "result_type", "response_format", "response_model", "schema"),
        "structured_output",
    ),
    **dict.fromkeys(("max_turns", "max_iterations", "recursion_limit"), "max_steps"),
}
_HISTORY = ("message_history", "chat_history", "history")
_OF_AGENT = {
    "llm": "model",
    "system_prompt": "instructions",
    "system_message": "instructions",
    "prompt": "instructions",
}


def meant(key: str) -> str | None:
    """Where `key`, which is no option of a call, goes in a call; None when nobody knows."""
    if key in _SETTINGS:
        name = _SETTINGS[key]
        return f"write model_settings={{{name!r}: {'{...}' if name == 'timeout' else '...'}}}."
    if key in _OPTIONS:
        return f"write {_OPTIONS[key]}=..."
    if key == "tools":
        return "tools are the agent's, Agent(tools=[...]); further ones for a call are toolsets={'name': [...]}."
    if key in _HISTORY:
        return "the messages are one list, earlier ones first: [*result.messages, 'And now?']."
    return None


def unknown_argument(key: str, known: Iterable[str], options: Mapping[str, str]) -> TypeError:
    """The error of an argument of `Agent` that is not `known`; `options` are both spellings of those of a call."""
    return TypeError(unknown_key(key, spellings(known), "argument of Agent", _meant_of_agent(options)))


def _meant_of_agent(options: Mapping[str, str]) -> Callable[[str], str | None]:
    def meant_here(key: str) -> str | None:
        if key in _OF_AGENT:
            return f"write {_OF_AGENT[key]}=..."
        if (name := options.get(key) or _OPTIONS.get(key)) is not None:
            return f"an option of calls stands in default_options={{{name!r}: ...}}."
        if key in _SETTINGS:
            return f"write default_options={{'model_settings': {{{_SETTINGS[key]!r}: ...}}}}."
        return None

    return meant_here
