"""The medium of radios: channels, interference, and the outages of both ends."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.network.decibels import ratio
from netfl.network.flight import Flight, touch_s
from netfl.network.medium import Ids, Medium, Verdict, lost, unknown
from netfl.network.presence import Presence
from netfl.network.radio import Air
from netfl.network.reception import Reception
from netfl.network.spare import NOBODY, Spare
from netfl.streams import Streams

_AMPLE_DB = 200.0
"""An SNR that is enough for anything."""
_NO_NOISE = 1e-20
"""Noise that is none, as a part of what it is."""


class FadingMedium(Medium):
    """Channels between users and towers, interference, and the outages of both.

    A transmission is ``lost`` if the user or the tower goes down during it.  One that nobody disturbs is ``faded`` if
    the SNR at its start is not enough.  What becomes of those who meet others on their channel, at any time, is said by
    *interference*: they have ``collided``, but for one that is stronger than all others together by *capture_db*; or
    the reception is held against the ratio of its signal to noise and interference at the worst moment (the SINR),
    and one that fails by that has ``collided`` if it would have been received alone.  Where the reception states
    thresholds for pairs of modes, the interference of each mode is held against its own, apart from the noise.

    Args:
        air: the SNR of every link.
        reception: which of them are enough.
        presence: who is up.
        streams: for the draws of receptions that are uncertain.
        interference: ``collide`` or ``sinr``.
        capture_db: by how much a signal must exceed all others to be received in spite of them; ``None`` for never.
        spare: for whom nobody is ever down, or no signal too weak.
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
        spare: Spare = NOBODY,
    ) -> None:
        Medium.__init__(self, reception.rate_bps(air.radio.bandwidth), presence, spare)
        self._air, self._reception = air, reception
        self._bandwidth_hz = air.radio.bandwidth
        self._sinr, self._capture_db = interference == "sinr", capture_db
        self._field, self._drawn = streams.field("reception"), np.zeros(air.users, np.int64)
        self._down, self._sent = streams.field("down"), np.zeros(air.users, np.int64)
        self.modes = reception.modes

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        """Bits / rate of the mode."""
        return bits / self._reception.rate_bps(self._bandwidth_hz, mode)

    def choose(self, ids: Ids, tower: tuple[str, int], time_s: float, boost_db: float = 0.0) -> NDArray[np.int64]:
        """By the SNR of this moment."""
        snr_db = self.snr_db(ids, tower, time_s) + boost_db
        return self._reception.choose(self._strong(ids, snr_db, _AMPLE_DB), self._bandwidth_hz)

    def hears(  # noqa: PLR0913, PLR0917 - as declared
        self, ids: Ids, tower: tuple[str, int], span_s: tuple[float, float], bits: float, mode: int, boost_db: float
    ) -> NDArray[np.bool_]:
        """Outages, then fading at the start; the channel is the same in both directions."""
        up = Medium.hears(self, ids, tower, span_s, bits, mode, boost_db)
        snr_db = self.snr_db(ids, tower, span_s[0]) + boost_db
        chance = self._reception.success(snr_db, self._bandwidth_hz, bits, mode)
        luck = self._down.uniform(ids, self._sent[ids])
        self._sent[ids] += 1
        return up & (luck < self._strong(ids, chance, 1.0))

    def snr_db(self, ids: Ids, tower: tuple[str, int], time_s: float) -> NDArray[np.float64]:
        """What *tower* would hear of each user now, ``[n]``."""
        return self._air.snr_db(ids, time_s, tower[0])

    def best_snr_db(self, ids: Ids) -> NDArray[np.float64]:
        """An SNR that each user exceeds practically never, ``[n]``."""
        return self._air.best_snr_db(ids)

    def chance(
        self, ids: Ids, tower: tuple[str, int], time_s: float, bits: float, modes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """By the SNR of this moment."""
        snr_db, chance = self.snr_db(ids, tower, time_s), np.empty(len(ids))
        for mode in np.unique(modes).tolist():
            chance[modes == mode] = self._reception.success(snr_db[modes == mode], self._bandwidth_hz, bits, mode)
        return self._strong(ids, chance, 1.0)

    def delay_s(self, ids: Ids, time_s: float) -> NDArray[np.float64] | None:
        """Distance over speed, where that is not the speed of light."""
        return self._air.delay_s(ids, time_s)

    def judge(self, flight: Flight) -> Verdict:
        """Outages first, then those who met, then fading."""
        n = len(flight.ids)
        met = bool(flight.rivals) or n > 1
        if met and not self._sinr and self._capture_db is None:
            causes, snr_db = ["collided"] * n, unknown(n)
        else:
            causes, snr_db = self._heard(flight, met)
        return lost(flight, causes), snr_db

    def _heard(self, flight: Flight, met: bool) -> tuple[list[str], NDArray[np.float64]]:
        """What the tower makes of what it hears."""
        snr_db = self._air.snr_db(flight.ids, flight.start_s, flight.tower[0])
        alone, among = self._chances(flight, met, snr_db)
        luck = self._luck(flight.ids, alone, among)
        if self._spare.fading and (spared := self._spare.among("fading", flight.ids)).any():
            ample = [each[spared] for each in self._chances(flight, met, snr_db, noisy=False)]
            alone, among = np.array(alone), np.array(among)
            alone[spared], among[spared] = ample
            luck[spared] = self._luck(flight.ids[spared], *ample)
        told = zip(luck < alone, luck < among, strict=True)
        return ["" if won else "collided" if good else "faded" for good, won in told], snr_db

    def _chances(
        self, flight: Flight, met: bool, snr_db: NDArray[np.float64], *, noisy: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How likely each is received if it is alone, and among those whom it meets; without noise, if not *noisy*."""
        bits = float(np.max(flight.frames.bits))
        alone = (
            self._reception.success(snr_db, self._bandwidth_hz, bits, flight.mode) if noisy else np.ones(len(snr_db))
        )
        if not met:
            return alone, alone
        if self._sinr and self._reception.least_sir_db is not None:
            return alone, np.where(self._stands_out(flight, snr_db, ratio(self._reception.least_sir_db)), alone, 0.0)
        signal, rest = ratio(snr_db), self._interference(flight, snr_db)
        if self._sinr:
            sinr_db = 10.0 * np.log10(signal / (rest + (1.0 if noisy else _NO_NOISE)))
            return alone, self._reception.success(sinr_db, self._bandwidth_hz, bits, flight.mode)
        least = float(ratio(self._capture_db or 0.0))
        return alone, np.where((signal >= rest * least) & (signal > rest), alone, 0.0)

    def _strong(self, ids: Ids, figures: NDArray[np.float64], ample: float) -> NDArray[np.float64]:
        """*figures* of users, but *ample* of those whose signal is always enough."""
        return np.where(self._spare.among("fading", ids), ample, figures) if self._spare.fading else figures

    def _luck(self, ids: Ids, alone: NDArray[np.float64], among: NDArray[np.float64]) -> NDArray[np.float64]:
        """A uniform draw for each reception, keyed by the user and how many it has drawn; none where all is certain."""
        if not any(((chance > 0.0) & (chance < 1.0)).any() for chance in (alone, among)):
            return np.full(len(ids), 0.5)
        luck = self._field.uniform(ids, self._drawn[ids])
        self._drawn[ids] += 1
        return luck

    def _stands_out(self, flight: Flight, snr_db: NDArray[np.float64], least: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each signal of *flight* exceeds the interference of every mode by *least*, ``[n]``."""
        enough = np.ones(len(snr_db), np.bool_)
        for mode in {flight.mode, *(rival.mode for rival in flight.rivals)}:
            enough &= ratio(snr_db) >= least[flight.mode, mode] * self._interference(flight, snr_db, mode)
        return enough

    def _interference(
        self, flight: Flight, snr_db: NDArray[np.float64], mode: int | None = None
    ) -> NDArray[np.float64]:
        """The power of all others over that of the noise, for each sender of *flight*, at its worst moment, ``[n]``.

        With *mode* only that of others in this mode.
        """
        own = ratio(snr_db) if mode in {None, flight.mode} else np.zeros(len(snr_db))
        rivals = [rival for rival in flight.rivals if mode in {None, rival.mode}]
        spans = [(rival.start_s, rival.end_s - touch_s(rival), self._power(rival, flight)) for rival in rivals]
        moments = {max(start_s, flight.start_s) for start_s, _, _ in spans}
        worst = max((sum(p for start_s, end_s, p in spans if start_s <= at_s < end_s) for at_s in moments), default=0.0)
        return np.asarray(worst + own.sum() - own)

    def _power(self, rival: Flight, flight: Flight) -> float:
        """What the tower of *flight* hears of *rival*, over the noise."""
        return float(ratio(self._air.snr_db(rival.ids, rival.start_s, flight.tower[0])).sum())
