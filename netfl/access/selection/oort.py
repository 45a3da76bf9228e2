"""Users of a high statistical utility, and now and then new ones."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import RoundInfo, Selector, UserInfo
from netfl.access.selection._base import FixedSizeSelection, selected_rounds, weighted_sample
from netfl.core.spec import OnlyWith
from netfl.streams import Streams
from netfl.types import Floats, Law, ObservationAge, Users
from netfl.units import Probability, Seconds

_UNCERTAINTY = 0.1


class Oort(FixedSizeSelection):
    """m users: most by the utility of their last deliveries, the others among those that were never delivered.

    The score of user i in round R is its utility, scaled to the range of all candidates, and a bonus for a utility that
    is old.  A penalty follows if its last delivery took longer than T, the preferred duration::

        U_i = n_i · loss_i
        s_i = ((min(U_i, clip) - min U) / (max U - min U) + sqrt(0.1 ln R / L_i)) · (T / t_i)^α if t_i > T

    L_i is the round of its last delivery, t_i its duration, and ``clip`` a quantile of the utilities.  In round R, a
    share of ``max(explore · decay^(R-1), min_explore)`` of the m places is for users without a delivery, drawn
    uniformly; delivered users of unknown loss count as such.  The other places are drawn in proportion to s_i, without
    replacement, from the candidates whose score is at least ``cutoff`` times that of the last place.  Places that one
    part cannot fill go to the other.

    After F. Lai, X. Zhu, H. V. Madhyastha and M. Chowdhury, "Oort: efficient federated learning via guided participant
    selection", OSDI 2021, equation (1) and algorithm 1, with the scaling of the published code.  Differences: the mean
    loss takes the place of the root of the mean squared loss; T is fixed, without the pacer; nobody is blacklisted.  If
    no more users are known than places are left, the draw has no choice.

    Example::

        kind: oort
        m: 2
        observe: {check_in: {airtime: 5 ms}}
    """

    explore: Probability = 0.9
    """Share of the places for new users in round 1."""
    decay: Annotated[float, Field(gt=0, le=1)] = 0.98
    """Factor of this share from round to round."""
    min_explore: Probability = 0.2
    """Smallest share of the places for new users."""
    clip: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Quantile of the utilities above which they do not count as larger."""
    cutoff: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Share of the score of the last place that a candidate needs."""
    preferred_duration: Annotated[Seconds, Field(gt=0)] | None = None
    """T, the duration above which users have a penalty; by default there is none."""
    penalty: Annotated[float, Field(gt=0), OnlyWith("preferred_duration")] = 2.0
    """Exponent α of the penalty."""

    needs_sample_counts: ClassVar[bool] = True

    @property
    def observes(self) -> tuple[str, ...]:
        names = ("age", "loss", "samples")
        if self.preferred_duration is None:
            return names
        return (*names, "duration_s")

    @property
    def ages(self) -> dict[str, ObservationAge]:
        return {**dict.fromkeys(self.observes, "present"), "loss": "last_delivery", **self.observe.ages}

    def open(self, population: UserInfo) -> Selector:
        return _Oort(self, population)

    def laws(self) -> tuple[Law, ...]:
        users = self.m + 2
        share = self.m / users

        def draw(streams: Streams, size: int) -> Floats:
            selector = self.open(UserInfo(users, streams))
            return selected_rounds(selector, users, size, samples=np.ones(users))[:, 0]

        return (Law("selected users", f"m/K of K = {users} new users", draw, share, share * (1 - share)),)


class _Oort(Selector):
    def __init__(self, spec: Oort, population: UserInfo) -> None:
        self._spec = spec
        self._keys = population.streams.field("explore")
        self._clocks = population.streams.field("exploit")

    def choose(self, moment: RoundInfo) -> Users:
        spec = self._spec
        is_delivered = moment.age[moment.candidates] < moment.round
        is_known = is_delivered & ~np.isnan(moment.loss[moment.candidates])
        known = moment.candidates[is_known]
        new = moment.candidates[~is_known]

        # places of both parts
        share = max(spec.explore * spec.decay ** (moment.round - 1), spec.min_explore)
        exploring = min(round(share * spec.m), len(new))
        exploiting = min(spec.m - exploring, len(known))
        exploring = min(spec.m - exploiting, len(new))

        keys = self._keys.uniform(new, moment.round)
        explored = new[np.argsort(keys, kind="stable")[:exploring]]
        exploited = self._exploit(moment, known, exploiting)
        return np.sort(np.concatenate([explored, exploited]))

    def _exploit(self, moment: RoundInfo, known: Users, places: int) -> Users:
        """Draw users from those of the highest scores."""
        if not places:
            return known[:0]
        scores = self._scores(moment, known)
        last_place = np.sort(scores)[-places]
        is_in_pool = scores >= self._spec.cutoff * last_place
        weights = np.zeros(moment.users)
        weights[known[is_in_pool]] = np.maximum(scores[is_in_pool], np.finfo(float).tiny)
        return weighted_sample(self._clocks, weights, moment.round)[:places]

    def _scores(self, moment: RoundInfo, known: Users) -> Floats:
        """Return the score s_i of each of the users that are *known*."""
        spec = self._spec
        utility = moment.samples[known] * moment.loss[known]  # U_i
        low = utility.min()
        span = utility.max() - low
        clipped = np.minimum(utility, np.quantile(utility, spec.clip, method="lower"))
        scaled = np.zeros(len(known))
        if span > 0:
            scaled = (clipped - low) / span
        last_round = moment.round - moment.age[known]  # L_i
        scores = scaled + np.sqrt(_UNCERTAINTY * np.log(moment.round) / last_round)
        if spec.preferred_duration is not None:
            duration_s = moment.duration_s[known]  # t_i
            scores *= np.minimum(spec.preferred_duration / duration_s, 1.0) ** spec.penalty
        return np.asarray(scores)
