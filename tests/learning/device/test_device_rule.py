"""A rule of devices from outside netfl: each device mixes its own last model into the one from which it trains."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learner_factory import (
    DATA,
    SPLIT,
    a_round,
    draw_batches,
    flat,
    learner,
    network,
    read_back,
    spec,
    split_and_merged,
    torch_model,
)
from torch import nn

from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.codec import Codecs
from netfl.learning.codec.sign import Sign
from netfl.learning.device import DeviceRule
from netfl.learning.minibatches import BatchSampler
from netfl.learning.spec import EvaluateSpec, LocalWork
from netfl.streams import Streams

SHARE = 0.25


class OwnModel(DeviceRule):
    """A device starts from a mixture of the version and of its own last model."""

    def start(self, base, kept):
        if "model" not in kept:
            return base
        return torch.lerp(base, kept["model"], SHARE)

    def keep(self, start, trained, kept):
        return {"model": trained}


class CountedUpdates(DeviceRule):
    """Keeps nothing of the first update of a device, and then their number."""

    def start(self, base, kept):
        if "count" in kept:
            assert kept["count"] >= 2
        return base

    def keep(self, start, trained, kept):
        if not kept:
            return {"seen": torch.ones(1)}
        return {"count": kept.get("count", kept["seen"]) + 1}


SPECS = {"plain": spec(), "own": spec(), "mifa": spec(aggregation=Mifa()), "own mifa": spec(aggregation=Mifa())}
SPECS |= {"own steps": spec(local_steps=3)}
RULES = {"own": OwnModel(), "own mifa": OwnModel(), "own steps": OwnModel()}
REPLICAS = (0, 1)


def with_rules(rules, names=SPECS):
    return {name: SPECS[name].model_copy(update={"device": rules.get(name)}) for name in names}


def open_learner(rules=RULES, **options):
    return learner(with_rules(rules), REPLICAS, **options)


def run(batched, rounds):
    for current in rounds:
        batched.step(current)
    return {lane: batched.version(number) for number, lane in enumerate(batched.lanes)}


def rounds():
    return list(zip(*(network(replica, 7) for replica in REPLICAS), strict=True))


def sgd(start, user, base):
    """Return the model after local training of *user*, by PyTorch, with the mini-batches of its base."""
    module = torch_model(start[:-1])
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    batches = draw_batches(BatchSampler([Streams(5).at(0)]), [(0, user, base, len(SPLIT[user]))], LocalWork(8, 2, None))
    for indices, count in zip(batches.places[0], batches.counts[0], strict=True):
        rows = SPLIT[user][indices[:count]]
        optimiser.zero_grad()
        scores = module(torch.tensor(DATA.train_x[rows]).double())
        nn.functional.cross_entropy(scores, torch.tensor(DATA.train_y[rows])).backward()
        optimiser.step()
    return np.append(flat(module).numpy(), 0.0)


def test_a_device_starts_from_a_mixture_with_its_own_model():
    """User 0 trains, then user 1, then user 0 again; each version is the model of its only update."""
    batched = learner(with_rules(RULES, ["own"]))
    first = sgd(batched.version(0), 0, 0)
    batched.step([a_round(1, (0, 0))])
    second = sgd(first, 1, 1)
    batched.step([a_round(2, (1, 1))])
    third = sgd((1 - SHARE) * second + SHARE * first, 0, 2)
    batched.step([a_round(3, (0, 2))])
    assert batched.version(0) == pytest.approx(third, abs=1e-12)


@pytest.mark.parametrize("codecs", [Codecs(), Codecs(Sign())], ids=["whole", "sign"])
def test_learners_without_a_rule_are_equal_beside_one_with_it(codecs):
    without = run(open_learner({}, codecs=codecs), rounds())
    beside = run(open_learner(codecs=codecs), rounds())
    for lane, version in without.items():
        assert np.array_equal(beside[lane], version) == (lane[0] not in RULES)


def test_the_rule_of_before_changes_nothing():
    without = run(open_learner({}), rounds())
    found = run(open_learner(dict.fromkeys(SPECS, DeviceRule())), rounds())
    assert all(np.array_equal(found[lane], version) for lane, version in without.items())


@pytest.mark.parametrize("workers", [1, 5])
def test_what_devices_keep_is_in_a_checkpoint(workers):
    all_rounds = rounds()
    whole, restored = open_learner(), open_learner()
    run(whole, all_rounds[:4])
    restored.restore(read_back(split_and_merged(whole.state(), len(SPECS), len(REPLICAS), workers)))
    expected, found = run(whole, all_rounds[4:]), run(restored, all_rounds[4:])
    assert all(np.array_equal(found[lane], version) for lane, version in expected.items())


def test_a_rule_may_keep_other_names_in_each_update():
    batched = learner(with_rules({"own": CountedUpdates()}, ["own"]))
    for index in range(1, 4):
        batched.step([a_round(index, (0, index - 1), (1, index - 1))])
    batched.step([a_round(4, (1, 3), (2, 3))])
    kept = batched.state()["devices"][0]
    counts = dict(zip(kept["device.count"]["users"].tolist(), kept["device.count"]["rows"][:, 0].tolist(), strict=True))
    assert counts == {0: 3.0, 1: 4.0}
    assert kept["device.seen"]["users"].tolist() == [0, 1, 2]


def test_the_norm_that_an_access_asks_for_is_that_of_an_update():
    """User 0 has delivered, so its next update starts from the mixture; user 1 has not."""
    batched = learner(with_rules(RULES, ["own"]), evaluate=EvaluateSpec(every=99))
    batched.step([a_round(1, (0, 0))])
    own = batched.version(0)
    batched.step([a_round(2, (2, 1))])
    asked = replace(a_round(3, (3, 2)), queries={"norm": (0, 1)})
    (answers,) = batched.step([asked]).answers
    newest = batched.version(0)
    starts = [(1 - SHARE) * newest + SHARE * own, newest]
    norms = [np.linalg.norm((sgd(start, user, 3) - newest)[:-1]) for user, start in enumerate(starts)]
    assert answers["norm"] == pytest.approx(norms, rel=1e-9)
