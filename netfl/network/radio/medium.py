"""The medium: what becomes of a transmission, and who can transmit at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from netfl.network.counterfactual import NOBODY, Exemptions
from netfl.network.energy import EnergyMeter
from netfl.network.outage._state import NodeState
from netfl.network.periods import after_rounding, before_rounding
from netfl.network.radio.transmission import Transmission

Ids = NDArray[np.int64]
Verdict = tuple[Sequence[str], NDArray[np.float64]]
"""For each frame of a flight why it was not received, or an empty word; and the SNR at which it was heard, in dB."""


@cache
def unknown_snr(n: int) -> NDArray[np.float64]:
    """The SNR of *n* frames that nobody measured."""
    unknown = np.full(n, np.nan)
    unknown.setflags(write=False)
    return unknown


def mark_interrupted(flight: Transmission, causes: list[str]) -> list[str]:
    """*causes*, but for those who were cut off meanwhile: an outage comes before all else."""
    if flight.cut is None:
        return causes
    return ["lost" if cut else cause for cut, cause in zip(flight.cut, causes, strict=True)]


class Medium:
    """A medium on which only collisions and outages fail: what the closed forms of MACs assume.

    A transmission that begins or ends as an outage does, but for the rounding of the clock (`periods`), is taken to do
    so exactly.

    Args:
        rate_bps: the rate at which bits are sent.
        presence: who is up; ``None`` if nobody is ever cut off.
        spare: for whom nobody is ever down, or no signal too weak.

    Attributes:
        steady: whether nobody is ever cut off.
        foreseen: whether who is cut off until when does not depend on what users do until then.
        modes: how many modes a sender can choose from.
        spending: what is told of those who send, and of those who are sent something; ``None``: nobody counts.
    """

    modes = 1
    spending: EnergyMeter | None = None

    def __init__(self, rate_bps: float, presence: NodeState | None = None, spare: Exemptions = NOBODY) -> None:
        self._rate_bps, self._spare = rate_bps, spare
        self._presence = None if presence is None or presence.is_always_up else presence
        self.steady = self._presence is None
        self.foreseen = self._presence is None or not self._presence.is_metered

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        """How long *bits* are on the air."""
        return bits / self._rate_bps

    def longest_s(self, bits: float) -> float:
        """How long *bits* are on the air in the slowest mode."""
        return max(self.airtime_s(bits, mode) for mode in range(self.modes))

    def judge(self, flight: Transmission) -> Verdict:
        """What becomes of *flight*, now that it has ended."""
        n = len(flight.ids)
        causes = ["collided" if flight.rivals or n > 1 else ""] * n
        return mark_interrupted(flight, causes), unknown_snr(n)

    def choose(self, ids: Ids, tower: tuple[str, int], time_s: float, boost_db: float = 0.0) -> NDArray[np.int64]:
        """The mode in which each user sends, or the tower sends to it, stronger by *boost_db*, ``[n]``."""
        return np.zeros(len(ids), np.int64)

    def snr_db(self, ids: Ids, tower: tuple[str, int], time_s: float) -> NDArray[np.float64]:
        """What *tower* would hear of each user now, ``[n]``."""
        return np.full(len(ids), np.inf)

    def best_snr_db(self, ids: Ids) -> NDArray[np.float64]:
        """An SNR that each user exceeds practically never, ``[n]``."""
        return np.full(len(ids), np.inf)

    def delay_s(self, ids: Ids, time_s: float) -> NDArray[np.float64] | None:
        """How long a signal of each user takes to its tower, ``[n]``; ``None`` where that counts for nothing."""
        return None

    def connected(self, ids: Ids, tower: int, time_s: float) -> NDArray[np.bool_]:
        """Whether each user and the tower are up, ``[n]``."""
        if self._presence is None:
            return np.ones(len(ids), np.bool_)
        time_s = after_rounding(time_s)
        up = self._presence.up(ids, time_s) & (self._presence.node_up_until_s(tower, time_s) > time_s)
        return up | self._spare.among("outage", ids) if self._spare.outage else up

    def connected_from(self, ids: Ids, tower: int, time_s: float) -> NDArray[np.float64]:
        """The first instant from *time_s* on at which each user and the tower are up, ``[n]``; infinity if never."""
        if self._presence is None:
            return np.full(len(ids), time_s)
        time_s = after_rounding(time_s)
        from_s = self._presence.all_up_from_s(np.column_stack([ids, np.full(len(ids), tower)]), time_s)
        return np.where(self._spare.among("outage", ids), time_s, from_s) if self._spare.outage else from_s

    def cut(self, ids: Ids, tower: int, start_s: float, end_s: float, heard_s: float) -> Sequence[bool] | None:
        """Which transmissions an outage will cut; ``None`` for none.  To be asked in the order of *start_s*.

        Args:
            ids: who sends; of these it matters that they are up until the end of their sending.
            tower: who is to hear it, and must be up until it has.
            start_s: when the sending begins.
            end_s: when it ends.
            heard_s: when the last of it has arrived.
        """
        if self._presence is None:
            return None
        cut_s, spared = self._presence.cut_s, self._spare.outage
        start_s, end_s, heard_s = after_rounding(start_s), before_rounding(end_s), before_rounding(heard_s)
        if cut_s(tower, start_s, heard_s) < heard_s:
            return [user not in spared for user in ids.tolist()]
        return [cut_s(user, start_s, end_s) < end_s and user not in spared for user in ids.tolist()]

    def hears(
        self, ids: Ids, tower: tuple[str, int], span_s: tuple[float, float], bits: float, mode: int, boost_db: float
    ) -> NDArray[np.bool_]:
        """Whether each user receives what *tower* sends from now on, alone on the air, stronger by *boost_db*."""
        start_s, end_s = span_s
        up = self.connected(ids, tower[1], start_s)
        if self._presence is not None and up.any():
            up[up] = ~np.array(self.cut(ids[up], tower[1], start_s, end_s, end_s))
        return up

    def chance(
        self, ids: Ids, tower: tuple[str, int], time_s: float, bits: float, modes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The probability that each user would be received, alone on the air in its mode, ``[n]``."""
        return np.ones(len(ids))

    def train(self, ids: Ids, time_s: NDArray[np.float64], samples: NDArray[np.float64]) -> None:
        """Users begin to train, which costs them energy."""
        if self._presence is not None and self._presence.is_metered:
            self._presence.train(ids, time_s, samples)

    def spend(self, ids: Ids, time_s: float, bits: float | NDArray[np.float64]) -> None:
        """Users put *bits* on the air, which costs them energy."""
        if self._presence is not None and self._presence.is_metered:
            self._presence.transmit(ids, time_s, bits)
