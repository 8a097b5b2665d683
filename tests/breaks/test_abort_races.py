"""An abort is an abort, also when the model hears of it before the driver does."""

from __future__ import annotations

import pytest

from tenuto import AbortController, Agent
from tenuto.errors import ModelError
from tenuto.testing import Reply, ScriptedModel
from tests.agent.kit import both, run


@both
@pytest.mark.parametrize("error", [ModelError("The call was aborted.", id="MODEL_CALL_ABORTED"), ValueError("closed")])
async def test_a_model_that_fails_because_of_the_abort(verb, error):
    controller, told = AbortController(), []

    def model(_request):
        controller.abort()
        raise error

    agent = Agent(id="a", model=ScriptedModel(model))
    ran = await run(verb, agent, abort_signal=controller.signal, on_abort=told.append)
    assert (ran.result.finish_reason, ran.error) == ("aborted", None)
    assert ran.types[-2:] == ["abort", "finish"]
    assert len(told) == 1


async def test_a_model_that_fails_in_its_answer_because_of_the_abort():
    controller = AbortController()

    class Model(ScriptedModel):
        async def stream(self, request):
            async for batch in super().stream(request):
                yield batch
                if controller.signal.aborted:
                    raise ModelError("The call was aborted.", id="MODEL_CALL_ABORTED")

    def stop(chunk):
        if chunk.type == "text-delta":
            controller.abort()

    stream = await Agent(id="a", model=Model(Reply("Hello", chunk_size=1))).stream(
        "x", abort_signal=controller.signal, on_chunk=stop
    )
    result = await stream.get_full_output()
    assert (result.finish_reason, result.error) == ("aborted", None)
