"""Whether a call has to be approved before it runs, and with which arguments.

Invariant: fail closed. A level can only add the need for approval; a policy that cannot be asked, raises, or answers
other than True or False means "approve first".
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tenuto.core.foreign import contained
from tenuto.core.payloads import Json
from tenuto.core.request_context import RequestContext
from tenuto.tools.outcome import Failed
from tenuto.tools.repair import NotJSON, read_arguments
from tenuto.tools.resume import APPROVAL_SCHEMA, DEFAULT_DECLINE, Approved, Declined, invalid_data, read_decision
from tenuto.tools.shape import Misfit, fit
from tenuto.tools.validate import bind_arguments

if TYPE_CHECKING:
    from tenuto.tools.tool import Tool

__all__ = [
    "APPROVAL_SCHEMA",
    "DEFAULT_DECLINE",
    "ApprovalPolicy",
    "ApprovalRequest",
    "Approved",
    "Declined",
    "needs_approval",
    "read_decision",
    "validate_edited",
]

_log = logging.getLogger("tenuto")


class ApprovalRequest(Struct, frozen=True):
    """What a policy of an agent or a run is asked about.

    Attributes:
        tool_name: The name the model used.
        args: The validated arguments by name, defaults filled in.
        request_context: The request's values.
    """

    tool_name: str
    args: Mapping[str, Any]
    request_context: RequestContext


ApprovalPolicy = bool | Callable[[ApprovalRequest], bool | Awaitable[bool]]
"""`require_tool_approval=` of an agent or a run."""


async def needs_approval(
    tool: Tool[Any, ..., Any],
    args: Json,
    *,
    run_policy: ApprovalPolicy | None = None,
    agent_policy: ApprovalPolicy | None = None,
    request: RequestContext,
    name: str | None = None,
) -> bool:
    """Whether the run's, the agent's or the tool's policy asks for approval; ask once for each call.

    Functions are called on the loop, none after the first True. Arguments that do not fit can be shown to no policy,
    so a function then means True: refuse such a call (`bind_arguments`) before asking.

    Args:
        tool: The tool.
        args: The call's arguments, as JSON or as the model's text.
        run_policy: Of the call of `generate` or `stream`.
        agent_policy: Of the agent.
        request: The request's values.
        name: The name the model used, if it is not the tool's id.

    Raises:
        ConfigurationError: The tool has no schema (see `Tool.schema`).
    """
    own = tool.require_approval
    shared = [level for level in (run_policy, agent_policy) if level is not None and level is not False]
    if own is True or any(level is True for level in shared):
        return True
    if not shared and own is False:
        return False
    called = name or tool.id
    bound = bind_arguments(called, tool.schema, args)
    if isinstance(bound, Failed):
        return True
    for level in shared:
        if await _asks(called, level, ApprovalRequest(called, dict(bound.named), request)):
            return True
    return own is not False and await _asks(called, own, dict(bound.named))


async def _asks(tool: str, policy: Any, given: object) -> bool:
    try:
        with contained():
            answer = policy(given)
            answer = await answer if inspect.isawaitable(answer) else answer
    except Exception:  # noqa: BLE001 - a user's function; to be on the safe side it said yes
        _log.exception("An approval policy failed for tool %r: the call has to be approved.", tool)
        return True
    if not isinstance(answer, bool):
        _log.error("An approval policy answered %r for tool %r, not True or False: to be approved.", answer, tool)
        return True
    return answer


def validate_edited(tool: Tool[Any, ..., Any], args: Any, *, name: str | None = None) -> dict[str, Json]:
    """Arguments that somebody edited while approving, as the JSON object to store and run.

    They are to be assessed anew (`needs_approval`, `args_hash`): an edit may only make matters stricter.

    Raises:
        RunError: `AGENT_RESUME_INVALID_DATA`: they do not fit the tool's schema; the call still waits.
    """
    called = name or tool.id
    try:
        given = read_arguments(fit(None, args))
    except (NotJSON, Misfit) as error:
        message = f"The edited arguments of tool {called!r} are no JSON object ({error}); the call still waits."
        raise invalid_data(message) from error
    refused = bind_arguments(called, tool.schema, given)
    if isinstance(refused, Failed):
        reasons = "\n".join(line for line in refused.text.splitlines() if line.startswith("- "))
        message = f"The edited arguments of tool {called!r} do not fit its schema; the call still waits.\n{reasons}"
        raise invalid_data(message) from refused.error
    return given
