"""Shared fixtures: contexts of an access, a recorder in memory, and helpers that run an access."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder


class Memory:
    """A recorder that stores each event as a row in memory."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return kind != "attempts"

    def add_rows(self, table, columns):
        pass

    def final_metrics(self, values):
        self.metrics = dict(values)

    def record(self, event):
        for time, user_id, number in np.broadcast(event.time_s, event.user, event.value):
            self.rows.append((event.kind, float(time), event.round, int(user_id), float(number)))

    def outcomes(self):
        """Return the kinds of events of each (user, round)."""
        outcomes = defaultdict(list)
        for kind, _, at, user, _ in self.rows:
            if user >= 0:
                outcomes[user, at].append(kind)
        return outcomes


def context(users=4, rounds=10, seed=1, replica=0, label_mix=None):
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
def make_context():
    """A factory of contexts with a recorder that stores all events."""
    return context


@pytest.fixture
def constant_streams():
    """A factory of streams in which every number is the same constant."""

    def make(number):
        field = SimpleNamespace(uniform=lambda *at: np.full(np.broadcast_shapes(*map(np.shape, at)), number))
        return SimpleNamespace(field=lambda name: field)

    return make


@pytest.fixture
def delivered_users():
    """A function that runs an access and returns the delivered users of each round as tuples."""

    def run(access, context):
        return [tuple(delivery.user for delivery in round_.deliveries) for round_ in access.rounds(context)]

    return run


@pytest.fixture
def delivery_matrix(delivered_users):
    """A function that runs an access and returns whether each user is delivered, ``[rounds, users]``."""

    def run(access, context):
        matrix = np.zeros((context.rounds, context.users), bool)
        for index, users in enumerate(delivered_users(access, replace(context, recorder=NullRecorder()))):
            matrix[index, list(users)] = True
        return matrix

    return run
