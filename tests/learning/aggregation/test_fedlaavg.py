"""FedLaAvg is `mifa` with a constant step size and the selection `oldest`: a run against memories on devices."""

from pathlib import Path

import numpy as np
import pytest
from support.learner_factory import a_round, draw_batches

import netfl
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.simulation.learners import build_learner
from netfl.simulation.setup import prepare_run

FILE = Path(__file__).parents[3] / "scenarios" / "learning" / "fedlaavg.yaml"
USERS, SELECTED, ROUNDS, STEPS, BATCH, LR = 50, 5, 120, 10, 5, 0.02


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {"rounds": ROUNDS, "precision": "float64", "evaluate.every": 60}
    scenario = netfl.load(FILE, changes)
    return scenario, netfl.run(scenario, tmp_path_factory.mktemp("fedlaavg") / "run", device="cpu")


def available(index):
    """Return whether each user is available: the users of digit 0, or all others, for 50 rounds each."""
    is_of_zero = np.arange(USERS) % 10 == 0
    return is_of_zero if (index - 1) % 100 < 50 else ~is_of_zero


def gradient(theta, x, y):
    """Return the gradient of the mean loss of a softmax regression."""
    w, b = theta[:640].reshape(10, 64), theta[640:]
    z = x @ w.T + b
    p = np.exp(z - z.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True) - np.eye(10)[y]
    return np.concatenate([(p.T @ x).ravel(), p.sum(0)]) / len(y)


@pytest.mark.slow
def test_a_run_equals_fedlaavg_with_memories_on_the_devices(run):
    """The learner trains on the deliveries of the run, in double precision."""
    scenario, finished = run
    setup = prepare_run(scenario)
    learner = build_learner(setup, "cpu")
    lane = learner.lanes.index(("FedLaAvg", 0))
    sampler = BatchSampler([scenario.streams_of(0).at("learning")])
    examples = [
        (setup.dataset.train_x[rows].reshape(len(rows), -1).astype(float), setup.dataset.train_y[rows])
        for rows in setup.splits[0]
    ]
    x = learner.version(lane)[:-1]
    on_devices = np.zeros((USERS, len(x)))
    mean = np.zeros(len(x))
    for index in range(1, ROUNDS + 1):
        users = finished.deliveries.query("round == @index")["user"].tolist()
        for user in users:
            features, labels = examples[user]
            batches = draw_batches(sampler, [(0, user, index - 1, len(labels))], LocalWork(BATCH, None, STEPS))
            theta = x.copy()
            for places, count in zip(batches.places[0], batches.counts[0], strict=True):
                theta -= LR * gradient(theta, features[places[:count]], labels[places[:count]])
            latest = (x - theta) / LR
            mean += (latest - on_devices[user]) / USERS  # the device sends the difference
            on_devices[user] = latest
        x = x - LR * mean
        learner.step([a_round(index, *((user, index - 1) for user in users), oldest=index - 1)])
        assert learner.version(lane)[:-1] == pytest.approx(x, rel=1e-10, abs=1e-10)


@pytest.mark.slow
def test_the_users_that_have_been_absent_longest_are_selected(run):
    _, finished = run
    last = np.full(USERS, -1)
    for index in range(1, ROUNDS + 1):
        delivered = finished.deliveries.query("round == @index")["user"].to_numpy()
        candidates = np.flatnonzero(available(index))
        assert available(index)[delivered].all()
        assert len(delivered) == min(SELECTED, len(candidates))
        assert sorted(last[delivered]) == sorted(last[candidates])[: len(delivered)]
        last[delivered] = index


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_lost_difference_is_never_repaired(is_acknowledged):
    """A device that keeps its gradient without an acknowledgement leaves an error in the server's mean for good.

    With one, it is the mean of the last delivered gradients, which `mifa` holds.
    """
    rng = np.random.default_rng(0)
    kept, delivered, mean = np.zeros(4), np.zeros(4), 0.0
    lost = 0.0
    for _ in range(200):
        user = rng.integers(4)
        latest = rng.standard_normal()
        difference = latest - kept[user]
        is_lost = rng.random() < 0.2
        if not is_lost:
            mean += difference / 4
            delivered[user] = latest
        else:
            lost += difference / 4
        if not is_lost or not is_acknowledged:
            kept[user] = latest
    if is_acknowledged:
        assert mean == pytest.approx(delivered.mean(), abs=1e-12)
    else:
        assert mean == pytest.approx(kept.mean() - lost, abs=1e-12)
        assert abs(mean - delivered.mean()) > 0.05
