"""Modules in training mode compared with plain PyTorch: buffers, dropout, draws, frozen parameters, losses, targets."""

import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from support.learner_factory import a_round, network, spec
from support.plain_loops import (
    DATA,
    PLACE,
    SIZES,
    SPLIT,
    average,
    dataset,
    learners_of,
    module,
    shuffles_of,
    start_module,
    train_plainly,
    values_of,
)
from support.training_modules import Dropped, Normed, focal, pinball
from torch import nn
from torch.nn import functional

from netfl.errors import ScenarioError
from netfl.learning.aggregation import Aggregation
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.average_received import AverageReceived
from netfl.learning.aggregation.fedadam import Fedadam
from netfl.learning.aggregation.fedasync import Fedasync
from netfl.learning.aggregation.fedau import Fedau
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.relay import Relay
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.architecture import ModuleArchitecture, SequentialModels, VmappedModels
from netfl.learning.codec import Codecs
from netfl.learning.codec.rand_k import RandK
from netfl.learning.cohort import Cohort
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model._losses import find_loss
from netfl.learning.model.module import Module
from netfl.learning.module_training import KeyedDropout, ModuleParts, TrainingStep
from netfl.learning.objective.cvar import Cvar
from netfl.streams import Streams
from netfl.types import Delivery


@pytest.mark.quick_first
@pytest.mark.parametrize(
    ("name", "shape"), [("Normed", (4,)), ("NormedImages", (1, 2, 2)), ("HalfFrozen", (4,)), ("Centred", (4,))]
)
def test_rounds_of_fedavg_equal_a_loop_in_pytorch(name, shape):
    """Three users have smaller last mini-batches, and their running statistics are averaged."""
    data, model = dataset(shape), module(name)
    made = learners_of(model, {"A": spec(lr=0.1, batch_size=6, local_epochs=2)}, data)
    streams, work = Streams(5).at(0), spec(batch_size=6, local_epochs=2).local_work
    net = start_module(model, streams.at("start"))
    frozen = {key: part.clone() for key, part in ModuleParts.of(made._architecture.module).fixed.items()}
    net.load_state_dict({**net.state_dict(), **{key: part.double() for key, part in frozen.items()}})
    made.start()
    for index, users in enumerate(((0, 1, 3), (1, 2), (3, 0)), start=1):
        made.step([a_round(index, *((user, index - 1) for user in users))])
        nets = [
            train_plainly(net, shuffles_of(made, user, index - 1, work), data, functional.cross_entropy)
            for user in users
        ]
        if name == "Centred":
            for each in nets:
                each.calls.zero_()
        net = average(nets, [SIZES[user] for user in users], net)
        assert made.version(0)[:-1] == pytest.approx(values_of(net), abs=1e-12)
    scores = net.eval()(torch.from_numpy(data.test_x).double())
    report = made._metrics.evaluate(made._versions.newest, 3, 3)
    assert report["loss"][0] == pytest.approx(functional.cross_entropy(scores, torch.from_numpy(data.test_y)).item())
    assert report["accuracy"][0] == np.mean(scores.argmax(1).numpy() == data.test_y)


def test_frozen_parameters_are_neither_trained_nor_sent():
    architecture = module("HalfFrozen").open((4,), 3)
    assert [*architecture.layout] == ["3.weight", "3.bias", "1.running_mean", "1.running_var"]
    assert architecture.size == 18 + 3 + 6 + 6
    assert architecture.buffers == 12


def test_statistics_of_an_update_without_weight_are_sent_nevertheless():
    """A loss far below t has weight 0: no step is made, but the batches were seen."""
    model = module("Normed")
    made = learners_of(model, {"A": spec(Cvar(alpha=0.5, gamma=0.0, lr_t=1e-9), lr=0.1, batch_size=6)})
    made._versions.newest[:, -1] = 1e6
    before = made.version(0)
    made.start()
    made.step([a_round(1, (0, 0))])
    change = made.version(0) - before
    parts = ModuleParts.of(Normed())
    parameters = sum(part.numel() for part in parts.trained.values())
    assert not change[:parameters].any()
    assert (change[parameters:-1] != 0).all()


