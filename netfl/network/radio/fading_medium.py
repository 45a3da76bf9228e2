"""The medium of radios: channels, interference, and the outages of both ends."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from netfl.network.counterfactual import NOBODY, Exemptions
from netfl.network.outage._state import NodeState
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.medium import Ids, Medium, Verdict, mark_interrupted, unknown_snr
from netfl.network.radio.transmission import Transmission, touch_tolerance_s
from netfl.network.reception import FadedFrames, Reception
from netfl.streams import Streams
from netfl.units import db_to_linear

Fades = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The SNR of each transmission in each part of its time, in dB, ``[n, parts]``, and the share of each part."""
_AMPLE_DB = 200.0
"""An SNR that is enough for anything."""
_NO_NOISE = 1e-20
"""Noise that is none, as a part of what it is."""


class FadingMedium(Medium):
    """Channels between users and towers, interference, and the outages of both.

    A transmission is ``lost`` if the user or the tower goes down during it.  One that nobody disturbs is ``faded`` if
    its SNR is not enough: that at its start or, where the reception has a law for that and fading changes it on the
    way, that in each part of it.  What becomes of those who meet others on their channel, at any time, is said by
    *interference*: they have ``collided``, but for one that is stronger than all others together by *capture_db*; or
    the reception is held against the ratio of its signal to noise and interference at the worst moment (the SINR), and
    one that fails by that has ``collided`` if it would have been received alone.  Others count as strong as they are at
    their start.  Where the reception states thresholds for pairs of modes, the interference of each mode is compared
    with its own, apart from the noise.

    Args:
        air: the SNR of every link.
        reception: which of them are enough.
        presence: who is up.
        streams: for the draws of receptions that are uncertain.
        interference: ``collide`` or ``sinr``.
        capture_db: by how much a signal must exceed all others to be received in spite of them; ``None`` for never.
        spare: for whom nobody is ever down, or no signal too weak.
    """

    def __init__(
        self,
        air: LinkBudget,
        reception: Reception,
        presence: NodeState,
        streams: Streams,
        *,
        interference: Literal["collide", "sinr"] = "collide",
        capture_db: float | None = None,
        spare: Exemptions = NOBODY,
    ) -> None:
        Medium.__init__(self, reception.rate_bps(air.radio.bandwidth), presence, spare)
        self._air, self._reception = air, reception
        self._bandwidth_hz = air.radio.bandwidth
        self._follows = [reception.can_follow_fading(mode) for mode in range(reception.modes)]
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

    def hears(
        self, ids: Ids, tower: tuple[str, int], span_s: tuple[float, float], bits: float, mode: int, boost_db: float
    ) -> NDArray[np.bool_]:
        """Outages, then fading; the channel is the same in both directions."""
        up = Medium.hears(self, ids, tower, span_s, bits, mode, boost_db)
        chance = self._alone(ids, tower, span_s, bits, mode, boost_db)
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
        """By the SNR from this moment on."""
        chance = np.empty(len(ids))
        for mode in np.unique(modes).tolist():
            span_s = time_s, time_s + self.airtime_s(bits, mode)
            chance[modes == mode] = self._alone(ids[modes == mode], tower, span_s, bits, mode)
        return self._strong(ids, chance, 1.0)

    def delay_s(self, ids: Ids, time_s: float) -> NDArray[np.float64] | None:
        """Distance over speed, where that is not the speed of light."""
        return self._air.delay_s(ids, time_s)

    def judge(self, flight: Transmission) -> Verdict:
        """Outages first, then those who met, then fading."""
        n = len(flight.ids)
        met = bool(flight.rivals) or n > 1
        if met and not self._sinr and self._capture_db is None:
            causes, snr_db = ["collided"] * n, unknown_snr(n)
        else:
            causes, snr_db = self._heard(flight, met)
        return mark_interrupted(flight, causes), snr_db

    def _heard(self, flight: Transmission, met: bool) -> tuple[list[str], NDArray[np.float64]]:
        """What the tower makes of what it hears."""
        snr_db = self._air.snr_db(flight.ids, flight.start_s, flight.tower[0])
        fades = self._fades(flight.ids, flight.tower, (flight.start_s, flight.end_s), flight.mode)
        alone, among = self._chances(flight, met, snr_db, fades)
        luck = self._luck(flight.ids, alone, among)
        if self._spare.fading and (spared := self._spare.among("fading", flight.ids)).any():
            ample = [each[spared] for each in self._chances(flight, met, snr_db, fades, noisy=False)]
            alone, among = np.array(alone), np.array(among)
            alone[spared], among[spared] = ample
            luck[spared] = self._luck(flight.ids[spared], *ample)
        told = zip(luck < alone, luck < among, strict=True)
        return ["" if won else "collided" if good else "faded" for good, won in told], snr_db

    def _chances(
        self, flight: Transmission, met: bool, snr_db: NDArray[np.float64], fades: Fades | None, *, noisy: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """How likely each is received if it is alone, and among those whom it meets; without noise, if not *noisy*."""
        bits = float(np.max(flight.frames.bits))
        alone = self._success(snr_db, fades, bits, flight.mode) if noisy else np.ones(len(snr_db))
        if not met:
            return alone, alone
        if self._sinr and self._reception.min_sir_db is not None:
            return alone, np.where(
                self._stands_out(flight, snr_db, db_to_linear(self._reception.min_sir_db)), alone, 0.0
            )
        signal, rest = db_to_linear(snr_db), self._interference(flight, snr_db)
        if self._sinr:
            other = rest + (1.0 if noisy else _NO_NOISE)
            disturbed = None if fades is None else (_over_db(fades[0], other[:, None]), fades[1])
            return alone, self._success(_over_db(snr_db, other), disturbed, bits, flight.mode)
        least = float(db_to_linear(self._capture_db or 0.0))
        return alone, np.where((signal >= rest * least) & (signal > rest), alone, 0.0)

    def _alone(
        self,
        ids: Ids,
        tower: tuple[str, int],
        span_s: tuple[float, float],
        bits: float,
        mode: int,
        boost_db: float = 0.0,
    ) -> NDArray[np.float64]:
        """The probability that each transmission is received that nobody disturbs, ``[n]``."""
        snr_db, fades = self.snr_db(ids, tower, span_s[0]), self._fades(ids, tower, span_s, mode)
        boosted = None if fades is None else (fades[0] + boost_db, fades[1])
        return self._success(snr_db + boost_db, boosted, bits, mode)

    def _fades(self, ids: Ids, tower: tuple[str, int], span_s: tuple[float, float], mode: int) -> Fades | None:
        """The SNR in the parts of a time in which fading changes it; ``None`` where the one at its start holds."""
        if not self._follows[mode] or (parts := self._air.parts_of(*span_s)) is None:
            return None
        at_s, shares = parts
        snr_db = self._air.snr_db(np.repeat(ids, len(at_s)), np.tile(at_s, len(ids)), tower[0])
        return snr_db.reshape(len(ids), -1), shares

    def _success(self, snr_db: NDArray[np.float64], fades: Fades | None, bits: float, mode: int) -> NDArray[np.float64]:
        """The probability of reception, by the SNR at the start or, where there are any, by *fades*, ``[n]``."""
        if fades is None:
            return self._reception.success(snr_db, self._bandwidth_hz, bits, mode)
        return self._reception.success_over(FadedFrames(*fades, self._bandwidth_hz, bits, mode))

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

    def _stands_out(
        self, flight: Transmission, snr_db: NDArray[np.float64], least: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Whether each signal of *flight* exceeds the interference of every mode by *least*, ``[n]``."""
        enough = np.ones(len(snr_db), np.bool_)
        for mode in {flight.mode, *(rival.mode for rival in flight.rivals)}:
            enough &= db_to_linear(snr_db) >= least[flight.mode, mode] * self._interference(flight, snr_db, mode)
        return enough

    def _interference(
        self, flight: Transmission, snr_db: NDArray[np.float64], mode: int | None = None
    ) -> NDArray[np.float64]:
        """The power of all others over that of the noise, for each sender of *flight*, at its worst moment, ``[n]``.

        With *mode* only that of others in this mode.
        """
        own = db_to_linear(snr_db) if mode in {None, flight.mode} else np.zeros(len(snr_db))
        rivals = [rival for rival in flight.rivals if mode in {None, rival.mode}]
        spans = [
            (rival.start_s, rival.end_s - touch_tolerance_s(rival), self._power(rival, flight)) for rival in rivals
        ]
        moments = {max(start_s, flight.start_s) for start_s, _, _ in spans}
        worst = max((sum(p for start_s, end_s, p in spans if start_s <= at_s < end_s) for at_s in moments), default=0.0)
        return np.asarray(worst + own.sum() - own)

    def _power(self, rival: Transmission, flight: Transmission) -> float:
        """What the tower of *flight* hears of *rival*, over the noise."""
        return float(db_to_linear(self._air.snr_db(rival.ids, rival.start_s, flight.tower[0])).sum())


def _over_db(snr_db: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """The SINR of a signal where interference and noise are *other* times the noise."""
    return np.asarray(10.0 * np.log10(db_to_linear(snr_db) / other))
