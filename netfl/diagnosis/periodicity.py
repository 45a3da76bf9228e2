"""Periodicity: lines in the spectrum of participation above a smooth noise floor.

Each user's participation is prewhitened by its own first-order recursion, which is exact for a two-state chain; the
innovations of all users are then made uncorrelated and of equal size.  Under any process without cycles the power at
a frequency, divided by that of the frequencies around it, then follows an F distribution: memory changes the level
smoothly, a cycle lifts single frequencies (M. B. Priestley, "Spectral analysis and time series", 1981, 6.1 and 8.3).

Memory that decays at a constant rate has the spectrum ``a + b / (1 + (f / w)²)``.  The noise floor is that curve,
fitted to the medians of frequency bands, so that single lines do not move it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from netfl.diagnosis.harmonics import fit_cycles
from netfl.diagnosis.participation import Participation

SLACK = 1.25
"""Factor by which a smooth spectrum may exceed its surroundings: a guard against its curvature."""
MIN_CYCLES = 3
"""Fewest cycles in a recording; slower cycles cannot be distinguished from drift."""
MIN_FAST_CYCLES = 10
"""Fewest cycles in a recording whose rates drift; slower cycles may be the drift."""
MIN_FLOOR = 1e-3
"""Lower limit of the floor as a share of the mean power: a deterministic cycle leaves only rounding errors."""
CYCLES_ERROR = 0.2
"""Error of the number of cycles in a recording: about three are enough."""
LINE_WIDTH = 1.5
"""Distance in bins within which two lines are one."""
_MAX_ORDER = 6
"""Largest order of a harmonic of a single cycle that may be stronger than those below it."""
_MIN_SHARE = 0.1
"""Power of a line as a share of that of the strongest one from which it counts for the periods of cycles."""
_MAX_RECURSION = 0.999
"""Limit of the recursion; beyond it nothing would remain of a user that alternates or never changes."""
_MODEL_ERROR = 0.05
"""Relative deviation of a spectrum from the form of the curve."""
_MAX_MISFIT = 9.0
"""Curves whose squared residuals exceed the smallest by at most this (three standard errors) are kept as candidates."""
_MAX_BINS = 1 << 14
"""Limit of the number of time bins."""


Clock = Literal["rounds", "seconds"]
"""The time base in which a cycle is regular."""


@dataclass(frozen=True, slots=True)
class TimeBins:
    """Deliveries in even bins: rounds, or spans of time.

    Args:
        counts: deliveries of each user, ``[bins, users]``.
        time: the time of each round, in bins.
        rounds: the mean number of rounds in a bin.
    """

    counts: NDArray[np.float64]
    time: NDArray[Any]
    rounds: float


@dataclass(frozen=True, slots=True)
class WhitenedSeries:
    """Innovations of participation.

    Args:
        series: uncorrelated columns of mean square 1, ``[rounds, columns]``.
        freedom: the equivalent number of independent columns.
    """

    series: NDArray[np.float64]
    freedom: float


@dataclass(frozen=True, slots=True)
class SpectralPeaks:
    """Frequencies at which the power of participation is high.

    Args:
        ratio: power divided by the surrounding level, at the most significant frequency.
        p: p-value of that ratio, with Bonferroni's correction over all frequencies.
        period: period of the cycle whose harmonics the lines are, in rounds; ``None`` without lines.
        bins: places of all lines in the Fourier transform.
    """

    ratio: float
    p: float
    period: float | None
    bins: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Periodicity:
    """The cycle of participation.

    Args:
        p: p-value, with Bonferroni's correction over all frequencies and over rounds and seconds if both are tested.
        ratio: power divided by the surrounding level, at the most significant frequency.
        period: in rounds, of the shorter one of two cycles; ``None`` without a cycle.
        period_s: in seconds; ``None`` without a cycle or without times.
        periods: periods of one or two cycles in rounds, such as an orbit and a day, in ascending order.
        periods_s: the same in seconds; empty without times.
        duty: share of the cycle in which a user is active, mean over deliveries; ``None`` without a cycle.
        clock: the time base in which the cycle is regular.
    """

    p: float
    ratio: float
    period: float | None
    period_s: float | None
    periods: tuple[float, ...]
    periods_s: tuple[float, ...]
    duty: float | None
    clock: Clock


def find_cycle(
    delivered: NDArray[np.float64],
    participation: Participation,
    lines: SpectralPeaks,
    level: float,
    *,
    steady: NDArray[np.float64] | None = None,
    min_cycles: int = MIN_CYCLES,
) -> Periodicity:
    """Return the cycle in rounds, or the one in seconds if it is more significant.

    Args:
        delivered: participation of the tested users, ``[rounds, users]``.
        participation: participation of all users.
        lines: the spectral lines in rounds.
        level: as in `find_lines`.
        steady: what remains of *delivered* without a drift, in which the *lines* are; by default *delivered*.
        min_cycles: as in `find_lines`.
    """
    series = delivered if steady is None else steady
    each_round = TimeBins(series, np.arange(len(delivered)), 1.0)
    even_bins = _bin_by_time(series, participation)
    if even_bins is None:
        return _describe_cycle(lines, each_round, "rounds", delivered, participation.round_s, tests=1)
    time_lines = find_lines(whiten(even_bins.counts), level / 2, min_cycles)
    if lines.p <= time_lines.p:
        return _describe_cycle(lines, each_round, "rounds", delivered, participation.round_s, tests=2)
    return _describe_cycle(time_lines, even_bins, "seconds", delivered, participation.round_s, tests=2)


def find_lines(white: WhitenedSeries, level: float, min_cycles: int = MIN_CYCLES) -> SpectralPeaks:
    """Test every frequency with at least *min_cycles* cycles in the recording for a line.

    The *level* of significance is that of all frequencies together, with Bonferroni's correction.
    """
    length = len(white.series)
    spectrum = periodogram(white.series)
    tested = np.arange(min_cycles, len(spectrum))
    if len(tested) < 2 * min_cycles:
        return SpectralPeaks(0.0, 1.0, None, tested[:0])
    half = int(np.clip(240 / white.freedom, 24, max(8, length // 24)))
    floor = fit_floors(spectrum, min_cycles + 2, 2 * white.freedom)[0]
    around, neighbours = _local_median(spectrum / floor, tested, half)
    around *= floor[tested] * white.freedom / stats.gamma.median(white.freedom)
    ratio = spectrum[tested] / np.maximum(around, MIN_FLOOR)
    degrees = 2 * white.freedom * np.where(2 * tested == length, 0.5, 1.0)
    # a median of n powers varies like a mean of n / 2
    p = stats.f.sf(ratio / SLACK, degrees, white.freedom * neighbours) * len(tested)
    strongest = int(np.lexsort((-ratio, p))[0])
    bins = tested[p <= level]
    period = None
    if len(bins):
        excess = np.zeros(len(spectrum))
        excess[bins] = spectrum[bins] - around[bins - min_cycles]
        period = _fundamental_period(excess, length)
    return SpectralPeaks(float(ratio[strongest]), min(1.0, float(p[strongest])), period, bins)


def remove_cycle(series: NDArray[np.float64], lines: SpectralPeaks, min_frequency: float = 0.0) -> NDArray[np.float64]:
    """Subtract from *series* its mean at each phase, then the power at and beside the lines.

    Cycles and lines below *min_frequency*, in cycles per recording, remain.
    """
    if lines.period is None:
        return series
    rest = series
    if len(series) >= min_frequency * lines.period:
        phase = (np.arange(len(series)) % lines.period).astype(np.int64)
        mean = np.zeros((phase.max() + 1, series.shape[1]))
        np.add.at(mean, phase, series)
        rest = series - (mean / np.bincount(phase)[:, None])[phase]
    transform = np.fft.rfft(rest, axis=0)
    bins = lines.bins[lines.bins >= min_frequency]
    beside = np.unique(np.concatenate([bins - 1, bins, bins + 1]))
    transform[beside[beside < len(transform)]] = 0.0
    return np.asarray(np.fft.irfft(transform, len(series), axis=0))


def whiten(delivered: NDArray[np.float64]) -> WhitenedSeries:
    """Return the innovations of *delivered*, ``[rounds, users]``: prewhitened by user, then made uncorrelated."""
    fresh = np.empty_like(delivered)
    scale = np.zeros(delivered.shape[1])
    for part in column_blocks(delivered):
        fresh[:, part], scale[part] = _prewhiten(delivered[:, part])
    if (scale <= 1e-9).any():
        fresh = fresh[:, scale > 1e-9]
    if not fresh.size:
        return WhitenedSeries(np.zeros((len(delivered), 1)), 1.0)
    correlation = fresh.T @ fresh / len(fresh)
    if 8 * fresh.shape[1] > len(fresh):
        return WhitenedSeries(fresh, effective_columns(fresh))
    size, axes = np.linalg.eigh(correlation)
    kept = size > 10 * size[-1] / len(fresh)  # drops the sum over users if it is the same in every round
    kept[-1] = True  # of ten rounds, the bound is the largest itself
    return WhitenedSeries(fresh @ (axes[:, kept] / np.sqrt(size[kept])), float(kept.sum()))


def periodogram(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean periodogram of the columns, from frequency 0 to one half; 1 for white noise."""
    total = np.zeros(len(series) // 2 + 1)
    for part in column_blocks(series):
        transform = np.fft.rfft(series[:, part], axis=0)
        total += (transform.real**2 + transform.imag**2).sum(axis=1)
    return total / series.size


def fit_floors(spectrum: NDArray[np.float64], first: int, freedom: float, *, bent: bool = True) -> NDArray[np.float64]:
    """Return candidate curves of the noise floor, ``[curves, frequencies]``, the best fit first.

    Args:
        spectrum: powers from frequency 0 on.
        first: the first power to fit; those below may be drift.
        freedom: degrees of freedom of one power.
        bent: allow memory, which bends the floor; otherwise it is level.
    """
    min_floor = MIN_FLOOR * float(spectrum.mean())
    if min_floor == 0.0:  # participation never changes
        return np.ones((1, len(spectrum)))
    edges = np.unique(np.geomspace(first, len(spectrum), 16).astype(np.int64))
    bands = [np.arange(low, high) for low, high in pairwise(edges) if high - low > 3]
    if len(bands) < 3:
        return np.full((1, len(spectrum)), max(float(np.median(spectrum[first:])), min_floor))
    median = stats.gamma.median(freedom / 2) / (freedom / 2)
    powers = np.array([max(float(np.median(spectrum[band])) / median, min_floor) for band in bands])
    error = np.array([np.sqrt(4 / (freedom * len(band)) + _MODEL_ERROR**2) for band in bands])
    index = np.arange(len(spectrum))
    widths = first / 2 * 2.0 ** np.arange(0, 8, 0.5) if bent else [np.inf]
    curves, misfits = [], []
    for width in widths:
        bend = 1 / (1 + (index / width) ** 2)
        means = np.array([[1.0, bend[band].mean()] for band in bands])
        share, misfit = _fit_shares(means, powers, error)
        curves.append(np.maximum(share[0] + share[1] * bend, min_floor))
        misfits.append(misfit)
    order = np.argsort(misfits)
    return np.array([curves[fit] for fit in order if misfits[fit] <= misfits[order[0]] + _MAX_MISFIT])


def effective_columns(series: NDArray[np.float64]) -> float:
    """Return the equivalent number of independent columns: tr² / tr of the square, corrected for chance."""
    covariance = series.T @ series / len(series)
    total = float(np.trace(covariance))
    if total <= 0:
        return 1.0
    squares = float((covariance**2).sum())
    by_chance = (total**2 - float((np.diag(covariance) ** 2).sum())) / len(series)
    return max(1.0, total**2 / max(squares - by_chance, total**2 / len(covariance)))


def column_blocks(table: NDArray[Any]) -> Iterator[slice]:
    """Yield slices of columns with a few million entries each."""
    step = max(1, (1 << 22) // len(table))
    for start in range(0, table.shape[1], step):
        yield slice(start, start + step)


def duty_cycle(delivered: NDArray[np.float64], phase: NDArray[np.int64]) -> float | None:
    """Return the effective share of a cycle with deliveries: ``(mean r)² / mean(r²)`` of the rates r by phase.

    It is 1 if all phases are alike, and d if a user delivers evenly in a share d only.  ``r²`` is estimated without
    bias by ``c (c - 1) / (n (n - 1))`` of c deliveries in n rounds.
    """
    number = np.bincount(phase)[:, None].astype(float)
    if (number < 2).any():
        return None
    count = np.zeros((len(number), delivered.shape[1]))
    np.add.at(count, phase, delivered)
    squares = (count * (count - 1) / (number * (number - 1))).mean(axis=0).sum()
    return float(min(1.0, ((count / number).mean(axis=0) ** 2).sum() / squares)) if squares > 0 else None


def is_harmonic(frequency: float, base: float) -> bool:
    """Return whether a *frequency* is that of one of the first harmonics of *base*, in cycles per recording."""
    order = round(frequency / base)
    return order <= _MAX_ORDER and abs(frequency - order * base) <= LINE_WIDTH


def estimate_duty(delivered: NDArray[np.float64], turns: NDArray[np.float64], period: float) -> float | None:
    """Return the duty cycle of a *period* in rounds; *turns* is the time of each round in cycles."""
    phases = int(np.clip(round(period), 2, min(50, max(2, len(delivered) / period))))
    return duty_cycle(delivered, np.minimum((turns % 1.0 * phases).astype(np.int64), phases - 1))


def _describe_cycle(
    lines: SpectralPeaks,
    bins: TimeBins,
    clock: Clock,
    delivered: NDArray[np.float64],
    round_s: float | None,
    tests: int,
) -> Periodicity:
    """Return the cycle of spectral lines.

    Args:
        lines: the lines of the deliveries in *bins*.
        bins: rounds, or time bins.
        clock: which of the two.
        delivered: participation of the tested users, ``[rounds, users]``.
        round_s: the mean duration of a round; ``None`` if unknown.
        tests: the number of spectra that were tested.
    """
    p = min(1.0, tests * lines.p)
    base_periods = _base_periods(bins.counts, lines)
    if not base_periods:
        return Periodicity(p, lines.ratio, None, None, (), (), None, clock)
    periods = tuple(period * bins.rounds for period in base_periods)
    periods_s = () if round_s is None else tuple(period * round_s for period in periods)
    duty = estimate_duty(delivered, bins.time / base_periods[0], periods[0])
    return Periodicity(p, lines.ratio, periods[0], next(iter(periods_s), None), periods, periods_s, duty, clock)


def _bin_by_time(delivered: NDArray[np.float64], participation: Participation) -> TimeBins | None:
    """Return the deliveries of each user in even time bins; ``None`` for even rounds.

    If all rounds have the same size, the counts are the excess over the user's share of the bin's deliveries: rounds
    of varying duration are not a cycle of participation.
    """
    span_s, closed_s = participation.span_s, participation.closed_s
    if closed_s is None or span_s is None or np.ptp(span_s) <= 1e-6 * span_s.mean() or participation.rounds < 64:
        return None
    total_s = float(span_s.sum())
    bins = min(_MAX_BINS, participation.rounds // 4)
    place = np.minimum(((closed_s - closed_s[0] + span_s[0]) / total_s * bins).astype(np.int64), bins - 1)
    counts = np.zeros((bins, delivered.shape[1]))
    np.add.at(counts, place, delivered)
    if np.ptp(participation.delivered.sum(axis=1)) == 0:
        counts -= np.bincount(place, minlength=bins)[:, None] * delivered.mean(axis=0)
    return TimeBins(counts, (closed_s - closed_s[0]) / total_s * bins, participation.rounds / bins)


def _prewhiten(delivered: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the residuals of each column's first-order recursion, of mean square 1, and their scale."""
    centred = delivered - delivered.mean(axis=0)
    power = (centred**2).sum(axis=0)
    before = np.roll(centred, 1, axis=0)  # the first round follows the last, so that whole cycles stay whole
    product = np.einsum("tk,tk->k", centred, before)
    recursion = np.divide(product, power, out=np.zeros_like(power), where=power > 1e-9)
    recursion = np.clip(recursion, -_MAX_RECURSION, _MAX_RECURSION)
    fresh = centred - recursion * before
    scale = np.where(power > 1e-9, np.sqrt((fresh**2).mean(axis=0)), 0.0)
    return fresh / np.where(scale > 1e-9, scale, 1.0), scale


def _local_median(
    spectrum: NDArray[np.float64], tested: NDArray[np.int64], half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the median power around each of *tested*, without itself and two neighbours, and the number of powers."""
    offsets = np.concatenate([np.arange(-half, -2), np.arange(3, half + 1)])
    places = tested[:, None] + offsets
    inside = (places >= min(tested[0], len(spectrum) - 1)) & (places < len(spectrum))
    values = np.where(inside, spectrum[np.clip(places, 0, len(spectrum) - 1)], np.nan)
    return np.nanmedian(values, axis=1), inside.sum(axis=1)


def _fundamental_period(lines: NDArray[np.float64], length: int) -> float:
    """Return the shortest lag beyond the first dip at which *lines* repeat nearly as well as at the best.

    The *lines* are the power of each line above its surroundings, and 0 at the other frequencies.
    """
    correlation = np.fft.irfft(lines, 8 * length)[: 8 * (length // MIN_CYCLES) + 1]  # eight lags per round
    slowest = length / float(np.flatnonzero(lines)[0])
    below = np.flatnonzero(correlation < 0.5 * correlation[0])
    if not len(below):
        return slowest
    beyond = correlation[below[0] :]
    peaks = np.flatnonzero((beyond[1:-1] >= beyond[:-2]) & (beyond[1:-1] > beyond[2:])) + 1
    if not len(peaks) or beyond[peaks].max() <= 0:
        return slowest
    best = peaks[beyond[peaks] >= 0.9 * beyond[peaks].max()][0]
    return float(best + below[0]) / 8.0


def _base_periods(delivered: NDArray[np.float64], peaks: SpectralPeaks) -> tuple[float, ...]:
    """Return the periods of the one or two cycles whose lines were found, in ascending order.

    A short cycle of frequency f, such as an orbit, within a long one of frequency g, such as a day, has lines at
    ``m f + n g``.  The period at which all lines repeat is either that of the short cycle, and there are lines between
    its harmonics; or close to that of the long one, and far above g a line is stronger than those below it.
    """
    if peaks.period is None:
        return ()
    length = len(delivered)
    spectrum = periodogram(delivered - delivered.mean(axis=0))
    bins = peaks.bins[spectrum[peaks.bins] >= _MIN_SHARE * spectrum[peaks.bins].max()]
    cycles = length / peaks.period
    short = _carrier(spectrum, bins, cycles) or _nearest_line(spectrum, bins, cycles)
    folded = _fold(spectrum, bins, short)
    if not folded.any():
        return (peaks.period,)
    rough = length / _fundamental_period(folded, length)
    time = np.arange(length) / length
    long = fit_cycles(delivered, time, max(rough - 1, MIN_CYCLES - CYCLES_ERROR), rough + 1, short / 2)
    if long is None:
        return (peaks.period,)
    short = fit_cycles(delivered, time, short - 1, short + 1, length / 2) or short
    return (length / short, length / long)


def _nearest_line(spectrum: NDArray[np.float64], bins: NDArray[np.int64], frequency: float) -> float:
    """Return the frequency of the strongest line near a *frequency*, or that frequency without a line."""
    near = bins[abs(bins - frequency) <= LINE_WIDTH]
    if not len(near):
        return frequency
    return _peak(spectrum, int(near[spectrum[near].argmax()]))


def _fold(spectrum: NDArray[np.float64], bins: NDArray[np.int64], frequency: float) -> NDArray[np.float64]:
    """Return the power of lines by their distance from the nearest multiple of a *frequency*, without its harmonics."""
    distance = abs(bins - frequency * np.round(bins / frequency))
    places = np.round(distance).astype(np.int64)
    folded = np.zeros(len(spectrum))
    np.add.at(folded, places, spectrum[bins])
    folded[:MIN_CYCLES] = 0.0
    return folded


def _carrier(spectrum: NDArray[np.float64], bins: NDArray[np.int64], cycles: float) -> float | None:
    """Return the frequency of the strongest line that no harmonic of a cycle has: one stronger than those below it."""
    high = bins[bins > _MAX_ORDER * cycles + LINE_WIDTH]
    if not len(high):
        return None
    place = int(high[spectrum[high].argmax()])
    if (spectrum[place // 3 : place - 1] > spectrum[place]).any():
        return None
    return _peak(spectrum, place)


def _peak(spectrum: NDArray[np.float64], place: int) -> float:
    """Return the frequency of the line at a bin: between it and its stronger neighbour by their amplitudes.

    Off a bin by δ, the amplitudes of the bin and of its neighbour are in the ratio ``1 - δ`` to ``δ``.
    """
    beside = np.sqrt(spectrum[[place - 1, min(place + 1, len(spectrum) - 1)]])
    share = beside.max() / (beside.max() + np.sqrt(spectrum[place]))
    return float(place + share * (1 if beside.argmax() else -1))


def _fit_shares(
    means: NDArray[np.float64], powers: NDArray[np.float64], error: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Fit the nonnegative shares of level and bend, with relative errors; return them and the misfit."""
    curve, share, residual = powers, np.zeros(2), 0.0
    for _ in range(3):
        weights = 1 / (error * curve)
        share, residual = optimize.nnls(means * weights[:, None], powers * weights)
        curve = np.maximum(means @ share, 1e-3 * powers)
    return share, float(residual**2)
