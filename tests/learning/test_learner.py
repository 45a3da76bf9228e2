"""The laws of the learner: lazy, versioned, batched over lanes, and each of that without effect on what is learned."""

import io
from collections import Counter
from dataclasses import replace
from itertools import product

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
    spec,
    torch_model,
)
from torch import nn

from netfl.errors import MachineError, ModelError
from netfl.learning import batch_limits
from netfl.learning import learner as learners
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.local_training import LearnerGroup
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model.mlp import Mlp
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.streams import Streams


def play(one, replicas=(0,), rounds=6):
    one.start()
    for now in zip(*(network(replica, rounds) for replica in replicas), strict=True):
        one.step(now)
    return [one.version(lane) for lane in range(len(one.lanes))]


@pytest.mark.parametrize("amount", [{"local_epochs": 2}, {"local_steps": 7}])
def test_one_user_is_plain_sgd_in_pytorch(amount):
    one = learner({"a": spec(**amount, batch_size=8)})
    module = torch_model(one.version(0)[:-1])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    one.step([a_round(1, (0, 0))])
    how = LocalWork(8, amount.get("local_epochs"), amount.get("local_steps"))
    batches = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, 0, 0, len(SPLIT[0]))], how)
    for places, count in zip(batches.places[0], batches.counts[0], strict=True):
        rows = SPLIT[0][places[:count]]
        optimiser.zero_grad()
        out = module(torch.tensor(DATA.train_x[rows]).double())
        nn.functional.cross_entropy(out, torch.tensor(DATA.train_y[rows])).backward()
        optimiser.step()
    expected = nn.utils.parameters_to_vector(module.parameters()).detach().numpy()
    assert one.version(0)[:-1] == pytest.approx(expected, rel=0, abs=1e-12)
    assert one.version(0)[-1] == 0


def softmax(z):
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def papers_step(theta, t, x, y, *, lr, lr_t, alpha, gamma):
    """One local step of FED-CVaR-AVG on a 2-5-3 ReLU network with a softmax on a softmax, in NumPy."""
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
    return [own - lr * factor * g for own, g in zip(theta, gradient, strict=True)], t - lr_t * (1 - gamma) * (
        1 - exceeds / alpha
    )


def test_fed_cvar_avg_is_the_papers_algorithm():
    """Forty rounds of relayed users against a NumPy loop; t must have crossed the loss both ways."""
    how, steps = {"alpha": 0.3, "gamma": 0.1, "lr": 0.3, "lr_t": 0.2}, 4
    objective = Cvar(alpha=how["alpha"], gamma=how["gamma"], lr_t=how["lr_t"])
    told = spec(objective, Relay(), lr=how["lr"], local_steps=steps)
    one = learner({"a": told}, model=Mlp(hidden=(5,), output="softmax"))
    flat, t, slopes = one.version(0)[:-1], 0.0, set()
    theta = [
        part.reshape(shape) for part, shape in zip(np.split(flat, [10, 15, 30]), [(5, 2), 5, (3, 5), 3], strict=True)
    ]
    for index, user in enumerate(np.random.default_rng(3).integers(USERS, size=40), start=1):
        one.step([a_round(index, (int(user), index - 1), oldest=index - 1)])
        size = len(SPLIT[user])
        batches = draw_batches(
            BatchSampler([Streams(5).at(0)]), [(0, user, index - 1, size)], LocalWork(8, None, steps)
        )
        for places, count in zip(batches.places[0], batches.counts[0], strict=True):
            rows, before = SPLIT[user][places[:count]], t
            x = DATA.train_x[rows].astype(np.float64)
            theta, t = papers_step(theta, t, x, DATA.train_y[rows], **how)
            slopes.add(np.sign(t - before))
    assert slopes == {-1.0, 1.0}
    expected = np.concatenate([part.ravel() for part in theta] + [[t]])
    assert one.version(0) == pytest.approx(expected, rel=0, abs=1e-11)


