"""Devices that keep what they trained although the update was lost, beside simulations in NumPy."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from learning.device.test_rules import CASES, Sgd, average, own_models
from learning.test_exact_updates import EXAMPLES
from support.learner_factory import USERS, draw_batches, learner, network, spec
from support.stop_run import StopAfter

import netfl
from netfl.errors import ScenarioError
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import LocalWork
from netfl.streams import Streams

KEEPING = [name for name in CASES if CASES[name][0].device is not None or CASES[name][0].base == "own"]
SAMPLER = BatchSampler([Streams(5).at(0, "in vain")])


class SgdInVain(Sgd):
    """Local SGD with the mini-batches of a training in vain."""

    def batches(self, user, since, repeat):
        x, y = EXAMPLES[user]
        if self.amount["batch_size"] == "full":
            return [(x, y)] * self.amount["local_steps"]
        work = LocalWork(self.amount["batch_size"], self.amount["local_epochs"], None)
        drawn = draw_batches(SAMPLER, [(0, user, since, len(y))], work, np.array([repeat]))
        return [
            (x[places[:count]], y[places[:count]])
            for places, count in zip(drawn.places[0], drawn.counts[0], strict=True)
        ]


def trace(rounds=8):
    """Return random rounds, with up to three trainings in vain before a delivery, also twice from one version."""
    rng = np.random.default_rng(11)
    made = []
    for each in network(0, rounds):
        deliveries = [
            replace(
                delivery, lost_bases=tuple(sorted(rng.integers(max(0, delivery.base - 2), delivery.base + 1, count)))
            )
            for delivery, count in zip(each.deliveries, rng.integers(0, 4, len(each.deliveries)), strict=True)
        ]
        deliveries = [replace(each, lost_bases=tuple(map(int, each.lost_bases))) for each in deliveries]
        made.append(replace(each, deliveries=tuple(deliveries)))
    assert sum(len(delivery.lost_bases) for each in made for delivery in each.deliveries) > 10
    return made


def play(start, rounds, device, sgd, in_vain):
    """Return the versions of all rounds, and what each device keeps in the end."""
    versions = [start]
    repeats = defaultdict(int)
    lost_repeats = defaultdict(int)
    kept = dict.fromkeys(range(USERS))
    for result in rounds:
        updates = []
        for delivery in result.deliveries:
            user = delivery.user
            for since in delivery.lost_bases:
                *_, kept[user] = device.update(
                    in_vain, versions[since], user, since, lost_repeats[user, since], kept[user]
                )
                lost_repeats[user, since] += 1
            base, model, kept[user] = device.update(
                sgd, versions[delivery.base], user, delivery.base, repeats[user, delivery.base], kept[user]
            )
            repeats[user, delivery.base] += 1
            updates.append((user, base, model))
        versions.append(average(versions[-1], updates) if updates else versions[-1])
    return versions, kept


def run(specs, rounds):
    batched = learner(specs, rounds=len(rounds))
    versions = {name: [batched.version(lane)] for lane, name in enumerate(specs)}
    for result in rounds:
        batched.step([result])
        for lane, name in enumerate(specs):
            versions[name].append(batched.version(lane))
    return versions, batched


def test_devices_keep_each_training_in_its_order():
    rounds = trace()
    keeping = {name: CASES[name][0].model_copy(update={"on_loss": "keep"}) for name in KEEPING}
    rivals = {f"{name}, rolled back": CASES[name][0] for name in KEEPING} | {"FedAvg": spec()}
    found, batched = run(rivals | keeping, rounds)
    without = {name: each.model_copy(update={"on_loss": "roll_back"}) for name, each in keeping.items()}
    beside, _ = run(rivals | without, rounds)
    start = found["FedAvg"][0][:-1]
    for name in KEEPING:
        _, device, sgd = CASES[name]
        in_vain = SgdInVain(sgd.amount, sgd.momentum, sgd.decay, sgd.factor)
        versions, kept = play(start, rounds, device(start), sgd, in_vain)
        for version, expected in zip(found[name], versions, strict=True):
            np.testing.assert_allclose(version[:-1], expected, rtol=1e-10, atol=1e-12, err_msg=name)
        models = own_models(batched, rivals | keeping, name)
        rolled_back = own_models(batched, rivals | keeping, f"{name}, rolled back")
        assert name.startswith("local_momentum") or np.abs(models - rolled_back).max() > 1e-4
        assert any(of_user is not None for of_user in kept.values())
    for name in rivals:  # in all bits
        np.testing.assert_array_equal(found[name], beside[name])


PLAIN = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 3}
LEARNERS = {
    "FedAvg": PLAIN,
    "own": PLAIN | {"base": "own"},
    "own, kept": PLAIN | {"base": "own", "on_loss": "keep"},
    "FedPer, kept": PLAIN | {"device": {"kind": "fedper", "personal_layers": 1}, "on_loss": "keep"},
}


def scenario(learners=LEARNERS, **access):
    network_access = {
        "kind": "network",
        "round": {"kind": "first", "m": 2, "deadline": "8 s"},
        "topology": {"kind": "star", "distance": "400 m"},
        "radio": {"power": "10 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.5, "frequency": "868 MHz"},
            {"kind": "rayleigh", "coherence": "50 ms"},
        ],
        "reception": {"kind": "snr_threshold", "threshold": "12 dB", "rate": "50 kbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.3, "max_attempts": 2},
        "compute": {"speed": 10, "samples": 10, "jitter": 0.5, "spread": 0.6},
        "broadcast_rate": "1 Mbps",
        "update_size": "200 B",
        "staleness": 3,
    }
    return {
        "name": "losses",
        "users": 6,
        "rounds": 40,
        "replicas": 2,
        "access": network_access | access,
        "data": {"kind": "blobs", "centers": [[0, 0], [2, 1], [-1, 2]], "samples": 120},
        "partition": {"kind": "dirichlet", "concentration": 0.5},
        "model": {"kind": "mlp", "hidden": [4]},
        "learners": learners,
        "evaluate": {"every": 8},
        "record": {"events": "all"},
    }


@pytest.mark.parametrize("on_new_version", ["restart", "finish", "ignore"])
def test_trainings_in_vain_are_those_of_the_events(tmp_path, on_new_version):
    """Between two deliveries of a user lie the trainings that ended in between, but for that of the second."""
    run = netfl.run(scenario(on_new_version=on_new_version), tmp_path / "run", progress=False)
    lost = run.table("lost_trainings")
    assert len(lost) > 10
    found = {
        key: tuple(rows.sort_values("place")["lost_base"])
        for key, rows in lost.groupby(["replica", "user", "arrived_s"])
    }
    trained = run.events[run.events["kind"] == "trained"]
    expected = {}
    for (replica, user), rows in run.deliveries.sort_values("arrived_s").groupby(["replica", "user"]):
        of_user = trained[(trained["replica"] == replica) & (trained["user"] == user)].sort_values("time_s")
        times_s, bases = of_user["time_s"].to_numpy(), of_user["value"].to_numpy(int)
        first = 0
        for row in rows.itertuples():
            own = np.flatnonzero((bases == row.base) & (times_s <= row.sent_s + 1e-9))
            if own.size and own[-1] >= first:
                if own[-1] > first:
                    expected[replica, user, row.arrived_s] = tuple(bases[first : own[-1]])
                first = own[-1] + 1
    assert found == expected


def test_other_tables_do_not_depend_on_the_record(tmp_path):
    without = {name: {**each, "on_loss": "roll_back"} for name, each in LEARNERS.items()}
    plain = netfl.run(scenario(without), tmp_path / "plain", progress=False)
    asked = netfl.run(scenario(), tmp_path / "asked", progress=False)
    assert plain.table("lost_trainings").empty
    for name in ("events", "deliveries"):
        pd.testing.assert_frame_equal(getattr(plain, name), getattr(asked, name))
    is_other = ~plain.metrics["learner"].str.contains("kept")
    pd.testing.assert_frame_equal(plain.metrics[is_other], asked.metrics[is_other])


@pytest.mark.slow
def test_workers_a_stop_and_a_replay_change_nothing(tmp_path):
    settings = scenario()
    whole = netfl.run(settings, tmp_path / "whole", progress=False)
    assert (
        whole.metrics.query("learner == 'own'")["value"].tolist()
        != whole.metrics.query("learner == 'own, kept'")["value"].tolist()
    )
    netfl.run(settings, tmp_path / "part", progress=False, observer=StopAfter(17))
    resumed = netfl.resume(tmp_path / "part", progress=False)
    workers = netfl.run(settings, tmp_path / "workers", progress=False, workers=3)
    replay = settings | {"access": {"kind": "replay", "run": str(tmp_path / "whole")}, "record": "none"}
    replayed = netfl.run(replay, tmp_path / "replayed", progress=False)
    for run in (resumed, workers, replayed):
        assert run.metrics.equals(whole.metrics)
    pd.testing.assert_frame_equal(replayed.table("lost_trainings"), whole.table("lost_trainings"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"access": {"kind": "bernoulli", "probability": 0.4}},
            r"kept\.on_loss: the access 'bernoulli' does not state",
        ),
        ({"learners": {"A": PLAIN | {"on_loss": "keep"}}}, r"learners\.A\.on_loss: has no effect because devices keep"),
        ({"learners": {"A": PLAIN | {"base": "own", "on_loss": "kept"}}}, r"learners\.A\.on_loss"),
    ],
)
def test_mistakes_are_located(changes, expected):
    with pytest.raises(ScenarioError, match=expected):
        netfl.load(scenario() | {"record": "none"} | changes)


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("user", 5, "no such delivery of the user is recorded"),
        ("lost_base", 10**6, "this version is made in its round or later"),
        ("place", 0, "it occurs twice"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path, column, value, expected):
    run = netfl.run(scenario(), tmp_path / "run", progress=False)
    table = run.table("lost_trainings")
    twice = table[table.duplicated(["replica", "round", "user", "base", "arrived_s"], keep=False)]
    row = twice.index[1] if column == "place" else table.index[table["user"] != 5][0]
    table.loc[row, column] = value
    table.to_parquet(tmp_path / "run" / "lost_trainings.parquet", index=False)
    replay = scenario() | {"access": {"kind": "replay", "run": str(tmp_path / "run")}, "record": "none"}
    with pytest.raises(ScenarioError, match=expected):
        netfl.run(replay, tmp_path / "replayed", progress=False)
