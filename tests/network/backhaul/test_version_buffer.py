"""Copies of versions in the queue of a port: newer ones take the place of older ones, whatever the discipline."""

import numpy as np
import pytest

from netfl.network.backhaul.version_buffer import VersionBuffer
from netfl.network.message import BroadcastCopy
from netfl.network.queue.drop_tail import DropTail
from netfl.network.queue.drr import Drr
from netfl.network.queue.priority import Priority
from netfl.network.queue.relay import Relay
from netfl.streams import Streams


class Copies:
    """Copies of versions in a buffer; keeps the users that newer copies took out, as (version, users)."""

    def __init__(self, queue=None, *, by_user=False):
        self.buffer = VersionBuffer((queue or DropTail()).open(1e6, Streams(0)), by_user=by_user)
        self.taken = []

    def push(self, version, *users, tower="tower:0"):
        copy = BroadcastCopy(
            -1, 8e3, flow=users[0], version=version, ids=np.array(users), users=np.array(users),
            route=("server", tower), on_arrival=print, on_loss=print, on_supersede=self._note,
        )  # fmt: skip
        return [(ended.version, ended.users.tolist()) for ended in self.buffer.push(copy, 0.0)]

    def _note(self, copy, users):
        self.taken.append((copy.version, users.tolist()))

    def pop_all(self):
        popped = []
        while (copy := self.buffer.pop(0.0)) is not None:
            popped.append((copy.version, copy.users.tolist()))
        return popped


def test_newer_copy_takes_the_place_of_an_older_one():
    copies = Copies()
    copies.push(0, 1, 2)
    copies.push(0, 1, 2, tower="tower:1")
    assert copies.push(1, 1, 2) == [(0, [])]
    assert copies.taken == [(0, [1, 2])]
    assert len(copies.buffer) == 2
    assert copies.pop_all() == [(1, [1, 2]), (0, [1, 2])], "the copy for the other tower keeps its place"


def test_older_copy_keeps_the_users_that_the_newer_one_is_not_for():
    copies = Copies()
    copies.push(0, 1, 2, 3)
    assert copies.push(1, 2, 4) == []
    assert copies.pop_all() == [(0, [1, 3]), (1, [2, 4])]


def test_one_newer_copy_replaces_several_older_ones():
    copies = Copies()
    copies.push(0, 1)
    copies.push(1, 2)
    copies.push(2, 3)
    assert copies.push(3, 1, 2) == [(0, []), (1, [])]
    assert len(copies.buffer) == 2
    assert copies.pop_all() == [(3, [1, 2]), (2, [3])]
    assert len(copies.buffer) == 0


def test_older_copy_that_comes_later_ends_at_once():
    """A tower that repeats a copy puts it back into the queue, where newer copies may wait."""
    copies = Copies()
    copies.push(1, 1, 2)
    assert copies.push(0, 1, 2) == [(0, [])]
    assert copies.push(0, 2, 3) == []
    assert copies.pop_all() == [(1, [1, 2]), (0, [3])]


def test_second_copy_of_one_version_waits_beside_the_first():
    copies = Copies()
    copies.push(0, 1)
    copies.push(0, 2)
    assert copies.pop_all() == [(0, [1]), (0, [2])]


@pytest.mark.parametrize(
    "queue",
    [
        DropTail(capacity=3),
        Relay(flow_capacity=1),
        Drr(capacity=1),
        Priority(capacity=3),
        DropTail(capacity_bytes=3000),
    ],
)
def test_full_queue_of_any_discipline_takes_newer_copies(queue):
    copies = Copies(queue, by_user=True)
    for user in range(3):
        assert copies.push(0, user) == []
    for version in range(1, 5):
        for user in (2, 0, 1):
            assert copies.push(version, user) == [(version - 1, [])]
    assert sorted(copies.pop_all()) == [(4, [0]), (4, [1]), (4, [2])]


def test_dropped_copy_leaves_no_trace():
    copies = Copies(DropTail(capacity=1))
    copies.push(0, 1)
    assert copies.push(0, 2, tower="tower:1") == [(0, [2])]
    assert copies.push(1, 2, tower="tower:1") == [(1, [2])]
    assert copies.pop_all() == [(0, [1])]


def test_random_copies_balance():
    """Every user of every copy leaves the buffer once: popped, taken out, or dropped."""
    rng, copies = np.random.default_rng(3), Copies(DropTail(capacity=4))
    pushed, ended, popped = [], [], []
    for version in range(400):
        users = sorted(rng.choice(6, rng.integers(1, 5), replace=False).tolist())
        pushed += [(version, user) for user in users]
        ended += [(number, user) for number, left in copies.push(version, *users) for user in left]
        if rng.random() < 0.4 and (copy := copies.buffer.pop(0.0)) is not None:
            popped += [(copy.version, user) for user in copy.users.tolist()]
    popped += [(number, user) for number, left in copies.pop_all() for user in left]
    taken = [(number, user) for number, left in copies.taken for user in left]
    assert sorted([*ended, *popped, *taken]) == sorted(pushed)
    assert taken
    assert popped