def test_lazy_equals_eager():
    """Everybody trains from every version that is about, one user at a time; the delivered are picked afterwards."""
    told = spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1))
    lazy = learner({"a": told})
    versions = [lazy.version(0)]
    for (now,) in zip(network(0), strict=True):
        trained = {}
        for user, base in product(range(USERS), range(now.index)):
            alone = learner({"a": spec(told.objective, Relay())})
            kept = {"kept": {base: torch.tensor(versions[base])[None]}, "messages": {base: {}}}
            alone.restore(alone.state() | {"round": base, "versions": kept})
            alone.step([a_round(base + 1, (user, base))])
            trained[user, base] = alone.version(0)
        sizes = [len(SPLIT[one.user]) for one in now.deliveries]
        models = [trained[one.user, one.base] for one in now.deliveries]
        versions.append(np.average(models, axis=0, weights=sizes) if models else versions[-1])
        lazy.step([now])
        assert lazy.version(0) == pytest.approx(versions[-1], rel=0, abs=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
@pytest.mark.quick_first
def test_batched_equals_one_by_one(dtype, tolerance):
    """Six learners in two replicas with data of their own, together and each lane in a run of its own."""
    datasets = [examples(0), examples(1)]
    together = learner(mixture(), (0, 1), datasets=datasets, dtype=dtype)
    versions = play(together, (0, 1))
    for (name, replica), version in zip(together.lanes, versions, strict=True):
        alone = learner({name: mixture()[name]}, (replica,), datasets=[datasets[replica]], dtype=dtype)
        (expected,) = play(alone, (replica,))
        assert version == pytest.approx(expected, rel=0, abs=tolerance)
        assert not np.allclose(version, learner({name: spec()}, (replica,)).version(0), atol=1e-3)


def test_padded_equals_not_padded():
    """Users of 23, 7, 1 and 59 examples, trained side by side and one at a time."""
    together = learner({"a": spec(aggregation=Average(weights="equal"), batch_size=10)})
    together.step([a_round(1, *((user, 0) for user in range(USERS)))])
    alone = []
    for user in range(USERS):
        one = learner({"a": spec(aggregation=Relay(), batch_size=10)})
        one.step([a_round(1, (user, 0))])
        alone.append(one.version(0))
    assert together.version(0) == pytest.approx(np.mean(alone, axis=0), rel=0, abs=1e-13)


def test_a_delivery_starts_from_its_base():
    """After two rounds, an update from version 0 makes what it would have made in round 1."""
    fresh, late = (learner({"a": spec(aggregation=Relay())}) for _ in range(2))
    fresh.step([a_round(1, (0, 0))])
    for now in (a_round(1, (3, 0)), a_round(2, (1, 1)), a_round(3, (0, 0))):
        late.step([now])
    assert np.array_equal(late.version(0), fresh.version(0))


def test_versions_out_of_use_are_dropped():
    one = learner({"a": spec(aggregation=Relay())})
    for index in (1, 2, 3):
        one.step([a_round(index, (0, index - 1), oldest=index - 1)])
    assert set(one.state()["versions"]["kept"]) == {2, 3}
    with pytest.raises(ValueError, match="version 1"):
        one.step([a_round(4, (0, 1))])


def asynchronous(rounds=30, needed=True):
    """Rounds of one to three deliveries, after each of which its user goes on from the newest version at once."""
    rng, holds = np.random.default_rng(9), np.zeros(USERS, np.int64)
    for index in range(1, rounds + 1):
        deliveries = []
        for user in rng.choice(USERS, size=rng.integers(1, 4), p=(0.6, 0.3, 0.08, 0.02)):
            deliveries.append((int(user), int(holds[user])))
            holds[user] = index - 1
        holds[user] = index
        kept = tuple(int(base) for base in np.unique(holds) if base < index)
        now = a_round(index, *deliveries, oldest=int(holds.min()))
        yield replace(now, needed=kept if needed else None), holds.copy()


def test_only_versions_that_are_needed_are_kept():
    """Also where one user holds on to a very old one; what is learned stays the same."""
    lean, full = learner({"a": spec()}), learner({"a": spec()})
    for (now, holds), (same, _) in zip(asynchronous(), asynchronous(needed=False), strict=True):
        lean.step([now])
        full.step([same])
        assert set(lean.state()["versions"]["kept"]) == {*holds.tolist(), now.index}
        assert set(full.state()["versions"]["kept"]) == set(range(holds.min(), now.index + 1))
        assert np.array_equal(lean.version(0), full.version(0))
    assert len(lean.state()["versions"]["kept"]) <= USERS + 1 < len(full.state()["versions"]["kept"])


def test_replicas_keep_what_any_of_them_needs():
    one = learner({"a": spec(aggregation=Relay())}, (0, 1))
    for index in range(1, 6):
        one.step([replace(a_round(index), needed=(1,)), a_round(index, oldest=max(0, index - 1))])
    assert set(one.state()["versions"]["kept"]) == {1, 4, 5}
    one.step([replace(a_round(6), needed=()), a_round(6, oldest=6)])
    assert set(one.state()["versions"]["kept"]) == {6}


def test_old_and_new_bases_and_repeated_users_in_one_batch_equal_one_by_one():
    """Every delivery of such rounds, trained side by side, is what it is when trained alone."""
    told = spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), Average(weights="equal"))
    together, twice, heard = learner({"a": told}), 0, Counter()
    for now, _ in asynchronous(12):
        state, models = together.state(), []
        for delivery in now.deliveries:
            alone = learner({"a": spec(told.objective, Relay())})
            turns = [[*one, count] for one, count in heard.items()]
            alone.restore(alone.state() | {name: state[name] for name in ("round", "versions")} | {"turns": turns})
            heard[0, delivery.user, delivery.base] += 1
            alone.step([a_round(now.index, (delivery.user, delivery.base))])
            models.append(alone.version(0))
        together.step([now])
        assert together.version(0) == pytest.approx(np.mean(models, axis=0), rel=0, abs=1e-13)
        users, bases = zip(*((one.user, one.base) for one in now.deliveries), strict=True)
        twice += len(set(users)) < len(users) and len(set(bases)) > 1
    assert twice > 0


