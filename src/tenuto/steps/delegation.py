"""One delegation: a call of `agent-<key>`, from the model's arguments to the answer that it is given.

Invariant: a call has one child run, whatever becomes of processes: its id is made of the call's place, so an entry that
finds it stored goes on with it and asks no hook of its beginning again. The supervisor's model is told what the child
said, or that it failed; never why in a provider's words.
"""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tenuto.core import chunks as c
from tenuto.core import codec, faults
from tenuto.core import payloads as p
from tenuto.core.errors import StoreError, TenutoError, ToolError
from tenuto.core.payloads import Json
from tenuto.core.request_context import RequestContext
from tenuto.machine.records import Delegated, WaitsFor
from tenuto.messages.bounded import model_text
from tenuto.steps import delegation_hooks as h
from tenuto.steps.calls import draft_of
from tenuto.steps.handed_messages import handed_messages
from tenuto.steps.ports import Brief, Child, Delegating
from tenuto.store.ports import Decide, PendingCall
from tenuto.tools.outcome import Aborted, Failed, Ok, Outcome, Suspended
from tenuto.tools.validate import bind_arguments

if TYPE_CHECKING:
    from tenuto.messages.turns import CallPart
    from tenuto.steps.delegates import Asked, DelegationTool
    from tenuto.steps.ports import RunLog
    from tenuto.steps.run import Run

DEEPEST = 8
"""So many agents may stand above one that delegates; a supervisor that lists itself would go on for ever."""

FAILED = "AGENT_AGENT_TOOL_EXECUTION_FAILED"
"""The id of a delegation whose sub-agent failed."""

OWN_KEYS = frozenset(
    {"MastraMemory", "mastra__threadId", "mastra__resourceId", "mastra__inheritedMemory", h.HOOK_ERRORS}
)
"""Request values that belong to one run, and not to the child of it."""


class Shown(Struct, frozen=True):
    """What viewers may see of a call that waits."""

    args: Json
    suspend_payload: Json
    metadata: Json


class Delegation(Struct, frozen=True, kw_only=True):
    """How a delegation came out.

    Attributes:
        record: What the journal keeps beside the outcome.
        asked: The call of the child that waits; None unless the outcome is a suspension.
        shown: What viewers may see of it.
    """

    outcome: Outcome
    record: Delegated = Delegated()
    asked: PendingCall | None = None
    shown: Shown | None = None


def child_id_of(run_id: str, step: int, place: int) -> str:
    """The id of the run that the call at this place starts: the same on each of its attempts, in every process."""
    return f"run_{sha256(msgspec.json.encode(('child', run_id, step, place))).hexdigest()[:32]}"


async def delegate(
    run: Run, log: RunLog, tool: DelegationTool, call: CallPart, *, attempt: int, args: Json
) -> Delegation:
    """Carry a delegation out, or go on with it.

    Raises:
        StoreError: The store's, not the child's.
        asyncio.CancelledError: The run was not aborted; its driver is to end.
    """
    bound = bind_arguments(call.tool_name, tool.schema, args)
    if isinstance(bound, Failed):
        return Delegation(outcome=bound)
    if len(run.lineage) >= DEEPEST:
        return Delegation(outcome=_too_deep(run, tool))
    place = draft_of(run).said.turn.calls.index(call)
    child_id = child_id_of(run.run_id, log.state.step, place)
    delegating = Delegating(call.tool_call_id, call.tool_name, child_id, tool.agent)
    work = _Delegation(run, tool, delegating, bound.positional[0])
    try:
        return await work.carried_out(again=attempt > 1)
    except asyncio.CancelledError:
        if not run.aborted:
            raise
        return Delegation(outcome=Aborted(), record=work.record())
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - a user's function, or the child could not be started
        return await work.failed(error)


