"""The connection between users and towers, with planned outages: users 0 to 2, and the tower 100."""

import numpy as np
import pytest

from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.radio.connection import ALWAYS_CONNECTED, Connection

USERS = np.arange(3)
TOWER = 100


@pytest.fixture
def connect(planned_outages):
    """Return a connection with outages in the stated intervals of each node."""

    def connect(plan):
        return Connection(NodeState(CombinedOutages([planned_outages(plan)]), TOWER + 1))

    return connect


def test_connection_without_outages():
    connection = ALWAYS_CONNECTED
    assert connection.steady
    assert connection.usage_independent
    assert connection.connected(USERS, TOWER, 5.0).all()
    assert connection.connected_from(USERS, TOWER, 5.0).tolist() == [5.0] * 3
    assert connection.interrupted(USERS, TOWER, 5.0, 6.0, 6.0) is None
    assert connection.listening_during(USERS, 5.0, 6.0, is_tower_up=False).all()
    assert connection.is_up_during(TOWER, 5.0, 6.0)
    assert connection.train(USERS, np.full(3, 5.0), np.ones(3)) is None
    assert connection.spend(USERS, 5.0, 1e3) is None
    assert np.isinf(connection.off_s(USERS, np.zeros(3), np.ones(3))).all()
    assert Connection(NodeState(CombinedOutages(), TOWER + 1)).steady


def test_user_and_tower_must_both_be_up(connect):
    """User 0 is down from 2 to 6, the tower from 4 to 8, and user 1 from 7 to 9."""
    connection = connect({0: [(2, 6)], TOWER: [(4, 8)], 1: [(7, 9)]})
    assert not connection.steady
    assert connection.connected(USERS, TOWER, 3.0).tolist() == [False, True, True]
    assert connection.connected_from(USERS, TOWER, 3.0) == pytest.approx([8.0, 3.0, 3.0])
    assert connection.connected(USERS, TOWER, 5.0).tolist() == [False] * 3
    assert connection.connected_from(USERS, TOWER, 5.0) == pytest.approx([8.0, 9.0, 8.0])
    assert not connection.is_node_up(TOWER, 5.0)
    assert connection.listening(USERS, 5.0, is_tower_up=True).tolist() == [False, True, True]
    assert not connection.listening(USERS, 5.0, is_tower_up=False).any()


@pytest.mark.parametrize(
    ("plan", "is_lost"),
    [
        ({0: [(5, 6)], TOWER: [(8, 9)]}, [False, False]),  # both touch the transmission only
        ({0: [(4.5, 6)]}, [True, False]),
        ({0: [(6, 7)]}, [False, False]),  # all of the signal is on its way
        ({TOWER: [(6, 7)]}, [True, True]),
    ],
)
def test_sender_and_tower_must_stay_up(connect, plan, is_lost):
    """Two users send from 2 to 5, and their signals arrive until 8."""
    assert connect(plan).interrupted(USERS[:2], TOWER, 2.0, 5.0, 8.0) == is_lost


def test_listener_must_stay_up(connect):
    """A signal arrives from 2 to 5."""
    connection = connect({0: [(1, 2)], 1: [(4, 6)], 2: [(5, 6)]})
    assert connection.listening_during(USERS, 2.0, 5.0, is_tower_up=True).tolist() == [True, False, True]
    assert not connection.listening_during(USERS, 2.0, 5.0, is_tower_up=False).any()


def test_tower_must_stay_up_while_it_sends(connect):
    connection = connect({TOWER: [(1, 2), (5, 6), (9, 10)]})
    assert connection.is_up_during(TOWER, 2.0, 5.0)
    assert not connection.is_up_during(TOWER, 5.0, 5.5)
    assert not connection.is_up_during(TOWER, 8.0, 9.5)
