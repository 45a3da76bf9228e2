"""MACs of the guides let a user attempt only if it still has the frame for which they polled it."""

import copy

import pytest
from support.guide_macs import guide_macs, settings_of

import netfl

CELL = {
    "name": "lost frames",
    "users": 6,
    "rounds": 20,
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m", "rate": "1 Gbps", "delay": "1 ms"},
        "radio": {"power": "16 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "constant", "gain": "-80 dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "10 kbps"},
        "update_size": 500,
        "broadcast_rate": "1 Gbps",
        "compute": {"speed": 2, "samples": 1},
        "round": {"kind": "first", "m": 3},
    },
}
"""A cell in which the third update closes each round, 1 ms after its frame: the tower polls the next user then."""
POLL_S = 0.005


@pytest.mark.parametrize("name", guide_macs())
def test_a_user_that_has_lost_its_frame_does_not_attempt(name, monkeypatch):
    model = guide_macs()[name]
    monkeypatch.setattr(model, "__module__", __name__)
    monkeypatch.setitem(globals(), model.__name__, model)
    waits = {key: POLL_S for key in ("poll", "call") if key in model.model_fields}
    scenario = copy.deepcopy(CELL)
    scenario["access"]["mac"] = model(**settings_of(model) | waits)
    with netfl.Simulation(scenario) as simulation:
        rounds = [simulation.step() for _ in range(CELL["rounds"])]
    assert sum(len(each.deliveries) for each in rounds) == 3 * CELL["rounds"]
