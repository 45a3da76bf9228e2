"""Probability that a frame fades on a link with block fading."""

from __future__ import annotations

from collections.abc import Mapping

from scipy import special

from netfl.network.channel.nakagami import Nakagami
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.channel.rician import Rician
from netfl.network.mac.round_robin import RoundRobin
from netfl.network.mac.slotted_aloha import Aloha
from netfl.network.mac.tdma import Tdma
from netfl.network.theory import Condition, Theory, TheoryCase
from netfl.network.theory._links import (
    EQUAL_LINKS,
    ONE_CELL,
    SATURATED,
    budget_db,
    find_random_channel,
    find_threshold,
)


def _has_block_fading(case: TheoryCase) -> bool:
    fading = find_random_channel(case, Nakagami, Rayleigh, Rician)
    return fading is not None and fading.coherence is not None


def _sends_blindly(case: TheoryCase) -> bool:
    mac = case.network.mac
    return isinstance(mac, Tdma | RoundRobin) or (isinstance(mac, Aloha) and mac.probability is not None)


class NakagamiFading(Theory):
    """An attempt under Nakagami-m block fading fades with probability P(m, m γ/γ̄), without interference.

    P is the regularised incomplete gamma function, γ the SNR that the reception requires, γ̄ the mean SNR of the link
    budget: power and path gains over the noise, as the fading's mean gain is 1.  With ``rayleigh`` fading it is
    m = 1, that is 1 - exp(-γ/γ̄); with ``rician`` fading 1 - Q1(√(2K), √(2 (1+K) γ/γ̄)), Q1 being Marcum's function.
    M. K. Simon and M.-S. Alouini, "Digital Communication over Fading Channels", 2nd ed., 2005, §2.2.1 and §10.1.

    For saturated users at one distance, so that attempts are independent of the fading, and all-or-nothing receptions.

    Example::

        kind: nakagami_fading
    """

    conditions = (
        SATURATED,
        *EQUAL_LINKS,
        *ONE_CELL,
        Condition(
            "channel",
            "one block fading (nakagami, rayleigh or rician, with coherence) on a fixed path loss",
            _has_block_fading,
        ),
        Condition(
            "reception",
            "all-or-nothing receptions, snr_threshold or shannon with a rate",
            lambda case: find_threshold(case) is not None,
        ),
        Condition(
            "mac",
            "attempts that do not depend on the fading (tdma, round_robin, ALOHA of fixed probability)",
            _sends_blindly,
        ),
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        fading = find_random_channel(case, Nakagami, Rayleigh, Rician)
        min_snr_db = find_threshold(case)
        assert min_snr_db is not None
        share = 10.0 ** ((min_snr_db - budget_db(case)) / 10.0)  # γ/γ̄
        if isinstance(fading, Rician):
            k = 10.0 ** (fading.k_factor / 10.0)
            return {"fade_probability_theory": float(special.chndtr(2.0 * (1.0 + k) * share, 2.0, 2.0 * k))}
        m = fading.m if isinstance(fading, Nakagami) else 1.0
        return {"fade_probability_theory": float(special.gammainc(m, m * share))}
