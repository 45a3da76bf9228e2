"""Cycles: lines in the spectrum of participation, on a floor that memory may bend but not break.

Each user's participation is prewhitened by its own first-order recursion, which is exact for a two-state chain; the
innovations of all users are then made uncorrelated and of equal size.  Under any process without cycles the power at
a frequency, over that of the frequencies around it, then follows an F distribution: memory changes the level
smoothly, a cycle lifts single frequencies (M. B. Priestley, "Spectral analysis and time series", 1981, 6.1 and 8.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from netfl.diagnosis.noise_floor import LEAST, floors
from netfl.diagnosis.participation import Participation

SLACK = 1.25
"""How far a smooth spectrum may rise above its own surroundings before that counts: a guard against its curvature."""
LOWEST = 4
"""Fewer cycles than this in a recording cannot be told from drift."""
_MOST = 0.999
"""A recursion beyond this would leave nothing of what alternates, or never changes."""


@dataclass(frozen=True, slots=True)
class WhitenedSeries:
    """Innovations of participation.

    Args:
        series: uncorrelated columns of mean square 1, ``[rounds, columns]``.
        freedom: how many independent columns they amount to.
        recursion: the lag-one correlation of each user's participation, ``[users]``; 0 where it never changes.
    """

    series: NDArray[np.float64]
    freedom: float
    recursion: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SpectralPeaks:
    """The frequencies at which participation stands out.

    Args:
        ratio: power over the level around it, at the frequency where that is least likely by chance.
        p: how likely chance brings such a ratio anywhere, by Bonferroni over all frequencies.
        frequency: that frequency, in cycles per round.
        period: the length of the cycle whose harmonics the lines are, in rounds; ``None`` without lines.
        bins: the places of all lines in the Fourier transform.
    """

    ratio: float
    p: float
    frequency: float
    period: float | None
    bins: NDArray[np.int64]


def whiten(heard: NDArray[np.float64]) -> WhitenedSeries:
    """The innovations of *heard*, ``[rounds, users]``: prewhitened user by user, then made uncorrelated."""
    fresh = np.empty_like(heard)
    recursion, scale = np.zeros(heard.shape[1]), np.zeros(heard.shape[1])
    for part in column_blocks(heard):
        fresh[:, part], recursion[part], scale[part] = _prewhitened(heard[:, part])
    if (scale <= 1e-9).any():
        fresh = fresh[:, scale > 1e-9]
    if not fresh.size:
        return WhitenedSeries(np.zeros((len(heard), 1)), 1.0, recursion)
    correlation = fresh.T @ fresh / len(fresh)
    if 8 * fresh.shape[1] > len(fresh):
        return WhitenedSeries(fresh, effective_columns(fresh), recursion)
    size, axes = np.linalg.eigh(correlation)
    kept = size > 10 * size[-1] / len(fresh)  # what the users' sum leaves, where it is the same in every round
    return WhitenedSeries(fresh @ (axes[:, kept] / np.sqrt(size[kept])), float(kept.sum()), recursion)


def column_blocks(table: NDArray[Any]) -> Iterator[slice]:
    """The columns of *table*, a few million entries at a time."""
    step = max(1, (1 << 22) // len(table))
    for start in range(0, table.shape[1], step):
        yield slice(start, start + step)


def _prewhitened(
    heard: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Each column less what its first-order recursion foretells, of mean square 1; the recursion; and the scale."""
    centred = heard - heard.mean(axis=0)
    power = (centred**2).sum(axis=0)
    before = np.roll(centred, 1, axis=0)  # the first round follows the last, so that whole cycles stay whole
    product = np.einsum("tk,tk->k", centred, before)
    recursion = np.divide(product, power, out=np.zeros_like(power), where=power > 1e-9)
    recursion = np.clip(recursion, -_MOST, _MOST)
    fresh = centred - recursion * before
    scale = np.where(power > 1e-9, np.sqrt((fresh**2).mean(axis=0)), 0.0)
    return fresh / np.where(scale > 1e-9, scale, 1.0), recursion, scale


