"""What an agent is made of, asked from outside: its instructions, model, tools and options for one request's values.

Invariant: nothing is run and nothing is called but the agent's own functions of the request context; what a getter says
is what a run with the same request context would begin with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from tenuto.core.request_context import RequestContext
    from tenuto.evals.declared import ScorerDict
    from tenuto.memory.memory import Memory
    from tenuto.messages.input import SystemInput
    from tenuto.models.ports import LanguageModel
    from tenuto.options import AllOptions, ModelConfig
    from tenuto.setup import AppSlot, Setup
    from tenuto.steps.candidates import Candidate
    from tenuto.tools.toolbox import RunnableTool

T = TypeVar("T")


class Introspection:
    """The getters of `Agent`; each takes the values of a request, empty by default."""

    __slots__ = ()

    if TYPE_CHECKING:  # the agent has these
        description: str
        _given: dict[str, Any]

        @property
        def slot(self) -> AppSlot:
            """See `Agent.slot`."""
            ...

        def setup(self) -> Setup:
            """See `Agent.setup`."""
            ...

    @property
    def app(self) -> Any:
        """The app that the agent is registered with, None before that."""
        services = self.slot.services
        return None if services is None else services.app

    @property
    def request_context_schema(self) -> Any:
        """What request values must fit; None: anything."""
        return self._given["request_context_schema"]

    def get_description(self) -> str:
        """The description, empty when there is none."""
        return self.description

    async def get_instructions(self, *, request_context: Any = None) -> SystemInput:
        """The instructions, as they were given or as the agent's function gives them.

        Raises:
            TenutoError: `AGENT_GET_INSTRUCTIONS_FUNCTION_EMPTY_RETURN`.
        """
        from tenuto.steps.definitions import instructions_of

        return await instructions_of(self.setup().definition, _context(request_context))

    async def get_metadata(self, *, request_context: Any = None) -> Mapping[str, Any] | None:
        """The metadata, None when there is none."""
        return await self._resolved(self._given["metadata"], request_context)

    async def get_model(self, *, request_context: Any = None, model: ModelConfig | None = None) -> LanguageModel:
        """The model that a run would ask first.

        Args:
            request_context: The values of the request.
            model: Resolve this, as if it were the call's `model=`.

        Raises:
            ConfigurationError: `AGENT_GET_MODEL_MISSING_MODEL_INSTANCE`, or there is no such provider.
        """
        return (await self._candidates(request_context, model))[0].model

    async def get_llm(self, *, request_context: Any = None, model: ModelConfig | None = None) -> LanguageModel:
        """The same as `get_model`: what is asked is the model itself."""
        return await self.get_model(request_context=request_context, model=model)

    async def get_model_list(self, *, request_context: Any = None) -> tuple[Candidate, ...] | None:
        """The models of a list that are enabled, in their order; None for an agent with a single model."""
        given = await self._resolved_model(request_context)
        return await self._candidates(request_context, given) if isinstance(given, (list, tuple)) else None

    async def list_tools(self, *, request_context: Any = None) -> Mapping[str, RunnableTool]:
        """The agent's tools by the names that the model uses; those of a call are not among them.

        Raises:
            ConfigurationError: The agent's function gave something that is no tool.
        """
        from tenuto.steps.definitions import toolbox_of

        return await toolbox_of(self.setup().definition, _context(request_context))

    async def get_tools(self, *, request_context: Any = None) -> Mapping[str, RunnableTool]:
        """The same as `list_tools`."""
        return await self.list_tools(request_context=request_context)

    async def list_scorers(self, *, request_context: Any = None) -> Mapping[str, ScorerDict]:
        """The agent's scorers by name, each with its sampling and filter, as they were given.

        Raises:
            TenutoError: `AGENT_GET_SCORERS_FUNCTION_EMPTY_RETURN`.
            ConfigurationError: The agent's function gave a sampling or a filter that cannot work.
        """
        from tenuto.core.errors import TenutoError
        from tenuto.evals.declared import read_scorers

        found = await self._resolved(self.setup().definition.scorers, request_context)
        if found is None:
            if self.setup().definition.scorers is None:
                return {}
            message = "The scorers function of the agent returned nothing; return a dict, which may be empty."
            raise TenutoError(message, id="AGENT_GET_SCORERS_FUNCTION_EMPTY_RETURN", domain="AGENT", category="USER")
        return {each.name: each.to_dict() for each in read_scorers(found)}

    async def get_default_options(self, *, request_context: Any = None) -> AllOptions:
        """The default options, under their snake_case names.

        Raises:
            TypeError: The agent's function gave an unknown option.
        """
        from tenuto.read_options import normalise

        return cast("AllOptions", normalise(await self._resolved(self.setup().defaults, request_context) or {}))

    async def get_memory(self, *, request_context: Any = None) -> Memory | None:
        """The agent's memory, keeping its threads where the agent's runs are kept; None when it has none.

        Raises:
            TenutoError: `AGENT_GET_MEMORY_FUNCTION_EMPTY_RETURN`.
            ConfigurationError: The agent's function gave something that is no `Memory`.
        """
        from tenuto.steps.definitions import memory_of

        setup = self.setup()
        return await memory_of(setup.definition, _context(request_context), setup.store)

    def has_own_memory(self) -> bool:
        """Whether the agent was given a memory."""
        return self._given["memory"] is not None

    # -- the sync twins ------------------------------------------------------------------------------------------------

    def get_instructions_sync(self, *, request_context: Any = None) -> SystemInput:
        """`get_instructions` for code without an event loop."""
        return _waited(lambda: self.get_instructions(request_context=request_context))

    def get_metadata_sync(self, *, request_context: Any = None) -> Mapping[str, Any] | None:
        """`get_metadata` for code without an event loop."""
        return _waited(lambda: self.get_metadata(request_context=request_context))

    def get_model_sync(self, *, request_context: Any = None, model: ModelConfig | None = None) -> LanguageModel:
        """`get_model` for code without an event loop."""
        return _waited(lambda: self.get_model(request_context=request_context, model=model))

    def get_llm_sync(self, *, request_context: Any = None, model: ModelConfig | None = None) -> LanguageModel:
        """`get_llm` for code without an event loop."""
        return _waited(lambda: self.get_llm(request_context=request_context, model=model))

    def get_model_list_sync(self, *, request_context: Any = None) -> tuple[Candidate, ...] | None:
        """`get_model_list` for code without an event loop."""
        return _waited(lambda: self.get_model_list(request_context=request_context))

    def list_tools_sync(self, *, request_context: Any = None) -> Mapping[str, RunnableTool]:
        """`list_tools` for code without an event loop."""
        return _waited(lambda: self.list_tools(request_context=request_context))

    def get_tools_sync(self, *, request_context: Any = None) -> Mapping[str, RunnableTool]:
        """`get_tools` for code without an event loop."""
        return _waited(lambda: self.get_tools(request_context=request_context))

    def list_scorers_sync(self, *, request_context: Any = None) -> Mapping[str, ScorerDict]:
        """`list_scorers` for code without an event loop."""
        return _waited(lambda: self.list_scorers(request_context=request_context))

    def get_memory_sync(self, *, request_context: Any = None) -> Memory | None:
        """`get_memory` for code without an event loop."""
        return _waited(lambda: self.get_memory(request_context=request_context))

    def get_default_options_sync(self, *, request_context: Any = None) -> AllOptions:
        """`get_default_options` for code without an event loop."""
        return _waited(lambda: self.get_default_options(request_context=request_context))

    async def _resolved(self, value: Any, request_context: Any) -> Any:
        from tenuto.steps.callbacks import resolve

        return await resolve(value, _context(request_context), self.app)

    async def _resolved_model(self, request_context: Any) -> Any:
        given = self.setup().definition.model
        is_function = callable(given) and not hasattr(given, "stream")
        return await self._resolved(given, request_context) if is_function else given

    async def _candidates(self, request_context: Any, model: Any) -> tuple[Candidate, ...]:
        from tenuto.steps.definitions import candidates_of

        return await candidates_of(self.setup().definition, _context(request_context), model)


def _context(given: Any) -> RequestContext:
    from tenuto.core.request_context import as_request_context

    return as_request_context(given)


def _waited(call: Callable[[], Awaitable[T]]) -> T:
    async def awaited() -> T:
        return await call()

    from tenuto.core.portal import Portal

    return Portal.current().run(awaited())