def test_dropout_keeps_a_hash_of_exactly_p(monkeypatch):
    """Of 2^32 hashes, those from p 2^32 on are kept, a share of 1 - p."""
    monkeypatch.setattr("netfl.learning.module_training._mix", lambda words: torch.tensor([2**31 - 1, 2**31]))
    with KeyedDropout(torch.tensor(0)):
        assert functional.dropout(torch.ones(2), 0.5).tolist() == [0.0, 2.0]


def test_fixed_parts_and_counters_follow_the_device():
    parts = ModuleParts.of(Normed()).on(torch.empty(0, device="meta"))
    assert parts.counters
    assert all(part.is_meta for part in [*parts.counters.values(), *parts.fixed.values()])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Relay(), lambda current, sent, _: sent[0]),
        (Scaffold(), lambda current, sent, sizes: sizes @ sent),
        (Mifa(), lambda current, sent, sizes: sizes @ sent),
        (Fedadam(server_lr=0.5), lambda current, sent, sizes: sizes @ sent),
        (Fedau(server_lr=30), lambda current, sent, sizes: sizes @ sent),
        (Qfedavg(q=1), lambda current, sent, sizes: sizes @ sent),
        (Fedasync(alpha=0.3), lambda current, sent, _: 0.7 * (0.7 * current + 0.3 * sent[0]) + 0.3 * sent[-1]),
    ],
)
def test_buffers_are_averaged_whatever_the_rule_of_the_parameters(rule, expected):
    users = (0,) if isinstance(rule, Relay) else (0, 3)
    made = learners_of(module("Normed"), {"A": spec(aggregation=rule, lr=0.1, batch_size=6)})
    buffers = slice(-13, -1)
    current = made.version(0)[buffers]
    delivered = []
    for user in users:
        single = learners_of(module("Normed"), {"A": spec(aggregation=Relay(), lr=0.1, batch_size=6)})
        single.start()
        single.step([a_round(1, (user, 0))])
        delivered.append(single.version(0)[buffers])
    made.start()
    made.step([a_round(1, *((user, 0) for user in users))])
    sizes = np.array([SIZES[user] for user in users]) / sum(SIZES[user] for user in users)
    following = pytest.approx(expected(current, np.stack(delivered), sizes), abs=1e-12)
    assert made.version(0)[buffers] == following
    made.step([a_round(2)])
    assert made.version(0)[buffers] == following


class Moved(Aggregation):
    """A rule of a user: the version moves by the mean change; buffers are those of the family."""

    accepts_parts: ClassVar[bool] = True

    def step(self, state, current, updates):
        return current + (updates.models - updates.bases).mean(0), state


@pytest.mark.parametrize(
    ("rule", "codec"),
    [
        (AverageAll(), None),
        (AverageAll(), RandK(share=0.5)),
        (AverageReceived(), None),
        (Moved(), None),
        (Fedavgm(inner=AverageAll()), None),
    ],
)
def test_lost_buffers_count_as_those_of_the_current_version(rule, codec):
    """One user starts from version 0: its buffers are lost as a whole, and those of version 3 stay."""
    specs = {"A": spec(aggregation=rule, batch_size=6)}
    made = learners_of(module("Normed"), specs, loses_parts=True, codecs=Codecs(codec))
    made.start()
    buffers = slice(-13, -1)
    for index in (1, 2, 3):
        made.step([a_round(index, (0, index - 1), (1, index - 1))])
    current = made.version(0)[buffers]
    old = Delivery(user=0, base=0, sent_s=0.0, arrived_s=1.0, received=(True, *[False] * 7))
    made.step([replace(a_round(4), deliveries=(old,))])
    assert made.version(0)[buffers] == pytest.approx(current, abs=1e-12)


SEVERAL = {
    "a": spec(lr=0.1, batch_size=6),
    "b": spec(Cvar(alpha=0.3, gamma=0.2, lr_t=0.1), lr=0.2, batch_size=6),
    "c": spec(lr=0.05, batch_size=6, local_steps=3),
    "d": spec(aggregation=Scaffold(), lr=0.1, batch_size=6),
}


