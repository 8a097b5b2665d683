"""The soak: hundreds of real deaths at points drawn by lot."""

import os
import random

import pytest

from tests.proof.kills import say, soak
from tests.proof.points import POINTS

COUNT = int(os.environ.get("PROOF_KILLS", "500"))


@pytest.mark.slow
def test_some_deaths_by_lot(stage, tmp_path):
    deaths, broken = soak(stage, tmp_path, count=12, seed=1)
    assert deaths.total() >= 12
    assert not broken


@pytest.mark.long
@pytest.mark.usefixtures("patient")
def test_many_deaths_by_lot(stage, tmp_path, capsys):
    seed = int(os.environ.get("PROOF_SEED", random.randrange(1 << 32)))
    with capsys.disabled():
        say(f"\nseed: {seed}")
        deaths, broken = soak(stage, tmp_path, count=COUNT, seed=seed)
        say(f"kills: {deaths.total()} at {len(deaths)} points")
        say(f"violations: {len(broken)}")
    assert not broken
    assert deaths.keys() & POINTS.keys()
