"""The agent a command line names, or the one that is there without a name."""

from __future__ import annotations

from typing import Any

from tenuto.agent import Agent
from tenuto.cli.imports import load
from tenuto.models.local import local_model, pull

AnyAgent = Agent[Any, Any]


def default_agent() -> AnyAgent:
    """An agent on the small local model, whose weights are fetched now if need be.

    Raises:
        TenutoError: The engine is missing, or the weights cannot be had.
    """
    model = local_model("smollm2")
    pull("smollm2")  # here, in the main thread, so that Ctrl-C stops it
    return Agent(id="chat", name="SmolLM2", instructions="You are a helpful assistant. Be brief.", model=model)


def load_agent(name: str) -> AnyAgent:
    """Import `module:agent` or `path/to/file.py:agent`, from the current folder too.

    Raises:
        ConfigurationError: There is no such module or agent, or importing the module failed.
    """
    return load(name, Agent, "agent")