@pytest.mark.quick_first
@pytest.mark.parametrize("name", ["Normed", "Dropped", "Noisy", "Branching", "Centred"])
def test_lanes_side_by_side_equal_one_lane_alone(name):
    """Also if their users do different numbers of steps, and if some are trained by vmap and some one by one."""
    model = module(name)
    together = learners_of(model, SEVERAL, replicas=(0, 1))
    alone = {
        (key, replica): learners_of(model, {key: value}, replicas=(replica,), streams=[Streams(5).at(replica)])
        for key, value in SEVERAL.items()
        for replica in (0, 1)
    }
    rounds = [[*network(replica, 4)] for replica in (0, 1)]
    together.start()
    for each in alone.values():
        each.start()
    for index in range(4):
        together.step([rounds[0][index], rounds[1][index]])
        for (_, replica), each in alone.items():
            each.step([rounds[replica][index]])
    for lane, (key, replica) in enumerate(together.lanes):
        assert together.version(lane) == pytest.approx(alone[key, replica].version(0), abs=1e-10)
    assert np.ptp([together.version(lane)[0] for lane in range(len(together.lanes))]) > 1e-3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Normed", None),
        ("NormedImages", None),
        ("Dropped", None),
        ("Centred", None),
        ("Noisy", "random numbers other than those of a dropout"),
        ("Branching", "torch.func cannot batch it"),
    ],
)
def test_the_reason_for_training_one_by_one_is_stated(name, reason):
    data = dataset((1, 2, 2)) if name == "NormedImages" else DATA
    method = learners_of(module(name), {"a": spec(batch_size=6)}, data).training_method
    if reason is None:
        assert "in batches" in method
    else:
        assert method.startswith("its models are trained one after the other: ")
        assert reason in method


def test_a_plain_module_has_nothing_to_report():
    assert learners_of(module("Regressor", outputs=3), {"a": spec()}).training_method == ""


@pytest.mark.slow
def test_resumed_learning_equals_uninterrupted_learning():
    model = module("Dropped")
    whole, first, second = (learners_of(model, SEVERAL) for _ in range(3))
    rounds = [*network(1, 6)]
    for each in (whole, first):
        each.start()
    for round_ in rounds:
        whole.step([round_])
    for round_ in rounds[:3]:
        first.step([round_])
    second.restore(copy.deepcopy(first.state()))
    for round_ in rounds[3:]:
        second.step([round_])
    for lane in range(len(SEVERAL)):
        assert whole.version(lane).tolist() == second.version(lane).tolist()


def test_noise_equals_that_of_a_generator_started_at_the_key_of_each_step():
    made = learners_of(module("Noisy"), {"A": spec(aggregation=Relay(), lr=0.1, batch_size=6)})
    work, net = spec(batch_size=6).local_work, start_module(module("Noisy"), Streams(5).at(0).at("start")).train()
    cohort = Cohort(np.array([0]), np.array([3]), np.array([0]), ())
    keys = made._sampler.draw_keys(cohort, made._sampler.draw(cohort, np.array([SIZES[3]]), work))[:, 0]
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    with torch.random.fork_rng(devices=[]):
        for key, rows in zip(keys.tolist(), shuffles_of(made, 3, 0, work), strict=True):
            torch.manual_seed(key)
            optimiser.zero_grad()
            scores = net(torch.from_numpy(DATA.train_x[rows]).double())
            functional.cross_entropy(scores, torch.from_numpy(DATA.train_y[rows])).backward()
            optimiser.step()
    made.start()
    made.step([a_round(1, (3, 0))])
    assert made.version(0)[:-1] == pytest.approx(values_of(net), abs=1e-12)


def test_keys_differ_by_seed_user_base_repeat_and_step_and_not_by_the_cohort():
    sampler, work = BatchSampler([Streams(1), Streams(2)]), spec(batch_size=6).local_work

    def keys(rows):
        replicas, users, bases, repeats = np.array(rows).T
        cohort = Cohort(replicas, users, bases, (), repeats)
        batches = sampler.draw(cohort, np.array([SIZES[user] for user in users]), work)
        return {
            (*rows[place], step): key
            for column, place in zip(sampler.draw_keys(cohort, batches).T.tolist(), batches.order, strict=True)
            for step, key in enumerate(column)
        }

    rows = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 7, 0), (0, 3, 0, 0), (1, 0, 0, 0)]
    together = keys(rows)
    assert len(set(together.values())) == len(together)
    assert all(0 <= key < 1 << 62 for key in together.values())
    for row in rows:
        alone = keys([row])
        assert alone == {name: together[name] for name in alone}


