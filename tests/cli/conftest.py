"""A shop for each test of `tenuto runs`."""

from __future__ import annotations

import sys

import pytest

from tests.cli.shop import Shop


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield Shop(tmp_path)
    sys.modules.pop("shop", None)
