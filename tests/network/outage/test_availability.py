"""Outages from availability files: states and changes compared with a walk by hand, once and in cycles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage.availability import Availability
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(53)
LAYOUT = Star(radius=10).open(5, STREAMS)


@pytest.fixture
def write_model(model_with_file):
    return model_with_file(Availability)


def list_changes(model, node, until=100.0):
    times_s, _, up = CombinedOutages([model.open(LAYOUT, STREAMS)]).changes(np.array([node]), 0.0, until)
    return list(zip(times_s.tolist(), up.tolist(), strict=True))


def test_schedule_applies_once(write_model):
    model = write_model("0,on,10,20.5\n1,off,5\n2,off\n3,on\n")
    timeline = model.open(LAYOUT, STREAMS)
    nodes = np.arange(LAYOUT.nodes)
    assert timeline.up(nodes, 0.0).tolist() == [True, False, False] + [True] * (LAYOUT.nodes - 3)
    assert timeline.up(np.array([0, 0, 0, 1]), np.array([10.0, 20.5, 9.999, 5.0])).tolist() == [False, True, True, True]
    assert timeline.next_change(np.arange(5), 5.0).tolist() == [10.0] + [math.inf] * 4
    assert list_changes(model, 0) == [(10.0, False), (20.5, True)]
    assert list_changes(model, 1) == [(5.0, True)]
    assert not list_changes(model, 2)
    assert not list_changes(model, 4)
    assert timeline.is_exact


def test_schedule_repeats(write_model):
    model = write_model("0,on,10,20.5\n1,off,5\n2,off\n3,on\n", repeat="30 s")
    assert list_changes(model, 0, 75) == [(10, False), (20.5, True), (40, False), (50.5, True), (70, False)]
    assert list_changes(model, 1, 75) == [(5, True), (30, False), (35, True), (60, False), (65, True)]
    assert not list_changes(model, 2)
    assert not list_changes(model, 3)


@pytest.mark.parametrize("repeat", [None, 1.0, 0.1, 7.3, 86_400.0 / 7])
def test_queries_in_any_order(write_model, repeat):
    rng = np.random.default_rng(8)
    span = repeat or 50.0
    rows = [(user, bool(rng.integers(2)), np.sort(rng.uniform(0, span, 2 * user + 1))) for user in range(5)]
    text = "".join(f"{user},{start:d},{','.join(map(repr, times.tolist()))}\n" for user, start, times in rows)
    timeline = write_model(text, repeat=repeat).open(LAYOUT, STREAMS)
    users = rng.integers(0, 5, 4_000)
    times_s = rng.uniform(0, 6 * span, 4_000)

    def state(user, time_s):
        start, times = rows[user][1:]
        return start ^ bool((times <= (time_s if repeat is None else time_s % repeat)).sum() % 2)

    assert timeline.up(users, times_s).tolist() == [state(*query) for query in zip(users, times_s, strict=True)]
    next_s = timeline.next_change(users, times_s)
    assert (next_s > times_s).all()
    is_finite = np.isfinite(next_s)
    state_before, state_after = (
        timeline.up(users[is_finite], next_s[is_finite] + step) for step in (-1e-9 * span, 0.0)
    )
    assert (state_before != state_after).all()
    assert (timeline.up(users[is_finite], (times_s + 0.5 * (next_s - times_s))[is_finite]) == state_before).all()
    assert is_finite.all() or repeat is None


def test_queries_without_nodes_are_empty(write_model):
    timeline = write_model("0,on,10\n", repeat=20).open(LAYOUT, STREAMS)
    no_users = np.array([], int)
    assert timeline.up(no_users, 1.0).shape == timeline.next_change(no_users, 1.0).shape == (0,)


@pytest.mark.parametrize(
    ("text", "overrides", "problem"),
    [
        ("0,on,5,4\n", {}, "there.csv:1: times are not ascending"),
        ("5,on,5\n", {}, "there.csv:1: no such user"),
        ("0,on,5\n", {"repeat": 5}, "there.csv:1: a change at 5 is after the end"),
        ("", {}, "there.csv has no user"),
    ],
)
def test_inconsistent_schedules_are_rejected(write_model, text, overrides, problem):
    model = write_model(text, **overrides)
    (fault,) = model.faults(ScenarioFacts(users=5, rounds=1))
    assert fault.problem.startswith(problem)
