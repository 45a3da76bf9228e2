"""Coded updates and versions in the whole learner, compared with NumPy, with single lanes and with restored states."""

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
import torch
from support import paper_algorithms as papers
from support import plain_codecs as plain
from support.learner_factory import (
    DATA,
    SPLIT,
    a_round,
    draw_batches,
    learner,
    mixture,
    network,
    spec,
    split_and_merged,
)
from support.plain_loops import learners_of, module

from netfl.learning import checkpoint_file, update_coding
from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.average_all import AverageAll
from netfl.learning.aggregation.average_received import AverageReceived
from netfl.learning.aggregation.fedavgm import Fedavgm
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.codec import Codec, Codecs, Encoded
from netfl.learning.codec.bfloat16 import Bfloat16
from netfl.learning.codec.float16 import Float16
from netfl.learning.codec.none import Whole
from netfl.learning.codec.qsgd import Qsgd
from netfl.learning.codec.rand_k import RandK
from netfl.learning.codec.sign import Sign
from netfl.learning.codec.top_k import TopK
from netfl.learning.codec.uniform import Uniform
from netfl.learning.cohort import Cohort
from netfl.learning.device_store import CODEC_ERRORS, DeviceStore
from netfl.learning.minibatches import BatchSampler
from netfl.learning.objective.cvar import Cvar
from netfl.learning.spec import LocalWork
from netfl.learning.update_coding import UpdateCoder
from netfl.streams import Streams
from netfl.types import Delivery

STREAMS = Streams(5).at(0)
EXAMPLES = [(DATA.train_x[rows].astype(float), DATA.train_y[rows]) for rows in SPLIT]
TRACE = [
    [(0, 0), (3, 0)],
    [],
    [(1, 2), (0, 1), (0, 2)],
    [(2, 3)],
    [(3, 2), (3, 2), (1, 4)],
    [(0, 5), (1, 5), (2, 5), (3, 5)],
    [(2, 4), (0, 6), (0, 6)],
]
"""Deliveries as (user, base): an empty round, repeated users, repeated and old bases."""
PARAMETERS = 33
CODECS = {
    "float16": (Float16(), plain.half),
    "bfloat16": (Bfloat16(), plain.brain),
    "uniform": (Uniform(bits_per_parameter=3), plain.uniform(3)),
    "uniform with feedback": (Uniform(bits_per_parameter=1, error_feedback=True), plain.uniform(1)),
    "qsgd": (Qsgd(bits_per_parameter=2), plain.qsgd(2)),
    "qsgd in buckets": (Qsgd(bits_per_parameter=4, bucket=7), plain.qsgd(4, 7)),
    "sign": (Sign(), plain.sign),
    "sign without feedback": (Sign(error_feedback=False), plain.sign),
    "top_k": (TopK(share=0.1), plain.top(3)),
    "top_k without feedback": (TopK(share=0.5, error_feedback=False), plain.top(16)),
    "rand_k": (RandK(share=0.2), plain.random_places(7, PARAMETERS / 7)),
    "rand_k with feedback": (RandK(share=0.2, error_feedback=True), plain.random_places(7, 1.0)),
}
LEARNERS = {
    "average": (spec(lr=0.3), papers.Average, papers.Local(papers.erm, 0.3)),
    "scaffold of cvar": (
        spec(Cvar(alpha=0.3, gamma=0.1, lr_t=0.2), Scaffold(server_lr=0.9), lr=0.3),
        partial(papers.Scaffold, 4, PARAMETERS + 1, 0.9),
        papers.Local(papers.cvar(0.3, 0.1), 0.3, 0.2),
    ),
}


def batches(user, base, repeat):
    x, y = EXAMPLES[user]
    work = LocalWork(8, 2, None)
    drawn = draw_batches(BatchSampler([STREAMS]), [(0, user, base, len(y))], work, np.array([repeat]))
    return [
        (x[places[:count]], y[places[:count]]) for places, count in zip(drawn.places[0], drawn.counts[0], strict=True)
    ]


