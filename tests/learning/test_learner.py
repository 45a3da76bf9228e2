"""Batched training: only delivered updates are computed, and batching, padding and restarts change no result."""

import copy
from collections import Counter
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
import torch
from support.learner_factory import (
    CLASSES,
    DATA,
    SPLIT,
    USERS,
    a_round,
    draw_batches,
    examples,
    learner,
    mixture,
    network,
    read_back,
    spec,
    torch_model,
)
from torch import nn

from netfl.errors import MachineError, ModelError
from netfl.learning import batch_limits
from netfl.learning import learner as learners
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.evaluation import Evaluation
from netfl.learning.local_training import LearnerGroup
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.streams import Streams


def run_rounds(batched, replicas=(0,), rounds=6):
    batched.start()
    for current in zip(*(network(replica, rounds) for replica in replicas), strict=True):
        batched.step(current)
    return [batched.version(lane) for lane in range(len(batched.lanes))]


@pytest.mark.parametrize("amount", [{"local_epochs": 2}, {"local_steps": 7}])
def test_one_user_equals_sgd_of_pytorch(amount):
    batched = learner({"a": spec(**amount, batch_size=8)})
    module = torch_model(batched.version(0)[:-1])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    batched.step([a_round(1, (0, 0))])
    work = LocalWork(8, amount.get("local_epochs"), amount.get("local_steps"))
    batches = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, 0, 0, len(SPLIT[0]))], work)
    for indices, count in zip(batches.places[0], batches.counts[0], strict=True):
        rows = SPLIT[0][indices[:count]]
        optimiser.zero_grad()
        scores = module(torch.tensor(DATA.train_x[rows]).double())
        nn.functional.cross_entropy(scores, torch.tensor(DATA.train_y[rows])).backward()
        optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    assert batched.version(0)[:-1] == pytest.approx(expected, rel=0, abs=1e-12)
    assert batched.version(0)[-1] == 0


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def fed_cvar_avg_step(theta, t, x, y, *, lr, lr_t, alpha, gamma):
    """Return the next θ and t of FED-CVaR-AVG: a 2-5-3 ReLU network with two softmax layers, in NumPy."""
    w1, b1, w2, b2 = theta
    h = np.maximum(x @ w1.T + b1, 0)
    p = softmax(h @ w2.T + b2)
    q, hot = softmax(p), np.eye(CLASSES)[y]
    f = -np.log((q * hot).sum(1)).mean()
    by_p = (q - hot) / len(y)
    by_z = p * (by_p - (by_p * p).sum(1, keepdims=True))
    by_h = (by_z @ w2) * (h > 0)
    gradient = (by_h.T @ x, by_h.sum(0), by_z.T @ h, by_z.sum(0))
    exceeds = float(f > t)
    factor = (1 - gamma) / alpha * exceeds + gamma
    step = lr_t * (1 - gamma) * (1 - exceeds / alpha)
    return [part - lr * factor * change for part, change in zip(theta, gradient, strict=True)], t - step


def test_fed_cvar_avg_equals_the_paper():
    """Compare forty rounds of `relay` with a loop in NumPy. Both signs of the slope of t occur."""
    hyper, steps = {"alpha": 0.3, "gamma": 0.1, "lr": 0.3, "lr_t": 0.2}, 4
    objective = Cvar(alpha=hyper["alpha"], gamma=hyper["gamma"], lr_t=hyper["lr_t"])
    options = spec(objective, Relay(), lr=hyper["lr"], local_steps=steps)
    batched = learner({"a": options}, model=Mlp(hidden=(5,), output="softmax"))
    flat, t, slopes = batched.version(0)[:-1], 0.0, set()
    theta = [
        part.reshape(shape) for part, shape in zip(np.split(flat, [10, 15, 30]), [(5, 2), 5, (3, 5), 3], strict=True)
    ]
    for index, user in enumerate(np.random.default_rng(3).integers(USERS, size=40), start=1):
        batched.step([a_round(index, (int(user), index - 1), oldest=index - 1)])
        size = len(SPLIT[user])
        batches = draw_batches(
            BatchSampler([Streams(5).at(0)]), [(0, user, index - 1, size)], LocalWork(8, None, steps)
        )
        for indices, count in zip(batches.places[0], batches.counts[0], strict=True):
            rows, before = SPLIT[user][indices[:count]], t
            x = DATA.train_x[rows].astype(np.float64)
            theta, t = fed_cvar_avg_step(theta, t, x, DATA.train_y[rows], **hyper)
            slopes.add(np.sign(t - before))
    assert slopes == {-1.0, 1.0}
    expected = np.concatenate([part.ravel() for part in theta] + [[t]])
    assert batched.version(0) == pytest.approx(expected, rel=0, abs=1e-11)


