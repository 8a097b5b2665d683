"""Token windows: whole steps, the newest first, and a beginning that stays where it is."""

from __future__ import annotations

from tenuto.memory.config import TokenLimit
from tenuto.memory.window import Start, cut, tokens_of, within
from tenuto.messages.stored import StepStartPart, TextPart, ToolInvocationPart
from tests.memory.samples import call, of_parts, said, step


def sized(count: int) -> list[tuple[int, object]]:
    return [(seq, said("user", "x" * 400, id=str(seq))) for seq in range(count)]


EACH = tokens_of(said("user", "x" * 400))


def test_what_fits_is_read_whole() -> None:
    assert within(sized(3), TokenLimit(EACH * 3, EACH), Start()) == Start(0)  # type: ignore[arg-type]


def test_what_does_not_fit_loses_a_good_piece_of_its_beginning_at_once() -> None:
    limit = TokenLimit(EACH * 4, EACH * 2)
    began = within(sized(5), limit, Start())  # type: ignore[arg-type]
    assert began == Start(3)
    assert within(sized(6), limit, began) == Start(3)  # type: ignore[arg-type]
    assert within(sized(7), limit, began) == Start(3)  # type: ignore[arg-type]
    assert within(sized(8), limit, began) == Start(6)  # type: ignore[arg-type]


def test_the_newest_is_always_there() -> None:
    assert within(sized(3), TokenLimit(1, 0), Start()) == Start(2)  # type: ignore[arg-type]


def test_a_long_answer_is_cut_between_its_steps() -> None:
    steps = [step(call(f"c{at}", result="y" * 400), TextPart(f"t{at}")) for at in range(5)]
    answer = of_parts(*(part for each in steps for part in each))
    size = tokens_of(of_parts(*steps[0]))
    start = within([(4, answer)], TokenLimit(size * 3, 0), Start())
    assert start.seq == 4
    rest = cut(answer, start.parts).content.parts
    assert isinstance(rest[0], StepStartPart)
    kept = [part.tool_invocation.tool_call_id for part in rest if isinstance(part, ToolInvocationPart)]
    assert kept == [f"c{at}" for at in range(5)][-len(kept) :]
    assert len(kept) in {2, 3}
