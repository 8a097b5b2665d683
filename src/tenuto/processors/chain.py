"""The processors of one run, in their order, by what they have a hook for.

Invariant: the order of a list is the order in which its processors are asked, each with what the one before it left;
`process_api_error` is asked in the input, the output and then the error processors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from tenuto.core.errors import ConfigurationError
from tenuto.processors.contexts import Surroundings
from tenuto.processors.hooks import BoundHook
from tenuto.processors.processor import HOOKS, Hook, List, hook_of
from tenuto.processors.state import States
from tenuto.processors.streaming import Strainer

_NAMES: tuple[Hook, ...] = tuple(dict.fromkeys(name for names in HOOKS.values() for name in names))


def read_processors(given: object, option: str) -> tuple[Any, ...]:
    """The processors of a list.

    Raises:
        TypeError: It is no list.
        ConfigurationError: `AGENT_PROCESSOR_INVALID`: something in it is no processor.
    """
    if given is None:
        return ()
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, Mapping)):
        message = f"{option}= takes a list of processors, not {type(cast('object', given)).__name__}."
        raise TypeError(message)
    return tuple(_read(each, option) for each in cast("Iterable[Any]", given))


def _read(given: Any, option: str) -> Any:
    if isinstance(given, type):
        raise _invalid(f"{option}= holds the class {given.__name__}; give an instance of it.")
    name = getattr(given, "id", None)
    if not isinstance(name, str) or not name:
        raise _invalid(f"{option}= holds a {type(given).__name__} without an id; set its id to a text that names it.")
    if not any(hook_of(given, hook) for hook in _NAMES):
        raise _invalid(f"Processor {name!r} in {option}= has no hook; give it one of {', '.join(_NAMES)}.")
    return given


def _invalid(message: str) -> ConfigurationError:
    return ConfigurationError(message, id="AGENT_PROCESSOR_INVALID", domain="AGENT")


class Chain:
    """The processors of one run.

    Args:
        lists: The processors by list, in order.
        surroundings: Makes what all hooks of a processor have; its `state` is set here.
        states: Of the run.

    Attributes:
        states: What the processors remember.
        stream: Passes chunks through `process_output_stream`; None when no processor has it.
    """

    def __init__(
        self,
        lists: Mapping[List, Sequence[Any]],
        surroundings: Callable[[str], Surroundings] = lambda name: Surroundings(processor_id=name),
        states: States | None = None,
    ) -> None:
        self.states: States = States() if states is None else states
        self._surroundings = surroundings
        self._shared: dict[str, Surroundings] = {}
        self._hooks: dict[Hook, tuple[BoundHook, ...]] = {name: tuple(self._bound(name, lists)) for name in _NAMES}
        self.has_error_processors: bool = bool(lists.get("error"))
        streaming = self._hooks["process_output_stream"]
        self.stream: Strainer | None = Strainer(streaming) if streaming else None

    def __getitem__(self, name: Hook) -> tuple[BoundHook, ...]:
        """The hooks of this name, in the order in which they are asked."""
        return self._hooks[name]

    def retries(self, count: int) -> None:
        """Let every hook know how often the answer at hand has been asked for again."""
        for shared in self._shared.values():
            shared.retry_count = count

    def _bound(self, name: Hook, lists: Mapping[List, Sequence[Any]]) -> Iterable[BoundHook]:
        for of in ("input", "output", "error"):
            if name not in HOOKS[of]:
                continue
            for processor in lists.get(of, ()):
                call = hook_of(processor, name)
                if call is not None:
                    yield BoundHook(name, call, self._shared_by(processor.id), processor)

    def _shared_by(self, processor_id: str) -> Surroundings:
        if processor_id not in self._shared:
            shared = self._surroundings(processor_id)
            shared.processor_id = processor_id
            shared.state = self.states.of(processor_id)
            self._shared[processor_id] = shared
        return self._shared[processor_id]