def periodogram(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """The periodogram of *series*, mean over its columns, from frequency 0 to one half; 1 for white noise."""
    total = np.zeros(len(series) // 2 + 1)
    for part in column_blocks(series):
        transform = np.fft.rfft(series[:, part], axis=0)
        total += (transform.real**2 + transform.imag**2).sum(axis=1)
    return total / series.size


def find_lines(white: WhitenedSeries, level: float) -> SpectralPeaks:
    """Test every frequency of at least `LOWEST` cycles for a line.

    Args:
        white: the innovations.
        level: lines are those whose p-value, by Bonferroni over all frequencies, is at most this.
    """
    length = len(white.series)
    spectrum = periodogram(white.series)
    tested = np.arange(LOWEST, len(spectrum))
    if len(tested) < 2 * LOWEST:
        return SpectralPeaks(0.0, 1.0, 0.0, None, tested[:0])
    half = int(np.clip(240 / white.freedom, 24, max(8, length // 24)))
    curve = floors(spectrum, LOWEST + 2, 2 * white.freedom)[0]
    around, neighbours = _around(spectrum / curve, tested, half)
    around *= curve[tested] * white.freedom / stats.gamma.median(white.freedom)
    ratio = spectrum[tested] / np.maximum(around, LEAST)
    degrees = 2 * white.freedom * np.where(2 * tested == length, 0.5, 1.0)
    # a median of n powers varies like a mean of n / 2
    chance = stats.f.sf(ratio / SLACK, degrees, white.freedom * neighbours) * len(tested)
    strongest = int(np.lexsort((-ratio, chance))[0])
    bins = tested[chance <= level]
    period = _period(spectrum, around, bins, length) if len(bins) else None
    p = min(1.0, float(chance[strongest]))
    return SpectralPeaks(float(ratio[strongest]), p, float(tested[strongest] / length), period, bins)


def remove_cycle(series: NDArray[np.float64], lines: SpectralPeaks) -> NDArray[np.float64]:
    """*series* without its cycle: its mean at each phase, and what is left at and beside the lines."""
    if lines.period is None:
        return series
    phase = (np.arange(len(series)) % lines.period).astype(np.int64)
    mean = np.zeros((phase.max() + 1, series.shape[1]))
    np.add.at(mean, phase, series)
    transform = np.fft.rfft(series - (mean / np.bincount(phase)[:, None])[phase], axis=0)
    bins = lines.bins
    beside = np.unique(np.concatenate([bins - 1, bins, bins + 1]))
    transform[beside[beside < len(transform)]] = 0.0
    return np.asarray(np.fft.irfft(transform, len(series), axis=0))


def effective_columns(series: NDArray[np.float64]) -> float:
    """How many independent columns those of *series* amount to: tr² / tr of the square, less what chance adds."""
    covariance = series.T @ series / len(series)
    total = float(np.trace(covariance))
    if total <= 0:
        return 1.0
    squares = float((covariance**2).sum())
    by_chance = (total**2 - float((np.diag(covariance) ** 2).sum())) / len(series)
    return max(1.0, total**2 / max(squares - by_chance, total**2 / len(covariance)))


def _around(
    spectrum: NDArray[np.float64], tested: NDArray[np.int64], half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The median power around each of *tested*, itself and its next two left out, and of how many powers it is."""
    offsets = np.concatenate([np.arange(-half, -2), np.arange(3, half + 1)])
    places = tested[:, None] + offsets
    inside = (places >= min(LOWEST, len(spectrum) - 1)) & (places < len(spectrum))
    values = np.where(inside, spectrum[np.clip(places, 0, len(spectrum) - 1)], np.nan)
    return np.nanmedian(values, axis=1), inside.sum(axis=1)


def _period(spectrum: NDArray[np.float64], around: NDArray[np.float64], bins: NDArray[np.int64], length: int) -> float:
    """The lag at which the lines alone repeat: the least of those nearly as good as the best, beyond the first dip."""
    only = np.zeros(len(spectrum))
    only[bins] = spectrum[bins] - around[bins - LOWEST]
    repeats = np.fft.irfft(only, 8 * length)[: 8 * (length // LOWEST) + 1]  # eight lags to a round
    below = np.flatnonzero(repeats < 0.5 * repeats[0])
    if not len(below):
        return length / float(bins[0])
    beyond = repeats[below[0] :]
    peaks = np.flatnonzero((beyond[1:-1] >= beyond[:-2]) & (beyond[1:-1] > beyond[2:])) + 1
    if not len(peaks) or beyond[peaks].max() <= 0:
        return length / float(bins[0])
    best = peaks[beyond[peaks] >= 0.9 * beyond[peaks].max()][0]
    return float(best + below[0]) / 8.0


# The cycle of participation, in rounds and in seconds: its period, and what part of it users are there for.


_BINS = 1 << 14
"""The most bins that time is cut into."""


@dataclass(frozen=True, slots=True)
class Periodicity:
    """Whether participation repeats.

    Args:
        p: the p-value, by Bonferroni over all frequencies, and over rounds and seconds where both are looked at.
        ratio: power over the level around it, at the frequency that stands out most.
        period: in rounds; ``None`` where nothing repeats.
        period_s: in seconds; ``None`` where nothing repeats or times are not known.
        duty: the share of the cycle for which a user is there, mean over deliveries; ``None`` where nothing repeats.
        clock: what it is even in: ``rounds`` or ``seconds``.
    """

    p: float
    ratio: float
    period: float | None
    period_s: float | None
    duty: float | None
    clock: str


def find_cycle(heard: NDArray[np.float64], seen: Participation, lines: SpectralPeaks, level: float) -> Periodicity:
    """The cycle that *lines* of the spectrum in rounds tell of, or one in seconds that rounds of uneven length blur.

    Args:
        heard: participation of the users that are looked at, ``[rounds, users]``.
        seen: participation of all.
        lines: what was found in rounds.
        level: as in `spectrum.find_lines`.
    """
    span_s = seen.span_s
    round_s = None if span_s is None else float(span_s.mean())
    binned = _in_time(heard, seen)
    if binned is None or round_s is None:
        return _told(lines, heard, lines.period, round_s, 1, "rounds")
    in_time = find_lines(whiten(binned[0]), level / 2)
    if lines.p <= in_time.p:
        return _told(lines, heard, lines.period, round_s, 2, "rounds")
    period = None if in_time.period is None else in_time.period * binned[1] / round_s
    return _told(in_time, heard, period, round_s, 2, "seconds", seen.closed_s)


def duty_cycle(heard: NDArray[np.float64], phase: NDArray[np.int64]) -> float | None:
    """The effective share of a cycle in which users are heard: ``(mean r)² / mean(r²)`` of the rates r by phase.

    1 where all phases are alike, d where a user is heard evenly in a share d and else never.  ``r²`` is estimated
    without bias, by ``c (c - 1) / (n (n - 1))`` of c times heard in n rounds.
    """
    number = np.bincount(phase)[:, None].astype(float)
    if (number < 2).any():
        return None
    count = np.zeros((len(number), heard.shape[1]))
    np.add.at(count, phase, heard)
    squares = (count * (count - 1) / (number * (number - 1))).mean(axis=0).sum()
    return float(min(1.0, ((count / number).mean(axis=0) ** 2).sum() / squares)) if squares > 0 else None


def _told(
    lines: SpectralPeaks,
    heard: NDArray[np.float64],
    period: float | None,
    round_s: float | None,
    looks: int,
    clock: str,
    closed_s: NDArray[np.float64] | None = None,
) -> Periodicity:
    """A cycle in words of rounds and seconds; *looks* is how many spectra were looked at."""
    p = min(1.0, looks * lines.p)
    if period is None:
        return Periodicity(p, lines.ratio, None, None, None, clock)
    period_s = None if round_s is None else period * round_s
    turns = np.arange(len(heard)) / period if closed_s is None else (closed_s - closed_s[0]) / (period_s or 1.0)
    phases = int(np.clip(round(period), 2, min(50, max(2, len(heard) / period))))
    phase = np.minimum((turns % 1.0 * phases).astype(np.int64), phases - 1)
    return Periodicity(p, lines.ratio, period, period_s, duty_cycle(heard, phase), clock)


def _in_time(heard: NDArray[np.float64], seen: Participation) -> tuple[NDArray[np.float64], float] | None:
    """How often each user was heard in even bins of time, and their width in seconds; ``None`` for even rounds.

    Where all rounds are of one size, it is by how much that exceeds the user's share of the bin's deliveries: rounds
    that merely take longer at times are no cycle of who is heard.
    """
    span_s = seen.span_s
    if seen.closed_s is None or span_s is None or np.ptp(span_s) <= 1e-6 * span_s.mean() or seen.rounds < 64:
        return None
    total_s = float(span_s.sum())
    bins = min(_BINS, seen.rounds // 4)
    place = np.minimum(((seen.closed_s - seen.closed_s[0] + span_s[0]) / total_s * bins).astype(np.int64), bins - 1)
    counts = np.zeros((bins, heard.shape[1]))
    np.add.at(counts, place, heard)
    if np.ptp(seen.heard.sum(axis=1)) == 0:
        counts -= np.bincount(place, minlength=bins)[:, None] * heard.mean(axis=0)
    return counts, total_s / bins
