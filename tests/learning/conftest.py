"""Real data sets, where this machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDERS = {"mnist": "mnist", "fashion_mnist": "fashion-mnist"}


@pytest.fixture
def real_data(monkeypatch):
    """Points ``NETFL_DATA`` at a folder that holds the named set, or skips the test."""

    def use(name: str) -> Path:
        beside = Path(__file__).parents[2].parent / "shared" / "datasets"
        for root in (Path(os.environ.get("NETFL_DATA") or beside), beside):
            if (root / FOLDERS[name] / "train-images-idx3-ubyte.gz").is_file():
                monkeypatch.setenv("NETFL_DATA", str(root))
                return root / FOLDERS[name]
        pytest.skip(f"{name} is not here: set NETFL_DATA, or run `netfl data fetch {name}`")

    return use
