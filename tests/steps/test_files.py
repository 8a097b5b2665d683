"""Which linked files a model gets as content, and where in a prompt they stand."""

from __future__ import annotations

import pytest

from tenuto.messages.turns import AssistantTurn, FilePart, Prompt, ResultPart, SystemTurn, Text, ToolTurn, UserTurn
from tenuto.models.anthropic import AnthropicFormat
from tenuto.models.chat import ChatFormat
from tenuto.models.downloads import Downloads
from tenuto.models.endpoint import Endpoint
from tenuto.models.gemini import GeminiFormat
from tenuto.models.http_model import HttpModel
from tenuto.steps.files import fetch_links
from tests.models.host import PNG, answer, hosting


class Run:
    """As much of a run as fetching needs."""

    def __init__(self, **limits):
        from tenuto.core.abort import AbortController

        self.abort = AbortController()
        self.fetched = {}
        self.options = type("Options", (), {"downloads": Downloads(allow_hosts=("127.0.0.1",), **limits)})


def model(wire_format):
    return HttpModel("x", "m", Endpoint(url="http://127.0.0.1:1"), wire_format)


def link(url, kind="application/pdf"):
    return FilePart(kind, url=url)


async def test_each_kind_of_turn_gets_its_files():
    async with hosting({"/a": answer(b"%PDF-"), "/b": answer(PNG)}) as host:
        pdf = link(host.url("/a"))
        kept = link("gs://bucket/a.pdf")
        prompt = Prompt((SystemTurn("s"),), [UserTurn((Text("a"), pdf)), AssistantTurn((pdf,)), UserTurn((kept,))])
        prompt.append(ToolTurn((ResultPart("c", "f", "t"), ResultPart("d", "f", "t", content=(pdf, Text("b"))))))
        prompt.append(UserTurn((Text("no file"),)))
        assert prompt.linked == [0, 1, 2, 3]
        await fetch_links(Run(), prompt, model(ChatFormat("x")))
    content = FilePart("application/pdf", data="JVBERi0=")
    assert prompt.turns[0] == UserTurn((Text("a"), content))
    assert prompt.turns[1] == AssistantTurn((content,))
    assert prompt.turns[2] == UserTurn((kept,))
    assert prompt.turns[3].results[1].content == (content, Text("b"))
    assert prompt.linked == [2]
    assert host.paths == ["/a"]


TAKES = [
    (ChatFormat("x"), "image/png", "https://x.org/a.png", True),
    (ChatFormat("x"), "image/*", "https://x.org/a", True),
    (ChatFormat("x"), "application/pdf", "https://x.org/a.pdf", False),
    (ChatFormat("x"), "audio/mpeg", "https://x.org/a.mp3", False),
    (ChatFormat("x"), "text/csv", "https://x.org/a.csv", False),
    (ChatFormat("x"), "video/mp4", "https://x.org/a.mp4", True),
    (AnthropicFormat("anthropic", "claude-sonnet-4-6"), "application/pdf", "https://x.org/a.pdf", True),
    (AnthropicFormat("anthropic", "claude-sonnet-4-6"), "text/csv", "https://x.org/a.csv", False),
    (GeminiFormat("google"), "image/png", "https://x.org/a.png", False),
    (GeminiFormat("google"), "video/mp4", "https://www.youtube.com/watch?v=1", True),
    (GeminiFormat("google"), "image/png", "https://generativelanguage.googleapis.com/v1beta/files/1", True),
]


@pytest.mark.parametrize(("wire_format", "kind", "url", "takes"), TAKES)
def test_what_a_dialect_takes_as_a_url(wire_format, kind, url, takes):
    assert model(wire_format).takes_url(kind, url) is takes


async def test_a_model_of_somebody_elses_decides_itself():
    prompt = Prompt((), [UserTurn((link("http://127.0.0.1:1/a"),))])
    await fetch_links(Run(), prompt, object())
    assert prompt.linked == [0]
