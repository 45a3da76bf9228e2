"""Rounds on a GPU, for which a device stands in: results equal those of the CPU, and the host never waits."""

from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from support.learner_factory import DATA, SPLIT, a_round, draw_batches, examples, learner, mixture, network, spec
from support.stand_in_device import StandInDevice

from netfl.learning import learner as learner_module
from netfl.learning import step_graphs, user_data
from netfl.learning.aggregation._per_user_state import store_rows
from netfl.learning.aggregation.afl import Afl
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.fedvarp import Fedvarp
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.blocks import Block
from netfl.learning.cohort import Cohort
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._augment import Augment
from netfl.learning.device.ditto import Ditto
from netfl.learning.device.fedper import Fedper
from netfl.learning.device.fedrep import Fedrep
from netfl.learning.device.local_momentum import LocalMomentum
from netfl.learning.device.mixture import Mixture
from netfl.learning.device_check import DeviceCheck
from netfl.learning.device_draws import philox as device_philox
from netfl.learning.device_store import UserPlaces, UserRows
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model.cnn import Cnn
from netfl.learning.model.logistic import Logistic
from netfl.learning.model.lstm import Lstm
from netfl.learning.model.module import Module
from netfl.learning.objective.cvar import Cvar
from netfl.learning.objective.proximal import Proximal
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.learning.step_graphs import StepGraphs, open_graphs
from netfl.learning.user_data import Augmentation
from netfl.streams import Streams, philox

LEARNERS = {
    "fedavg": {"a": spec()},
    "fed-cvar-avg": {"a": spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1)), "b": spec(Cvar(alpha=0.3, lr_t=0.1))},
    "fedau": {"a": spec(aggregation=Fedau(cutoff=3))},
    "scaffold": {"a": spec(aggregation=Scaffold())},
    "mifa": {"a": spec(aggregation=Mifa())},
    "fedvarp": {"a": spec(aggregation=Fedvarp())},
    "momentum": {"a": spec(momentum=0.5, local_epochs=2), "b": spec(weight_decay=0.1, local_epochs=2)},
    "proximal": {"a": spec(Proximal(mu=0.3))},
    "q-fedavg": {"a": spec(aggregation=Qfedavg(q=2))},
    "afl": {"a": spec(aggregation=Afl(lr_lambda=0.1))},
    "fair": {"a": spec(aggregation=Qfedavg(q=2)), "b": spec(aggregation=Afl(lr_lambda=0.1), lr=0.1)},
    "server momentum": {"a": spec(aggregation=Fedavgm())},
    "mixture": mixture(),
    "devices": {
        "fedper": spec(device=Fedper(), local_epochs=2),
        "fedrep": spec(device=Fedrep(head_epochs=1), local_epochs=2),
        "ditto": spec(device=Ditto(pull=0.5), local_epochs=2),
        "momentum": spec(device=LocalMomentum(), momentum=0.5, local_epochs=2),
        "mixture": spec(device=Mixture(share=0.5), local_epochs=2),
        "own": spec(base="own", local_epochs=2),
    },
}
NEVER = EvaluateSpec(every=10**9)


def run_rounds(batched, replicas, device=None):
    """Run six rounds; return all versions, and the synchronisations of each round."""
    waits = []
    for rounds in zip(*(network(replica) for replica in replicas), strict=True):
        begin = len(device.synchronisations) if device else 0
        batched.step(rounds)
        waits.append(device.synchronisations[begin:] if device else [])
    return np.stack([batched.version(lane) for lane in range(len(batched.lanes))]), waits


@pytest.mark.quick_first
@pytest.mark.parametrize("name", LEARNERS)
def test_a_round_on_a_gpu_never_waits_and_equals_that_of_the_cpu(name):
    options = {"specs": LEARNERS[name], "replicas": (0, 1), "evaluate": NEVER, "rounds": 10**9}
    expected, _ = run_rounds(learner(**options), (0, 1))
    with StandInDevice() as device:
        found, waits = run_rounds(learner(**options, device="meta"), (0, 1), device)
    assert waits == [[]] * 6
    assert device.launches > 100
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