@pytest.mark.parametrize("name", ["Dropped", "Noisy"])
def test_draws_depend_on_seed_user_and_step_and_leave_the_global_generator(name):
    before = torch.get_rng_state()

    def updated(seed, user, base=0):
        made = learners_of(module(name), {"a": spec(aggregation=Relay(), lr=0.1)}, streams=[Streams(seed).at(0)])
        made._versions.newest[:] = 0.3
        made.start()
        for index in range(1, base + 1):
            made.step([a_round(index)])
        made.step([a_round(base + 1, (user, base))])
        return made.version(0)

    same, first, other_seed, later = updated(1, 0), updated(1, 0), updated(2, 0), updated(1, 0, 1)
    assert same.tolist() == first.tolist()
    assert not np.allclose(first, other_seed)
    assert not np.allclose(first, later)
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_keeps_its_share_and_scale_independently_of_key_call_and_place():
    size, p, masks = 20_000, 0.3, []
    for key in (0, 1, 5 << 32, (1 << 62) - 1):
        with KeyedDropout(torch.tensor(key)) as mode:
            masks += [functional.dropout(torch.ones(size, dtype=torch.float64), p) for _ in range(2)]
        assert mode.calls == 2
    kept = torch.stack(masks).gt(0).double()
    assert torch.stack(masks).unique().tolist() == pytest.approx([0, 1 / 0.7])
    assert (kept.mean(1) - 0.7).abs().max() < 4 * (0.21 / size) ** 0.5
    correlation = torch.corrcoef(kept) - torch.eye(len(kept))
    assert correlation.abs().max() < 4.5 / size**0.5
    for lag in (1, 2, 64, 1024):
        pair = torch.corrcoef(torch.stack([kept[0][:-lag], kept[0][lag:]]))[0, 1]
        assert abs(pair) < 4.5 / size**0.5


def test_dropout_of_channels_drops_whole_channels():
    with KeyedDropout(torch.tensor(7)) as mode:
        dropped = functional.dropout2d(torch.ones(40, 30, 2, 3), 0.5)
        assert torch.equal(functional.dropout(torch.ones(3), 0.5, training=False), torch.ones(3))
        assert not functional.dropout(torch.ones(3), 1.0).any()
    assert mode.calls == 1
    assert (dropped.flatten(2).std(2) == 0).all()
    assert dropped[..., 0, 0].gt(0).double().mean() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("kind", [SequentialModels, VmappedModels])
