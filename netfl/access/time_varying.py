"""Links whose rates drift and repeat, with losses and outages that users have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator
from scipy import integrate, special

from netfl.access._direct import IntermittentAccess, uniform_rows
from netfl.access._rates import LabelCorrelated, correlated_rates
from netfl.access.markov import Markov
from netfl.core.rates import chances_of
from netfl.core.spec import ByForm, OnlyWith, Spec
from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints, Law, ScenarioFacts, StatisticClaim

_BLOCK = 1 << 16
"""Random numbers drawn at a time."""
_SLOPE_ROUNDS = 1000.0
"""Rounds in which the margin changes by the slope."""
_LAW_ROUND = 20
"""Round about which the claims are."""
_LAGS = (1, 7)
"""Lags of the autocorrelation that is claimed."""

_Number = Annotated[float, Field(allow_inf_nan=False)]
_Slope = Annotated[
    Annotated[tuple[_Number, ...], Field(min_length=1)] | _Number, ByForm(), PerUser("one number for all")
]


class MarginDrift(Spec):
    """Slow changes of the margins: a mean-reverting walk, a line, or both."""

    time_scale: Annotated[float, Field(gt=0, allow_inf_nan=False), OnlyWith("spread")] | None = None
    """Rounds after which the autocorrelation of the walk has fallen to 1/e.  It is a drift for `netfl ram` if that is a
    quarter of the run or more; a walk that is forgotten sooner is memory."""
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False), OnlyWith("time_scale")] | None = None
    """Standard deviation of the walk of each user."""
    slope: _Slope = 0.0
    """Change of the margin in 1,000 rounds: one number for all users, or a list with one for each."""

    @model_validator(mode="after")
    def _check_parts(self) -> MarginDrift:
        if (self.time_scale is None) != (self.spread is None):
            raise ValueError("one of time_scale and spread is missing; give both, or a slope alone")
        if self.spread is None and not np.any(self.slope):
            raise ValueError("nothing drifts; give time_scale and spread, or a slope")
        return self


class MarginCycle(Spec):
    """Margins that repeat."""

    period: Annotated[int, Field(ge=2)]
    """Rounds in a cycle."""
    spread: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Standard deviation of the margins of each user over the phases, which are drawn once."""
    offsets: Annotated[tuple[tuple[_Number, ...], ...], Field(min_length=1)] | None = None
    """Margins by phase, in place of drawn ones: lists with one number for each phase, one list for all users or one for
    each.  Without a walk, a user with ``probability: 0.5`` is received at a rate p where its offset is the standard
    normal quantile of p."""

    @model_validator(mode="after")
    def _check_offsets(self) -> MarginCycle:
        if (self.spread is None) == (self.offsets is None):
            raise ValueError("the margins of a cycle are not defined; give either spread or offsets")
        wrong = {len(row) for row in self.offsets or ()} - {self.period}
        if wrong:
            raise ValueError(f"offsets has {min(wrong)} phases, and the period {self.period}; give one for each phase")
        return self


class OutageRuns(Spec):
    """Outages that last for runs of rounds."""

    length: Annotated[float, Field(ge=1, allow_inf_nan=False)]
    """Mean number of rounds of an outage, geometrically distributed."""
    share: Annotated[float, Field(gt=0, lt=1)]
    """Share of rounds in an outage."""
    together: bool = False
    """Whether all users have the same outages.  If not, each user has its own."""