def test_lazy_equals_eager():
    """Train all users from all versions, one at a time, and aggregate those that are delivered."""
    options = spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1))
    lazy = learner({"a": options})
    versions = [lazy.version(0)]
    for (current,) in zip(network(0), strict=True):
        trained = {}
        for user, base in product(range(USERS), range(current.index)):
            reference = learner({"a": spec(options.objective, Relay())})
            history = {"kept": {base: torch.tensor(versions[base])[None]}, "messages": {base: {}}}
            reference.restore(reference.state() | {"round": base, "versions": history})
            reference.step([a_round(base + 1, (user, base))])
            trained[user, base] = reference.version(0)
        sizes = [len(SPLIT[delivery.user]) for delivery in current.deliveries]
        models = [trained[delivery.user, delivery.base] for delivery in current.deliveries]
        versions.append(np.average(models, axis=0, weights=sizes) if models else versions[-1])
        lazy.step([current])
        assert lazy.version(0) == pytest.approx(versions[-1], rel=0, abs=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.quick_first
def test_batched_equals_one_by_one(dtype, tolerance):
    """Six learners in two replicas with different data, in one batch and each lane alone."""
    datasets = [examples(0), examples(1)]
    batched = learner(mixture(), (0, 1), datasets=datasets, dtype=dtype)
    versions = run_rounds(batched, (0, 1))
    for (name, replica), version in zip(batched.lanes, versions, strict=True):
        single = learner({name: mixture()[name]}, (replica,), datasets=[datasets[replica]], dtype=dtype)
        (expected,) = run_rounds(single, (replica,))
        assert version == pytest.approx(expected, rel=0, abs=tolerance)
        assert not np.allclose(version, learner({name: spec()}, (replica,)).version(0), atol=1e-3)


def test_padded_batches_equal_single_users():
    """Users with 23, 7, 1 and 59 examples, trained in one batch and one at a time."""
    batched = learner({"a": spec(aggregation=Average(weights="equal"), batch_size=10)})
    batched.step([a_round(1, *((user, 0) for user in range(USERS)))])
    models = []
    for user in range(USERS):
        single = learner({"a": spec(aggregation=Relay(), batch_size=10)})
        single.step([a_round(1, (user, 0))])
        models.append(single.version(0))
    assert batched.version(0) == pytest.approx(np.mean(models, axis=0), rel=0, abs=1e-13)


def test_a_delivery_starts_from_its_base():
    """In round 3, an update from version 0 equals the update of round 1."""
    fresh, late = (learner({"a": spec(aggregation=Relay())}) for _ in range(2))
    fresh.step([a_round(1, (0, 0))])
    for current in (a_round(1, (3, 0)), a_round(2, (1, 1)), a_round(3, (0, 0))):
        late.step([current])
    assert np.array_equal(late.version(0), fresh.version(0))


class Summing(Aggregation):
    """Keeps the sum of all changes, adds to it in place, and returns that tensor itself as the next version."""

    def open(self, users, current):
        return {"version": current.clone()}

    def step(self, state, current, updates):
        state["version"] += (updates.models - updates.bases).sum(0)
        return state["version"], state


def test_a_rule_that_changes_its_state_in_place_leaves_earlier_versions_unchanged():
    """In round 3, an update from version 1 makes the same change as in round 2."""
    versions = []
    for rounds in ([(0, 0), (3, 1)], [(0, 0), (1, 1), (3, 1)]):
        batched = learner({"a": spec(aggregation=Summing())})
        for index, delivery in enumerate(rounds, 1):
            before = batched.version(0)
            batched.step([a_round(index, delivery)])
        versions.append(batched.version(0) - before)
    assert versions[0] == pytest.approx(versions[1], rel=0, abs=1e-14)


def test_relayed_models_are_not_copied_and_others_are():
    for rule, is_shared in ((Relay(), True), (Summing(), False)):
        batched, models = learner({"a": spec(aggregation=rule), "b": spec(lr=0.2, aggregation=rule)}), []
        step = batched._servers.step
        batched._servers.step = lambda *given, step=step, models=models: (models.append(given[2].models), step(*given))[
            1
        ]
        batched.step([a_round(1, (0, 0))])
        storages = {model.untyped_storage().data_ptr() for model in models}
        assert len(models) == 2
        assert (storages == {batched._versions.newest.untyped_storage().data_ptr()}) == is_shared


def test_unneeded_versions_are_dropped():
    batched = learner({"a": spec(aggregation=Relay())})
    for index in (1, 2, 3):
        batched.step([a_round(index, (0, index - 1), oldest=index - 1)])
    assert set(batched.state()["versions"]["kept"]) == {2, 3}
    with pytest.raises(ValueError, match="version 1"):
        batched.step([a_round(4, (0, 1))])


def asynchronous(rounds=30, needed=True):
    """Yield rounds of one to three deliveries, and the base of each user. Users restart from the newest version."""
    rng, bases = np.random.default_rng(9), np.zeros(USERS, np.int64)
    for index in range(1, rounds + 1):
        deliveries = []
        for user in rng.choice(USERS, size=rng.integers(1, 4), p=(0.6, 0.3, 0.08, 0.02)):
            deliveries.append((int(user), int(bases[user])))
            bases[user] = index - 1
        bases[user] = index
        needed_bases = tuple(int(base) for base in np.unique(bases) if base < index)
        current = a_round(index, *deliveries, oldest=int(bases.min()))
        yield replace(current, needed=needed_bases if needed else None), bases.copy()


def test_only_needed_versions_are_kept():
    """One user keeps a very old base. Dropping other versions does not change the results."""
    lean, full = learner({"a": spec()}), learner({"a": spec()})
    for (current, bases), (full_round, _) in zip(asynchronous(), asynchronous(needed=False), strict=True):
        lean.step([current])
        full.step([full_round])
        assert set(lean.state()["versions"]["kept"]) == {*bases.tolist(), current.index}
        assert set(full.state()["versions"]["kept"]) == set(range(bases.min(), current.index + 1))
        assert np.array_equal(lean.version(0), full.version(0))
    assert len(lean.state()["versions"]["kept"]) <= USERS + 1 < len(full.state()["versions"]["kept"])


def test_versions_that_any_replica_needs_are_kept():
    batched = learner({"a": spec(aggregation=Relay())}, (0, 1))
    for index in range(1, 6):
        batched.step([replace(a_round(index), needed=(1,)), a_round(index, oldest=max(0, index - 1))])
    assert set(batched.state()["versions"]["kept"]) == {1, 4, 5}
    batched.step([replace(a_round(6), needed=()), a_round(6, oldest=6)])
    assert set(batched.state()["versions"]["kept"]) == {6}


def test_mixed_bases_and_repeated_users_equal_one_by_one():
    """Train each delivery of these rounds in the batch and alone."""
    options = spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), Average(weights="equal"))
    together, repeated, counts = learner({"a": options}), 0, Counter()
    for current, _ in asynchronous(12):
        state, models = together.state(), []
        for delivery in current.deliveries:
            single = learner({"a": spec(options.objective, Relay())})
            turns = [[*key, count] for key, count in counts.items()]
            single.restore(single.state() | {name: state[name] for name in ("round", "versions")} | {"turns": turns})
            counts[0, delivery.user, delivery.base] += 1
            single.step([a_round(current.index, (delivery.user, delivery.base))])
            models.append(single.version(0))
        together.step([current])
        assert together.version(0) == pytest.approx(np.mean(models, axis=0), rel=0, abs=1e-13)
        users, bases = zip(*((delivery.user, delivery.base) for delivery in current.deliveries), strict=True)
        repeated += len(set(users)) < len(users) and len(set(bases)) > 1
    assert repeated > 0


