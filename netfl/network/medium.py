"""The medium: what becomes of a transmission, and who can transmit at all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.network.flight import Flight, touch_s
from netfl.network.presence import Presence
from netfl.network.radio import Air
from netfl.network.reception import Reception
from netfl.streams import Streams

Ids = NDArray[np.int64]
Verdict = tuple[Sequence[str], NDArray[np.float64]]
"""For each frame of a flight why it was not received, or an empty word; and the SNR at which it was heard, in dB."""


@cache
def _unknown(n: int) -> NDArray[np.float64]:
    """The SNR of *n* frames that nobody measured."""
    unknown = np.full(n, np.nan)
    unknown.setflags(write=False)
    return unknown


def _lost(flight: Flight, causes: list[str]) -> list[str]:
    """*causes*, but for those who were cut off meanwhile: an outage comes before all else."""
    if flight.cut is None:
        return causes
    return ["lost" if cut else cause for cut, cause in zip(flight.cut, causes, strict=True)]


class Medium:
    """A medium on which only collisions and outages fail: what the closed forms of MACs assume.

    Args:
        rate_bps: the rate at which bits are sent.
        presence: who is up; ``None`` if nobody is ever cut off.

    Attributes:
        steady: whether nobody is ever cut off.
        modes: how many modes a sender can choose from.
    """

    modes = 1

    def __init__(self, rate_bps: float, presence: Presence | None = None) -> None:
        self._rate_bps = rate_bps
        self._presence = None if presence is None or presence.always_up else presence
        self.steady = self._presence is None

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        """How long *bits* are on the air."""
        return bits / self._rate_bps

    def longest_s(self, bits: float) -> float:
        """How long *bits* are on the air in the slowest mode."""
        return max(self.airtime_s(bits, mode) for mode in range(self.modes))

    def judge(self, flight: Flight) -> Verdict:
        """What becomes of *flight*, now that it has ended."""
        n = len(flight.ids)
        causes = ["collided" if flight.rivals or n > 1 else ""] * n
        return _lost(flight, causes), _unknown(n)

    def choose(self, ids: Ids, tower: tuple[str, int], time_s: float) -> NDArray[np.int64]:
        """The mode in which each user sends, ``[n]``."""
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
        return self._presence.up(ids, time_s) & (self._presence.node_until_s(tower, time_s) > time_s)

    def connected_from(self, ids: Ids, tower: int, time_s: float) -> NDArray[np.float64]:
        """The first instant from *time_s* on at which each user and the tower are up, ``[n]``; infinity if never."""
        if self._presence is None:
            return np.full(len(ids), time_s)
        return self._presence.together_from_s(np.column_stack([ids, np.full(len(ids), tower)]), time_s)

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
        if self._presence.cut_s(tower, start_s, heard_s) < heard_s:
            return [True] * len(ids)
        return [self._presence.cut_s(user, start_s, end_s) < end_s for user in ids.tolist()]

    def train(self, ids: Ids, time_s: NDArray[np.float64], samples: NDArray[np.float64]) -> None:
        """Users begin to train, which costs them energy."""
        if self._presence is not None and self._presence.metered:
            self._presence.train(ids, time_s, samples)

    def spend(self, ids: Ids, time_s: float, bits: float | NDArray[np.float64]) -> None:
        """Users put *bits* on the air, which costs them energy."""
        if self._presence is not None and self._presence.metered:
            self._presence.transmit(ids, time_s, bits)


class FadingMedium(Medium):
    """Channels between users and towers, interference, and the outages of both.

    A transmission is ``lost`` if the user or the tower goes down during it.  One that nobody disturbs is ``faded`` if
    the SNR at its start is not enough.  What becomes of those who meet others on their channel, at any time, is said by
    *interference*: they have ``collided``, but for one that is stronger than all others together by *capture_db*; or
    the reception is held against the ratio of its signal to noise and interference at the worst moment (the SINR),
    and one that fails by that has ``collided`` if it would have been received alone.

    Args:
        air: the SNR of every link.
        reception: which of them are enough.
        presence: who is up.
        streams: for the draws of receptions that are uncertain.
        interference: ``collide`` or ``sinr``.
        capture_db: by how much a signal must exceed all others to be received in spite of them; ``None`` for never.
    """

    def __init__(  # noqa: PLR0913 - a medium joins these
        self,
        air: Air,
        reception: Reception,
        presence: Presence,
        streams: Streams,
        *,
        interference: Literal["collide", "sinr"] = "collide",
        capture_db: float | None = None,
    ) -> None:
        Medium.__init__(self, reception.rate_bps(air.radio.bandwidth), presence)
        self._air, self._reception = air, reception
        self._bandwidth_hz = air.radio.bandwidth
        self._sinr, self._capture_db = interference == "sinr", capture_db
        self._field, self._drawn = streams.field("reception"), np.zeros(air.users, np.int64)
        self.modes = reception.modes

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        """Bits / rate of the mode."""
        return bits / self._reception.rate_bps(self._bandwidth_hz, mode)

    def choose(self, ids: Ids, tower: tuple[str, int], time_s: float) -> NDArray[np.int64]:
        """By the SNR of this moment."""
        return self._reception.choose(self.snr_db(ids, tower, time_s), self._bandwidth_hz)

    def snr_db(self, ids: Ids, tower: tuple[str, int], time_s: float) -> NDArray[np.float64]:
        """What *tower* would hear of each user now, ``[n]``."""
        return self._air.snr_db(ids, time_s, tower[0])

    def best_snr_db(self, ids: Ids) -> NDArray[np.float64]:
        """An SNR that each user exceeds practically never, ``[n]``."""
        return self._air.best_snr_db(ids)

    def delay_s(self, ids: Ids, time_s: float) -> NDArray[np.float64] | None:
        """Distance over speed, where that is not the speed of light."""
        return self._air.delay_s(ids, time_s)

    def judge(self, flight: Flight) -> Verdict:
        """Outages first, then those who met, then fading."""
        n = len(flight.ids)
        met = bool(flight.rivals) or n > 1
        if met and not self._sinr and self._capture_db is None:
            causes, snr_db = ["collided"] * n, _unknown(n)
        else:
            causes, snr_db = self._heard(flight, met)
        return _lost(flight, causes), snr_db

    def _heard(self, flight: Flight, met: bool) -> tuple[list[str], NDArray[np.float64]]:
        """What the tower makes of what it hears."""
        snr_db = self._air.snr_db(flight.ids, flight.start_s, flight.tower[0])
        bits = float(np.max(flight.frames.bits))
        alone = self._reception.success(snr_db, self._bandwidth_hz, bits, flight.mode)
        among = alone
        if met:
            signal, rest = 10.0 ** (snr_db / 10.0), self._interference(flight, snr_db)
            if self._sinr:
                sinr_db = 10.0 * np.log10(signal / (1.0 + rest))
                among = self._reception.success(sinr_db, self._bandwidth_hz, bits, flight.mode)
            else:
                ratio = 10.0 ** ((self._capture_db or 0.0) / 10.0)
                among = np.where((signal >= rest * ratio) & (signal > rest), alone, 0.0)
        luck = self._luck(flight.ids, alone, among)
        told = zip(luck < alone, luck < among, strict=True)
        return ["" if won else "collided" if good else "faded" for good, won in told], snr_db

    def _luck(self, ids: Ids, alone: NDArray[np.float64], among: NDArray[np.float64]) -> NDArray[np.float64]:
        """A uniform draw for each reception, keyed by the user and how many it has drawn; none where all is certain."""
        if not any(((chance > 0.0) & (chance < 1.0)).any() for chance in (alone, among)):
            return np.full(len(ids), 0.5)
        luck = self._field.uniform(ids, self._drawn[ids])
        self._drawn[ids] += 1
        return luck

    def _interference(self, flight: Flight, snr_db: NDArray[np.float64]) -> NDArray[np.float64]:
        """The power of all others over that of the noise, for each sender of *flight*, at its worst moment, ``[n]``."""
        own = 10.0 ** (snr_db / 10.0)
        spans = [(rival.start_s, rival.end_s - touch_s(rival), self._power(rival, flight)) for rival in flight.rivals]
        moments = {max(start_s, flight.start_s) for start_s, _, _ in spans}
        worst = max((sum(p for start_s, end_s, p in spans if start_s <= at_s < end_s) for at_s in moments), default=0.0)
        return np.asarray(worst + own.sum() - own)

    def _power(self, rival: Flight, flight: Flight) -> float:
        """What the tower of *flight* hears of *rival*, over the noise."""
        return float((10.0 ** (self._air.snr_db(rival.ids, rival.start_s, flight.tower[0]) / 10.0)).sum())
