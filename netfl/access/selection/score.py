"""Network-aware and data-aware at once: what a user is worth, and what it costs to hear it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from netfl.access.selection import RoundInfo, Selector, UserInfo, Users
from netfl.access.selection._base import FixedSizeSelection, sample_counts, selected_rounds, weighted_sample
from netfl.errors import Fault, ScenarioError
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts


class Score(FixedSizeSelection):
    """The m users of the highest score of worth and airtime, or m drawn in proportion to it.

    The score is ``s_k = v_k a_k^power``.  v_k is what a user is worth: its data ``size``, its current ``loss``, or
    ``one`` and the same for all.  a_k is what it costs: the airtime that one update of it is expected to take, attempts
    that fade included.  A power of -1 is worth per airtime, 1 the product of the two, which favours those who are hard
    to hear, and 0 leaves the network out.  This is the outlook of D. Mitra and A. Khisti, "User selection in federated
    learning" (University of Toronto): a selection that goes by data and by network at once.

    ``draw: top`` takes the highest scores, the lowest number first among equals; unless losses are in them these are
    the same users in every round.  ``draw: proportional`` draws one after another without replacement, as in `by_size`,
    so that nobody of a positive score is left out for good.

    Losses are asked of everybody before each round.  Before the first, where none is known, all are worth the same; a
    loss that is not known later counts as the mean of those that are.

    Example::

        kind: score
        m: 2
        value: size
        power: -1
        draw: proportional
    """

    value: Literal["size", "loss", "one"] = "size"
    """What a user is worth."""
    power: float = -1.0
    """How its airtime counts."""
    draw: Literal["top", "proportional"] = "top"
    """How scores decide."""

    @model_validator(mode="after")
    def _something_to_go_by(self) -> Self:
        """Scores that differ."""
        if self.value == "one" and self.power == 0:
            raise ValueError("all scores are 1: give value: size or loss, or a power, or take kind: uniform")
        return self

    def open(self, population: UserInfo) -> Selector:
        """At work.

        Raises:
            ScenarioError: airtimes are wanted, and there is no network.
        """
        return _Score(self, population)

    @property
    def asking(self) -> bool:
        """Losses are the learner's."""
        return self.value == "loss"

    @property
    def wants_held(self) -> bool:
        """Where sizes are what users are worth."""
        return self.value == "size"

    @property
    def wants_airtime(self) -> bool:
        """Unless the network is left out."""
        return self.power != 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Airtimes of an access that has none."""
        yield from FixedSizeSelection.faults(self, facts)
        if self.wants_airtime and not facts.networked:
            yield _airless(self.power)

    def laws(self) -> tuple[Law, ...]:
        """How often the user of the highest score is drawn first."""
        if self.draw == "top":
            return (Law.none("the highest scores: nothing is drawn"),)
        held, airtime_s = np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([1.0, 2.0, 3.0, 1.0, 2.0])
        scores = (np.ones_like(held) if self.value == "one" else held) * airtime_s**self.power
        best = int(scores.argmax())
        share = float(scores[best] / scores.sum())
        one = self.model_copy(update={"m": 1})

        def first(streams: Streams, size: int) -> NDArray[np.float64]:
            selector = one.open(UserInfo(len(held), streams, held, airtime_s))
            return selected_rounds(selector, len(held), size, held)[:, best]

        return (Law("the best is drawn first", "s_k / Σ s", first, share, share * (1 - share)),)


class _Score(Selector):
    """At work."""

    def __init__(self, said: Score, population: UserInfo) -> None:
        self._said, self._users = said, np.arange(population.size)
        self._clocks = population.streams.field("score")
        self._price = np.ones(population.size)
        if said.wants_airtime:
            if population.airtime_s is None:
                raise ScenarioError([_airless(said.power)])
            self._price = population.airtime_s**said.power
        self._held = sample_counts(population) if said.wants_held else np.ones(population.size)

    def choose(self, moment: RoundInfo) -> Users:
        """By score."""
        scores = self._price * (_known(moment.loss) if self._said.asking else self._held)
        if self._said.draw == "top":
            return np.sort(np.argsort(-scores, kind="stable")[: self._said.m])
        return np.sort(weighted_sample(self._clocks, scores, moment.round)[: self._said.m])

    def asks(self, round: int, heard: Users) -> Mapping[str, Users]:
        """The losses of all, if they are in the score."""
        return {"loss": self._users} if self._said.asking else {}


def _airless(power: float) -> Fault:
    """The fault of airtimes without air."""
    problem = "goes by airtimes, and this access simulates no network"
    return Fault("power", problem, power, "set power: 0, or take access.kind: network")


def _known(loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """The losses, with the mean of those that are known for the others; 1 for all where none is."""
    known = ~np.isnan(loss)
    return np.where(known, loss, loss[known].mean() if known.any() else 1.0)
