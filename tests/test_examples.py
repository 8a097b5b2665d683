"""The examples on scripted models; by hand they run on the local one."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from tenuto.testing import Call, ScriptedModel

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_the_researcher(capsys):
    model = ScriptedModel(
        [
            Call("agent-finder", {"prompt": "The height of the Eiffel Tower."}),
            Call("search", {"topic": "Eiffel Tower"}),
            "330 metres, says the operator.",
            Call("agent-checker", {"prompt": "330 metres, says the operator: has it a source?"}),
            "Sourced: the operator is named.",
            "It is 330 metres tall, says its operator.",
        ]
    )
    researcher = example("researcher")
    assert (
        await researcher.ask(researcher.team(model), researcher.QUESTION) == "It is 330 metres tall, says its operator."
    )
    model.assert_done()
    shown = capsys.readouterr().out
    for line in (
        "delegates   agent-finder(",
        "  calls     search({'topic': 'Eiffel Tower'})",
        "  says      Sourced: the operator is named.",
        "is told     330 metres, says the operator.",
    ):
        assert line in shown
    checked = model.requests[4].messages
    assert [message["role"] for message in checked] == ["system", "user", "user"]


async def test_the_support_desk(capsys, tmp_path):
    model = ScriptedModel(
        [
            "I am sorry to hear that, Ann.",
            "Nothing yet.",
            Call("refund", {"order_id": "A-17"}),
            "Order A-17 is refunded.",
        ]
    )
    kept = await example("support_desk").day(model, tmp_path / "desk.db")
    model.assert_done()
    assert kept == [
        "I am Ann, and the lamp of order A-17 is broken.",
        "I am sorry to hear that, Ann.",
        "Please refund it.",
        "Order A-17 is refunded.",
    ]
    assert [each["content"] for each in model.requests[1].messages if each["role"] == "user"] == [
        "Hello, what do you know about me?"  # of bob, who is told nothing of ann
    ]
    assert "waits       refund({'order_id': 'A-17'}): approved" in capsys.readouterr().out