def test_who_is_heard_again_from_one_version_has_trained_on_other_batches():
    """An update from the same version is another one, live and after a restart alike."""
    one, other = learner({"a": spec(aggregation=Relay())}), learner({"a": spec(aggregation=Relay())})
    one.step([a_round(1, (0, 0), oldest=0)])
    first = one.version(0)
    other.restore(one.state())
    for each in (one, other):
        each.step([a_round(2, (0, 0), oldest=0)])
    assert not np.allclose(one.version(0), first)
    assert np.array_equal(one.version(0), other.version(0))
    one.step([a_round(3, (0, 2), oldest=3)])
    assert one.state()["turns"] == []


def test_a_round_without_deliveries_leaves_the_version_as_it_was():
    one = learner({"a": spec(), "b": spec(Cvar(alpha=0.5, lr_t=0.1))}, (0, 1))
    one.step([a_round(1, (0, 0)), a_round(1)])
    first = [one.version(lane) for lane in range(4)]
    assert np.array_equal(first[1], learner({"a": spec()}, (1,)).version(0))
    one.step([a_round(2), a_round(2)])
    assert all(np.array_equal(one.version(lane), before) for lane, before in enumerate(first))


def test_gamma_1_is_fedavg_always_and_alpha_1_while_the_hinge_is_active():
    told = {
        "erm": spec(aggregation=Relay()),
        "gamma 1": spec(Cvar(alpha=0.2, gamma=1, lr_t=0.1), Relay()),
        "alpha 1": spec(Cvar(alpha=1, gamma=0, lr_t=0.1), Relay()),
        "cvar": spec(Cvar(alpha=0.2, gamma=0, lr_t=0.1), Relay()),
    }
    one = learner(told)
    for index in range(1, 6):
        one.step([a_round(index, (index % USERS, index - 1))])
    erm, *same, other = (one.version(lane) for lane in range(4))
    for version in same:
        assert version == pytest.approx(erm, rel=0, abs=1e-13)
    assert not np.allclose(other, erm, atol=1e-3)


def test_what_is_reported_and_when():
    one = learner(mixture(), (0, 1))
    report = one.start()
    assert report.round == 0
    assert {len(figure) for figure in report.metrics.values()} == {len(one.lanes)}
    assert {"rare_accuracy", "objective", "t", "cvar/alpha:0.1", "cvar/alpha:0.3", "cvar/alpha:0.5"} < set(
        report.metrics
    )
    assert (report.metrics["t"] == 0).all()
    rounds = list(zip(network(0, 7), network(1, 7), strict=True))
    reports = [one.step(now) for now in rounds]
    assert [report.round for report in reports if report.metrics] == [3, 6, 7]
    lane = one.lanes.index(("cvar", 1))
    heard = np.bincount([delivery.user for _, now in rounds for delivery in now.deliveries], minlength=USERS)
    losses = np.array([reports[-1].metrics[f"loss/user:{user}"][lane] for user in range(USERS)])
    value = mixture()["cvar"].objective.value(losses, heard / heard.sum(), one.version(lane)[-1])
    assert reports[-1].metrics["objective"][lane] == pytest.approx(value)
    assert reports[-1].metrics["t"][lane] == one.version(lane)[-1] != 0
    right = one.predict(lane, DATA.test_x) == DATA.test_y
    assert reports[-1].metrics["accuracy"][lane] == pytest.approx(right.mean())