def test_repeated_updates_from_one_version_use_other_batches():
    """The repeat counter is part of the state, and is cleared with the version."""
    batched, restored = learner({"a": spec(aggregation=Relay())}), learner({"a": spec(aggregation=Relay())})
    batched.step([a_round(1, (0, 0), oldest=0)])
    first = batched.version(0)
    restored.restore(batched.state())
    for either in (batched, restored):
        either.step([a_round(2, (0, 0), oldest=0)])
    assert not np.allclose(batched.version(0), first)
    assert np.array_equal(batched.version(0), restored.version(0))
    batched.step([a_round(3, (0, 2), oldest=3)])
    assert batched.state()["turns"] == []


def test_repeats_are_counted_of_the_versions_in_use():
    """One old version, which a user may still need, keeps no counts of those in between."""
    batched = learner({"a": spec(on_loss="keep", base="own", local_steps=2)}, rounds=9)
    for index in range(1, 9):
        current = a_round(index, (0, index - 1), (1, index - 1))
        in_vain = tuple(replace(delivery, lost_bases=(index - 1,)) for delivery in current.deliveries)
        batched.step([replace(current, deliveries=in_vain, needed=(0, index - 1))])
    state = batched.state()
    assert {*state["versions"]["kept"]} == {0, 7, 8}
    for name in ("turns", "turns_in_vain"):
        assert sorted(state[name]) == [[0, user, base, 1] for user in (0, 1) for base in (0, 7)]


