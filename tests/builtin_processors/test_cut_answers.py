"""An answer that is cut off: what processors held back of it is said to nobody, and nothing follows its end."""

import asyncio

import pytest

from tenuto import AbortController, Agent, Memory
from tenuto.processors import BatchPartsProcessor, ModerationProcessor, PIIDetector, RegexFilterProcessor
from tenuto.store import InMemoryStore
from tenuto.testing import Call, FakeProvider, Gate, Reply, ScriptedModel, check_stream
from tests.agent.kit import agent_on, both, run
from tests.builtin_processors.kit import judge

KEY = "AKIAIOSFODNN7EXAMPLE"

PROCESSORS = {
    "redact": lambda: RegexFilterProcessor(presets=["secrets"], strategy="redact"),
    "block": lambda: RegexFilterProcessor(presets=["secrets"]),
    "moderation": lambda: ModerationProcessor(model=judge()),
    "batches": lambda: BatchPartsProcessor(batch_size=50),
}


@both
@pytest.mark.parametrize("how", ["cut", "aborted"])
@pytest.mark.parametrize("name", PROCESSORS)
async def test_nothing_is_said_after_the_answer_was_cut(verb, name, how):
    gate, stop = Gate(permits=6), AbortController()
    reply = Reply(f"hello {KEY} and more", chunk_size=4, drop_after=7, gate=gate)
    async with FakeProvider([reply]) as provider:
        one = agent_on(provider, output_processors=[PROCESSORS[name]()])
        running = run(verb, one, abort_signal=stop.signal)
        task = asyncio.ensure_future(running)
        await gate.wait_blocked()
        stop.abort() if how == "aborted" else gate.open()
        ran = await task
    check_stream(ran.chunks)
    said = "".join(chunk.payload.text for chunk in ran.of("text-delta"))
    assert KEY[:6] not in said
    end = ran.types.index("abort" if how == "aborted" else "error")
    assert not {"text-delta", "text-end"} & set(ran.types[end:])


@both
async def test_what_is_redacted_of_a_delegation_is_told_and_kept_nowhere(verb):
    mail = "ann.smith@example.com"
    aide = Agent(id="aide", model=ScriptedModel([f"Write to {mail}."]))
    model = ScriptedModel([Call("agent-aide", {"prompt": "x"}), "Done.", "Again."])
    guard = PIIDetector(detection_types=["email"], redaction_method="placeholder", tool_results=True)
    memory = Memory(store=InMemoryStore())
    one = Agent(id="boss", model=model, agents={"aide": aide}, output_processors=[guard], memory=memory)
    where = {"thread": "t", "resource": "ann"}
    ran = await run(verb, one, memory=where)
    assert model.requests[1].messages[-1]["content"] == "Write to [EMAIL]."
    await one.generate("And now?", memory=where)
    assert mail not in repr((ran.result.messages, ran.result.tool_results, model.requests))
