"""Turns a reply into bytes and writes them as its delivery says.

Invariant: with the default delivery a response is one write; with a gate, hang, drop or pace each event is its own.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import assert_never

import msgspec

from tenuto.testing.provider.dialect import Dialect, Wanted
from tenuto.testing.provider.gate import Gate
from tenuto.testing.provider.http1 import LAST_CHUNK, frame, head
from tenuto.testing.provider.script import (
    AnyReply,
    Burst,
    Bytes,
    Delivery,
    Event,
    HTTPError,
    Raw,
    Reply,
    Silence,
    ToolRounds,
    Vectors,
)
from tenuto.testing.provider.strict import Refused

__all__ = ["Outgoing", "deliver", "prepare", "refuse"]

_SSE = "text/event-stream; charset=utf-8"
_JSON = "application/json"
_DIRECT = Delivery()


class Outgoing(msgspec.Struct, frozen=True):
    """A response ready to be written.

    Attributes:
        head: Status line and headers.
        items: The body, one entry per event.
        chunked: The body is framed in HTTP chunks.
        delivery: How to write it.
        answers: False for a response that never comes.
    """

    head: bytes
    items: Sequence[bytes]
    chunked: bool
    delivery: Delivery = _DIRECT
    answers: bool = True

    @property
    def is_direct(self) -> bool:
        """Whether one write is enough."""
        return self.answers and not self.delivery.cut and not self.delivery.is_paced

    def encode(self) -> bytes:
        """Give the whole response."""
        if not self.chunked:
            return b"".join((self.head, *self.items))
        return b"".join((self.head, *map(frame, self.items), LAST_CHUNK))


def prepare(dialect: Dialect, reply: AnyReply, wanted: Wanted, serial: int) -> Outgoing:
    """Render a reply for a request."""
    match reply:
        case Reply():
            return _model_reply(dialect, reply, reply, wanted, serial)
        case Burst():
            return _model_reply(dialect, reply.as_reply(), reply, wanted, 0)
        case ToolRounds():
            return _model_reply(dialect, reply.as_reply(wanted.results), reply, wanted, 0)
        case Raw():
            return _stream(dialect, [_event(each) for each in reply.events], reply, serial)
        case Bytes():
            return _exact(reply, serial)
        case Vectors():
            raise ValueError("Only the embeddings endpoint answers with Vectors.")
        case HTTPError():
            return _error(dialect, reply, serial)
        case Silence():
            return Outgoing(b"", (), chunked=False, delivery=reply, answers=False)
        case _:
            assert_never(reply)


def refuse(dialect: Dialect, refused: Refused, serial: int) -> Outgoing:
    """Render a refusal."""
    body = dialect.error(refused.status, refused.message, refused.reason, refused.param)
    return Outgoing(_head(refused.status, _JSON, _DIRECT, serial, len(body)), (body,), chunked=False)


async def deliver(out: Outgoing, write: Callable[[bytes], None], held: Gate) -> bool:
    """Write a response step by step; tell whether it ended as HTTP demands (False: drop the connection)."""
    if not out.answers:
        await held.take()
        return False
    write(out.head)
    if not await _write_items(out, write, held):
        return False
    if out.chunked:
        write(LAST_CHUNK)
    return True


async def _write_items(out: Outgoing, write: Callable[[bytes], None], held: Gate) -> bool:
    plan = out.delivery
    items = out.items if plan.is_paced else [b"".join(out.items)]
    began = asyncio.get_running_loop().time()
    for position in range(len(items) + 1):
        if position == plan.drop_after:
            return False
        if position == plan.hang_after:
            await held.take()
        if position == len(items):
            break
        await _wait_turn(plan, began, position)
        for piece in _cut(items[position], plan.cut):
            write(frame(piece) if out.chunked else piece)
            if plan.cut:
                await asyncio.sleep(0)  # the next piece is a send of its own
    return True


async def _wait_turn(plan: Delivery, began: float, position: int) -> None:
    if plan.gate is not None:
        await plan.gate.take()
    if plan.pace > 0:
        due = began + (position + 1) * plan.pace
        await asyncio.sleep(due - asyncio.get_running_loop().time())


def _cut(item: bytes, size: int) -> Iterator[bytes]:
    step = size or len(item) or 1
    return (item[start : start + step] for start in range(0, len(item), step))


def _head(status: int, content_type: str, plan: Delivery, serial: int, length: int | None) -> bytes:
    headers = {"content-type": content_type, "x-request-id": f"req_{serial}"}
    headers |= {name.lower(): text for name, text in plan.headers.items()}
    return head(status, headers.items(), length=length)


def _model_reply(dialect: Dialect, reply: Reply, plan: Delivery, wanted: Wanted, serial: int) -> Outgoing:
    if wanted.stream:
        return _stream(dialect, dialect.events(reply, wanted, serial), plan, serial)
    body = dialect.whole(reply, wanted, serial)
    return Outgoing(_head(200, _JSON, plan, serial, len(body)), (body,), chunked=False, delivery=plan)


def _stream(dialect: Dialect, events: list[Event], plan: Delivery, serial: int) -> Outgoing:
    end = dialect.end()
    if plan.done and end is not None:
        events = [*events, end]
    start = _head(200, _SSE, plan, serial, None)
    return Outgoing(start, [_encode(event, plan) for event in events], chunked=True, delivery=plan)


def _encode(event: Event, plan: Delivery) -> bytes:
    newline = plan.line_ending.encode()
    named = [b"event: " + event.name.encode()] if event.name else []
    lines = [event.data] if isinstance(event.data, bytes) else event.data.encode().split(b"\n")
    blocks = [block.encode().split(b"\n") for block in plan.keepalives]
    blocks.append([*named, *(b"data: " + line for line in lines)])
    return b"".join(newline.join(block) + newline + newline for block in blocks)


def _event(given: object) -> Event:
    if isinstance(given, Event):
        return given
    return Event(given) if isinstance(given, str | bytes) else Event(msgspec.json.encode(given))


def _exact(reply: Bytes, serial: int) -> Outgoing:
    start = _head(reply.status, reply.content_type, reply, serial, None)
    counted = list(_cut(reply.body, reply.cut)) if reply.is_paced else [reply.body]
    return Outgoing(start, counted if reply.body else (), chunked=True, delivery=reply)


def _error(dialect: Dialect, reply: HTTPError, serial: int) -> Outgoing:
    body = _error_body(dialect, reply)
    start = _head(reply.status, _JSON, reply, serial, len(body))
    return Outgoing(start, (body,), chunked=False, delivery=reply)


def _error_body(dialect: Dialect, reply: HTTPError) -> bytes:
    match reply.body:
        case None:
            return dialect.error(reply.status, f"The script answers {reply.status}.")
        case str():
            return reply.body.encode()
        case bytes():
            return reply.body
        case _:
            return msgspec.json.encode(reply.body)
