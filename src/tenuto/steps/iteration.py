"""`on_iteration_complete`: tells a callback of each finished step, and takes what it says of the next one.

Invariant: the verdict is in the journal before anything follows from it; a durable run is observed, never steered; a
callback that fails, or that says something else than it may, is logged and changes nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from tenuto.core.option_keys import renamed, spellings
from tenuto.steps.callbacks import call_back
from tenuto.steps.fold import draft_parts, step_result
from tenuto.steps.results import IterationCall, IterationContext, IterationResult
from tenuto.steps.transcript import all_messages, own_messages

if TYPE_CHECKING:
    from tenuto.steps.results import StepResult
    from tenuto.steps.run import Run, StepDraft

_KEYS = spellings(("continue", "feedback"))


class Steering(Struct, frozen=True):
    """What a callback wants: `go_on` as it said, None when it said nothing; `feedback` for the model."""

    go_on: bool | None = None
    feedback: str | None = None


async def complete_iteration(run: Run, draft: StepDraft, *, final: bool) -> Steering:
    """Tell `on_iteration_complete` of the step `draft`; `final` says whether it is the last one unless steered."""
    callback = run.options.on_iteration_complete
    if callback is None:
        return Steering()

    async def said(context: IterationContext) -> Steering:
        given = callback(context)
        return _read(await given if inspect.isawaitable(given) else given)

    found = await call_back(said, _context(run, draft, final=final), "on_iteration_complete")
    return found if found is not None and run.steerable else Steering()


def _read(given: object) -> Steering:
    if given is None:
        return Steering()
    if not isinstance(given, Mapping):
        message = f"on_iteration_complete returns None or a dict, not {type(given).__name__}."
        raise TypeError(message)
    said = renamed(cast("Mapping[str, Any]", given), _KEYS, "key from on_iteration_complete")
    go_on, feedback = said.get("continue"), said.get("feedback")
    if not isinstance(go_on, bool | None):
        message = f"'continue' is True or False, not {go_on!r}."
        raise TypeError(message)
    if not isinstance(feedback, str | None):
        message = f"'feedback' is text, not {type(feedback).__name__}."
        raise TypeError(message)
    return Steering(go_on, feedback or None)


def _context(run: Run, draft: StepDraft, *, final: bool) -> IterationContext:
    step = step_result(run, draft, draft.said.reason)
    return IterationContext(
        iteration=len(run.steps) + 1,
        max_iterations=run.options.max_steps,
        text=step.text,
        tool_calls=tuple(
            IterationCall(call.payload.tool_call_id, call.payload.tool_name, call.payload.args)
            for call in step.tool_calls
        ),
        tool_results=_results(step),
        is_final=final,
        finish_reason=step.finish_reason,
        run_id=run.run_id,
        agent_id=run.definition.id,
        agent_name=run.definition.name,
        messages=all_messages(run, own_messages(run, draft_parts(run, draft))),
        thread_id=run.thread_id,
        resource_id=run.resource_id,
    )


def _results(step: StepResult) -> tuple[IterationResult, ...]:
    payloads = [chunk.payload for chunk in step.tool_results]
    return tuple(
        IterationResult(each.tool_call_id, each.tool_name, None, str(each.result))
        if each.is_error
        else IterationResult(each.tool_call_id, each.tool_name, each.result)
        for each in payloads
    )