class _Delegation:
    """One entry of one call."""

    def __init__(self, run: Run, tool: DelegationTool, call: Delegating, asked: Asked) -> None:
        assert run.children is not None  # noqa: S101 - its driver has set it
        self._run = run
        self._tool = tool
        self._call = call
        self._asked = asked
        self._children = run.children
        self._hooks = run.options.delegation
        self._began = run.clock.now()
        self._child: Child | None = None
        self._messages = handed_messages(run)
        self._prompt = asked.prompt
        self._bailed = False

    async def carried_out(self, *, again: bool) -> Delegation:
        child = self._child = await self._children.find(self._call) if again else None
        if child is None:
            brief = await self._brief()
            if isinstance(brief, Ok):
                return Delegation(outcome=brief)
            self._prompt = brief.prompt
            child = await self._children.start(self._call, brief)
        elif child.reason in {None, "suspended"}:
            self._prompt = _prompt_of(child.run) or self._prompt
            child = await self._children.go_on(self._call, child, self._decision())
        self._child, self._began = child, min(child.began, self._began)
        faults.hit("delegation.after_child")
        return await self._concluded(child)

    async def _brief(self) -> Brief | Ok:
        """What the child begins with; or the answer, when a hook rejects the delegation."""
        own = RequestContext({k: v for k, v in self._run.request_context.entries() if k not in OWN_KEYS})
        asked, kept = self._asked, self._run.request_context
        params = h.DelegationParams(
            thread_id=self._run.thread_id,
            resource_id=self._run.resource_id,
            instructions=asked.instructions,
            max_steps=asked.max_steps,
        )
        start = h.DelegationStartContext(**self._told(), params=params, request_context=own)
        said = await h.ask_start(self._hooks, start, kept)
        if said.rejection is not None:
            text = f"[Delegation Rejected] {said.rejection}"
            return Ok({"text": text}, text, {"type": "text", "value": text})
        self._prompt = said.prompt or asked.prompt
        shown = await h.ask_filter(self._hooks, h.MessageFilterContext(**self._told()), kept)
        return Brief(
            prompt=self._prompt,
            instructions=said.instructions or asked.instructions,
            max_steps=said.max_steps,
            wanted_steps=asked.max_steps,
            context=shown,
            request_context=own,
            key=self._tool.agent_key,
        )

    def _decision(self) -> Decide | None:
        """What somebody said of the child's call that this one waits for."""
        draft, call_id = draft_of(self._run), self._call.call_id
        said, inner = draft.answered.get(call_id), draft.inner.get(call_id)
        if said is None or inner is None:
            return None
        return Decide(
            run_id=inner.run_id,
            call_id=inner.call_id,
            args_hash=inner.args_hash,
            attempt=inner.attempt,
            approved=said.approved,
            reason=said.reason,
            resume_data=said.resume_data,
            args=said.args,
        )

    async def _concluded(self, child: Child) -> Delegation:
        if child.reason == "suspended":
            return await self._waiting(child)
        if child.reason == "aborted" and self._run.aborted:
            return Delegation(outcome=Aborted(), record=self.record())
        if child.reason in {"error", "aborted"} or child.run.error is not None:
            return await self.failed(child.run.error or ToolError("The sub-agent was aborted.", id="TOOL_ABORTED"))
        said = await self._complete(None)
        text = said.result_text if said.result_text is not None else text_of(child.run)
        told = text or f"[The agent gave no answer; its run ended with {child.reason!r}.]"
        result = {"text": text, **self._identity(), **_results_shown(child.run)}
        if self._hooks.include_sub_agent_tool_results_in_model_context and "subAgentToolResults" in result:
            told = f"{told}\n\n{codec.encode({'subAgentToolResults': result['subAgentToolResults']}).decode()}"
        told = model_text(told, self._tool.max_result_chars)
        return Delegation(outcome=Ok(result, told, {"type": "text", "value": told}), record=self.record(said.feedback))

    async def failed(self, error: BaseException) -> Delegation:
        """The delegation's answer when there is none of the child."""
        try:
            said = h.Completed() if isinstance(error, h.HookFailed) else await self._complete(error)
        except h.HookFailed as hook:
            error, said = hook, h.Completed()
        text = said.result_text or _why(self._tool, error)
        failure = ToolError(text, id=_own_id(error) or FAILED, domain="AGENT", details=self._identity())
        failure.__cause__ = error
        return Delegation(outcome=Failed(failure, text), record=self.record(said.feedback))

    async def _waiting(self, child: Child) -> Delegation:
        """The child's first open call is what this call waits for; the others come after it."""
        asked = next(iter(child.run.pending.values()))
        waits = WaitsFor(child.run.run_id, asked.call_id, asked.args_hash, asked.attempt, child.events)
        schema = None if asked.resume_schema is None else msgspec.json.decode(asked.resume_schema)
        return Delegation(
            outcome=Suspended(asked.suspend_payload, schema),
            record=Delegated(usage=child.run.usage, waits_for=waits),
            asked=asked,
            shown=await _shown(child.run, asked),
        )

    async def _complete(self, error: BaseException | None) -> h.Completed:
        child = self._child
        if child is None and self._hooks.on_delegation_complete is None:
            return h.Completed()
        run = None if child is None else child.run
        identity = self._identity()
        result = h.DelegationResult(
            text="" if run is None else text_of(run),
            finish_reason=None if child is None else child.reason,
            sub_agent_thread_id=identity.get("subAgentThreadId"),
            sub_agent_resource_id=identity.get("subAgentResourceId"),
            sub_agent_tool_results=() if run is None else tool_results_of(run),
            usage=None if run is None else run.usage,
        )
        context = h.DelegationCompleteContext(
            **self._told(),
            result=result,
            duration=(self._run.clock.now() - self._began) * 1000,
            success=error is None,
            error=error,
            bail=self._bail,
        )
        return await h.ask_complete(self._hooks, context, self._run.request_context)

    def _bail(self) -> None:
        self._bailed = True

    def record(self, feedback: str | None = None) -> Delegated:
        """What the journal keeps of the delegation."""
        usage = None if self._child is None else self._child.run.usage
        return Delegated(usage=usage, feedback=feedback or None, bail=self._bailed)

    def _identity(self) -> dict[str, Any]:
        """The thread of its own that the child has, if its supervisor is on one."""
        memory = None if self._child is None else self._child.run.memory
        if memory is None:
            return {}
        return {"subAgentThreadId": memory.thread, "subAgentResourceId": memory.resource}

    def _told(self) -> dict[str, Any]:
        run = self._run
        spoken = sum(message.role == "assistant" for message in self._messages)
        return {
            "primitive_id": self._tool.agent.id,
            "prompt": self._prompt,
            "iteration": max(1, spoken),
            "run_id": run.run_id,
            "thread_id": run.thread_id,
            "resource_id": run.resource_id,
            "parent_agent_id": run.definition.id,
            "parent_agent_name": run.definition.name,
            "tool_call_id": self._call.call_id,
            "messages": self._messages,
        }


