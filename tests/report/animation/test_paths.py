"""Paths of updates through a network, derived from events written by hand."""

import numpy as np
import pandas as pd

from netfl.report.animation import events
from netfl.report.animation.layout import AnimationLayout
from netfl.report.animation.paths import packet_paths, update_paths

SERVER, ROUTER, TOWER, USER = range(4)
"""Numbers of the nodes of `line`, and of the user."""


def line(users=2):
    """Return a layout of users, a tower, a router and the server on a line."""
    return AnimationLayout(
        users=np.zeros((users, 2)),
        names=("server", "router:0", "tower:0"),
        roles=("server", "router", "tower"),
        nodes=np.zeros((3, 2)),
        links=((SERVER, ROUTER), (ROUTER, TOWER)),
        has_scenario_links=True,
        has_positions=True,
        tower=np.full(users, TOWER),
    )


def event_table(*rows):
    """Return a table of events (time, kind, user, node, value)."""
    columns = ["time_s", "kind", "user", "node", "value"]
    return pd.DataFrame([(*row, np.nan)[:5] for row in rows], columns=columns).assign(detail="", traffic="")


def paths(*rows, deliveries_=()):
    """Return the path segments of events (time, kind, user, node, value) on the line, as tuples."""
    deliveries = pd.DataFrame(deliveries_, columns=["user", "sent_s", "arrived_s"])
    return [*update_paths(event_table(*rows), line(), deliveries, 9.0).itertuples(index=False, name=None)]


def test_update_passes_air_ports_and_links():
    events_ = [
        (1.0, "sent", 0, "tower:0", 100.0),
        (2.5, "forwarded", 0, "tower:0", 0.5),
        (3.0, "forwarded", 0, "router:0", 0.2),
        (3.1, "delivered", 0, "server", 7.0),
    ]
    legs = [(1.0, 2.0, USER, TOWER), (2.0, 2.5, TOWER, TOWER), (2.5, 2.8, TOWER, ROUTER)]
    legs += [(2.8, 3.0, ROUTER, ROUTER), (3.0, 3.1, ROUTER, SERVER)]
    assert paths(*events_) == [(0, *leg, 1) for leg in legs]


def test_update_without_forwarded_events_is_one_segment():
    assert paths((1.0, "sent", 0, "tower:0"), (3.1, "delivered", 0, "server")) == [(0, 1.0, 3.1, USER, SERVER, 1)]


def test_each_attempt_is_a_segment():
    events_ = [
        (1.0, "sent", 1, "tower:0"),
        (2.0, "failed", 1, "tower:0"),
        (3.0, "sent", 1, "tower:0"),
        (4.0, "given_up", 1, "tower:0"),
        (5.0, "superseded", 1, ""),
        (6.0, "sent", 1, "tower:0"),
    ]
    assert paths(*events_) == [
        (1, 1.0, 2.0, USER, TOWER, 2),
        (1, 3.0, 4.0, USER, TOWER, 2),
        (1, 6.0, 9.0, USER, TOWER, 0),
    ]


def test_two_updates_of_a_user_are_separate():
    events_ = [
        (1.0, "sent", 0, "tower:0"),
        (2.0, "sent", 0, "tower:0"),
        (3.0, "failed", 0, "tower:0"),
        (4.0, "late", 0, "server"),
    ]
    assert paths(*events_) == [(0, 1.0, 4.0, USER, SERVER, 0), (0, 2.0, 3.0, USER, TOWER, 2)]


def test_last_attempt_of_an_update_ends_once():
    """Its failure and its outcome are two events, and an earlier update is still on its way."""
    events_ = [
        (1.0, "sent", 0, "tower:0"),
        (2.0, "forwarded", 0, "tower:0", 0.0),
        (3.0, "sent", 0, "tower:0"),
        (4.0, "failed", 0, "tower:0"),
        (4.0, "given_up", 0, "tower:0"),
        (5.0, "late", 0, "server"),
    ]
    legs = [(3.0, 4.0, USER, TOWER, 2), (1.0, 2.0, USER, TOWER, 0), (2.0, 5.0, TOWER, SERVER, 0)]
    assert sorted(paths(*events_)) == sorted((0, *leg) for leg in legs)


def test_packets_beside_updates_have_no_paths():
    table = event_table((1.0, "sent", 0, "tower:0"), (2.0, "failed", 0, "tower:0"), (3.0, "sent", 0, "tower:0"))
    table["traffic"] = ["video", "video", ""]
    legs = update_paths(table, line(), pd.DataFrame(columns=["user", "sent_s", "arrived_s"]), 9.0)
    assert legs["start_s"].tolist() == [3.0]


def test_update_lost_on_a_link_ends_at_the_node_before():
    events_ = [
        (1.0, "sent", 0, "tower:0"),
        (2.0, "forwarded", 0, "tower:0", 0.0),
        (2.1, "lost", 0, "router:0-tower:0"),
    ]
    assert paths(*events_) == [(0, 1.0, 2.0, USER, TOWER, 2), (0, 2.0, 2.1, TOWER, TOWER, 2)]


def test_deliveries_without_events_are_paths():
    assert paths(deliveries_=[(1, 2.0, 3.0)]) == [(1, 2.0, 3.0, USER, SERVER, 1)]


def test_packets_start_at_sender_and_wait_in_ports():
    events_ = [
        (2.5, "forwarded", 0, "tower:0", 0.5),
        (3.0, "delivered", 0, "server", 1.5),
        (3.5, "dropped", 1, "router:0", 0.25),
        (4.0, "delivered", -1, "server", 2.0),
    ]
    assert [*packet_paths(event_table(*events_), line()).itertuples(index=False, name=None)] == [
        (0, 1.5, 3.0, USER, SERVER, 1),
        (0, 2.0, 2.5, TOWER, TOWER, 0),
        (1, 3.25, 3.5, USER, ROUTER, 2),
    ]


def test_user_with_first_event_up_is_down_from_start():
    events_ = [(2.0, "down", 0, ""), (3.0, "up", 1, ""), (4.0, "up", 0, ""), (5.0, "down", -1, "tower:0-router:0")]
    found = events.outage_switches(event_table(*events_), line(), users=2)
    assert [*found.itertuples(index=False, name=None)] == [
        (0.0, 1, 1),
        (2.0, 0, 1),
        (3.0, 1, 0),
        (4.0, 0, 0),
        (5.0, 2 + 3 + 1, 1),
    ]


def test_too_many_events_are_limited_by_kind_then_time():
    events_ = event_table(*[(at, kind, 0, "") for at in range(10) for kind in ("received", "sent", "delivered")])
    assert events.limit_events(events_, 30).omitted_kinds == ()
    fewer = events.limit_events(events_, 20)
    assert (fewer.omitted_kinds, fewer.end_s, len(fewer.events)) == (("received",), None, 20)
    short = events.limit_events(events_, 4)
    assert (short.omitted_kinds, short.end_s) == (("received", "sent"), 4.0)
    assert short.events["time_s"].tolist() == [0, 1, 2, 3]
