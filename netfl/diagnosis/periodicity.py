"""Periodicity: lines in the spectrum of participation above a smooth noise floor.

Each user's participation is prewhitened by its own first-order recursion, which is exact for a two-state chain; the
innovations of all users are then made uncorrelated and of equal size.  Under any process without cycles the power at
a frequency, divided by that of the frequencies around it, then follows an F distribution: memory changes the level
smoothly, a cycle lifts single frequencies (M. B. Priestley, "Spectral analysis and time series", 1981, 6.1 and 8.3).

Memory that decays at a constant rate has the spectrum ``a + b / (1 + (f / w)²)``.  The noise floor is that curve,
fitted to the medians of frequency bands, so that single lines do not move it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
_LAGS_PER_ROUND = 8
"""Resolution of the period of spectral lines."""
_MIN_BINNED_ROUNDS = 64
"""Fewest rounds that are counted in time bins."""
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
    # Half the level, as the p-value of the stronger line counts twice below.  The *lines* in rounds are those at the
    # whole level: they are also removed before the test for drift, and a cycle that is left there would seem a drift.
    time_lines = find_lines(whiten(even_bins.counts), level / 2, min_cycles)
    if lines.p <= time_lines.p:
        return _describe_cycle(lines, each_round, "rounds", delivered, participation.round_s, tests=2)
    return _describe_cycle(time_lines, even_bins, "seconds", delivered, participation.round_s, tests=2)


def find_lines(white: WhitenedSeries, level: float, min_cycles: int = MIN_CYCLES) -> SpectralPeaks:
    """Test every frequency with at least *min_cycles* cycles in the recording for a line.

    The *level* of significance is that of all frequencies together, with Bonferroni's correction.  Under the null
    hypothesis, the power of a frequency, the mean of K columns, over the mean of n neighbours follows F(2K, 2K n).
    """
    length = len(white.series)
    spectrum = periodogram(white.series)
    tested = np.arange(min_cycles, len(spectrum))
    if len(tested) < 2 * min_cycles:
        return SpectralPeaks(0.0, 1.0, None, tested[:0])

    # the level around each frequency: the floor, corrected by the median of neighbours relative to it
    half = int(np.clip(240 / white.freedom, 24, max(8, length // 24)))
    floor = fit_floors(spectrum, min_cycles + 2, 2 * white.freedom)[0]
    around, neighbours = _local_median(spectrum / floor, tested, half)
    around *= floor[tested] * white.freedom / stats.gamma.median(white.freedom)  # the mean, from the median

    # the test of each frequency
    ratio = spectrum[tested] / np.maximum(around, MIN_FLOOR)
    degrees = 2 * white.freedom * np.where(2 * tested == length, 0.5, 1.0)  # the highest has no sine
    # a median of n powers varies like a mean of n / 2
    p = stats.f.sf(ratio / SLACK, degrees, white.freedom * neighbours) * len(tested)
    strongest = int(np.lexsort((-ratio, p))[0])  # by p; the largest ratio where p is 0
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
    remaining = series
    if len(series) >= min_frequency * lines.period:
        phase = (np.arange(len(series)) % lines.period).astype(np.int64)
        total = np.zeros((phase.max() + 1, series.shape[1]))  # [phases, columns]
        np.add.at(total, phase, series)
        mean = total / np.bincount(phase)[:, None]
        remaining = series - mean[phase]
    transform = np.fft.rfft(remaining, axis=0)
    bins = lines.bins[lines.bins >= min_frequency]
    removed = np.unique(np.concatenate([bins - 1, bins, bins + 1]))
    transform[removed[removed < len(transform)]] = 0.0
    return np.asarray(np.fft.irfft(transform, len(series), axis=0))


def whiten(delivered: NDArray[np.float64]) -> WhitenedSeries:
    """Return the innovations of *delivered*, ``[rounds, users]``: prewhitened by user, then made uncorrelated.

    The principal axes of the correlation, each divided by the root of its variance, make columns uncorrelated.
    """
    rounds = len(delivered)
    innovations = np.empty_like(delivered)
    scale = np.zeros(delivered.shape[1])
    for part in column_blocks(delivered):
        innovations[:, part], scale[part] = _prewhiten(delivered[:, part])
    is_random = scale > 1e-9  # the others never change, or follow from the round before
    if not is_random.all():
        innovations = innovations[:, is_random]
    if not innovations.size:
        return WhitenedSeries(np.zeros((rounds, 1)), 1.0)
    if 8 * innovations.shape[1] > rounds:  # too few rounds to estimate all correlations
        return WhitenedSeries(innovations, effective_columns(innovations))
    variance, axes = np.linalg.eigh(innovations.T @ innovations / rounds)  # ascending
    is_kept = variance > 10 * variance[-1] / rounds  # drops the sum over users if it is the same in every round
    is_kept[-1] = True  # of ten rounds, the bound is the largest itself
    uncorrelated = innovations @ (axes[:, is_kept] / np.sqrt(variance[is_kept]))
    return WhitenedSeries(uncorrelated, float(is_kept.sum()))


def periodogram(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean periodogram of the columns, from frequency 0 to one half; 1 for white noise."""
    total = np.zeros(len(series) // 2 + 1)
    for part in column_blocks(series):
        transform = np.fft.rfft(series[:, part], axis=0)
        total += (transform.real**2 + transform.imag**2).sum(axis=1)
    return total / series.size


def fit_floors(spectrum: NDArray[np.float64], first: int, freedom: float, *, bent: bool = True) -> NDArray[np.float64]:
    """Return candidate curves of the noise floor, ``[curves, frequencies]``, the best fit first.

    Each is ``a + b / (1 + (f / w)²)`` with its own width w, fitted to the medians of bands of rising width.

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

    # the mean power of each band, from its median, and its relative error
    median_of_one = stats.gamma.median(freedom / 2) / (freedom / 2)  # of a power of mean 1
    powers = np.array([max(float(np.median(spectrum[band])) / median_of_one, min_floor) for band in bands])
    error = np.array([np.sqrt(4 / (freedom * len(band)) + _MODEL_ERROR**2) for band in bands])

    # one curve for each width
    frequency = np.arange(len(spectrum))
    widths: Iterable[float] = [np.inf]
    if bent:
        widths = first / 2 * 2.0 ** np.arange(0, 8, 0.5)
    curves = []
    misfits = []
    for width in widths:
        bend = 1 / (1 + (frequency / width) ** 2)
        means = np.array([[1.0, bend[band].mean()] for band in bands])  # [bands, 2]
        (level, height), misfit = _fit_shares(means, powers, error)
        curves.append(np.maximum(level + height * bend, min_floor))
        misfits.append(misfit)
    by_misfit = np.argsort(misfits)
    largest_misfit = misfits[by_misfit[0]] + _MAX_MISFIT
    return np.array([curves[fit] for fit in by_misfit if misfits[fit] <= largest_misfit])


def effective_columns(series: NDArray[np.float64]) -> float:
    """Return the equivalent number of independent columns, ``(tr C)² / tr C²`` of their covariance C.

    By chance, each covariance of independent columns has the square ``c_ii c_jj / T`` in T rounds, which is subtracted.
    """
    rounds = len(series)
    covariance = series.T @ series / rounds
    trace = float(np.trace(covariance))
    if trace <= 0:
        return 1.0
    squares = float((covariance**2).sum())  # tr C²
    by_chance = (trace**2 - float((np.diag(covariance) ** 2).sum())) / rounds
    return max(1.0, trace**2 / max(squares - by_chance, trace**2 / len(covariance)))


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
    rounds = np.bincount(phase)[:, None].astype(float)  # n, [phases, 1]
    if (rounds < 2).any():
        return None
    count = np.zeros((len(rounds), delivered.shape[1]))  # c, [phases, users]
    np.add.at(count, phase, delivered)
    mean_square = (count * (count - 1) / (rounds * (rounds - 1))).mean(axis=0).sum()
    if mean_square <= 0:
        return None
    squared_mean = ((count / rounds).mean(axis=0) ** 2).sum()
    return float(min(1.0, squared_mean / mean_square))


def is_harmonic(frequency: float, base: float) -> bool:
    """Return whether a *frequency* is that of one of the first harmonics of *base*, in cycles per recording."""
    order = round(frequency / base)
    return order <= _MAX_ORDER and abs(frequency - order * base) <= LINE_WIDTH


def estimate_duty(delivered: NDArray[np.float64], turns: NDArray[np.float64], period: float) -> float | None:
    """Return the duty cycle of a *period* in rounds; *turns* is the time of each round in cycles."""
    max_phases = min(50, max(2, len(delivered) / period))  # no more than turns
    phases = int(np.clip(round(period), 2, max_phases))
    phase = np.minimum((turns % 1.0 * phases).astype(np.int64), phases - 1)
    return duty_cycle(delivered, phase)


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
    periods_s: tuple[float, ...] = ()
    if round_s is not None:
        periods_s = tuple(period * round_s for period in periods)
    return Periodicity(
        p=p,
        ratio=lines.ratio,
        period=periods[0],
        period_s=periods_s[0] if periods_s else None,
        periods=periods,
        periods_s=periods_s,
        duty=estimate_duty(delivered, bins.time / base_periods[0], periods[0]),
        clock=clock,
    )


def _bin_by_time(delivered: NDArray[np.float64], participation: Participation) -> TimeBins | None:
    """Return the deliveries of each user in even time bins; ``None`` for even rounds.

    If all rounds have the same size, the counts are the excess over the user's share of the bin's deliveries: rounds
    of varying duration are not a cycle of participation.
    """
    rounds = participation.rounds
    span_s = participation.span_s
    closed_s = participation.closed_s
    if closed_s is None or span_s is None:
        return None
    is_even = np.ptp(span_s) <= 1e-6 * span_s.mean()
    if is_even or rounds < _MIN_BINNED_ROUNDS:
        return None
    total_s = float(span_s.sum())
    bins = min(_MAX_BINS, rounds // 4)
    since_first_s = closed_s - closed_s[0]
    bin_of_round = np.minimum(((since_first_s + span_s[0]) / total_s * bins).astype(np.int64), bins - 1)
    counts = np.zeros((bins, delivered.shape[1]))
    np.add.at(counts, bin_of_round, delivered)
    if np.ptp(participation.delivered.sum(axis=1)) == 0:  # all rounds have the same size
        counts -= np.bincount(bin_of_round, minlength=bins)[:, None] * delivered.mean(axis=0)
    return TimeBins(counts=counts, time=since_first_s / total_s * bins, rounds=rounds / bins)


def _prewhiten(delivered: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the residuals of each column's first-order recursion, of mean square 1, and their scale.

    The residuals are ``x(t) - φ x(t - 1)`` with ``φ = Σ x(t) x(t - 1) / Σ x(t)²``, of x without its mean.
    """
    centred = delivered - delivered.mean(axis=0)
    power = (centred**2).sum(axis=0)
    varies = power > 1e-9
    before = np.roll(centred, 1, axis=0)  # the first round follows the last, so that whole cycles stay whole
    product = np.einsum("tk,tk->k", centred, before)
    recursion = np.divide(product, power, out=np.zeros_like(power), where=varies)  # φ, [columns]
    recursion = np.clip(recursion, -_MAX_RECURSION, _MAX_RECURSION)
    residual = centred - recursion * before
    scale = np.where(varies, np.sqrt((residual**2).mean(axis=0)), 0.0)
    return residual / np.where(scale > 1e-9, scale, 1.0), scale


def _local_median(
    spectrum: NDArray[np.float64], tested: NDArray[np.int64], half: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the median power around each of *tested*, without itself and two neighbours, and the number of powers."""
    last = len(spectrum) - 1
    offsets = np.concatenate([np.arange(-half, -2), np.arange(3, half + 1)])
    bins = tested[:, None] + offsets  # [tested, neighbours]
    is_inside = (bins >= min(tested[0], last)) & (bins <= last)
    values = np.where(is_inside, spectrum[np.clip(bins, 0, last)], np.nan)
    return np.nanmedian(values, axis=1), is_inside.sum(axis=1)


def _fundamental_period(lines: NDArray[np.float64], length: int) -> float:
    """Return the shortest lag beyond the first dip at which *lines* repeat nearly as well as at the best.

    The *lines* are the power of each line above its surroundings, and 0 at the other frequencies.  Without such a lag
    the period is that of the slowest line.
    """
    slowest = length / float(np.flatnonzero(lines)[0])

    # the autocorrelation at lags of an eighth of a round, up to the longest period
    correlation = np.fft.irfft(lines, _LAGS_PER_ROUND * length)
    correlation = correlation[: _LAGS_PER_ROUND * (length // MIN_CYCLES) + 1]
    dips = np.flatnonzero(correlation < 0.5 * correlation[0])
    if not len(dips):
        return slowest
    first_dip = dips[0]
    beyond = correlation[first_dip:]
    peaks = np.flatnonzero((beyond[1:-1] >= beyond[:-2]) & (beyond[1:-1] > beyond[2:])) + 1
    if not len(peaks) or beyond[peaks].max() <= 0:
        return slowest
    high_peaks = peaks[beyond[peaks] >= 0.9 * beyond[peaks].max()]
    return float(high_peaks[0] + first_dip) / _LAGS_PER_ROUND


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
    bins = peaks.bins[spectrum[peaks.bins] >= _MIN_SHARE * spectrum[peaks.bins].max()]  # the strong lines

    # the short cycle, f, and the lines between its harmonics
    cycles = length / peaks.period
    short = _carrier(spectrum, bins, cycles) or _nearest_line(spectrum, bins, cycles)
    folded = _fold(spectrum, bins, short)
    if not folded.any():
        return (peaks.period,)

    # the long cycle, g, of which these are the harmonics; then both by least squares
    rough_long = length / _fundamental_period(folded, length)
    time = np.arange(length) / length
    slowest = max(rough_long - 1, MIN_CYCLES - CYCLES_ERROR)
    long = fit_cycles(delivered, time, slowest, rough_long + 1, short / 2)
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
    folded_bins = np.round(distance).astype(np.int64)
    folded = np.zeros(len(spectrum))
    np.add.at(folded, folded_bins, spectrum[bins])
    folded[:MIN_CYCLES] = 0.0  # the harmonics, and what is too slow for a cycle
    return folded


def _carrier(spectrum: NDArray[np.float64], bins: NDArray[np.int64], cycles: float) -> float | None:
    """Return the frequency of the strongest line that no harmonic of a cycle has: one stronger than those below it."""
    high_bins = bins[bins > _MAX_ORDER * cycles + LINE_WIDTH]
    if not len(high_bins):
        return None
    strongest = int(high_bins[spectrum[high_bins].argmax()])
    if (spectrum[strongest // 3 : strongest - 1] > spectrum[strongest]).any():
        return None
    return _peak(spectrum, strongest)


def _peak(spectrum: NDArray[np.float64], line: int) -> float:
    """Return the frequency of the *line* at a bin: between it and its stronger neighbour by their amplitudes.

    Off a bin by δ, the amplitudes of the bin and of its neighbour are in the ratio ``1 - δ`` to ``δ``.
    """
    neighbours = [line - 1, min(line + 1, len(spectrum) - 1)]
    amplitudes = np.sqrt(spectrum[neighbours])
    delta = amplitudes.max() / (amplitudes.max() + np.sqrt(spectrum[line]))
    direction = 1 if amplitudes.argmax() else -1
    return float(line + delta * direction)


def _fit_shares(
    means: NDArray[np.float64], powers: NDArray[np.float64], error: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Fit the nonnegative shares of level and bend, ``[2]``, with relative errors; return them and the misfit.

    It is ``χ² = Σ_bands ((power - curve) / (error · curve))²``.
    """
    curve = powers
    share = np.zeros(2)
    residual = 0.0
    for _ in range(3):  # the weights follow from the curve, and the curve from the weights
        weights = 1 / (error * curve)
        share, residual = optimize.nnls(means * weights[:, None], powers * weights)
        curve = np.maximum(means @ share, 1e-3 * powers)
    return share, float(residual**2)
