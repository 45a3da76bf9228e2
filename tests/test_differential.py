"""The comparison of random networks at two commits."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support import random_scenarios

from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import differential

EQUAL = [3.0, 4.0, 5.0, 4.0, 3.0, 5.0, 4.0, 4.0]


def test_equal_values_are_no_change():
    last_digit = [value * (1 + 1e-12) for value in EQUAL]
    assert differential.changed_metrics({"delivered": EQUAL}, {"delivered": last_digit}) == {}


def test_chance_is_no_difference():
    """Eight replicas whose differences, 1 at most, have a mean of 0.25."""
    after = [4.0, 3.0, 6.0, 5.0, 3.0, 4.0, 5.0, 4.0]
    ((old, new, p_value),) = differential.changed_metrics({"delivered": EQUAL}, {"delivered": after}).values()
    assert (old, new) == (4.0, 4.25)
    t = 0.25 / (np.std(np.subtract(after, EQUAL), ddof=1) / np.sqrt(8))
    assert t == pytest.approx(0.7977, abs=1e-4)
    assert p_value == pytest.approx(0.4512, abs=1e-3)  # two-sided, 7 degrees of freedom
    assert p_value > differential.LEVEL


@pytest.mark.parametrize(
    "after",
    [
        [value + 1.0 for value in EQUAL],  # the same difference in each replica
        [value + 10.0 + 0.1 * number for number, value in enumerate(EQUAL)],
        [np.nan, *EQUAL[1:]],  # a value that was there before
    ],
)
def test_more_than_chance_is_a_difference(after, capsys):
    networks = {"one": {"access": {"kind": "network"}}}
    sides = [{"one": {"values": {"delivered": values}}} for values in (EQUAL, after)]
    assert differential.report(networks, *sides, "before") == 1
    printed = capsys.readouterr().out
    assert "delivered" in printed
    assert "1 differ by more than chance" in printed


def test_network_that_one_commit_refuses_is_a_difference(capsys):
    networks = {"one": {"access": {"kind": "network"}}}
    runs, refused = {"one": {"values": {"delivered": EQUAL}}}, {"one": {"refused": "access.mac: wrong"}}
    assert differential.report(networks, runs, refused, "before") == 1
    assert "before: runs; here: access.mac: wrong" in capsys.readouterr().out
    assert differential.report(networks, refused, refused, "before") == 0


@pytest.mark.slow
@pytest.mark.parametrize("load", random_scenarios.LOADS)
def test_random_networks_are_valid(load):
    seen = []

    @settings(max_examples=4, deadline=None, database=None, suppress_health_check=[*HealthCheck])
    @given(random_scenarios.networks("tdma", "exponential" if load != "updates" else "fixed", load))
    def draw(data):
        seen.append(data)
        scenario = validate(ScenarioDocument(data, "random"))
        assert type(scenario.access.mac).__name__ == "Tdma"
        assert bool(scenario.access.traffic) == (load != "updates")

    draw()
    assert seen


@pytest.mark.slow
def test_networks_of_another_tree_are_compared(tmp_path):
    """Another tree with the same package has equal values; users that train faster end earlier."""
    data = {
        "name": "pairs", "users": 2, "rounds": 5, "replicas": differential.REPLICAS,
        "access": {
            "kind": "network", "round": {"kind": "first", "m": 1}, "topology": {"kind": "star", "distance": "10 m"},
            "radio": {"power": "16 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
            "channel": [{"kind": "constant", "gain": "-60 dB"}],
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "10 kbps"},
            "mac": "round_robin", "update_size": "600 bit", "compute": {"speed": 2, "samples": 1},
            "broadcast_rate": "100 kbps",
        },
    }  # fmt: skip
    faster = {**data, "access": {**data["access"], "compute": {"speed": 4, "samples": 1}}}
    networks = tmp_path / "networks.json"
    other = tmp_path / "other"
    shutil.copytree(differential.ROOT / "netfl", other / "netfl", ignore=shutil.ignore_patterns("__pycache__"))

    networks.write_text(json.dumps({"pairs": data}))
    here = differential.simulate_at(differential.ROOT, networks)
    assert differential.simulate_at(other, networks) == here
    networks.write_text(json.dumps({"pairs": faster}))
    changed = differential.simulate_at(other, networks)
    assert differential.report({"pairs": data}, here, changed, "before") == 1


def test_only_the_package_of_the_tree_is_simulated(tmp_path):
    """The working directory has a package, too."""
    networks = tmp_path / "networks.json"
    networks.write_text("{}")
    with pytest.raises(subprocess.CalledProcessError):
        differential.simulate_at(tmp_path, networks)
    assert differential.simulate_at(differential.ROOT, networks) == {}
