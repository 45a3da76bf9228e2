"""Users without a share of the band: each user that is selected takes part in the round, or is counted as left out."""

import copy
from collections import Counter

import numpy as np
import pytest

import netfl
from netfl.core.kinds import list_kinds
from netfl.network.allocation import Allocation, full_power
from netfl.results.formatting import left_out_sentence
from netfl.simulation.dry_run import run_dry
from netfl.types import Law

CELL = {
    "name": "cell",
    "users": 8,
    "rounds": 5,
    "access": {
        "kind": "network",
        "round": {"kind": "available", "deadline": "5 min"},
        "topology": {"kind": "star", "radius": "500 m"},
        "radio": {"power": "20 dBm", "bandwidth": "1 MHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"}],
        "reception": {"kind": "shannon", "gap": "3 dB"},
        "mac": {"kind": "fdma", "division": "allocated"},
        "allocation": {"kind": "least_energy", "deadline": "20 s"},
        "compute": {"frequency": [2e9, 2e9, 2e9, 2e8, 2e9, 2e9, 1e8, 2e9], "cycles": 2e7, "samples": 500},
        "energy": {"capacitance": 1e-28, "efficiency": 0.2},
        "broadcast_rate": "10 Mbps",
        "update_size": "200 kB",
    },
}
"""Eight users, of which the processors of 3 and 6 need 50 s and 100 s for a training."""


class EverySecond(Allocation):
    """An allocation that leaves users out without a word: every second one of those that ask.

    Example::

        kind: tests.network.allocation.test_left_out:EverySecond
    """

    def allocate(self, request):
        share = np.zeros(request.users)
        share[::2] = np.minimum(1.0 / request.users, request.limits[::2])
        return full_power(share)

    def laws(self):
        return (Law.none("draws nothing"),)


def cell(**access):
    return netfl.load(copy.deepcopy(CELL), {f"access.{key}": value for key, value in access.items()})


def test_users_that_are_left_out_are_counted_and_named(tmp_path):
    run = netfl.trace(cell(), tmp_path / "run", progress=False)
    assert run.users["left_out"].tolist() == [0, 0, 0, 5, 0, 0, 5, 0]
    assert (run.summary["left_out"], run.summary["users_left_out"]) == (10.0, 2.0)
    assert left_out_sentence(run.users).startswith("Users 3 and 6 were left out by the allocation: of 5 rounds each")
    assert set(run.events.user[run.events.kind == "delivered"]) == {0, 1, 2, 4, 5, 7}


def test_a_quorum_counts_the_users_that_take_part():
    """Two of eight have no share: all six others are a quorum of 1, and a share of 1."""
    quorum = {"kind": "quorum", "quorum": 1, "min_share": 1, "deadline": "1 h", "losses": "unknown"}
    with netfl.Simulation(cell(round=quorum)) as simulation:
        rounds = [simulation.step() for _ in range(2)]
    assert [len(each.deliveries) for each in rounds] == [6, 6]
    assert all(each.closed_s - each.opened_s < 21.0 for each in rounds)  # the allocation's deadline, and the download


def test_check_names_users_that_are_always_left_out():
    (warning,) = [text for text in run_dry(cell()).warnings() if text.startswith("left out")]
    assert "users 3 and 6 had no share of the band in any round" in warning
    assert not [text for text in run_dry(cell(allocation="equal")).warnings() if text.startswith("left out")]


def test_only_users_that_never_take_part_are_always_left_out(tmp_path):
    """With three of eight users in a round, some are left out once, and some are not selected at all."""
    scenario = cell(allocation=f"{__name__}:EverySecond", selection={"kind": "uniform", "m": 3}).at(
        {"rounds": 3, "seed": 1}
    )
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    took_part = {*run.deliveries["user"]}
    left_out = {*np.flatnonzero(run.users["left_out"])}
    assert left_out & took_part
    assert left_out - took_part
    assert {*range(8)} - left_out - took_part
    assert {*run_dry(scenario).left_out} == left_out - took_part


def test_run_without_an_allocation_has_no_such_column(tmp_path):
    access = {"mac": "round_robin", "allocation": None, "reception": {"kind": "shannon"}}
    run = netfl.trace(cell(**access), tmp_path / "run", progress=False)
    assert "left_out" not in run.users
    assert "left_out" not in run.summary
    assert left_out_sentence(run.users) == ""


def test_replay_of_a_run_with_left_out_users(tmp_path):
    netfl.trace(cell(), tmp_path / "run", progress=False)
    scenario = {"name": "again", "users": 8, "rounds": 5, "access": {"kind": "replay", "run": str(tmp_path / "run")}}
    run = netfl.trace(netfl.load(scenario), tmp_path / "again", progress=False)
    assert len(run.deliveries) == 30
    assert "left_out" not in run.users


ALLOCATIONS = [
    "equal",
    {"kind": "least_energy", "deadline": "20 s"},
    {"kind": "least_time", "budget": "1 J"},
    f"{__name__}:EverySecond",
]


def test_all_allocations_of_a_divided_band_are_tested():
    kinds = {each if isinstance(each, str) else each["kind"] for each in ALLOCATIONS}
    assert {*list_kinds(Allocation)} - {"block_assignment"} <= kinds


@pytest.mark.parametrize("allocation", ALLOCATIONS, ids=str)
def test_each_selected_user_takes_part_or_is_counted(tmp_path, allocation):
    """All users are up and all rounds end with their updates, so that each user begins one update in each round."""
    access = {"allocation": allocation, "selection": {"kind": "uniform", "m": 5}, "round": "available"}
    scenario = netfl.load(CELL | {"record": "all", "access": CELL["access"] | access})
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    begun = Counter(run.events.user[run.events.kind == "received"])
    took_part = [begun[user] for user in range(8)]
    assert sum(took_part) + run.users["left_out"].sum() == 5 * len(run.rounds)
    assert sum(took_part) == len(run.deliveries)
