"""A band that saturated users share by frequency division, at capacity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from netfl.network.mac.fdma import Fdma
from netfl.network.reception.shannon import Shannon
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import (
    FULL_POWER,
    NO_FADING,
    NO_OUTAGES,
    ONE_RADIO,
    OWN_TOWER,
    SATURATED,
    budgets_db,
)
from netfl.network.theory.slotted_aloha import LEAVES_AT_TOWER
from netfl.types import Floats
from netfl.units import db_to_linear


def _divides_band(case: TheoryCase) -> bool:
    mac = case.network.mac
    return isinstance(mac, Fdma) and mac.band is None


def _sends_at_capacity(case: TheoryCase) -> bool:
    return isinstance(case.network.reception, Shannon) and case.network.reception.follows_snr


class DividedBand(Theory):
    """Saturated users send in shares s_i of the band B, at the capacity R_i = s_i B log2(1 + snr_i / (Γ s_i)).

    snr_i is the SNR of user i in the whole band, and Γ the gap of the reception.  All frames have b bits.

    - Shares of ``users``, equal or given: Σ R_i in all.
    - Shares of the ``backlog`` are the same in each division, which ends with the slowest frame:
      n b / max(b / R_i) = n min R_i in all.  ``equal``: s_i = 1/n.  ``water_filling``: s_i = snr_i / Σ snr_j, so that
      ``Σ R_i = B log2(1 + Σ snr_j / Γ)`` while all send, the largest sum that any shares have.  ``need``: shares with
      equal R_i, found by bisection.

    R. S. Cheng and S. Verdú, IEEE Trans. Inf. Theory 39(3), 1993; A. Goldsmith, "Wireless Communications", 2005,
    §14.2.1.  For one cell without fading and outages.

    Example::

        kind: divided_band
    """

    conditions = (
        Condition("mac", "fdma without band", _divides_band),
        Condition("reception", "shannon without rate", _sends_at_capacity),
        SATURATED,
        LEAVES_AT_TOWER,
        Condition("motion", "users that do not move", lambda case: case.network.motion is None),
        ONE_RADIO,
        OWN_TOWER,
        FULL_POWER,
        NO_FADING,
        Condition("topology", "one tower", lambda case: len(case.layout.towers) == 1),
        NO_OUTAGES,
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        mac = case.network.mac
        reception = case.network.reception
        radio = case.network.radio
        assert isinstance(mac, Fdma)
        assert isinstance(reception, Shannon)
        assert radio is not None
        snr = db_to_linear(budgets_db(case) - reception.gap)
        assert radio.common_bandwidth_hz is not None
        rates_bps = radio.common_bandwidth_hz * _capacity(shares_of(mac, snr), snr)
        throughput_bps = rates_bps.sum() if mac.is_fixed else len(snr) * rates_bps.min()
        return {"throughput_theory_bps": float(throughput_bps)}


def shares_of(mac: Fdma, snr: Floats) -> Floats:
    """Return the shares of saturated users with these *snr* over the gap in the whole band, ``[n]``."""
    if mac.shares is not None:
        return np.array(mac.shares)
    if mac.division == "water_filling":
        return np.asarray(snr / snr.sum())
    if mac.division == "need":
        return _shares_of_equal_rates(snr)
    return np.full(len(snr), 1.0 / len(snr))


def _capacity(shares: Floats, snr: Floats) -> Floats:
    """Return s log2(1 + snr / s) of each share."""
    return np.asarray(shares * np.log2(1.0 + snr / shares))


def _shares_of_equal_rates(snr: Floats) -> Floats:
    """Return the shares, of sum 1, that give all users the same rate."""
    from scipy.optimize import brentq

    def excess(share: float, signal: float, rate: float) -> float:
        return float(share * np.log2(1.0 + signal / share)) - rate

    def needed(rate: float) -> Floats:
        """Return the shares in which each user has *rate*, in bits per second and hertz of the whole band."""
        return np.array([brentq(excess, 1e-12, 2.0, args=(signal, rate)) for signal in snr.tolist()])

    highest = float(np.log2(1.0 + snr.min()))  # that of the weakest user in the whole band
    lowest = highest / len(snr)  # in equal shares, each has at least this
    return needed(brentq(lambda rate: needed(rate).sum() - 1.0, 0.99 * lowest, highest))
