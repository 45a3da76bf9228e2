"""Remedies of the warning about late updates: each that is printed holds, by the formula and in a run."""

import copy
import re

import numpy as np
import pytest

import netfl
from netfl.simulation.setup import warnings

BASE = {
    "name": "never",
    "users": 6,
    "rounds": 200,
    "record": ["delivered"],
    "access": {
        "kind": "network",
        "round": {"kind": "first", "m": 3, "deadline": "20 s"},
        "topology": {"kind": "star", "distances": [200, 300, 400, 500, 600, 700]},
        "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "20 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.1},
        "compute": {"speed": [100, 100, 100, 100, 100, 2], "samples": 100},
        "update_size": "1 kB",
        "broadcast_rate": "20 kbps",
    },
}
"""Users train for 1 s, and user 5 for 50 s; an update takes 0.4 s on the air, and three of six close a round."""
LATE = {
    "deadline and rule": {},
    "rule": {"access.round.deadline": "60 s"},
    "rule without a deadline": {"access.round": {"kind": "first", "m": 3}},
    "deadline": {"access.round": {"kind": "first", "deadline": "20 s"}},
    "quorum": {"access.round": {"kind": "quorum", "quorum": 0.5, "deadline": "60 s"}},
    "all trainings": {"access.round": {"kind": "first", "deadline": "0.9 s"}, "access.compute.speed": 100},
    "all sendings": {"access.round": {"kind": "first", "deadline": "0.7 s"}, "access.compute.speed": 1000},
    "selected": {"access.selection": {"kind": "uniform", "m": 5}, "access.round.deadline": "60 s"},
    "fresh": {"access.staleness": 1},
    "fresh without a deadline": {"access.round": {"kind": "first", "m": 3}, "access.staleness": 2},
    "finishing, but fresh": {"access.on_new_version": "finish", "access.staleness": 1},
    "polled": {"access.mac": {"kind": "round_robin"}, "access.round": {"kind": "first", "m": 2}},
}
"""Changes of `BASE` with users that deliver nothing."""


def scenario_of(changes):
    return netfl.load(copy.deepcopy(BASE), changes)


def late_warnings(changes):
    texts = warnings(scenario_of(changes))
    return [text for text in texts if "in time" in text or "the round rule leaves" in text]


def remedies_of(warning):
    """Return the changes of the scenario that a warning names."""
    _, _, text = warning.partition("; ")
    found = []
    for part in text.split(", or "):
        if rule := re.search(r"access\.round: (\{.*\})", part):
            kind, deadline = re.fullmatch(r"\{kind: (\w+), deadline: (.*)\}", rule[1]).groups()
            found.append({"access.round": {"kind": kind, "deadline": deadline}})
        elif re.fullmatch(r"set access\.on_new_version: finish and access\.staleness: null", part):
            found.append({"access.on_new_version": "finish", "access.staleness": None})
        elif training := re.search(r"trainings to at most (\S+) s \(access\.compute\)", part):
            found.append({"access.compute": {"training": float(training[1])}})
        else:
            key, value = re.fullmatch(r"set (access\.\S+): (.*)", part).groups()
            found.append({key: None if value == "null" else value})
    return found


def applied(changes, remedy):
    """Return the changes with those of a remedy; a shorter training is a faster processor of the slow users."""
    remedy = dict(remedy)
    training = remedy.pop("access.compute", None)
    if training is not None:
        speed = changes.get("access.compute.speed", BASE["access"]["compute"]["speed"])
        speeds = np.maximum(np.broadcast_to(speed, 6), 100 / training["training"])
        remedy["access.compute.speed"] = speeds.tolist()
    return changes | remedy


@pytest.mark.parametrize("changes", LATE.values(), ids=LATE)
def test_each_remedy_holds(changes):
    """With the remedy, the same formula finds nobody: the warning vanishes, of this kind and of the other."""
    (warning,) = late_warnings(changes)
    remedies = remedies_of(warning)
    assert remedies
    for remedy in remedies:
        assert late_warnings(applied(changes, remedy)) == [], remedy


@pytest.mark.slow
@pytest.mark.parametrize("changes", LATE.values(), ids=LATE)
def test_users_deliver_with_each_remedy(changes, tmp_path):
    """In a run without it, the late users deliver nothing; with it, each of them delivers."""
    (warning,) = late_warnings(changes)

    def delivered(changes, name):
        run = netfl.trace(scenario_of(changes), tmp_path / name, progress=False)
        return np.bincount(run.deliveries["user"], minlength=6)

    late_users = np.flatnonzero(delivered(changes, "late") == 0)
    assert 5 in late_users
    for number, remedy in enumerate(remedies_of(warning)):
        assert (delivered(applied(changes, remedy), f"remedy{number}")[late_users] > 0).all(), remedy


