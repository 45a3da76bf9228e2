"""Lanes in shards: every lane is in one shard, shards have similar sizes, and their states merge."""

from itertools import product

import pytest
import torch
from support.learner_factory import DATA, a_round, learner, mixture, network

from netfl.learning import batch_limits
from netfl.learning.cohort import Cohort, RepeatCounter
from netfl.learning.sharding import LaneShard, merge_states, shard_lanes, split_state


@pytest.mark.parametrize("parts", range(1, 9))
@pytest.mark.parametrize(("learners", "replicas"), [*product([1, 2, 3, 5], [1, 2, 4, 7])])
def test_shards_cover_all_lanes_and_are_as_small_as_possible(learners, replicas, parts):
    shards = shard_lanes(learners, replicas, parts)
    lanes = [lane for shard in shards for lane in shard.lanes(replicas)]
    assert sorted(lanes) == list(range(learners * replicas))
    assert len(shards) <= parts
    largest = max(len(shard.lanes(replicas)) for shard in shards)
    grids = [(a, b) for a in range(1, learners + 1) for b in range(1, replicas + 1) if a * b <= parts]
    assert largest == min(-(-learners // a) * -(-replicas // b) for a, b in grids)


def run_rounds(rounds=5, **changes):
    """Return learners in three replicas after some rounds, and all rounds."""
    batched = learner(mixture(), (0, 1, 2), datasets=[DATA] * 3, **changes)
    all_rounds = list(zip(*(network(replica, rounds + 2) for replica in range(3)), strict=True))
    for current in all_rounds[:rounds]:
        batched.step(current)
    return batched, all_rounds


def assert_same(first, second):
    assert type(first) is type(second)
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    else:
        assert first == second


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 18])
def test_merging_a_split_state_restores_it(parts):
    state = run_rounds()[0].state()
    shards = shard_lanes(len(mixture()), 3, parts)
    whole = merge_states([split_state(state, part, 3) for part in shards], shards, 3)
    for each_state in (state, whole):
        each_state["turns"].sort()
    assert_same(whole, state)


def test_a_shard_continues_as_the_whole_does():
    batched, all_rounds = run_rounds()
    shard = LaneShard(range(2, 5), range(1, 3))
    names = [name for number, name in enumerate(mixture()) if number in shard.learners]
    specs = {name: mixture()[name] for name in names}
    alone = learner(specs, tuple(shard.replicas), datasets=[DATA] * len(shard.replicas))
    state = split_state(batched.state(), shard, 3)
    state["lanes"] = [list(lane) for lane in alone.lanes]
    alone.restore(state)
    batched.step(all_rounds[5])
    alone.step([all_rounds[5][replica] for replica in shard.replicas])
    for position, lane in enumerate(shard.lanes(3)):
        assert alone.version(position) == pytest.approx(batched.version(lane), rel=1e-12)


def test_versions_needed_by_one_shard_are_nan_for_others():
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
                "devices": {},
                "turns": [[0, 4, 2, 1]],
            }
        )
    whole = merge_states(states, parts, 2)
    assert whole["versions"]["kept"][2][0].tolist() == [2.0] * 4
    assert whole["versions"]["kept"][2][1].isnan().all()
    assert whole["versions"]["kept"][3].tolist() == [[3.0] * 4] * 2
    assert whole["turns"] == [[0, 4, 2, 1], [1, 4, 2, 1]]


@pytest.mark.parametrize("limit", [1, 1000, 3000])
def test_smaller_batches_change_no_result(monkeypatch, limit):
    """The limit splits a cohort into pieces by replicas, learners or users."""
    whole, all_rounds = run_rounds()
    monkeypatch.setattr(batch_limits, "_TRAINED", limit)
    pieces = run_rounds()[0]
    for batched in (whole, pieces):
        batched.step(all_rounds[5])
    for lane in range(len(whole.lanes)):
        assert pieces.version(lane) == pytest.approx(whole.version(lane), rel=1e-12)


def test_pieces_are_whole_replicas():
    rounds = [a_round(1, *((user, 0) for user in range(count))) for count in (2, 0, 1, 3, 1)]
    cohort = RepeatCounter().count(Cohort.of([*rounds]))
    found = [
        (list(map(int, piece.replicas)), [piece.replicas[part].tolist() for part in piece.parts])
        for piece in cohort.pieces(3)
    ]
    assert found == [([0, 0, 2], [[0, 0], [2]]), ([3, 3, 3], [[3, 3, 3]]), ([4], [[4]])]
    assert [len(piece.users) for piece in cohort.pieces(1)] == [2, 1, 3, 1]
    assert [piece.users.tolist() for piece in cohort.pieces(99)] == [cohort.users.tolist()]
