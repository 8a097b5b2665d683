"""tenuto with one output processor that passes everything on, and memory."""

from __future__ import annotations

from itertools import count

from scenarios import QUESTION, OnText, main
from with_tenuto import WithTenuto

from tenuto import Agent, Memory
from tenuto.core.chunks import AnyChunk
from tenuto.processors import OutputStreamContext, Processor
from tenuto.store import InMemoryStore


class PassOn(Processor):
    id = "pass-on"

    def process_output_stream(self, context: OutputStreamContext) -> AnyChunk:
        return context.part


class WithProcessed(WithTenuto):
    def __init__(self) -> None:
        super().__init__()
        self._threads = count()

    async def stream(self, model: str, on_text: OnText) -> None:
        thread = str(next(self._threads))
        async with self._agent(model).stream(QUESTION, memory={"thread": thread, "resource": "bench"}) as output:
            async for text in output.text_stream:
                on_text(text)

    def _new_agent(self, model: str) -> Agent:
        memory = Memory(store=InMemoryStore())
        return super()._new_agent(model).replace(output_processors=[PassOn()], memory=memory)


if __name__ == "__main__":
    main(WithProcessed())
