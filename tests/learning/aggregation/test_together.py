"""Rules that step many lanes at once: equal in all bits to steps lane by lane."""

import pkgutil
from importlib import import_module

import numpy as np
import pytest
import torch
from support.learner_factory import CLASSES, SPLIT, a_round, learner, spec

import netfl.learning.aggregation
from netfl.errors import ModelError
from netfl.learning import batch_limits
from netfl.learning import learner as learner_module
from netfl.learning.aggregation import Aggregation, SingleUpdates, Updates
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.known_participation import KnownParticipation
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.relay import Relay
from netfl.learning.data import Dataset
from netfl.learning.model.logistic import Logistic
from netfl.learning.objective.cvar import Cvar
from netfl.learning.schedule.halving import Halving

USERS, SIZE, ROUNDS = 6, 5, 40
SETTINGS = {
    Relay: [Relay()],
    Fedau: [Fedau(), Fedau(cutoff=1), Fedau(cutoff=3, server_lr=0.7), Fedau(cutoff=11), Fedau(server_lr=2)],
    KnownParticipation: [
        KnownParticipation(probability=(0.9, 0.3, 0.2, 0.1, 0.05, 0.02)),
        KnownParticipation(probability=(0.1, 0.3, 0.7, 0.1, 0.5, 0.3), server_lr=0.3),
    ],
    Mifa: [Mifa(), Mifa(server_lr=0.3)],
}


def rules_in_the_package():
    """Return the classes of the package that define `step_together` themselves."""
    found = set()
    for module in pkgutil.iter_modules(netfl.learning.aggregation.__path__):
        for entry in vars(import_module(f"netfl.learning.aggregation.{module.name}")).values():
            if isinstance(entry, type) and issubclass(entry, Aggregation) and entry is not Aggregation:
                found |= {entry} if "step_together" in vars(entry) else set()
    return found


def test_all_rules_with_common_steps_are_tested_here():
    assert rules_in_the_package() == {*SETTINGS}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_common_steps_equal_steps_lane_by_lane_in_all_bits(kind, dtype):
    rng = np.random.default_rng(3)
    rules = SETTINGS[kind] * 3
    lanes = len(rules)

    def draw(*shape):
        return torch.tensor(rng.standard_normal(shape)).to(dtype)

    versions = draw(lanes, SIZE)
    together = versions.clone()
    alone_states = [rule.open(USERS, version) for rule, version in zip(rules, versions, strict=True)]
    states = [rule.open(USERS, version) for rule, version in zip(rules, versions, strict=True)]
    for index in range(1, ROUNDS + 1):
        users = torch.tensor(rng.integers(USERS, size=lanes))
        rates = draw(lanes, 2).abs()
        rates[::2, 1] = 0.0  # these lanes have no t
        bases = versions + draw(lanes, SIZE)
        models = bases + draw(lanes, SIZE)
        newest = draw(lanes, 2).abs()
        following = []
        for lane, rule in enumerate(rules):
            row = slice(lane, lane + 1)
            updates = Updates(
                round=index,
                users=users[row],
                base_rounds=torch.tensor([index - 1]),
                bases=bases[row],
                models=models[row],
                samples=torch.ones(1, dtype=dtype),
                steps=torch.ones(1, dtype=dtype),
                rates=rates[row],
                newest_rates=newest[lane],
                has_repeats=False,
            )
            version, alone_states[lane] = rule.step(alone_states[lane], versions[lane], updates)
            following.append(version)
        versions = torch.stack(following)
        single = SingleUpdates(users=users, bases=bases, models=models, rates=rates, newest_rates=newest)
        together, states = kind.step_together(rules, states, together, single)
        assert torch.equal(together, versions)
        for alone, state in zip(alone_states, states, strict=True):
            assert alone.keys() == state.keys()
            for name, kept in alone.items():
                assert torch.equal(getattr(kept, "table", kept), getattr(state[name], "table", state[name]))


def relay_trace(replica, rounds=ROUNDS):
    rng = np.random.default_rng(replica)
    for index in range(1, rounds + 1):
        if index == 5 and replica == 1:  # a round without deliveries in one replica, in which the others step together
            yield a_round(index)
        else:
            yield a_round(index, (int(rng.integers(len(SPLIT))), int(rng.integers(max(0, index - 2), index))),
                          oldest=max(0, index - 2))  # fmt: skip


