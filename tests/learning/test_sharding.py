"""Lanes in parts: every lane is in one, parts are even, and a state comes back from its parts."""

from itertools import product

import pytest
import torch
from support.learner_factory import DATA, a_round, learner, mixture, network

from netfl.learning import batch_limits
from netfl.learning.cohort import Cohort, RepeatCounter
from netfl.learning.sharding import LaneShard, merge_states, shard_lanes, split_state


@pytest.mark.parametrize("parts", range(1, 9))
@pytest.mark.parametrize(("learners", "replicas"), [*product([1, 2, 3, 5], [1, 2, 4, 7])])
def test_every_lane_is_in_one_part_and_the_largest_is_as_small_as_rectangles_can_be(learners, replicas, parts):
    found = shard_lanes(learners, replicas, parts)
    lanes = [lane for part in found for lane in part.lanes(replicas)]
    assert sorted(lanes) == list(range(learners * replicas))
    assert len(found) <= parts
    largest = max(len(part.lanes(replicas)) for part in found)
    grids = [(a, b) for a in range(1, learners + 1) for b in range(1, replicas + 1) if a * b <= parts]
    assert largest == min(-(-learners // a) * -(-replicas // b) for a, b in grids)


def played(rounds=5, **changes):
    """Learners in three replicas after some rounds, and the rounds."""
    one = learner(mixture(), (0, 1, 2), datasets=[DATA] * 3, **changes)
    told = list(zip(*(network(replica, rounds + 2) for replica in range(3)), strict=True))
    for now in told[:rounds]:
        one.step(now)
    return one, told


def same(one, other):
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 18])
def test_a_state_that_is_split_and_merged_is_what_it_was(parts):
    state = played()[0].state()
    found = shard_lanes(len(mixture()), 3, parts)
    whole = merge_states([split_state(state, part, 3) for part in found], found, 3)
    for one in (state, whole):
        one["turns"].sort()
    same(whole, state)


def test_a_part_of_the_learners_that_goes_on_from_its_part_of_the_state_does_what_all_of_them_do():
    one, told = played()
    part = LaneShard(range(2, 5), range(1, 3))
    names = [name for number, name in enumerate(mixture()) if number in part.learners]
    own = {name: mixture()[name] for name in names}
    alone = learner(own, tuple(part.replicas), datasets=[DATA] * len(part.replicas))
    state = split_state(one.state(), part, 3)
    state["lanes"] = [list(lane) for lane in alone.lanes]
    alone.restore(state)
    one.step(told[5])
    alone.step([told[5][replica] for replica in part.replicas])
    for place, lane in enumerate(part.lanes(3)):
        assert alone.version(place) == pytest.approx(one.version(lane), rel=1e-12)


def test_versions_that_only_one_part_needs_are_not_numbers_for_the_others():
    parts = shard_lanes(1, 2, 2)
    states = []
    for replica, kept in enumerate(([2, 3], [3])):
        versions = {number: torch.full((1, 4), float(number)) for number in kept}
        states.append(
            {
                "lanes": [["a", replica]],
                "round": 3,
                "versions": {"kept": versions, "messages": {}},
                "servers": {"aggregations": [{}], "lost": {}},
                "metrics": {"deliveries": torch.zeros(1, 5), "ages": torch.zeros(3, 1)},
                "turns": [[0, 4, 2, 1]],
            }
        )
    whole = merge_states(states, parts, 2)
    assert whole["versions"]["kept"][2][0].tolist() == [2.0] * 4
    assert whole["versions"]["kept"][2][1].isnan().all()
    assert whole["versions"]["kept"][3].tolist() == [[3.0] * 4] * 2
    assert whole["turns"] == [[0, 4, 2, 1], [1, 4, 2, 1]]


@pytest.mark.parametrize("numbers", [1, 1000, 3000])
def test_who_trains_at_once_changes_nothing(monkeypatch, numbers):
    """Pieces of a cohort, of some replicas, learners or users each, do what the whole does."""
    whole, told = played()
    monkeypatch.setattr(batch_limits, "_TRAINED", numbers)
    pieces = played()[0]
    for one in (whole, pieces):
        one.step(told[5])
    for lane in range(len(whole.lanes)):
        assert pieces.version(lane) == pytest.approx(whole.version(lane), rel=1e-12)


def test_pieces_are_whole_replicas():
    rounds = [a_round(1, *((user, 0) for user in range(count))) for count in (2, 0, 1, 3, 1)]
    cohort = RepeatCounter().count(Cohort.of([*rounds]))
    found = [
        (list(map(int, one.replicas)), [one.replicas[part].tolist() for part in one.parts]) for one in cohort.pieces(3)
    ]
    assert found == [([0, 0, 2], [[0, 0], [2]]), ([3, 3, 3], [[3, 3, 3]]), ([4], [[4]])]
    assert [len(one.users) for one in cohort.pieces(1)] == [2, 1, 3, 1]
    assert [one.users.tolist() for one in cohort.pieces(99)] == [cohort.users.tolist()]
