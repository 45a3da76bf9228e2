"""Selections in complete runs: only selected users are delivered, at the theoretical rates.

Tolerance: counts pass a chi-square test with p > 1e-4.
"""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.errors import ScenarioError
from netfl.types import OUTCOMES

RHO = (0.5, 0.3, 0.15, 0.05)
LEARNING = """
data: {kind: blobs, centers: [[0, 0], [3, 3], [0, 3]], std: 0.01, samples: 50}
partition: {kind: by_class, classes: [[0], [0], [0, 1, 2], [1]]}
model: logistic
learners:
  one: {objective: erm, aggregation: average, lr: 0.5, batch_size: 8, local_steps: 5}
"""


def load_scenario(tmp_path, access, users=4, rounds=6000, rest=""):
    path = tmp_path / "scenario.yaml"
    path.write_text(f"name: chosen\nusers: {users}\nrounds: {rounds}\naccess: {access}\n{rest}")
    return netfl.load(path)


def delivery_matrix(run, users=4):
    """Return whether each user is delivered in each round, ``[rounds, users]``."""
    rows = run.deliveries
    matrix = np.zeros((len(run.rounds), users), bool)
    matrix[rows["round"] - 1, rows["user"]] = True
    return matrix


def chi_square_p(counts, chances):
    """Return the p-value of *counts* against *chances*."""
    return stats.chisquare(counts, np.sum(counts) * np.array(chances)).pvalue


@pytest.mark.slow
def test_stationary_access_with_uniform_selection(tmp_path):
    """Of 2 users selected uniformly from 4, one is delivered in proportion to rho."""
    chances = np.zeros(4)
    for pair in combinations(range(4), 2):
        for user in pair:
            chances[user] += RHO[user] / sum(RHO[member] for member in pair) / 6
    access = f"{{kind: stationary, rho: {list(RHO)}, selection: {{kind: uniform, m: 2}}}}"
    counts = delivery_matrix(netfl.run(load_scenario(tmp_path, access), tmp_path / "run")).sum(axis=0)
    assert counts.sum() == 6000
    assert chi_square_p(counts, chances) > 1e-4


@pytest.mark.slow
def test_two_deliveries_of_three_selected_users(tmp_path):
    """Of 3 users selected uniformly, 2 are drawn in sequence in proportion to rho."""
    chances = {}
    for candidates in combinations(range(4), 3):
        for first, other in permutations(candidates, 2):
            total = sum(RHO[user] for user in candidates)
            chance = RHO[first] / total * RHO[other] / (total - RHO[first]) / 4
            chances[frozenset((first, other))] = chances.get(frozenset((first, other)), 0.0) + chance
    access = f"{{kind: stationary, rho: {list(RHO)}, deliveries: 2, selection: {{kind: uniform, m: 3}}}}"
    delivered = delivery_matrix(netfl.run(load_scenario(tmp_path, access), tmp_path / "run"))
    counts = [sum(set(np.flatnonzero(row)) == pair for row in delivered) for pair in chances]
    assert sum(counts) == 6000
    assert chi_square_p(counts, [*chances.values()]) > 1e-4


@pytest.mark.slow
def test_bernoulli_access_with_uniform_selection(tmp_path):
    """The rate is p m / K, and the number of deliveries per round is binomial(m, p)."""
    access = "{kind: bernoulli, probability: 0.5, selection: {kind: uniform, m: 3}}"
    delivered = delivery_matrix(netfl.run(load_scenario(tmp_path, access), tmp_path / "run"))
    z = (delivered.mean(axis=0) - 0.375) / np.sqrt(0.375 * 0.625 / 6000)
    assert np.abs(z).max() < 4.5
    assert chi_square_p(np.bincount(delivered.sum(axis=1), minlength=4), [1 / 8, 3 / 8, 3 / 8, 1 / 8]) > 1e-4


def test_unselected_users_have_no_updates(tmp_path):
    """Each selected user that is available has one update per round, which is delivered."""
    access = "{kind: bernoulli, probability: 0.3, selection: {kind: contract, m: 2, tiers: [{users: [3, 1]}]}}"
    run = netfl.run(load_scenario(tmp_path, access, rounds=50, rest="record: all\n"), tmp_path / "run")
    outcomes = run.events[run.events["kind"].isin(OUTCOMES)]
    assert set(outcomes["user"]) == {1, 3}
    assert set(outcomes["kind"]) == {"delivered"}
    assert (outcomes.groupby(["round", "user"]).size() == 1).all()
    assert 10 < len(outcomes) < 60


def test_oldest_selection_is_a_round_robin(tmp_path):
    access = "{kind: bernoulli, probability: 1.0, deliveries: 1, selection: {kind: oldest, m: 1}}"
    users = netfl.run(load_scenario(tmp_path, access, rounds=40), tmp_path / "run").deliveries["user"].to_numpy()
    assert all(set(users[start : start + 4]) == {0, 1, 2, 3} for start in range(0, 40, 4))  # a round-robin


def test_threshold_excludes_users_with_few_samples(tmp_path):
    rest = LEARNING + "replicas: 3\n"
    access = "{kind: bernoulli, probability: 1.0, selection: {kind: threshold, tau: 20}}"
    run = netfl.run(load_scenario(tmp_path, access, 4, 5, rest), tmp_path / "run", device="cpu")
    for replica, users in run.users.groupby("replica"):
        expected = set(users["user"][users["samples"] >= 20])
        delivered = run.deliveries[run.deliveries["replica"] == replica]
        assert set(delivered["user"]) == expected
        assert 0 < len(expected) < 4


