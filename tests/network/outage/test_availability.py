"""The outage that reads availability files: states and changes against a walk by hand, once and in cycles."""

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
SITES = Star(radius=10).open(5, STREAMS)


@pytest.fixture
def written(said_in):
    return said_in(Availability)


def changes(model, node, until=100.0):
    when, _, up = CombinedOutages([model.open(SITES, STREAMS)]).changes(np.array([node]), 0.0, until)
    return list(zip(when.tolist(), up.tolist(), strict=True))


def test_once(written):
    model = written("0,on,10,20.5\n1,off,5\n2,off\n3,on\n")
    timeline = model.open(SITES, STREAMS)
    nodes = np.arange(SITES.nodes)
    assert timeline.up(nodes, 0.0).tolist() == [True, False, False] + [True] * (SITES.nodes - 3)
    assert timeline.up(np.array([0, 0, 0, 1]), np.array([10.0, 20.5, 9.999, 5.0])).tolist() == [False, True, True, True]
    assert timeline.next_change(np.arange(5), 5.0).tolist() == [10.0] + [math.inf] * 4
    assert changes(model, 0) == [(10.0, False), (20.5, True)]
    assert changes(model, 1) == [(5.0, True)]
    assert not changes(model, 2)
    assert not changes(model, 4)
    assert timeline.is_exact


def test_in_cycles(written):
    model = written("0,on,10,20.5\n1,off,5\n2,off\n3,on\n", repeat="30 s")
    assert changes(model, 0, 75) == [(10, False), (20.5, True), (40, False), (50.5, True), (70, False)]
    assert changes(model, 1, 75) == [(5, True), (30, False), (35, True), (60, False), (65, True)]
    assert not changes(model, 2)
    assert not changes(model, 3)


@pytest.mark.parametrize("repeat", [None, 1.0, 0.1, 7.3, 86_400.0 / 7])
def test_any_order_of_asking_and_what_is_next(written, repeat):
    rng = np.random.default_rng(8)
    span = repeat or 50.0
    rows = [(user, bool(rng.integers(2)), np.sort(rng.uniform(0, span, 2 * user + 1))) for user in range(5)]
    text = "".join(f"{user},{start:d},{','.join(map(repr, times.tolist()))}\n" for user, start, times in rows)
    timeline = written(text, repeat=repeat).open(SITES, STREAMS)
    users = rng.integers(0, 5, 4_000)
    asked = rng.uniform(0, 6 * span, 4_000)

    def state(user, time_s):
        start, times = rows[user][1:]
        return start ^ bool((times <= (time_s if repeat is None else time_s % repeat)).sum() % 2)

    assert timeline.up(users, asked).tolist() == [state(*one) for one in zip(users, asked, strict=True)]
    following = timeline.next_change(users, asked)
    assert (following > asked).all()
    finite = np.isfinite(following)
    before, after = (timeline.up(users[finite], following[finite] + step) for step in (-1e-9 * span, 0.0))
    assert (before != after).all()
    assert (timeline.up(users[finite], (asked + 0.5 * (following - asked))[finite]) == before).all()
    assert finite.all() or repeat is None


def test_nobody_may_be_asked_about(written):
    timeline = written("0,on,10\n", repeat=20).open(SITES, STREAMS)
    nobody = np.array([], int)
    assert timeline.up(nobody, 1.0).shape == timeline.next_change(nobody, 1.0).shape == (0,)


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("0,on,5,4\n", {}, "there.csv:1: times are not ascending"),
        ("5,on,5\n", {}, "there.csv:1: no such user"),
        ("0,on,5\n", {"repeat": 5}, "there.csv:1: a change at 5 is after the end"),
        ("", {}, "there.csv has no user"),
    ],
)
def test_misfits_are_faults(written, text, said, told):
    model = written(text, **said)
    (fault,) = model.faults(ScenarioFacts(users=5, rounds=1))
    assert fault.problem.startswith(told)
