"""Fixtures and hooks for all tests."""

import functools
import os
import sys
from pathlib import Path

import pytest
import typer.testing

from netfl.learning.data import _download as cache

# build the command line once instead of once per call
typer.testing._get_command = functools.cache(typer.testing._get_command)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark every case of a `quick_first` test but its first as slow, before `-m` selects."""
    seen = set()
    for item in items:
        if item.get_closest_marker("quick_first") is not None:
            name = item.nodeid.partition("[")[0]
            if name in seen:
                item.add_marker("slow")
            seen.add(name)


WATCHED = '''
import numpy as np
from netfl.access import Access, AccessInfo
from netfl.results.statistics import delays, jain
from netfl.types import Law, Round


class Watched(Access):
    """Packets of 1000 bits arrive at random; each waits an exponential time."""

    rate: float = 50.0

    @property
    def info(self):
        return AccessInfo(can_run_timed=True, metrics=("queue_mean",))

    def rounds(self, setting):
        span_s = setting.duration_s / setting.rounds
        born, waits = [], []
        for index in range(1, setting.rounds + 1):
            rng = setting.streams.rng("packets", index)
            size = rng.poisson(self.rate * span_s)
            born += list((index - rng.random(size)) * span_s)
            waits += list(rng.exponential(0.02, size))
            yield Round(
                index=index, opened_s=(index - 1) * span_s, closed_s=index * span_s, deliveries=(), oldest=index
            )
        counted = np.array(waits)[np.array(born) >= setting.warmup_s]
        seconds = setting.duration_s - setting.warmup_s
        setting.recorder.final_metrics(
            {
                "throughput_bps": 1000 * len(counted) / seconds,
                "offered_bps": 1000 * self.rate,
                "delivered": float(len(counted)),
                "lost.dropped": 17.0,
                "lost.collided": 0.0,
                "loss_ratio": 17 / (17 + len(counted)),
                **delays(counted),
                "delay_theory_s": 0.02,
                **{f"utilisation.router:{link}": 0.9 - 0.05 * link for link in range(9)},
                "jain": jain(counted[:100]),
                "collision_probability": 0.0,
                "queue_mean": 3.5,
            }
        )

    def laws(self):
        return (Law.none("a toy"),)
'''


@pytest.fixture
def watched(tmp_path_factory, monkeypatch):
    """The kind of an external access that runs for a duration; its module is importable during the test."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "watched.py").write_text(WATCHED)
    monkeypatch.syspath_prepend(folder)
    yield "watched:Watched"
    sys.modules.pop("watched", None)


@pytest.fixture
def model_with_file(tmp_path):
    """Return a function that builds models with a file, given the text of the file and the other fields."""

    def of(model):
        def write(text, **fields):
            path = tmp_path / "there.csv"
            path.write_text(text)
            return model(file=path, **fields)

        return write

    return of


@pytest.fixture
def real_data(monkeypatch):
    """Return a function that points ``NETFL_DATA`` at the folder of a data set, or skips the test."""

    def use(name: str) -> Path:
        default = Path(__file__).parents[1].parent / "shared" / "datasets"
        for root in (Path(os.environ.get("NETFL_DATA") or default), default):
            monkeypatch.setenv("NETFL_DATA", str(root))
            (dataset,) = [dataset for dataset in cache.list_datasets() if dataset.name == name]
            if dataset.state == "here":
                return dataset.folder
        pytest.skip(f"{name} is missing: set NETFL_DATA, or run `netfl data fetch {name}`")

    return use
