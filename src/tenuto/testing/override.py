"""`override`: other parts for an agent, for the length of a `with` block.

Invariant: the agent itself does not change; what is put in place holds for calls started inside the block, in this
context and in the tasks and threads that copy it, and for no other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tenuto.agent import Agent
from tenuto.messages.input import SystemInput
from tenuto.setup import overrides
from tenuto.steps.run import UNSET
from tenuto.tools.tool import Tools
from tenuto.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from tenuto.options import ModelConfig

__all__ = ["override"]


@contextmanager
def override(
    agent: Agent[Any, Any],
    *,
    model: ModelConfig | Callable[..., Any] = UNSET,
    tools: Tools[Any] | Callable[..., Any] = UNSET,
    deps: Any = UNSET,
    instructions: SystemInput | Callable[..., Any] = UNSET,
) -> Generator[None]:
    """Run `agent` with other parts than its own; they also win over what the calls inside the block pass.

        with override(support, model=ScriptedModel("Hello!"), deps=FakeServices()):
            await handle_request(...)  # wherever in it `support` is called

    Blocks nest: an inner one keeps what it does not name. A run started inside keeps its parts when the block ends.

    Args:
        agent: Whose calls to change; found by identity, so not copies of it.
        model: Instead of its model.
        tools: Instead of all its tools.
        deps: Instead of its dependencies.
        instructions: Instead of its instructions.

    Raises:
        ConfigurationError: Tools that cannot work.
    """
    given = {"model": model, "tools": tools, "deps": deps, "instructions": instructions}
    changes = {name: value for name, value in given.items() if value is not UNSET}
    if "tools" in changes and not callable(tools):
        changes["tools"] = Toolbox(tools)
    known = overrides.get()
    token = overrides.set({**known, id(agent): {**known.get(id(agent), {}), **changes}})
    try:
        yield
    finally:
        overrides.reset(token)
