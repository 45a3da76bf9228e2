"""Aggregations over whole traces, each compared with its algorithm as a loop over users in NumPy."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from netfl.errors import ScenarioError
from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedbuff import Fedbuff
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.relay import Relay
from netfl.types import ScenarioFacts

USERS, SIZE = 5, 4


class Trace:
    """Deliveries of each round, and models that depend on the user and its base.

    Args:
        deliveries: users and their bases for each round.
    """

    def __init__(self, deliveries):
        self.deliveries = deliveries
        rng = np.random.default_rng(1)
        self._pull, self._goal = rng.uniform(0.1, 0.6, USERS), rng.standard_normal((USERS, SIZE))
        self.samples = rng.integers(1, 50, USERS).astype(float)
        self.start = rng.standard_normal(SIZE)

    def sent(self, user, base):
        """Return the model that *user* sends if it starts from the model *base*."""
        return base + self._pull[user] * np.tanh(self._goal[user] - base)

    def run(self, aggregation, start=None):
        """Return all versions that *aggregation* makes, ``[rounds + 1, SIZE]``."""
        versions = [self.start if start is None else start]
        state = aggregation.open(USERS, torch.tensor(versions[0]))
        for index, deliveries in enumerate(self.deliveries, start=1):
            if not deliveries:
                following, state = aggregation.idle(state, torch.tensor(versions[-1]), index, torch.ones(2))
                versions.append(following.numpy())
                continue
            users, bases = (np.array(column) for column in zip(*deliveries, strict=True))
            models = [self.sent(user, versions[base]) for user, base in deliveries]
            updates = Updates(
                index,
                *(torch.tensor(array) for array in (users, bases)),
                *(torch.tensor(np.array(rows)) for rows in ([versions[base] for base in bases], models)),
                torch.tensor(self.samples[users]),
                torch.ones(len(users)),
                torch.ones(len(users), 2),
                torch.ones(2),
            )
            copies = [
                updates.models.clone(),
                updates.bases.clone(),
                {name: values.clone() for name, values in state.items()},
            ]
            before = state
            following, state = aggregation.step(state, torch.tensor(versions[-1]), updates)
            assert torch.equal(updates.models, copies[0])
            assert torch.equal(updates.bases, copies[1])
            assert all(torch.equal(values, copies[2][name]) for name, values in before.items())
            versions.append(following.numpy())
        return np.array(versions)


def fresh(seed=0, rounds=60):
    """Yield rounds in which some, all or no users deliver from the newest version. User 4 starts in round 31."""
    rng = np.random.default_rng(seed)
    probabilities = np.array([0.9, 0.5, 0.3, 0.05, 0.4])
    for index in range(1, rounds + 1):
        delivers = (rng.random(USERS) < probabilities) & ~((np.arange(USERS) == 4) & (index <= 30)) & (index % 7 > 1)
        yield [(int(user), index - 1) for user in rng.permutation(np.flatnonzero(delivers))]


def stale(seed=0, rounds=40):
    """Yield rounds with old bases, repeated users and users without deliveries."""
    rng = np.random.default_rng(seed)
    for index in range(1, rounds + 1):
        users = rng.integers(0, USERS, rng.integers(0, 4))
        yield [(int(user), int(rng.integers(max(0, index - 9), index))) for user in users]


FRESH, STALE = Trace([*fresh()]), Trace([*stale()])
ALL_USERS = Trace([[(user, index) for user in range(USERS)] for index in range(12)])


def test_the_traces_cover_the_special_cases():
    for trace in (FRESH, STALE):
        assert any(not deliveries for deliveries in trace.deliveries)
        assert any(
            not first and not second for first, second in zip(FRESH.deliveries, FRESH.deliveries[1:], strict=False)
        )
    assert (
        next(index for index, deliveries in enumerate(FRESH.deliveries, 1) if 4 in [user for user, _ in deliveries])
        > 30
    )
    assert any(len({user for user, _ in deliveries}) < len(deliveries) for deliveries in STALE.deliveries)
    assert any(index - 1 - base > 5 for index, deliveries in enumerate(STALE.deliveries, 1) for _, base in deliveries)


def published_weights(delivered, cutoff):
    """Return the weights of Algorithm 2 of FedAU, ``[rounds, users]``."""
    rounds, users = delivered.shape
    weights = np.ones((rounds, users))
    for n in range(users):
        count, interval = 0, 0
        for t in range(1, rounds):
            interval += 1
            weights[t, n] = weights[t - 1, n]
            if delivered[t - 1, n] or interval == cutoff:
                weights[t, n] = interval if count == 0 else (count * weights[t - 1, n] + interval) / (count + 1)
                count, interval = count + 1, 0
    return weights


def published_versions(trace, weights, step):
    """Return the versions of Algorithm 1 of FedAU for given weights."""
    versions = [trace.start]
    for t, deliveries in enumerate(trace.deliveries):
        change = np.zeros(SIZE)
        for user, base in deliveries:
            change += weights[t, user] * (trace.sent(user, versions[base]) - versions[base])
        versions.append(versions[-1] + step / USERS * change)
    return np.array(versions)


def delivery_table(trace):
    return np.array(
        [[user in [sender for sender, _ in deliveries] for user in range(USERS)] for deliveries in trace.deliveries]
    )


@pytest.mark.parametrize("trace", [FRESH, STALE, ALL_USERS], ids=["fresh", "stale", "all users"])
@pytest.mark.parametrize(("cutoff", "step"), [(None, 1.0), (1, 0.5), (2, 1.3), (4, 1.0), (10, 1.0), (500, 1.0)])
def test_fedau_equals_the_published_algorithm(trace, cutoff, step):
    expected = published_versions(trace, published_weights(delivery_table(trace), cutoff), step)
    assert trace.run(Fedau(cutoff=cutoff, server_lr=step)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_fedau_by_hand():
    """User 0 delivers in rounds 3, 4 and 9 of 9, no other user. Its weight is 1, then 3, then (3 + 1) / 2."""
    trace = Trace([[(0, index)] if index in {2, 3, 8} else [] for index in range(9)])
    moves = np.diff(trace.run(Fedau()), axis=0)
    versions = trace.run(Fedau())
    weights = {3: 1.0, 4: 3.0, 9: 2.0}
    for index, weight in weights.items():
        change = trace.sent(0, versions[index - 1]) - versions[index - 1]
        assert moves[index - 1] == pytest.approx(weight / USERS * change)


def test_fedau_equals_fedavg_or_average_all_in_its_limits():
    assert ALL_USERS.run(Fedau()) == pytest.approx(ALL_USERS.run(Average(weights="equal")), abs=1e-13)
    for trace in (FRESH, STALE):
        assert trace.run(Fedau(cutoff=1, server_lr=2)) == pytest.approx(trace.run(AverageAll(server_lr=2)), abs=1e-13)


@pytest.mark.parametrize("cutoff", [None, 5])
@pytest.mark.quick_first
def test_fedau_weights_tend_to_the_mean_interval(cutoff):
    """40 users deliver with probability 0.2: about 32 000 intervals have the mean (1 - 0.8^K) / 0.2."""
    users, rounds, p = 40, 4000, 0.2
    rng, rule = np.random.default_rng(2), Fedau(cutoff=cutoff)
    current = torch.zeros(1, dtype=torch.float64)
    state = rule.open(users, current)
    for index in range(1, rounds + 1):
        users_of_round = torch.tensor(np.flatnonzero(rng.random(users) < p))
        if len(users_of_round):
            zeros = current.expand(len(users_of_round), 1)
            _, state = rule.step(
                state,
                current,
                Updates(index, users_of_round, users_of_round * 0, zeros, zeros, *[zeros[:, 0]] * 2, zeros, zeros),
            )
    expected = 1 / p if cutoff is None else (1 - (1 - p) ** cutoff) / p
    mean = (state["total"] / state["ended"]).mean().item()
    assert mean == pytest.approx(expected, rel=5 * np.sqrt(1 - p) / np.sqrt(users * rounds * p))


def test_average_all_divides_by_all_users():
    for trace in (FRESH, STALE):
        expected = published_versions(trace, np.ones((len(trace.deliveries), USERS)), 1.7)
        assert trace.run(AverageAll(server_lr=1.7)) == pytest.approx(expected, abs=1e-13)


def test_known_participation_divides_by_the_probability():
    p = (0.9, 0.5, 0.3, 0.05, 0.4)
    for trace in (FRESH, STALE):
        expected = published_versions(trace, np.tile(1 / np.array(p), (len(trace.deliveries), 1)), 0.8)
        found = trace.run(KnownParticipation(probability=p, server_lr=0.8))
        assert found == pytest.approx(expected, abs=1e-12)
    assert ALL_USERS.run(KnownParticipation(probability=(1.0,) * USERS)) == pytest.approx(
        ALL_USERS.run(Average(weights="equal")), abs=1e-13
    )


def test_known_participation_has_weight_0_for_probability_0():
    rule = KnownParticipation().with_participation(np.array([0.5, 0.0, 0.2]))
    assert rule.open(3, torch.zeros(2))["weights"].tolist() == [2.0, 0.0, 5.0]


def test_known_participation_needs_a_probability_for_each_user():
    rule = KnownParticipation(probability=(0.5, 0.2))
    (error,) = rule.faults(ScenarioFacts(users=3, rounds=1))
    assert (error.key, error.problem) == ("probability", "2 probabilities for 3 users")
    assert not [*rule.faults(ScenarioFacts(users=2, rounds=1))]
    for probability in ((0.5, 0.0), (1.5,), ()):
        with pytest.raises(ScenarioError):
            KnownParticipation(probability=probability)


def test_average_uses_a_server_step_size():
    for trace in (FRESH, ALL_USERS):
        versions = [trace.start]
        for deliveries in trace.deliveries:
            changes = [trace.sent(user, versions[-1]) - versions[-1] for user, _ in deliveries]
            versions.append(versions[-1] + (1.78 * np.mean(changes, axis=0) if deliveries else 0.0))
        assert trace.run(Average(weights="equal", server_lr=1.78)) == pytest.approx(np.array(versions), abs=1e-12)


def test_average_without_a_server_step_size_is_the_mean():
    versions = [STALE.start]
    for deliveries in STALE.deliveries:
        models = [STALE.sent(user, versions[base]) for user, base in deliveries]
        sizes = [STALE.samples[user] for user, _ in deliveries]
        versions.append(np.average(models, axis=0, weights=sizes) if deliveries else versions[-1])
    assert STALE.run(Average()) == pytest.approx(np.array(versions), abs=1e-13)


@pytest.mark.parametrize(("step", "exponent"), [(1.0, 0.5), (0.3, 0.0), (1.0, 2.0)])
def test_fedbuff_equals_the_published_algorithm(step, exponent):
    """The buffer receives changes one by one and is emptied at the end of a round."""
    for trace in (STALE, FRESH):
        versions = [trace.start]
        for version, deliveries in enumerate(trace.deliveries):
            buffer = np.zeros(SIZE)
            for user, base in deliveries:
                staleness = version - base
                buffer += (trace.sent(user, versions[base]) - versions[base]) / (1 + staleness) ** exponent
            versions.append(versions[-1] + step * buffer / max(len(deliveries), 1))
        found = trace.run(Fedbuff(server_lr=step, exponent=exponent))
        assert found == pytest.approx(np.array(versions), abs=1e-12)


def test_fedbuff_without_staleness_is_a_plain_average():
    for trace in (FRESH, ALL_USERS):
        assert trace.run(Fedbuff(exponent=3.0)) == pytest.approx(trace.run(Average(weights="equal")), abs=1e-12)
    assert not np.allclose(STALE.run(Fedbuff(exponent=0)), STALE.run(Average(weights="equal")))


def discount(kind, tau, a=None, b=None):
    if kind == "constant":
        return 1.0
    if kind == "polynomial":
        return float((tau + 1.0) ** -a)
    return 1.0 if tau <= b else 1.0 / (a * (tau - b) + 1.0)


@pytest.mark.parametrize(
    "options",
    [
        {"staleness": "constant"},
        {"staleness": "polynomial", "a": 0.5},
        {"staleness": "hinge", "a": 10.0, "b": 4},
        {"staleness": "hinge", "a": 0.3, "b": 0},
    ],
    ids=str,
)
def test_fedasync_equals_the_published_algorithm(options):
    for trace in (STALE, FRESH):
        versions = [trace.start]
        for version, deliveries in enumerate(trace.deliveries):
            x = versions[-1]
            for user, base in deliveries:
                weight = 0.6 * discount(options["staleness"], version - base, options.get("a"), options.get("b"))
                x = (1 - weight) * x + weight * trace.sent(user, versions[base])
            versions.append(x)
        assert trace.run(Fedasync(alpha=0.6, **options)) == pytest.approx(np.array(versions), abs=1e-13)


def test_fedasync_with_full_weight_relays():
    trace = Trace([[(index % USERS, max(0, index - 2))] for index in range(20)])
    assert np.array_equal(trace.run(Fedasync(alpha=1.0)), trace.run(Relay()))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"a": 0.5}, "a: has no effect without staleness: polynomial or hinge"),
        ({"staleness": "polynomial"}, "a: missing; staleness: polynomial needs it"),
        ({"staleness": "polynomial", "a": 0.5, "b": 4}, "b: has no effect without staleness: hinge"),
        ({"staleness": "hinge", "a": 10}, "b: missing; staleness: hinge needs it"),
        ({"staleness": "hinge", "b": 1}, "a: missing; staleness: hinge needs it"),
    ],
)
def test_fedasync_rejects_options_of_other_staleness(options, problem):
    with pytest.raises(ScenarioError, match=problem):
        Fedasync(alpha=0.5, **options)


RULES = {
    "average": Average(weights="equal", server_lr=1.5),
    "average_all": AverageAll(server_lr=3.0),
    "known_participation": KnownParticipation(probability=(0.9, 0.5, 0.3, 0.05, 0.4)),
    "fedau": Fedau(cutoff=7),
    "fedbuff": Fedbuff(),
    "fedasync": Fedasync(alpha=0.6, staleness="hinge", a=1.0, b=2.0),
}


@pytest.mark.parametrize("rule", RULES)
def test_entries_are_aggregated_independently(rule):
    """t is one more entry. A permutation of the entries permutes the result."""
    order = [3, 0, 2, 1]
    trace, permuted = Trace(STALE.deliveries), Trace(STALE.deliveries)
    permuted._goal = permuted._goal[:, order]
    found = permuted.run(RULES[rule], trace.start[order])
    assert np.array_equal(found, trace.run(RULES[rule])[:, order])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("step", [0.0, -1.0])
def test_steps_are_positive(rule, step):
    name = "alpha" if rule == "fedasync" else "server_lr"
    with pytest.raises(ValidationError):
        type(RULES[rule]).model_validate(RULES[rule].model_dump(exclude={"kind"}) | {name: step})
