"""Selections from outside netfl that observe users, and set deadlines."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from netfl.access.selection import RoundInfo, Selection, Selector, UserInfo
from netfl.types import Law, Users


class Greedy(Selection):
    """A selection that reads batteries, although it declares ages alone.

    Example::

        kind: support.observing_selections:Greedy
    """

    observes: ClassVar = ("age",)

    def open(self, population: UserInfo) -> Selector:
        return _Greedy()

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


class _Greedy(Selector):
    def choose(self, moment: RoundInfo) -> Users:
        return np.flatnonzero(moment.battery_j > 1.0)


class Hasty(Selection):
    """A selection of all users, with a deadline of 2 s in odd rounds.

    Example::

        kind: support.observing_selections:Hasty
    """

    short_s: float = 2.0

    def open(self, population: UserInfo) -> Selector:
        return _Hasty(self.short_s)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


class _Hasty(Selector):
    def __init__(self, short_s: float) -> None:
        self._short_s = short_s

    def choose(self, moment: RoundInfo) -> Users:
        return moment.candidates

    def deadline_s(self, moment: RoundInfo) -> float | None:
        return self._short_s if moment.round % 2 else None


class Broken(Selection):
    """A selection that fails in round 2.

    Example::

        kind: support.observing_selections:Broken
    """

    def open(self, population: UserInfo) -> Selector:
        return _Broken()

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


class _Broken(Selector):
    def choose(self, moment: RoundInfo) -> Users:
        if moment.round == 2:
            raise KeyError("x")
        return moment.candidates


class Timed(Selection):
    """A selection of all users, which keeps the durations of updates that it sees.

    Example::

        kind: support.observing_selections:Timed
    """

    observes: ClassVar = ("check_in", "duration_s")
    durations_s: ClassVar[list[np.ndarray]] = []
    """Durations by user, of each round."""

    def open(self, population: UserInfo) -> Selector:
        return _Timed()

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("draws nothing"),)


class _Timed(Selector):
    def choose(self, moment: RoundInfo) -> Users:
        Timed.durations_s.append(moment.duration_s)
        return moment.candidates
