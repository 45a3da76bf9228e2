"""Selections in whole runs: only who may try is heard, and how often is what theory says.

Statistics: counts are held to a chi-square of p > 1e-4.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.errors import ScenarioError

RHO = (0.5, 0.3, 0.15, 0.05)
LEARNING = """
data: {kind: blobs, centers: [[0, 0], [3, 3], [0, 3]], std: 0.01, samples: 50}
partition: {kind: by_class, classes: [[0], [0], [0, 1, 2], [1]]}
model: logistic
learners:
  one: {objective: erm, aggregation: average, lr: 0.5, batch_size: 8, local_steps: 5}
"""


def written(tmp_path, access, users=4, rounds=6000, rest=""):
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: chosen\nusers: {users}\nrounds: {rounds}\naccess: {access}\n{rest}")
    return netfl.load(path)


def heard(run, users=4):
    """Who was heard in each round, ``[rounds, users]``."""
    rows = run.deliveries
    matrix = np.zeros((len(run.rounds), users), bool)
    matrix[rows["round"] - 1, rows["user"]] = True
    return matrix


def goodness(counts, chances):
    """The p-value of *counts* against *chances*."""
    return stats.chisquare(counts, np.sum(counts) * np.array(chances)).pvalue


@pytest.mark.slow
def test_stationary_among_an_even_choice(tmp_path):
    """Of 2 chosen evenly of 4, one is heard in proportion to rho: by enumeration of the pairs."""
    chances = np.zeros(4)
    for pair in combinations(range(4), 2):
        for user in pair:
            chances[user] += RHO[user] / sum(RHO[one] for one in pair) / 6
    said = f"{{kind: stationary, rho: {list(RHO)}, selection: {{kind: uniform, m: 2}}}}"
    counts = heard(netfl.run(written(tmp_path, said), tmp_path / "run")).sum(axis=0)
    assert counts.sum() == 6000
    assert goodness(counts, chances) > 1e-4


@pytest.mark.slow
def test_two_heard_of_three_chosen(tmp_path):
    """Of 3 chosen evenly, 2 drawn one after another in proportion to rho: by enumeration of sets and orders."""
    chances = {}
    for three in combinations(range(4), 3):
        for one, other in permutations(three, 2):
            total = sum(RHO[user] for user in three)
            chance = RHO[one] / total * RHO[other] / (total - RHO[one]) / 4
            chances[frozenset((one, other))] = chances.get(frozenset((one, other)), 0.0) + chance
    said = f"{{kind: stationary, rho: {list(RHO)}, deliveries: 2, selection: {{kind: uniform, m: 3}}}}"
    found = heard(netfl.run(written(tmp_path, said), tmp_path / "run"))
    counts = [sum(set(np.flatnonzero(row)) == pair for row in found) for pair in chances]
    assert sum(counts) == 6000
    assert goodness(counts, [*chances.values()]) > 1e-4


@pytest.mark.slow
def test_bernoulli_among_an_even_choice(tmp_path):
    """Heard with m/K p, and how many are heard in a round is binomial(m, p)."""
    said = "{kind: bernoulli, probability: 0.5, selection: {kind: uniform, m: 3}}"
    found = heard(netfl.run(written(tmp_path, said), tmp_path / "run"))
    z = (found.mean(axis=0) - 0.375) / np.sqrt(0.375 * 0.625 / 6000)
    assert np.abs(z).max() < 4.5
    assert goodness(np.bincount(found.sum(axis=1), minlength=4), [1 / 8, 3 / 8, 3 / 8, 1 / 8]) > 1e-4


def test_who_is_not_chosen_has_no_update(tmp_path):
    """Each round has as many updates as there are chosen, each with one outcome; the others have none."""
    said = "{kind: bernoulli, probability: 0.3, selection: {kind: contract, m: 2, tiers: [{users: [3, 1]}]}}"
    run = netfl.run(written(tmp_path, said, rounds=50, rest="record: all\n"), tmp_path / "run")
    outcomes = run.events[run.events["kind"].isin(["delivered", "superseded", "unfinished"])]
    assert set(outcomes["user"]) == {1, 3}
    assert (outcomes.groupby(["round", "user"]).size() == 1).all()
    assert len(outcomes) == 100


def test_the_first_of_those_chosen(tmp_path):
    said = "{kind: bernoulli, probability: 1.0, deliveries: 1, selection: {kind: oldest, m: 1}}"
    users = netfl.run(written(tmp_path, said, rounds=40), tmp_path / "run").deliveries["user"].to_numpy()
    assert all(set(users[start : start + 4]) == {0, 1, 2, 3} for start in range(0, 40, 4))  # a round-robin


def test_a_threshold_keeps_out_who_holds_less(tmp_path):
    rest = LEARNING + "replicas: 3\n"
    said = "{kind: bernoulli, probability: 1.0, selection: {kind: threshold, tau: 20}}"
    run = netfl.run(written(tmp_path, said, 4, 5, rest), tmp_path / "run", device="cpu")
    for replica, users in run.users.groupby("replica"):
        enough = set(users["user"][users["samples"] >= 20])
        found = run.deliveries[run.deliveries["replica"] == replica]
        assert set(found["user"]) == enough
        assert 0 < len(enough) < 4


@pytest.mark.parametrize("start", [netfl.run, netfl.trace])
def test_a_threshold_that_nobody_reaches_is_a_fault_with_its_place(tmp_path, start):
    said = "{kind: bernoulli, probability: 1.0, selection: {kind: threshold, tau: 300}}"
    with pytest.raises(ScenarioError) as caught:
        start(written(tmp_path, said, 4, 5, LEARNING), tmp_path / "run")
    (fault,) = caught.value.faults
    assert fault.key == "access.selection.tau"
    assert fault.where.endswith("scenario.yaml:4")


@pytest.mark.slow
def test_shares_by_size(tmp_path):
    """One a round in proportion to the data: the shares of the samples."""
    said = "{kind: bernoulli, probability: 1.0, selection: {kind: by_size, m: 1}}"
    run = netfl.trace(written(tmp_path, said, 4, 6000, LEARNING), tmp_path / "run")
    held = run.users["samples"].to_numpy()
    counts = np.bincount(run.deliveries["user"], minlength=4)
    assert goodness(counts, held / held.sum()) > 1e-4


def test_sizes_without_data(tmp_path):
    with pytest.raises(ScenarioError, match="no data"):
        written(tmp_path, "{kind: bernoulli, probability: 1.0, selection: {kind: by_size, m: 1}}")


def choose(tmp_path, name, users, losses, classes):
    """A run in which all are candidates and one is chosen."""
    rest = LEARNING.replace("[[0], [0], [0, 1, 2], [1]]", classes) + "evaluate: {every: 1}\n"
    choice = f"{{kind: power_of_choice, d: {users}, m: 1, losses: {losses}}}"
    said = f"{{kind: bernoulli, probability: 1.0, selection: {choice}}}"
    return netfl.run(written(tmp_path, said, users, 12, rest), tmp_path / name, device="cpu")


def test_power_of_choice_hears_whom_the_version_serves_worst(tmp_path):
    """Points are so close to their centres that the loss on test examples of a user's class is that on its own."""
    run = choose(tmp_path, "run", 3, "fresh", "[[0], [1], [2]]")
    users = run.deliveries["user"].to_numpy()
    rows = run.metrics[(run.metrics["metric"] == "loss") & run.metrics["group"].str.startswith("user")]
    loss = rows.pivot_table(index="round", columns="group", values="value").to_numpy()
    assert users[1:].tolist() == loss[1:12].argmax(axis=1).tolist()
    assert len(set(users)) == 3


