"""Whole runs, computed again in NumPy from what they wrote: versions, deliveries, figures, and the cost of targets."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from support.learner_factory import draw_batches
from support.small_network import PLAIN

import netfl
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import prepare_run, streams_of

USERS, ROUNDS, WIDTH, STEPS, LR = 12, 14, 6, 5, 0.08
LEARNER = {"objective": "erm", "lr": LR, "batch_size": WIDTH, "local_steps": STEPS}
RULES = {
    "average": "average",
    "fedau": {"kind": "fedau", "cutoff": 3},
    "scaffold": {"kind": "scaffold", "server_lr": 0.8},
    "qfedavg": {"kind": "qfedavg", "q": 1},
    "fedadam": {"kind": "fedadam", "server_lr": 0.05},
}
ENERGY = {"per_sample": "10 mJ", "transmit": "0.5 W", "receive": "0.1 W", "idle": "1 mW"}
FADING = [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}, {"kind": "rayleigh", "coherence": "1 s"}]


def a_scenario(**more):
    access = {
        "kind": "network",
        **copy.deepcopy(PLAIN),
        "channel": FADING,
        "round": {"kind": "buffered", "size": 3},
        "energy": ENERGY,
    }
    halving = {"kind": "halving", "every": 5}
    return validate(
        ScenarioDocument(
            {
                "name": "again",
                "users": USERS,
                "rounds": ROUNDS,
                "replicas": 2,
                "access": access,
                "data": {"kind": "synthetic", "alpha": 1, "beta": 1, "users": USERS, "sigma": 0.6},
                "partition": "natural",
                "model": "logistic",
                "learners": {name: LEARNER | {"aggregation": rule} for name, rule in RULES.items()}
                | {"late": LEARNER | {"aggregation": "average", "schedule": halving, "momentum": 0.5}},
                "evaluate": {"every": 2, "targets": [0.15, 0.3, 0.99], "metrics": ["staleness", "weight"]},
                "record": {"versions": True},
            }
            | more,
            "again",
        )
    )


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    scenario = a_scenario()
    return scenario, netfl.run(scenario, tmp_path_factory.mktemp("again") / "run", device="cpu")


def flat(version):
    return np.concatenate([values.astype(float).ravel() for values in version.values()])


def softmax_regression(theta, x, y):
    """Each example's loss, and the gradient of their mean."""
    classes = len(theta) // (x.shape[1] + 1)
    w, b = theta[: classes * x.shape[1]].reshape(classes, -1), theta[classes * x.shape[1] :]
    z = x @ w.T + b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    off = (p - np.eye(classes)[y]) / len(y)
    return -np.log(p[np.arange(len(y)), y]), np.concatenate([(off.T @ x).ravel(), off.sum(0)])


class Replica:
    """What one replica's users hold, and what they train on when."""

    def __init__(self, scenario, run, replica):
        setup = prepare_run(scenario)
        data, split = setup.dataset, setup.splits[replica]
        self.held = [(data.train_x[rows].astype(float), data.train_y[rows]) for rows in split]
        self.shuffles = BatchSampler([streams_of(scenario, replica).at("learning")])
        rows = run.deliveries[run.deliveries["replica"] == replica].sort_values(["round", "arrived_s"], kind="stable")
        self.heard, turns = {index: [] for index in range(1, ROUNDS + 1)}, {}
        for index, user, base in rows[["round", "user", "base"]].to_numpy().tolist():
            turn = turns[user, base] = turns.get((user, base), -1) + 1
            self.heard[int(index)].append((int(user), int(base), turn))

    def trained(self, base, delivery, drift=0.0, lr=LR, momentum=0.0):
        user, since, turn = delivery
        x, y = self.held[user]
        line, work = (0, user, since, len(y)), LocalWork(WIDTH, None, STEPS)
        batches = draw_batches(self.shuffles, [line], work, np.array([turn]))
        theta, velocity = base.copy(), 0.0
        for places, count in zip(batches.places[0], batches.counts[0], strict=True):
            velocity = momentum * velocity + softmax_regression(theta, x[places[:count]], y[places[:count]])[1] + drift
            theta = theta - lr * velocity
        return theta