def test_a_round_without_deliveries_keeps_the_version():
    batched = learner({"a": spec(), "b": spec(Cvar(alpha=0.5, lr_t=0.1))}, (0, 1))
    batched.step([a_round(1, (0, 0)), a_round(1)])
    versions = [batched.version(lane) for lane in range(4)]
    assert np.array_equal(versions[1], learner({"a": spec()}, (1,)).version(0))
    batched.step([a_round(2), a_round(2)])
    assert all(np.array_equal(batched.version(lane), before) for lane, before in enumerate(versions))


def test_a_rule_that_moves_the_version_in_a_round_without_deliveries_is_followed():
    """MIFA applies the last changes of all users in each round, and here those of user 0 again."""
    batched = learner({"a": spec(aggregation=Mifa())}, evaluate=EvaluateSpec(every=1))
    first = batched.version(0)
    batched.start()
    one = batched.step([a_round(1, (0, 0))])
    second = batched.version(0)
    two = batched.step([a_round(2)])
    assert batched.version(0)[:-1] - second[:-1] == pytest.approx(second[:-1] - first[:-1])
    assert two.metrics["loss"][0] != one.metrics["loss"][0]


def test_rounds_without_deliveries_neither_copy_nor_evaluate_the_models_again(monkeypatch):
    measured = []
    original = Evaluation.measure
    monkeypatch.setattr(Evaluation, "measure", lambda *given: (measured.append(1), original(*given))[1])
    evaluate = EvaluateSpec(every=1, metrics=("gradient_norm", "staleness"))
    batched = learner({"a": spec(), "b": spec(Cvar(alpha=0.5, lr_t=0.1))}, (0, 1), evaluate=evaluate)
    reports = [batched.start()]
    newest = []
    for deliveries in ([], [(0, 1)], [], [], [(3, 4)]):
        index = len(reports)
        reports.append(batched.step([a_round(index, *deliveries), a_round(index)]))
        newest.append(batched._versions.newest)
    are_kept = [after is before for before, after in pairwise(newest)]
    assert are_kept == [False, True, True, False]
    assert len(measured) == 3
    for before, after in ((0, 1), (2, 3), (2, 4)):
        for name, values in reports[before].metrics.items():
            if not name.startswith("staleness"):
                assert np.array_equal(values, reports[after].metrics[name], equal_nan=True), name
    assert np.isnan(reports[3].metrics["staleness_mean"]).all()
    assert reports[5].metrics["loss"][0] != reports[4].metrics["loss"][0]