@pytest.mark.parametrize("start", [netfl.run, netfl.trace])
def test_threshold_without_users_is_an_error(tmp_path, start):
    access = "{kind: bernoulli, probability: 1.0, selection: {kind: threshold, tau: 300}}"
    with pytest.raises(ScenarioError) as error:
        start(load_scenario(tmp_path, access, 4, 5, LEARNING), tmp_path / "run")
    (fault,) = error.value.faults
    assert fault.key == "access.selection.tau"
    assert fault.where.endswith("scenario.yaml:4")


@pytest.mark.slow
def test_selection_by_size_follows_the_samples(tmp_path):
    access = "{kind: bernoulli, probability: 1.0, selection: {kind: by_size, m: 1}}"
    run = netfl.trace(load_scenario(tmp_path, access, 4, 6000, LEARNING), tmp_path / "run")
    samples = run.users["samples"].to_numpy()
    counts = np.bincount(run.deliveries["user"], minlength=4)
    assert chi_square_p(counts, samples / samples.sum()) > 1e-4


def test_selection_by_size_without_data_is_an_error(tmp_path):
    with pytest.raises(ScenarioError, match="no data"):
        load_scenario(tmp_path, "{kind: bernoulli, probability: 1.0, selection: {kind: by_size, m: 1}}")


def run_power_of_choice(tmp_path, name, users, losses, classes):
    """Run a scenario in which all users are candidates and one is selected."""
    rest = LEARNING.replace("[[0], [0], [0, 1, 2], [1]]", classes) + "evaluate: {every: 1}\n"
    choice = f"{{kind: power_of_choice, d: {users}, m: 1, losses: {losses}}}"
    access = f"{{kind: bernoulli, probability: 1.0, selection: {choice}}}"
    return netfl.run(load_scenario(tmp_path, access, users, 12, rest), tmp_path / name, device="cpu")


def test_power_of_choice_delivers_the_user_of_highest_loss(tmp_path):
    """The classes are so compact that test and training loss of a user's class are equal."""
    run = run_power_of_choice(tmp_path, "run", 3, "fresh", "[[0], [1], [2]]")
    users = run.deliveries["user"].to_numpy()
    rows = run.metrics[(run.metrics["metric"] == "loss") & run.metrics["group"].str.startswith("user")]
    loss = rows.pivot_table(index="round", columns="group", values="value").to_numpy()
    assert users[1:].tolist() == loss[1:12].argmax(axis=1).tolist()
    assert len(set(users)) == 3


@pytest.mark.parametrize("losses", ["fresh", "last"])
@pytest.mark.quick_first
def test_closed_loop_is_reproducible(tmp_path, losses):
    first, other = (
        run_power_of_choice(tmp_path, name, 4, losses, "[[0], [0], [0, 1, 2], [1]]") for name in ("one", "other")
    )
    users = first.deliveries["user"].tolist()
    assert users == other.deliveries["user"].tolist()
    if losses == "last":
        assert sorted(users[:4]) == [0, 1, 2, 3]  # users of unknown loss come first


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
  selection: SELECTION
"""


def network(selection, mac="{kind: slotted_aloha, probability: 0.2}"):
    return NETWORK.replace("SELECTION", selection).replace("MAC", mac)


def test_network_delivers_selected_users_only(tmp_path):
    access = network("{kind: contract, m: 2, tiers: [{users: [3, 1]}]}")
    run = netfl.trace(load_scenario(tmp_path, access, rounds=40, rest="record: all\n"), tmp_path / "run")
    assert len(run.deliveries) == 40
    assert set(run.deliveries["user"]) == {1, 3}
    assert set(run.events["user"][run.events["kind"] == "sent"]) == {1, 3}


@pytest.mark.slow
def test_network_with_uniform_selection_delivers_uniformly(tmp_path):
    run = netfl.trace(load_scenario(tmp_path, network("{kind: uniform, m: 1}"), rounds=1000), tmp_path / "run")
    assert chi_square_p(np.bincount(run.deliveries["user"], minlength=4), [0.25] * 4) > 1e-4


@pytest.mark.slow
def test_mac_with_age_metric_shortens_gaps(tmp_path):
    """Compare gaps with p in proportion to age with gaps for equal p, which are geometric with a long tail."""
    longest = []
    for least in (0.0, 1.0):
        mac = f"{{kind: adaptive_aloha, channels: 1, metric: age, min_probability: {least}}}"
        folder = tmp_path / str(least)
        delivered = delivery_matrix(netfl.trace(load_scenario(tmp_path, network("all", mac), 8, 800), folder), 8)
        gaps = [np.diff(np.flatnonzero(column)) for column in delivered.T]
        longest.append(np.concatenate(gaps).std())
    assert longest[0] < 0.75 * longest[1]
    assert longest[1] == pytest.approx(np.sqrt(7 / 8) * 8, rel=0.15)


def test_trace_of_a_closed_loop_is_refused(tmp_path):
    access = "{kind: bernoulli, probability: 1.0, selection: {kind: power_of_choice, d: 3, m: 1}}"
    with pytest.raises(ScenarioError, match="learn"):
        netfl.trace(load_scenario(tmp_path, access, 4, 12, LEARNING), tmp_path / "run")
    access = network("all", "{kind: adaptive_aloha, channels: 2, metric: norm}")
    with pytest.raises(ScenarioError, match="learn"):
        netfl.trace(load_scenario(tmp_path, access, 4, 12, LEARNING), tmp_path / "run")
