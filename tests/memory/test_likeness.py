"""Cosines, exact whatever computes them."""

from __future__ import annotations

from math import inf, nan, sqrt
from random import Random
from typing import Any

import pytest

from tenuto.memory import likeness
from tenuto.memory.likeness import packed, plainly, similarities, with_numpy


def vector(rng: Random, length: int = 384) -> list[float]:
    return [rng.gauss(0, 1) for _ in range(length)]


def cosine(one: list[float], other: list[float]) -> float:
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths


def test_the_cosines_are_those_of_the_vectors() -> None:
    rng = Random(7)
    wanted, others = vector(rng), [vector(rng) for _ in range(50)]
    others += [wanted, [-number for number in wanted], [1000 * number for number in wanted]]
    found = plainly(packed(wanted) or b"", [packed(each) or b"" for each in others])
    assert found == pytest.approx([cosine(wanted, each) for each in others], abs=1e-6)


def test_numpy_finds_the_same() -> None:
    rng = Random(8)
    rows = [packed(vector(rng)) or b"" for _ in range(20)]
    assert with_numpy(rows[0], rows) == pytest.approx(plainly(rows[0], rows), abs=1e-5)


def test_numpy_is_taken_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(name: str) -> Any:
        asked.append(name)

    monkeypatch.setattr(likeness, "find_spec", find)
    one = packed([1.0, 0.0]) or b""
    assert similarities(one, [one]) == [1.0]
    assert asked == ["numpy"]


@pytest.mark.parametrize("numbers", [[0.0, 0.0], [inf, 1.0], [nan, 1.0], []])
def test_what_points_nowhere_is_no_vector(numbers: list[float]) -> None:
    assert packed(numbers) is None
