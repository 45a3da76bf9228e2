"""FedGS: its graph and its choices beside brute force, and the data that it needs."""

from itertools import combinations

import numpy as np
import pytest
from support.error_messages import assert_messages
from support.small_network import SECTION

import netfl
from netfl.access.selection import RoundInfo, UserInfo
from netfl.access.selection.fedgs import Fedgs, best_set, cosines, improved_set, path_lengths
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import ScenarioFacts


def label_shares(users, classes=5, concentration=0.3, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, concentration), users)


def published_distances(shares, epsilon, sigma_squared):
    """Return H one pair after the other, as in the paper; paths by as many passes over all triples as change any."""
    n = len(shares)
    cosine = {
        (i, j): float(np.dot(shares[i], shares[j]) / np.linalg.norm(shares[i]) / np.linalg.norm(shares[j]))
        for i, j in combinations(range(n), 2)
    }
    low, high = min(cosine.values()), max(cosine.values())
    length = np.full((n, n), np.inf)
    for (i, j), value in cosine.items():
        v = (value - low) / (high - low)
        if v > epsilon:
            length[i, j] = length[j, i] = np.exp(-(v**2) / sigma_squared)
    has_changed = True
    while has_changed:
        has_changed = False
        for i, j in combinations(range(n), 2):
            for k in range(n):
                if k not in (i, j) and length[i, k] + length[k, j] < length[i, j] - 1e-15:
                    length[i, j] = length[j, i] = length[i, k] + length[k, j]
                    has_changed = True
    largest = max(value for value in length.flat if np.isfinite(value))
    return {(i, j): length[i, j] / largest if np.isfinite(length[i, j]) else 1.0 for i, j in cosine}


def objective(chosen, available, distances, counts, alpha):
    """Return the objective of the paper for a set of users."""
    m, n = len(chosen), len(counts)
    value = 0.0
    if m > 1:
        value = alpha * 2 / (m * (m - 1)) * sum(distances[pair] for pair in combinations(sorted(chosen), 2))
    for user in chosen:
        value -= (2 * (counts[user] - sum(counts) / n - m / len(available)) + 1) / (n - 1)
    return value


def moments(users, rounds, seed, chance=0.7):
    rng = np.random.default_rng(seed)
    for index in range(1, rounds + 1):
        yield RoundInfo(users, {"check_in": rng.random(users) < chance}, index)


@pytest.mark.parametrize(
    ("m", "alpha", "epsilon", "sigma_squared"),
    [(3, 0.1, 0.01, 0.1), (2, 1.0, 0.3, 0.5), (1, 0.5, 0.01, 0.1), (4, 0.0, 0.01, 0.1), (3, 5.0, 0.6, 0.05)],
)
def test_choices_equal_brute_force(m, alpha, epsilon, sigma_squared):
    """Where several sets are best up to rounding, the first one in lexicographic order is chosen."""
    users = 8
    shares = label_shares(users)
    selection = Fedgs(m=m, alpha=alpha, epsilon=epsilon, sigma_squared=sigma_squared)
    selector = selection.open(UserInfo(users, Streams(1), label_mix=shares))
    distances = published_distances(shares, epsilon, sigma_squared)
    counts = [0] * users
    sequence = []
    for moment in moments(users, 25, seed=3):
        available = np.flatnonzero(moment.check_in).tolist()
        sets = [*combinations(available, min(m, len(available)))]
        values = [objective(chosen, available, distances, counts, alpha) for chosen in sets]
        best = next(chosen for chosen, value in zip(sets, values, strict=True) if value > max(values) - 1e-11)
        selected = selector.choose(moment).tolist()
        assert selected == [*best]
        for user in selected:
            counts[user] += 1
        sequence.append(tuple(selected))
    assert len({*sequence}) > 5
    again = selection.open(UserInfo(users, Streams(9), label_mix=shares))
    assert [tuple(again.choose(moment).tolist()) for moment in moments(users, 25, seed=3)] == sequence


@pytest.mark.parametrize("concentration", [0.05, 0.3, 5.0])
def test_distances_equal_those_of_all_paths(concentration):
    shares = label_shares(9, concentration=concentration, seed=2)
    for epsilon, sigma_squared in ((0.01, 0.1), (0.4, 0.3), (0.8, 0.05)):
        found = path_lengths(cosines(shares), epsilon, sigma_squared)
        expected = published_distances(shares, epsilon, sigma_squared)
        assert found == pytest.approx(found.T)
        for (i, j), length in expected.items():
            assert found[i, j] == pytest.approx(length, rel=1e-12)


def test_similarities_by_hand():
    """Users 0 and 1 agree; 2 shares a label with both; 3 has another."""
    shares = np.array([[1.0, 0, 0], [1.0, 0, 0], [0.6, 0.4, 0], [0, 0, 1.0]])
    similarity = cosines(shares)
    of_two = 0.6 / np.sqrt(0.6**2 + 0.4**2)
    assert similarity[0].tolist() == pytest.approx([1, 1, of_two, 0])
    lengths = path_lengths(similarity, 0.01, 0.1)
    assert lengths[0, 1] == pytest.approx(np.exp(-10) / np.exp(-(of_two**2) / 0.1))
    assert lengths[0, 2] == lengths[1, 2] == 1  # the largest of all that exist
    assert lengths[3, :3].tolist() == [1, 1, 1]  # no path


