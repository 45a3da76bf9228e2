"""A world to ask an access in, and a recorder that keeps what it is told."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder


class Memory:
    """Keeps every event, as rows."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return True

    def final_metrics(self, values):
        self.told = dict(values)

    def event(self, kind, time_s, *, round, user=-1, node="", value=np.nan, detail=""):
        for time, who, figure in np.broadcast(time_s, user, value):
            self.rows.append((kind, float(time), round, int(who), float(figure)))

    def outcomes(self):
        """How often each kind befell each (user, round)."""
        found = defaultdict(list)
        for kind, _, at, user, _ in self.rows:
            if user >= 0:
                found[user, at].append(kind)
        return found


def setting(users=4, rounds=10, seed=1, replica=0, label_mix=None):
    return AccessContext(
        users=users,
        rounds=rounds,
        replica=replica,
        streams=Streams(seed).at("access", replica),
        samples=np.ones(users),
        uplink_bits=100.0,
        downlink_bits=70.0,
        recorder=Memory(),
        label_mix=label_mix,
    )


@pytest.fixture
def make_setting():
    """Makes a setting with a recorder that keeps all."""
    return setting


@pytest.fixture
def drawing():
    """Makes streams of which all numbers are one and the same."""

    def make(number):
        field = SimpleNamespace(uniform=lambda *at: np.full(np.broadcast_shapes(*map(np.shape, at)), number))
        return SimpleNamespace(field=lambda name: field)

    return make


@pytest.fixture
def hear():
    """Runs an access and tells who was heard, round by round, as tuples."""

    def run(access, world):
        return [tuple(delivery.user for delivery in one.deliveries) for one in access.rounds(world)]

    return run


@pytest.fixture
def presence(hear):
    """Runs an access and tells who was heard as a matrix, ``[rounds, users]``."""

    def run(access, world):
        matrix = np.zeros((world.rounds, world.users), bool)
        for index, users in enumerate(hear(access, replace(world, recorder=NullRecorder()))):
            matrix[index, list(users)] = True
        return matrix

    return run
