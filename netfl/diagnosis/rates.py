"""Estimates for each user: rates with intervals, concentration, age of information, and reach of a CVaR tail."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from netfl.network.counters import jain

_BLOCK = 1 << 20
"""Entries of participation that are processed at a time."""
DELIVERY_COUNTS = (1, 10, 100)
"""Numbers of deliveries for which waiting times are reported."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Participation rate of each user, all ``[users]``.

    The confidence intervals are simultaneous for all users: Clopper and Pearson's with Bonferroni's correction, with
    the number of rounds divided by the long-run variance if there is memory.  The intervals of the shares are these
    divided by the round size, if all rounds have one size; otherwise they use `share_trials`.

    Args:
        deliveries: the number of rounds with a delivery.
        rho: the share of rounds with a delivery.
        low: lower limit of rho.
        high: upper limit of rho.
        share: the share of all deliveries.
        share_low: lower limit of the share.
        share_high: upper limit of the share.
        inflation: the long-run variance in units of independent rounds.
    """

    deliveries: NDArray[np.int64]
    rho: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    share: NDArray[np.float64]
    share_low: NDArray[np.float64]
    share_high: NDArray[np.float64]
    inflation: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Concentration:
    """Concentration of the deliveries on users.

    Args:
        effective: the effective number of users, ``1 / Σ ρ²``.
        gini: Gini's coefficient of the counts: 0 for equal counts.
        jain: Jain's index of the counts: 1 for equal counts.
        entropy: of the shares of deliveries, in bits.
        never: the number of users without deliveries.
    """

    effective: float
    gini: float
    jain: float
    entropy: float
    never: int


def rates(delivered: NDArray[np.bool_], inflation: NDArray[np.float64], level: float) -> Rates:
    """Compute rates and shares with simultaneous confidence intervals at ``1 - level``."""
    rounds, users = delivered.shape
    count = delivered.sum(axis=0)
    sizes = delivered.sum(axis=1)
    share = count / count.sum()
    level_each = level / users  # Bonferroni
    low, high = clopper_pearson(count / inflation, rounds / inflation, level_each)
    if np.ptp(sizes) == 0:  # a share is a rate, divided by the one size of all rounds
        share_low = low / sizes[0]
        share_high = np.minimum(high / sizes[0], 1.0)
    else:
        trials = share_trials(delivered, sizes, inflation)
        share_low, share_high = clopper_pearson(share * trials, trials, level_each)
    return Rates(
        deliveries=count,
        rho=count / rounds,
        low=low,
        high=high,
        share=share,
        share_low=share_low,
        share_high=share_high,
        inflation=inflation,
    )


def share_trials(
    delivered: NDArray[np.bool_], sizes: NDArray[np.int64], inflation: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the equivalent number of independent deliveries for the variance of each user's share.

    The share s of a user is a ratio of sums over rounds.  Its variance is that of ``h - s n`` divided by ``T (E n)²``,
    for h deliveries in a round of size n (W. G. Cochran, "Sampling techniques", 1977, 2.11); with memory it is the
    long-run variance of a first-order recursion, ``(1 + φ) / (1 - φ)`` times as much with the lag-one correlation φ.
    """
    count = delivered.sum(axis=0)
    total = int(count.sum())
    block = max(1, _BLOCK // len(delivered))
    trials = np.zeros(count.size)
    for start in range(0, count.size, block):
        part = slice(start, start + block)
        share = count[part] / total
        residual = delivered[:, part] - share * sizes[:, None]  # h - s n, [rounds, users of the block]
        power = (residual**2).sum(axis=0)
        memory = np.einsum("tk,tk->k", residual[1:], residual[:-1]) / np.maximum(power, 1e-300)  # φ
        memory = np.clip(memory, 0.0, 1 - 1e-6)
        widened = np.maximum(inflation[part], np.minimum((1 + memory) / (1 - memory), inflation.max()))
        independent = share * (1 - share)
        spread = widened * np.maximum(power / total, independent)  # at least that of independent deliveries
        # a share of 0 or 1 has no variance: its trials are divided by the inflation alone
        trials[part] = total * np.divide(independent, spread, out=1 / widened, where=spread > 0)
    return trials


def clopper_pearson(
    count: NDArray[np.float64], trials: NDArray[np.float64], level: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the exact interval of a binomial share; *count* and *trials* need not be whole.

    With k of n, the limits are quantiles of beta distributions: ``B(level / 2; k, n - k + 1)``, or 0 for k = 0, and
    ``B(1 - level / 2; k + 1, n - k)``, or 1 for k = n.

    C. Clopper and E. Pearson, "The use of confidence or fiducial limits", Biometrika 26, 1934.
    """
    misses = trials - count
    with np.errstate(invalid="ignore"):
        low = special.betaincinv(np.maximum(count, 1e-9), misses + 1, level / 2)
        high = special.betaincinv(count + 1, np.maximum(misses, 1e-9), 1 - level / 2)
    return np.where(count <= 0, 0.0, low), np.where(count >= trials, 1.0, high)


def concentration(count: NDArray[np.int64]) -> Concentration:
    """Compute the concentration of deliveries from their *count* by user.

    >>> result = concentration(np.array([3, 1, 0, 0]))
    >>> round(result.effective, 2), result.gini, result.jain, result.never
    (1.6, 0.625, 0.4, 2)
    """
    share = count / count.sum()
    users = share.size
    rank = np.arange(1, users + 1)
    gini = float((2 * rank - users - 1) @ np.sort(share) / users)  # Σ_k (2k - K - 1) ρ_(k) / K
    return Concentration(
        effective=float(1 / (share**2).sum()),
        gini=max(0.0, gini),  # rounding
        jain=jain(count),
        entropy=float(stats.entropy(share, base=2)),
        never=int((count == 0).sum()),
    )


def entropy_rate(matrix: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the entropy rate of a chain, ``Σ π_i H(P_i)``, in bits per round."""
    rows = special.entr(matrix).sum(axis=1) / np.log(2)
    return float(weights @ rows)


def chains_entropy(rho: NDArray[np.float64], on: NDArray[np.float64], off: NDArray[np.float64]) -> float:
    """Return the entropy rate of independent two-state chains, in bits per round; a bound for dependent users."""
    changes = (rho > 0) & (rho < 1)  # other users have no entropy
    p = rho[changes]
    come = np.nan_to_num(on[changes])
    leave = np.nan_to_num(off[changes])
    return float(((1 - p) * _coin_entropy(come) + p * _coin_entropy(leave)).sum())


def _coin_entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((special.entr(p) + special.entr(1 - p)) / np.log(2))


@dataclass(frozen=True, slots=True)
class AgeStatistics:
    """Silences and ages of the users, all ``[users]``; infinite for users without deliveries.

    Gaps are the rounds from one delivery to the next; the last gap leads to the first delivery.  The age of
    information is the number of rounds since the round of the newest delivery began: 1 in that round.

    Args:
        silence: the longest run of rounds without a delivery.
        silence_s: the same in seconds; ``None`` without times.
        gap: the mean gap.
        age: the mean age, ``E[gap²] / (2 E[gap]) + 1/2``, in rounds; also the mean wait until a delivery.
        peak: the mean age just before a delivery, which is the mean gap, in rounds.
        age_s: the mean age in seconds; ``None`` without times.
    """

    silence: NDArray[np.int64]
    silence_s: NDArray[np.float64] | None
    gap: NDArray[np.float64]
    age: NDArray[np.float64]
    peak: NDArray[np.float64]
    age_s: NDArray[np.float64] | None

    def until(self, deliveries: int) -> NDArray[np.float64]:
        """Return the expected rounds, from a random one on, until each user has so many *deliveries*."""
        if deliveries == 1:  # also of users without deliveries: 0 · ∞ is no number
            return self.age
        return self.age + (deliveries - 1) * self.gap


def age_statistics(delivered: NDArray[np.bool_], span_s: NDArray[np.float64] | None) -> AgeStatistics:
    """Compute silences and ages of all users from participation, ``[rounds, users]``, and the length of each round."""
    rounds, users = delivered.shape
    silence = np.full(users, rounds)
    gap = np.full(users, np.inf)
    age = np.full(users, np.inf)
    silence_s: NDArray[np.float64] | None = None
    age_s: NDArray[np.float64] | None = None
    if span_s is not None:
        bounds_s = np.append(0.0, np.cumsum(span_s))  # begin of round t, and end of round t - 1
        silence_s = np.full(users, bounds_s[-1])
        age_s = np.full(users, np.inf)
    for user in range(users):
        at = np.flatnonzero(delivered[:, user])
        if not len(at):
            continue
        gaps = np.diff(at, append=at[0] + rounds)
        gap[user] = rounds / len(at)
        age[user] = (gaps.astype(float) ** 2).sum() / (2 * rounds) + 0.5  # E[gap²] / (2 E[gap]) + 1/2
        before = np.append(-1, at)  # each silence is from the round after a delivery to the next one
        after = np.append(at, rounds)
        silence[user] = (after - before).max() - 1
        if silence_s is not None and age_s is not None:
            silence_s[user] = (bounds_s[after] - bounds_s[before + 1]).max()
            delivered_s = bounds_s[at + 1]
            gaps_s = np.diff(delivered_s, append=delivered_s[0] + bounds_s[-1])
            age_s[user] = (gaps_s**2).sum() / (2 * bounds_s[-1])
    return AgeStatistics(silence=silence, silence_s=silence_s, gap=gap, age=age, peak=gap, age_s=age_s)


@dataclass(frozen=True, slots=True)
class LossTail:
    """Largest content of the worst share α of the deliveries, if it consists of the rarest users (`objective/cvar`).

    Args:
        alpha: the share.
        whole: the number of the rarest users with deliveries that fit completely.
        part: the fraction of the next user's mass that also fits.
    """

    alpha: float
    whole: int
    part: float


@dataclass(frozen=True, slots=True)
class CvarReach:
    """The smallest α for each user, by rising participation; users without deliveries are beyond any α.

    Args:
        users: user numbers.
        alpha: the smallest α whose tail can hold the mass of this user and of all rarer ones: cumulative ρ.
        beyond: users without deliveries.
        tails: the content of the tails of given α.
    """

    users: NDArray[np.int64]
    alpha: NDArray[np.float64]
    beyond: tuple[int, ...]
    tails: tuple[LossTail, ...]

    @property
    def min_alpha(self) -> float:
        """The smallest α whose tail can hold the rarest user completely."""
        return float(self.alpha[0])


def cvar_reach(share: NDArray[np.float64], alphas: Iterable[float] = ()) -> CvarReach:
    """Compute the users that a tail can hold, from their *share* of deliveries.

    >>> reach = cvar_reach(np.array([0.6, 0.1, 0.3]), [0.25])
    >>> reach.users.tolist(), reach.alpha.round(2).tolist(), reach.tails[0].whole, round(reach.tails[0].part, 2)
    ([1, 2, 0], [0.1, 0.4, 1.0], 1, 0.5)
    """
    by_share = np.argsort(share, kind="stable")
    users = by_share[share[by_share] > 0]
    mass = np.cumsum(share[users])  # of each user and all rarer ones
    beyond = tuple(np.flatnonzero(share == 0).tolist())
    tails = []
    for alpha in alphas:
        whole = int(np.searchsorted(mass, alpha * (1 + 1e-9), side="right"))  # with a mass of α up to rounding
        mass_of_whole = float(mass[whole - 1]) if whole else 0.0
        part = 0.0
        if whole < len(mass):
            part = (alpha - mass_of_whole) / float(share[users[whole]])
        tails.append(LossTail(float(alpha), whole, part))
    return CvarReach(users, mass, beyond, tuple(tails))
