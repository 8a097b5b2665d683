"""A conversation in the terminal: one event loop, one turn at a time, the whole history given back each time."""

from __future__ import annotations

import asyncio
import sys

from tenuto.cli.agents import AnyAgent
from tenuto.cli.screen import failed, note
from tenuto.cli.turn import take_turn
from tenuto.core.errors import TenutoError
from tenuto.messages.stored import Message
from tenuto.models.sessions import close_session

_HELP = "Ctrl-C stops a turn. /new forgets the conversation, /exit or Ctrl-D leaves."


def converse(agent: AnyAgent, *, tool_choice: str | None = None) -> None:
    """Read lines and answer them until the input ends."""
    if sys.stdin.isatty():
        note(f"{agent.name}. {_HELP}")
    history: list[Message] = []
    with asyncio.Runner() as runner:
        try:
            while (line := _read()) is not None:
                match line.strip():
                    case "":
                        pass
                    case "/exit" | "/quit":
                        break
                    case "/new":
                        history = []
                        note("The conversation is forgotten.")
                    case "/help":
                        note(_HELP)
                    case text:
                        history = runner.run(_answer(agent, history, text, tool_choice))
        finally:
            runner.run(close_session())


def _read() -> str | None:
    """The next line; None at the end of the input. Ctrl-C at the prompt throws away what was typed."""
    while True:
        try:
            return input("> " if sys.stdin.isatty() else "")
        except EOFError:
            if sys.stdin.isatty():
                print()
            return None
        except KeyboardInterrupt:
            print()
            note("Nothing is running; Ctrl-D or /exit leaves.")


async def _answer(agent: AnyAgent, history: list[Message], text: str, tool_choice: str | None) -> list[Message]:
    """The history after the turn. A turn that failed is not in it, so that the next one can go on."""
    try:
        result = await take_turn(agent, [*history, text], tool_choice=tool_choice)
    except (TenutoError, TypeError) as error:
        failed(str(error))
        return history
    if result.error is not None:
        failed(str(result.error))
        if result.error.id == "MODEL_CONTEXT_EXCEEDED" and history:
            note("/new starts a new conversation.")
        return history
    return list(result.messages)