def mixture(large_lr=0.1):
    known = KnownParticipation(probability=(0.4, 0.3, 0.2, 0.1))
    cvar = Cvar(alpha=0.3, gamma=0.2, lr_t=0.1)
    return {
        "relay": spec(aggregation=Relay()),
        "cvar": spec(cvar, aggregation=Relay(), lr=0.02),
        "large": spec(aggregation=known, lr=large_lr),
        "fedau": spec(aggregation=Fedau(cutoff=3)),
        "cvar fedau": spec(cvar, aggregation=Fedau()),
        "mifa": spec(cvar, aggregation=Mifa(), schedule=Halving(every=4), local_epochs=2),
        "average": spec(aggregation=Average()),  # has no common step
    }


def clouds(scale=1.0):
    rng = np.random.default_rng(1)
    x = (scale * rng.standard_normal((120, 2))).astype(np.float32)
    y = rng.integers(CLASSES, size=120)
    return Dataset(x[:90], y[:90], x[90:], y[90:], CLASSES)


def run_traces(specs, dtype, scale=1.0):
    """Return the metrics and versions of all rounds, the divergences, and the state."""
    trained = learner(
        specs, replicas=(0, 1, 2), model=Logistic(), datasets=[clouds(scale)] * 3, dtype=dtype, rounds=ROUNDS
    )
    versions, metrics = [], []
    for rounds in zip(*(relay_trace(replica) for replica in range(3)), strict=True):
        metrics.append(trained.step(rounds).metrics)
        versions.append([trained.version(lane) for lane in range(len(trained.lanes))])
    return np.array(versions), metrics, trained.diverged, trained.state()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_learner_that_steps_lanes_together_equals_one_that_does_not(dtype, monkeypatch):
    together = run_traces(mixture(), dtype)
    steps = []
    monkeypatch.setattr(learner_module, "is_faster_together", lambda *size: steps.append(size) and False)
    alone = run_traces(mixture(), dtype)
    assert steps, "the lanes would have stepped together"
    assert (together[0] == alone[0]).all()
    assert np.isfinite(together[0]).all()
    for of_round, of_round_alone in zip(together[1], alone[1], strict=True):
        assert of_round.keys() == of_round_alone.keys()
        assert all(np.array_equal(of_round[name], of_round_alone[name], equal_nan=True) for name in of_round)
    servers, servers_alone = (state["servers"]["aggregations"] for state in (together[3], alone[3]))
    for state, state_alone in zip(servers, servers_alone, strict=True):
        assert all(torch.equal(state[name], state_alone[name]) for name in state_alone)


def test_a_lane_that_diverges_in_a_common_step_is_reported_as_alone(monkeypatch):
    together = run_traces(mixture(large_lr=1e37), torch.float32, scale=1e3)
    monkeypatch.setattr(learner_module, "is_faster_together", lambda *_: False)
    alone = run_traces(mixture(large_lr=1e37), torch.float32, scale=1e3)
    assert together[2] == alone[2]
    assert {entry.learner for entry in together[2]} >= {"large"}
    assert all(entry.user is not None or "version" in entry.problem for entry in together[2])
    assert np.array_equal(together[0], alone[0], equal_nan=True)


class Halved(Relay):
    """A relay of its own: the version moves half of the way."""

    def step(self, state, current, updates):
        return (current + updates.models[0]) / 2, state


def test_a_derived_rule_steps_in_its_own_way():
    specs = {f"halved {number}": spec(aggregation=Halved()) for number in range(5)}
    relayed = {f"relay {number}": spec(aggregation=Relay()) for number in range(5)}
    trained = learner(specs | relayed, replicas=(0,))
    start = trained.version(0)
    trained.step([a_round(1, (0, 0))])
    assert np.allclose(trained.version(0), (start + trained.version(5)) / 2, rtol=1e-12)


def test_a_relay_of_two_updates_is_an_error_with_many_lanes():
    trained = learner({f"relay {number}": spec(aggregation=Relay()) for number in range(6)})
    with pytest.raises(ModelError, match="relay passes on one model, but round 1 delivered 2"):
        trained.step([a_round(1, (0, 0), (1, 0))])


def test_few_lanes_and_large_models_step_lane_by_lane():
    assert batch_limits.is_faster_together(100, 7)
    assert not batch_limits.is_faster_together(2, 7)
    assert not batch_limits.is_faster_together(100, 1_000_000)
