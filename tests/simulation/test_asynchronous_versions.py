"""Asynchronous learning in a simulated network: against NumPy, after crashes, and from replays."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from ruamel.yaml import YAML

import netfl
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation import learners
from netfl.simulation import run as coupling
from netfl.simulation.setup import prepare_run

USERS, ROUNDS, LR = 5, 40, 0.5
ACCESS = {
    "kind": "network",
    "topology": {"kind": "star", "radius": "300 m", "delay": "700 ms"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz"},
    "channel": [
        {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
        {"kind": "rayleigh", "coherence": "50 ms"},
    ],
    "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "50 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.3},
    "compute": {"speed": 1.0, "spread": 1.0, "samples": 2, "jitter": 0.5},
    "broadcast_rate": "100 kbps",
    "update_size": "2 kB",
    "outages": [
        {
            "kind": "renewal",
            "up": {"distribution": "exponential", "mean": 25},
            "down": {"distribution": "fixed", "mean": 6},
            "nodes": "users",
        }
    ],
}
FEDAU, FEDBUFF = {"kind": "fedau", "cutoff": 6, "server_lr": 2}, {"kind": "fedbuff", "exponent": 0.5, "server_lr": 0.8}
FEDASYNC = {"kind": "fedasync", "alpha": 0.6, "staleness": "hinge", "a": 2, "b": 1}
LEARNERS = {"FedAU": FEDAU, "FedAsync": FEDASYNC, "FedBuff": FEDBUFF, "all": {"kind": "average_all", "server_lr": 3}}
RULES = [{"kind": "buffered", "size": 3}, {"kind": "asynchronous"}, {"kind": "first", "m": None, "deadline": 4.0}]


def make_settings(**access):
    local_work = {"objective": "erm", "lr": LR, "batch_size": "full", "local_steps": 1}
    return {
        "name": "live",
        "users": USERS,
        "rounds": ROUNDS,
        "access": ACCESS | access,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
        "learners": {name: {"aggregation": rule} | local_work for name, rule in LEARNERS.items()},
        "evaluate": {"every": 1},
    }


def scenario(**access):
    return validate(ScenarioDocument(make_settings(**access), "live"))


def softmax(theta, x):
    z = np.column_stack([x, np.ones(len(x))]) @ theta
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def train_step(theta, x, y):
    """Return the weights after one gradient step on the mean cross-entropy."""
    error = softmax(theta, x) - np.eye(theta.shape[1])[y]
    return theta - LR * np.column_stack([x, np.ones(len(x))]).T @ error / len(x)


def aggregate(name, current, index, updates, gaps):
    """Return the next version as in the papers; *updates* are (user, base, model of the base, model)."""
    if name == "FedAsync":
        for _, base, _, model in updates:
            tau = index - 1 - base
            alpha = 0.6 * (1 if tau <= 1 else 1 / (2 * (tau - 1) + 1))
            current = (1 - alpha) * current + alpha * model
        return current
    if name == "FedBuff":
        return current + 0.8 / max(len(updates), 1) * sum(
            (index - base) ** -0.5 * (model - base_model) for _, base, base_model, model in updates
        )
    if name == "all":
        return current + 3 / USERS * sum(model - base_model for _, _, base_model, model in updates)
    weights = [np.mean(gap[:-1]) if len(gap) > 1 else 1.0 for gap in gaps]
    step = sum(weights[user] * (model - base_model) for user, _, base_model, model in updates)
    delivered = {user for user, *_ in updates}
    for user, user_gaps in enumerate(gaps):
        user_gaps[-1] += 1
        if user in delivered or user_gaps[-1] == 6:
            user_gaps.append(0)
    return current + 2 / USERS * step


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["kind"])
@pytest.mark.quick_first
def test_versions_match_a_numpy_implementation(rule, tmp_path):
    options = {"on_new_version": "finish"} if rule["kind"] == "first" else {}
    live = scenario(round=rule, **options)
    run, setup = coupling.run(live, tmp_path / "run", device="cpu"), prepare_run(live)
    data, split, start = setup.dataset, setup.splits[0], learners.build_learner(setup, "cpu").version(0)[:-1]
    x, y = np.asarray(data.train_x, float), np.asarray(data.train_y)
    theta = np.vstack([start[:6].reshape(3, 2).T, start[6:]])
    loss = run.metrics.query("metric == 'loss' and group == ''").set_index(["learner", "round"])["value"]
    deliveries = run.deliveries.sort_values("arrived_s", kind="stable")
    assert (deliveries["round"] - 1 - deliveries["base"]).max() >= 2
    for name in LEARNERS:
        versions, gaps = [theta], [[0] for _ in range(USERS)]
        for index in range(1, ROUNDS + 1):
            rows = deliveries[deliveries["round"] == index]
            updates = [
                (user, base, versions[base], train_step(versions[base], x[split[user]], y[split[user]]))
                for user, base in zip(rows["user"], rows["base"], strict=True)
            ]
            versions.append(aggregate(name, versions[-1], index, updates, gaps))
        p = [
            softmax(version, np.asarray(data.test_x, float))[np.arange(len(data.test_y)), data.test_y]
            for version in versions
        ]
        np.testing.assert_allclose(
            loss[name].sort_index(), [-np.log(chances).mean() for chances in p], rtol=2e-4, err_msg=name
        )


CLOSED = {
    "round": {"kind": "first", "m": 2},
    "mac": {"kind": "adaptive_aloha", "channels": 2, "metric": "norm"},
    "selection": {"kind": "power_of_choice", "d": 4, "m": 3},
    "learner": "FedAU",
}
FREQUENT_CHECKPOINTS = """
import sys, netfl, netfl.simulation.checkpoints
netfl.simulation.checkpoints.CHECKPOINT_EVERY_S = 0.05
netfl.run(netfl.load(sys.argv[1]), sys.argv[2], device="cpu")
"""
ACCESSES = {"asynchronous": {"round": {"kind": "asynchronous"}}, "closed": CLOSED}


@pytest.mark.parametrize("access_name", ACCESSES)
@pytest.mark.slow
def test_killed_run_resumes_exactly(access_name, tmp_path):
    access, rounds = ACCESSES[access_name], 400
    file = tmp_path / "live.yaml"
    YAML(typ="safe").dump(make_settings(**access) | {"rounds": rounds}, file)
    complete = netfl.run(netfl.load(file), tmp_path / "whole", device="cpu")
    process = subprocess.Popen([sys.executable, "-c", FREQUENT_CHECKPOINTS, str(file), str(tmp_path / "cut")])
    while process.poll() is None and not [*(tmp_path / "cut").glob("*checkpoint*")]:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = coupling.resume(tmp_path / "cut", device="cpu")
    for name in ("rounds", "deliveries", "metrics"):
        pd.testing.assert_frame_equal(complete.table(name), resumed.table(name), check_exact=True)
    replayed = make_settings() | {"rounds": rounds, "access": {"kind": "replay", "run": str(complete.folder)}}
    again = coupling.run(validate(ScenarioDocument(replayed, "live")), tmp_path / "again", device="cpu")
    for name in ("rounds", "deliveries", "metrics"):
        pd.testing.assert_frame_equal(complete.table(name), again.table(name), check_exact=True)
