"""Networks whose selection process is stationary, Markovian or cyclic without an access model."""

from pathlib import Path

import numpy as np
import pytest

import netfl
from netfl.diagnosis import diagnose
from netfl.diagnosis.reading import read_participation

SCENARIOS = Path(__file__).parents[1] / "scenarios"
KINDS = {"emergent_stationary": "stationary", "emergent_markov": "Markovian", "emergent_cyclic": "cyclic"}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.slow
def test_network_has_documented_selection_process(name, tmp_path):
    overrides = {"record": "none", "partition.by": "distance"}
    run = netfl.trace(netfl.load(SCENARIOS / f"{name}.yaml", overrides), tmp_path / "run")
    found = diagnose(read_participation(run.folder)[0])
    assert found.verdict == KINDS[name]
    if name == "emergent_cyclic":
        assert found.cycle.period_s == pytest.approx(86400, rel=0.01)


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("blocks", [(), ("buffered",)], ids=["rounds", "buffered"])
@pytest.mark.quick_first
def test_all_learners_run_on_network(name, blocks, tmp_path):
    overrides = {"rounds": 30, "partition.by": "distance"}
    run = netfl.run(netfl.load(SCENARIOS / f"{name}.yaml", overrides, blocks), tmp_path / "run", device="cpu")
    assert {"FedAvg", "FED-CVaR-AVG", "FedAU", "FedBuff"} == set(run.metrics["learner"].unique())
    age = run.deliveries["round"] - 1 - run.deliveries["base"]
    assert (age.max() > 0) == bool(blocks)
    last = run.metrics.query("metric == 'accuracy' and group == '' and round == 30")["value"]
    assert np.isfinite(last).all()
    assert last.min() > 0.12, "all learners improve"
