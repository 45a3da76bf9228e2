"""Learning in a live network without rounds for users: against NumPy, after crashes, and from replays."""

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


def said(**access):
    work = {"objective": "erm", "lr": LR, "batch_size": "full", "local_steps": 1}
    return {
        "name": "live",
        "users": USERS,
        "rounds": ROUNDS,
        "access": ACCESS | access,
        "data": {"kind": "blobs", "centers": [[0, 0], [3, 3], [1, 2]], "samples": 40},
        "partition": "iid",
        "model": "logistic",
        "learners": {name: {"aggregation": rule} | work for name, rule in LEARNERS.items()},
        "evaluate": {"every": 1},
    }


def scenario(**access):
    return validate(ScenarioDocument(said(**access), "live"))


def softmax(theta, x):
    z = np.column_stack([x, np.ones(len(x))]) @ theta
    e = np.exp(z - z.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def trained(theta, x, y):
    """One step of gradient descent on the mean cross-entropy."""
    error = softmax(theta, x) - np.eye(theta.shape[1])[y]
    return theta - LR * np.column_stack([x, np.ones(len(x))]).T @ error / len(x)


def mixed(name, current, r, got, gaps):
    """The next version by the papers: *got* are (user, base, base's model, model)."""
    if name == "FedAsync":
        for _, base, _, model in got:
            tau = r - 1 - base
            alpha = 0.6 * (1 if tau <= 1 else 1 / (2 * (tau - 1) + 1))
            current = (1 - alpha) * current + alpha * model
        return current
    if name == "FedBuff":
        return current + 0.8 / max(len(got), 1) * sum((r - base) ** -0.5 * (model - old) for _, base, old, model in got)
    if name == "all":
        return current + 3 / USERS * sum(model - old for _, _, old, model in got)
    weights = [np.mean(own[:-1]) if len(own) > 1 else 1.0 for own in gaps]
    step = sum(weights[user] * (model - old) for user, _, old, model in got)
    heard = {user for user, *_ in got}
    for user, own in enumerate(gaps):
        own[-1] += 1
        if user in heard or own[-1] == 6:
            own.append(0)
    return current + 2 / USERS * step


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["kind"])
@pytest.mark.quick_first
def test_each_version_is_what_numpy_makes_of_the_deliveries(rule, tmp_path):
    busy = {"on_new_version": "finish"} if rule["kind"] == "first" else {}
    live = scenario(round=rule, **busy)
    run, setup = coupling.run(live, tmp_path / "run", device="cpu"), prepare_run(live)
    data, split, start = setup.dataset, setup.splits[0], learners.build_learner(setup, "cpu").version(0)[:-1]
    x, y = np.asarray(data.train_x, float), np.asarray(data.train_y)
    theta = np.vstack([start[:6].reshape(3, 2).T, start[6:]])
    loss = run.metrics.query("metric == 'loss' and group == ''").set_index(["learner", "round"])["value"]
    deliveries = run.deliveries.sort_values("arrived_s", kind="stable")
    assert (deliveries["round"] - 1 - deliveries["base"]).max() >= 2
    for name in LEARNERS:
        versions, gaps = [theta], [[0] for _ in range(USERS)]
        for r in range(1, ROUNDS + 1):
            own = deliveries[deliveries["round"] == r]
            got = [
                (user, base, versions[base], trained(versions[base], x[split[user]], y[split[user]]))
                for user, base in zip(own["user"], own["base"], strict=True)
            ]
            versions.append(mixed(name, versions[-1], r, got, gaps))
        p = [
            softmax(each, np.asarray(data.test_x, float))[np.arange(len(data.test_y)), data.test_y] for each in versions
        ]
        np.testing.assert_allclose(
            loss[name].sort_index(), [-np.log(each).mean() for each in p], rtol=2e-4, err_msg=name
        )


CLOSED = {
    "round": {"kind": "first", "m": 2},
    "mac": {"kind": "adaptive_aloha", "channels": 2, "metric": "norm"},
    "selection": {"kind": "power_of_choice", "d": 4, "m": 3},
    "learner": "FedAU",
}
HASTY = """
import sys, netfl, netfl.simulation.checkpoints
netfl.simulation.checkpoints.CHECKPOINT_EVERY_S = 0.05
netfl.run(netfl.load(sys.argv[1]), sys.argv[2], device="cpu")
"""
CONDUCTS = {"asynchronous": {"round": {"kind": "asynchronous"}}, "closed": CLOSED}


@pytest.mark.parametrize("conduct", CONDUCTS)
@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_to_what_it_would_have_been(conduct, tmp_path):
    access, rounds = CONDUCTS[conduct], 400
    file = tmp_path / "live.yaml"
    YAML(typ="safe").dump(said(**access) | {"rounds": rounds}, file)
    whole = netfl.run(netfl.load(file), tmp_path / "whole", device="cpu")
    process = subprocess.Popen([sys.executable, "-c", HASTY, str(file), str(tmp_path / "cut")])
    while process.poll() is None and not [*(tmp_path / "cut").glob("*checkpoint*")]:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    resumed = coupling.resume(tmp_path / "cut", device="cpu")
    for name in ("rounds", "deliveries", "metrics"):
        pd.testing.assert_frame_equal(whole.table(name), resumed.table(name), check_exact=True)
    replayed = said() | {"rounds": rounds, "access": {"kind": "replay", "run": str(whole.folder)}}
    again = coupling.run(validate(ScenarioDocument(replayed, "live")), tmp_path / "again", device="cpu")
    for name in ("rounds", "deliveries", "metrics"):
        pd.testing.assert_frame_equal(whole.table(name), again.table(name), check_exact=True)
