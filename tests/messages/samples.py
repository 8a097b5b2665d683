"""Hypothesis strategies for what messages hold."""

from __future__ import annotations

from base64 import b64encode
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from tenuto.messages import stored as s
from tenuto.messages import turns as t

START = datetime(2026, 1, 1, tzinfo=UTC)

texts = st.text(max_size=12)
told = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)
names = st.text("abcdefgh_", min_size=1, max_size=6)
ids = st.integers(1, 999).map("id{}".format)
json = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
args = st.dictionaries(names, json, max_size=3)
metadata = st.none() | st.dictionaries(
    st.sampled_from(["openai", "google", "x"]), st.dictionaries(names, json, min_size=1, max_size=2), min_size=1
)
base64s = st.binary(min_size=1, max_size=9).map(lambda raw: b64encode(raw).decode())
types = st.sampled_from(["image/png", "application/pdf", "text/plain", "audio/wav"])
urls = ids.map(lambda name: f"https://x.org/{name}")
approvals = st.builds(s.Approval, ids.map("approval-{}".format), st.none() | st.booleans(), st.none() | texts)

details = st.one_of(
    st.builds(lambda text, sign: s.ReasoningDetail("text", text, sign), texts, st.none() | texts.filter(bool)),
    st.builds(lambda data: s.ReasoningDetail("redacted", data=data), texts.filter(bool)),
)


@st.composite
def reasoning(draw):
    text = draw(texts)
    found = draw(st.lists(details, min_size=1, max_size=2) | st.just([s.ReasoningDetail("text", text)]))
    return s.ReasoningPart(text, tuple(found), draw(metadata))


@st.composite
def files(draw):
    place = {"url": draw(urls)} if draw(st.booleans()) else {"data": draw(base64s)}
    return s.StoredFilePart(draw(types), filename=draw(st.none() | names), provider_metadata=draw(metadata), **place)


@st.composite
def invocations(draw):
    state = draw(st.sampled_from(["partial-call", "call", "result", "output-error", "output-denied"]))
    failed = state in {"output-error", "output-denied"}
    return s.ToolInvocationPart(
        s.ToolInvocation(
            state,
            draw(ids),
            draw(names),
            draw(args),
            draw(st.none() | st.integers(1, 9)),
            draw(json) if state in {"result", "output-error"} else None,
            draw(st.sampled_from([None, True])) if state == "result" else None,
            draw(texts if state == "output-denied" else st.none() | texts) if failed else None,
            draw(st.none() | texts),
            draw(st.none() | approvals),
        ),
        draw(st.none() | st.just(True)),
        draw(st.none() | texts),
        draw(metadata),
        draw(st.none() | st.booleans()),
    )


parts = st.one_of(
    st.builds(s.TextPart, texts, metadata),
    reasoning(),
    files(),
    invocations(),
    st.builds(s.CustomPart, names.map("x.{}".format), metadata),
    st.builds(
        s.SourcePart,
        st.fixed_dictionaries({"id": ids, "sourceType": st.just("url"), "url": urls}, optional={"title": texts})
        | st.dictionaries(names, json, min_size=1, max_size=3),
        metadata,
    ),
    st.builds(s.SourceDocumentPart, ids, types, texts, st.none() | names, metadata),
    st.builds(s.DataPart, names.filter(lambda name: name != "error"), json, st.none() | ids),
    st.builds(s.StepStartPart, st.none() | st.just("openai/m")),
    st.builds(s.ErrorPart, st.builds(s.ErrorText, names, texts)),
)


@st.composite
def messages(draw):
    """Stored messages of all that both the stored and the UI form can hold."""
    at = START + timedelta(milliseconds=draw(st.integers(0, 10**6)))
    content = s.Content(
        tuple(draw(st.lists(parts, max_size=4))),
        metadata=draw(st.none() | st.dictionaries(names.filter(lambda name: name != "createdAt"), json, min_size=1)),
    )
    return s.Message(draw(ids), draw(st.sampled_from(["user", "assistant", "system"])), at, content)


user_parts = st.one_of(
    st.builds(t.Text, texts, metadata),
    st.builds(t.FilePart, types, urls, st.none(), st.none() | names, metadata),
    st.builds(t.FilePart, types, st.none(), base64s, st.none() | names, metadata),
)
said = st.one_of(
    st.builds(t.Text, texts, metadata),
    st.builds(t.Reasoning, texts, st.none() | texts.filter(bool), metadata),
    st.builds(lambda sealed: t.Reasoning("", redacted=sealed), texts.filter(bool)),
    st.builds(t.FilePart, types, st.none(), base64s, st.none() | names, metadata),
    st.builds(t.Custom, names.map("x.{}".format), metadata),
)


@st.composite
def conversations(draw):
    """Turns as a model reads them: each tool turn stands behind the turn it answers, ids once."""
    turns: list[t.Turn] = []
    count = 0
    for kind in draw(st.lists(st.sampled_from(["user", "assistant", "system"]), max_size=5)):
        options = draw(metadata)
        if kind == "user":
            turns.append(t.UserTurn(tuple(draw(st.lists(user_parts, min_size=1, max_size=3))), options))
        elif kind == "system":
            turns.append(t.SystemTurn(draw(texts), options))
        else:
            content = draw(st.lists(said, max_size=3))
            calls = []
            for name in draw(st.lists(names, max_size=2)):
                count += 1
                calls.append(t.CallPart(f"c{count}", name, draw(args)))
            if not content and not calls:
                continue
            turns.append(t.AssistantTurn((*content, *calls), options))
            results = [
                t.ResultPart(c.tool_call_id, c.tool_name, draw(told), draw(st.sampled_from([None, True])))
                for c in calls
            ]
            if results and draw(st.booleans()):
                turns.append(t.ToolTurn(tuple(results)))
    return turns
