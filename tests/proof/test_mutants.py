"""The proof notices when a guarantee is gone: each fault turns a cell red that is green without it."""

import pytest
from msgspec.structs import replace

from tests.proof import races
from tests.proof.cells import Kill, perform
from tests.proof.matrix import MATRIX
from tests.proof.mutants import MUTANTS
from tests.proof.stage import Violation

pytestmark = pytest.mark.slow


def of_the_matrix(name):
    def play(stage, place, tag, mutant):
        perform(stage, place, replace(MATRIX[name], mutant=mutant), tag)

    return play


def frozen(stage, place, tag, mutant):
    at = Kill("tool.after_effect")
    races.replaced_driver(stage, place, tag, scenario="once", at=at, during=True, mutant=mutant)


def orphaned(stage, place, tag, mutant):
    races.orphan_child(stage, place, tag, mutant)


RED = {
    "no-fence-check": (frozen, "the replaced driver wrote"),
    "epoch-not-bumped": (frozen, "the replaced driver wrote"),
    "intent-after-effect": (of_the_matrix("tool:S32-FP6-once"), "took effect on a 2 times"),
    "sweep-recovers-children": (orphaned, "driven without its parent"),
    "publish-before-commit": (of_the_matrix("text:S38-FP12-in-commit"), "reader 0 was shown finish"),
}


def test_each_fault_has_a_cell():
    assert RED.keys() == MUTANTS.keys()


@pytest.mark.parametrize("name", RED)
def test_a_fault_turns_its_cell_red(stage, tmp_path, name):
    play, complaint = RED[name]
    play(stage, tmp_path / "right", f"{name}-right", None)
    with pytest.raises(Violation, match=complaint):
        play(stage, tmp_path / "wrong", f"{name}-wrong", name)