def test_a_later_deadline_is_no_remedy_where_the_rule_closes_rounds():
    for changes in ({}, {"access.round.deadline": "60 s"}):
        (warning,) = late_warnings(changes)
        assert "set access.round.deadline" not in warning
        assert "access.round: {kind: available, deadline: 110 s}" in warning
        assert "set access.on_new_version: finish" in warning
        assert "(access.compute)" in warning
        assert "update_size" not in warning, "the training alone is too long"


def test_finishing_and_counting_old_updates_are_one_remedy():
    """User 5 needs some twenty rounds: neither of the two suffices alone."""
    (warning,) = late_warnings({"access.staleness": 1})
    together = {"access.on_new_version": "finish", "access.staleness": None}
    assert together in remedies_of(warning)
    for key, value in together.items():
        assert late_warnings({"access.staleness": 1, key: value})
    (warning,) = late_warnings({"access.on_new_version": "finish", "access.staleness": 1})
    assert {"access.staleness": None} in remedies_of(warning)


def test_user_that_the_rule_leaves_behind_is_named():
    (warning,) = late_warnings({"access.round.deadline": "60 s"})
    assert "the round rule leaves 1 of 6 users behind" in warning
    assert (
        "user 5, the fastest of them, needs 50.8 s or more (receiving 0.4 s, training 50 s, 0.4 s on the air)"
        in warning
    )
    assert "after 2.6 s" in warning, "0.4 s for the version, 1 s of training, and three updates of 0.4 s in a row"


@pytest.mark.parametrize(
    "changes",
    [
        {"access.round.m": 6, "access.round.deadline": "2 min"},
        {"access.on_new_version": "finish"},
        {"access.compute.speed": [100, 100, 100, 100, 100, 20]},
        {"access.round": "asynchronous"},
        {"access.round": {"kind": "available", "deadline": "2 min"}},
    ],
)
def test_nobody_is_left_behind(changes):
    assert late_warnings({"access.round.deadline": "60 s"} | changes) == []


def test_finishing_is_no_remedy_in_a_run_that_ends_before():
    """20 rounds of 2.6 s are 52 s, as long as the slow user needs for one update; 200 of them are enough."""
    (warning,) = late_warnings({"rounds": 20, "access.round.deadline": "60 s"})
    assert "on_new_version" not in warning
    (warning,) = late_warnings({"rounds": 200, "access.round.deadline": "60 s"})
    assert "set access.on_new_version: finish" in warning


def test_update_that_is_too_old_when_it_ends_is_named():
    """User 5 needs 50.8 s for an update that counts in two rounds of 20 s at most."""
    changes = {"access.on_new_version": "finish", "access.staleness": 1}
    (warning,) = late_warnings(changes)
    assert "1 of 6 users deliver no update in time" in warning
    assert "rounds close after 20 s, and an update counts in 2 of them (access.staleness: 1)" in warning
    assert "set access.staleness: null" in warning
    assert late_warnings(changes | {"access.staleness": None}) == []


def test_finished_update_that_no_round_of_the_run_takes_is_named():
    (warning,) = late_warnings({"rounds": 2, "access.on_new_version": "finish"})
    assert "rounds close after 20 s, and the run has 2 of them" in warning


def test_later_deadline_is_no_remedy_where_the_others_are_enough_without_the_late_user():
    """Five of six close a round after 5 to 21 s, and user 5 needs 54 s: no deadline lets it deliver."""
    changes = {
        "access.round": {"kind": "quorum", "quorum": 0.8, "deadline": "15 s"},
        "access.mac": "round_robin",
        "access.update_size": "10 kB",
        "access.broadcast_rate": "1 Mbps",
    }
    (warning,) = late_warnings(changes)
    assert "set access.round.deadline" not in warning
    assert "access.round: {kind: available" in warning


def test_packets_of_a_schedule_wait_for_the_slots_of_the_others():
    """Of 10 kB, each of 7 packets of 1,500 B takes a slot of 0.6 s of each six: 0.1 + 6 · 3.6 + 0.6 s of 20 s."""
    changes = {
        "access.mac": "tdma",
        "access.update_size": "10 kB",
        "access.transport": {"grain": "packet"},
        "access.compute.speed": 1000,
        "access.broadcast_rate": "1 Mbps",
    }
    (warning,) = late_warnings(changes)
    assert "no update can arrive in time" in warning
    assert "7 frames of 0.6 s, one every 3.6 s" in warning
