"""Aggregations over whole traces, each against its algorithm written out anew, user by user, in NumPy."""

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
    """Who is heard when, from which version, and a user's work, which is a function of user and version.

    Args:
        heard: for each round the users and their bases.
    """

    def __init__(self, heard):
        self.heard = heard
        rng = np.random.default_rng(1)
        self._pull, self._goal = rng.uniform(0.1, 0.6, USERS), rng.standard_normal((USERS, SIZE))
        self.samples = rng.integers(1, 50, USERS).astype(float)
        self.start = rng.standard_normal(SIZE)

    def sent(self, user, base):
        """What *user* sends if it starts from the model *base*."""
        return base + self._pull[user] * np.tanh(self._goal[user] - base)

    def play(self, aggregation, start=None):
        """All versions that *aggregation* makes, ``[rounds + 1, SIZE]``."""
        versions = [self.start if start is None else start]
        state = aggregation.open(USERS, torch.tensor(versions[0]))
        for index, lines in enumerate(self.heard, start=1):
            if not lines:
                following, state = aggregation.idle(state, torch.tensor(versions[-1]), index, torch.ones(2))
                versions.append(following.numpy())
                continue
            users, bases = (np.array(column) for column in zip(*lines, strict=True))
            models = [self.sent(user, versions[base]) for user, base in lines]
            told = Updates(
                index,
                *(torch.tensor(one) for one in (users, bases)),
                *(torch.tensor(np.array(one)) for one in ([versions[base] for base in bases], models)),
                torch.tensor(self.samples[users]),
                torch.ones(len(users)),
                torch.ones(len(users), 2),
                torch.ones(2),
            )
            kept = [told.models.clone(), told.bases.clone(), {name: one.clone() for name, one in state.items()}]
            before = state
            following, state = aggregation.step(state, torch.tensor(versions[-1]), told)
            assert torch.equal(told.models, kept[0])
            assert torch.equal(told.bases, kept[1])
            assert all(torch.equal(one, kept[2][name]) for name, one in before.items())
            versions.append(following.numpy())
        return np.array(versions)


def fresh(seed=0, rounds=60):
    """Rounds in which some, all or none are heard, from the newest version; user 4 for the first time in round 31."""
    rng = np.random.default_rng(seed)
    chances = np.array([0.9, 0.5, 0.3, 0.05, 0.4])
    for index in range(1, rounds + 1):
        there = (rng.random(USERS) < chances) & ~((np.arange(USERS) == 4) & (index <= 30)) & (index % 7 > 1)
        yield [(int(user), index - 1) for user in rng.permutation(np.flatnonzero(there))]


def stale(seed=0, rounds=40):
    """Rounds with old bases and with users who are heard twice in one, or not at all."""
    rng = np.random.default_rng(seed)
    for index in range(1, rounds + 1):
        users = rng.integers(0, USERS, rng.integers(0, 4))
        yield [(int(user), int(rng.integers(max(0, index - 9), index))) for user in users]


FRESH, STALE = Trace([*fresh()]), Trace([*stale()])
EVERYBODY = Trace([[(user, index) for user in range(USERS)] for index in range(12)])


def test_the_traces_are_what_they_are_meant_to_be():
    for trace in (FRESH, STALE):
        assert any(not lines for lines in trace.heard)
        assert any(not one and not other for one, other in zip(FRESH.heard, FRESH.heard[1:], strict=False))
    assert next(at for at, lines in enumerate(FRESH.heard, 1) if 4 in [user for user, _ in lines]) > 30
    assert any(len({user for user, _ in lines}) < len(lines) for lines in STALE.heard)
    assert any(index - 1 - base > 5 for index, lines in enumerate(STALE.heard, 1) for _, base in lines)


def published_weights(present, cutoff):
    """Algorithm 2 of FedAU, line by line: the weights of each round, ``[rounds, users]``, from who is there when."""
    rounds, users = present.shape
    weights = np.ones((rounds, users))
    for n in range(users):
        ended, lasting = 0, 0
        for t in range(1, rounds):
            lasting += 1
            weights[t, n] = weights[t - 1, n]
            if present[t - 1, n] or lasting == cutoff:
                weights[t, n] = lasting if ended == 0 else (ended * weights[t - 1, n] + lasting) / (ended + 1)
                ended, lasting = ended + 1, 0
    return weights


def published_versions(trace, weights, step):
    """Algorithm 1 of FedAU: versions, given the weights of each round."""
    versions = [trace.start]
    for t, lines in enumerate(trace.heard):
        change = np.zeros(SIZE)
        for user, base in lines:
            change += weights[t, user] * (trace.sent(user, versions[base]) - versions[base])
        versions.append(versions[-1] + step / USERS * change)
    return np.array(versions)


def presence(trace):
    return np.array([[user in [one for one, _ in lines] for user in range(USERS)] for lines in trace.heard])