@pytest.mark.parametrize("losses", ["fresh", "last"])
@pytest.mark.quick_first
def test_a_closed_loop_is_the_same_again(tmp_path, losses):
    one, other = (choose(tmp_path, name, 4, losses, "[[0], [0], [0, 1, 2], [1]]") for name in ("one", "other"))
    users = one.deliveries["user"].tolist()
    assert users == other.deliveries["user"].tolist()
    if losses == "last":
        assert sorted(users[:4]) == [0, 1, 2, 3]  # whose loss is not known comes first


NETWORK = """
  kind: network
  topology: {kind: star, radius: 200 m}
  radio: {power: 40 dBm, bandwidth: 1 MHz}
  channel: [{kind: log_distance, exponent: 2.5, frequency: 868 MHz}]
  reception: {kind: snr_threshold, threshold: 0 dB, rate: 50 kbps}
  mac: MAC
  compute: {speed: 100, samples: 100}
  broadcast_rate: 50 kbps
  update_size: 1 kB
  round: {kind: first, m: 1, deadline: 10 min}
  selection: WHO
"""


def network(who, mac="{kind: slotted_aloha, probability: 0.2}"):
    return NETWORK.replace("WHO", who).replace("MAC", mac)


def test_a_network_hears_only_those_chosen(tmp_path):
    said = network("{kind: contract, m: 2, tiers: [{users: [3, 1]}]}")
    run = netfl.trace(written(tmp_path, said, rounds=40, rest="record: all\n"), tmp_path / "run")
    assert len(run.deliveries) == 40
    assert set(run.deliveries["user"]) == {1, 3}
    assert set(run.events["user"][run.events["kind"] == "sent"]) == {1, 3}


@pytest.mark.slow
def test_one_chosen_evenly_is_the_one_that_a_network_hears(tmp_path):
    run = netfl.trace(written(tmp_path, network("{kind: uniform, m: 1}"), rounds=1000), tmp_path / "run")
    assert goodness(np.bincount(run.deliveries["user"], minlength=4), [0.25] * 4) > 1e-4


@pytest.mark.slow
def test_a_mac_that_follows_ages_hears_the_unheard_sooner(tmp_path):
    """Longest silences under p in proportion to ages, and under equal p: a geometric law has a long tail."""
    longest = []
    for least in (0.0, 1.0):
        mac = f"{{kind: adaptive_aloha, channels: 1, metric: age, min_probability: {least}}}"
        folder = tmp_path / str(least)
        found = heard(netfl.trace(written(tmp_path, network("all", mac), 8, 800), folder), 8)
        gaps = [np.diff(np.flatnonzero(column)) for column in found.T]
        longest.append(np.concatenate(gaps).std())
    assert longest[0] < 0.75 * longest[1]
    assert longest[1] == pytest.approx(np.sqrt(7 / 8) * 8, rel=0.15)


def test_a_trace_of_a_closed_loop_is_refused(tmp_path):
    said = "{kind: bernoulli, probability: 1.0, selection: {kind: power_of_choice, d: 3, m: 1}}"
    with pytest.raises(ScenarioError, match="learn"):
        netfl.trace(written(tmp_path, said, 4, 12, LEARNING), tmp_path / "run")
    said = network("all", "{kind: adaptive_aloha, channels: 2, metric: norm}")
    with pytest.raises(ScenarioError, match="learn"):
        netfl.trace(written(tmp_path, said, 4, 12, LEARNING), tmp_path / "run")
