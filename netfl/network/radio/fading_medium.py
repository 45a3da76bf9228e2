"""The medium of radios: fading channels, interference, and the outages of both ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from netfl.core.plugins import is_plugin
from netfl.network.attempt_log import JAMMED
from netfl.network.interference import DisturbedFrames, Interference, OverlappingFrames
from netfl.network.interference._conformance import checked_success
from netfl.network.interference.collide import Collide
from netfl.network.layout import NodeId
from netfl.network.power_control import PowerControl, SenderLinks
from netfl.network.power_control._conformance import checked_power_db
from netfl.network.power_control.full import Full
from netfl.network.radio.connection import Connection
from netfl.network.radio.jamming import Burst
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.medium import FramePower, Medium, ReceptionResult, mark_interrupted, unknown_snr
from netfl.network.radio.transmission import Signal, Transmission, share_gain_db, touch_tolerance_s
from netfl.network.radio.user_bands import UserBands
from netfl.network.reception import FadedFrames, Reception
from netfl.streams import RandomField, Streams
from netfl.types import Bools, Floats, Ints
from netfl.units import db_to_linear

_MAX_KEPT = 4096
"""Links of which the last SNR is kept."""
_CERTAIN = (0.0, 1.0)
"""Probabilities for which nothing is drawn."""
_COLLIDE = Collide()
_FULL = Full()
_MIN_WIDTH = 1e-12
"""Width, as a fraction of the band, below which a frame has no place in it, and so disturbs nobody."""


@dataclass(slots=True)
class ArrivingFrames:
    """Frames of one transmission, as they arrive at the tower.

    Args:
        bits: size of the largest frame.
        snr_db: SNR of each frame at the start, in its share of the band, ``[n]``.
        fades: SNR in parts of the time; ``None`` where the one at the start holds, and the mode gives the rate.
        is_disturbed: whether others are on the air at the same time.
        bursts: bursts of a jammer that they meet.
    """

    transmission: Transmission
    bits: float
    snr_db: Floats
    fades: FadedFrames | None
    is_disturbed: bool
    bursts: Sequence[Burst] = ()


class ReceptionDraws(NamedTuple):
    """Outcomes of one draw for each of several frames, ``[n]`` each.

    Args:
        is_good: whether it is good enough without interference.
        is_unjammed: whether it is received without a jammer.
        is_received: whether it is received.
    """

    is_good: Bools
    is_unjammed: Bools
    is_received: Bools


class _Chances(NamedTuple):
    """Probabilities of reception with interference, ``[n]`` each: without the bursts of a jammer, and with them."""

    unjammed: Floats
    jammed: Floats


class FadingMedium(Medium):
    """Channels between users and towers, interference, and the outages of both.

    A transmission is ``lost`` if the user or the tower goes down during it.  Without interference it is ``faded`` if
    its SNR does not suffice: that at its start or, where the reception has a formula for it and fading changes the SNR
    on the way, that in each part of it.

    Transmissions that overlap on a channel interfere, and *interference* decides which of them are received.  One that
    fails by that has ``collided`` if it would have been received alone.  The power of others is that at their start.

    Args:
        codes_per_channel: `netfl.network.mac.Mac.codes_per_channel` where gains or noise differ between frequency
            channels; ``None`` where they do not.
    """

    def __init__(
        self,
        air: LinkBudget,
        reception: Reception,
        connection: Connection,
        streams: Streams,
        *,
        interference: Interference = _COLLIDE,
        power_control: PowerControl = _FULL,
        common_loss: float = 0.0,
        codes_per_channel: int | None = None,
    ) -> None:
        self.follows_snr = reception.follows_snr
        self.snr_gap_db = reception.snr_gap_db
        bands = UserBands(reception, air.bandwidth_hz)
        rate_bps = math.nan
        if bands.common_hz is not None and not reception.follows_snr:
            rate_bps = reception.rate_bps(bands.common_hz)
        Medium.__init__(self, rate_bps, connection)
        self.modes = reception.modes
        self.mode_names = [reception.mode_name(mode) for mode in range(reception.modes)]
        self._link_budget = air
        self._reception = reception
        self._bands = bands
        self._bandwidth_hz = math.nan  # that of all users
        if bands.common_hz is not None:
            self._bandwidth_hz = bands.common_hz
        self.symbols_hz = self._bandwidth_hz
        self._follows_fading = [reception.can_follow_fading(mode) for mode in range(reception.modes)]
        self._interference = interference
        self._is_checked = is_plugin(interference)
        self.sums = interference.sums
        self._power_control = power_control
        self.can_withhold = power_control.can_withhold
        self._decodes_others = interference.decodes_others
        self._last_snr_db: dict[tuple[int, int], tuple[float, Floats]] = {}  # by user and tower, with its time
        self._robust_modes: dict[float, int] = {}  # by the size of a frame
        self._outside: Floats | None = None
        self._codes_per_channel = codes_per_channel
        self._jammer_over_noise: dict[str, Floats] = {}  # in the band of each user, [users], by the tower

        self._streams = streams
        self._common_loss = common_loss
        self._common_draws = _CountedDraws(streams.field("common loss"), air.users)
        self._uplink_draws = _CountedDraws(streams.field("reception"), air.users)
        self._draws_at: dict[int, _CountedDraws] = {}  # of a tower that hears users of other cells, by its number
        self._downlink_draws = _CountedDraws(streams.field("down"), air.users)

    def set_power_offset(self, offset_db: Floats | None) -> None:
        Medium.set_power_offset(self, offset_db)
        self._last_snr_db.clear()
        self._link_budget.power_offset_db = offset_db

    def power_offset_db(self, ids: Ints) -> Floats | None:
        offset_db = self._link_budget.power_offset_db
        if offset_db is None:
            return None
        return offset_db[ids]

    def frame_power(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        share: float | Floats | None = None,
        wanted_db: Floats | None = None,
    ) -> FramePower | None:
        if wanted_db is not None:
            return FramePower.up_to(self._offset_db(ids), wanted_db)
        if self._power_control.is_full:
            return None
        present_db = self._offset_db(ids)
        channel_snr_db = self.snr_db(ids, tower, time_s) - present_db
        snr_db = channel_snr_db
        if share is not None:
            snr_db = snr_db + share_gain_db(share, self.outside_of(ids))

        def mean_snr_db() -> Floats:
            return self._link_budget.slow_snr_db(ids, time_s, tower.name) - present_db

        links = SenderLinks(ids, snr_db, channel_snr_db, mean_snr_db)
        if is_plugin(self._power_control):
            return FramePower.up_to(present_db, checked_power_db(self._power_control, links))
        return FramePower.up_to(present_db, self._power_control.power_db(links))

    def next_change_s(self, time_s: float) -> float:
        return self._link_budget.next_change_s(time_s)

    def outside_over_noise(self, ids: Ints, tower: NodeId, power_dbm: Floats) -> Floats:
        noise_dbm = self._link_budget.noise_dbm(ids, tower.name)
        return np.asarray(db_to_linear(power_dbm - noise_dbm[:, None]))

    def set_outside(self, outside: Floats | None) -> None:
        self._outside = outside

    def outside_of(self, ids: Ints) -> Floats | None:
        if self._outside is None:
            return None
        return self._outside[ids]

    def mode_rates_bps(self, ids: Ints, modes: int | Ints) -> float | Floats:
        return self._bands.mode_rates_bps(ids, modes)

    def longest_s(self, bits: float, ids: Ints | None = None) -> float:
        if self.follows_snr:
            return math.inf
        return bits / self._bands.slowest_bps(ids)

    def choose(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None = None,
        share: float | Floats | None = None,
        power_db: Floats | None = None,
        channel: ArrayLike | None = None,
        *,
        is_group: bool = False,
    ) -> Ints:
        snr_db = self._expected_snr_db(ids, tower, time_s, boost_db, share, power_db)
        if channel is not None and self._codes_per_channel is not None:
            snr_db = snr_db + self._channel_offset_db(ids, tower, channel)
        if channel is not None and is_group:
            snr_db = self._scheduled_snr_db(ids, snr_db, channel)
        return self._bands.choose(ids, snr_db)

    def rates_bps(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None = None,
        share: float | Floats | None = None,
        power_db: Floats | None = None,
        channel: ArrayLike | None = None,
        *,
        is_group: bool = False,
    ) -> Floats:
        snr_db = self._expected_snr_db(ids, tower, time_s, boost_db, share, power_db)
        if channel is not None and self._codes_per_channel is not None:
            snr_db = snr_db + self._channel_offset_db(ids, tower, channel)
        if channel is not None and is_group:
            snr_db = self._scheduled_snr_db(ids, snr_db, channel)
        rates_bps = self._bands.expected_rates_bps(ids, snr_db)
        if share is None:
            return rates_bps
        return np.asarray(share * rates_bps)

    def _expected_snr_db(
        self,
        ids: Ints,
        tower: NodeId,
        time_s: float,
        boost_db: float | Floats | None,
        share: float | Floats | None,
        power_db: Floats | None,
    ) -> Floats:
        """Return the SNR of each link, as the sender knows it, ``[n]``; the arguments are those of `choose`."""
        snr_db = self.snr_db(ids, tower, time_s)
        if power_db is not None:
            snr_db = snr_db + power_db - self._offset_db(ids)
        if boost_db is not None:  # the tower sends, with its power in place of the users'
            snr_db = snr_db + boost_db - self._offset_db(ids)
        if share is not None:
            outside = None
            if boost_db is None:
                outside = self.outside_of(ids)
            snr_db = snr_db + share_gain_db(share, outside)
        return snr_db

    def _scheduled_snr_db(self, ids: Ints, snr_db: Floats, channel: ArrayLike) -> Floats:
        """Return the SNR that each sender expects among those that the tower lets send on its channel, ``[n]``."""
        expected_db = np.array(snr_db, float)
        channel_of = np.broadcast_to(channel, len(ids))
        for each in np.unique(channel_of).tolist():
            places = np.flatnonzero(channel_of == each)
            if len(places) > 1:
                signals = self._link_budget.scheduled_signals(ids[places], db_to_linear(snr_db[places]))
                expected_db[places] = 10.0 * np.log10(self._interference.scheduled_snr(signals))
        return expected_db

    def most_robust_mode(self, bits: float) -> int:
        if self.modes == 1:
            return 0
        if bits not in self._robust_modes:
            self._robust_modes[bits] = self._reception.most_robust_mode(self._bandwidth_hz, bits)
        return self._robust_modes[bits]

    def downlink_received(self, ids: Ints, signal: Signal, *, is_sent: bool = True) -> Bools:
        """Return whether each user receives *signal*: outages, then fading."""
        is_up = Medium.downlink_received(self, ids, signal, is_sent=is_sent)
        tower_signal = replace(signal, boost_db=signal.boost_db - self._offset_db(ids))
        probability = self._undisturbed_success(ids, tower_signal)
        return is_up & (self._downlink_draws.next_of(ids) < probability)

    def can_receive(self, ids: Ints, tower: NodeId, bits: float, boost_db: float | Floats) -> Bools:
        best_snr_db = self._link_budget.best_snr_db(ids, tower.name)
        return np.asarray(best_snr_db + boost_db >= self.threshold_db(ids, bits))

    def threshold_db(self, ids: Ints, bits: float) -> float | Floats:
        """Return the SNR at which *bits* are received with a negligible probability, one for all or ``[n]``."""
        return self._bands.threshold_db(ids, bits)

    def snr_db(self, ids: Ints, tower: NodeId, time_s: float) -> Floats:
        """Return the present SNR of each user at *tower*, ``[n]``.

        With several modes the last one of a single user is kept: it is asked for when the user chooses its mode, when
        its frame has ended, and for each frame with which that interferes.
        """
        if self.modes == 1 or len(ids) != 1:
            return self._link_budget.snr_db(ids, time_s, tower.name)
        link = int(ids[0]), tower.number
        last = self._last_snr_db.get(link)
        if last is not None:
            last_time_s, last_snr_db = last
            if last_time_s == time_s:
                return last_snr_db.copy()
        if len(self._last_snr_db) >= _MAX_KEPT:
            self._last_snr_db.clear()
        snr_db = self._link_budget.snr_db(ids, time_s, tower.name)
        self._last_snr_db[link] = time_s, snr_db
        return snr_db.copy()

    def best_snr_db(self, ids: Ints, tower: str = "") -> Floats:
        return self._link_budget.best_snr_db(ids, tower)

    def best_frame_snr_db(self, ids: Ints, tower: str = "") -> Floats:
        """Return `best_snr_db` of a frame on the best frequency channel of each user, ``[n]``."""
        if self._codes_per_channel is None:
            return self._link_budget.best_snr_db(ids, tower)
        return self._link_budget.best_frame_snr_db(ids, tower)

    def success_probability(
        self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints, channel: int | None = None
    ) -> Floats:
        codes = self._codes_per_channel
        if codes is None or channel is not None:
            offset_db = self._channel_offset_db(ids, tower, channel or 0)
            return self._success_probability(ids, tower, time_s, bits, modes, offset_db)
        chances = []
        for number in range(self._link_budget.frequency_channels):
            offset_db = self._channel_offset_db(ids, tower, codes * number)
            chances.append(self._success_probability(ids, tower, time_s, bits, modes, offset_db))
        return np.asarray(np.mean(chances, axis=0))

    def _success_probability(
        self, ids: Ints, tower: NodeId, time_s: float, bits: float, modes: Ints, offset_db: float | Floats
    ) -> Floats:
        """Return `success_probability` of frames with an SNR of *offset_db* above `snr_db`, 0.0 or ``[n]``."""
        offsets_db = np.broadcast_to(offset_db, len(ids))
        probability = np.empty(len(ids))
        if self.follows_snr:
            rates_bps = self.rates_bps(ids, tower, time_s)
            for place, rate_bps in enumerate(rates_bps.tolist()):  # each user has an airtime of its own
                end_s = time_s + bits / rate_bps
                signal = Signal(tower, time_s, end_s, bits, boost_db=offsets_db.item(place), rate_bps=rate_bps)
                probability[place] = self._undisturbed_success(ids[place : place + 1], signal)[0]
            return probability
        for mode in np.unique(modes).tolist():
            for band_hz in self._bands.distinct_hz(ids):
                airtime_s = bits / self._reception.rate_bps(band_hz, mode)
                is_alike = (modes == mode) & (self._bands.bandwidths_hz(ids) == band_hz)
                if is_alike.any():
                    signal = Signal(tower, time_s, time_s + airtime_s, bits, mode, offsets_db[is_alike])
                    probability[is_alike] = self._undisturbed_success(ids[is_alike], signal)
        return probability

    def delay_s(self, ids: Ints, tower: NodeId, time_s: float) -> Floats | None:
        return self._link_budget.delay_s(ids, time_s, tower.name)

    def between_users_dbm(self, sender: int, ids: Ints, time_s: float) -> Floats:
        return self._link_budget.between_users_dbm(sender, ids, time_s)

    @property
    def has_fixed_sensing(self) -> bool:
        return self._link_budget.has_fixed_sensing

    def outcomes(self, transmission: Transmission) -> ReceptionResult:
        """Return which frames were received: outages, then interference, then fading."""
        n = len(transmission.ids)
        is_disturbed = transmission.is_disturbed
        bursts: Sequence[Burst] = ()
        if self.jamming is not None:
            bursts = self.jamming.bursts(transmission.start_s, transmission.end_s)
        if (is_disturbed or bursts) and self._interference.loses_all:
            cause = "collided" if is_disturbed else JAMMED
            return mark_interrupted(transmission, [cause] * n), unknown_snr(n)
        causes, snr_db = self._receptions(transmission, is_disturbed, bursts)
        causes = mark_interrupted(transmission, causes)
        if self._decodes_others:
            decoded_at = transmission.frames.decoded_at or {}
            decoded_at[transmission.receiver.number] = np.array([not cause for cause in causes])
            transmission.frames.decoded_at = decoded_at
        return causes, snr_db

    def lost_for_all(self, ids: Ints) -> Bools | None:
        if not self._common_loss:
            return None
        return self._common_draws.next_of(ids) < self._common_loss

    def gain_db(self, transmission: Transmission, snr_db: Floats) -> Floats:
        share_db = share_gain_db(transmission.share, transmission.outside)
        gain_db = snr_db - share_db - self._link_budget.unit_snr_db(transmission.ids, transmission.receiver.name)
        if transmission.power_offset_db is not None:
            gain_db = gain_db - transmission.power_offset_db
        if self._codes_per_channel is not None:
            number = transmission.channel // self._codes_per_channel
            gain_db = gain_db + self._link_budget.channel_noise_db(number)
        return np.asarray(gain_db)

    def _receptions(
        self, transmission: Transmission, is_disturbed: bool, bursts: Sequence[Burst]
    ) -> tuple[list[str], Floats]:
        """Return causes of failure and SNRs, outages apart."""
        mode = transmission.mode
        gain_db = share_gain_db(transmission.share, transmission.outside)
        gain_db = gain_db + self._frame_offset_db(transmission, transmission.receiver)
        snr_db = self.snr_db(transmission.ids, transmission.receiver, transmission.start_s) + gain_db
        if len(transmission.ids) == 1 and not is_disturbed and not bursts and not self._follows_fading[mode]:
            return [self._lone_reception(transmission, snr_db)], snr_db
        frames = self._arrive(transmission, snr_db, gain_db, is_disturbed)
        frames.bursts = bursts
        results = zip(*self._draw_receptions(frames), strict=True)
        return [_cause_of_failure(*outcome) for outcome in results], snr_db

    def _arrive(
        self, transmission: Transmission, snr_db: Floats, gain_db: float | Floats, is_disturbed: bool
    ) -> ArrivingFrames:
        """Return frames as they arrive at the tower, where *gain_db* is part of their SNR at the start."""
        mode = transmission.mode
        bits = float(np.max(transmission.frames.bits))
        fades = None
        if self._follows_fading[mode]:
            start_s = transmission.start_s
            rate_bps = self._rates_in_band(transmission)
            signal = Signal(transmission.receiver, start_s, transmission.end_s, bits, mode, gain_db, rate_bps)
            fades = self._fades(transmission.ids, signal)
        return ArrivingFrames(transmission, bits, snr_db, fades, is_disturbed)

    def _rates_in_band(self, transmission: Transmission) -> Floats | None:
        """Return the rate of each frame if its sender had the whole band, ``[n]``; ``None`` with modes."""
        if not self.follows_snr:
            return None
        rates_bps = transmission.frames.bits / (transmission.airtime_s * np.ones(len(transmission.ids)))
        if transmission.share is None:
            return rates_bps
        return np.asarray(rates_bps / transmission.share)

    def _lone_reception(self, transmission: Transmission, snr_db: Floats) -> str:
        """Return the cause of failure of a single frame that nothing disturbs."""
        bits = float(np.max(transmission.frames.bits))
        probability = float(self._bands.success(transmission.ids, snr_db, bits, transmission.mode)[0])
        if probability in _CERTAIN:
            return "" if probability else "faded"
        draw = self._draws_of(transmission).next_of_one(int(transmission.ids[0]))
        return "" if draw < probability else "faded"

    def _draw_receptions(self, frames: ArrivingFrames) -> ReceptionDraws:
        """Return the outcome of each frame; one draw decides all parts of it."""
        ids = frames.transmission.ids
        alone = self._success(ids, frames.snr_db, frames.fades, frames.bits, frames.transmission.mode)
        chances = self._disturbed_success(frames, alone)
        draws = self._draw(frames.transmission, ids, alone, *chances)
        return ReceptionDraws(draws < alone, draws < chances.unjammed, draws < chances.jammed)

    def _disturbed_success(self, frames: ArrivingFrames, alone: Floats, noise: float = 1.0) -> _Chances:
        """Return the probabilities of reception with interference, of frames that have *alone* without, ``[n]``.

        Powers are relative to the noise of the receiver, of which *noise* counts.
        """
        if not frames.is_disturbed and not frames.bursts:
            return _Chances(alone, alone)
        disturbed = self._disturb(frames, alone, frames.transmission.end_s, noise)
        unjammed = alone
        if not frames.bursts:
            unjammed = self._interference_success(disturbed)
            return _Chances(unjammed, unjammed)
        if frames.is_disturbed:
            unjammed = self._interference_success(replace(disturbed, bursts=()))
        return _Chances(unjammed, self._interference_success(disturbed))

    def _interference_success(self, disturbed: DisturbedFrames) -> Floats:
        """Return the probability that the interference leaves each of *disturbed*, ``[n]``."""
        if self._is_checked:
            return checked_success(self._interference, disturbed)
        return self._interference.success(disturbed)

    def _burst_powers(self, transmission: Transmission, until_s: float) -> list[tuple[float, float, Floats]]:
        """Return the bursts that frames meet until *until_s*, with their power over the noise of each, ``[n]``.

        In a share s of the band with the interference i from outside, that is j s / (s + i) for a ratio of j in the
        whole band, of which the jammer fills all.
        """
        if self.jamming is None:
            return []
        bursts = self.jamming.bursts(transmission.start_s, min(transmission.end_s, until_s))
        if not bursts:
            return []
        tower = transmission.receiver.name
        if tower not in self._jammer_over_noise:
            power_dbm = self.jamming.at_tower_dbm(tower)
            self._jammer_over_noise[tower] = self._link_budget.over_noise(power_dbm, tower)
        power = self._jammer_over_noise[tower][transmission.ids]
        if self._codes_per_channel is not None:
            number = transmission.channel // self._codes_per_channel
            power = power / db_to_linear(self._link_budget.channel_noise_db(number))
        if transmission.share is not None and transmission.outside is not None:
            power = power * transmission.share / (transmission.share + transmission.outside)
        return [(start_s, end_s, power) for start_s, end_s in bursts]

    def _disturb(self, frames: ArrivingFrames, alone: Floats, until_s: float, noise: float = 1.0) -> DisturbedFrames:
        """Return frames that have *alone* without interference, with what overlaps with them until *until_s*."""
        transmission = frames.transmission
        power_in_band = None
        band_noise = None
        if self._bands.common_hz is None:
            power_in_band = self._link_budget.power_in_band
            band_noise = self._link_budget.band_noise
        return DisturbedFrames(
            users=transmission.ids,
            mode=transmission.mode,
            start_s=transmission.start_s,
            end_s=transmission.end_s,
            snr_db=frames.snr_db,
            alone=alone,
            others=[
                self._overlap(other, transmission, until_s)
                for other in transmission.interferers
                if other.start_s < until_s
            ],
            received_over=partial(self._success_over, frames),
            min_sir_db=self._reception.min_sir_db,
            noise=noise,
            power_in_band=power_in_band,
            band_noise=band_noise,
            interrupted=transmission.interrupted,
            bursts=self._burst_powers(transmission, until_s),
            has_shares=transmission.share is not None,
        )

    def _overlap(self, other: Transmission, transmission: Transmission, until_s: float) -> OverlappingFrames:
        """Return another transmission as interference at the tower of *transmission*."""
        tower = transmission.receiver
        snr_db = self.snr_db(other.ids, tower, other.start_s)
        snr = db_to_linear(snr_db + self._frame_offset_db(other, tower))
        end_s = other.end_s - touch_tolerance_s(other)
        in_share = self._part_in_shares(transmission, other)
        if not self._decodes_others:
            return OverlappingFrames(other.ids, other.mode, other.start_s, end_s, snr, in_share)
        decoded = None
        if other.frames.decoded_at is not None:
            decoded = other.frames.decoded_at.get(tower.number)
        judged = partial(self._judge, other, tower, until_s)
        return OverlappingFrames(other.ids, other.mode, other.start_s, end_s, snr, in_share, decoded, judged)

    def _judge(self, transmission: Transmission, tower: NodeId, until_s: float) -> DisturbedFrames:
        """Return a transmission as frames to judge at *tower*, with what overlaps with them until *until_s*."""
        if transmission.receiver != tower:
            transmission = replace(transmission, heard_at=tower)
        gain_db = self._frame_offset_db(transmission, tower)  # models that decode others have no shares of the band
        snr_db = self.snr_db(transmission.ids, tower, transmission.start_s) + gain_db
        frames = self._arrive(transmission, snr_db, gain_db, is_disturbed=True)
        alone = self._success(transmission.ids, snr_db, frames.fades, frames.bits, transmission.mode)
        return self._disturb(frames, alone, until_s)

    def _part_in_shares(self, transmission: Transmission, other: Transmission) -> Floats | None:
        """Return the interference of *other* in each share over its noise, for an SNR of 1, ``[n, m]``.

        ``None`` without shares.  A frame in the width w_j has the density P_j / w_j in its part of the band.  In the
        overlap o_ij with a share w_i it has the power P_j o_ij / w_j.  Over the noise in w_i that is N_j / N_i · o_ij /
        (w_j u_i), with the noise N in the bandwidths of the radios, and u_i the share of its radio that i has.
        """
        if transmission.spectrum is None or other.spectrum is None or transmission.share is None:
            return None
        noise = np.full(len(transmission.ids), transmission.share)
        if transmission.outside is not None:
            noise = noise + transmission.outside
        widths = np.maximum(other.spectrum.widths, _MIN_WIDTH)
        part = transmission.spectrum.overlap(other.spectrum) / widths[None, :]
        ratios = self._link_budget.noise_ratios(transmission.ids, other.ids)
        return np.asarray(ratios * part / noise[:, None])

    def _success_over(self, frames: ArrivingFrames, disturbance: float | Floats) -> Floats:
        """Return the probability that each frame is received over a *disturbance* relative to the noise, ``[n]``."""
        fades = frames.fades
        if fades is not None:
            fades = replace(fades, sinr_db=_over_db(fades.sinr_db, np.reshape(disturbance, (-1, 1))))
        sinr_db = _over_db(frames.snr_db, disturbance)
        return self._success(frames.transmission.ids, sinr_db, fades, frames.bits, frames.transmission.mode)

    def _undisturbed_success(self, ids: Ints, signal: Signal) -> Floats:
        """Return the probability that each user receives *signal*, or is received, without interference, ``[n]``."""
        snr_db = self.snr_db(ids, signal.tower, signal.start_s) + signal.boost_db
        return self._success(ids, snr_db, self._fades(ids, signal), signal.bits, signal.mode)

    def _fades(self, ids: Ints, signal: Signal) -> FadedFrames | None:
        """Return the SNR in parts of a time; ``None`` where the one at its start holds, and the mode gives the rate."""
        if not self._follows_fading[signal.mode]:
            return None
        rate_bps = None
        if signal.rate_bps is not None:
            rate_bps = np.broadcast_to(signal.rate_bps, len(ids))
        parts = self._link_budget.parts_of(signal.start_s, signal.end_s)
        if parts is None and rate_bps is None:
            return None
        if parts is None:
            snr_db = self.snr_db(ids, signal.tower, signal.start_s) + signal.boost_db
            return FadedFrames(snr_db[:, None], np.ones(1), self._bandwidth_hz, signal.bits, signal.mode, rate_bps)
        middles_s, shares = parts  # [parts] each
        user_of_part = np.repeat(ids, len(middles_s))
        time_of_part_s = np.tile(middles_s, len(ids))
        snr_db = self._link_budget.snr_db(user_of_part, time_of_part_s, signal.tower.name)
        snr_db = snr_db.reshape(len(ids), -1) + np.reshape(signal.boost_db, (-1, 1))  # [n, parts]
        return FadedFrames(snr_db, shares, self._bandwidth_hz, signal.bits, signal.mode, rate_bps)

    def _offset_db(self, ids: Ints) -> float | Floats:
        """Return the power of each user above that of the radio, ``[n]``; 0.0 if no user has another power."""
        offset_db = self.power_offset_db(ids)
        return 0.0 if offset_db is None else offset_db

    def _frame_offset_db(self, transmission: Transmission, tower: NodeId) -> float | Floats:
        """Return the SNR of frames at *tower* above `snr_db`, by their powers and their channel, 0.0 or ``[n]``."""
        power_db = self._power_change_db(transmission)
        if self._codes_per_channel is None:
            return power_db
        return power_db + self._channel_offset_db(transmission.ids, tower, transmission.channel)

    def _channel_offset_db(self, ids: Ints, tower: NodeId, channel: ArrayLike) -> float | Floats:
        """Return the SNR on a channel above `snr_db`, 0.0 or ``[n]``; the channel is one for all, or ``[n]``."""
        if self._codes_per_channel is None:
            return 0.0
        numbers = np.asarray(channel, np.int64) // self._codes_per_channel
        return self._link_budget.channel_offset_db(ids, tower.name, numbers)

    def _power_change_db(self, transmission: Transmission) -> float | Floats:
        """Return the power with which frames were sent above the present power of their senders, 0.0 or ``[n]``."""
        sent_db = transmission.power_offset_db
        present_db = self.power_offset_db(transmission.ids)
        if sent_db is None and present_db is None:
            return 0.0
        if sent_db is None:
            sent_db = np.zeros(len(transmission.ids))
        if present_db is None:
            return sent_db
        return sent_db - present_db

    def _success(self, ids: Ints, snr_db: Floats, fades: FadedFrames | None, bits: float, mode: int) -> Floats:
        if fades is None:
            return self._bands.success(ids, snr_db, bits, mode)
        return self._bands.success_over(ids, fades)

    def _draw(self, transmission: Transmission, ids: Ints, *chances: Floats) -> Floats:
        """Return a uniform draw for the reception of each of *ids*, ``[n]``; none where all is certain."""
        if not any(((chance > 0.0) & (chance < 1.0)).any() for chance in chances):
            return np.full(len(ids), 0.5)
        return self._draws_of(transmission).next_of(ids)

    def _draws_of(self, transmission: Transmission) -> _CountedDraws:
        """Return the draws for receptions at the tower that judges a transmission."""
        tower = transmission.heard_at
        if tower is None:
            return self._uplink_draws
        if tower.number not in self._draws_at:
            field = self._streams.field("reception", "at", tower.name)
            self._draws_at[tower.number] = _CountedDraws(field, self._link_budget.users)
        return self._draws_at[tower.number]


class _CountedDraws:
    """Uniform draws that are keyed by the user and the number of its draws so far."""

    def __init__(self, field: RandomField, users: int) -> None:
        self._field = field
        self._drawn = np.zeros(users, np.int64)

    def next_of(self, ids: Ints) -> Floats:
        """Return the next draw of each user, ``[n]``."""
        draws = self._field.uniform(ids, self._drawn[ids])
        self._drawn[ids] += 1
        return draws

    def next_of_one(self, user: int) -> float:
        """Return the next draw of *user*."""
        draw = self._field.uniform_of(user, self._drawn.item(user))
        self._drawn[user] += 1
        return draw


def _over_db(snr_db: Floats, disturbance: float | Floats) -> Floats:
    """Return the SINR of a signal where interference and noise are *disturbance* times the noise."""
    return np.asarray(10.0 * np.log10(db_to_linear(snr_db) / disturbance))


def _cause_of_failure(is_good: bool, is_unjammed: bool, is_received: bool) -> str:
    """Return the cause of failure of a frame; the arguments are those of `ReceptionDraws`."""
    if is_received:
        return ""
    if not is_good:
        return "faded"
    return JAMMED if is_unjammed else "collided"