@pytest.mark.parametrize("name", ["fedavg", "fair"])
def test_labels_of_users_are_read_without_waiting(name):
    """The labels of the second replica have other places than its examples, which both replicas share."""
    swapped = [DATA.held_by(SPLIT, [Block("b", np.array([user]), {0: 1, 1: 0})]) for user in (0, 3)]
    options = {"specs": LEARNERS[name], "replicas": (0, 1), "datasets": swapped, "rounds": 10**9}
    expected, _ = run_rounds(learner(**options, evaluate=NEVER), (0, 1))
    with StandInDevice() as device:
        found, waits = run_rounds(learner(**options, evaluate=NEVER, device="meta"), (0, 1), device)
    assert waits == [[]] * 6
    assert found == pytest.approx(expected, rel=0, abs=1e-12)
    plain, _ = run_rounds(learner(**options | {"datasets": [DATA, DATA]}, evaluate=NEVER), (0, 1))
    assert not np.allclose(plain[0], expected[0])
    assert not np.allclose(plain[1], expected[1])
    metrics = learner(**options, evaluate=EvaluateSpec(every=1)).start().metrics
    with StandInDevice():
        on_device = learner(**options, evaluate=EvaluateSpec(every=1), device="meta").start().metrics
    assert "accuracy/block:b" in metrics
    for metric, values in metrics.items():
        assert on_device[metric] == pytest.approx(values, abs=1e-12, nan_ok=True), metric


WAITS = {
    "item": lambda x: x.sum().item(),
    "truth": lambda x: bool(x.any()),
    "list": lambda x: x.tolist(),
    "copy to the host": lambda x: x.cpu(),
    "copy from the host": lambda x: torch.ones(2).to(x.device),
    "copy into": lambda x: x.copy_(torch.ones(2)),
    "number": lambda x: x.new_tensor([1.0]),
    "mask": lambda x: x[x > 0],
    "mask that is written": lambda x: x.__setitem__(x > 0, 0.0),
    "index of the host": lambda x: x[torch.tensor([1, 0])],
    "array of the host": lambda x: x[np.array([1, 0])],
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(),
    "masked select": lambda x: x.masked_select(x > 0),
    "equal": lambda x: torch.equal(x, x),
}


@pytest.mark.parametrize("name", WAITS)
def test_the_stand_in_counts_what_makes_the_host_wait(name):
    with StandInDevice() as device, torch.inference_mode():
        x = torch.tensor([1.0, 2.0]).to("meta", non_blocking=True)
        assert device.synchronisations == []
        (x * 2 + x.flip(0))[:1].clamp(min=0).sort()
        assert device.synchronisations == []
        WAITS[name](x)
    assert len(device.synchronisations) >= 1


def test_the_stand_in_refuses_to_mix_devices():
    with StandInDevice():
        x = torch.ones(2).to("meta")
        with pytest.raises(RuntimeError, match="one device"):
            x + torch.ones(2)


@pytest.mark.parametrize("work", [LocalWork(8, 2, None), LocalWork(None, None, 3), LocalWork(5, None, 11)])
@pytest.mark.parametrize("sizes", [(23, 7, 1, 59), (16, 16, 16, 16), (4, 9, 3, 2)])
def test_a_gpu_draws_the_mini_batches_of_the_host(work, sizes):
    """Bases and users use large numbers, and one user repeats its base."""
    streams = [Streams(7), Streams(2**40)]
    rows = np.transpose([[0, 0, 1, 1], [3, 2**31 + 5, 0, 0], [9, 2**30, 0, 0], sizes])
    repeats = np.array([0, 0, 0, 1])
    expected = draw_batches(BatchSampler(streams), rows, work, repeats)
    with StandInDevice() as device:
        found = draw_batches(BatchSampler(streams, torch.device("meta")), rows, work, repeats)
        assert device.synchronisations == []
        assert found.order.tolist() == expected.order.tolist()
        assert found.counts.tolist() == expected.counts.tolist()
        assert found.places.tolist() == expected.places.tolist()


