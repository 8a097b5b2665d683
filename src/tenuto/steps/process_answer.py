"""Processors around a whole model call: its prompt as it is sent, the answer once it is complete, and its failure.

Invariant: nothing here is stored: a call that is made again asks them again. What they decided about an answer is in
the record that the answer becomes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from tenuto.core.option_keys import renamed, spellings
from tenuto.machine.records import Said
from tenuto.messages.convert import to_turns
from tenuto.messages.input import MessageReader
from tenuto.messages.stored import Message
from tenuto.messages.turns import AssistantTurn, Prompt, SystemTurn, ToolTurn, UserTurn
from tenuto.processors.contexts import (
    APIErrorContext,
    LLMRequestContext,
    LLMResponseContext,
    OutputStepContext,
)
from tenuto.processors.hooks import BoundHook, ProcessorError
from tenuto.processors.ports import ModelResponse
from tenuto.steps.fold import call_chunks, draft_parts
from tenuto.steps.processing import API_ERROR_RETRIES, base_prompt, chain_at
from tenuto.steps.rewrite import last_step
from tenuto.steps.run import StepDraft
from tenuto.steps.transcript import all_messages, own_messages

if TYPE_CHECKING:
    from tenuto.core.errors import ModelError
    from tenuto.messages.turns import AssistantPart, Turn
    from tenuto.models.ports import LanguageModel, ModelRequest
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

_REQUEST = spellings(("prompt", "response"))
_REPAIR = spellings(("retry", "messages"))
_MESSAGES = spellings(("messages", "system_messages"))
_TURNS = (SystemTurn, UserTurn, AssistantTurn, ToolTurn)

_log = logging.getLogger("tenuto")


class Request(Struct, frozen=True):
    """What processors make of a model call: its prompt, and an answer that stands for it."""

    prompt: Prompt
    response: ModelResponse | None = None


async def process_request(run: Run, log: RunLog, request: ModelRequest, model: LanguageModel) -> Request:
    """Ask `process_llm_request` about the call as it would be made.

    Raises:
        Tripwire: One blocks the run.
        ProcessorError: One failed.
    """
    chain, prompt = chain_at(run, log), request.prompt
    output = run.options.structured_output
    hooks = () if chain is None else chain["process_llm_request"]
    for hook in hooks:
        context = LLMRequestContext(
            hook.shared,
            prompt=(*prompt.system, *prompt.turns),
            model=model,
            step_number=len(run.steps),
            steps=tuple(run.steps),
            tools=tuple(spec.name for spec in request.tools),
            request=request,
            schema=None if output is None else output.schema.json_schema,
        )
        said = _mapping(hook, await hook.ask(context), _REQUEST, "None, {'prompt': turns} or {'response': response}")
        if (response := said.get("response")) is not None:
            if not isinstance(response, ModelResponse):
                raise hook.refused(response, "a ModelResponse under 'response'")
            return Request(prompt, response)
        if (turns := said.get("prompt")) is not None:
            prompt = _prompt(hook, turns)
    return Request(prompt)


def _prompt(hook: BoundHook, given: Any) -> Prompt:
    turns = list(cast("Sequence[Turn]", given)) if isinstance(given, (list, tuple)) else [given]
    if wrong := [each for each in turns if not isinstance(each, _TURNS)]:
        raise hook.refused(wrong[0], "turns under 'prompt'")
    system = [turn for turn in turns if isinstance(turn, SystemTurn)]
    return Prompt(system, [turn for turn in turns if not isinstance(turn, SystemTurn)])


async def process_response(run: Run, log: RunLog, prompt: Prompt, response: ModelResponse) -> None:
    """Tell `process_llm_response` of the answer of a model that was really asked.

    Raises:
        Tripwire: One blocks the run.
        ProcessorError: One failed.
    """
    chain = chain_at(run, log)
    for hook in () if chain is None else chain["process_llm_response"]:
        await hook.ask(
            LLMResponseContext(
                hook.shared,
                response=response,
                prompt=(*prompt.system, *prompt.turns),
                model=run.model,
                step_number=len(run.steps),
                steps=tuple(run.steps),
            )
        )


async def process_step(run: Run, log: RunLog, said: Said) -> Said:
    """What `process_output_step` leaves of a complete answer, none of whose calls was begun.

    Raises:
        Tripwire: One does not accept it.
        ProcessorError: One failed.
    """
    chain = chain_at(run, log)
    for hook in () if chain is None else chain["process_output_step"]:
        draft = StepDraft(said)
        own = own_messages(run, draft_parts(run, draft))
        context = OutputStepContext(
            hook.shared,
            step_number=len(run.steps),
            steps=tuple(run.steps),
            messages=all_messages(run, own),
            system_messages=base_prompt(run).system,
            text=said.turn.text,
            tool_calls=tuple(chunk.payload for chunk in call_chunks(run.run_id, draft)),
            finish_reason=said.reason,
            usage=said.usage,
            provider_metadata=said.metadata.provider_metadata,
        )
        answer = read_messages(run, hook, await hook.ask(context))
        if answer is not None:
            said = _rewritten(run, said, answer, own)
    return said


def _rewritten(run: Run, said: Said, messages: Sequence[Message], own: Sequence[Message]) -> Said:
    """`said` with what the last answer among `messages` says of this step."""
    mine = next((each for each in reversed(messages) if each.id == run.message_id), None)
    if mine is None:
        mine = next((each for each in reversed(messages) if each.role == "assistant"), None)
    if mine is not None and any(mine == each for each in own):
        return said
    content: tuple[AssistantPart, ...] = () if mine is None else last_step(mine)
    calls = any(True for part in AssistantTurn(content).calls if not part.provider_executed)
    reason = "stop" if said.reason == "tool-calls" and not calls else said.reason
    return replace(said, turn=replace(said.turn, content=content), reason=reason)


def read_messages(run: Run, hook: BoundHook, answer: Any) -> list[Message] | None:
    """Messages that a hook returned, in any form, or under the key `messages`; None when it changes nothing.

    Raises:
        ProcessorError: They are none.
    """
    return read_change(run, hook, answer)[0]


def read_change(run: Run, hook: BoundHook, answer: Any) -> tuple[list[Message] | None, Any]:
    """Messages and system messages that a hook returned; each None when it leaves them as they are.

    Raises:
        ProcessorError: They are none.
    """
    if answer is None:
        return None, None
    system: Any = None
    if isinstance(answer, Mapping) and "role" not in answer and "parts" not in answer:
        expected = "None, messages, or {'messages': ..., 'system_messages': ...}"
        said = _mapping(hook, answer, _MESSAGES, expected)
        system, answer = said.get("system_messages"), said.get("messages")
        if answer is None:
            return None, system
    try:
        return MessageReader(run.ids, run.clock).read(cast("Any", answer)), system
    except Exception as error:
        raise hook.failed(error) from error


async def ask_again(run: Run, log: RunLog, error: ModelError, model: LanguageModel) -> bool:
    """Whether a processor has the failed model asked once more; the messages it gives for that are in `run.repaired`.

    Raises:
        Tripwire: One blocks the run.
    """
    chain = chain_at(run, log)
    hooks = () if chain is None else chain["process_api_error"]
    limit = API_ERROR_RETRIES if run.processor_retries is None else run.processor_retries
    if chain is None or not hooks or run.aborted or log.state.repeats >= limit:
        return False
    chain.retries(log.state.repeats)
    messages = all_messages(run) if run.repaired is None else run.repaired[1]
    for hook in hooks:
        context = APIErrorContext(
            hook.shared,
            error=error,
            messages=messages,
            model=model,
            step_number=len(run.steps),
            steps=tuple(run.steps),
            message_id=run.message_id,
        )
        try:
            answer = await hook.ask(context)
            said = (
                {"retry": answer} if isinstance(answer, bool) else _mapping(hook, answer, _REPAIR, "a bool or a dict")
            )
            changed = said.get("messages")
            read = None if changed is None else read_messages(run, hook, changed)
        except ProcessorError:
            _log.exception("Run %s: a processor that was to look at a model's failure failed itself.", run.run_id)
            continue
        if read is not None:
            messages = tuple(read)
            run.repaired = (len(run.steps), messages)
        if said.get("retry") and not run.aborted:
            return True
    return False


def repaired_prompt(run: Run) -> Prompt | None:
    """The prompt that a processor gave for the call that failed; None when there is none."""
    if run.repaired is None or run.repaired[0] != len(run.steps):
        return None
    turns = to_turns(run.repaired[1])
    said = [turn for turn in turns if isinstance(turn, SystemTurn)]
    system = (*base_prompt(run).system, *said)
    return Prompt(system, [turn for turn in turns if not isinstance(turn, SystemTurn)])


def _mapping(hook: BoundHook, answer: Any, keys: Mapping[str, str], expected: str) -> dict[str, Any]:
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise hook.refused(answer, expected)
    try:
        return renamed(cast("Mapping[str, Any]", answer), keys, f"key from {hook.name}")
    except TypeError as error:
        raise hook.failed(error) from error
