"""Largest weights of rules from outside netfl, found by trials: changes of 1 and 2 of some users, and of all.

A rule is *proportional* if its version moves along the changes, twice as far for changes of twice the size, and for all
users as far as for each of them in turn, added up.  Its largest weight is then the factor of a round in which all
changes are equal.  Other rules have none: they follow losses, past deliveries or the sizes of changes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netfl.learning.aggregation import Aggregation, State, Updates
from netfl.learning.objective import Objective
from netfl.types import Floats, Ints

MAX_USERS = 1000
"""Largest number of users of a rule that is probed."""
TOLERANCE = 1e-3
"""Relative difference up to which factors are equal: versions have single precision, and a momentum has to settle."""

_DIRECTION = torch.tensor([1.0, -2.0, 0.5, 0.0])
"""A change of size 1.  Powers of two add up without rounding; the last number is t, which stays."""
_MAX_GROUPS = 16
"""Largest number of groups of users that change in turn."""
_MAX_STEPS = 4000
"""Bound on the steps of a rule for the groups in one history, if there are more than two groups."""
_SETTLING = 120
"""Largest number of rounds with the same deliveries, in which a momentum settles."""
_EQUAL_ROUNDS = 3
"""Rounds with the same factor, after which it has settled."""
_ABSENCE = 30
"""Rounds in which most users are absent in the second history."""


@dataclass(frozen=True, slots=True)
class ProbedWeight:
    """Factors by which equal changes move a version, or by which losses weigh a gradient.

    Args:
        largest: the largest of the factors.
        is_proportional: they are those of a rule whose largest weight is *largest*.
    """

    largest: float
    is_proportional: bool


@dataclass(frozen=True, slots=True)
class _History:
    """Rounds of a trial, and what users hold.

    Args:
        rounds: users that are delivered in each of the first rounds.
        senders: users that are delivered in all further rounds.
        losses: mean loss of each user, ``[users]``.
        samples: number of examples of each user, ``[users]``.
        rate: step size of local training.
        steps: local steps of an update.
    """

    rounds: Sequence[Ints]
    senders: Ints
    losses: Floats
    samples: Floats
    rate: float
    steps: int


def probe_aggregation(rule: Aggregation, users: int, deliveries: int) -> ProbedWeight | None:
    """Return the weight of *rule* for so many users, and deliveries in a round; ``None`` for more than `MAX_USERS`.

    Each trial begins with the first state of the rule, and delivers all users before its answer is read.  Two histories
    differ in deliveries, losses, numbers of examples, step sizes and local steps: a rule whose answer depends on them
    has no weight.

    Raises:
        Exception: any of a method of the rule, or its answer is no version.
    """
    if users > MAX_USERS:
        return None
    deliveries = min(users, max(1, deliveries))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        has_state = bool(rule.open(users, _DIRECTION.clone()))
        heaviest = np.argsort(-_weights_of_users(rule, users, deliveries), kind="stable")
        largest = 0.0
        is_proportional = True
        for size in sorted({1, deliveries}):
            first, second = _histories(heaviest[:size], users, deliveries, has_state=has_state)
            factor, is_steady = _largest_factor(rule, first)
            other, is_other_steady = _largest_factor(rule, second)
            largest = max(largest, factor, other)
            is_proportional &= is_steady and is_other_steady and _are_equal(factor, other)
        if is_proportional:  # the last histories have the most senders
            is_proportional = largest > 0 and _adds_up(rule, first) and _adds_up(rule, second)
    return ProbedWeight(float(f"{largest:.5g}"), is_proportional)  # without the rounding errors of single precision


def probe_objective(objective: Objective) -> ProbedWeight:
    """Return the largest sum of the weights of a mini-batch: a weight if it is the same for all losses and t.

    Raises:
        Exception: any of a method of the objective.
    """
    losses = torch.tensor([[0.5, 1.0, 2.0], [1.0, 2.0, 4.0], [3.0, 1.5, 0.0], [1e-3, 0.0, 2e-3], [1e3, 2e3, 0.0]])
    share = torch.tensor([[1 / 3] * 3, [1 / 3] * 3, [1 / 2, 1 / 2, 0.0], [1 / 3] * 3, [1 / 3] * 3])
    jobs = len(losses)
    hyper: dict[str, Any] = {}
    for name, value in objective.hyper().items():
        hyper[name] = value if isinstance(value, bool) else torch.full((jobs,), value)
    sums: list[float] = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        for t in (-1.0, 0.0, 1.25, 100.0):
            weights, _ = objective.gradient_weights(losses.clone(), share.clone(), torch.full((jobs,), t), hyper)
            sums += weights.sum(1).tolist()
    largest = max(sums)
    is_constant = largest > 0 and all(_are_equal(each, largest) for each in sums)
    return ProbedWeight(float(f"{largest:.5g}"), is_constant)


def _histories(senders: Ints, users: int, deliveries: int, *, has_state: bool) -> tuple[_History, _History]:
    """Return two histories that end with deliveries of *senders*; a rule without a state needs no earlier rounds."""
    first: list[Ints] = []
    second: list[Ints] = []
    if has_state:
        nobody = senders[:0]
        first = _rotation(users, deliveries)
        second = [*reversed(first), *repeat(senders[-1:], _ABSENCE // 2), *repeat(nobody, _ABSENCE // 2)]
    numbers = np.arange(users, dtype=float)
    small_losses = np.full(users, 0.01)
    other_losses = 0.5 + np.remainder(numbers, 3)
    other_samples = 1 + np.remainder(numbers, 5)
    return (
        _History(first, senders, small_losses, np.ones(users), rate=0.125, steps=1),
        _History(second, senders, other_losses, other_samples, rate=0.25, steps=2),
    )


def _rotation(users: int, deliveries: int) -> list[Ints]:
    """Return rounds of *deliveries* that deliver all users."""
    return [np.arange(start, start + deliveries) % users for start in range(0, users, deliveries)]


def _weights_of_users(rule: Aggregation, users: int, deliveries: int) -> Floats:
    """Return how far each user moves the version by itself, ``[users]``: each changes a parameter of its own."""
    changes = torch.eye(users, users + 1)
    rotation = _rotation(users, deliveries)
    history = _History(rotation, rotation[0], np.ones(users), np.ones(users), rate=0.125, steps=1)
    weights = np.zeros(users)
    for senders, move in zip(rotation, _moves(rule, history, changes), strict=False):
        weights[senders] = move[torch.from_numpy(senders)].numpy()
    return weights


def _largest_factor(rule: Aggregation, history: _History) -> tuple[float, bool]:
    """Return the factor for equal changes of all users, and whether it is one for changes of 1 and of 2."""
    everyone = np.ones(len(history.samples))
    factor, is_steady = _settled_factor(rule, history, everyone)
    twice, is_steady_twice = _settled_factor(rule, history, 2 * everyone)
    is_steady &= is_steady_twice and _are_equal(twice, 2 * factor)
    return max(factor, twice / 2), is_steady


def _settled_factor(rule: Aggregation, history: _History, sizes: Floats) -> tuple[float, bool]:
    """Return the largest factor of the rounds after a history for changes of *sizes*, and whether they settle at it.

    A version that moves aside of the changes has no factor.  One that moves farther at first weighs absences, or the
    number of rounds.
    """
    largest = -math.inf
    before = math.nan
    equal_rounds = 0
    for move in islice(_moves(rule, history, _changes(sizes)), len(history.rounds), None):
        factor, is_along = _split(move)
        largest = max(largest, factor)
        if not is_along:
            return largest, False
        if not history.rounds:  # a rule without a state answers all rounds alike
            return largest, True
        has_settled = abs(factor - before) <= 0.1 * TOLERANCE * abs(factor)  # false for the first, and for NaN
        equal_rounds = equal_rounds + 1 if has_settled else 0
        if equal_rounds == _EQUAL_ROUNDS:
            return largest, _are_equal(factor, largest)
        before = factor
    return largest, False


def _adds_up(rule: Aggregation, history: _History) -> bool:
    """Return whether the move for changes of all users is the sum of those for a group of users at a time."""
    users = len(history.samples)
    rounds = len(history.rounds) + 1
    groups = min(users, _MAX_GROUPS, max(2, _MAX_STEPS // rounds))
    group_of_user = np.arange(users) % groups
    everyone, _ = _first_factor(rule, history, np.ones(users))
    total = 0.0
    for group in range(groups):
        sizes = (group_of_user == group).astype(float)
        part, is_along = _first_factor(rule, history, sizes)
        twice, _ = _first_factor(rule, history, 2 * sizes)
        if not is_along or not abs(twice - 2 * part) <= TOLERANCE * abs(everyone):
            return False
        total += part
    return _are_equal(total, everyone)


def _first_factor(rule: Aggregation, history: _History, sizes: Floats) -> tuple[float, bool]:
    """Return the factor of the first round after a history for changes of *sizes*, and whether the version moves so."""
    moves = _moves(rule, history, _changes(sizes))
    return _split(next(islice(moves, len(history.rounds), None)))


def _changes(sizes: Floats) -> Tensor:
    """Return changes of these *sizes*, ``[users]``, in one direction, ``[users, parameters + 1]``."""
    return torch.from_numpy(sizes).float()[:, None] * _DIRECTION


def _split(move: Tensor) -> tuple[float, bool]:
    """Return the factor of a move along the direction of changes, and whether it has no other part."""
    factor = float(move @ _DIRECTION / _DIRECTION.square().sum())
    aside = (move - factor * _DIRECTION).abs().max()
    return factor, bool(aside <= TOLERANCE * max(abs(factor), 1e-3))


def _moves(rule: Aggregation, history: _History, changes: Tensor) -> Iterator[Tensor]:
    """Yield how far each round moves the version, ``[parameters + 1]``, if users have these *changes*."""
    current = torch.zeros(changes.shape[1])
    state = rule.open(len(changes), current.clone())
    further = repeat(history.senders, _SETTLING)
    for index, senders in enumerate(chain(history.rounds, further), start=1):
        newest_rates = torch.full((2,), history.rate)
        if len(senders):
            updates = _updates(rule, state, history, index, senders, current, changes)
            following, state = rule.step(state, current.clone(), updates)
        else:
            following, state = rule.idle(state, current.clone(), index, newest_rates)
        if following.shape != current.shape:
            raise ValueError(f"a version of the shape {list(following.shape)}")
        yield following - current
        current = following.clone()


def _updates(
    rule: Aggregation, state: State, history: _History, index: int, senders: Ints, current: Tensor, changes: Tensor
) -> Updates:
    """Return the updates of *senders* in round *index*; all have the newest version as their base."""
    users = torch.from_numpy(senders)
    bases = current.expand(len(senders), -1).clone()
    losses = None
    if rule.needs_losses:
        losses = torch.from_numpy(history.losses[senders]).float()
    message = rule.message(state)
    messages = None
    if message is not None:
        messages = message.expand(len(senders), *message.shape).clone()
    received = None
    if rule.reads_parts:
        received = torch.ones_like(bases, dtype=torch.bool)
    return Updates(
        round=index,
        users=users,
        base_rounds=torch.full_like(users, index - 1),
        bases=bases,
        models=bases + changes[users],
        samples=torch.from_numpy(history.samples[senders]).float(),
        steps=torch.full((len(senders),), float(history.steps)),
        rates=torch.full((len(senders), 2), history.rate),
        newest_rates=torch.full((2,), history.rate),
        losses=losses,
        messages=messages,
        has_repeats=False,
        received=received,
        links={name: torch.ones(len(senders)) for name in rule.reads_links},
        draws=_NoNoise(),
        not_summed=current.new_zeros(0, len(current)) if rule.reads_not_summed else None,
    )


class _NoNoise:
    """Draws of 0, so that the answer of a rule is that without noise."""

    def normal(self, count: int) -> Tensor:
        return torch.zeros(count)


def _are_equal(first: float, second: float) -> bool:
    """Return whether two factors differ by rounding alone; no NaN is equal."""
    return abs(first - second) <= TOLERANCE * max(abs(first), abs(second))
