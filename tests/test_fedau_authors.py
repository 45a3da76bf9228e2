"""The published code of FedAU beside netfl: what it is given, the stored table, and the comparison itself."""

import os
from pathlib import Path

import fedau_authors
import numpy as np
import pandas as pd
import pytest
from fedau_authors import RULES, STEPS, WIDTH

import netfl

CLONE = os.environ.get("NETFL_FEDAU")
needs_clone = pytest.mark.skipif(CLONE is None, reason="set NETFL_FEDAU to a clone of github.com/IBM/fedau")
RATES = [0.5, 0.7, 1.0]
ROUNDS = 5


@pytest.fixture
def data(tmp_path):
    """Return data in which the first pixel of an image is a thousandth of its number."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 1, 28, 28)).astype(np.float32)
    x[:, 0, 0, 0] = np.arange(300) / 1000
    return fedau_authors.store_images(x, rng.integers(0, 10, 300), len(RATES), tmp_path / "images.npz")


def scenario_of(data, *names, precision="float64"):
    return fedau_authors.make_scenario(data, RATES, ROUNDS, precision, names)


def test_published_code_gets_the_participation_and_the_examples_of_the_run(data, tmp_path):
    scenario = scenario_of(data, "FedVARP")
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    inputs = fedau_authors.read_inputs(scenario, run, RATES)
    delivered = run.deliveries.groupby(["round", "user"]).size().unstack(fill_value=0)
    expected = delivered.reindex(index=range(1, ROUNDS + 1), columns=range(len(RATES)), fill_value=0) > 0
    assert (inputs.masks == expected.to_numpy()).all()
    held = []
    for user, batches in enumerate(inputs.batches):
        assert len(batches) == STEPS * inputs.masks[:, user].sum()
        numbers = [np.rint(1000 * x[:, 0, 0, 0]).astype(int).tolist() for x, _ in batches]
        assert {len(each) for each in numbers} <= {WIDTH}
        held.append({number for each in numbers for number in each})
    assert not any(held[user] & held[other] for user, other in ((0, 1), (0, 2), (1, 2)))


@pytest.mark.slow
def test_version_0_is_that_of_the_run(data, tmp_path):
    scenario = scenario_of(data, "MIFA")
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    start = fedau_authors.draw_start(scenario)
    for ours, given in zip(run.versions("MIFA")[0].values(), start.values(), strict=True):
        assert np.array_equal(ours, given.astype(np.float32))
    assert [*start][::2] == ["conv.0.weight", "conv.3.weight", "fc1.0.weight", "fc2.weight"]


@pytest.mark.slow
def test_short_mini_batches_are_refused(data, tmp_path):
    scenario = scenario_of({**data, "test_share": 0.9}, "MIFA")
    run = netfl.run(scenario, tmp_path / "run", device="cpu")
    with pytest.raises(ValueError, match="no full mini-batches of 8"):
        fedau_authors.read_inputs(scenario, run, RATES)


def test_stored_versions_are_equal():
    """With 64-bit numbers all versions are; with 32-bit numbers the first ones."""
    table = pd.read_csv(fedau_authors.RESULTS)
    exact = table["precision"] == "float64"
    assert (table[exact]["largest_difference"] <= fedau_authors.TOLERANCE).all()
    assert (table[exact]["equal_versions"] == table[exact]["rounds"]).all()
    assert (table[~exact]["difference_in_version_1"] <= fedau_authors.TOLERANCE).all()
    for _, of_trace in table.groupby(["precision", table["empty_rounds"] > 0]):
        assert of_trace["rule"].tolist() == [*RULES]
    assert table["empty_rounds"].nunique() == 2


@needs_clone
@pytest.mark.slow
def test_versions_equal_those_of_the_published_code(data):
    table = fedau_authors.compare(Path(CLONE), data, RATES, ROUNDS, "float64", [*RULES])
    assert (table["largest_difference"] <= 1e-6).all()
    assert (table["largest_change"] > 1e-3).all()
