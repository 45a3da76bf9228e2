"""Users by a score of their value and their airtime."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import (
    FixedSizeSelection,
    among_candidates,
    sample_counts,
    selected_rounds,
    weighted_sample,
)
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Floats, Law, ScenarioFacts, Users


class Score(FixedSizeSelection):
    """The m users of the highest score of value and airtime, or m users drawn in proportion to it.

    The score is ``s_k = v_k a_k^power``.  v_k is the value of a user: its data ``size``, its current ``loss``, or
    ``one``, the same for all.  a_k is its cost: the expected airtime of one update, including faded attempts.  A power
    of -1 is value per airtime, 1 is the product of the two, which favours users with poor channels, and 0 ignores the
    network.  After D. Mitra and A. Khisti, "User selection in federated learning" (University of Toronto): a selection
    by data and network together.

    ``draw: top`` takes the highest scores; equal ones are ordered at random in each round.  With scores that differ and
    do not depend on losses, these are the same users in every round.  ``draw: proportional`` draws one after another
    without replacement, as in `by_size`, so that no user of a positive score is excluded for good.

    Losses are asked of all users before each round.  Before the first, when none is known, all users have the same
    value; a loss that is unknown later counts as the mean of the known ones.

    Example::

        kind: score
        m: 2
        value: size
        power: -1
        draw: proportional
    """

    value: Literal["size", "loss", "one"] = "size"
    """Value of a user."""
    power: float = -1.0
    """Exponent of its airtime."""
    draw: Literal["top", "proportional"] = "top"
    """Rule by which scores decide."""

    @model_validator(mode="after")
    def _check_scores_differ(self) -> Self:
        if self.value == "one" and self.power == 0:
            raise ValueError("all scores are 1; give value: size or loss, or a power, or use kind: uniform")
        return self

    def open(self, population: UserInfo) -> Selector:
        return _Score(self, population)

    @property
    def observes(self) -> tuple[str, ...]:
        if self.value == "loss":
            return ("loss",)
        return ()

    @property
    def needs_sample_counts(self) -> bool:
        return self.value == "size"

    @property
    def needs_airtime(self) -> bool:
        return self.power != 0

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        if self.needs_airtime and not facts.networked:
            problem = "depends on airtimes, but this access simulates no network"
            yield Fault("power", problem, self.power, "set power: 0, or use access.kind: network")

    def laws(self) -> tuple[Law, ...]:
        if self.draw == "top":
            return (Law.none("the highest scores: only the order of equal scores is drawn"),)
        counts = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
        airtime_s = np.array([1.0, 2.0, 3.0, 1.0, 2.0])
        values = counts  # also as losses
        if self.value == "one":
            values = np.ones_like(counts)
        scores = values * airtime_s**self.power  # s_k = v_k a_k^power
        best = int(scores.argmax())
        share = float(scores[best] / scores.sum())
        single = self.model_copy(update={"m": 1})

        def first(streams: Streams, size: int) -> Floats:
            selector = single.open(UserInfo(len(counts), streams, counts, airtime_s))
            return selected_rounds(selector, len(counts), size, counts)[:, best]

        return (Law("the best is drawn first", "s_k / Σ s", first, share, share * (1 - share)),)


class _Score(Selector):
    def __init__(self, spec: Score, population: UserInfo) -> None:
        self._spec = spec
        self._clocks = population.streams.field("score")
        self._tie_draws = population.streams.field("tie")
        self._cost = np.ones(population.size)  # a_k^power
        if spec.needs_airtime:
            if population.airtime_s is None:
                raise ValueError("airtimes are known only in a network; use another value, or access: {kind: network}")
            self._cost = population.airtime_s**spec.power
        self._values = np.ones(population.size)  # v_k, where it is no loss
        if spec.needs_sample_counts:
            self._values = sample_counts(population)

    def choose(self, moment: RoundInfo) -> Users:
        values = self._values
        if self._spec.needs_learner_metrics:
            values = _known_or_mean(moment.loss)
        scores = self._cost * values
        if self._spec.draw == "top":
            users = moment.candidates
            ties = self._tie_draws.uniform(users, moment.round)
            ordered_users = users[np.lexsort((ties, -scores[users]))]
        else:
            ordered_users = weighted_sample(self._clocks, among_candidates(moment, scores), moment.round)
        return np.sort(ordered_users[: self._spec.m])


def _known_or_mean(losses: Floats) -> Floats:
    """Return *losses* with the mean of the known ones for each unknown one, or 1 if none is known."""
    is_known = ~np.isnan(losses)
    mean = 1.0
    if is_known.any():
        mean = losses[is_known].mean()
    return np.where(is_known, losses, mean)