def test_padding_does_not_reach_the_statistics(kind):
    architecture = ModuleArchitecture(Normed(), lambda _: np.zeros(0))
    theta = torch.randn((3, architecture.size), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    theta[:, -6:] = theta[:, -6:].abs()
    x = torch.randn((3, 5, 4), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y, counts = torch.zeros((3, 5), dtype=torch.int64), [5, 3, 2]
    after = []
    for filler in (0.0, 1e3):
        padded = x.clone()
        for job, count in enumerate(counts):
            padded[job, count:] = filler
        models = kind(theta, architecture.function)
        with torch.inference_mode():
            models.training_scores(padded, TrainingStep(counts, torch.zeros(3, dtype=torch.int64)))
            models.losses(y)
            weights = torch.tensor([[0.1] * count + [0.0] * (5 - count) for count in counts], dtype=torch.float64)
            models.descend(weights)
            after.append(torch.empty_like(theta))
            models.store(after[-1])
    assert torch.equal(*after)
    for job, count in enumerate(counts):
        net = Normed().double().train()
        for part, values in zip(ModuleParts.of(net).sent.values(), after[0][job].split(_sizes()), strict=True):
            assert values.numel() == part.numel()
        _load(net, theta[job])
        loss = 0.1 * functional.cross_entropy(net(x[job, :count]), y[job, :count], reduction="sum")
        loss.backward()
        with torch.no_grad():
            for part in net.parameters():
                part.sub_(part.grad)
        assert torch.allclose(torch.from_numpy(values_of(net)), after[0][job], atol=1e-12)


def _sizes():
    return [part.numel() for part in ModuleParts.of(Normed()).sent.values()]


def _load(net, flat):
    with torch.no_grad():
        for part, values in zip(ModuleParts.of(net).sent.values(), flat.split(_sizes()), strict=True):
            part.copy_(values.view(part.shape))


def test_a_last_mini_batch_of_one_example_is_refused_for_batch_normalisation():
    with pytest.raises(ScenarioError, match=r"learners\.A\.batch_size: a mini-batch of user 1 has one example"):
        learners_of(module("Normed"), {"A": spec(batch_size=7)})
    learners_of(module("Normed"), {"A": spec(batch_size=7, local_steps=1)})
    learners_of(module("Dropped"), {"A": spec(batch_size=7)})


def test_running_averages_without_momentum_start_anew_in_each_update():
    """Their count of batches is an integer, which is not sent."""
    model = module("Normed", momentum=None)
    made = learners_of(model, {"A": spec(aggregation=Relay(), lr=0.1, batch_size=6)})
    work = spec(batch_size=6).local_work
    net = start_module(model, Streams(5).at(0).at("start"))
    made.start()
    for index in (1, 2):
        made.step([a_round(index, (0, index - 1))])
        net = train_plainly(net, shuffles_of(made, 0, index - 1, work), DATA, functional.cross_entropy)
        net[1].num_batches_tracked.zero_()
    assert made.version(0)[:-1] == pytest.approx(values_of(net), abs=1e-12)
    assert "one after the other" in made.training_method


@pytest.mark.parametrize(
    ("loss", "plain", "outputs"),
    [
        (f"{PLACE}:focal", lambda scores, y: focal(scores, y).mean(), None),
        (f"{PLACE}:pinball", lambda scores, y: pinball(scores, y).mean(), 2),
        ("mse", functional.mse_loss, 2),
        ("mae", functional.l1_loss, 1),
        ("huber", functional.huber_loss, 2),
    ],
)
def test_losses_equal_a_loop_in_pytorch(loss, plain, outputs):
    data = dataset(outputs=outputs)
    model = module("Regressor", loss, outputs=outputs or 3)
    made = learners_of(model, {"A": spec(lr=0.1, batch_size=6)}, data)
    work, net = spec(batch_size=6).local_work, start_module(model, Streams(5).at(0).at("start"))
    made.start()
    made.step([a_round(1, (0, 0), (3, 0))])
    nets = [train_plainly(net, shuffles_of(made, user, 0, work), data, plain) for user in (0, 3)]
    net = average(nets, [SIZES[0], SIZES[3]], net)
    assert made.version(0)[:-1] == pytest.approx(values_of(net), abs=1e-12)
    y = torch.from_numpy(data.test_y)
    y = y if outputs is None else y.double()
    report = made._metrics.evaluate(made._versions.newest, 1, 1)
    scores = net(torch.from_numpy(data.test_x).double())
    assert report["loss"][0] == pytest.approx(plain(scores, y).item())
    if outputs is not None:
        error = (scores - y).detach().numpy()
        assert report["mse"][0] == pytest.approx((error**2).mean())
        assert report["mae"][0] == pytest.approx(np.abs(error).mean())
        assert report["r2"][0] == pytest.approx(1 - (error**2).mean() / data.test_y.astype(float).var(axis=0).mean())
        assert not any(name.startswith("accuracy") or "class:" in name for name in report)


def test_objectives_weigh_the_examples_of_an_own_loss():
    """The CVaR of each example at γ = 0 takes a step along the losses above t only."""
    data, model = dataset(outputs=2), module("Regressor", "mse")
    tail = Cvar(alpha=0.5, gamma=0.0, lr_t=1e-9, per="sample")
    made = learners_of(model, {"A": spec(tail, lr=0.1, batch_size="full", local_steps=1)}, data)
    net = start_module(model, Streams(5).at(0).at("start"))
    made._versions.newest[:, -1] = 0.8
    made.start()
    made.step([a_round(1, (0, 0))])

    def plain(scores, y):
        losses = (scores - y).square().mean(1)
        return (losses * (losses > 0.8)).mean() / 0.5

    moved = train_plainly(net, [SPLIT[0]], data, plain)
    assert made.version(0)[:-1] == pytest.approx(values_of(moved), abs=1e-12)
    assert not np.allclose(made.version(0)[:-1], values_of(net))


@pytest.mark.parametrize(
    ("loss", "outputs", "message"),
    [
        ("mean_focal", None, r"gives \[\] for 3 examples, not \[3\] .*with reduction='none'"),
        ("by_output", 2, r"gives \[3, 2\] for 3 examples, not \[3\] .*the mean over the outputs, \.mean\(1\)"),
        ("in_context", None, "gives an example another loss in another batch"),
        ("broken", None, "fails on made-up scores: RuntimeError: no such loss"),
        ("nothing", None, "exists, but has no 'nothing'"),
        ("Normed", None, "is not a function"),
        ("focal", 2, "fails on made-up scores: "),
    ],
)
def test_wrong_losses_are_refused(loss, outputs, message):
    model = module("Regressor", f"{PLACE}:{loss}", outputs=outputs or 3)
    (fault, *_) = model.target_misfits((4,), outputs or 3, None, outputs is not None)
    with pytest.raises(ScenarioError, match=message):
        raise ScenarioError([fault])
    assert fault.key == "loss"


@pytest.mark.parametrize(
    ("loss", "is_regression", "message"),
    [
        ("cross_entropy", True, "needs labels, but the targets of these data are numbers"),
        ("mse", False, "needs targets that are numbers, but these data have labels"),
    ],
)
def test_losses_that_do_not_fit_the_data_are_refused(loss, is_regression, message):
    (fault,) = module("Regressor", loss).target_misfits((4,), 2, None, is_regression)
    assert message in str(fault)
    assert fault.remedy


def test_a_loss_with_tensors_follows_the_type_of_the_models(tmp_path, monkeypatch):
    monkeypatch.setenv("NETFL_CACHE", str(tmp_path))
    weights = torch.tensor([1.0, 2.0, 0.5])
    loss = nn.CrossEntropyLoss(weight=weights, reduction="none")
    model = Module.model_validate({"module": Dropped(0.0), "loss": loss})
    made = learners_of(model, {"A": spec(lr=0.1, batch_size="full", local_steps=1)})
    made.start()
    before = made.version(0)
    made.step([a_round(1, (0, 0))])
    net = Dropped(0.0).double()
    nn.utils.vector_to_parameters(torch.from_numpy(before[:-1]), net.parameters())

    def plain(scores, y):
        return functional.cross_entropy(scores, y, weights.double(), reduction="none").mean()

    assert made.version(0)[:-1] == pytest.approx(values_of(train_plainly(net, [SPLIT[0]], DATA, plain)), abs=1e-12)


def test_functions_of_this_process_alone_have_names():
    def local(scores, y):
        return focal(scores, y)

    losses = [local, lambda scores, y: 2 * focal(scores, y)]
    names = [Module(module=f"{PLACE}:Dropped", loss=loss).loss for loss in losses]
    assert [find_loss(name) for name in names] == losses
    assert Module(module=f"{PLACE}:Dropped", loss=local).loss == names[0]
    (fault,) = module("Dropped", names[0] + "0").target_misfits((4,), 3, None, False)
    assert fault.problem == "cannot be imported: only the notebook or script that made the scenario has it"
    assert "define it in a file" in fault.remedy
    assert Module(module=Dropped, loss=focal).loss == f"{PLACE}:focal"
    with pytest.raises(ScenarioError, match=r"no such loss: 'mss'.*known: cross_entropy, mse"):
        module("Dropped", "mss")


def test_norms_of_gradients_leave_buffers_out():
    """The gradient is that in evaluation mode."""
    from netfl.learning.evaluation import gradient_norms

    made = learners_of(module("NormedImages"), {"A": spec()}, dataset((1, 2, 2)))
    net = start_module(module("NormedImages"), Streams(5).at(0).at("start")).eval()
    x, y = torch.from_numpy(DATA.train_x.reshape(-1, 1, 2, 2)).double(), torch.from_numpy(DATA.train_y)
    functional.cross_entropy(net(x), y).backward()
    expected = torch.cat([part.grad.flatten() for part in net.parameters()]).norm().item()
    found = gradient_norms(made._architecture, made._data, 0, made._versions.newest[:, :-1])
    assert found.tolist() == pytest.approx([expected])