def versions_of(specs, codecs, trace=TRACE):
    """Return the versions of each learner, ``[rounds + 1, learners, size + 1]``."""
    made = learner(specs, codecs=codecs)
    versions = [[made.version(lane) for lane in range(len(specs))]]
    for index, deliveries in enumerate(trace, start=1):
        made.step([a_round(index, *deliveries)])
        versions.append([made.version(lane) for lane in range(len(specs))])
    return np.array(versions)


@pytest.mark.quick_first
@pytest.mark.parametrize("name", CODECS)
def test_coded_versions_equal_numpy(name):
    codec, code = CODECS[name]
    versions = versions_of({name: parts[0] for name, parts in LEARNERS.items()}, Codecs(codec))
    for lane, (_, rule, local) in enumerate(LEARNERS.values()):
        coder = plain.PlainCoder(code, STREAMS, has_memory=codec.has_error_feedback)
        start = versions[0, lane]
        expected = papers.play(rule(), local, start, TRACE, data=EXAMPLES, batches=batches, code=coder)
        assert versions[:, lane] == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.quick_first
@pytest.mark.parametrize("name", ["float16", "bfloat16", "uniform", "qsgd in buckets"])
def test_coded_broadcasts_equal_numpy(name):
    codec, code = CODECS[name]
    versions = versions_of({name: parts[0] for name, parts in LEARNERS.items()}, Codecs(Sign(), codec))
    for lane, (_, rule, local) in enumerate(LEARNERS.values()):
        coder = plain.PlainCoder(plain.sign, STREAMS, has_memory=True)
        send = plain.plain_sender(code, STREAMS)
        start = versions[0, lane]
        expected = papers.play(rule(), local, start, TRACE, data=EXAMPLES, batches=batches, code=coder, send=send)
        assert versions[:, lane] == pytest.approx(expected, rel=1e-10, abs=1e-12)


CODED = Codecs(TopK(share=0.2), Qsgd(bits_per_parameter=6))


def rounds_of(replicas, rounds=6):
    return list(zip(*(network(replica, rounds) for replica in replicas), strict=True))


def test_lanes_equal_single_runs():
    replicas = (0, 1)
    batched = learner(mixture(), replicas, codecs=CODED)
    for current in rounds_of(replicas):
        batched.step(current)
    for place, replica in enumerate(replicas):
        alone = learner({"cvar": mixture()["cvar"]}, (replica,), codecs=CODED, first=replica)
        for current in rounds_of([replica]):
            alone.step(current)
        lane = [*mixture()].index("cvar") * len(replicas) + place
        assert batched.version(lane) == pytest.approx(alone.version(0), rel=1e-12)


def test_parts_of_a_large_cohort_equal_the_whole(monkeypatch):
    whole = versions_of(mixture(), CODED)
    monkeypatch.setattr(update_coding, "_NUMBERS_AT_ONCE", 1)
    assert (versions_of(mixture(), CODED) == whole).all()


def test_the_memory_survives_a_checkpoint_file(tmp_path):
    made = learner({"one": spec()}, codecs=CODED)
    made.step([a_round(1, (0, 0), (2, 0))])
    content = {"round": 1, "digest": "", "learner": made.state()} | checkpoint_file.pack_reports([])
    with (tmp_path / "c.pt").open("wb") as file:
        checkpoint_file.save(file, content)
    restored = learner({"one": spec()}, codecs=CODED)
    restored.restore(checkpoint_file.load(tmp_path / "c.pt")["learner"])
    for each in (made, restored):
        each.step([a_round(2, (0, 1), (2, 0))])
    assert (made.version(0) == restored.version(0)).all()


