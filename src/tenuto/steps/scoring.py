"""The scorers of a run: which they are, whether they hold its task for complete, and what they are given to look at.

Invariant: scorers are looked up once per run and process; one that is not there is named, never silently passed over;
a check is made only of a step after which the run would end.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core import faults
from tenuto.core import payloads as p
from tenuto.core.errors import ConfigurationError
from tenuto.evals.sample import CompletionContext, ScorerInput, ScoringData, task_of
from tenuto.machine.records import TaskChecked
from tenuto.steps.callbacks import resolve
from tenuto.steps.fold import draft_parts
from tenuto.steps.transcript import all_messages, feedback_message, own_messages

if TYPE_CHECKING:
    from tenuto.evals.completion import CompletionResult
    from tenuto.evals.declared import Declared
    from tenuto.evals.scorer import Scorer
    from tenuto.messages.stored import Message
    from tenuto.steps.run import Run, StepDraft

_log = logging.getLogger("tenuto")

NONE_FOUND = "AGENT_GENEREATE_SCORER_NOT_FOUND"
"""Spelled as everybody who looks for it in a log spells it."""


class Checked(Struct, frozen=True):
    """A check of a step: for the record and the stream, and for `on_complete`."""

    record: TaskChecked
    result: CompletionResult

    @property
    def passed(self) -> bool:
        """Whether the task is complete."""
        return self.result.complete


async def bind_scorers(run: Run) -> None:
    """Look up the scorers of the run, which costs nothing where there are none.

    Raises:
        ConfigurationError: `SCORER_NOT_FOUND`: `is_task_complete` names one that nobody has.
    """
    options, definition = run.options, run.definition
    if definition.scorers is None and options.scorers is None and options.is_task_complete is None:
        return
    own = await _own(run)
    known = {**definition.app_scorers, **_by_name(own)}
    run.scorers = _live(run, own if options.scorers is None else options.scorers, known)
    if options.is_task_complete is not None:
        run.judges = _judges(run, options.is_task_complete.scorers, known)


async def _own(run: Run) -> tuple[Declared, ...]:
    """The agent's; a function of its that fails costs the scores, not the run."""
    from tenuto.evals.declared import read_scorers

    given = run.definition.scorers
    if not callable(given):
        return () if given is None else read_scorers(given)
    try:
        found = await resolve(given, run.request_context, run.definition.app)
        return () if found is None else read_scorers(found)
    except Exception:  # noqa: BLE001 - a user's function
        _log.exception("The scorers function of agent %r failed; the run goes on.", run.definition.id)
        return ()


def _by_name(own: tuple[Declared, ...]) -> dict[str, Scorer]:
    """The agent's own under their names and their ids."""
    made = [(each.name, each.scorer) for each in own if not isinstance(each.scorer, str)]
    return {name: scorer for key, scorer in made for name in (key, scorer.id)}


def _live(run: Run, declared: tuple[Declared, ...], known: Mapping[str, Scorer]) -> tuple[Declared, ...]:
    found = tuple(
        each if (scorer := _found(each.scorer, known)) is None else replace(each, scorer=scorer) for each in declared
    )
    lost = [each.id for each in found if isinstance(each.scorer, str)]
    if lost:
        _log.warning("No scorer %s is registered, so it does not score run %s.", _quoted(lost), run.run_id)
        if len(lost) == len(found):
            _log.warning("%s: run %s is not scored.", NONE_FOUND, run.run_id)
        _degrade(run, "scorers")
    return tuple(each for each in found if not isinstance(each.scorer, str))


def _judges(run: Run, wanted: tuple[Scorer | str, ...], known: Mapping[str, Scorer]) -> tuple[Scorer, ...]:
    found = [(each, _found(each, known)) for each in wanted]
    lost = [each for each, scorer in found if scorer is None and isinstance(each, str)]
    if lost and run.asked is not None:
        remedy = "register it with Tenuto(scorers={...}) or Agent(scorers={...}), or pass the scorer itself"
        message = f"is_task_complete names the scorer {_quoted(lost)}, which nobody has; {remedy}."
        raise ConfigurationError(message, id="SCORER_NOT_FOUND")
    if lost:
        text = "This process has no scorer %s, so it has no say in whether the task of run %s is complete."
        _log.warning(text, _quoted(lost), run.run_id)
        _degrade(run, "is_task_complete")
    return tuple(scorer for _, scorer in found if scorer is not None)


def _found(given: Scorer | str, known: Mapping[str, Scorer]) -> Scorer | None:
    return known.get(given) if isinstance(given, str) else given


def _degrade(run: Run, option: str) -> None:
    """Of a run that this process goes on with, the option is not what it was."""
    if run.asked is None and option not in run.degraded:
        run.degraded = (*run.degraded, option)


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names))


async def check_task(run: Run, draft: StepDraft, *, last: bool) -> Checked | None:
    """Ask whether the task is complete with the step `draft`; None when nobody is asked.

    An abort of the run ends the wait for scorers: it cancels this.

    Args:
        run: The run.
        draft: The step after which it would end.
        last: There is no further step, whatever they say.
    """
    asked = run.options.is_task_complete
    if asked is None or not run.judges or _only_remembers(draft):
        return None
    from tenuto.evals.completion import check_completion, feedback_of

    context = _context(run, draft)
    run.listening = True
    try:
        result = await check_completion(asked, run.judges, context, run.request_context, run.clock)
    finally:
        run.listening = False
    faults.hit("judge.after_check")
    shown = p.IsTaskCompletePayload(
        context.iteration,
        result.complete,
        result.scorers,
        result.total_duration,
        result.timed_out,
        last,
        asked.suppress_feedback,
        result.completion_reason,
    )
    feedback = None if result.complete else _feedback(run, feedback_of(result, last=last), asked.suppress_feedback)
    return Checked(TaskChecked(shown, feedback), result)


def _only_remembers(draft: StepDraft) -> bool:
    """Whether all that the step did was to write to working memory, which is no work on the task."""
    from tenuto.memory.working import TOOL

    calls = draft.said.turn.calls
    return bool(calls) and all(call.tool_name == TOOL for call in calls)


def _feedback(run: Run, text: str, suppressed: bool) -> Message:  # noqa: FBT001 - of the metadata
    told: Mapping[str, Any] = {"completionResult": {"passed": False, "suppressFeedback": suppressed}}
    return feedback_message(run.ids.new("msg"), text, run.clock.now(), told)


def _context(run: Run, draft: StepDraft) -> CompletionContext:
    return CompletionContext(
        iteration=len(run.steps) + 1,
        max_iterations=run.options.max_steps,
        original_task=task_of(run.input),
        text=draft.said.turn.text,
        messages=all_messages(run, own_messages(run, draft_parts(run, draft))),
        run_id=run.run_id,
        agent_id=run.definition.id,
        agent_name=run.definition.name,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
    )


def scoring_data(run: Run) -> ScoringData:
    """What scorers of the run get."""
    given = ScorerInput(tuple(run.input), (*run.found, *run.remembered), tuple(run.prompt.system))
    return ScoringData(given, own_messages(run))
