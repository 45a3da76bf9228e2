"""Checks of one composition: equal users, permuted users, other units of time."""

import itertools
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import simpy

from netfl.network.mac.proportional_fair import ProportionalFair
from netfl.network.membership import Membership
from netfl.simulation.setup import access_context
from support.recorders import Memory
from support.run_invariants import check_tables, tables_of_recorder, watched

MAX_EVENTS, MAX_STEPS = 8_000, 12_000
"""Numbers of recorded events, and of steps of the clock, after which a run is cut off.

A run in which nobody ever sends records nothing.  Rows of the design that end have less than half as many steps.
"""
MAX_STEPS_OF_EQUALS = 50_000
"""Steps of a run of equal users, which is longer."""
MAX_TIME_S = 1e6
"""Simulated time after which a run is cut off, as that of a user that drives away for ever."""
SEEDS, BLOCKS, DRAWS = 6, 6, 2000
"""Seeds of a test of equal users, blocks of time of each run, and permutations."""
LEVEL = 1.0 / 1000.0
"""p-value below which a test of equal users is repeated with other seeds; both must lie below it.

The two tests are independent, so that equal users fail with probability 2.5e-7: below 0.1 % for all of some thousand
tests together.
"""


class LongRunError(Exception):
    """A run with more events, or for a longer time, than a small scenario has."""


class BoundedMemory(Memory):
    """A recorder that ends a run after `MAX_EVENTS`, and after *longest_s* of simulated time."""

    def __init__(self, longest_s):
        super().__init__()
        self._longest_s = longest_s

    def record(self, event):
        super().record(event)
        if len(self.rows) > MAX_EVENTS or np.max(event.time_s) > self._longest_s:
            raise LongRunError


@contextmanager
def limited_steps(most):
    """Raise `LongRunError` after *most* steps of a clock."""
    step = simpy.Environment.step
    steps = itertools.count()

    def limited_step(clock):
        if next(steps) >= most:
            raise LongRunError
        step(clock)

    simpy.Environment.step = limited_step
    try:
        yield
    finally:
        simpy.Environment.step = step


def simulate(scenario, replica=0, longest_s=np.inf, most_steps=MAX_STEPS):
    """Return the rounds of one replica and its recorder."""
    log = BoundedMemory(longest_s)
    context = replace(access_context(scenario, replica), recorder=log)
    with limited_steps(most_steps):
        return [*scenario.access.rounds(context)], log


def check_run_of(scenario, replica=0):
    """Check all invariants of one replica."""
    with watched():
        rounds, log = simulate(scenario, replica, MAX_TIME_S)
    access = scenario.access.model_dump(mode="json")
    check_tables(tables_of_recorder(rounds, log), scenario.users, scenario.steps, access)


@contextmanager
def ordered(order):
    """Number the users of each cell in the given order of all users."""
    rank = np.argsort(order)
    begin = Membership.__init__

    def begin_ordered(self, *parts, **options):
        begin(self, *parts, **options)
        for tower, users in enumerate(self._candidates):
            in_order = users[np.argsort(rank[users])]
            self._candidates[tower] = in_order
            self._slot_at_start[in_order] = np.arange(len(in_order))
            if tower in self._slot_of:
                self._slot_of[tower][in_order] = np.arange(len(in_order))

    Membership.__init__ = begin_ordered
    try:
        yield
    finally:
        Membership.__init__ = begin


def keeps_order(scenario):
    """Return whether the order of equal users lasts: by their numbers, or by that of their last turns.

    Proportional fair, without fading, serves the user whose turn is the longest ago.  In a round in which each user has
    one turn this is the order of the round before.
    """
    access = scenario.access
    is_rotation = isinstance(access.mac, ProportionalFair) and len(access.channel) == 1
    return access.mac.has_fixed_order or is_rotation


def counts(scenario, replica):
    """Return the deliveries of each user in each block of time, ``[blocks, users]``."""
    rounds, log = simulate(scenario, replica, most_steps=MAX_STEPS_OF_EQUALS)
    users = np.arange(scenario.users + 1) - 0.5
    if scenario.duration is None:
        rows = [(round_.index, delivery.user) for round_ in rounds for delivery in round_.deliveries]
        span = len(rounds) + 1.0
    else:
        rows = [(row[1], row[3]) for row in log.rows if row[0] == "delivered"]
        span = scenario.duration
    times, ids = np.array(rows, float).reshape(-1, 2).T
    return np.histogram2d(times, ids, bins=(np.linspace(0.0, span, BLOCKS + 1), users))[0]


def p_value(groups, rng):
    """Return the probability that exchangeable columns have totals as unequal as those of *groups*, ``[n, rows, m]``.

    A permutation test: the entries of each row are permuted, independently, and the statistic is the sum of the squares
    of the totals of each group.  It is exact where the entries of a row are exchangeable and rows are independent.
    """

    def statistic(values):
        return np.square(values.sum(axis=-2)).sum(axis=(-2, -1))

    order = rng.random((DRAWS, *groups.shape)).argsort(axis=-1)
    permuted = np.take_along_axis(np.broadcast_to(groups, order.shape), order, axis=-1)
    return float((1 + np.count_nonzero(statistic(permuted) >= statistic(groups) - 1e-9)) / (1 + DRAWS))


def unequal(scenario, *, within):
    """Return the tests in which equal users have deliveries that differ by more than chance, with the deliveries.

    ``seeds``: the totals of users, over all seeds.  ``time`` (with *within*): the totals of each seed, where the blocks
    of time are permuted; it detects a user that is preferred for a whole run.
    """
    suspects = {"seeds", "time"} if within and not keeps_order(scenario) else {"seeds"}
    for first in (0, SEEDS):
        rng, runs = np.random.default_rng(first), []
        for replica in range(first, first + SEEDS):
            order = np.arange(scenario.users)
            if scenario.access.mac.has_fixed_order:
                order = rng.permutation(scenario.users)
            with ordered(order):
                run = counts(scenario, replica)
            runs.append(run)
        table = np.array(runs)
        tests = {"seeds": table.sum(axis=1)[None], "time": table}
        suspects = {name for name in suspects if p_value(tests[name], rng) <= LEVEL}
        if not suspects:
            return {}
    return {name: table.sum(axis=1).astype(int).tolist() for name in suspects}
