"""The chat in a real terminal: Ctrl-C stops the turn, not the program."""

import sys

import pytest

if sys.platform == "win32":
    pytest.skip("there is no pty here", allow_module_level=True)

import pexpect

pytestmark = pytest.mark.slow

BOTS = '''
import asyncio
from tenuto import Agent
from tenuto.core.payloads import TextDeltaPayload, TextStartPayload, TextEndPayload, Usage
from tenuto.models.ports import Finish, RequestStart

class Endless:
    """Begins an answer; to "wait" it never goes on."""
    provider, model_id = "test", "endless"

    async def stream(self, request):
        asked = request.prompt.turns[-1].content[0].text
        yield [RequestStart(None), TextStartPayload("1"), TextDeltaPayload("1", f"You said {asked}")]
        if asked == "wait":
            await asyncio.Event().wait()
        yield [TextEndPayload("1"), Finish("stop", Usage())]

agent = Agent(id="endless", model=Endless())
'''


@pytest.fixture
def terminal(tmp_path):
    (tmp_path / "bots.py").write_text(BOTS)
    started = []

    def start(*arguments):
        child = pexpect.spawn(
            sys.executable, ["-m", "tenuto", *arguments], cwd=str(tmp_path), encoding="utf-8", timeout=60, echo=False
        )
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


def test_ctrl_c_stops_the_turn_and_the_chat_goes_on(terminal):
    chat = terminal("chat", "bots:agent")
    chat.expect("> ")
    chat.sendline("wait")
    chat.expect("You said wait")
    chat.sendintr()
    chat.expect("stopped")
    chat.expect("> ")
    chat.sendline("again")
    chat.expect("You said again")
    chat.expect("> ")
    chat.sendintr()
    chat.expect("Nothing is running")
    chat.expect("> ")
    chat.sendeof()
    chat.expect(pexpect.EOF)
    chat.close()
    assert (chat.exitstatus, chat.signalstatus) == (0, None)


def test_ctrl_c_ends_a_single_run_with_its_own_exit_code(terminal):
    run = terminal("run", "bots:agent", "wait")
    run.expect("You said wait")
    run.sendintr()
    run.expect("stopped")
    run.expect(pexpect.EOF)
    run.close()
    assert run.exitstatus == 130