def test_a_model_that_is_restored_is_evaluated_again():
    batched = learner({"a": spec()}, evaluate=EvaluateSpec(every=1))
    batched.start()
    state = copy.deepcopy(batched.state())
    first = batched.step([a_round(1, (0, 0))])
    batched.step([a_round(2, (0, 1))])
    batched.restore(state)
    assert batched.step([a_round(1)]).metrics["loss"] != first.metrics["loss"]


def test_cvar_with_gamma_1_or_alpha_1_equals_fedavg():
    specs = {
        "erm": spec(aggregation=Relay()),
        "gamma 1": spec(Cvar(alpha=0.2, gamma=1, lr_t=0.1), Relay()),
        "alpha 1": spec(Cvar(alpha=1, gamma=0, lr_t=0.1), Relay()),
        "cvar": spec(Cvar(alpha=0.2, gamma=0, lr_t=0.1), Relay()),
    }
    batched = learner(specs)
    for index in range(1, 6):
        batched.step([a_round(index, (index % USERS, index - 1))])
    erm, *equal, cvar = (batched.version(lane) for lane in range(4))
    for version in equal:
        assert version == pytest.approx(erm, rel=0, abs=1e-13)
    assert not np.allclose(cvar, erm, atol=1e-3)


def test_metrics_are_reported_when_due():
    batched = learner(mixture(), (0, 1))
    report = batched.start()
    assert report.round == 0
    assert {len(values) for values in report.metrics.values()} == {len(batched.lanes)}
    assert {"rare_accuracy", "objective", "t", "cvar/alpha:0.1", "cvar/alpha:0.3", "cvar/alpha:0.5"} < set(
        report.metrics
    )
    assert (report.metrics["t"] == 0).all()
    rounds = list(zip(network(0, 7), network(1, 7), strict=True))
    reports = [batched.step(current) for current in rounds]
    assert [report.round for report in reports if report.metrics] == [3, 6, 7]
    lane = batched.lanes.index(("cvar", 1))
    delivered = np.bincount(
        [delivery.user for _, current in rounds for delivery in current.deliveries], minlength=USERS
    )
    losses = np.array([reports[-1].metrics[f"loss/user:{user}"][lane] for user in range(USERS)])
    value = mixture()["cvar"].objective.value(losses, delivered / delivered.sum(), batched.version(lane)[-1])
    assert reports[-1].metrics["objective"][lane] == pytest.approx(value)
    assert reports[-1].metrics["t"][lane] == batched.version(lane)[-1] != 0
    correct = batched.predict(lane, DATA.test_x) == DATA.test_y
    assert reports[-1].metrics["accuracy"][lane] == pytest.approx(correct.mean())


class Remember(Aggregation):
    """A stateful user-defined aggregation: the mean of each user's last change."""

    def open(self, users, current):
        return {"last": current.new_zeros(users, len(current))}

    def step(self, state, current, updates):
        last = state["last"].clone()
        last[updates.users] = updates.models - updates.bases
        return current + last.mean(0), {"last": last}


