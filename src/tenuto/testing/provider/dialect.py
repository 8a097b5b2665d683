"""The port that a provider's wire format fills: one file per dialect.

Invariant: a dialect neither reads sockets nor scripts; it checks bodies and turns replies into events.
"""

from typing import Any, Protocol

import msgspec

from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import Event, Reply
from tenuto.testing.provider.strict import Rules

__all__ = ["Dialect", "Wanted", "refuse_to_render"]


def refuse_to_render(reply: Reply, *names: str) -> None:
    """Raise ValueError, a failure of the script, when the reply has something that its dialect has no place for."""
    for name in names:
        if getattr(reply, name):
            message = f"This dialect has no place for {name}= of a Reply; play it in another one, or use Raw."
            raise ValueError(message)


class Wanted(msgspec.Struct, frozen=True):
    """What a request asks of its response.

    Attributes:
        model: The model's name.
        stream: SSE instead of one JSON body.
        usage: A streamed response reports usage.
        results: Tool results in the request.
    """

    model: str
    stream: bool
    usage: bool
    results: int


class Dialect(Protocol):
    """One wire format. An instance belongs to one provider and may remember what it sent."""

    def serves(self, path: str) -> bool:
        """Whether requests to this path are in this dialect."""
        ...

    def authorize(self, request: Request, rules: Rules) -> None:
        """Raise `Refused` when the key is wrong."""
        ...

    def check(self, body: dict[str, Any], rules: Rules) -> None:
        """Raise `Refused` when a real provider would refuse the body."""
        ...

    def wanted(self, request: Request) -> Wanted:
        """Read what the request asks for; lenient, since a provider may be told not to check."""
        ...

    def events(self, reply: Reply, wanted: Wanted, serial: int) -> list[Event]:
        """Render a streamed reply without its end marker; `serial` numbers the response."""
        ...

    def whole(self, reply: Reply, wanted: Wanted, serial: int) -> bytes:
        """Render a reply as one JSON body."""
        ...

    def end(self) -> Event | None:
        """Give the event that ends a stream, if the dialect has one."""
        ...

    def error(self, status: int, message: str, code: str | None = None, param: str | None = None) -> bytes:
        """Render the body of an error response."""
        ...
