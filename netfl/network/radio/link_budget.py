"""Link budget: the signal-to-noise ratio of every user's link."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.core.kinds import stream_keys
from netfl.core.plugins import is_plugin
from netfl.errors import Fault, ScenarioError, prefix_faults
from netfl.network.channel import Channel, LinkGain, OutsideDataError
from netfl.network.channel._conformance import open_checked
from netfl.network.channel._fading import with_carrier
from netfl.network.interference import ScheduledSignals
from netfl.network.layout import Layout
from netfl.network.periods import period_from, period_of
from netfl.network.radio.downlink_boost import DownlinkBoost
from netfl.network.radio.radios import Radio, one_if_equal, per_distinct
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints
from netfl.units import db_to_linear

_MAX_PARTS = 4096
"""Largest number of parts of a transmission."""
_MIN_BETWEEN_M = 1.0
"""Least distance of two users that counts."""
_MOTION_S = 1.0
"""Time after which the gains of users that move count as changed."""
THERMAL_DBM_HZ = -174.0
"""Thermal noise at about 290 K, in dBm per hertz."""


@dataclass(frozen=True, slots=True)
class _Levels:
    """Levels of power of all users at towers without their channels, one for all or ``[users]`` each.

    Args:
        signal_dbm: power with the gains of both antennas.
        noise_dbm: noise in the band of each user.
        base_db: the difference.
    """

    signal_dbm: float | Floats
    noise_dbm: float | Floats
    base_db: float | Floats


class LinkBudget:
    """SNR of all links of a network: power and gains of antennas and channels, over the noise.

    Args:
        channels: models of a link's channel, whose gains add up.
        streams: random streams of the network; each channel has its own below them.
        devices: name of each user's class of devices, ``[users]``; ``None`` without classes.
        centres_hz: centre frequency of each frequency channel of the MAC, ``[channels]``; ``None`` for one channel.

    A signal without a frequency channel has the mean gain and the mean noise of the channels, in dB;
    `channel_offset_db` is what one on a channel has above that.

    Attributes:
        radios: radios of the users and towers.
        bandwidth_hz: bandwidth of all users, or of each, ``[users]``.
        power_offset_db: power of each user above that of its radio, ``[users]``; ``None`` if no user has another power.
        frequency_channels: number of frequency channels.

    Raises:
        ScenarioError: a channel is not valid here; keys start with ``channel`` and its number.
    """

    def __init__(
        self,
        radio: Radio,
        channels: Sequence[Channel],
        layout: Layout,
        streams: Streams,
        devices: NDArray[np.str_] | None = None,
        centres_hz: Floats | None = None,
    ) -> None:
        self.users = layout.users
        self.radios = radio.open(layout.users, layout.towers, devices, streams.at("radio"))
        self.bandwidth_hz = one_if_equal(self.radios.bandwidth_hz)
        self.power_offset_db: Floats | None = None
        self._layout = layout
        self._streams = streams

        # noise of each frequency channel at the towers, above and at the mean
        self._channel_noise_db = np.zeros(1 if centres_hz is None else len(centres_hz))
        if centres_hz is not None and radio.channel_noise is not None:
            self._channel_noise_db = np.array(radio.channel_noise)
        self.frequency_channels = len(self._channel_noise_db)
        self._mean_noise_db = float(self._channel_noise_db.mean())
        self._offsets_db: dict[str, Floats] = {}  # of all users on each channel, [users, channels], by the tower

        # noise of the medium in the band of each user, and levels of power at the towers, one for all or [users]
        medium_noise_dbm = _medium_noise_dbm(self.bandwidth_hz, channels)
        self._is_thermal = medium_noise_dbm is None
        self._band_noise_dbm = _thermal_dbm(self.bandwidth_hz) if medium_noise_dbm is None else medium_noise_dbm
        self._tower_at_start = layout.tower_at_start
        self._index_of = {name: index for index, name in enumerate(layout.towers)}
        self._is_single = len(layout.towers) <= 1
        self._at_start = self._levels_at(layout.tower_at_start)
        self._at_tower: dict[str, _Levels] = {}  # of all users at a tower, by its name

        self._channels = self._fitted(with_carrier(channels))
        if centres_hz is not None:
            self._channels = [channel.on_channels(centres_hz) for channel in self._channels]
        self._gains = self._open(layout, streams)  # to each user's tower of the start
        self._other_gains: dict[str, list[LinkGain]] = {}  # of all users to a tower, by its name
        self._holds_s = sorted({gain.hold_s for gain in self._gains} - {math.inf})
        self._has_delay = any(channel.has_delay for channel in channels)

    def snr_db(self, users: Ints, time_s: ArrayLike, tower: str = "") -> Floats:
        """Return the SNR of each user at *time_s* at *tower*, without interference, ``[n]``.

        Without a tower it is that at the user's tower of the start.
        """
        base_db = self._at_start.base_db
        is_at_start = self._is_at_start(users, tower)
        if is_at_start is None:
            return self._sum_db(base_db, self._gains, users, time_s)
        other_db = self._sum_db(self._levels_to(tower).base_db, self._gains_to(tower), users, time_s)
        at_start_db = self._sum_db(base_db, self._gains, users, time_s)
        return np.where(is_at_start, at_start_db, other_db)

    def mean_signal_dbm(self, users: Ints, time_s: ArrayLike, tower: str) -> Floats:
        """Return the power of each user at *tower*, antennas included, without fast fading, ``[n]``."""
        of_start = self._slow(self._gains)
        is_at_start = self._is_at_start(users, tower)
        if is_at_start is None:
            return self._sum_db(self._at_start.signal_dbm, of_start, users, time_s)
        signal_dbm = np.empty(len(users))
        signal_dbm[is_at_start] = self._sum_db(self._at_start.signal_dbm, of_start, users[is_at_start], time_s)
        to_other = self._slow(self._gains_to(tower))
        signal_dbm[~is_at_start] = self._sum_db(
            self._levels_to(tower).signal_dbm, to_other, users[~is_at_start], time_s
        )
        return signal_dbm

    def _slow(self, gains: Sequence[LinkGain]) -> list[LinkGain]:
        """Return those of the *gains* of all channels that are no fast fading."""
        return [gain for channel, gain in zip(self._channels, gains, strict=True) if not channel.has_fast_fading]

    def slow_snr_db(self, users: Ints, time_s: float, tower: str) -> Floats:
        """Return the SNR of each user at *tower*, antennas included, without fast fading, ``[n]``."""
        return np.asarray(self.mean_signal_dbm(users, time_s, tower) - self.noise_dbm(users, tower))

    def next_change_s(self, time_s: float) -> float:
        """Return the next time after *time_s* at which gains change; infinity if they never do.

        Users that move have other gains all the time; of theirs, a change is counted once a second.
        """
        holds_s = self._holds_s
        if self._layout.moving:
            holds_s = [*holds_s, _MOTION_S]
        changes_s = [(period_of(time_s, hold_s) + 1) * hold_s for hold_s in holds_s]
        return min(changes_s, default=math.inf)

    def parts_of(self, start_s: float, end_s: float) -> tuple[Floats, Floats] | None:
        """Divide a time into parts in which every gain is constant; at most 4096, evenly spread.

        Returns:
            The middle of each part, in s, and its share of the time, ``[parts]`` each; ``None`` for a single part.
        """
        # blocks of each gain that begin within the time: numbers first, …, last - 1
        inner_blocks = [
            (period_of(start_s, hold_s) + 1, period_from(end_s, hold_s), hold_s) for hold_s in self._holds_s
        ]
        count = sum(max(0, last - first) for first, last, _ in inner_blocks)
        if not count:
            return None
        if count < _MAX_PARTS:
            inner_edges_s = [hold_s * np.arange(first, last) for first, last, hold_s in inner_blocks]
        else:
            inner_edges_s = [np.linspace(start_s, end_s, _MAX_PARTS + 1)[1:-1]]
        edges_s = np.sort(np.concatenate([[start_s, end_s], *inner_edges_s]))
        middles_s = (edges_s[1:] + edges_s[:-1]) / 2.0
        shares = np.diff(edges_s) / (edges_s[-1] - edges_s[0])
        return middles_s, shares

    def mean_gains_db(self, users: Ints, times_s: Sequence[float]) -> Floats:
        """Return the gain of each channel on each link, averaged over *times_s*, ``[channels, n]``.

        Times after the end of the data of a measured channel do not count for it; the first must be within them.
        """
        means_db = [np.mean(_known_gains_db(gain, users, times_s), axis=0) for gain in self._gains]
        return np.array(means_db).reshape(len(means_db), len(users))

    def unit_snr_db(self, users: Ints, tower: str) -> Floats:
        """Return the SNR of each user at *tower* at a gain of 0 dB, antennas included, ``[n]``.

        It is the radiated power over the noise.
        """
        power_dbm = one_if_equal(self.radios.power_dbm)
        return np.full(len(users), _of(power_dbm, users) - self.noise_dbm(users, tower))

    def mean_snr_db(self, users: Ints, times_s: Sequence[float]) -> Floats:
        """Return the SNR of each user at its tower of the start, its gains averaged in dB over *times_s*, ``[n]``."""
        gains_db = self.mean_gains_db(users, times_s)
        levels = self._at_start
        return np.asarray(_of(levels.signal_dbm, users) + gains_db.sum(axis=0) - _of(levels.noise_dbm, users))

    def noise_dbm(self, users: Ints, tower: str) -> Floats:
        """Return the noise at *tower* in the band of each user, ``[n]``."""
        levels = self._at_start
        if self._is_at_start(users, tower) is not None:
            levels = self._levels_to(tower)
        return np.full(len(users), _of(levels.noise_dbm, users))

    def best_snr_db(self, users: Ints, tower: str = "") -> Floats:
        """Return an SNR that each user practically never exceeds at *tower*, ``[n]``.

        Without a tower it is that at the user's tower of the start.
        """
        at_start_db = _best_db(self._at_start, self._gains, users)
        is_at_start = self._is_at_start(users, tower)
        if is_at_start is None:
            return at_start_db
        other_db = _best_db(self._levels_to(tower), self._gains_to(tower), users)
        return np.where(is_at_start, at_start_db, other_db)

    def channel_offset_db(self, users: Ints, tower: str, channel: NDArray[np.int64] | int) -> Floats:
        """Return the SNR of each user on its frequency channel above `snr_db` at *tower*, ``[n]``.

        Without a tower it is that at the user's tower of the start.

        Args:
            users: the users.
            tower: name of the tower.
            channel: number of the frequency channel, one for all or ``[n]``.
        """
        at_start_db = np.asarray(self._channel_offsets_db("")[users, channel])
        is_at_start = self._is_at_start(users, tower)
        if is_at_start is None:
            return at_start_db
        return np.where(is_at_start, at_start_db, self._channel_offsets_db(tower)[users, channel])

    def channel_noise_db(self, channel: int) -> float:
        """Return the noise of a frequency channel above the mean of all."""
        return float(self._channel_noise_db[channel]) - self._mean_noise_db

    def best_frame_snr_db(self, users: Ints, tower: str = "") -> Floats:
        """Return `best_snr_db` on the best frequency channel of each user, ``[n]``."""
        offsets_db = [self.channel_offset_db(users, tower, channel) for channel in range(self.frequency_channels)]
        return np.asarray(self.best_snr_db(users, tower) + np.max(offsets_db, axis=0))

    def _channel_offsets_db(self, tower: str) -> Floats:
        """Return the gains over their mean less the noise over its mean, of all users, ``[users, channels]``."""
        if tower not in self._offsets_db:
            gains = self._gains
            if tower:
                gains = self._gains_to(tower)
            offsets_db = np.tile(self._mean_noise_db - self._channel_noise_db, (self.users, 1))
            for gain in gains:
                above_mean_db = gain.channel_gains_db(np.arange(self.users))
                if above_mean_db is not None:
                    offsets_db += above_mean_db
            self._offsets_db[tower] = offsets_db
        return self._offsets_db[tower]

    def downlink_boost(self, tower_power_dbm: float | None) -> DownlinkBoost:
        """Return the SNR of the signals of towers above those of users.

        Args:
            tower_power_dbm: power of towers whose radio states none; ``None`` for that of the user.
        """
        return DownlinkBoost(
            self.radios,
            self._layout.towers,
            tower_power_dbm,
            is_thermal=self._is_thermal,
            channel_noise_db=self._mean_noise_db,
        )

    def power_in_band(self, users: Ints, others: Ints) -> Floats:
        """Return the interference of *others* in the bands of *users* over its noise, for an SNR of 1, ``[n, m]``.

        All bands have the same centre.  The part min(1, B_i / B_j) of a signal in a band B_j falls into the band B_i,
        where the noise N_i is another than the N_j to which its SNR refers: N_j / N_i · min(1, B_i / B_j).
        """
        bands_hz = self.radios.bandwidth_hz
        part = np.minimum(1.0, bands_hz[users][:, None] / bands_hz[others][None, :])
        return np.asarray(part * self.noise_ratios(users, others))

    def noise_ratios(self, users: Ints, others: Ints) -> Floats:
        """Return the noise in the bands of *others* over that in the bands of *users* at one receiver, ``[n, m]``."""
        noise_dbm = np.full(self.users, self._band_noise_dbm)
        return np.asarray(db_to_linear(noise_dbm[others][None, :] - noise_dbm[users][:, None]))

    def between_users_dbm(self, sender: int, users: Ints, time_s: float) -> Floats:
        """Return the power of *sender* at each of *users*, antennas included, ``[n]``.

        The sender has its present power, with `power_offset_db`.  The gain is that of the channels which state one
        between two users, at their present distance.  Users that are nearer than 1 m count as 1 m apart.
        """
        places_m = self._layout.positions_m(users, time_s)
        own_place_m = self._layout.positions_m(np.array([sender]), time_s)
        distance_m = np.maximum(np.hypot(*(places_m - own_place_m).T), _MIN_BETWEEN_M)
        radios = self.radios
        signal_dbm = radios.power_dbm[sender] + radios.gain_db[sender] + radios.gain_db[users]
        if self.power_offset_db is not None:
            signal_dbm = signal_dbm + self.power_offset_db[sender]
        for channel in self._channels:
            if channel.holds_between_users:
                signal_dbm = signal_dbm + channel.between_users_db(distance_m)
        return np.asarray(signal_dbm)

    def from_place_dbm(self, power_dbm: float, place_m: Floats, tower: str) -> float:
        """Return the power at *tower* of a signal that is radiated at a place, with the antenna of the tower.

        The gain is that of the channels which state one between two users.  *place_m* is ``[2]``.
        """
        index = self._index_of[tower]
        gain_db = self._from_place_db(place_m, self._layout.tower_xy_m[index : index + 1])
        return float(power_dbm + self.radios.tower_gain_db[index] + gain_db[0])

    def from_place_to_users_dbm(self, power_dbm: float, place_m: Floats, users: Ints, time_s: float) -> Floats:
        """Return the power at *users* of a signal that is radiated at a place, with their antennas, ``[n]``."""
        gain_db = self._from_place_db(place_m, self._layout.positions_m(users, time_s))
        return np.asarray(power_dbm + self.radios.gain_db[users] + gain_db)

    def _from_place_db(self, place_m: Floats, places_m: Floats) -> Floats:
        """Return the gain from a place ``[2]`` to others, ``[n, 2]``, which are at least 1 m away."""
        distance_m = np.maximum(np.hypot(*(places_m - place_m).T), _MIN_BETWEEN_M)
        gain_db = np.zeros(len(places_m))
        for channel in self._channels:
            if channel.holds_between_users:
                gain_db = gain_db + channel.between_users_db(distance_m)
        return gain_db

    def over_noise(self, power_dbm: float, tower: str) -> Floats:
        """Return a power at *tower* in the band of the widest radio over the noise in that of each user, ``[users]``.

        Its density is the same in all of the band, so that a narrower radio has its part.
        """
        bands_hz = self.radios.bandwidth_hz
        part_db = 10.0 * np.log10(bands_hz / bands_hz.max())
        return np.asarray(db_to_linear(power_dbm + part_db - self.noise_dbm(np.arange(self.users), tower)))

    @property
    def has_fixed_sensing(self) -> bool:
        """True if all users send with the powers of their radios now, and distances of users never change."""
        return self.power_offset_db is None and not self._layout.moving

    def band_noise(self, users: Ints) -> Floats:
        """Return the noise in the band of each user at one receiver, over that of user 0, ``[n]``."""
        return np.asarray(self.noise_ratios(np.zeros(1, np.int64), users)[0])

    def scheduled_signals(self, users: Ints, snr: Floats) -> ScheduledSignals:
        """Return the signals of users that send at once, of powers *snr* over the noise in their bands, ``[n]``."""
        if isinstance(self.bandwidth_hz, float):  # one band for all
            return ScheduledSignals(users, snr, np.ones((len(users), len(users))), snr)
        return ScheduledSignals(users, snr, self.power_in_band(users, users), snr * self.band_noise(users))

    def delay_s(self, users: Ints, time_s: float, tower: str = "") -> Floats | None:
        """Return the propagation delay from each user to *tower*, ``[n]``.

        Without a tower it is that to the user's tower of the start.  ``None`` if no channel has a delay that counts.
        """
        if not self._has_delay:
            return None
        at_start_s = self._delays_s(self._gains, users, time_s, self._layout.distances_m(users, time_s))
        is_at_start = self._is_at_start(users, tower)
        if is_at_start is None:
            return at_start_s
        towers = np.full(len(users), self._index_of[tower])
        distance_m = self._layout.distances_to_m(towers, users, time_s)
        return np.where(is_at_start, at_start_s, self._delays_s(self._gains_to(tower), users, time_s, distance_m))

    def _delays_s(self, gains: Sequence[LinkGain], users: Ints, time_s: float, distance_m: Floats) -> Floats:
        """Return the largest delay of the channels, whose *gains* have links of *distance_m* on the map, ``[n]``."""
        delays_s = []
        for channel, gain in zip(self._channels, gains, strict=True):
            if channel.has_delay:
                stated_s = gain.delay_s(users, time_s)
                delays_s.append(channel.delay_s(distance_m) if stated_s is None else stated_s)
        return np.asarray(np.max(delays_s, axis=0))

    def _sum_db(self, base_db: float | Floats, gains: Sequence[LinkGain], users: Ints, time_s: ArrayLike) -> Floats:
        """Return power + offset + Σ gains - noise of each user, ``[n]``; *base_db* is what does not change."""
        if not isinstance(base_db, float):
            base_db = base_db[users]
        if self.power_offset_db is None and gains:  # the usual case, with one array less
            snr_db = np.add(base_db, gains[0].gain_db(users, time_s), dtype=float)
            gains = gains[1:]
        else:
            snr_db = np.full(len(users), base_db)
        if self.power_offset_db is not None:
            snr_db += self.power_offset_db[users]
        for gain in gains:
            snr_db += gain.gain_db(users, time_s)
        return snr_db

    def _is_at_start(self, users: Ints, tower: str) -> Bools | None:
        """Return whether *tower* is the tower of the start of each user, ``[n]``; ``None`` if it is that of all.

        So it is without a tower.  The channel of a user to its tower of the start has other draws than those to all
        other towers, whoever has the user now.
        """
        if not tower or self._is_single:
            return None
        is_at_start: Bools = self._tower_at_start[users] == self._index_of[tower]
        return None if is_at_start.all() else is_at_start

    def _levels_to(self, tower: str) -> _Levels:
        """Return the levels of all users at *tower*."""
        if tower not in self._at_tower:
            towers = np.full(self.users, self._index_of[tower])
            self._at_tower[tower] = self._levels_at(towers)
        return self._at_tower[tower]

    def _levels_at(self, towers: Ints) -> _Levels:
        """Return the levels of each user at its tower of *towers*, ``[users]``."""
        radios = self.radios
        gain_db = radios.gain_db + radios.tower_gain_db[towers]
        noise_dbm = np.full(self.users, self._band_noise_dbm)
        if self._is_thermal:
            noise_dbm += radios.tower_noise_figure_db[towers]
        if self._mean_noise_db:
            noise_dbm += self._mean_noise_db
        signal_dbm = one_if_equal(radios.power_dbm + gain_db)
        one_noise_dbm = one_if_equal(noise_dbm)
        return _Levels(signal_dbm, one_noise_dbm, signal_dbm - one_noise_dbm)

    def _fitted(self, channels: Sequence[Channel]) -> list[Channel]:
        """Return the channels with their data as gains."""
        levels = (self._at_start.signal_dbm, self._at_start.noise_dbm, self.bandwidth_hz)
        fitted = [channel.fitted(*map(_first_value, levels)) for channel in channels]
        if all(isinstance(level, float) for level in levels):
            return fitted
        for index, channel in enumerate(fitted):
            if channel.needs_radio:
                problem = "its data are SNRs or rates of one radio, but the radios of users or towers differ"
                raise ScenarioError([Fault(f"channel.{index}", problem, None, "give gains, as gain_db or rsrp_dbm")])
        return fitted

    def _gains_to(self, tower: str) -> list[LinkGain]:
        """Return the channels of all users to *tower*, opened when a user of another tower is first heard there."""
        if tower not in self._other_gains:
            self._other_gains[tower] = self._open(self._layout.towards(tower), self._streams.at("towards", tower))
        return self._other_gains[tower]

    def _open(self, layout: Layout, streams: Streams) -> list[LinkGain]:
        gains = []
        for index, (channel, key) in enumerate(zip(self._channels, stream_keys(self._channels), strict=True)):
            with prefix_faults(f"channel.{index}"):
                channel_streams = streams.at("channel", *key)
                if is_plugin(channel):
                    gains.append(open_checked(channel, layout, channel_streams))
                else:
                    gains.append(channel.open(layout, channel_streams))
        return gains


def _best_db(levels: _Levels, gains: Sequence[LinkGain], users: Ints) -> Floats:
    """Return an SNR that each user practically never exceeds, ``[n]``."""
    peak_db = sum((gain.peak_db(users) for gain in gains), np.zeros(len(users)))
    return np.asarray(_of(levels.signal_dbm, users) + peak_db - _of(levels.noise_dbm, users))


def _known_gains_db(gain: LinkGain, users: Ints, times_s: Sequence[float]) -> list[Floats]:
    """Return the gains at the first of *times_s*, up to one that the data of a measured channel do not hold."""
    gains_db: list[Floats] = []
    for time_s in times_s:
        try:
            gains_db.append(gain.gain_db(users, time_s))
        except OutsideDataError:
            if not gains_db:
                raise
            break
    return gains_db


def _first_value(values: float | Floats) -> float:
    """Return the value of the first user; 0 without users."""
    if isinstance(values, float):
        return values
    return float(values[0]) if len(values) else 0.0


def _of(values: float | Floats, users: Ints) -> float | Floats:
    """Return the values of *users*; one value for all stays one."""
    if isinstance(values, float):
        return values
    return values[users]


def _thermal_dbm(bandwidth_hz: float | Floats) -> float | Floats:
    """Return the thermal noise in each bandwidth."""

    def noise_dbm(band_hz: float) -> float:
        return THERMAL_DBM_HZ + 10.0 * math.log10(band_hz)

    if isinstance(bandwidth_hz, float):
        return noise_dbm(bandwidth_hz)
    return per_distinct(bandwidth_hz, noise_dbm)


def _medium_noise_dbm(bandwidth_hz: float | Floats, channels: Sequence[Channel]) -> float | Floats | None:
    """Return the sum of the noises of the media, Σ 10^(noise / 10) in mW, in each bandwidth; ``None`` without any."""

    def noise_dbm(band_hz: float) -> float:
        noises_dbm = []
        for index, channel in enumerate(channels):
            with prefix_faults(f"channel.{index}"):
                channel_dbm = channel.noise_dbm(band_hz)
            if channel_dbm is not None:
                noises_dbm.append(channel_dbm)
        if not noises_dbm:
            return math.nan
        total_mw = sum(10.0 ** (channel_dbm / 10.0) for channel_dbm in noises_dbm)
        return 10.0 * math.log10(total_mw)

    if isinstance(bandwidth_hz, float):
        noise = noise_dbm(bandwidth_hz)
        return None if math.isnan(noise) else noise
    noises = per_distinct(bandwidth_hz, noise_dbm)
    return None if np.isnan(noises).any() else noises