@pytest.mark.parametrize("shares", [np.eye(4), np.ones((4, 2)) / 2, np.array([[1.0]])])
def test_users_that_are_all_alike_or_all_different_take_turns(shares):
    users = len(shares)
    selector = Fedgs(m=2).open(UserInfo(users, Streams(1), label_mix=shares))
    everybody = RoundInfo(users, {"check_in": np.ones(users, bool)}, 1)
    chosen = [selector.choose(everybody).tolist() for _ in range(4)]
    assert chosen == ([[0, 1], [2, 3]] * 2 if users == 4 else [[0]] * 4)


def value_of(chosen, single, pair):
    return single[chosen].sum() + pair[np.ix_(chosen, chosen)].sum() / 2


def random_problem(rng, users, places):
    """Return values as those of a round: counts that differ by little, and distances with the weight 0.5."""
    distances = path_lengths(cosines(rng.dirichlet(np.full(5, 0.3), users)), 0.01, 0.1)
    counts = rng.integers(0, 4, users)
    single = -(2 * (counts - counts.mean() - places / users) + 1) / (users - 1)
    return single, 0.5 * 2 / (places * (places - 1)) * distances


def test_large_sets_are_near_the_optimum_and_no_exchange_improves_them():
    rng = np.random.default_rng(5)
    is_optimal = []
    for _ in range(60):
        single, pair = random_problem(rng, 12, 4)
        best = value_of(best_set(single, pair, 4), single, pair)
        chosen = improved_set(single, pair, 4)
        value = value_of(chosen, single, pair)
        assert value >= best - 0.02 * abs(best)
        is_optimal.append(value > best - 1e-9)
        for left in chosen:
            for added in set(range(12)) - {*chosen.tolist()}:
                other = np.sort([*(user for user in chosen if user != left), added])
                assert value_of(other, single, pair) <= value + 1e-9
    assert np.mean(is_optimal) > 0.9


def test_many_users_are_selected_without_all_sets():
    """20 of 60 users are 4e15 sets.  All are selected equally often."""
    users = 60
    selector = Fedgs(m=20).open(UserInfo(users, Streams(1), label_mix=label_shares(users)))
    everybody = RoundInfo(users, {"check_in": np.ones(users, bool)}, 1)
    counts = np.zeros(users)
    for _ in range(9):
        selected = selector.choose(everybody)
        assert len(selected) == 20
        assert (np.diff(selected) > 0).all()
        counts[selected] += 1
    assert np.ptp(counts) <= 1


SELECTION = {"kind": "fedgs", "m": 2, "alpha": 1}
DIRECT = {"kind": "bernoulli", "probability": 1.0, "selection": SELECTION | {"observe": {"check_in": {}}}}
NETWORK = SECTION | {
    "mac": {"kind": "round_robin"},
    "round": {"kind": "available"},
    "selection": SELECTION | {"observe": {"check_in": {"airtime": "5 ms"}}},
}


def scenario(**changes):
    return {
        "name": "graph",
        "users": 6,
        "rounds": 5,
        "replicas": 2,
        "access": DIRECT,
        "data": "digits",
        "partition": {"kind": "dirichlet", "concentration": 0.3},
        "model": "logistic",
        "learners": {
            "FedAvg": {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 1}
        },
        **changes,
    }


@pytest.mark.slow
@pytest.mark.parametrize("access", [DIRECT, NETWORK], ids=["direct", "network"])
def test_each_replica_has_the_labels_of_its_partition(tmp_path, access):
    """All users are always there.  A trace without learners loads the labels, too."""
    run = netfl.run(netfl.load(scenario(access=access)), tmp_path / "run", progress=False)
    trace = netfl.trace(netfl.load(scenario(access=access)), tmp_path / "trace", progress=False)
    assert trace.deliveries["user"].tolist() == run.deliveries["user"].tolist()
    choices = []
    for replica, users in run.users.groupby("replica"):
        counts = users[[name for name in users if name.startswith("class:")]].to_numpy(float)
        shares = counts / counts.sum(1, keepdims=True)
        selector = Fedgs(m=2, alpha=1).open(UserInfo(6, Streams(1), label_mix=shares))
        everybody = [RoundInfo(6, {"check_in": np.ones(6, bool)}, index) for index in range(1, 6)]
        expected = [selector.choose(moment).tolist() for moment in everybody]
        rows = run.deliveries[run.deliveries["replica"] == replica]
        assert [sorted(of_round) for _, of_round in rows.groupby("round")["user"]] == expected
        choices.append(expected)
    assert choices[0] != choices[1]


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (
            {"data": None, "partition": None, "model": None, "learners": None},
            ["access.selection: depends on the labels of the users' data … no data … add data and partition"],
        ),
        (
            {"partition": {"kind": "rare_classes", "classes": [9], "users": 1, "by": "prerun"}},
            ["partition: … the selection 'fedgs' on the data that users hold … use another selection"],
        ),
    ],
)
def test_scenarios_without_labels_are_errors(changes, messages):
    data = {key: value for key, value in scenario(**changes).items() if value is not None}
    with pytest.raises(ScenarioError) as caught:
        netfl.load(data)
    assert_messages(str(caught.value).splitlines(), messages)


def test_the_partition_by_rates_does_not_depend_on_the_selection():
    netfl.load(scenario(partition={"kind": "rare_classes", "classes": [9], "users": 1, "by": "rho"}))


def test_settings_that_do_not_fit_are_errors():
    assert [fault.key for fault in Fedgs(m=5).faults(ScenarioFacts(users=4, rounds=1))] == ["m"]
    with pytest.raises(ScenarioError, match="no data"):
        Fedgs(m=1).open(UserInfo(3, Streams(1)))
    for settings in ({"alpha": -1}, {"epsilon": 1}, {"sigma_squared": 0}):
        with pytest.raises(ScenarioError):
            Fedgs(m=1, **settings)