@pytest.mark.parametrize("parts", [None, 1, 4])
def test_a_restored_learner_continues_as_before(parts):
    """The states of workers, too: those of *parts* shards are merged and split."""
    replicas = (0, 1)
    rounds = rounds_of(replicas)
    whole = learner(mixture(), replicas, codecs=CODED)
    for current in rounds[:3]:
        whole.step(current)
    state = whole.state()
    if parts is not None:
        state = split_and_merged(state, len(mixture()), 2, parts)
    assert state["devices"]
    restored = learner(mixture(), replicas, codecs=CODED)
    restored.restore(state)
    for current in rounds[3:]:
        whole.step(current)
        restored.step(current)
    for lane in range(len(mixture()) * 2):
        assert (restored.version(lane) == whole.version(lane)).all()


def test_the_kind_none_is_no_codec():
    assert Codecs.of(Whole(), Whole()) == Codecs()
    whole = versions_of(mixture(), Codecs())
    assert versions_of(mixture(), Codecs(Whole(), Whole())) == pytest.approx(whole, rel=1e-12)


def test_the_memory_is_that_of_delivered_updates_alone():
    """A lost update leaves no trace: the memory of its user is that of before."""
    made = learner({"one": spec()}, codecs=Codecs(Sign()))
    made.step([a_round(1, (0, 0))])
    after_first = made.state()["devices"][0][CODEC_ERRORS]["rows"].clone()
    made.step([a_round(2, (1, 1))])
    errors = made.state()["devices"][0][CODEC_ERRORS]
    assert errors["users"].tolist() == [0, 1]
    assert torch.equal(errors["rows"][:1], after_first)


LOST = {(0, 0): (True, False, True), (1, 2): (False, True), (3, 2): (False, False, True, True, False)}
"""Arrival of the parts of updates, by user and base; the other updates are whole."""


class PlainRule:
    """The rule of `average_received`, or of `average_all`, for models with the base in lost places, in NumPy."""

    def __init__(self, received, *, reads_parts):
        self.received, self.reads_parts = received, reads_parts

    def step(self, x, updates):
        moves, weights = np.zeros_like(x), np.zeros_like(x)
        for update in updates:
            received = self.received(update.user, update.since)
            model = np.where(received, update.model, update.base)
            if self.reads_parts:
                moves += update.samples * np.where(received, model - x, 0.0)
                weights += update.samples * received
            else:
                moves += (model - update.base) / 4
        if self.reads_parts:
            moves /= np.where(weights > 0, weights, 1)
        return x + moves


def lossy_rounds():
    for index, deliveries in enumerate(TRACE, start=1):
        current = a_round(index, *deliveries)
        lossy = [replace(each, received=LOST.get((each.user, each.base))) for each in current.deliveries]
        yield replace(current, deliveries=tuple(lossy))


def lossy_versions(codec):
    """Return the versions of a rule that reads what arrived and of one that does not, ``[rounds + 1, 2, size]``."""
    rules = {"received": AverageReceived(), "all": AverageAll()}
    objective = Cvar(alpha=0.3, gamma=0.1, lr_t=0.2)
    specs = {rule_name: spec(objective, rule, lr=0.3) for rule_name, rule in rules.items()}
    made = learner(specs, codecs=Codecs(codec), loses_parts=True)
    versions = [[made.version(lane) for lane in range(2)]]
    for current in lossy_rounds():
        made.step([current])
        versions.append([made.version(lane) for lane in range(2)])
    return np.array(versions)