def test_a_restored_learner_continues_identically():
    """The state passes through a file that contains only data. One aggregation has a memory."""
    specs = mixture() | {"memory": spec(aggregation=Remember())}
    uninterrupted, stopped = learner(specs, (0, 1)), learner(specs, (0, 1))
    rounds = list(zip(network(0, 7), network(1, 7), strict=True))
    uninterrupted.start()
    reports = [uninterrupted.step(current) for current in rounds]
    for current in rounds[:4]:
        stopped.step(current)
    resumed = learner(specs, (0, 1))
    resumed.restore(read_back(stopped.state()))
    for current, expected in zip(rounds[4:], reports[4:], strict=True):
        report = resumed.step(current)
        assert {name: list(x) for name, x in report.metrics.items()} == {
            name: list(x) for name, x in expected.metrics.items()
        }
    for lane in range(len(uninterrupted.lanes)):
        assert np.array_equal(uninterrupted.version(lane), resumed.version(lane))
    with pytest.raises(MachineError, match="other learners"):
        learner({"memory": specs["memory"]}, (0, 1)).restore(stopped.state())


def test_two_deliveries_of_a_user_count_twice():
    batched = learner({"a": spec(aggregation=Average(weights="equal"))})
    batched.step([a_round(1, (3, 0))])
    batched.step([a_round(2, (0, 0), (0, 1))])
    models = []
    for base in (0, 1):
        single = learner({"a": spec(aggregation=Relay())})
        single.step([a_round(1, (3, 0))])
        single.step([a_round(2, (0, base))])
        models.append(single.version(0))
    assert batched.version(0) == pytest.approx(np.mean(models, axis=0), abs=1e-13)


def test_divergence_names_learner_replica_round_and_user():
    batched = learner({"wild": spec(lr=1e200)}, model=Mlp(hidden=(5,)))
    with pytest.raises(ModelError, match=r"wild, replica 0, user 3, at 1 s .*round 1 is not finite"):
        batched.step([a_round(1, (3, 0))])


def test_a_diverged_lane_does_not_affect_others():
    """Divergence is reported once. The lane keeps its last finite version and has no metrics, also after a restart."""
    specs, model = {"calm": spec(), "wild": spec(lr=1e200)}, Mlp(hidden=(5,))
    batched, calm = learner(specs, (0, 1), model=model), learner({"calm": spec()}, (0, 1), model=model)
    rounds = [[a_round(1), a_round(1, (3, 0))], [a_round(2, (1, 0)), a_round(2, (3, 1), (2, 0))]]
    rounds += [[a_round(3, (1, 2)), a_round(3, (0, 2))]]
    reports = [batched.start(), *(batched.step(current) for current in rounds[:2])]
    assert [calm.step(current).diverged for current in rounds] == [()] * 3
    (first_lost,), (second_lost,) = reports[1].diverged, reports[2].diverged
    assert (first_lost.learner, first_lost.replica, first_lost.round, first_lost.user) == ("wild", 1, 1, 3)
    assert (second_lost.replica, second_lost.round, second_lost.user) == (0, 2, 1)
    assert "the update in round 1 is not finite" in first_lost.problem
    restored = learner(specs, (0, 1), model=model)
    restored.restore(batched.state())
    for either in (batched, restored):
        report = either.step(rounds[2])
        assert report.diverged == ()
        for lane, (name, replica) in enumerate(either.lanes):
            assert np.isnan(report.metrics["accuracy"][lane]) == (name == "wild")
            expected = calm.version(replica) if name == "calm" else learner(specs, (0, 1), model=model).version(lane)
            assert either.version(lane) == pytest.approx(expected, rel=0, abs=1e-13)


def test_divergence_of_the_feedback_learner_ends_the_run():
    batched = learner({"calm": spec(), "wild": spec(lr=1e200)}, (0,), model=Mlp(hidden=(5,)), feedback_learner="wild")
    with pytest.raises(ModelError, match=r"wild, replica 0, user 3, at 1 s"):
        batched.step([replace(a_round(1, (3, 0)), queries={"loss": (1,)})])


def test_relay_names_the_lane_with_too_many_deliveries():
    batched = learner({"a": spec(aggregation=Relay())})
    with pytest.raises(ModelError, match=r"a, replica 0.*delivered 2"):
        batched.step([a_round(1, (0, 0), (1, 0))])


def test_rounds_out_of_order_raise_an_error():
    with pytest.raises(ValueError, match="round 1 of 1"):
        learner({"a": spec()}).step([a_round(2)])


