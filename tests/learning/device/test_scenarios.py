"""Rules of devices in scenarios: errors, payloads, memory, workers, stops and replays."""

from dataclasses import replace

import pytest
import torch
from support.learner_factory import a_round, learner, network, spec
from support.stop_run import StopAfter

import netfl
from netfl.errors import ScenarioError
from netfl.learning.device.ditto import Ditto
from netfl.learning.device.fedper import Fedper
from netfl.learning.device.local_momentum import LocalMomentum
from netfl.simulation.checkpoints import CHECKPOINT
from netfl.simulation.memory import MemoryEstimate

PLAIN = {"objective": "erm", "aggregation": "average", "lr": 0.1, "batch_size": 8, "local_steps": 3}
LEARNERS = {
    "FedAvg": PLAIN,
    "FedPer": PLAIN | {"device": {"kind": "fedper", "personal_layers": 1}},
    "FedRep": PLAIN | {"device": {"kind": "fedrep", "head_steps": 2}},
    "Ditto": PLAIN | {"device": {"kind": "ditto", "pull": 0.5}},
    "momentum": PLAIN | {"momentum": 0.9, "device": "local_momentum"},
    "mixture": PLAIN | {"device": {"kind": "mixture", "share": 0.5}},
    "own": PLAIN | {"base": "own"},
}
THETA = 2 * 4 + 4 + 4 * 3 + 3
HEAD = 4 * 3 + 3


def settings(learners=LEARNERS, **options):
    return {
        "name": "personal",
        "users": 8,
        "rounds": 12,
        "replicas": 2,
        "access": {"kind": "bernoulli", "probability": 0.3},
        "data": {"kind": "blobs", "centers": [[0, 0], [2, 1], [-1, 2]], "samples": 120},
        "partition": {"kind": "dirichlet", "concentration": 0.5},
        "model": {"kind": "mlp", "hidden": [4]},
        "learners": learners,
        "evaluate": {"every": 3},
    } | options


def one(**options):
    """Return the learners of a scenario with one learner."""
    return {"A": PLAIN | options}


@pytest.mark.slow
def test_workers_a_stop_and_a_replay_change_nothing(tmp_path):
    whole = netfl.run(settings(), tmp_path / "whole", progress=False)
    netfl.run(settings(), tmp_path / "part", progress=False, observer=StopAfter(5))
    resumed = netfl.resume(tmp_path / "part", progress=False)
    workers = netfl.run(settings(), tmp_path / "workers", progress=False, workers=3)
    replay = {"kind": "replay", "run": str(tmp_path / "whole")}
    replayed = netfl.run(settings(access=replay), tmp_path / "replayed", progress=False)
    for run in (resumed, workers, replayed):
        assert run.metrics.equals(whole.metrics)


LOSSY = {
    "kind": "network",
    "round": {"kind": "first", "m": 2, "deadline": "1 min"},
    "topology": {"kind": "star", "radius": "200 m"},
    "radio": {"power": "60 dBm", "bandwidth": "1 MHz"},
    "channel": [{"kind": "log_distance", "exponent": 2.5, "frequency": "868 MHz"}],
    "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "50 kbps"},
    "mac": {"kind": "slotted_aloha", "probability": 0.3, "max_attempts": 1},
    "compute": {"speed": 100, "samples": 30},
    "broadcast_rate": "50 kbps",
    "payload": "largest",
}
ERASING = LOSSY | {"transport": {"grain": "packet", "mtu": "20 B", "header": "2 B", "loss": "erase"}}


