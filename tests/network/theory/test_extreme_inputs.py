"""Channels and theories at extreme but valid inputs: a finite number or a located error, never a crash.

Every model is found, without registration.  Warnings of NumPy, such as a division by zero, are errors here.
"""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
from support.recorders import Memory
from support.small_network import PLAIN
from support.tiny_scenarios import example_settings

import netfl
from netfl.core.kinds import list_kinds
from netfl.errors import ScenarioError
from netfl.network.channel import Channel
from netfl.network.theory import Theory, TheoryCase
from netfl.scenario.yaml_document import parse
from netfl.streams import Streams
from netfl.types import AccessContext

FOLDER = Path(__file__).parents[3] / "scenarios/validation"
DISTANCES = ["1 mm", "1 m", "30 km", "1000000 km"]
EXTREMES = {
    "radio.bandwidth": ["1 Hz", "100 GHz"],
    "radio.power": ["-200 dBm", "200 dBm"],
    "topology.distance": DISTANCES,
    "probe.level": ["-1000 dB", "-300 dB", "300 dB", "1000 dB"],
    "probe.every": ["1 us", "1000 d"],
    "probe.lag": ["1000 d"],
    "traffic.load": [1e-9, 0.999999999, 1e6],
    "traffic.rate": [1e-9, 1e9],
    "traffic.size.mean": ["1 bit", "1 TB"],
    "queue.capacity": [1, 100_000],
    "mac.probability": [1e-300, 1.0],
    "mac.channels": [1, 100_000],
    "reception.threshold": ["-1000 dB", "1000 dB"],
}
"""Valid values of the keys of ``access``, and the network's other keys stay as they are."""


def find_parent(data, key):
    """Return the mapping that holds the last part of a dotted key, or ``None``."""
    *parents, _ = key.split(".")
    for name in parents:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else None


@pytest.mark.slow
@pytest.mark.parametrize("kind", list_kinds(Theory))
def test_theory_predicts_numbers_or_does_not_apply(kind):
    """Each key of the theory's own scenario takes its extremes in turn."""
    original = parse((FOLDER / f"{kind}.yaml").read_text("utf-8"), kind)
    tried = 0
    for key, values in EXTREMES.items():
        parent = find_parent(original["access"], key)
        if parent is None or key.rpartition(".")[2] not in parent:
            continue
        for value in values:
            data = copy.deepcopy(original)
            find_parent(data["access"], key)[key.rpartition(".")[2]] = value
            tried += 1
            try:
                scenario = netfl.load(data)
                access, streams = scenario.access, Streams(3)
                case = TheoryCase(access, access.topology.open(scenario.users, streams), streams)
                if [*access.theory.misfits(case)]:
                    continue
                metrics = access.theory.predict(case)
            except ScenarioError:  # refused, with its place
                continue
            assert all(math.isfinite(metric) for metric in metrics.values()), (key, value, metrics)
    assert tried or kind in {"availability"}


@pytest.mark.slow
@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("kind", list_kinds(Channel))
def test_channel_has_finite_gain_or_refuses(kind, distance):
    """A probe and a cell with SINR at extreme distances and bandwidths."""
    spec = example_settings("network/channel", kind)
    for bandwidth in ("1 kHz", "100 GHz"):
        access = {key: copy.deepcopy(PLAIN[key]) for key in ("topology", "radio", "reception")}
        access |= {"kind": "network", "channel": [spec], "mac": {"kind": "slotted_aloha", "probability": 1.0}}
        access["topology"] = {"kind": "star", "distance": distance}
        access["radio"] |= {"bandwidth": bandwidth}
        access |= {
            "interference": "sinr",
            "unreachable": "keep",
            "probe": {"every": "1 s", "level": "3 dB", "lag": "2 s"},
        }
        access["traffic"] = {"kind": "constant", "every": "5 s", "size": {"mean": "1 kbit"}, "destination": "tower"}
        try:
            scenario = netfl.load({"name": "extreme", "users": 2, "duration": "20 s", "access": access})
            metrics = run_metrics(scenario)
        except ScenarioError:  # refused, with its place
            continue
        assert math.isfinite(metrics["snr_mean_db"])
        assert math.isfinite(metrics["power_variance"])
        assert 0.0 <= metrics["utilisation.tower:0"] <= 1.0


def run_metrics(scenario):
    """Return the final metrics of a scenario of a given duration."""
    recorder = Memory()
    users = scenario.users
    context = AccessContext(users, 1, 0, Streams(3), np.ones(users), 0.0, 0.0, recorder, duration_s=20.0)
    [*scenario.access.rounds(context)]
    return recorder.final_values
