"""Measured channels, independent of the code of netfl: interpolation by SciPy, and averages in closed form."""

import numpy as np
import pandas as pd
from scipy.interpolate import RegularGridInterpolator
from scipy.special import exp1


def map_gain_db(file, place_m, method):
    """Return the gain at a place on the map in *file*, with the *method* ``linear`` or ``nearest`` of SciPy."""
    table = pd.read_csv(file).pivot_table(index="x_m", columns="y_m", values="gain_db")
    points = (table.index.to_numpy(), table.columns.to_numpy())
    return float(RegularGridInterpolator(points, table.to_numpy(), method)([place_m])[0])


def trace_averages(file, interpolation, base_db, threshold_db):
    """Return the mean SNR over the time of a trace, as a ratio, and the share of the frames that fade.

    The fading is that of Rayleigh, with the mean 1: at the mean SNR g a frame fades with probability 1 - exp(-u), where
    u = threshold / g.  On a piece on which g in dB is linear in time, log u is, too.  Then the mean of exp(-u) is
    (E_1(u_0) - E_1(u_1)) / log(u_1 / u_0), and that of g is (g_1 - g_0) / log(g_1 / g_0).

    Args:
        file: a trace of one user, in which the gain differs from each line to the next.
        interpolation: that of the channel ``trace``.
        base_db: SNR at a gain of 0 dB.
        threshold_db: SNR that a frame needs.
    """
    table = pd.read_csv(file)
    steps_s = np.diff(table["time_s"])
    g = 10 ** ((base_db + table["gain_db"].to_numpy()) / 10)
    u = 10 ** (threshold_db / 10) / g
    if interpolation == "linear":
        snr = np.diff(g) / np.diff(np.log(g))
        received = -np.diff(exp1(u)) / np.diff(np.log(u))
    elif interpolation == "previous":
        snr = g[:-1]
        received = np.exp(-u[:-1])
    else:
        snr = (g[:-1] + g[1:]) / 2
        received = (np.exp(-u[:-1]) + np.exp(-u[1:])) / 2
    span_s = steps_s.sum()
    return float(snr @ steps_s / span_s), 1 - float(received @ steps_s / span_s)
