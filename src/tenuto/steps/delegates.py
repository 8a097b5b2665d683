"""The tools that `agents=` become: `agent-<key>`, with the arguments that a supervisor's model may give.

Invariant: an argument that steers the runtime (ids, resume data, whatever a model invents) is never read: it has no
effect, and no call fails for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import msgspec
from msgspec import Struct

from tenuto.core.errors import ConfigurationError
from tenuto.steps.callbacks import resolve
from tenuto.tools.schema import Bound
from tenuto.tools.shape import Misfit
from tenuto.tools.tool import Tool
from tenuto.tools.toolbox import RunnableTool, Toolbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenuto.core.request_context import RequestContext
    from tenuto.steps.definition import Definition
    from tenuto.tools.context import ToolContext

PREFIX = "agent-"
LEAST_STEPS = 3
"""The fewest steps a supervisor's model may allow: a tool call and its answer, and one to spare."""


@runtime_checkable
class SubAgent(Protocol):
    """An agent that others delegate to, as a step sees it; `tenuto.Agent` is one."""

    @property
    def id(self) -> str:
        """Its id, which its runs carry."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def description(self) -> str:
        """What a supervisor's model reads of it; empty when there is none."""
        ...

    def delegate(self) -> Any:
        """What makes its runs; see `runs.children.Delegate`."""
        ...

    async def generate(self, messages: Any, **options: Any) -> Any:
        """Run it."""
        ...


class Asked(Struct, frozen=True):
    """What a model asks of a sub-agent."""

    prompt: str
    instructions: str | None = None
    max_steps: int | None = None


_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "prompt": {"type": "string", "description": "What the agent is to do, with all that it needs to know."},
        "threadId": {"type": ["string", "null"], "description": "Set by the system."},
        "resourceId": {"type": ["string", "null"], "description": "Set by the system."},
        "instructions": {"type": ["string", "null"], "description": "Instructions beside the agent's own."},
        "maxSteps": {
            "type": ["integer", "null"],
            "minimum": LEAST_STEPS,
            "description": f"The most steps it may take, {LEAST_STEPS} or more.",
        },
    },
    "required": ["prompt"],
}


class DelegationInput:
    """See `InputSchema`: the arguments of `agent-<key>`."""

    @property
    def json_schema(self) -> Mapping[str, Any]:
        """See `InputSchema`."""
        return _SCHEMA

    def validate(self, raw: bytes) -> Bound:
        """See `InputSchema`.

        Raises:
            Misfit: The prompt is missing, or something is of another type.
        """
        given: dict[str, Any] = msgspec.json.decode(raw)
        wrong: list[tuple[tuple[int | str, ...], str]] = []
        prompt, instructions = given.get("prompt"), given.get("instructions")
        if not isinstance(prompt, str) or not prompt.strip():
            wrong.append((("prompt",), "it is the task, as text"))
        if not isinstance(instructions, str | None):
            wrong.append((("instructions",), "it is text, or left out"))
        steps = _steps(given.get("maxSteps"))
        if isinstance(steps, str):
            wrong.append((("maxSteps",), steps))
        if wrong:
            raise Misfit("\n".join(reason for _, reason in wrong), wrong)
        asked = Asked(cast("str", prompt), instructions or None, cast("int | None", steps))
        named = {"prompt": asked.prompt, "instructions": asked.instructions, "maxSteps": asked.max_steps}
        return Bound((asked,), {}, named)

    def call(self, fn: Callable[..., Any], bound: Bound, context: ToolContext[Any, Any]) -> Any:  # noqa: ARG002
        """See `InputSchema`."""
        return fn(bound.positional[0])


def _steps(given: object) -> int | str | None:
    """The number, or what is wrong with it."""
    if isinstance(given, str) and given.strip().isdecimal():
        given = int(given)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or given < LEAST_STEPS:
        return f"it is a whole number from {LEAST_STEPS} on, or left out"
    return given


class DelegationTool(Tool[Any, ..., Any]):
    """A sub-agent as a tool; a run drives its calls as runs of their own.

    Attributes:
        key: Of the agent among its supervisor's.
        agent: Whom it asks.
    """

    def __init__(self, key: str, agent: SubAgent) -> None:
        async def ask(asked: Asked) -> str:
            result = await agent.generate(asked.prompt)
            return result.text

        description = agent.description or f"Agent: {key}"
        super().__init__(
            ask, id=f"{PREFIX}{key}", description=description, effects="none", whole=cast("Any", DelegationInput())
        )
        self.agent_key: str = key
        self.agent: SubAgent = agent


async def with_delegates(definition: Definition, context: RequestContext, own: Toolbox) -> Toolbox:
    """The agent's own tools, and those of its sub-agents.

    Raises:
        ConfigurationError: `AGENT_GET_AGENTS_FUNCTION_EMPTY_RETURN`; `AGENT_AGENTS_INVALID`: something is no agent;
            `AGENT_TOOL_NAME_COLLISION`: a tool has the name of a delegation.
    """
    fixed = own is definition.tools and not callable(definition.agents)
    if fixed and "tools" in definition.delegates:
        return definition.delegates["tools"]
    made = delegation_tools(await agents_of(definition, context))
    if taken := [name for name in made if name in own]:
        message = (
            f"Agent {definition.id!r} has a tool {taken[0]!r} and a sub-agent {taken[0].removeprefix(PREFIX)!r}, which "
            "would be a tool of that name; rename one."
        )
        raise ConfigurationError(message, id="AGENT_TOOL_NAME_COLLISION", domain="AGENT")
    whole = own.with_more(made)
    if fixed:
        definition.delegates["tools"] = whole
    return whole


async def agents_of(definition: Definition, context: RequestContext) -> Mapping[str, SubAgent]:
    """The sub-agents by key.

    Raises:
        ConfigurationError: See `with_delegates`.
    """
    given = definition.agents
    if not callable(given):
        return cast("Mapping[str, SubAgent]", given or {})
    found = await resolve(given, context, definition.app)
    if found is None:
        message = f"The agents function of agent {definition.id!r} returned nothing; return a dict, which may be empty."
        raise ConfigurationError(message, id="AGENT_GET_AGENTS_FUNCTION_EMPTY_RETURN", domain="AGENT")
    return check_agents(found)


def check_agents(given: object) -> Mapping[str, SubAgent]:
    """`given`, if it is a mapping from keys to agents.

    Raises:
        ConfigurationError: `AGENT_AGENTS_INVALID`.
    """
    if not isinstance(given, Mapping):
        message = f'agents= takes a dict: agents={{"research": researcher}}, not {type(given).__name__}.'
        raise ConfigurationError(message, id="AGENT_AGENTS_INVALID", domain="AGENT")
    for key, agent in cast("Mapping[Any, object]", given).items():
        if not isinstance(key, str) or not isinstance(agent, SubAgent) or isinstance(agent, type):
            message = f"agents= has {key!r}: {type(agent).__name__}, which is no agent; give an Agent under a text key."
            raise ConfigurationError(message, id="AGENT_AGENTS_INVALID", domain="AGENT")
    return cast("Mapping[str, SubAgent]", given)


def delegation_tools(agents: Mapping[str, SubAgent]) -> dict[str, RunnableTool]:
    """The tools by name.

    Raises:
        ConfigurationError: A key makes no name that providers take.
    """
    return dict(Toolbox({f"{PREFIX}{key}": DelegationTool(key, agent) for key, agent in agents.items()}))
