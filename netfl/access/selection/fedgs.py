"""The available users whose data differ the most, and that have been selected the least."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection
from netfl.errors import Fault, ScenarioError
from netfl.types import Floats, Law, Users

_MAX_SETS = 10_000
"""Largest number of sets of users that are all compared."""
_ROUNDING = 1e-12
"""Differences of objectives that are not taken for an improvement."""


class Fedgs(FixedSizeSelection):
    """The M users that have checked in with the largest sum of their distances, and of places that they are due.

    M is m, or the number of users A that have checked in if that is smaller.  The set S maximises::

        α 2/(M (M-1)) Σ_{i<j in S} H_ij - 1/(N-1) Σ_{i in S} (2 (v_i - mean v - M/|A|) + 1)

    v_i counts how often user i was selected, with the mean over all N users.  The first sum is 0 for M = 1.  H_ij is
    the length of the shortest path between users i and j in a graph, divided by the largest finite length; it is 1
    without a path.  Users are neighbours if their similarity V_ij is above ε, at the distance ``exp(-V_ij²/σ²)``.  V is
    the cosine of the shares of the labels in the users' data, scaled so that it is between 0 and 1 over all pairs.  The
    server knows these shares of each user from the start, as the numbers of examples of `by_size`.

    S is the exact optimum if at most 10,000 sets are possible, such as 3 of 30 users or 5 of 18.  Otherwise users are
    added one after another, each with the largest gain, and then two users change places as long as that improves the
    sum, the best change first: FedGS-like.  Among equals the lowest numbers come first; nothing is drawn.

    Z. Wang, X. Fan, J. Qi, H. Jin, P. Yang, S. Shen and C. Wang, "FedGS: federated graph-based sampling with arbitrary
    client availability", AAAI 2023, with the defaults of the authors' program.  It solves the same problem by a
    commercial solver, for at most 5 s, and takes 0 for the smallest similarity if all are above.  Similarities of
    optimal models or of first updates, for which all users train once, are not modelled.  The paper weights updates by
    their numbers of examples: the aggregation `average`.

    Example::

        kind: fedgs
        m: 2
        observe: {check_in: {airtime: 5 ms}}
    """

    observes: ClassVar[tuple[str, ...]] = ("check_in",)
    needs_label_mix: ClassVar[bool] = True
    alpha: Annotated[float, Field(ge=0)] = 0.1
    """Weight α of the distances; 0 only evens out how often users are selected."""
    epsilon: Annotated[float, Field(ge=0, lt=1)] = 0.01
    """Similarity ε above which users are neighbours."""
    sigma_squared: Annotated[float, Field(gt=0)] = 0.1
    """Width σ² of the distances of neighbours."""

    def open(self, population: UserInfo) -> Selector:
        if population.label_mix is None:
            problem = "depends on the labels of the users' data, but there are no data"
            raise ScenarioError([Fault("", problem, None, "add data and partition")])
        similarity = cosines(population.label_mix)
        return _Fedgs(self, path_lengths(similarity, self.epsilon, self.sigma_squared))

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


class _Fedgs(Selector):
    def __init__(self, spec: Fedgs, lengths: Floats) -> None:
        self._spec = spec
        self._lengths = lengths  # H, [users, users]
        self._counts = np.zeros(len(lengths))  # v

    def choose(self, moment: RoundInfo) -> Users:
        users = moment.candidates  # A
        selected = users
        if len(users) > self._spec.m:
            selected = users[self._best_set(users)]
        self._counts[selected] += 1
        return selected

    def _best_set(self, users: Users) -> Users:
        """Return the places of the selected ones among *users*, of whom there are more than m."""
        places = self._spec.m  # M
        excess = self._counts - self._counts.mean() - places / len(users)
        single = -(2 * excess[users] + 1) / (len(self._counts) - 1)
        pair = np.zeros((len(users), len(users)))
        if places > 1:
            pair = self._spec.alpha * 2 / (places * (places - 1)) * self._lengths[np.ix_(users, users)]
        if comb(len(users), places) <= _MAX_SETS:
            return best_set(single, pair, places)
        return improved_set(single, pair, places)


def cosines(label_mix: Floats) -> Floats:
    """Return the cosine of the label shares of each two users, scaled to 0 to 1 over all pairs, ``[users, users]``.

    All are 0 if they are equal.
    """
    norms = np.sqrt((label_mix**2).sum(axis=1, keepdims=True))
    directions = label_mix / np.maximum(norms, np.finfo(float).tiny)
    similarity = directions @ directions.T
    of_pairs = similarity[~np.eye(len(similarity), dtype=bool)]
    if not of_pairs.size or np.ptp(of_pairs) <= _ROUNDING:
        return np.zeros_like(similarity)
    return np.asarray((similarity - of_pairs.min()) / np.ptp(of_pairs))


def path_lengths(similarity: Floats, epsilon: float, sigma_squared: float) -> Floats:
    """Return H, the lengths of the shortest paths between users over the largest one, ``[users, users]``.

    The length is 1 without a path.  The paths are those of Floyd and Warshall.
    """
    lengths = np.where(similarity > epsilon, np.exp(-(similarity**2) / sigma_squared), np.inf)
    np.fill_diagonal(lengths, 0.0)
    for via in range(len(lengths)):
        lengths = np.minimum(lengths, lengths[:, via, None] + lengths[None, via])
    largest = lengths[np.isfinite(lengths)].max()
    if largest > 0:
        lengths = lengths / largest
    return np.where(np.isfinite(lengths), lengths, 1.0)


def best_set(single: Floats, pair: Floats, places: int) -> Users:
    """Return the set with the largest sum of values, the first one in lexicographic order among equals.

    Args:
        single: value of each user, ``[n]``.
        pair: value of each two users, symmetric, with 0 on the diagonal, ``[n, n]``.
        places: size of the set.
    """
    sets = np.array([*combinations(range(len(single)), places)])  # [sets, places]
    values = np.zeros(len(sets))
    for place in range(places):
        values += single[sets[:, place]]
        for other in range(place):
            values += pair[sets[:, other], sets[:, place]]
    return np.asarray(sets[np.argmax(values >= values.max() - _ROUNDING)])


def improved_set(single: Floats, pair: Floats, places: int) -> Users:
    """Return a set that no exchange of two users improves; arguments and order as in `best_set`."""
    is_chosen = np.zeros(len(single), bool)
    gains = single.copy()  # of each user beside those that are chosen
    for _ in range(places):
        user = int(np.argmax(np.where(is_chosen, -np.inf, gains)))
        is_chosen[user] = True
        gains += pair[user]
    while True:
        chosen = np.flatnonzero(is_chosen)
        others = np.flatnonzero(~is_chosen)
        improvement = gains[others] - gains[chosen, None] - pair[np.ix_(chosen, others)]  # [chosen, others]
        row, column = divmod(int(np.argmax(improvement)), len(others))
        if improvement[row, column] <= _ROUNDING:
            return chosen
        is_chosen[chosen[row]] = False
        is_chosen[others[column]] = True
        gains += pair[others[column]] - pair[chosen[row]]
