"""Users under Rayleigh fading, whose powers are compared with closed forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from netfl.network.power_control import PowerControl, SenderLinks
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law

ABOVE_DB = 3.0
"""Mean SNR at full power above the level that a claim is about."""


def share_law(
    model: PowerControl, quantity: str, statement: str, level_db: float, is_counted: Callable[[Floats], Bools]
) -> Law:
    """Return the claim that the SNR is below a level with probability 1 - exp(-level / mean SNR).

    Args:
        model: the model.
        quantity: what is counted.
        statement: the claim in words.
        level_db: the level.
        is_counted: whether each of the powers that the model gives counts, ``[n]``.
    """
    mean_snr_db = level_db + ABOVE_DB

    def draw(streams: Streams, size: int) -> Floats:
        users = np.arange(size)
        gain = streams.field("gain").exponential(users, 0)
        snr_db = mean_snr_db + 10.0 * np.log10(gain)
        links = SenderLinks(users, snr_db, snr_db, lambda: np.full(size, mean_snr_db))
        return is_counted(model.power_db(links)).astype(float)

    share = 1.0 - float(np.exp(-(10.0 ** (-ABOVE_DB / 10.0))))
    return Law(quantity, f"{statement}, of users under Rayleigh fading", draw, mean=share)