NO_LAYER = r"A\.device\.personal_layers: the model has no such layer \('layers\.7'\); did you mean 'layers\.1'"
NOTHING_LEFT = r"learners\.A\.device\.personal_layers: all layers of the model stay on the device"
LOSSES = r"the aggregation 'qfedavg' needs the losses of the versions that users receive"
FEDPER = {"kind": "fedper"}
MIXTURE = {"kind": "mixture", "share": 0.5}
QFEDAVG = {"kind": "qfedavg", "q": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"learners": one(device={"kind": "fedper", "personal_layers": ["layers.7"]})}, NO_LAYER),
        ({"learners": one(device={"kind": "fedper", "personal_layers": 2})}, NOTHING_LEFT),
        ({"learners": one(device=FEDPER), "model": "logistic"}, r"A\.device\.personal_layers: all layers"),
        ({"learners": one(device="fedrep")}, r"A\.device.*give exactly one of"),
        (
            {"learners": one(device={"kind": "fedrep", "head_steps": 3})},
            r"A\.device\.head_steps: leaves nothing of local_steps \(3\) for the shared layers \(3\)",
        ),
        (
            {"learners": one(device={"kind": "fedrep", "head_epochs": 1})},
            r"A\.device\.head_epochs: is a part of local_epochs, which the learner does not have .*write head_steps",
        ),
        (
            {"learners": one(device={"kind": "fedrep", "head_steps": 1}, aggregation="scaffold")},
            r"A\.device: the aggregation 'scaffold' divides changes by the steps of an update, but not all train all",
        ),
        (
            {"learners": one(device=MIXTURE, aggregation="scaffold")},
            r"A\.device: the aggregation 'scaffold' divides changes by the steps of an update, but devices start from",
        ),
        (
            {"learners": one(device=MIXTURE, aggregation={"kind": "fedavgm", "inner": "scaffold"})},
            r"A\.device: the aggregation 'fedavgm' divides changes by the steps of an update, but devices start from",
        ),
        (
            {"learners": one(device=MIXTURE, aggregation="mifa", schedule={"kind": "halving", "every": 4})},
            r"A\.device: the aggregation 'mifa' divides changes by the step sizes of the schedule, but devices start",
        ),
        (
            {"learners": one(device={"kind": "ditto", "pull": 1}, objective={"kind": "proximal", "mu": 1})},
            r"A\.device: pulls its own model to the version itself",
        ),
        ({"learners": one(device="local_momentum")}, r"A\.device: the learner has no momentum to keep"),
        ({"learners": one(device=FEDPER, aggregation=QFEDAVG)}, rf"A\.device: {LOSSES}, but devices start"),
        ({"learners": one(base="own", aggregation=QFEDAVG)}, rf"A\.base: {LOSSES}, but users start"),
        ({"learners": one(base="own", aggregation="fedawe")}, r"A\.aggregation: needs users that start"),
        ({"learners": one(base="own"), "codec": "sign"}, r"A\.base: the server does not know the models .*codec"),
        (
            {"learners": one(device=FEDPER), "codec": "sign"},
            r"A\.device: leaves layers out of what is sent",
        ),
        ({"learners": one(device=FEDPER), "codec_down": "float16"}, r"A\.device: leaves layers out .*codec_down"),
        (
            {"learners": one(device=FEDPER, aggregation="average_all"), "access": ERASING},
            r"A\.device: leaves layers out of what is sent, but the access erases parts",
        ),
        (
            {"learners": one(base="own", aggregation="average_all"), "access": ERASING},
            r"A\.base: the server does not know the models .* the access erases parts",
        ),
    ],
    ids=str,
)
def test_what_a_rule_cannot_work_with_is_a_located_error(changes, expected):
    with pytest.raises(ScenarioError, match=expected):
        netfl.load(settings(**changes))


@pytest.mark.parametrize(
    "options",
    [
        {"device": MIXTURE, "aggregation": "mifa"},  # with a constant step size: the mean of the last changes
        {"device": MIXTURE, "aggregation": "fedvarp", "schedule": {"kind": "halving", "every": 4}},
        {"device": FEDPER, "aggregation": "scaffold"},  # the shared layers start at the version
        {"device": {"kind": "ditto", "pull": 1}, "aggregation": "scaffold"},
        {"base": "own", "aggregation": "scaffold"},  # the change is that from the own model
        {"device": {"kind": "fedrep", "head_steps": 1}, "aggregation": "support.plugin_devices:Whole"},
    ],
    ids=str,
)
def test_rules_that_take_changes_for_gradients_refuse_no_others(options):
    assert netfl.load(settings(learners=one(**options))).learners["A"]