def again(rule, world, versions):
    """The version after each round, made of the versions before it as they were written."""
    own, sent = [np.zeros(len(versions[0]))] * USERS, [np.zeros(len(versions[0]))]
    ended, total, lasting = np.zeros(USERS), np.zeros(USERS), np.zeros(USERS)
    m, v = 0.0, 1e-6
    for index in range(1, ROUNDS + 1):
        x, heard = versions[index - 1], world.heard[index]
        users = [user for user, _, _ in heard]
        bases = np.array([versions[since] for _, since, _ in heard])
        drifts = [sent[since] - own[user] for user, since, _ in heard] if rule == "scaffold" else [0.0] * len(heard)
        how = [{"lr": LR * 0.5 ** (since // 5), "momentum": 0.5} if rule == "late" else {} for _, since, _ in heard]
        models = np.array(
            [
                world.trained(base, one, drift, **said)
                for base, one, drift, said in zip(bases, heard, drifts, how, strict=True)
            ]
        )
        if heard and rule in {"average", "late", "fedadam"}:
            mean = np.average(models, axis=0, weights=[len(world.held[user][1]) for user in users])
            if rule == "fedadam":
                m, v = 0.9 * m + 0.1 * (mean - x), 0.99 * v + 0.01 * (mean - x) ** 2
                mean = x + 0.05 * m / (np.sqrt(v) + 1e-3)
            yield mean
        elif rule == "fedau":
            weight = np.where(ended > 0, total / np.maximum(ended, 1), 1.0)
            yield (
                x + sum((weight[user] * (a - b) for user, a, b in zip(users, models, bases, strict=True)), 0.0) / USERS
            )
            lasting += 1
            for user in range(USERS):
                if user in users or lasting[user] == 3:
                    ended[user], total[user], lasting[user] = ended[user] + 1, total[user] + lasting[user], 0
        elif heard and rule == "scaffold":
            before = list(own)
            for (user, since, _), model, base in zip(heard, models, bases, strict=True):
                own[user] = before[user] - sent[since] + (base - model) / (STEPS * LR)
            yield x + 0.8 * (models - bases).mean(0)
        elif heard and rule == "qfedavg":
            loss = [
                softmax_regression(base, *world.held[user])[0].mean() for base, user in zip(bases, users, strict=True)
            ]
            dw = (bases - models) / LR
            h = [(one**2).sum() + f / LR for one, f in zip(dw, loss, strict=True)]
            yield x - np.array(loss) @ dw / sum(h)
        else:
            yield x
        sent.append(np.mean(own, axis=0))


@pytest.mark.parametrize("rule", [*RULES, "late"])
@pytest.mark.parametrize("replica", [0, 1])
def test_every_step_can_be_computed_from_what_the_run_wrote(ran, rule, replica):
    scenario, run = ran
    found = run.versions(rule, replica)
    versions = [flat(found[index]) for index in range(ROUNDS + 1)]
    world = Replica(scenario, run, replica)
    assert any(since < index - 1 for index, own in world.heard.items() for _, since, _ in own)
    for index, version in enumerate(again(rule, world, versions), 1):
        np.testing.assert_allclose(versions[index], version, rtol=2e-4, atol=2e-5)
    assert np.abs(versions[-1] - versions[0]).max() > 0.01


def test_fairness_figures_are_those_of_the_predictions(ran):
    scenario, run = ran
    data = prepare_run(scenario).dataset
    for rule in RULES:
        for replica in (0, 1):
            version = run.versions(rule, replica)[ROUNDS]
            weight, bias = version.values()
            right = (data.test_x @ weight.T + bias).argmax(1) == data.test_y
            users = np.sort([right[data.test_user == user].mean() for user in np.unique(data.test_user)])
            tenth = max(len(users) // 10, 1)
            rows = run.metrics.query("learner == @rule and replica == @replica and round == @ROUNDS")
            told = rows.set_index(["metric", "group"])["value"]
            expected = {
                "accuracy": right.mean(),
                "accuracy_users_mean": users.mean(),
                "accuracy_users_worst10": users[:tenth].mean(),
                "accuracy_users_best10": users[-tenth:].mean(),
                "accuracy_users_variance": users.var(),
            }
            for name, value in expected.items():
                assert told[name, ""] == pytest.approx(value, abs=1e-9), (rule, name)


def test_weights_that_are_told_are_those_of_the_next_round(ran):
    """FedAU's ω from who was heard, counted by hand; cut at 3."""
    _, run = ran
    told = run.metrics.query("learner == 'fedau' and metric == 'weight'")
    deliveries = run.deliveries
    for (replica, index), rows in told.groupby(["replica", "round"]):
        heard = deliveries[(deliveries["replica"] == replica) & (deliveries["round"] <= index)]
        for group, value in zip(rows["group"], rows["value"], strict=True):
            own = set(heard["round"][heard["user"] == int(str(group).removeprefix("user:"))])
            lengths, lasting = [], 0
            for one in range(1, index + 1):
                lasting += 1
                if one in own or lasting == 3:
                    lengths.append(lasting)
                    lasting = 0
            assert value == pytest.approx(np.mean(lengths) if lengths else 1.0)


def test_targets_cost_what_the_rounds_up_to_them_did(ran):
    _, run = ran
    told, seen = run.final_metrics.set_index(["replica", "metric"])["value"], 0
    for rule in RULES:
        for replica in (0, 1):
            own = run.metrics.query("learner == @rule and replica == @replica and metric == 'accuracy' and group == ''")
            rounds = run.rounds[run.rounds["replica"] == replica].sort_values("round")
            for target in (0.15, 0.3, 0.99):
                reached = own["round"][own["value"] >= target]
                name = f"{rule}.target:{target:g}"
                if not len(reached):
                    assert (replica, f"{name}.time_s") not in told.index
                    continue
                first = int(reached.min())
                seen += first > 0
                past = rounds[rounds["round"] <= first]
                assert told[replica, f"{name}.rounds"] == first
                assert told[replica, f"{name}.time_s"] == (past["closed_s"].iloc[-1] if first else 0)
                assert told[replica, f"{name}.uplink_bits"] == past["uplink_bits"].sum()
                assert told[replica, f"{name}.downlink_bits"] == past["downlink_bits"].sum()
                assert told[replica, f"{name}.energy_J"] == (past["energy_J"].iloc[-1] if first else 0)
    assert seen


def test_a_replay_learns_what_the_run_learned(ran, tmp_path):
    _, run = ran
    other = netfl.run(a_scenario(access={"kind": "replay", "run": str(run.folder)}), tmp_path / "run", device="cpu")
    pd.testing.assert_frame_equal(run.metrics, other.metrics, check_exact=True)
    for path in (run.folder / "versions").iterdir():
        assert path.read_bytes() == (other.folder / "versions" / path.name).read_bytes()
    targets = [name for name in run.summary if ".target:" in name]
    assert targets
    assert {name: run.summary[name] for name in targets} == {name: other.summary[name] for name in targets}
