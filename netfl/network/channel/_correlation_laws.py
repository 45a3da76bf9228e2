"""Claims about a random process over time: autocorrelation, level-crossing rate and fade duration.

A process is given as ``series(streams, size, times_s)``: *size* independent series at the given times,
``[size, times]``.  Each claim takes one estimate from every series, so that the estimates are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import networkx as nx
import numpy as np

from netfl.network.channel import Channel
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats, Rows, StatisticClaim

Series = Callable[[Streams, int, Floats], Floats]
"""``series(streams, size, times_s)``: independent series of one process at the given times, ``[size, times]``."""

_ORIGINS = 8
"""Instants t of each series."""
_SHARE = 8
"""Requested draws for each series, which holds several estimates."""
_STEPS = 160
"""Samples of a series in which level crossings are counted."""


def gain_series(channel: Channel) -> Series:
    """Return the gains in dB of a *channel* that does not depend on positions, as independent series of users."""

    def series(streams: Streams, size: int, times_s: Floats) -> Floats:
        gain = channel.open(Layout(nx.Graph(), np.zeros((size, 2))), streams)
        users = np.repeat(np.arange(size), len(times_s))
        return gain.gain_db(users, np.tile(times_s, size)).reshape(size, -1)

    return series


def autocorrelation(
    formula: str, series: Series, rho: Callable[[float], float], lags_s: Sequence[float], moments: tuple[float, float]
) -> StatisticClaim:
    """Claim that the correlation of X(t) and X(t + lag) is *rho* of the lag.

    The estimate is (X(t) - μ) (X(t + lag) - μ) / σ², averaged over a few instants t of each series.

    Args:
        formula: the claim, for tables.
        series: draws the process.
        rho: the claimed correlation.
        lags_s: tested lags; the last is the longest.
        moments: the claimed mean μ and variance σ².
    """
    mean, variance = moments
    origins_s = 2.3 * lags_s[-1] * np.arange(1, _ORIGINS + 1)
    times_s = np.add.outer(np.array([0.0, *lags_s]), origins_s)

    def draw(streams: Streams, size: int) -> Rows:
        centred = series(streams, size // _SHARE, times_s.ravel()) - mean
        at_start, *at_lags = np.moveaxis(centred.reshape(-1, *times_s.shape), 1, 0)  # [series, origins] each
        return np.stack([(at_start * at_lag).mean(axis=1) for at_lag in at_lags], axis=1) / variance

    names = [f"lag {lag:.4g} s" for lag in lags_s]
    return StatisticClaim("autocorrelation", formula, draw, [rho(lag) for lag in lags_s], names)


def crossing_rate(
    formula: str, series: Series, rate_hz: Callable[[float], float], levels: Sequence[float], step_s: float
) -> StatisticClaim:
    """Claim that X falls below each of *levels* *rate_hz* times a second.

    Series are sampled every *step_s*, which must be short against the fades: shorter fades are missed.
    """

    def draw(streams: Streams, size: int) -> Rows:
        _, falls = _below(series, streams, size, levels, step_s)
        return falls / (_STEPS * step_s)

    names = [f"level {level:.4g}" for level in levels]
    return StatisticClaim("level-crossing rate", formula, draw, [rate_hz(level) for level in levels], names)


def fade_duration(
    formula: str, series: Series, mean_s: Callable[[float], float], levels: Sequence[float], step_s: float
) -> StatisticClaim:
    """Claim that X stays below a level for *mean_s* on average: time below it over falls below it."""

    def draw(streams: Streams, size: int) -> tuple[Rows, Rows]:
        share, falls = _below(series, streams, size, levels, step_s)
        return share * _STEPS * step_s, falls

    names = [f"level {level:.4g}" for level in levels]
    return StatisticClaim("average fade duration", formula, draw, [mean_s(level) for level in levels], names)


def _below(series: Series, streams: Streams, size: int, levels: Sequence[float], step_s: float) -> tuple[Rows, Rows]:
    """Return the share of time below each level, and the falls below it, ``[series, levels]`` both."""
    times_s = step_s * np.arange(3.0 * _STEPS, 4.0 * _STEPS + 1)
    values = series(streams, size // (2 * _SHARE), times_s)
    is_below = values[:, None] < np.array(levels)[:, None]  # [series, levels, times]
    falls = (is_below[..., 1:] & ~is_below[..., :-1]).sum(axis=2)
    return is_below[..., 1:].mean(axis=2), falls.astype(float)