@pytest.mark.parametrize("trace", [FRESH, STALE, EVERYBODY], ids=["fresh", "stale", "everybody"])
@pytest.mark.parametrize(("cutoff", "step"), [(None, 1.0), (1, 0.5), (2, 1.3), (4, 1.0), (10, 1.0), (500, 1.0)])
def test_fedau_is_the_published_algorithm(trace, cutoff, step):
    expected = published_versions(trace, published_weights(presence(trace), cutoff), step)
    assert trace.play(Fedau(cutoff=cutoff, server_lr=step)) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_fedau_by_hand():
    """User 0 in rounds 3, 4 and 9 of 9, nobody else ever: it has_user_weights 1, then 3, then (3 + 1) / 2."""
    trace = Trace([[(0, index)] if index in {2, 3, 8} else [] for index in range(9)])
    moves = np.diff(trace.play(Fedau()), axis=0)
    versions = trace.play(Fedau())
    weights = {3: 1.0, 4: 3.0, 9: 2.0}
    for index, weight in weights.items():
        change = trace.sent(0, versions[index - 1]) - versions[index - 1]
        assert moves[index - 1] == pytest.approx(weight / USERS * change)


def test_fedau_is_fedavg_where_everybody_is_always_there_and_average_all_if_cut_at_1():
    assert EVERYBODY.play(Fedau()) == pytest.approx(EVERYBODY.play(Average(weights="equal")), abs=1e-13)
    for trace in (FRESH, STALE):
        assert trace.play(Fedau(cutoff=1, server_lr=2)) == pytest.approx(trace.play(AverageAll(server_lr=2)), abs=1e-13)


@pytest.mark.parametrize("cutoff", [None, 5])
@pytest.mark.quick_first
def test_fedau_weights_tend_to_the_mean_interval(cutoff):
    """Of 40 users who come with probability 0.2, to (1 - 0.8^K) / 0.2; some 32 000 intervals are averaged."""
    users, rounds, p = 40, 4000, 0.2
    rng, rule = np.random.default_rng(2), Fedau(cutoff=cutoff)
    current = torch.zeros(1, dtype=torch.float64)
    state = rule.open(users, current)
    for index in range(1, rounds + 1):
        there = torch.tensor(np.flatnonzero(rng.random(users) < p))
        if len(there):
            zeros = current.expand(len(there), 1)
            _, state = rule.step(
                state, current, Updates(index, there, there * 0, zeros, zeros, *[zeros[:, 0]] * 2, zeros, zeros)
            )
    expected = 1 / p if cutoff is None else (1 - (1 - p) ** cutoff) / p
    mean = (state["total"] / state["ended"]).mean().item()
    assert mean == pytest.approx(expected, rel=5 * np.sqrt(1 - p) / np.sqrt(users * rounds * p))


def test_average_all_divides_by_everybody():
    for trace in (FRESH, STALE):
        expected = published_versions(trace, np.ones((len(trace.heard), USERS)), 1.7)
        assert trace.play(AverageAll(server_lr=1.7)) == pytest.approx(expected, abs=1e-13)


def test_known_participation_divides_by_the_probability():
    p = (0.9, 0.5, 0.3, 0.05, 0.4)
    for trace in (FRESH, STALE):
        expected = published_versions(trace, np.tile(1 / np.array(p), (len(trace.heard), 1)), 0.8)
        found = trace.play(KnownParticipation(probability=p, server_lr=0.8))
        assert found == pytest.approx(expected, abs=1e-12)
    assert EVERYBODY.play(KnownParticipation(probability=(1.0,) * USERS)) == pytest.approx(
        EVERYBODY.play(Average(weights="equal")), abs=1e-13
    )


def test_known_participation_gives_no_weight_to_who_is_never_heard():
    rule = KnownParticipation().with_participation(np.array([0.5, 0.0, 0.2]))
    assert rule.open(3, torch.zeros(2))["weights"].tolist() == [2.0, 0.0, 5.0]


def test_known_participation_wants_a_probability_for_each_user():
    rule = KnownParticipation(probability=(0.5, 0.2))
    (fault,) = rule.faults(ScenarioFacts(users=3, rounds=1))
    assert (fault.key, fault.problem) == ("probability", "2 probabilities for 3 users")
    assert not [*rule.faults(ScenarioFacts(users=2, rounds=1))]
    for wrong in ((0.5, 0.0), (1.5,), ()):
        with pytest.raises(ScenarioError):
            KnownParticipation(probability=wrong)


def test_average_participating_takes_a_global_step():
    for trace in (FRESH, EVERYBODY):
        versions = [trace.start]
        for lines in trace.heard:
            changes = [trace.sent(user, versions[-1]) - versions[-1] for user, _ in lines]
            versions.append(versions[-1] + (1.78 * np.mean(changes, axis=0) if lines else 0.0))
        assert trace.play(Average(weights="equal", server_lr=1.78)) == pytest.approx(np.array(versions), abs=1e-12)


