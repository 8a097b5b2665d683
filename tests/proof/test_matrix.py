"""Each cell of the kill matrix, and that the list of points is the source's."""

import pytest

from tests.proof.matrix import MATRIX
from tests.proof.points import POINTS, points_in_source

pytestmark = pytest.mark.slow


def test_the_points_are_those_of_the_source():
    assert set(points_in_source()) == set(POINTS)


def test_each_point_has_a_cell():
    dies = {kill.point for cell in MATRIX.values() for kill in cell.kills if kill is not None}
    elsewhere = {"store.migrate.mid", "run.after_abort"}  # see test_upsets, races
    elsewhere |= {"compaction.taken", "compaction.asked"}  # see tests/memory/test_compaction.py
    assert set(POINTS) - dies == elsewhere


@pytest.mark.parametrize("cell", [pytest.param(cell, id=name) for name, cell in MATRIX.items()])
def test_cell(played, request, cell):
    played[request.node.name].result()
