"""The medium of radios: fading channels, interference, and the outages of both ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from netfl.network.counterfactual import NO_EXEMPTIONS, Exemptions
from netfl.network.layout import NodeId
from netfl.network.outage._state import NodeState
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.medium import Medium, ReceptionResult, mark_interrupted, unknown_snr
from netfl.network.radio.transmission import Signal, Transmission, touch_tolerance_s
from netfl.network.reception import FadedFrames, Reception
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints
from netfl.units import db_to_linear

_AMPLE_DB = 200.0
"""An SNR that suffices for any reception."""
_NO_NOISE = 1e-20
"""Noise power, relative to the actual one, that counts as none."""
_MAX_KEPT = 4096
"""Links of which the last SNR is kept."""
_CERTAIN = (0.0, 1.0)
"""Probabilities for which nothing is drawn."""


class FadingMedium(Medium):
    """Channels between users and towers, interference, and the outages of both.

    A transmission is ``lost`` if the user or the tower goes down during it.  Without interference it is ``faded`` if
    its SNR does not suffice: that at its start or, where the reception has a formula for it and fading changes the SNR
    on the way, that in each part of it.

    Transmissions that overlap on a channel interfere.  With *interference* ``collide`` they have ``collided``, except
    one that is stronger than all others together by *capture_db*.  With ``sinr`` the reception depends on the ratio of
    the signal to noise and interference at the worst moment; one that fails by that has ``collided`` if it would have
    been received alone.  The power of others is that at their start.  Where the reception states thresholds for pairs
    of modes, the interference of each mode is compared with its own threshold, apart from the noise.

    Args:
        capture_db: Margin by which a signal must exceed all others to be received; ``None`` for never.
    """

    def __init__(
        self,
        air: LinkBudget,
        reception: Reception,
        node_state: NodeState,
        streams: Streams,
        *,
        interference: Literal["collide", "sinr"] = "collide",
        capture_db: float | None = None,
        exemptions: Exemptions = NO_EXEMPTIONS,
    ) -> None:
        Medium.__init__(self, reception.rate_bps(air.radio.bandwidth), node_state, exemptions)
        self._link_budget, self._reception = air, reception
        self._snrs_db: dict[tuple[int, int], tuple[float, Floats]] = {}
        self._bandwidth_hz = air.radio.bandwidth
        self._follows_fading = [reception.can_follow_fading(mode) for mode in range(reception.modes)]
        self._is_plain = not exemptions.fading
        self._sinr, self._capture_db = interference == "sinr", capture_db
        self._uplink_draws, self._drawn = streams.field("reception"), np.zeros(air.users, np.int64)
        self._downlink_draws, self._downlinks = streams.field("down"), np.zeros(air.users, np.int64)
        self.modes = reception.modes
        self._robust_modes: dict[float, int] = {}  # by the size of a frame

    def set_power_offset(self, offset_db: Floats | None) -> None:
        Medium.set_power_offset(self, offset_db)
        self._snrs_db.clear()
        self._link_budget.power_offset_db = offset_db

    def airtime_s(self, bits: float, mode: int = 0) -> float:
        return bits / self._reception.rate_bps(self._bandwidth_hz, mode)

    def choose(self, ids: Ints, tower: NodeId, time_s: float, boost_db: float | None = None) -> Ints:
        snr_db = self.snr_db(ids, tower, time_s)
        if boost_db is not None:
            snr_db = snr_db + boost_db - self._offset_db(ids)
        return self._reception.choose(self._replace_exempt(ids, snr_db, _AMPLE_DB), self._bandwidth_hz)

    def most_robust_mode(self, bits: float) -> int:
        if self.modes == 1:
            return 0
        if bits not in self._robust_modes:
            self._robust_modes[bits] = self._reception.most_robust_mode(self._bandwidth_hz, bits)
        return self._robust_modes[bits]

    def downlink_received(self, ids: Ints, signal: Signal, *, is_sent: bool = True) -> Bools:
        """Return whether each user receives *signal*: outages, then fading."""
        up = Medium.downlink_received(self, ids, signal, is_sent=is_sent)
        signal = replace(signal, boost_db=signal.boost_db - self._offset_db(ids))
        probability = self._undisturbed_success(ids, signal)
        draws = self._downlink_draws.uniform(ids, self._downlinks[ids])
        self._downlinks[ids] += 1
        return up & (draws < self._replace_exempt(ids, probability, 1.0))

    def can_receive(self, ids: Ints, bits: float, boost_db: float) -> Bools:
        best_db = self.best_snr_db(ids) + boost_db
        return self._replace_exempt(ids, best_db, np.inf) >= self._reception.threshold_db(self._bandwidth_hz, bits)

    def snr_db(self, ids: Ints, tower: NodeId, time_s: float) -> Floats:
        """Return the present SNR of each user at *tower*, ``[n]``.

        With several modes the last one of a single user is kept: it is asked for when the user chooses its mode, when
        its frame has ended, and for each frame with which that interferes.
        """
        if self.modes == 1 or len(ids) != 1:
            return self._link_budget.snr_db(ids, time_s, tower.name)
        link = int(ids[0]), tower.number
        known = self._snrs_db.get(link)
        if known is not None and known[0] == time_s:
            return known[1].copy()
        if len(self._snrs_db) >= _MAX_KEPT:
            self._snrs_db.clear()
        snr_db = self._link_budget.snr_db(ids, time_s, tower.name)
        self._snrs_db[link] = time_s, snr_db
        return snr_db.copy()

    def best_snr_db(self, ids: Ints) -> Floats:
        return self._link_budget.best_snr_db(ids)

    def success_probability(self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints) -> Floats:
        probability = np.empty(len(ids))
        for mode in np.unique(modes).tolist():
            signal = Signal(tower, time_s, time_s + self.airtime_s(bits, mode), bits, mode)
            probability[modes == mode] = self._undisturbed_success(ids[modes == mode], signal)
        return self._replace_exempt(ids, probability, 1.0)

    def delay_s(self, ids: Ints, time_s: float) -> Floats | None:
        return self._link_budget.delay_s(ids, time_s)

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Return which frames were received: outages, then interference, then fading."""
        n = len(transmission.ids)
        is_disturbed = bool(transmission.interferers) or n > 1
        if is_disturbed and not self._sinr and self._capture_db is None:
            causes, snr_db = ["collided"] * n, unknown_snr(n)
        else:
            causes, snr_db = self._receptions(transmission, is_disturbed)
        return mark_interrupted(transmission, causes), snr_db

    def _receptions(self, transmission: Transmission, is_disturbed: bool) -> tuple[list[str], Floats]:
        """Return causes of failure and SNRs, outages apart."""
        ids = transmission.ids
        snr_db = self.snr_db(ids, transmission.tower, transmission.start_s)
        if self._is_plain and len(ids) == 1 and not is_disturbed and not self._follows_fading[transmission.mode]:
            return [self._lone_reception(transmission, snr_db)], snr_db
        fades = None
        if self._follows_fading[transmission.mode]:
            bits = float(np.max(transmission.frames.bits))
            span = Signal(transmission.tower, transmission.start_s, transmission.end_s, bits, transmission.mode)
            fades = self._fades(ids, span)
        alone, disturbed = self._probabilities(transmission, is_disturbed, snr_db, fades)
        draws = self._draw(ids, alone, disturbed)
        if self._exemptions.fading and (exempt := self._exemptions.among("fading", ids)).any():
            ample = self._probabilities(transmission, is_disturbed, snr_db, fades, has_noise=False)
            ample_alone, ample_disturbed = (probability[exempt] for probability in ample)
            alone, disturbed = np.array(alone), np.array(disturbed)
            alone[exempt], disturbed[exempt] = ample_alone, ample_disturbed
            draws[exempt] = self._draw(ids[exempt], ample_alone, ample_disturbed)
        results = zip(draws < alone, draws < disturbed, strict=True)
        return ["" if received else "collided" if good else "faded" for good, received in results], snr_db

    def _lone_reception(self, transmission: Transmission, snr_db: Floats) -> str:
        """Return the cause of failure of a single frame that nothing disturbs."""
        bits = float(np.max(transmission.frames.bits))
        chance = float(self._reception.success(snr_db, self._bandwidth_hz, bits, transmission.mode)[0])
        if chance in _CERTAIN:
            return "" if chance else "faded"
        user = int(transmission.ids[0])
        draw = self._uplink_draws.uniform_of(user, int(self._drawn[user]))
        self._drawn[user] += 1
        return "" if draw < chance else "faded"

    def _probabilities(
        self,
        transmission: Transmission,
        is_disturbed: bool,
        snr_db: Floats,
        fades: FadedFrames | None,
        *,
        has_noise: bool = True,
    ) -> tuple[Floats, Floats]:
        """Return the probabilities of reception without and with interference, ``[n]`` each."""
        bits, mode = float(np.max(transmission.frames.bits)), transmission.mode
        alone = self._success(snr_db, fades, bits, mode) if has_noise else np.ones(len(snr_db))
        if not is_disturbed:
            return alone, alone
        if self._sinr and self._reception.min_sir_db is not None:
            thresholds = db_to_linear(self._reception.min_sir_db)
            return alone, np.where(self._exceeds_interference(transmission, snr_db, thresholds), alone, 0.0)
        signal, rest = db_to_linear(snr_db), self._interference(transmission, snr_db)
        if self._sinr:
            other = rest + (1.0 if has_noise else _NO_NOISE)
            if fades is not None:
                fades = replace(fades, sinr_db=_over_db(fades.sinr_db, other[:, None]))
            return alone, self._success(_over_db(snr_db, other), fades, bits, mode)
        margin = float(db_to_linear(self._capture_db or 0.0))
        return alone, np.where((signal >= rest * margin) & (signal > rest), alone, 0.0)

    def _undisturbed_success(self, ids: Ints, signal: Signal) -> Floats:
        """Return the probability that each user receives *signal*, or is received, without interference, ``[n]``."""
        snr_db = self.snr_db(ids, signal.tower, signal.start_s) + signal.boost_db
        return self._success(snr_db, self._fades(ids, signal), signal.bits, signal.mode)

    def _fades(self, ids: Ints, signal: Signal) -> FadedFrames | None:
        """Return the SNR in parts of a time; ``None`` where the one at its start holds."""
        if not self._follows_fading[signal.mode]:
            return None
        if (parts := self._link_budget.parts_of(signal.start_s, signal.end_s)) is None:
            return None
        at_s, shares = parts
        snr_db = self._link_budget.snr_db(np.repeat(ids, len(at_s)), np.tile(at_s, len(ids)), signal.tower.name)
        snr_db = snr_db.reshape(len(ids), -1) + np.reshape(signal.boost_db, (-1, 1))
        return FadedFrames(snr_db, shares, self._bandwidth_hz, signal.bits, signal.mode)

    def _offset_db(self, ids: Ints) -> float | Floats:
        """Return the power of each user above that of the radio, ``[n]``; 0.0 if no user has another power."""
        offset_db = self._link_budget.power_offset_db
        return 0.0 if offset_db is None else offset_db[ids]

    def _success(self, snr_db: Floats, fades: FadedFrames | None, bits: float, mode: int) -> Floats:
        if fades is None:
            return self._reception.success(snr_db, self._bandwidth_hz, bits, mode)
        return self._reception.success_over(fades)

    def _replace_exempt(self, ids: Ints, values: Floats, ample: float) -> Floats:
        """Return *values* with *ample* for users whose signal always suffices."""
        exemptions = self._exemptions
        return np.where(exemptions.among("fading", ids), ample, values) if exemptions.fading else values

    def _draw(self, ids: Ints, alone: Floats, disturbed: Floats) -> Floats:
        """Return a uniform draw for each reception, by the user and its number of draws; none where all is certain."""
        if not any(((chance > 0.0) & (chance < 1.0)).any() for chance in (alone, disturbed)):
            return np.full(len(ids), 0.5)
        draws = self._uplink_draws.uniform(ids, self._drawn[ids])
        self._drawn[ids] += 1
        return draws

    def _exceeds_interference(self, transmission: Transmission, snr_db: Floats, thresholds: Floats) -> Bools:
        enough = np.ones(len(snr_db), np.bool_)
        for mode in {transmission.mode, *(other.mode for other in transmission.interferers)}:
            limit = thresholds[transmission.mode, mode] * self._interference(transmission, snr_db, mode)
            enough &= db_to_linear(snr_db) >= limit
        return enough

    def _interference(self, transmission: Transmission, snr_db: Floats, mode: int | None = None) -> Floats:
        """Return the power of others, or those in *mode*, over the noise, at each sender's worst moment, ``[n]``."""
        tower = transmission.tower
        signals = db_to_linear(snr_db) if mode in {None, transmission.mode} else np.zeros(len(snr_db))
        spans = [
            (
                other.start_s,
                other.end_s - touch_tolerance_s(other),
                float(db_to_linear(self.snr_db(other.ids, tower, other.start_s)).sum()),
            )
            for other in transmission.interferers
            if mode in {None, other.mode}
        ]
        moments = {max(start_s, transmission.start_s) for start_s, _, _ in spans}
        worst = max((sum(p for start_s, end_s, p in spans if start_s <= at_s < end_s) for at_s in moments), default=0.0)
        return np.asarray(worst + signals.sum() - signals)


def _over_db(snr_db: Floats, other: Floats) -> Floats:
    """Return the SINR of a signal where interference and noise are *other* times the noise."""
    return np.asarray(10.0 * np.log10(db_to_linear(snr_db) / other))