def test_average_is_as_it_was_without_a_global_step():
    versions = [STALE.start]
    for lines in STALE.heard:
        models = [STALE.sent(user, versions[base]) for user, base in lines]
        sizes = [STALE.samples[user] for user, _ in lines]
        versions.append(np.average(models, axis=0, weights=sizes) if lines else versions[-1])
    assert STALE.play(Average()) == pytest.approx(np.array(versions), abs=1e-13)


@pytest.mark.parametrize(("step", "exponent"), [(1.0, 0.5), (0.3, 0.0), (1.0, 2.0)])
def test_fedbuff_is_the_published_algorithm(step, exponent):
    """A buffer of changes that is filled one by one and emptied when the round ends."""
    for trace in (STALE, FRESH):
        versions = [trace.start]
        for made, lines in enumerate(trace.heard):
            buffer = np.zeros(SIZE)
            for user, base in lines:
                staleness = made - base
                buffer += (trace.sent(user, versions[base]) - versions[base]) / (1 + staleness) ** exponent
            versions.append(versions[-1] + step * buffer / max(len(lines), 1))
        found = trace.play(Fedbuff(server_lr=step, exponent=exponent))
        assert found == pytest.approx(np.array(versions), abs=1e-12)


def test_fedbuff_without_staleness_is_a_plain_average():
    for trace in (FRESH, EVERYBODY):
        assert trace.play(Fedbuff(exponent=3.0)) == pytest.approx(trace.play(Average(weights="equal")), abs=1e-12)
    assert not np.allclose(STALE.play(Fedbuff(exponent=0)), STALE.play(Average(weights="equal")))


def discount(kind, tau, a=None, b=None):
    if kind == "constant":
        return 1.0
    if kind == "polynomial":
        return float((tau + 1.0) ** -a)
    return 1.0 if tau <= b else 1.0 / (a * (tau - b) + 1.0)


@pytest.mark.parametrize(
    "how",
    [
        {"staleness": "constant"},
        {"staleness": "polynomial", "a": 0.5},
        {"staleness": "hinge", "a": 10.0, "b": 4},
        {"staleness": "hinge", "a": 0.3, "b": 0},
    ],
    ids=str,
)
def test_fedasync_is_the_published_algorithm(how):
    for trace in (STALE, FRESH):
        versions = [trace.start]
        for made, lines in enumerate(trace.heard):
            x = versions[-1]
            for user, base in lines:
                weight = 0.6 * discount(how["staleness"], made - base, how.get("a"), how.get("b"))
                x = (1 - weight) * x + weight * trace.sent(user, versions[base])
            versions.append(x)
        assert trace.play(Fedasync(alpha=0.6, **how)) == pytest.approx(np.array(versions), abs=1e-13)


def test_fedasync_with_full_weight_relays():
    one = Trace([[(index % USERS, max(0, index - 2))] for index in range(20)])
    assert np.array_equal(one.play(Fedasync(alpha=1.0)), one.play(Relay()))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"a": 0.5}, "a: has no effect without staleness: polynomial or hinge"),
        ({"staleness": "polynomial"}, "a: missing; staleness: polynomial needs it"),
        ({"staleness": "polynomial", "a": 0.5, "b": 4}, "b: has no effect without staleness: hinge"),
        ({"staleness": "hinge", "a": 10}, "b: missing; staleness: hinge needs it"),
        ({"staleness": "hinge", "b": 1}, "a: missing; staleness: hinge needs it"),
    ],
)
def test_fedasync_takes_what_its_staleness_has(how, message):
    with pytest.raises(ScenarioError, match=message):
        Fedasync(alpha=0.5, **how)


RULES = {
    "average": Average(weights="equal", server_lr=1.5),
    "average_all": AverageAll(server_lr=3.0),
    "known_participation": KnownParticipation(probability=(0.9, 0.5, 0.3, 0.05, 0.4)),
    "fedau": Fedau(cutoff=7),
    "fedbuff": Fedbuff(),
    "fedasync": Fedasync(alpha=0.6, staleness="hinge", a=1.0, b=2.0),
}


@pytest.mark.parametrize("rule", RULES)
def test_entries_are_aggregated_alike_and_apart(rule):
    """t is one more entry: where the entries start in another order, they end in that order."""
    order = [3, 0, 2, 1]
    trace, turned = Trace(STALE.heard), Trace(STALE.heard)
    turned._goal = turned._goal[:, order]
    found = turned.play(RULES[rule], trace.start[order])
    assert np.array_equal(found, trace.play(RULES[rule])[:, order])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("wrong", [0.0, -1.0])
def test_steps_are_positive(rule, wrong):
    name = "alpha" if rule == "fedasync" else "server_lr"
    with pytest.raises(ValidationError):
        type(RULES[rule]).model_validate(RULES[rule].model_dump(exclude={"kind"}) | {name: wrong})