@pytest.mark.parametrize("augment", [Augment(crop=4), Augment(crop=2, flip=False)])
@pytest.mark.parametrize("work", [LocalWork(8, 2, None), LocalWork(5, None, 11)])
def test_a_gpu_draws_the_crops_and_flips_of_the_host(work, augment):
    """Users have unequal mini-batches, bases and users use large numbers, and one user repeats its base."""
    streams = [Streams(7), Streams(2**40)]
    rows = np.transpose([[0, 0, 1, 1], [3, 2**31 + 5, 0, 0], [9, 2**30, 0, 0], [23, 7, 1, 59]])
    repeats = np.array([0, 0, 0, 1])
    cohort = Cohort(*rows.T[:3], (), repeats)
    batches = draw_batches(BatchSampler(streams), rows, work, repeats)
    expected = Augmentation(augment, (3, 8, 8), streams, torch.device("cpu")).draw(cohort, batches)
    with StandInDevice() as device:
        on_device = Augmentation(augment, (3, 8, 8), streams, torch.device("meta"))
        device.synchronisations.clear()
        found = on_device.draw(cohort, batches)
        assert device.synchronisations == []
        assert found.shape == batches.places.swapaxes(0, 1).shape
        assert torch.equal(found.cpu(), expected)


@pytest.mark.slow
def test_crops_and_flips_on_a_gpu_are_drawn_there(monkeypatch):
    """A round uploads no number for each example; its versions are those of the CPU."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((120, 2, 4, 5)).astype(np.float32), rng.integers(3, size=120)
    data = Dataset(x[:90], y[:90], x[90:], y[90:], 3, augment=Augment(crop=1))
    options = {"specs": {"a": spec()}, "datasets": [data], "model": Logistic(), "evaluate": NEVER, "rounds": 99}
    expected, _ = run_rounds(learner(**options), (0,))
    monkeypatch.setattr(user_data, "RandomField", None)
    with StandInDevice() as device:
        found, waits = run_rounds(learner(**options, device="meta"), (0,), device)
    assert waits == [[]] * 6
    assert found == pytest.approx(expected, rel=0, abs=1e-12)


def test_philox_of_tensors_equals_that_of_arrays():
    """Words with the highest bits set overflow int64 when they are multiplied."""
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (6, 1000), dtype=np.uint64)
    words[:, :2] = 0, 2**32 - 1
    expected = philox([*words[:4]], (words[4], words[5]))
    *counter, first, second = torch.from_numpy(words.astype(np.int64))
    found = device_philox(counter, (first, second))
    assert np.array_equal(np.stack(expected).astype(np.int64), torch.stack(found).numpy())


LAUNCHES = {
    Relay(): 0,
    Average(): 3,
    Fedau(cutoff=50): 20,
    Mifa(): 16,
    Fedvarp(): 13,
    Scaffold(): 24,
    Qfedavg(q=1): 24,
    Afl(lr_lambda=0.1): 16,
    Fedavgm(): 8,
}
"""The launches of a lane in a round whose steps and draws are recorded."""


class RepeatedCall:
    """Stands in for a CUDA graph: replays a function in Python, on the memory with which it was recorded.

    Args:
        function: the recorded function.
        device: counts a replay as one launch.
    """

    def __init__(self, function, device=None):
        self._function, self._device, self.output, self.replays = function, device, function(), 0

    def replay(self):
        before = self._device and self._device.launches
        self.replays += 1
        self.output.copy_(self._function())
        if self._device:
            self._device.launches = before + 1


def count_launches(rule, lanes, monkeypatch):
    """Count the launches of a round in which each lane has the same deliveries.  Steps and draws are recorded."""
    with StandInDevice() as device:
        graphs = StepGraphs(partial(RepeatedCall, device=device))
        monkeypatch.setattr(learner_module, "open_graphs", lambda _: graphs)
        specs = {str(lane): spec(aggregation=rule, local_steps=1) for lane in range(lanes)}
        batched = learner(specs, evaluate=NEVER, rounds=99, device="meta")
        for index in (1, 2, 3):
            before = device.launches
            users = range(1 if isinstance(rule, Relay) else 3)
            batched.step([a_round(index, *((user, index - 1) for user in users))])
    return device.launches - before


@pytest.mark.slow
@pytest.mark.parametrize("rule", LAUNCHES, ids=lambda rule: type(rule).__name__)
def test_the_launches_of_a_round_grow_by_few_for_each_lane(rule, monkeypatch):
    few, many = (count_launches(rule, lanes, monkeypatch) for lanes in (2, 6))
    assert few < 130
    assert many - few <= 4 * LAUNCHES[rule]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lstm", "convolutions"])
def test_all_steps_of_a_module_are_recorded_as_one_launch(name, monkeypatch):
    """The cells of the LSTM are unrolled: its steps have hundreds of launches, or thousands for long rows."""
    launches = {}
    for steps in (1, 3):
        with StandInDevice() as device:
            graphs = StepGraphs(partial(RepeatedCall, device=device))
            monkeypatch.setattr(learner_module, "open_graphs", lambda _, graphs=graphs: graphs)
            batched = learner({"a": spec(local_steps=steps)}, **module_options(name), device="meta")
            for index in (1, 2, 3):
                before = device.launches
                batched.step([a_round(index, (3, index - 1))])
                launches[steps, index] = device.launches - before
    per_step = (launches[3, 1] - launches[1, 1]) // 2
    assert per_step > (400 if name == "lstm" else 30)
    assert launches[1, 3] == launches[3, 3] < 70


@pytest.mark.parametrize("sizes", [(23, 7, 1, 59), (16, 16, 16, 16)])
def test_recorded_draws_equal_those_of_the_host(sizes):
    """Rounds with other users and bases replay the draws of the second one, each as one launch."""
    streams, work = [Streams(7), Streams(2**40)], LocalWork(8, 2, None)
    host, augment = BatchSampler(streams), Augment(crop=4)
    on_host = Augmentation(augment, (3, 8, 8), streams, torch.device("cpu"))
    with StandInDevice() as device:
        graphs = StepGraphs(partial(RepeatedCall, device=device))
        sampler = BatchSampler(streams, torch.device("meta"), graphs)
        on_device, launches = Augmentation(augment, (3, 8, 8), streams, torch.device("meta"), graphs), []
        for base in range(4):
            rows = np.transpose([[0, 0, 1, 1], [3, 2**31 + 5, base, 1], [9 + base, 2**30, base, 0], sizes])
            cohort, expected = Cohort(*rows.T[:3], ()), draw_batches(host, rows, work)
            before = device.launches
            device.synchronisations.clear()
            found = draw_batches(sampler, rows, work)
            moves = on_device.draw(cohort, found)
            launches.append(device.launches - before)
            assert device.synchronisations == []
            assert found.places.tolist() == expected.places.tolist()
            assert torch.equal(moves.cpu(), on_host.draw(cohort, expected))
    assert launches[0] > 200
    assert launches[2] == launches[3] < 20


def test_a_gpu_finds_the_first_broken_update_of_each_lane():
    """Lane 2m + r is learner m in replica r.  The updates of lane 3 are finite, and lane 4 has none."""
    rounds = [a_round(1, (5, 0), (2, 0), (7, 0)), a_round(1, (4, 0), (6, 0))]
    cohort, check = Cohort.of(rounds), DeviceCheck(5, torch.device("cpu"))
    lanes = np.array([0, 2])[None] + cohort.replicas[:, None]
    models = torch.zeros(5, 2, 4)
    models[[1, 2], 0, 1], models[0, 1, 3], models[4, 0, 2] = torch.inf, torch.nan, torch.nan
    check.add_updates(lanes, cohort, torch.from_numpy(cohort.users), models)
    versions = torch.zeros(5, 4)
    versions[[0, 1, 2, 4]] = torch.nan
    assert check.accept_finite(versions, torch.ones(5, 4), 1).sum(1).tolist() == [4, 4, 4, 0, 4]
    assert [*check.diverged()] == [(0, 1, 2), (1, 1, 6), (2, 1, 5), (4, 1, -1)]


@pytest.mark.slow
@pytest.mark.parametrize("learners", [1, 3])
def test_an_evaluation_and_a_query_read_the_device_once(learners):
    """Before its values, an evaluation reads which lanes have diverged."""
    data = [examples(seed) for seed in (0, 1)]
    options = {
        "specs": {str(number): spec(aggregation=Fedau()) for number in range(learners)},
        "replicas": (0, 1),
        "datasets": [replace(each, test_sets={"same": Examples(each.test_x, each.test_y)}) for each in data],
        "validation": [Examples(each.test_x, each.test_y, np.arange(30) % 4) for each in data],
        "evaluate": EvaluateSpec(every=2, metrics=("staleness", "weight", "gradient_norm", "weight_divergence")),
        "feedback_learner": "0",
    }
    rounds = [[replace(a_round(1, (0, 0)), queries={"loss": (1, 2), "norm": (0,)})] * 2, [a_round(2, (3, 1))] * 2]
    expected = [*map(learner(**options).step, rounds)]
    reads = []
    with StandInDevice() as device:
        batched = learner(**options, device="meta")
        for current, of_cpu in zip(rounds, expected, strict=True):
            begin = len(device.synchronisations)
            report = batched.step(current)
            reads.append(len(device.synchronisations) - begin)
            assert report.metrics.keys() == of_cpu.metrics.keys()
            for name, values in of_cpu.metrics.items():
                assert report.metrics[name] == pytest.approx(values, abs=1e-12, nan_ok=True), name
            for found, answers in zip(report.answers, of_cpu.answers, strict=True):
                assert {key: values.tolist() for key, values in found.items()} == {
                    key: pytest.approx(values, abs=1e-12) for key, values in answers.items()
                }
    assert reads == [2, 2]


@pytest.mark.slow
def test_evaluations_and_checkpoints_on_a_gpu_equal_those_of_the_cpu():
    options = {"specs": mixture() | LEARNERS["afl"], "replicas": (0, 1), "evaluate": EvaluateSpec(every=3)}
    on_cpu = learner(**options)
    with StandInDevice():
        batched, resumed = learner(**options, device="meta"), learner(**options, device="meta")
        for rounds in zip(network(0), network(1), strict=True):
            expected, found = on_cpu.step(rounds), batched.step(rounds)
            assert found.metrics.keys() == expected.metrics.keys()
            for name, values in expected.metrics.items():
                assert found.metrics[name] == pytest.approx(values, abs=1e-12, nan_ok=True), name
        resumed.restore(on_cpu.state())
        assert np.array_equal(resumed.version(3), on_cpu.version(3))


def rows_of(users, table, device="cpu"):
    """Return rows of *users* with the values of a *table*, on a device."""
    rows = UserRows(table.to(device), UserPlaces(len(users)))
    rows.restore(users, table)
    return rows


@pytest.mark.parametrize("has_repeats", [True, False])
def test_an_update_of_a_repeated_user_counts_once_in_the_table_of_users(has_repeats):
    rows, users = torch.randn(4, 3, dtype=torch.float64), torch.tensor([2, 0, 2 if has_repeats else 4, 1])
    table, mean = torch.randn(5, 3, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    everyone = torch.arange(len(table))
    expected = store_rows({"last": rows_of(everyone, table), "mean": mean}, users, rows)
    with StandInDevice() as device:
        state = {"last": rows_of(everyone, table, "meta"), "mean": mean.to("meta")}
        arguments, begin = (users.to("meta"), rows.to("meta")), len(device.synchronisations)
        found = store_rows(state, *arguments, has_repeats)
        assert len(device.synchronisations) == begin
        assert torch.allclose(found["mean"].cpu(), expected["mean"], rtol=0, atol=1e-14)
        assert torch.equal(found["last"][everyone.to("meta")].cpu(), expected["last"][everyone])


WILD = {"calm": spec(), "wild": spec(lr=1e200, local_steps=3), "wild fair": spec(aggregation=Qfedavg(q=1.0), lr=1e200)}


@pytest.mark.slow
def test_a_divergence_on_a_gpu_is_found_at_the_evaluation_and_names_its_round_and_user():
    rounds = [a_round(1), a_round(2, (3, 1), (1, 0)), a_round(3, (0, 2)), a_round(4, (1, 3))]
    options = {"evaluate": EvaluateSpec(every=4), "rounds": 10}
    on_cpu = learner(WILD, **options)
    expected = [on_cpu.step([current]).diverged for current in rounds]
    with StandInDevice() as device:
        batched = learner(WILD, **options, device="meta")
        begin = len(device.synchronisations)
        found = [batched.step([current]).diverged for current in rounds[:3]]
        assert len(device.synchronisations) == begin
        found.append(batched.step([rounds[3]]).diverged)
        versions = [batched.version(lane) for lane in range(3)]
        resumed = learner(WILD, **options, device="meta")
        resumed.restore(batched.state())
        assert resumed.diverged == batched.diverged
        assert resumed.step([a_round(5, (2, 4))]).diverged == ()
    assert found[:3] == [()] * 3
    assert len(found[3]) == 2
    assert sorted(map(repr, found[3])) == sorted(repr(lost) for lots in expected for lost in lots)
    for lane, version in enumerate(versions):
        assert version == pytest.approx(on_cpu.version(lane), abs=1e-12)


MODULES = {
    "convolutions": (Cnn(channels=(2,), hidden=(4,)), (1, 8, 8)),
    "dropout": (Module(module="support.training_modules:Dropped"), (4,)),
    "lstm": (Lstm(embedding=2, hidden=3), (8,)),
}
TOKENS = 5


def module_options(name):
    """Return the options of `learner` for a module and random examples, which are tokens for the LSTM."""
    model, shape = MODULES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(TOKENS, size=(120, *shape)) if name == "lstm" else rng.standard_normal((120, *shape))
    x, y = x.astype(np.float32), rng.integers(3, size=120)
    data, tokens = Dataset(x[:90], y[:90], x[90:], y[90:], 3), TOKENS if name == "lstm" else None
    return {"datasets": [data], "model": model, "tokens": tokens, "evaluate": NEVER, "rounds": 99}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODULES)
def test_modules_under_autograd_never_wait(name):
    options = module_options(name) | {"specs": {"a": spec(), "b": spec(Cvar(alpha=0.3, lr_t=0.1))}}
    expected, _ = run_rounds(learner(**options), (0,))
    with StandInDevice() as device:
        found, waits = run_rounds(learner(**options, device="meta"), (0,), device)
    assert waits == [[]] * 6
    assert found == pytest.approx(expected, rel=0, abs=1e-10)


@pytest.mark.parametrize("name", ["fed-cvar-avg", "momentum", "scaffold", "mixture", "devices"])
def test_recorded_steps_equal_direct_ones(name, monkeypatch):
    """Rounds with equal numbers of deliveries have graphs of one shape, which are recorded once."""
    recorded, inputs = [], []

    def record(function):
        recorded.append(RepeatedCall(function))
        return recorded[-1]

    def run(self, key, function, values):
        result = original(self, key, function, values)
        inputs.extend(graph.inputs for graph in self._graphs.values() if graph is not None)
        return result

    original = StepGraphs.run
    monkeypatch.setattr(StepGraphs, "run", run)
    rounds = [[a_round(index, (index % 4, index - 1), ((index + 1) % 4, index - 1))] for index in range(1, 13)]
    versions = []
    for graphs in (None, StepGraphs(record)):
        monkeypatch.setattr(learner_module, "open_graphs", lambda _, graphs=graphs: graphs)
        batched = learner(LEARNERS[name], evaluate=NEVER, rounds=99)
        for current in rounds:
            batched.step(current)
        versions.append(np.stack([batched.version(lane) for lane in range(len(batched.lanes))]))
    assert np.array_equal(*versions)
    assert 0 < len(recorded) < sum(graph.replays for graph in recorded)
    kept = {tuple(id(value) for value in values) for values in inputs}
    assert len(kept) == len(recorded)  # the inputs of a graph lie where they were recorded


def test_steps_that_cannot_be_recorded_run_directly(caplog):
    def record(function):
        raise RuntimeError("operation not permitted when stream is capturing")

    graphs = StepGraphs(record)
    values = [graphs.run("key", torch.neg, [torch.tensor([float(number)])]).item() for number in range(4)]
    assert values == [0, -1, -2, -3]
    assert caplog.text.count("operation not permitted") == 1


def test_graphs_are_kept_by_shape_and_the_oldest_is_dropped(monkeypatch):
    monkeypatch.setattr(step_graphs, "_CAPACITY", 2)
    sizes = []

    def record(function):
        sizes.append(len(function()))
        return RepeatedCall(function)

    graphs = StepGraphs(record)
    for size in (1, 1, 2, 2, 1, 3, 3, 1, 2, 2):
        assert graphs.run("key", torch.neg, [torch.ones(size)]).tolist() == [-1] * size
    assert sizes == [1, 2, 3, 2]


def test_a_cuda_graph_is_recorded_and_replayed_on_its_device(monkeypatch):
    """PyTorch's objects are replaced by ones that record the order of calls."""
    calls = []

    class Recorder:
        def __init__(self, name="graph"):
            self.name = name

        def __getattr__(self, method):
            return lambda *_: calls.append((self.name, method))

    @contextmanager
    def context(name, *_, **options):
        calls.append((name, "begin", *options.values()))
        yield
        calls.append((name, "end"))

    class Generator(Recorder):
        def get_state(self):
            return "values"

    for name, value in {
        "current_device": lambda: 0,
        "default_generators": (Generator("generator"),),
        "device": partial(context, "device"),
        "stream": partial(context, "stream"),
        "graph": partial(context, "capture"),
        "current_stream": lambda: Recorder("current"),
        "Stream": lambda: Recorder("side"),
        "CUDAGraph": Recorder,
        "graph_pool_handle": lambda: "pool",
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    graphs = open_graphs(torch.device("cuda:1"))
    for _ in range(3):
        graphs.run("key", lambda x: (calls.append(("function", "call")), x + 1)[1], [torch.ones(2)])
    function = ("function", "call")
    recording = [("device", "begin"), ("side", "wait_stream"), ("stream", "begin"), function, ("stream", "end")]
    recording += [("current", "wait_stream"), ("capture", "begin", "pool"), function, ("capture", "end")]
    replay = [("device", "begin"), ("graph", "replay"), ("device", "end")]
    assert calls == [function, *recording, ("device", "end"), *replay, *replay]
    assert open_graphs(torch.device("cpu")) is None


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@needs_cuda
@pytest.mark.parametrize("name", LEARNERS)
def test_a_real_gpu_computes_the_versions_of_the_cpu(name):
    options = {"specs": LEARNERS[name], "replicas": (0, 1), "evaluate": NEVER, "rounds": 10**9}
    expected, _ = run_rounds(learner(**options), (0, 1))
    on_gpu = learner(**options, device="cuda")
    found, _ = run_rounds(on_gpu, (0, 1))
    assert on_gpu.gpu == torch.cuda.get_device_name(0)
    assert found == pytest.approx(expected, rel=0, abs=1e-10)


@needs_cuda
@pytest.mark.parametrize("name", ["lstm", "convolutions", "dropout"])
def test_a_real_gpu_trains_modules_as_the_cpu_does(name, caplog):
    options = {"specs": {"a": spec(local_steps=3)}, **module_options(name)}
    ends = []
    for device in ("cpu", "cuda"):
        batched = learner(**options, device=device)
        for index in range(1, 6):
            batched.step([a_round(index, (3, index - 1))])
        ends.append(batched.version(0))
    assert caplog.text == ""
    if name != "dropout":  # its draws are those of the device
        assert ends[1] == pytest.approx(ends[0], rel=0, abs=1e-9)


@needs_cuda
def test_graphs_that_are_freed_do_not_end_a_recording():
    """A cycle keeps the graphs of an earlier learner until Python collects garbage."""
    device = torch.device("cuda")
    for _ in range(3):
        graphs = open_graphs(device)
        graphs.itself = graphs

        def litter(x):
            for _ in range(3000):
                [].append(cycle := [])
                cycle.append(cycle)
            return x + 1

        for value in (1.0, 2.0, 3.0):
            found = graphs.run("key", litter, [torch.full((2,), value, device=device)])
            assert found.tolist() == [value + 1] * 2
        assert graphs._is_usable
        del graphs


@needs_cuda
def test_after_a_recording_that_fails_all_is_computed_directly(caplog):
    """Draws of PyTorch's generator go on, too."""
    device = torch.device("cuda")
    torch.cuda.manual_seed(5)
    torch.rand(3, device=device)
    expected = torch.rand(3, device=device)
    torch.cuda.manual_seed(5)
    torch.rand(3, device=device)
    graphs = open_graphs(device)
    before = torch.cuda.get_rng_state()

    def read(x):
        return x + float(x.sum())

    for value in (1.0, 2.0, 3.0):
        assert graphs.run("key", read, [torch.full((2,), value, device=device)]).tolist() == [3 * value] * 2
    assert "is not recorded as a CUDA graph" in caplog.text
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert torch.equal(torch.rand(3, device=device), expected)
    assert float(torch.ones(3, device=device).sum()) == 3
