"""One turn of an agent, shown while it runs; Ctrl-C aborts it.

Invariant: a turn ends with its run: nothing of it is still going on when the next prompt appears.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from tenuto.cli.agents import AnyAgent
from tenuto.cli.screen import Answer
from tenuto.cli.stream import Narrator
from tenuto.cli.usage import tokens
from tenuto.core.abort import AbortController
from tenuto.core.payloads import FinishReason
from tenuto.messages.stored import Message
from tenuto.models.sessions import close_session
from tenuto.runs.result import Result


async def take_turn(
    agent: AnyAgent, messages: Sequence[Message | str], *, max_steps: int | None = None, tool_choice: str | None = None
) -> Result[Any]:
    """Run the agent and show what happens; the result, also of a failed or aborted run."""
    controller, answer = AbortController(), Answer()
    narrator = Narrator(answer)
    options: dict[str, Any] = {"abort_signal": controller.signal}
    if max_steps is not None:
        options["max_steps"] = max_steps
    if tool_choice is not None:
        options["tool_choice"] = _choice(tool_choice)
    with _interrupts(controller, answer):
        stream = await agent.stream(list(messages), **options)
        async for chunk in stream.full_stream:
            narrator.take(chunk)
        result = await stream.get_full_output()
    answer.close()
    if result.finish_reason == "aborted":
        answer.note("stopped", "yellow")
    elif result.finish_reason == "length":
        answer.note("(cut at the limit of output tokens)")
    if result.usage.cost is not None:
        answer.note(f"({tokens(result.usage)})")
    return result


def run_once(agent: AnyAgent, prompt: str, *, max_steps: int | None, tool_choice: str | None) -> FinishReason:
    """One turn on an event loop of its own; how it ended.

    Raises:
        TenutoError: The run failed.
    """

    async def once() -> FinishReason:
        try:
            result = await take_turn(agent, [prompt], max_steps=max_steps, tool_choice=tool_choice)
        finally:
            await close_session()
        if result.error is not None:
            raise result.error
        return result.finish_reason

    return asyncio.run(once())


def _choice(name: str) -> Any:
    return name if name in {"auto", "none", "required"} else {"type": "tool", "tool_name": name}


@contextmanager
def _interrupts(controller: AbortController, answer: Answer) -> Generator[None]:
    """Ctrl-C aborts the run instead of ending the program. Only the main thread of a process can have that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def abort() -> None:
        if controller.signal.aborted:
            answer.note("still stopping: running tools get a few seconds")
        controller.abort("Ctrl-C")

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(abort)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
