"""Recompute whole runs in NumPy from their files: versions, deliveries, metrics, and the cost of targets."""

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
from netfl.simulation.setup import prepare_run

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


def make_scenario(**changes):
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
            | changes,
            "again",
        )
    )


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    scenario = make_scenario()
    return scenario, netfl.run(scenario, tmp_path_factory.mktemp("again") / "run", device="cpu")


def flat(version):
    return np.concatenate([values.astype(float).ravel() for values in version.values()])


def softmax_regression(theta, x, y):
    """Return the loss of each example and the gradient of their mean."""
    classes = len(theta) // (x.shape[1] + 1)
    w, b = theta[: classes * x.shape[1]].reshape(classes, -1), theta[classes * x.shape[1] :]
    z = x @ w.T + b
    p = np.exp(z - z.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    off = (p - np.eye(classes)[y]) / len(y)
    return -np.log(p[np.arange(len(y)), y]), np.concatenate([(off.T @ x).ravel(), off.sum(0)])


class Replica:
    """Examples of each user of one replica, and the deliveries of each round."""

    def __init__(self, scenario, run, replica):
        setup = prepare_run(scenario)
        data, split = setup.dataset, setup.splits[replica]
        self.examples = [(data.train_x[rows].astype(float), data.train_y[rows]) for rows in split]
        self.sampler = BatchSampler([scenario.streams_of(replica).at("learning")])
        rows = run.deliveries[run.deliveries["replica"] == replica].sort_values(["round", "arrived_s"], kind="stable")
        self.delivered, counts = {index: [] for index in range(1, ROUNDS + 1)}, {}
        for index, user, base in rows[["round", "user", "base"]].to_numpy().tolist():
            repeat = counts[user, base] = counts.get((user, base), -1) + 1
            self.delivered[int(index)].append((int(user), int(base), repeat))

    def train(self, base_model, delivery, drift=0.0, lr=LR, momentum=0.0):
        user, base_round, repeat = delivery
        x, y = self.examples[user]
        job, work = (0, user, base_round, len(y)), LocalWork(WIDTH, None, STEPS)
        batches = draw_batches(self.sampler, [job], work, np.array([repeat]))
        theta, velocity = base_model.copy(), 0.0
        for places, count in zip(batches.places[0], batches.counts[0], strict=True):
            velocity = momentum * velocity + softmax_regression(theta, x[places[:count]], y[places[:count]])[1] + drift
            theta = theta - lr * velocity
        return theta


def expected_versions(rule, replica, versions):
    """Yield the version after each round, computed from the written versions before it."""
    controls, global_controls = [np.zeros(len(versions[0]))] * USERS, [np.zeros(len(versions[0]))]
    count, total, interval = np.zeros(USERS), np.zeros(USERS), np.zeros(USERS)
    m, v = 0.0, 1e-6
    for index in range(1, ROUNDS + 1):
        x, delivered = versions[index - 1], replica.delivered[index]
        users = [user for user, _, _ in delivered]
        bases = np.array([versions[base_round] for _, base_round, _ in delivered])
        drifts = (
            [global_controls[base_round] - controls[user] for user, base_round, _ in delivered]
            if rule == "scaffold"
            else [0.0] * len(delivered)
        )
        local = [
            {"lr": LR * 0.5 ** (base_round // 5), "momentum": 0.5} if rule == "late" else {}
            for _, base_round, _ in delivered
        ]
        models = np.array(
            [
                replica.train(base, delivery, drift, **options)
                for base, delivery, drift, options in zip(bases, delivered, drifts, local, strict=True)
            ]
        )
        if delivered and rule in {"average", "late", "fedadam"}:
            mean = np.average(models, axis=0, weights=[len(replica.examples[user][1]) for user in users])
            if rule == "fedadam":
                m, v = 0.9 * m + 0.1 * (mean - x), 0.99 * v + 0.01 * (mean - x) ** 2
                mean = x + 0.05 * m / (np.sqrt(v) + 1e-3)
            yield mean
        elif rule == "fedau":
            weight = np.where(count > 0, total / np.maximum(count, 1), 1.0)
            yield (
                x + sum((weight[user] * (a - b) for user, a, b in zip(users, models, bases, strict=True)), 0.0) / USERS
            )
            interval += 1
            for user in range(USERS):
                if user in users or interval[user] == 3:
                    count[user], total[user], interval[user] = count[user] + 1, total[user] + interval[user], 0
        elif delivered and rule == "scaffold":
            before = list(controls)
            for (user, base_round, _), model, base in zip(delivered, models, bases, strict=True):
                controls[user] = before[user] - global_controls[base_round] + (base - model) / (STEPS * LR)
            yield x + 0.8 * (models - bases).mean(0)
        elif delivered and rule == "qfedavg":
            loss = [
                softmax_regression(base, *replica.examples[user])[0].mean()
                for base, user in zip(bases, users, strict=True)
            ]
            dw = (bases - models) / LR
            h = [(change**2).sum() + f / LR for change, f in zip(dw, loss, strict=True)]
            yield x - np.array(loss) @ dw / sum(h)
        else:
            yield x
        global_controls.append(np.mean(controls, axis=0))


@pytest.mark.parametrize("rule", [*RULES, "late"])
@pytest.mark.parametrize("replica", [0, 1])
def test_versions_follow_from_the_files_of_the_run(finished_run, rule, replica):
    scenario, run = finished_run
    found = run.versions(rule, replica)
    versions = [flat(found[index]) for index in range(ROUNDS + 1)]
    reference = Replica(scenario, run, replica)
    assert any(
        base_round < index - 1 for index, delivered in reference.delivered.items() for _, base_round, _ in delivered
    )
    for index, version in enumerate(expected_versions(rule, reference, versions), 1):
        np.testing.assert_allclose(versions[index], version, rtol=2e-4, atol=2e-5)
    assert np.abs(versions[-1] - versions[0]).max() > 0.01


def test_fairness_metrics_equal_those_of_predictions(finished_run):
    scenario, run = finished_run
    data = prepare_run(scenario).dataset
    for rule in RULES:
        for replica in (0, 1):
            version = run.versions(rule, replica)[ROUNDS]
            weight, bias = version.values()
            correct = (data.test_x @ weight.T + bias).argmax(1) == data.test_y
            users = np.sort([correct[data.test_user == user].mean() for user in np.unique(data.test_user)])
            tenth = max(len(users) // 10, 1)
            rows = run.metrics.query("learner == @rule and replica == @replica and round == @ROUNDS")
            found = rows.set_index(["metric", "group"])["value"]
            expected = {
                "accuracy": correct.mean(),
                "accuracy_users_mean": users.mean(),
                "accuracy_users_worst10": users[:tenth].mean(),
                "accuracy_users_best10": users[-tenth:].mean(),
                "accuracy_users_variance": users.var(),
            }
            for name, value in expected.items():
                assert found[name, ""] == pytest.approx(value, abs=1e-9), (rule, name)


def test_weight_metrics_are_those_of_the_next_round(finished_run):
    """FedAU's ω, counted by hand from the deliveries, with cutoff 3."""
    _, run = finished_run
    weights = run.metrics.query("learner == 'fedau' and metric == 'weight'")
    deliveries = run.deliveries
    for (replica, index), rows in weights.groupby(["replica", "round"]):
        delivered = deliveries[(deliveries["replica"] == replica) & (deliveries["round"] <= index)]
        for group, value in zip(rows["group"], rows["value"], strict=True):
            user_rounds = set(delivered["round"][delivered["user"] == int(str(group).removeprefix("user:"))])
            lengths, interval = [], 0
            for number in range(1, index + 1):
                interval += 1
                if number in user_rounds or interval == 3:
                    lengths.append(interval)
                    interval = 0
            assert value == pytest.approx(np.mean(lengths) if lengths else 1.0)


def test_costs_of_targets_are_sums_over_rounds(finished_run):
    _, run = finished_run
    final, later_targets = run.final_metrics.set_index(["replica", "metric"])["value"], 0
    for rule in RULES:
        for replica in (0, 1):
            metrics = run.metrics.query(
                "learner == @rule and replica == @replica and metric == 'accuracy' and group == ''"
            )
            rounds = run.rounds[run.rounds["replica"] == replica].sort_values("round")
            for target in (0.15, 0.3, 0.99):
                reached = metrics["round"][metrics["value"] >= target]
                name = f"{rule}.target:{target:g}"
                if not len(reached):
                    assert (replica, f"{name}.time_s") not in final.index
                    continue
                first = int(reached.min())
                later_targets += first > 0
                closed = rounds[rounds["round"] <= first]
                assert final[replica, f"{name}.rounds"] == first
                assert final[replica, f"{name}.time_s"] == (closed["closed_s"].iloc[-1] if first else 0)
                assert final[replica, f"{name}.uplink_bits"] == closed["uplink_bits"].sum()
                assert final[replica, f"{name}.downlink_bits"] == closed["downlink_bits"].sum()
                assert final[replica, f"{name}.energy_J"] == (closed["energy_J"].iloc[-1] if first else 0)
    assert later_targets


def test_a_replay_equals_the_original_run(finished_run, tmp_path):
    _, run = finished_run
    other = netfl.run(make_scenario(access={"kind": "replay", "run": str(run.folder)}), tmp_path / "run", device="cpu")
    pd.testing.assert_frame_equal(run.metrics, other.metrics, check_exact=True)
    for path in (run.folder / "versions").iterdir():
        assert path.read_bytes() == (other.folder / "versions" / path.name).read_bytes()
    targets = [name for name in run.summary if ".target:" in name]
    assert targets
    assert {name: run.summary[name] for name in targets} == {name: other.summary[name] for name in targets}
