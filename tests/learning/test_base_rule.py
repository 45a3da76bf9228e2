"""A rule of bases from outside netfl: each user starts from the version that its last delivery made."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support.learner_factory import (
    a_round,
    learner,
    network,
    read_back,
    spec,
    split_and_merged,
)

from netfl.learning.aggregation.average import Average
from netfl.learning.aggregation.mifa import Mifa
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.aggregation.scaffold import Scaffold
from netfl.learning.base_rule import BaseRule
from netfl.learning.spec import EvaluateSpec

NAME = "base.last"
REPLICAS = (0, 1)


class LastParticipation(BaseRule):
    """Learners whose names begin with "last" start from the version that the user's last delivery made, 0 before."""

    def numbers(self, cohort, lanes):
        numbers = np.tile(cohort.bases[:, None], lanes.shape[1])
        for row, user in enumerate(cohort.users.tolist()):
            for member, lane in enumerate(lanes[row].tolist()):
                if self._follows(lane):
                    rows = self._rows(lane)
                    numbers[row, member] = rows.table[rows.places.of_user(user)]
        return numbers

    def close(self, cohort, index):
        for replica, user in zip(cohort.replicas.tolist(), cohort.users.tolist(), strict=True):
            for lane in range(replica, len(self.lanes), cohort_replicas(self.lanes)):
                if self._follows(lane):
                    rows = self._rows(lane)
                    place = rows.places.add(user)
                    rows.table[place] = index

    def needed(self):
        lanes = filter(self._follows, range(len(self.lanes)))
        return {0}.union(*(self._rows(lane).state()["rows"][:, 0].tolist() for lane in lanes))

    def _follows(self, lane):
        return self.lanes[lane][0].startswith("last")

    def _rows(self, lane):
        return self.store.rows(NAME, lane, torch.zeros(1, dtype=torch.int64))


def cohort_replicas(lanes):
    return len({replica for _, replica in lanes})


def rounds():
    """Return a trace whose access needs the newest versions alone."""
    traces = (network(replica, 8) for replica in REPLICAS)
    return [[replace(each, oldest=each.index - 2) for each in current] for current in zip(*traces, strict=True)]


def edited(all_rounds):
    """Return the trace with the bases of `LastParticipation`."""
    last = {}
    changed = []
    for current in all_rounds:
        of_replicas = []
        for replica, each in enumerate(current):
            bases = [last.get((replica, delivery.user), 0) for delivery in each.deliveries]
            deliveries = [replace(delivery, base=base) for delivery, base in zip(each.deliveries, bases, strict=True)]
            of_replicas.append(replace(each, deliveries=tuple(deliveries), oldest=0))
        for replica, each in enumerate(current):
            last |= {(replica, delivery.user): each.index for delivery in each.deliveries}
        changed.append(of_replicas)
    return changed


def specs(rule):
    """Return learners with full batches, which need no draws, in two groups of different work."""
    full = {"aggregation": rule, "batch_size": "full"}
    return {
        "newest": spec(**full, local_steps=2),
        "last": spec(**full, local_steps=2),
        "last long": spec(**full, local_steps=3),
    }


def run(batched, all_rounds):
    for current in all_rounds:
        batched.step(current)
    return {lane: batched.version(number) for number, lane in enumerate(batched.lanes)}


@pytest.mark.parametrize("rule", [Average(), Mifa(), Scaffold(), Qfedavg(q=1)], ids=lambda rule: type(rule).__name__)
def test_a_learner_starts_from_the_versions_of_its_rule(rule):
    """It equals the learner of before on a trace that has these bases; learners beside it are as before in all bits."""
    options = {"evaluate": EvaluateSpec(every=99)}
    found = run(learner(specs(rule), REPLICAS, base_rule=LastParticipation, **options), rounds())
    of_trace = run(learner(specs(rule), REPLICAS, **options), rounds())
    of_edited = run(learner(specs(rule), REPLICAS, **options), edited(rounds()))
    for lane, version in found.items():
        expected = of_trace
        if lane[0].startswith("last"):
            expected = of_edited
            assert not np.allclose(version, of_trace[lane], rtol=1e-6)
            assert version == pytest.approx(expected[lane], rel=0, abs=1e-12)
        else:
            assert np.array_equal(version, expected[lane])


@pytest.mark.parametrize("workers", [1, 6])
def test_a_restored_rule_continues(workers):
    """The versions that it needs, and what it remembers of users, are in the state."""
    all_rounds = rounds()
    whole = learner(specs(Mifa()), REPLICAS, base_rule=LastParticipation)
    restored = learner(specs(Mifa()), REPLICAS, base_rule=LastParticipation)
    run(whole, all_rounds[:4])
    restored.restore(read_back(split_and_merged(whole.state(), 3, len(REPLICAS), workers)))
    expected, found = run(whole, all_rounds[4:]), run(restored, all_rounds[4:])
    assert all(np.array_equal(found[lane], version) for lane, version in expected.items())


def test_versions_that_nobody_needs_are_released():
    """Users 0 and 1 deliver in turn; a third one never does, and version 0 stays for it."""
    batched = learner(specs(Average()), base_rule=LastParticipation)
    for index in range(1, 8):
        batched.step([a_round(index, (index % 2, index - 1), oldest=index - 1)])
    assert sorted(batched.state()["versions"]["kept"]) == [0, 6, 7]
