"""What is measured and the bar that each figure has to meet.

Invariant: a bar is about a ratio of figures that were measured in turn in one repetition, so a slow or busy machine
moves both sides; nothing here is asserted by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

TENUTO, DURABLE, PROCESSED = "tenuto", "durable", "processed"
FLOOR, OPENAI, AGNO = "floor", "openai", "agno"
DIALECTS = ("responses", "anthropic", "google")
"""tenuto in its other wire formats, each a contestant; TENUTO itself speaks chat completions."""

Figures = tuple[float, ...]
Repetition = Mapping[str, Figures]
"""What each contestant that came to an end gave in one repetition, by name."""


@dataclass(frozen=True)
class Bar:
    """A limit on a ratio.

    Attributes:
        says: The bar in words.
        ratio: What is compared with it.
        limit: The largest good ratio, or the smallest with `at_least`.
        against: The contestants it needs besides the one it is about.
        about: Whose figure it is.
    """

    says: str
    ratio: Callable[[Repetition], float]
    limit: float
    against: tuple[str, ...] = ()
    at_least: bool = False
    about: str = TENUTO

    def verdict(self, repetitions: Sequence[Repetition]) -> Verdict:
        """Compare the median of all repetitions in which everyone needed came to an end."""
        needed = {self.about, *self.against}
        ratios = [self.ratio(each) for each in repetitions if needed <= each.keys()]
        if not ratios:
            ran = {name for each in repetitions for name in each}
            return Verdict(None, f"not measured: no {', '.join(sorted(needed - ran)) or 'common repetition'}")
        found = median(ratios)
        met = found >= self.limit if self.at_least else found <= self.limit
        return Verdict((found, min(ratios), max(ratios)), "met" if met else "missed")


@dataclass(frozen=True)
class Verdict:
    """The median ratio, the smallest and the largest one; None when there was nothing to compare."""

    ratios: tuple[float, float, float] | None
    word: str


@dataclass(frozen=True)
class Row:
    """One thing that is measured.

    Attributes:
        name: For `--row`.
        what: For people.
        unit: Of the first figure.
        bars: What it is held to.
        contestants: Who takes part.
        rare: Contestants that are measured in the first repetitions only, because they take long.
    """

    name: str
    what: str
    unit: str
    bars: tuple[Bar, ...]
    contestants: tuple[str, ...] = (TENUTO, FLOOR, OPENAI, AGNO)
    rare: tuple[str, ...] = ()


RARE_REPETITIONS = 2


def _to(other: str) -> Callable[[Repetition], float]:
    return lambda found: found[TENUTO][0] / found[other][0]


def _of(other: str) -> Callable[[Repetition], float]:
    return lambda found: found[other][0] / found[TENUTO][0]


def _added(found: Repetition) -> float:
    """What tenuto adds to the floor, of what the `openai` package adds."""
    floor = found[FLOOR][0]
    return (found[TENUTO][0] - floor) / (found[OPENAI][0] - floor)


def _growth(found: Repetition) -> float:
    early, late = found[TENUTO]
    return late / early


def _heavy(found: Repetition) -> float:
    return found[TENUTO][1]


def _first(found: Repetition) -> float:
    return found[TENUTO][0]


def _dialect(name: str, place: int) -> Callable[[Repetition], float]:
    return lambda found: found[name][place] / found[TENUTO][place]


def _durable(place: int) -> Callable[[Repetition], float]:
    return lambda found: found[DURABLE][place]


def _durable_growth(found: Repetition) -> float:
    """What an append to the long thread costs, of what one to the short thread does."""
    _, long, short = found[DURABLE]
    return long / short


def _durable_to_plain(found: Repetition) -> float:
    return found[DURABLE][0] / found[TENUTO][0]


def _processed_to_plain(found: Repetition) -> float:
    return found[PROCESSED][0] / found[TENUTO][0]


def _durable_ms(found: Repetition) -> float:
    return found[DURABLE][0] / 1_000


def _durable_added_ms(found: Repetition) -> float:
    """Wall ms of the durable agent beyond the plain one."""
    return (found[DURABLE][1] - found[TENUTO][1]) / 1_000


ROWS: tuple[Row, ...] = (
    Row(
        "burst",
        "5,000 chunks at full speed, one reader",
        "CPU µs per chunk",
        (
            Bar("at most 3x the floor", _to(FLOOR), 3, (FLOOR,)),
            Bar("at most 1/10 of `openai`", _to(OPENAI), 1 / 10, (OPENAI,)),
        ),
    ),
    Row(
        "paced",
        "one chunk every 2 ms, 1 stream",
        "CPU µs per chunk",
        (Bar("at most 1.3x the floor", _to(FLOOR), 1.3, (FLOOR,)),),
    ),
    Row(
        "paced-many",
        "one chunk every 2 ms, 200 streams",
        "CPU µs per chunk",
        (Bar("at most 2x the floor", _to(FLOOR), 2, (FLOOR,)),),
        rare=(OPENAI, AGNO),
    ),
    Row(
        "call",
        "`generate`, one call",
        "CPU µs per call",
        (Bar("adds at most 1/5 of what `openai` adds", _added, 1 / 5, (FLOOR, OPENAI)),),
    ),
    Row(
        "tool-round",
        "ten rounds of one tool call",
        "CPU, wall µs per model call",
        (Bar("adds at most 1/8 of what `openai` adds", _added, 1 / 8, (FLOOR, OPENAI)),),
    ),
    Row(
        "long-run",
        "one run of 300 tool rounds",
        "CPU µs per round at 10, at 300",
        (Bar("at 300 at most 1.5x of at 10", _growth, 1.5, ()),),
        rare=(OPENAI, AGNO),
    ),
    Row(
        "many",
        "200 streams of 200 chunks at once",
        "CPU µs per chunk",
        (
            Bar("at least 1/5 of the floor's chunks per CPU second", _of(FLOOR), 1 / 5, (FLOOR,), at_least=True),
            Bar("at least 8x those of `openai`", _of(OPENAI), 8, (OPENAI,), at_least=True),
        ),
    ),
    Row(
        "processed-burst",
        "5,000 chunks at full speed through one output processor, on a thread, one reader",
        "CPU µs per chunk",
        (Bar("processed: at most 2x plain", _processed_to_plain, 2, (TENUTO,), about=PROCESSED),),
        contestants=(TENUTO, PROCESSED),
    ),
    Row(
        "durable-burst",
        "5,000 chunks at full speed, stored in SQLite, one reader",
        "CPU µs per chunk",
        (Bar("durable: at most 2x plain", _durable_to_plain, 2, (TENUTO,), about=DURABLE),),
        contestants=(TENUTO, DURABLE),
    ),
    Row(
        "durable-round",
        "ten rounds of one tool call, stored in SQLite",
        "CPU, wall µs per model call",
        (
            Bar("durable: at most 2 ms of CPU", _durable_ms, 2, about=DURABLE),
            Bar("durable: at most 5 ms of wall more than plain", _durable_added_ms, 5, (TENUTO,), about=DURABLE),
        ),
        contestants=(TENUTO, DURABLE),
    ),
    Row(
        "parked",
        "1,000 runs that wait for an approval, against the process before",
        "MB of memory, tasks, timers more",
        (
            Bar("at most 5 MB", _durable(0), 5, about=DURABLE),
            Bar("no task", _durable(1), 0, about=DURABLE),
            Bar("no timer", _durable(2), 0, about=DURABLE),
        ),
        contestants=(DURABLE,),
    ),
    Row(
        "viewers",
        "200 readers of one run of 1,000 chunks, in its process",
        "CPU µs per chunk and reader",
        (Bar("at most 5 µs", _first, 5),),
        contestants=(TENUTO,),
    ),
    Row(
        "long-thread",
        "a thread of 10,000 messages in SQLite: recall of the last 40, a turn appended to it, and to one of 100",
        "wall ms, CPU µs, CPU µs",
        (
            Bar("recall: at most 5 ms", _durable(0), 5, about=DURABLE),
            Bar("a turn costs at most 1.5x of one in a short thread", _durable_growth, 1.5, about=DURABLE),
        ),
        contestants=(DURABLE,),
    ),
    Row(
        "search",
        "a semantic search through 10,000 vectors of 384 numbers, stored in SQLite",
        "CPU ms; of the longest piece on the event loop",
        (
            Bar("durable: at most 25 µs of CPU for each vector", _durable(0), 250, about=DURABLE),
            Bar("durable: the loop works at most 10 ms in one piece", _durable(1), 10, about=DURABLE),
        ),
        contestants=(DURABLE,),
    ),
    Row(
        "import",
        "`from tenuto import Agent, tool`; floor: `import asyncio, msgspec`",
        "wall ms, heavy packages loaded",
        (
            Bar("at most 1.8x the floor", _to(FLOOR), 1.8, (FLOOR,)),
            Bar("loads no pydantic, aiohttp, sqlite3, opentelemetry, typer", _heavy, 0, ()),
        ),
        rare=(OPENAI, AGNO),
    ),
)


def _in_all_dialects(name: str, what: str, unit: str, place: int = 0) -> Row:
    """A row that holds the other dialects against chat completions; `place` is that of the figure it is about."""
    bars = tuple(Bar("at most 1.5x chat", _dialect(each, place), 1.5, (TENUTO,), about=each) for each in DIALECTS)
    return Row(name, what, unit, bars, contestants=(TENUTO, *DIALECTS))


DIALECT_ROWS: tuple[Row, ...] = (
    _in_all_dialects("burst", "5,000 chunks at full speed, one reader", "CPU µs per chunk"),
    _in_all_dialects("paced", "one chunk every 2 ms, 1 stream", "CPU µs per chunk"),
    _in_all_dialects("paced-many", "one chunk every 2 ms, 200 streams", "CPU µs per chunk"),
    _in_all_dialects("call", "`generate`, one call", "CPU µs per call"),
    _in_all_dialects("tool-round", "ten rounds of one tool call", "CPU, wall µs per model call"),
    _in_all_dialects("long-run", "one run of 300 tool rounds", "CPU µs per round at 10, at 300", place=1),
)
