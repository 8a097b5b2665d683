"""What the provider sealed goes back as it was sent: over several requests, and through stored form."""

from __future__ import annotations

import msgspec
import pytest

from tenuto.core.chunks import AnyChunk
from tenuto.messages.convert import step_parts, to_turns
from tenuto.messages.stored import Content, Message, ToolInvocation, timestamp
from tenuto.messages.turns import AssistantTurn, Prompt, ResultPart, ToolTurn
from tenuto.models.ports import ModelRequest, ProviderTool
from tenuto.steps.turn import TurnBuilder
from tenuto.testing.provider import FakeProvider, Raw, message_events
from tests.models.drive import F, model_of, user

SEARCH = ProviderTool("anthropic.web_search_20250305", "web_search")
CODE = ProviderTool("anthropic.code_execution_20250825", "code_execution")
SEALED = "Er4BCkYIBRgCKkA+/=="
ONE = [
    {"type": "thinking", "thinking": "", "signature": SEALED},
    {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4a"},
    {"type": "text", "text": "Let me see. é"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": '漢 "x"'}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
        {"type": "web_search_result", "url": "http://a", "title": "A", "encrypted_content": "EqgfCioIARgB",
         "page_age": None}]},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {},
     "caller": {"type": "code_execution_20250825", "tool_id": "srvtoolu_9"}},
]  # fmt: skip
TWO = [
    {"type": "thinking", "thinking": "so\n", "signature": SEALED + "2"},
    {"type": "text", "text": "It is A.", "citations": [
        {"type": "web_search_result_location", "cited_text": "A", "url": "http://a", "title": "A",
         "encrypted_index": "Eo8BCioIAhgB"}]},
    {"type": "server_tool_use", "id": "srvtoolu_2", "name": "bash_code_execution", "input": {"command": "ls"}},
    {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_2", "content": {
        "type": "bash_code_execution_result", "stdout": "x\n", "stderr": "", "return_code": 0, "content": []}},
    {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "echo", "server_name": "srv", "input": {"m": 1.5}},
    {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False,
     "content": [{"type": "text", "text": "r"}]},
    {"type": "tool_use", "id": "toolu_3", "name": "f", "input": {"a": 2}},
]  # fmt: skip
THREE = [{"type": "text", "text": "done"}]


def played(blocks, stop="tool_use", **delta):
    found = list(message_events(blocks, stop=stop, chunk_size=3))
    found[-1]["delta"] |= delta
    return Raw(found)


class Talk:
    """A conversation as the loop holds it: turns, or messages that are stored after each step."""

    def __init__(self, fake, *, stored=False, name="claude-sonnet-4-5"):
        self.fake, self.stored = fake, stored
        self.options = None
        self.model = model_of(fake, f"anthropic/{name}", api="anthropic")
        self.prompt = Prompt((), [user()])
        self.parts = []
        self.chunks: list[AnyChunk] = []

    async def step(self, **answers):
        """Ask the model, then answer its calls."""
        builder = TurnBuilder("run")
        asked = ModelRequest(
            prompt=self.prompt, tools=(F,), provider_tools=(SEARCH, CODE), provider_options=self.options
        )
        async for batch in self.model.stream(asked):
            self.chunks += builder.take(batch)[0]
        turn = builder.turn
        mine = [call for call in turn.calls if not call.provider_executed]
        results = [ResultPart(call.tool_call_id, call.tool_name, "ok") for call in mine]
        self.prompt.append(turn)
        if results:
            self.prompt.append(ToolTurn(tuple(results)))
        outcomes = {
            call.tool_call_id: ToolInvocation("result", call.tool_call_id, call.tool_name, call.args, result="ok")
            for call in mine
        }
        self.parts += step_parts(turn, outcomes, "anthropic/m", 1)
        if self.stored:
            message = Message("m", "assistant", timestamp(1), Content(tuple(self.parts)))
            read = msgspec.convert(message.to_dict(), Message)
            self.prompt = Prompt((), [user(), *to_turns([read])])
        return turn

    def said(self, place=-1):
        """The blocks of the model in a request, message by message."""
        messages = self.fake.requests[place].body["messages"]
        return [message["content"] for message in messages if message["role"] == "assistant"]


def packed(blocks):
    return msgspec.json.encode(blocks, order="sorted")


