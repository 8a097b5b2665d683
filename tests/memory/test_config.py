"""The options of a memory: names, defaults, merging."""

from __future__ import annotations

from typing import Any

import pytest

from tenuto.errors import ConfigurationError
from tenuto.memory.config import (
    MemoryConfig,
    SemanticRecall,
    TitleOptions,
    TokenLimit,
    WorkingMemory,
    merge_config,
    normalise_config,
    read_config,
)


def read(given: dict[str, Any], *call: dict[str, Any]) -> MemoryConfig:
    merged = normalise_config(given)
    for each in call:
        merged = merge_config(merged, normalise_config(each))
    return read_config(merged)


def test_without_options_a_memory_reads_and_saves_the_history_and_nothing_else() -> None:
    config = read({})
    assert config == MemoryConfig(last_messages=10, filter_incomplete_tool_calls=True)
    assert (config.keeps_history, config.saves) == (True, True)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"lastMessages": 3}, MemoryConfig(3)),
        ({"last_messages": False}, MemoryConfig(0)),
        ({"last_messages": None}, MemoryConfig(10)),
        ({"messageHistory": {"maxTokens": 1000}}, MemoryConfig(None, TokenLimit(1000, 250))),
        (
            {"message_history": {"max_tokens": 1000, "at_max_remove_tokens": 10}, "last_messages": 5},
            MemoryConfig(5, TokenLimit(1000, 10)),
        ),
        ({"semantic_recall": True}, MemoryConfig(semantic_recall=SemanticRecall())),
        (
            {"semanticRecall": {"topK": 2, "messageRange": {"before": 3, "after": 0}, "scope": "thread"}},
            MemoryConfig(semantic_recall=SemanticRecall(2, 3, 0, "thread")),
        ),
        ({"semantic_recall": {"message_range": 2}}, MemoryConfig(semantic_recall=SemanticRecall(4, 2, 2))),
        ({"workingMemory": {"enabled": True}}, MemoryConfig(working_memory=WorkingMemory())),
        ({"working_memory": {"template": "x"}}, MemoryConfig()),
        (
            {"working_memory": {"enabled": True, "scope": "thread", "schema": {"type": "object"}, "readOnly": True}},
            MemoryConfig(working_memory=WorkingMemory("thread", None, {"type": "object"}, read_only=True)),
        ),
        (
            {"generateTitle": {"minMessages": 4, "emitEvent": True}},
            MemoryConfig(generate_title=TitleOptions(None, None, 4, emit_event=True)),
        ),
        ({"generate_title": False}, MemoryConfig()),
    ],
)
def test_options_have_both_spellings_and_their_defaults(given: dict[str, Any], expected: MemoryConfig) -> None:
    assert read(given) == expected


def test_a_calls_options_lie_over_the_memorys_one_by_one() -> None:
    config = read(
        {
            "last_messages": 20,
            "semantic_recall": {"top_k": 9, "scope": "thread"},
            "generate_title": {"min_messages": 3},
        },
        {"lastMessages": 2, "semanticRecall": {"topK": 1}, "generate_title": True},
    )
    assert config.last_messages == 2
    assert config.semantic_recall == SemanticRecall(1, scope="thread")
    assert config.generate_title == TitleOptions(min_messages=3)


def test_turned_off_by_a_call() -> None:
    config = read(
        {"semantic_recall": {"top_k": 9}, "working_memory": {"enabled": True}},
        {"semantic_recall": False, "working_memory": {"enabled": False}},
    )
    assert (config.semantic_recall, config.working_memory) == (None, None)


def test_a_schema_takes_the_place_of_a_template_and_is_never_merged() -> None:
    one = {"type": "object", "properties": {"a": {}}}
    other = {"type": "object", "properties": {"b": {}}}
    config = read(
        {"working_memory": {"enabled": True, "template": "x"}},
        {"working_memory": {"schema": one}},
        {"working_memory": {"schema": other}},
    )
    assert config.working_memory == WorkingMemory(schema=other)


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"last_message": 3}, TypeError, "last_messages"),
        ({"last_messages": 3, "lastMessages": 3}, TypeError, "given twice"),
        ({"last_messages": -1}, ValueError, "at least 0"),
        ({"last_messages": "3"}, TypeError, "whole number"),
        ({"last_messages": True}, TypeError, "whole number"),
        ({"read_only": 1}, TypeError, "True or False"),
        ({"message_history": {}}, TypeError, "max_tokens"),
        ({"message_history": {"max_tokens": 5, "at_max_remove_tokens": 5}}, ValueError, "nothing would be left"),
        ({"semantic_recall": {"topk": 1}}, TypeError, "top_k"),
        ({"semantic_recall": {"scope": "world"}}, ValueError, "'resource' or 'thread'"),
        ({"working_memory": {"enabled": True, "template": "x", "schema": {}}}, ConfigurationError, "not both"),
        ({"threads": {"generateTitle": True}}, ConfigurationError, "generate_title"),
    ],
)
def test_what_is_no_option_says_so(given: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read(given)
