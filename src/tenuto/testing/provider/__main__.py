"""Serves burst and tool-round answers from a process of its own, for benchmarks: `python -m tenuto.testing.provider`.

The model's name picks the answer: `burst-5000`, `burst-200-2ms` (one event each 2 ms) or `rounds-10` and `rounds-10-4`
(4 parallel calls). It prints its base URL, and ends when its standard input closes. Requests are not checked.
"""

import asyncio
import importlib
import re
import sys
from collections.abc import Callable
from functools import lru_cache

import msgspec

from tenuto.testing.provider.http1 import Request
from tenuto.testing.provider.script import AnyReply, Burst, HTTPError, ToolRounds
from tenuto.testing.provider.server import FakeProvider


class _Named(msgspec.Struct):
    model: str


_named = msgspec.json.Decoder(_Named)
_in_path = re.compile(r"/models/([^/:]+):").search


@lru_cache
def reply_for(model: str) -> AnyReply:
    """Read the answer out of a model's name."""
    match model.rpartition("/")[2].split("-"):
        case ["burst", count]:
            return Burst(int(count))
        case ["burst", count, pace] if pace.endswith("ms"):
            return Burst(int(count), pace=float(pace[:-2]) / 1000)
        case ["rounds", rounds]:
            return ToolRounds(int(rounds))
        case ["rounds", rounds, width]:
            return ToolRounds(int(rounds), int(width))
        case _:
            return HTTPError(404)


def main() -> None:
    """Serve until standard input closes."""
    provider = FakeProvider(_answer, strict=False, keep_requests=False, new_loop=_fastest_loop()).start()
    sys.stdout.write(provider.base_url + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    provider.close()


def _answer(request: Request) -> AnyReply:
    found = _in_path(request.path)  # where Gemini has it
    return reply_for(found[1] if found else _named.decode(request.raw).model)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        return importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return asyncio.new_event_loop


if __name__ == "__main__":
    main()
