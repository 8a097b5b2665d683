"""How much a model is to think: `thinking`, `effort` and `max_tokens`, fitted to what the model takes.

Invariant: an explicit option is kept where the model takes it, put in the model's own form where it has another one,
and left out with a warning where it has none; a budget is at least 1024 tokens and less than `max_tokens`.

Source: Anthropic documentation: "Thinking", "Extended thinking", "Adaptive thinking", "Effort".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.models.anthropic.options import Options
from tenuto.models.anthropic.traits import EFFORTS, Traits
from tenuto.models.anthropic.trouble import Warnings, changed, left_out, refused
from tenuto.models.ports import ModelSettings

LEAST_BUDGET = 1024
INTERLEAVED = "interleaved-thinking-2025-05-14"
_BUDGETS: Mapping[str, int] = {
    "minimal": 1024, "low": 4096, "medium": 10_240, "high": 24_576, "xhigh": 32_000, "max": 32_000,
}  # fmt: skip


class Thinking(Struct, frozen=True):
    """What is sent.

    Attributes:
        config: The request's `thinking`.
        effort: Of its `output_config`.
        asked: The caller gave `thinking` itself, rather than a level of reasoning.
    """

    config: Mapping[str, Any] | None = None
    effort: str | None = None
    asked: bool = False

    @property
    def on(self) -> bool:
        """Whether thinking is switched on."""
        return self.config is not None and self.config.get("type") in {"enabled", "adaptive"}

    @property
    def budget(self) -> int | None:
        """Tokens to think with, when that is a number."""
        config = self.config or {}
        return config.get("budget_tokens") if config.get("type") == "enabled" else None


class Thinker:
    """Decides for one request; what it changes goes into `warnings`."""

    __slots__ = ("_provider", "_traits", "_warnings")

    def __init__(self, provider: str, traits: Traits, warnings: Warnings) -> None:
        self._provider = provider
        self._traits = traits
        self._warnings = warnings

    def decide(self, options: Options, settings: ModelSettings, *, forced: bool, unthought: bool) -> Thinking:
        """What to send.

        Args:
            options: Win over settings.
            settings: Have a level of reasoning.
            forced: The model must call a tool.
            unthought: The request answers calls that the model made without thinking first.

        Raises:
            ModelError: The caller asked for two things that exclude each other.
        """
        if options.thinking is not None and not isinstance(options.thinking, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise refused(self._provider, f"thinking is an object with a type, not {options.thinking!r}.")
        if options.thinking is not None or options.effort is not None:
            wanted = Thinking(options.thinking, options.effort, asked=options.thinking is not None)
        else:
            wanted = self._of_level(settings.reasoning)
        if self._traits.claude:
            wanted = self._fit_effort(self._fit_config(wanted))
        if wanted.budget is not None:
            self._check_budget(wanted.budget)
            if unthought:
                self._warnings.append(
                    changed("This step does not think: the calls it answers were made without thinking.")
                )
                wanted = replace(wanted, config=None)
        return self._fit_force(wanted) if forced else wanted

    def _of_level(self, level: str | None) -> Thinking:
        traits = self._traits
        if level is None or level == "provider-default":
            return Thinking()
        if level == "none":
            return self._off() if traits.thinks or not traits.claude else Thinking()
        if level not in _BUDGETS:
            levels = ", ".join(("none", *_BUDGETS))
            raise refused(self._provider, f"The level of reasoning {level!r} is none of {levels}.")
        if traits.thinking == "none":
            self._warnings.append(left_out("reasoning", "This model does not reason."))
            return Thinking()
        if traits.thinking == "budget":
            return Thinking({"type": "enabled", "budget_tokens": _BUDGETS[level]})
        return Thinking({"type": "adaptive"}, "low" if level == "minimal" else level)

    def _off(self) -> Thinking:
        if self._traits.off == "never":
            self._warnings.append(left_out("reasoning", "This model always reasons; it is asked for the least effort."))
            return Thinking(None, EFFORTS[0])
        return Thinking({"type": self._traits.off})

    def _fit_config(self, wanted: Thinking) -> Thinking:
        """The config in the form that the model takes."""
        traits, config = self._traits, wanted.config
        match (config or {}).get("type"):
            case "enabled" | "adaptive" if traits.thinking == "none":
                self._warnings.append(left_out("thinking", "This model does not think; thinking was left out."))
                return replace(wanted, config=None)
            case "enabled" if traits.thinking == "adaptive":
                self._warnings.append(changed("This model takes no budget for thinking; it thinks adaptively."))
                kept = {name: value for name, value in (config or {}).items() if name == "display"}
                return replace(wanted, config={"type": "adaptive", **kept})
            case "adaptive" if traits.thinking == "budget":
                budget = _BUDGETS.get(wanted.effort or "medium", _BUDGETS["medium"])
                self._warnings.append(changed(f"This model does not think adaptively; its budget is {budget} tokens."))
                return replace(wanted, config={"type": "enabled", "budget_tokens": budget})
            case "enabled" if "budget_tokens" not in (config or {}):
                self._warnings.append(changed(f"thinking has no budget_tokens; it is {LEAST_BUDGET}."))
                return replace(wanted, config={**(config or {}), "budget_tokens": LEAST_BUDGET})
            case "disabled" if traits.off != "disabled":
                off = self._off()
                return replace(off, effort=wanted.effort or off.effort)
            case _:
                return wanted

    def _fit_effort(self, wanted: Thinking) -> Thinking:
        effort, known = wanted.effort, self._traits.efforts
        if effort is None or effort in known or effort not in EFFORTS:
            return wanted
        if not known:
            self._warnings.append(left_out("effort", "This model has no levels of effort; effort was left out."))
            return replace(wanted, effort=None)
        lower = [each for each in known if EFFORTS.index(each) <= EFFORTS.index(effort)]
        nearest = lower[-1]
        self._warnings.append(changed(f"This model has no effort {effort!r}; it is asked for {nearest!r}."))
        return replace(wanted, effort=nearest)

    def _check_budget(self, budget: object) -> None:
        if not isinstance(budget, int) or isinstance(budget, bool) or budget < LEAST_BUDGET:
            raise refused(
                self._provider,
                f"thinking.budget_tokens is {budget!r}; it must be a number of at least {LEAST_BUDGET}.",
            )

    def _fit_force(self, wanted: Thinking) -> Thinking:
        if not self._traits.forced:
            raise refused(
                self._provider,
                "This model cannot be made to call a tool: its tool_choice is 'auto' or 'none'. Say in the "
                "instructions that it must, or choose another model.",
            )
        if not wanted.on or self._traits.thinking == "adaptive":
            return wanted
        if wanted.asked:
            raise refused(
                self._provider,
                "A tool cannot be forced while the model thinks. Leave out thinking, or set tool_choice to 'auto'.",
            )
        self._warnings.append(left_out("reasoning", "A tool is forced, so the model does not reason first."))
        return Thinking()

    def max_tokens(self, options: Options, settings: ModelSettings, thinking: Thinking, most: int) -> int:
        """The limit of the answer, thinking included.

        Args:
            options: Win over settings.
            settings: Their limit is of the answer without thinking.
            thinking: As it was decided.
            most: What the model can do.

        Raises:
            ModelError: It leaves no room beside the budget for thinking.
        """
        budget = thinking.budget or 0
        given = options.body.get("max_tokens")
        if given is None:
            given = most if settings.max_output_tokens is None else settings.max_output_tokens + budget
            given = given if self._traits.claude else max(given, budget + LEAST_BUDGET)
        if self._traits.claude and isinstance(given, int) and given > most:
            self._warnings.append(changed(f"max_tokens {given} is more than this model's {most}; it is {most}."))
            given = most
        if budget and given <= budget and INTERLEAVED not in options.betas:
            raise refused(
                self._provider,
                f"thinking.budget_tokens is {budget} and max_tokens {given}: thinking is part of the answer, so the "
                "budget must be the smaller one.",
            )
        return given
