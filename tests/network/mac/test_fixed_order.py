"""Users that a MAC of fixed order never serves before rounds close are named."""

import pytest

import netfl
from netfl.simulation.dry_run import run_dry

CELL = """
name: turns
users: 6
rounds: 60
access:
  kind: network
  topology: {kind: star, distance: 10 m, rate: 1 Gbps, delay: 1 ms}
  radio: {power: 16 dBm, bandwidth: 125 kHz, noise_figure: 6 dB}
  channel: [{kind: constant, gain: -80 dB}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 10 kbps}
  mac: {kind: round_robin}
  update_size: 500 bit
  broadcast_rate: 5 kbps
  compute: {speed: 2, samples: 1}
  round: {kind: first, m: 5}
"""
FIRST = {"kind": "first"}
STRICT = {"kind": "priority", "weights": [1, 2, 3, 4, 5, 6]}


def fixed_order(**access):
    """Return the warnings about a fixed order of the cell with changed keys, and the deliveries of each user."""
    scenario = netfl.load(CELL, {f"access.{key}": value for key, value in access.items()})
    with netfl.Simulation(scenario) as simulation:
        rounds = [simulation.step() for _ in range(scenario.rounds)]
    users = [delivery.user for each in rounds for delivery in each.deliveries]
    warnings = [text for text in run_dry(scenario).warnings() if text.startswith("fixed order")]
    return warnings, [users.count(user) for user in range(6)]


@pytest.mark.parametrize(
    ("access", "deliveries", "named"),
    [
        # frame 5 is on the air when the fifth update closes the round, and the turn has passed when it starts over
        ({}, [60, 60, 60, 60, 60, 0], "user 5"),
        ({"round": {"kind": "quorum", "quorum": 0.8, "deadline": "1 min"}}, [60, 60, 60, 60, 60, 0], "user 5"),
        ({"round": FIRST | {"m": 3}}, [60, 60, 60, 0, 0, 0], "users 3, 4 and 5"),
        # one delivers and one is late in each round, so that the turns of every second user never count
        ({"round": FIRST | {"m": 1}}, [20, 0, 20, 0, 20, 0], "users 1, 3 and 5"),
        ({"mac": STRICT}, [0, 60, 60, 60, 60, 60], "user 0"),
        ({"round": {"kind": "available", "deadline": "820 ms"}}, [60, 60, 60, 60, 0, 0], "users 4 and 5"),
    ],
)
def test_users_whose_turn_never_comes_are_named(access, deliveries, named):
    warnings, counts = fixed_order(**access)
    assert counts == deliveries
    assert len(warnings) == 1
    assert f"in the dry run {named} delivered no update" in warnings[0]


@pytest.mark.parametrize(
    "access",
    [
        {"round": {"kind": "available"}},  # the remedies
        {"mac": {"kind": "max_snr"}},
        {"mac": {"kind": "priority", "weights": [1, 1, 1, 1, 1, 1], "by": "lottery"}},
        {"round": FIRST | {"m": 2}},  # the turns wander through all users
    ],
)
def test_orders_that_serve_all_users_are_not_named(access):
    warnings, counts = fixed_order(**access)
    assert warnings == []
    assert min(counts) > 0


@pytest.mark.parametrize(
    "access",
    [
        {"compute": {"speed": [2, 2, 2, 2, 2, 0.1], "samples": 1}},  # slow
        {
            "radio.power": ["40 mW", "40 mW", "40 mW", "40 mW", "40 mW", "-70 dBm"],
            "mac.max_attempts": 3,
            "unreachable": "keep",
        },  # weak
        {"outages": [{"kind": "maintenance", "windows": [{"nodes": [5], "start": 0, "duration": "1000 h"}]}]},  # down
    ],
)
def test_other_causes_are_not_called_an_order(access):
    assert fixed_order(**access)[0] == []