class TimeVarying(IntermittentAccess):
    """Each user is received by a margin that drifts and repeats, with common losses and with outages.

    User n is delivered in round r if it has no outage, the round has no common loss, and
    ``m_n + b_n (r - 1) / 1000 + s W_n(r) + C_n((r - 1) mod period) + e > 0``.  Margins are in standard deviations of
    the noise e of a round, which is standard normal and independent: at a margin of 0 half of the updates arrive, at 1
    84 %, at 2 98 %.  So does a link with slow shadowing and a threshold of reception.  W_n is the stationary process of
    Ornstein and Uhlenbeck of variance 1 and time scale τ, in whole rounds: ``W(r + 1) = a W(r) + sqrt(1 - a²) Z`` with
    ``a = exp(-1 / τ)`` and Z standard normal (Physical Review 36, 1930).  Users have walks of their own, and s is the
    `spread`.  C_n are given, or normal with a spread u of their own, drawn once for each user and phase.  Every part
    but the noise is optional; without any, this is `bernoulli`.

    With ``v² = 1 + s² + u²`` and ``m_n = v Φ⁻¹(p_n)``, the laws are exact, with c the probability of a common loss and
    o the share of outages:

    - ``P(delivered in round r) = (1 - c) (1 - o) Φ(Φ⁻¹(p_n) + (b_n (r - 1) / 1000 + C_n) / v)``, with C_n = 0 for drawn
      phases, over which the mean is taken.  It is ``(1 - c) (1 - o) p_n`` without slope and given phases.
    - Two users of a round, of rates q_i and q_j without losses and outages, have the covariance
      ``q_i q_j ((1 - c) B - (1 - c)² (1 - o)²)``, with ``B = 1 - o`` for outages of all together, else ``(1 - o)²``.
    - A user is delivered in rounds r and r + h with probability
      ``Φ2(x, y; k) (1 - c)² (1 - o) (1 - o + o g^h)``, with the two margins x and y divided by v, Φ2 the distribution
      function of two normal numbers of correlation ``k = (s² exp(-h / τ) + u² [h is a multiple of the period]) / v²``,
      and ``g = 1 - 1 / L - o / (L (1 - o))`` the eigenvalue of the chain of outages.
    - Outages last k rounds with probability ``(1 - 1 / L)^(k - 1) / L``, with L their `length`.

    Example::

        kind: time_varying
        probability: [0.95, 0.8, 0.5]
        drift: {time_scale: 1000, spread: 0.5}
        cycle: {period: 8, spread: 0.6}
        common_loss: 0.02
        outage: {length: 12, share: 0.01}
    """

    drift: MarginDrift | None = None
    """Slow changes of the margins; by default none."""
    cycle: MarginCycle | None = None
    """Margins that repeat; by default none."""
    common_loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a round loses the updates of all users at once."""
    outage: OutageRuns | None = None
    """Outages of several rounds; by default none."""

    def availability(self, chances: Floats, rounds: int, streams: Streams) -> Iterator[Bools]:
        return self._population_availability(np.zeros(len(chances), np.int64), chances, rounds, streams)

    def _population_availability(
        self, population: Ints, chances: Floats, rounds: int, streams: Streams
    ) -> Iterator[Bools]:
        """Yield whether each user is delivered in each round; users of a population have losses in common."""
        users = np.arange(len(chances))
        populations = np.arange(population.max() + 1)
        margin = special.ndtri(chances) * self._deviation  # m_n, [users]
        slope = self._slopes(len(users)) / _SLOPE_ROUNDS
        phases = self._phases(len(users), streams)
        walk = self._walk(len(users), rounds, streams)
        noise = uniform_rows(streams.field("present"), users, rounds)
        losses = uniform_rows(streams.field("common loss"), populations, rounds)
        works = self._outages(population, rounds, streams)
        for index in range(rounds):
            now = margin + slope * index + phases[index % len(phases)] + next(walk)
            is_received = next(noise) < special.ndtr(now)
            if self.common_loss:
                is_received &= (next(losses) >= self.common_loss)[population]
            yield is_received & next(works)

    def _walk(self, users: int, rounds: int, streams: Streams) -> Iterator[Floats]:
        """Yield s W of each user, ``[users]``, in each round."""
        if self._walk_spread == 0:
            for _ in range(rounds):
                yield np.zeros(users)
            return
        kept = self._kept(1)
        fresh = np.sqrt(-np.expm1(2 * np.log(kept)))  # sqrt(1 - a²), also for a close to 1
        field = streams.field("walk")
        size = max(1, _BLOCK // users)
        state = None  # stationary from the first round on
        for start in range(1, rounds + 1, size):
            index = np.arange(start, min(start + size, rounds + 1))
            for steps in field.normal(np.arange(users), index[:, None]):
                state = steps if state is None else kept * state + fresh * steps
                yield self._walk_spread * state

    def _phases(self, users: int, streams: Streams) -> Floats:
        """Return C of each phase and user, ``[phases, users]``; one phase of zeros without a cycle."""
        if self.cycle is None:
            return np.zeros((1, users))
        if self.cycle.offsets is not None:
            given = np.array(self.cycle.offsets).T
            return np.broadcast_to(given, (self.cycle.period, users))
        drawn = streams.field("phase").normal(np.arange(users), np.arange(self.cycle.period)[:, None])
        return self._drawn_spread * drawn

    def _outages(self, population: Ints, rounds: int, streams: Streams) -> Iterator[Bools]:
        """Yield whether each user has no outage, ``[users]``, in each round."""
        if self.outage is None:
            for _ in range(rounds):
                yield np.ones(len(population), bool)
            return
        member = population if self.outage.together else np.arange(len(population))
        working = np.full(member.max() + 1, 1.0 - self.outage.share)
        # a working link fails with share / (length (1 - share)), and returns with 1 / length
        chain = Markov(probability=1.0, switch_on=1.0 / self.outage.length)
        for works in chain.availability(working, rounds, streams.at("outages")):
            yield works[member]

    @property
    def _walk_spread(self) -> float:
        """The spread s of the walk."""
        return (self.drift.spread or 0.0) if self.drift is not None else 0.0

    @property
    def _drawn_spread(self) -> float:
        """The spread u of phases that are drawn."""
        return (self.cycle.spread or 0.0) if self.cycle is not None else 0.0

    @property
    def _deviation(self) -> float:
        """The standard deviation v of noise, walk and drawn phases together."""
        return float(np.sqrt(1.0 + self._walk_spread**2 + self._drawn_spread**2))

    def _slopes(self, users: int) -> Floats:
        """Return the slope of each user, ``[users]``."""
        if self.drift is None:
            return np.zeros(users)
        return np.broadcast_to(np.asarray(self.drift.slope, float), users)

    def _kept(self, lag: int) -> float:
        """Return the autocorrelation of the walk."""
        if self.drift is None or self.drift.time_scale is None:
            return 0.0
        return float(np.exp(-lag / self.drift.time_scale))

    @property
    def _kept_share(self) -> float:
        """The share of deliveries that neither a common loss nor an outage takes."""
        share = 0.0 if self.outage is None else self.outage.share
        return (1.0 - self.common_loss) * (1.0 - share)

    def shares(self, chances: Floats) -> Floats:
        """Return the share of rounds with a delivery, in the mean over walks and drawn phases, in the first round."""
        return chances * self._kept_share

    def _phase_shares(self, chances: Floats, streams: Streams) -> Floats:
        """Return the share of rounds with a delivery over a cycle, given its phases, without a slope, ``[users]``."""
        if self.cycle is None:
            return self.shares(chances)
        deviation = np.sqrt(1.0 + self._walk_spread**2)
        margin = special.ndtri(chances) * self._deviation + self._phases(len(chances), streams)
        return np.asarray(special.ndtr(margin / deviation).mean(axis=0) * self._kept_share)

    def rates(self, users: int, streams: Streams) -> Floats | None:
        if isinstance(self.probability, LabelCorrelated):
            return None
        return self._phase_shares(chances_of(self.probability, users), streams)

    def has_exact_rates(self, users: int) -> bool:
        return super().has_exact_rates(users) and self.drift is None

    def participation_rates(self, users: int, streams: Streams, label_mix: Floats | None = None) -> Floats | None:
        if not self.has_exact_rates(users):
            return None
        if not isinstance(self.probability, LabelCorrelated) or label_mix is None:
            return self.rates(users, streams)
        return self._phase_shares(correlated_rates(self.probability.label_correlated, label_mix, streams), streams)

    @property
    def candidate_process(self) -> str | None:
        """The causes; ``None`` with a walk, which is memory or a drift by the length of the run."""
        if self._walk_spread:
            return None
        has_outages = self.outage is not None
        causes = {
            "cycle": self.cycle is not None,
            "drift": self.drift is not None,
            "correlation": self.common_loss > 0 or (self.outage is not None and self.outage.together),
        }
        named = [name for name, is_set in causes.items() if is_set]
        if causes["cycle"] or causes["drift"]:
            alone = "cyclic" if causes["cycle"] else "non-stationary"
            return " + ".join(named) if len(named) > 1 else alone
        if has_outages:
            return "Markovian"
        return "emergent-correlated" if causes["correlation"] else "stationary"

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        yield from super().faults(facts)
        slope = None if self.drift is None else self.drift.slope
        if isinstance(slope, tuple) and len(slope) != facts.users:
            problem = f"{len(slope)} slopes for {facts.users} users"
            yield Fault("drift.slope", problem, None, "give one for each user, or one number for all")
        offsets = None if self.cycle is None else self.cycle.offsets
        if offsets is not None and len(offsets) not in {1, facts.users}:
            problem = f"{len(offsets)} lists for {facts.users} users"
            yield Fault("cycle.offsets", problem, None, "give one list for all users, or one for each")
        if self.outage is not None:
            highest = self.outage.length / (1.0 + self.outage.length)  # with it, a link works for one round at a time
            if self.outage.share > highest:
                problem = "links would work for less than one round between two outages"
                remedy = f"make it at most {highest:.6g}, or make outages longer"
                yield Fault("outage.share", problem, self.outage.share, remedy)

    def laws(self) -> tuple[Law, ...]:
        p = self.typical_chance
        deviation = self._deviation
        first = self._typical_offsets(_LAW_ROUND)

        def populations(streams: Streams, size: int, users: int, rounds: int) -> Floats:
            """Return deliveries of *size* populations of equal users, ``[rounds, size, users]``."""
            typical = self._typical_form()
            member = np.repeat(np.arange(size), users)
            rows = typical._population_availability(member, np.full(size * users, p), rounds, streams)
            return np.array([*rows], float).reshape(rounds, size, users)

        def late(streams: Streams, size: int) -> Floats:
            return populations(streams, size, 1, _LAW_ROUND)[-1, :, 0]

        def together(streams: Streams, size: int) -> Floats:
            last = populations(streams, size, 2, _LAW_ROUND)[-1]
            return np.asarray(last.prod(axis=1)[:, None])

        def again(streams: Streams, size: int) -> Floats:
            rounds = populations(streams, size, 1, _LAW_ROUND + max(_LAGS))[_LAW_ROUND - 1 :, :, 0]
            return np.stack([rounds[0] * rounds[lag] for lag in _LAGS], axis=1)

        rate = float(special.ndtr(special.ndtri(p) + first / deviation))
        share = rate * self._kept_share
        both = rate**2 * self._pair_share()
        claims = (
            StatisticClaim("delivered together", "q² (1 - c) B", together, (both,), ("two users",)),
            StatisticClaim(
                "delivered again",
                "Φ2(x, y; k) (1 - c)² (1 - o) (1 - o + o g^h)",
                again,
                tuple(self._again_share(p, lag) for lag in _LAGS),
                tuple(f"lag {lag}" for lag in _LAGS),
            ),
        )
        return (
            Law(
                f"user delivered in round {_LAW_ROUND}",
                "Bernoulli((1 - c) (1 - o) q), with the rate q of a margin",
                late,
                share,
                share * (1.0 - share),
            ),
            Law(
                "deliveries of two users, or in two rounds", "of a margin, common losses and outages", statistics=claims
            ),
        )

    def _typical_form(self) -> TimeVarying:
        """Return this access with the slope and the phases of the first user for all."""
        updates: dict[str, Spec] = {}
        if self.drift is not None and isinstance(self.drift.slope, tuple):
            updates["drift"] = self.drift.model_copy(update={"slope": self.drift.slope[0]})
        if self.cycle is not None and self.cycle.offsets is not None:
            updates["cycle"] = self.cycle.model_copy(update={"offsets": self.cycle.offsets[:1]})
        return self.model_copy(update=updates)

    def _typical_offsets(self, index: int) -> float:
        """Return slope and given phase of the first user in round *index*."""
        slope = 0.0 if self.drift is None else float(np.ravel(self.drift.slope)[0])
        offset = slope / _SLOPE_ROUNDS * (index - 1)
        if self.cycle is not None and self.cycle.offsets is not None:
            offset += self.cycle.offsets[0][(index - 1) % self.cycle.period]
        return offset

    def _pair_share(self) -> float:
        """Return ``(1 - c) B``: the probability that neither loss nor outage takes two users of a round."""
        share = 0.0 if self.outage is None else self.outage.share
        is_shared = self.outage is not None and self.outage.together
        return (1.0 - self.common_loss) * (1.0 - share if is_shared else (1.0 - share) ** 2)

    def _again_share(self, chance: float, lag: int) -> float:
        """Return the probability that the first user is delivered in round `_LAW_ROUND`, and *lag* rounds later."""
        deviation = self._deviation
        low = special.ndtri(chance) + self._typical_offsets(_LAW_ROUND) / deviation
        high = special.ndtri(chance) + self._typical_offsets(_LAW_ROUND + lag) / deviation
        is_same_phase = self.cycle is not None and lag % self.cycle.period == 0
        common = self._walk_spread**2 * self._kept(lag) + self._drawn_spread**2 * is_same_phase
        share = 0.0 if self.outage is None else self.outage.share
        outages = 1.0
        if self.outage is not None:
            memory = 1.0 - 1.0 / self.outage.length - share / (self.outage.length * (1.0 - share))
            outages = (1.0 - share) * (1.0 - share + share * memory**lag)
        return _joint_normal(low, high, common / deviation**2) * (1.0 - self.common_loss) ** 2 * outages


def _joint_normal(x: float, y: float, correlation: float) -> float:
    """Return P(X < x and Y < y) of two standard normal numbers.

    The derivative by the correlation is their density (R. L. Plackett, Biometrika 41, 1954).
    """

    def density(k: float) -> float:
        rest = 1.0 - k * k
        return float(np.exp(-(x * x - 2 * k * x * y + y * y) / (2 * rest)) / (2 * np.pi * np.sqrt(rest)))

    product = float(special.ndtr(x) * special.ndtr(y))
    if not np.isfinite([x, y]).all():
        return product
    return product + float(integrate.quad(density, 0.0, correlation)[0])