def test_read_only_arrays_are_accepted():
    frozen = examples()
    for array in (frozen.train_x, frozen.train_y, frozen.test_x, frozen.test_y):
        array.flags.writeable = False
    batched = learner({"a": spec()}, datasets=[frozen])
    assert np.array_equal(run_rounds(batched), run_rounds(learner({"a": spec()})))


def test_global_random_state_and_threads_are_unchanged():
    generator, threads = torch.random.get_rng_state(), torch.get_num_threads()
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    run_rounds(learner(mixture()))
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert torch.get_num_threads() == threads
    assert np.array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002


def run_with_limit(monkeypatch, limit):
    """Train two replicas of various learners with centralized twins; return versions, metrics and the batch sizes."""
    monkeypatch.setattr(batch_limits, "_TRAINED", limit)
    sizes, train = [], LearnerGroup._run_sgd
    monkeypatch.setattr(
        LearnerGroup,
        "_run_sgd",
        lambda group, bases, *args: (sizes.append(bases[..., 0].numel()), train(group, bases, *args))[1],
    )
    specs = mixture() | {
        "scaffold": spec(aggregation=Scaffold()),
        "heavy": spec(momentum=0.5, weight_decay=0.1, local_steps=5),
        "fair": spec(Cvar(alpha=0.3, lr_t=0.1), Qfedavg(q=1.0)),
    }
    evaluate = EvaluateSpec(every=1, metrics=("weight_divergence", "staleness"))
    batched = learner(specs, (0, 1), evaluate=evaluate)
    metrics = [batched.step(current).metrics for current in zip(network(0), network(1), strict=True)]
    return np.stack([batched.version(lane) for lane in range(len(batched.lanes))]), metrics, sizes


@pytest.mark.parametrize("limit", [1, 2000])
@pytest.mark.quick_first
def test_smaller_batches_change_no_result(monkeypatch, limit):
    """Old bases, messages of servers and twins are included. No batch exceeds the limit."""
    with monkeypatch.context() as patched:
        whole, whole_metrics, _ = run_with_limit(patched, 1 << 40)
    with monkeypatch.context() as patched:
        versions, metrics, sizes = run_with_limit(patched, limit)
    assert versions == pytest.approx(whole, rel=0, abs=1e-12)
    for current, expected in zip(metrics, whole_metrics, strict=True):
        assert {name: list(values) for name, values in current.items()} == pytest.approx(
            {name: pytest.approx(list(values), rel=1e-9, nan_ok=True) for name, values in expected.items()}
        )
    assert max(sizes) <= max(9, limit // len(whole[0]))


def test_updates_are_released_lane_by_lane(monkeypatch):
    """A user whose update is not finite is still identified."""
    monkeypatch.setattr(batch_limits, "_TRAINED", 1)
    batched = learner({"calm": spec(), "wild": spec(lr=1e200)}, model=Mlp(hidden=(5,)))
    remaining, release = [], type(batched._servers).release_updates
    monkeypatch.setattr(
        type(batched._servers),
        "release_updates",
        lambda servers, index: (release(servers, index), remaining.append([*servers._updates]))[0],
    )
    batched.step([a_round(1, (3, 0), (0, 0))])
    assert remaining == [[], [1]]
    (lost,) = batched.diverged
    assert (lost.learner, lost.round, lost.user) == ("wild", 1, 3)


def test_diverged_lanes_compute_no_losses(monkeypatch):
    calls, original = [], learners.user_losses
    monkeypatch.setattr(learners, "user_losses", lambda *args: (calls.append(1), original(*args))[1])
    fair = Qfedavg(q=1.0)
    specs = {"calm": spec(aggregation=fair), "wild": spec(aggregation=fair, lr=1e200)}
    batched = learner(specs, model=Mlp(hidden=(5,)))
    for index in (1, 2):
        batched.step([a_round(index, (3, index - 1))])
    assert [lane.learner for lane in batched.diverged] == ["wild"]
    assert len(calls) == 3