def _prompt_of(child: Run) -> str | None:
    """What a child was asked, by its journal."""
    return child.input[-1].text if child.input else None


async def _shown(child: Run, asked: PendingCall) -> Shown:
    """The call as the child's own viewers see it."""
    if child.veil is None:
        return Shown(asked.args, asked.suspend_payload, None)
    payload = p.ToolCallSuspendedPayload(asked.call_id, asked.tool_name, asked.args, asked.suspend_payload)
    chunk: Any = c.ToolCallSuspended(child.run_id, "AGENT", payload)
    (covered,) = await child.veil.cover([chunk])
    seen: Any = covered
    return Shown(seen.payload.args, seen.payload.suspend_payload, seen.metadata)


def text_of(run: Run) -> str:
    """What a child answered: its object as JSON, else its last words, else all that it said."""
    if run.answer is not None and run.answer.state != "none":
        return codec.encode(run.answer.value).decode()
    last = run.steps[-1].text if run.steps else ""
    return last or "".join(step.text for step in run.steps)


def tool_results_of(run: Run) -> tuple[h.SubAgentToolResult, ...]:
    """What the tools of a child answered."""
    payloads = [chunk.payload for step in run.steps for chunk in step.tool_results]
    return tuple(
        h.SubAgentToolResult(each.tool_name, each.tool_call_id, each.result, each.args, each.is_error)
        for each in payloads
    )


def _results_shown(run: Run) -> dict[str, Any]:
    found = tool_results_of(run)
    return {"subAgentToolResults": [msgspec.to_builtins(each) for each in found]} if found else {}


def _why(tool: DelegationTool, error: BaseException) -> str:
    """Why there is no answer, in words that hold nothing of a provider's."""
    if _own_id(error) is not None:
        return str(error)
    known = f" ({error.id})" if isinstance(error, TenutoError) else ""
    return f"The agent {tool.agent_key!r} failed{known} and gave no answer."


def _own_id(error: BaseException) -> str | None:
    """The id of an error that delegating itself has, and whose words are ours."""
    if not isinstance(error, ToolError):
        return None
    known: str = error.id
    return known if known.startswith("AGENT_DELEGATION") else None


def _too_deep(run: Run, tool: DelegationTool) -> Failed:
    chain = " > ".join((*run.lineage, run.definition.id, tool.agent.id))
    text = (
        f"Nothing was delegated to {tool.agent_key!r}: {DEEPEST} agents stand above this one already ({chain}). "
        "Do the work yourself, or answer with what you have."
    )
    return Failed(ToolError(text, id="AGENT_DELEGATION_TOO_DEEP", domain="AGENT", category="USER"), text)