def test_layers_on_the_device_are_not_sent():
    payloads = netfl.load(settings()).payloads
    for name, payload in payloads.items():
        sent = THETA - HEAD if name in {"FedPer", "FedRep"} else THETA
        assert (payload.uplink_bits, payload.downlink_bits) == (32 * sent, 32 * sent)
    variates = netfl.load(settings(learners=one(device=FEDPER, aggregation="scaffold"))).payloads["A"]
    assert variates.uplink_bits == 32 * 2 * (THETA - HEAD)


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ({}, 0),
        ({"device": FEDPER}, HEAD),
        ({"device": {"kind": "fedrep", "head_steps": 1}}, HEAD),
        ({"device": {"kind": "ditto", "pull": 1}}, THETA + 1),
        ({"device": "local_momentum", "momentum": 0.5}, THETA + 1),
        ({"device": {"kind": "mixture", "share": 0.5}}, THETA + 1),
        ({"base": "own"}, THETA + 1),
        ({"base": "own", "device": FEDPER}, THETA + 1 + HEAD),
    ],
    ids=str,
)
def test_what_devices_keep_is_in_the_forecast_of_memory(options, numbers):
    scenario = netfl.load(settings(learners=one(**options), rounds=1000))
    estimate = MemoryEstimate.of(scenario, (2,), 3, replicas=2)
    assert estimate.device_bytes == 4 * 2 * 8 * numbers


KEEPING = {
    "device": {
        "layers": spec(device=Fedper(), local_steps=2),
        "model": spec(device=Ditto(pull=1), local_steps=2),
        "momentum": spec(device=LocalMomentum(), momentum=0.5, local_steps=2),
    },
    "base": {"own": spec(base="own", local_steps=2)},
}


@pytest.mark.parametrize(("key", "name"), [(key, name) for key, specs in KEEPING.items() for name in specs])
def test_a_saved_state_that_lacks_what_a_device_has_kept_is_an_error(key, name):
    """One device that has delivered has no row, or no device has one."""
    specs = {"plain": spec(local_steps=2), "A": KEEPING[key][name]}
    batched = learner(specs)
    for result in network(0, 4):
        batched.step([result])
    for lacking in (lambda rows: {}, lambda rows: {each: _without_first(kept) for each, kept in rows.items()}):
        state = batched.state()
        state["devices"] = {lane: lacking(rows) for lane, rows in state["devices"].items()}
        expected = rf"learners\.A\.{key}: the saved state lacks what the device of user \d has kept"
        with pytest.raises(ScenarioError, match=expected):
            learner(specs).restore(state)
    learner(specs).restore(batched.state())


def _without_first(kept):
    return {name: column[1:] for name, column in kept.items()}


@pytest.mark.quick_first
@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_is_not_resumed_without_what_its_devices_have_kept(tmp_path, workers):
    folder = tmp_path / "run"
    netfl.run(settings(), folder, progress=False, observer=StopAfter(5))
    content = torch.load(folder / CHECKPOINT, weights_only=True)
    assert content["learner"].pop("devices")
    torch.save(content, folder / CHECKPOINT)
    with pytest.raises(ScenarioError, match=r"learners\.\w+\.(device|base): the saved state lacks .*run the scenario"):
        netfl.resume(folder, progress=False, workers=workers)


def test_a_query_for_norms_is_answered_for_the_change_that_is_sent():
    """The change of personal layers is not sent."""
    specs = {"A": spec(device=Fedper(), local_steps=2)}
    batched = learner(specs)
    batched.step([a_round(1, (0, 0))])
    before = batched.version(0)
    (answers,) = batched.step([replace(a_round(2), queries={"norm": (0,)})]).answers
    batched.step([a_round(3, (0, 2))])
    change = batched.version(0) - before
    assert answers["norm"] == pytest.approx([(change**2).sum() ** 0.5], rel=1e-9)