@pytest.mark.quick_first
@pytest.mark.parametrize("at_once", [None, 1])
@pytest.mark.parametrize("name", ["whole", "float16", "qsgd in buckets", "sign"])
def test_erased_parts_equal_numpy(name, at_once, monkeypatch):
    """Entries of θ and t are lost if they have a bit in a lost part; the error feedback keeps what is lost."""
    if at_once is not None:
        monkeypatch.setattr(update_coding, "_NUMBERS_AT_ONCE", at_once)
    codec, code = CODECS.get(name, (None, plain.whole))
    theta_bits = (codec or Whole()).bits(PARAMETERS)
    versions = lossy_versions(codec)

    def received(user, base):
        return plain.arrived(LOST.get((user, base), (True,)), theta_bits, PARAMETERS, 1)

    local = papers.Local(papers.cvar(0.3, 0.1), 0.3, 0.2)
    for lane, reads_parts in enumerate((True, False)):
        has_memory = codec is not None and codec.has_error_feedback
        coder = plain.PlainCoder(
            code, STREAMS, has_memory=has_memory, received=lambda user, base: received(user, base)[:-1]
        )
        rule = PlainRule(received, reads_parts=reads_parts)
        of_lane = versions[:, lane]
        expected = papers.play(rule, local, of_lane[0], TRACE, data=EXAMPLES, batches=batches, code=coder)
        assert of_lane == pytest.approx(expected, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("at_once", [None, 1])
@pytest.mark.parametrize("name", ["top_k", "top_k without feedback", "rand_k", "rand_k with feedback"])
def test_erased_parts_of_sparse_updates_equal_numpy(name, at_once, monkeypatch):
    """A lost part takes the entries that it carried; what lies between their neighbours is not known for `top_k`."""
    if at_once is not None:
        monkeypatch.setattr(update_coding, "_NUMBERS_AT_ONCE", at_once)
    codec, code = CODECS[name]
    theta_bits = codec.bits(PARAMETERS)
    versions = lossy_versions(codec)

    def arrived(user, base, entries):
        return plain.arrived(LOST.get((user, base), (True,)), theta_bits, entries, 1)

    local = papers.Local(papers.cvar(0.3, 0.1), 0.3, 0.2)
    for lane, reads_parts in enumerate((True, False)):
        coder = plain.PlainSparseCoder(
            code,
            STREAMS,
            has_memory=codec.has_error_feedback,
            arrived=lambda user, base, entries: arrived(user, base, entries)[:-1],
            knows_places=isinstance(codec, RandK),
        )

        def received(user, base, coder=coder):
            of_theta = coder.known[user, base].pop(0)
            return np.append(of_theta, arrived(user, base, codec.count(PARAMETERS))[-1])

        rule = PlainRule(received, reads_parts=reads_parts)
        of_lane = versions[:, lane]
        expected = papers.play(rule, local, of_lane[0], TRACE, data=EXAMPLES, batches=batches, code=coder)
        assert of_lane == pytest.approx(expected, rel=1e-10, abs=1e-12)
        assert not any(coder.known.values())  # all were used


def test_lost_entries_hide_what_lies_between_their_neighbours():
    """Entries at 1, 4, 5 and 8 of ten parameters; those at 4 and 5 are lost, then the first, then the last."""

    class Places(TopK):
        def encode(self, change, draws):
            positions = torch.tensor([1, 4, 5, 8]).expand(*change.shape[:-1], 4)
            return Encoded(change.gather(-1, positions), positions, change.shape[-1])

        def bits(self, parameters):
            return 128.0

    coder = UpdateCoder(Places(share=0.4), [Streams(1)], 10, DeviceStore(3, replicas=1))
    parts = ((True, False, False, True), (False, True, True, True), (True, True, True, False))
    users = np.arange(3)
    cohort = Cohort(np.zeros(3, np.int64), users, np.zeros(3, np.int64), (slice(0, 3),), received=parts)
    bases = torch.zeros(3, 1, 11, dtype=torch.float64)
    coded = coder.code(bases, bases + 1.0, cohort, np.zeros((3, 1), np.int64))
    unknown = [np.flatnonzero(~known).tolist() for known in coded.received[:, 0].numpy()]
    assert unknown == [[2, 3, 4, 5, 6, 7], [0, 1, 2, 3], [6, 7, 8, 9]]
    sent = [np.flatnonzero(model[:10]).tolist() for model in coded.models[:, 0].numpy()]
    assert sent == [[1, 8], [4, 5, 8], [1, 4, 5]]


def test_rounds_without_losses_are_those_of_average():
    specs = {"average": spec(), "received": spec(aggregation=AverageReceived())}
    made = learner(specs, loses_parts=True)
    plain_learner = learner(specs)
    for index, deliveries in enumerate(TRACE, start=1):
        made.step([a_round(index, *deliveries)])
        plain_learner.step([a_round(index, *deliveries)])
        assert (made.version(0) == made.version(1)).all()
        assert (made.version(0) == plain_learner.version(0)).all()


def test_buffers_in_lost_parts_are_those_of_the_base():
    """The module has 63 parameters and, after them, 12 buffers."""
    model = module("Normed")
    made = learners_of(model, {"A": spec(aggregation=AverageReceived(), batch_size=6)}, loses_parts=True)
    before = made.version(0)
    parts = (True,) * 7 + (False,)  # the last ten of 75 numbers have bits in it
    made.step(
        [
            replace(
                a_round(1),
                deliveries=(Delivery(user=0, base=0, sent_s=0.0, arrived_s=1.0, attempts=1, received=parts),),
            )
        ]
    )
    moved = made.version(0)[:-1] != before[:-1]
    assert not moved[-10:].any()
    assert moved[63:65].all()


DIMENSIONS = 12


def descend(codec, rounds=800, users=4):
    """Minimise a strongly convex function, the mean of one of each user, by coded steps; return the distances."""
    rng = np.random.default_rng(3)
    optima = torch.from_numpy(rng.standard_normal((users, DIMENSIONS)))
    curvature = torch.linspace(0.5, 1.0, DIMENSIONS, dtype=torch.float64)
    optimum = optima.mean(0)
    x = torch.zeros(DIMENSIONS + 1, dtype=torch.float64)
    coder = UpdateCoder(codec, [Streams(1)], DIMENSIONS, DeviceStore(users, replicas=1))
    lanes = np.zeros((users, 1), np.int64)
    distances = []
    for index in range(rounds):
        bases = x.expand(users, 1, -1)
        step = 4.0 / (20 + index)
        models = bases.clone()
        models[:, 0, :-1] -= step * curvature * (x[:-1] - optima)
        cohort = Cohort(np.zeros(users, np.int64), np.arange(users), np.full(users, index), (slice(0, users),))
        x = coder.code(bases, models, cohort, lanes).models.mean((0, 1))
        distances.append(float((x[:-1] - optimum).norm()))
    return distances


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sign", "top_k", "rand_k", "uniform"])
def test_error_feedback_recovers_the_optimum(kind):
    """Without it, the biased codecs stay away from the optimum of users that differ."""
    settings = {
        "sign": (Sign(), Sign(error_feedback=False)),
        "top_k": (TopK(share=0.1), TopK(share=0.1, error_feedback=False)),
        "rand_k": (RandK(share=0.3, error_feedback=True), None),
        "uniform": (Uniform(bits_per_parameter=1, error_feedback=True), Uniform(bits_per_parameter=1)),
    }
    with_memory, without = settings[kind]
    distances = descend(with_memory)
    assert distances[-1] < 0.03
    assert distances[-1] < 0.8 * distances[199]  # it still falls
    if without is not None:
        assert descend(without)[-1] > 10 * distances[-1]


class Kept(Codec):
    """Send everything, and remember what is left: nothing."""

    has_error_feedback: ClassVar[bool] = True

    def bits(self, parameters):
        return 32.0 * parameters

    def encode(self, change, draws):
        return Encoded(change)


def test_a_codec_may_return_its_argument():
    made = learner({"one": spec()}, codecs=Codecs(Kept()))
    whole = learner({"one": spec()})
    for each in (made, whole):
        each.step([a_round(1, (0, 0))])
    assert made.version(0) == pytest.approx(whole.version(0), rel=1e-12)


def test_momentum_at_the_server_sees_decoded_changes():
    """The rule gets what the server reads: with a codec that keeps one number, one parameter moves."""
    made = learner({"one": spec(aggregation=Fedavgm(momentum=0.5, inner=Average()))}, codecs=Codecs(TopK(share=0.01)))
    before = made.version(0)
    made.step([a_round(1, (0, 0))])
    assert np.count_nonzero(made.version(0) - before) == 1