class Remember(Aggregation):
    """A stateful aggregation of our own: the mean of the last change of every user."""

    def open(self, users, current):
        return {"last": current.new_zeros(users, len(current))}

    def step(self, state, current, updates):
        last = state["last"].clone()
        last[updates.users] = updates.models - updates.bases
        return current + last.mean(0), {"last": last}


def test_going_on_from_a_kept_state_changes_nothing():
    """Also for an aggregation with a memory; the state passes through a file that only holds data."""
    told = mixture() | {"memory": spec(aggregation=Remember())}
    through, stopped = learner(told, (0, 1)), learner(told, (0, 1))
    rounds = list(zip(network(0, 7), network(1, 7), strict=True))
    through.start()
    reports = [through.step(now) for now in rounds]
    for now in rounds[:4]:
        stopped.step(now)
    file = io.BytesIO()
    torch.save(stopped.state(), file)
    file.seek(0)
    resumed = learner(told, (0, 1))
    resumed.restore(torch.load(file, weights_only=True))
    for now, expected in zip(rounds[4:], reports[4:], strict=True):
        report = resumed.step(now)
        assert {name: list(x) for name, x in report.metrics.items()} == {
            name: list(x) for name, x in expected.metrics.items()
        }
    for lane in range(len(through.lanes)):
        assert np.array_equal(through.version(lane), resumed.version(lane))
    with pytest.raises(MachineError, match="other learners"):
        learner({"memory": told["memory"]}, (0, 1)).restore(stopped.state())


def test_a_user_that_is_heard_twice_in_a_round_counts_twice():
    one = learner({"a": spec(aggregation=Average(weights="equal"))})
    one.step([a_round(1, (3, 0))])
    two = learner({"a": spec(aggregation=Average(weights="equal"))})
    two.step([a_round(1, (3, 0))])
    one.step([a_round(2, (0, 0), (0, 1))])
    parts = []
    for base in (0, 1):
        alone = learner({"a": spec(aggregation=Relay())})
        alone.step([a_round(1, (3, 0))])
        alone.step([a_round(2, (0, base))])
        parts.append(alone.version(0))
    assert one.version(0) == pytest.approx(np.mean(parts, axis=0), abs=1e-13)


def test_divergence_names_learner_replica_round_and_user():
    one = learner({"wild": spec(lr=1e200)}, model=Mlp(hidden=(5,)))
    with pytest.raises(ModelError, match=r"wild, replica 0, user 3, at 1 s .*round 1 is not finite"):
        one.step([a_round(1, (3, 0))])


def test_a_lane_that_diverges_leaves_its_neighbours_alone():
    """It says so once, keeps its last good version, has no figures any more; and all that after a restart too."""
    both, model = {"calm": spec(), "wild": spec(lr=1e200)}, Mlp(hidden=(5,))
    one, calm = learner(both, (0, 1), model=model), learner({"calm": spec()}, (0, 1), model=model)
    rounds = [[a_round(1), a_round(1, (3, 0))], [a_round(2, (1, 0)), a_round(2, (3, 1), (2, 0))]]
    rounds += [[a_round(3, (1, 2)), a_round(3, (0, 2))]]
    reports = [one.start(), *(one.step(now) for now in rounds[:2])]
    assert [calm.step(now).diverged for now in rounds] == [()] * 3
    (first,), (second,) = reports[1].diverged, reports[2].diverged
    assert (first.learner, first.replica, first.round, first.user) == ("wild", 1, 1, 3)
    assert (second.replica, second.round, second.user) == (0, 2, 1)
    assert "the update in round 1 is not finite" in first.problem
    again = learner(both, (0, 1), model=model)
    again.restore(one.state())
    for each in (one, again):
        last = each.step(rounds[2])
        assert last.diverged == ()
        for lane, (name, replica) in enumerate(each.lanes):
            assert np.isnan(last.metrics["accuracy"][lane]) == (name == "wild")
            expected = calm.version(replica) if name == "calm" else learner(both, (0, 1), model=model).version(lane)
            assert each.version(lane) == pytest.approx(expected, rel=0, abs=1e-13)


def test_a_lane_that_diverges_where_an_access_listens_ends_the_run():
    one = learner({"calm": spec(), "wild": spec(lr=1e200)}, (0,), model=Mlp(hidden=(5,)), feedback_learner="wild")
    with pytest.raises(ModelError, match=r"wild, replica 0, user 3, at 1 s"):
        one.step([replace(a_round(1, (3, 0)), queries={"loss": (1,)})])


