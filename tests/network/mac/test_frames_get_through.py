"""No frame waits for ever, under any MAC: a frame does not meet the same others at each of its repeats.

A schedule may let two frames meet at each repeat, or a rule may let a user send whenever another does.  Where nothing
in a repeat is drawn, the frame waits for ever.  The test does not ask how long frames wait: under ALOHA, a long one
waits for long by chance, but meets others at other instants each time.
"""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from support.compositions import RefusedError, axes, budgeted, checked
from support.recorders import Memory
from support.small_network import as_yaml

import netfl
from netfl.errors import ScenarioError
from netfl.simulation.setup import access_context, warnings

DURATION_S = 15.0
DURATION_OF_WLAN_S = 0.5  # its frames take a millisecond or less
ROUNDS = 15
MAX_REPEATS = 30
"""Repeats in a row that may meet the same frames: users that send with a probability of 1/2 do with 2e-9."""
VARIANTS = {
    "slotted_aloha known": {"kind": "slotted_aloha", "adaptive": "known"},
    "slotted_aloha pseudo_bayesian": {"kind": "slotted_aloha", "adaptive": "pseudo_bayesian"},
    "slotted_aloha backoff": {"kind": "slotted_aloha", "adaptive": "backoff"},
    "multichannel_aloha known": {"kind": "multichannel_aloha", "adaptive": "known", "channels": 1},
    "adaptive_aloha 1": {"kind": "adaptive_aloha", "metric": "age", "channels": 1},
    "tdma slot": {"kind": "tdma", "slot": "55 ms"},
    "fdma allocated": {"kind": "fdma", "division": "allocated"},
    "fdma users": {"kind": "fdma", "among": "users"},
}
"""MACs besides those of `support.compositions`: with other rules, and with the fewest channels."""
LOADS = {
    "saturated": {"round": "duration", "traffic": "saturated"},
    "poisson": {"round": "duration", "traffic": "poisson"},
    "updates": {"round": "available"},
    "updates and traffic": {"round": "available", "traffic": "poisson"},
}
MACS = ["tdma", *(mac for mac in axes()["mac"] if mac != "tdma"), *VARIANTS]


def scenario_of(mac, load, size, channel):
    """Return a scenario of two users at different distances, and its data; skip the test if it is refused."""
    kind = mac.partition(" ")[0] if mac in VARIANTS else mac
    levels = {"mac": kind, "channel": channel} | LOADS[load]
    if "traffic" in levels:
        levels |= {"size": size, "destination": "tower"}
    try:
        data = copy.deepcopy(budgeted(checked(levels)).data)
    except RefusedError as error:
        pytest.skip(str(error))
    access = data["access"]
    if mac in VARIANTS:
        access["mac"] = dict(VARIANTS[mac])
    elif access["mac"]["kind"] not in {"csma_ca", "lorawan"}:  # these give frames up in any case
        access["mac"].pop("max_attempts", None)
    access["topology"] = {"kind": "star", "distances": [5.0, 25.0], "rate": "1 Mbps", "delay": "1 ms"}
    data |= {"users": 2, "replicas": 1}
    if "duration" in data:
        data["duration"] = DURATION_OF_WLAN_S if access["mac"]["kind"] == "csma_ca" else DURATION_S
    else:
        data["rounds"] = ROUNDS
        access["round"]["deadline"] = "2 s"
    if load == "poisson":
        access["traffic"]["rate"] = 5.0  # half of the air, for frames of 50 ms in the mean
    try:
        return netfl.load(data), data
    except ScenarioError as error:
        pytest.skip(f"they do not fit: {error}")


def attempts_of(scenario):
    """Return the attempts of a run, in the order of their starts."""
    log = Memory("attempts")
    for _ in scenario.access.rounds(replace(access_context(scenario, 0), recorder=log)):
        pass
    attempts = pd.concat([pd.DataFrame(columns) for columns in log.attempts], ignore_index=True)
    return attempts.sort_values("start_s", kind="stable", ignore_index=True)


def most_repeats(attempts):
    """Return the largest number of failures in a row of a user that met the same frames at the same phases."""
    attempts = attempts[attempts["outcome"] != "unfinished"]
    starts_s, ends_s, users = (attempts[name].to_numpy() for name in ("start_s", "end_s", "user"))
    has_failed = (attempts["outcome"] != "received").to_numpy()
    longest_s = (ends_s - starts_s).max(initial=0.0)
    first = np.searchsorted(starts_s, starts_s - longest_s)  # no frame before it lasts until this one starts
    after_last = np.searchsorted(starts_s, ends_s)
    longest = 0
    for user in np.unique(users):
        last = None
        run = 0
        for index in np.flatnonzero(users == user):
            near = slice(first[index], after_last[index])
            overlaps = (ends_s[near] > starts_s[index]) & (users[near] != user)
            others = first[index] + np.flatnonzero(overlaps)
            begins_s = np.round(starts_s[others] - starts_s[index], 6)
            lasts_s = np.round(ends_s[others] - ends_s[index], 6)
            met = tuple(zip(users[others].tolist(), begins_s.tolist(), lasts_s.tolist(), strict=True))
            run = run + 1 if has_failed[index] and met and met == last else 0
            last = met if has_failed[index] else None
            longest = max(longest, run)
    return longest


@pytest.mark.quick_first
@pytest.mark.parametrize("mac", MACS)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("size", ["exponential", "fixed"])
@pytest.mark.parametrize("channel", ["none", "underwater"])
def test_repeats_meet_other_frames(mac, load, size, channel):
    if load == "updates" and size == "exponential":
        pytest.skip("updates have one size")
    scenario, data = scenario_of(mac, load, size, channel)
    try:
        attempts = attempts_of(scenario)
    except ScenarioError as error:
        pytest.skip(f"a frame does not fit: {error}")
    assert not scenario.access.mac.repeats_alike
    assert (attempts["outcome"] == "received").any(), as_yaml(data)
    repeats = most_repeats(attempts)
    assert repeats < MAX_REPEATS, f"{repeats} repeats in a row met the same frames\n{as_yaml(data)}"


def test_lock_is_found_and_warned_of():
    """Two users that send in every slot: all of the 300 attempts of a run collide in the same way."""
    _, data = scenario_of("slotted_aloha", "saturated", "fixed", "none")
    data["access"]["mac"]["probability"] = 1.0
    locked = netfl.load(data)
    assert most_repeats(attempts_of(locked)) > 250
    assert any("draws nothing before it repeats a frame" in warning for warning in warnings(locked))
    data["access"]["mac"]["probability"] = 0.5
    assert not any("draws nothing" in warning for warning in warnings(netfl.load(data))), "the remedy works"
    data["access"]["mac"]["probability"] = 1.0
    data["users"] = 1
    data["access"]["topology"]["distances"] = [5.0]
    assert not any("draws nothing" in warning for warning in warnings(netfl.load(data))), "one user meets nobody"