@pytest.mark.parametrize("stored", [False, True])
async def test_a19_everything_goes_back_byte_for_byte(stored):
    with FakeProvider([played(ONE), played(TWO), played(THREE, "end_turn")]) as fake:
        talk = Talk(fake, stored=stored)
        talk.options = {"anthropic": {"mcpServers": [{"type": "url", "name": "srv", "url": "https://h"}]}}
        for _ in range(3):
            await talk.step()
        assert packed(talk.said()) == packed([ONE, TWO])
        assert [block["type"] for block in talk.said()[0]] == [block["type"] for block in ONE]
        results = [message for message in fake.requests[2].body["messages"] if message["role"] == "user"]
        assert [[block.get("tool_use_id") for block in message["content"]] for message in results] == [
            [None], ["toolu_1", "toolu_2"], ["toolu_3"],
        ]  # fmt: skip


async def test_an_altered_block_is_refused():
    """The check itself: the fake provider knows again what it sealed."""
    from tenuto.testing.provider.anthropic_blocks import Sealed
    from tenuto.testing.provider.strict import Refused

    sealed = Sealed()
    sealed.remember(ONE)
    sealed.check(ONE[0], "here")
    for change in ({"signature": "other"}, {"thinking": "more"}):
        with pytest.raises(Refused, match="altered_block"):
            sealed.check(ONE[0] | change, "here")
    with pytest.raises(Refused, match="altered_block"):
        sealed.check(ONE[4] | {"content": []}, "here")


CALLED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
ANSWERED = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
USED = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
HM = {"type": "text", "text": "hm"}


@pytest.mark.parametrize("stored", [False, True])
async def test_an_answer_that_pauses_goes_on(stored):
    """The paused answer is sent back as it is, and the result comes in the next one."""
    script = [played([HM, CALLED], "pause_turn"), played([ANSWERED, HM], "end_turn"), played(THREE, "end_turn")]
    with FakeProvider(script) as fake:
        talk = Talk(fake, stored=stored, name="claude-sonnet-5")
        await talk.step()
        await talk.step()
        assert talk.said() == [[HM, CALLED]]
        assert fake.requests[1].body["messages"][-1]["role"] == "assistant"
        talk.prompt.append(user("and?"))
        talk.stored = False
        await talk.step()
        assert [block for message in talk.said() for block in message] == [HM, CALLED, ANSWERED, HM]


@pytest.mark.parametrize("stored", [False, True])
async def test_a_result_that_waits_for_our_own_tool(stored):
    script = [played([CALLED, USED]), played([ANSWERED, HM], "end_turn"), played(THREE, "end_turn")]
    with FakeProvider(script) as fake:
        talk = Talk(fake, stored=stored)
        await talk.step()
        await talk.step()
        talk.stored = False
        talk.prompt.append(user("and?"))
        await talk.step()
        assert talk.said() == [[CALLED, USED], [ANSWERED, HM]]


async def test_a_call_that_is_never_answered_is_given_up():
    script = [played([HM, CALLED], "max_tokens"), played([CALLED | {"id": "srvtoolu_2"}], "max_tokens")]
    with FakeProvider([*script, played(THREE, "end_turn")]) as fake:
        talk = Talk(fake)
        await talk.step()
        talk.prompt.append(user("go on"))
        await talk.step()
        assert talk.said() == [[HM]]
        talk.prompt.append(user("go on"))
        await talk.step()
        assert talk.said() == [[HM]]


async def test_a_result_whose_call_was_cut_away_is_not_sent():
    with FakeProvider([played([CALLED, USED]), played([ANSWERED, HM], "end_turn"), played(THREE, "end_turn")]) as fake:
        talk = Talk(fake)
        await talk.step()
        await talk.step()
        talk.prompt = Prompt((), [user(), *talk.prompt.turns[3:], user("and?")])
        assert isinstance(talk.prompt.turns[1], AssistantTurn)
        await talk.step()
        assert talk.said() == [[HM]]


async def test_code_runs_on_in_its_container():
    container = {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}
    with FakeProvider([played([USED], container=container), played(THREE, "end_turn")]) as fake:
        talk = Talk(fake)
        await talk.step()
        await talk.step()
        assert [request.body.get("container") for request in fake.requests] == [None, "container_1"]
        assert talk.said() == [[USED]]


async def test_a_block_that_nobody_knows_goes_back():
    compaction = {"type": "compaction", "content": "the story so far"}
    with FakeProvider([played([compaction, USED]), played(THREE, "end_turn")], allow_extra={"zip"}) as fake:
        talk = Talk(fake)
        await talk.step()
        asked = ModelRequest(
            prompt=talk.prompt,
            tools=(F,),
            provider_options={"anthropic": {"contextManagement": {"edits": [{"type": "compact_20260112"}]}}},
        )
        async for _ in talk.model.stream(asked):
            pass
        assert talk.said() == [[compaction, USED]]
        assert "compact-2026-01-12" in fake.requests[-1].headers["anthropic-beta"]