def test_relay_says_which_lane_got_too_much():
    one = learner({"a": spec(aggregation=Relay())})
    with pytest.raises(ModelError, match=r"a, replica 0.*delivered 2"):
        one.step([a_round(1, (0, 0), (1, 0))])


def test_rounds_come_in_order():
    with pytest.raises(ValueError, match="round 1 of 1"):
        learner({"a": spec()}).step([a_round(2)])


def test_read_only_data_are_taken_as_they_are():
    frozen = examples()
    for array in (frozen.train_x, frozen.train_y, frozen.test_x, frozen.test_y):
        array.flags.writeable = False
    one = learner({"a": spec()}, datasets=[frozen])
    assert np.array_equal(play(one), play(learner({"a": spec()})))


def test_threads_pay_for_large_models_only():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with learner({"a": spec()}).working():
            assert torch.get_num_threads() == 1
        with learner({"a": spec()}, model=Mlp(hidden=(2000, 1000))).working():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_nothing_global_is_touched():
    generator, threads = torch.random.get_rng_state(), torch.get_num_threads()
    legacy = np.random.get_state()[1].copy()  # noqa: NPY002
    play(learner(mixture()))
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert torch.get_num_threads() == threads
    assert np.array_equal(np.random.get_state()[1], legacy)  # noqa: NPY002


def watching(monkeypatch, numbers):
    """Two replicas of learners of every sort, and twins; how many jobs trained at once in each piece."""
    monkeypatch.setattr(batch_limits, "_TRAINED", numbers)
    seen, train = [], LearnerGroup._run_sgd
    monkeypatch.setattr(
        LearnerGroup,
        "_run_sgd",
        lambda group, bases, *more: (seen.append(bases[..., 0].numel()), train(group, bases, *more))[1],
    )
    told = mixture() | {
        "scaffold": spec(aggregation=Scaffold()),
        "heavy": spec(momentum=0.5, weight_decay=0.1, local_steps=5),
        "fair": spec(Cvar(alpha=0.3, lr_t=0.1), Qfedavg(q=1.0)),
    }
    evaluate = EvaluateSpec(every=1, metrics=("weight_divergence", "staleness"))
    one = learner(told, (0, 1), evaluate=evaluate)
    metrics = [one.step(now).metrics for now in zip(network(0), network(1), strict=True)]
    return np.stack([one.version(lane) for lane in range(len(one.lanes))]), metrics, seen


@pytest.mark.parametrize("numbers", [1, 2000])
@pytest.mark.quick_first
def test_users_in_turn_equal_users_at_once(monkeypatch, numbers):
    """Also from older versions, with what servers send, and beside twins; a piece is no larger than it may be."""
    with monkeypatch.context() as patched:
        whole, told, _ = watching(patched, 1 << 40)
    with monkeypatch.context() as patched:
        found, metrics, seen = watching(patched, numbers)
    assert found == pytest.approx(whole, rel=0, abs=1e-12)
    for now, expected in zip(metrics, told, strict=True):
        assert {name: list(values) for name, values in now.items()} == pytest.approx(
            {name: pytest.approx(list(values), rel=1e-9, nan_ok=True) for name, values in expected.items()}
        )
    assert max(seen) <= max(9, numbers // len(whole[0]))


def test_what_was_heard_is_let_go_of_lane_by_lane(monkeypatch):
    """And all the same it is known whose update was broken."""
    monkeypatch.setattr(batch_limits, "_TRAINED", 1)
    one = learner({"calm": spec(), "wild": spec(lr=1e200)}, model=Mlp(hidden=(5,)))
    kept, release = [], type(one._servers).release_updates
    monkeypatch.setattr(
        type(one._servers), "release_updates", lambda own, now: (release(own, now), kept.append([*own._updates]))[0]
    )
    one.step([a_round(1, (3, 0), (0, 0))])
    assert kept == [[], [1]]
    (lost,) = one.diverged
    assert (lost.learner, lost.round, lost.user) == ("wild", 1, 3)


def test_lost_lanes_are_asked_for_no_losses(monkeypatch):
    seen, held = [], learners.user_losses
    monkeypatch.setattr(learners, "user_losses", lambda *told: (seen.append(1), held(*told))[1])
    fair = Qfedavg(q=1.0)
    told = {"calm": spec(aggregation=fair), "wild": spec(aggregation=fair, lr=1e200)}
    one = learner(told, model=Mlp(hidden=(5,)))
    for index in (1, 2):
        one.step([a_round(index, (3, index - 1))])
    assert [lane.learner for lane in one.diverged] == ["wild"]
    assert len(seen) == 3
