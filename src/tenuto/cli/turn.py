"""One turn of an agent, shown while it runs; Ctrl-C aborts it.

Invariant: a turn ends with its run: nothing of it is still going on when the next prompt appears.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

from tenuto.cli.agents import AnyAgent
from tenuto.cli.screen import Answer, brief
from tenuto.core.abort import AbortController
from tenuto.core.chunks import AnyChunk, StepStart, TextDelta, ToolCall, ToolError, ToolResult
from tenuto.core.payloads import FinishReason
from tenuto.messages.stored import Message
from tenuto.models.sessions import close_session
from tenuto.runs.result import Result


async def take_turn(
    agent: AnyAgent, messages: Sequence[Message | str], *, max_steps: int | None = None, tool_choice: str | None = None
) -> Result[Any]:
    """Run the agent and show what happens; the result, also of a failed or aborted run."""
    controller, answer = AbortController(), Answer()
    options: dict[str, Any] = {"abort_signal": controller.signal}
    if max_steps is not None:
        options["max_steps"] = max_steps
    if tool_choice is not None:
        options["tool_choice"] = _choice(tool_choice)
    with _interrupts(controller, answer):
        stream = await agent.stream(list(messages), **options)
        await _show(stream.full_stream, answer)
        result = await stream.get_full_output()
    answer.close()
    if result.finish_reason == "aborted":
        answer.note("stopped", "yellow")
    elif result.finish_reason == "length":
        answer.note("(cut at the limit of output tokens)")
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


async def _show(chunks: AsyncIterator[AnyChunk], answer: Answer) -> None:
    seen: set[str] = set()
    async for chunk in chunks:
        match chunk:
            case TextDelta():
                answer.text(chunk.payload.text)
            case ToolCall():
                answer.note(f"→ {chunk.payload.tool_name}({_arguments(chunk)})", "cyan")
            case ToolResult():
                answer.note(f"← {brief(_text(chunk.payload.result))}", "green")
            case ToolError():
                answer.note(f"✗ {chunk.payload.tool_name}: {brief(chunk.payload.error.message)}", "red")
            case StepStart():
                for warning in map(_warning, chunk.payload.warnings):
                    if warning not in seen:
                        seen.add(warning)
                        answer.note(f"note: {warning}", "yellow")
            case _:
                pass


def _warning(warning: Any) -> str:
    return str(_fields(warning).get("details", warning))


def _arguments(call: ToolCall) -> str:
    args = _fields(call.payload.args)
    return brief(
        ", ".join(f"{key}={_text(value, quoted=True)}" for key, value in args.items()) or call.payload.raw_args or ""
    )


def _fields(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(value: Any, *, quoted: bool = False) -> str:
    if isinstance(value, str) and not quoted:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


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
