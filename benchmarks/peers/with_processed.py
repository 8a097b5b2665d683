"""tenuto with one output processor that passes everything on."""

from __future__ import annotations

from scenarios import main
from with_tenuto import WithTenuto

from tenuto import Agent
from tenuto.core.chunks import AnyChunk
from tenuto.processors import OutputStreamContext, Processor


class PassOn(Processor):
    id = "pass-on"

    def process_output_stream(self, context: OutputStreamContext) -> AnyChunk:
        return context.part


class WithProcessed(WithTenuto):
    def _new_agent(self, model: str) -> Agent:
        return super()._new_agent(model).replace(output_processors=[PassOn()])


if __name__ == "__main__":
    main(WithProcessed())
