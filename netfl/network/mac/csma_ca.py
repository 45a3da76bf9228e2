"""CSMA/CA: the distributed coordination function of IEEE 802.11, and the unslotted CSMA-CA of IEEE 802.15.4.

Next on the way of a frame: `netfl.network.radio.cell.Cell.attempt`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from math import inf
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import simpy
from pydantic import Field

from netfl.core.family_members import FamilyMember
from netfl.core.kinds import kind_of
from netfl.core.spec import ByForm, NotWith, OnlyWith, no_effect
from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.mac import IdleTime, Mac
from netfl.network.mac import _unslotted_csma as lr_wpan
from netfl.network.mac._dcf import ACK_BITS, CTS_BITS, PHYS, RTS_BITS, Backoff, FrameTiming, PhyTiming
from netfl.network.mac._hidden_stations import HiddenStations
from netfl.network.mac._station_rates import StationRates, is_equal_rate
from netfl.network.mac._unslotted_csma import CsmaParameters, UnslottedCsma
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.network.radio.cell import Cell
from netfl.network.radio.jamming import BurstTimeline
from netfl.network.radio.radios import Radio
from netfl.network.radio.receiver import ReceiverLimits
from netfl.network.rate_adaptation import RateAdaptation
from netfl.network.reception import Reception
from netfl.network.reception.mcs import Mcs
from netfl.streams import Streams
from netfl.types import Bools, Floats, Law, ScenarioFacts, Users
from netfl.units import Bitrate, Bits, DecibelMilliwatts

_NS = 1e-9
_SLACK_S = 1e-8
"""Rounding error of the clock at an instant."""
_DRAWS = 4096
_COLLISION = attrgetter("collision")
_CACHED_SIZES = 256
"""Frame sizes whose timing is cached."""
_HEADER_BITS = 36 * 8
"""MAC header 24, LLC and SNAP 8, frame check sequence 4 bytes."""
_MAX_PAYLOAD_BITS = (2304 - 8) * 8.0
"""An MSDU has 2304 bytes at most (IEEE 802.11-2020 §9.2.4.8), of which LLC and SNAP take 8."""
_Rate = Annotated[Bitrate, Field(gt=0)]
_Rates = Annotated[tuple[_Rate, ...], Field(min_length=1)]
_LR_WPAN = "802.15.4"
_OnlyLrWpan = OnlyWith("standard", _LR_WPAN)
_NotLrWpan = NotWith("standard", _LR_WPAN)
_WIFI_THRESHOLD_DBM = -82.0
"""Level of IEEE 802.11-2020 §17.3.10.6 at 20 MHz, from which on a station senses a preamble."""
_LR_WPAN_THRESHOLD_DBM = -75.0
"""Level of IEEE 802.15.4-2020 §10.2.8: 10 dB above the required sensitivity of -85 dBm (§12)."""
_MODES_REMEDY = (
    "take reception: {kind: mcs, standard: 802.11a} with radio.bandwidth: 20 MHz, or a table with these rates"
)


class CsmaCa(Mac):
    """The DCF of IEEE 802.11-2020 §10.3: listen, wait a random number of idle slots, send, double the wait on failure.

    **Backoff.**  A station draws a number of slots, uniform on 0 … CW, and counts it down in idle slots.  Counters
    freeze while the medium is busy; a slot in which a station begins to send counts for no station, so the slot right
    after a success can be used only by its winner, which may have drawn 0.  (In Bianchi's chain, IEEE J-SAC 18(3),
    2000, a busy slot counts, which changes throughputs by a few per cent.)  After each of its frames a station
    draws a new number, with or without another frame.  A frame that finds the medium idle for DIFS, and its station's
    counter at zero, is sent at once.

    **The window.**  CW is doubled, 2 CW + 1, with every failure up to its maximum.  A success resets it, and
    so does an outage.  A frame that is given up after ``max_attempts`` or abandoned does not: CW continues with the
    next frame, until the station has failed once more than ``max_attempts`` times in a row (§10.3.3 and §10.3.4.4, in
    the form that §10.23.2.2 gives for the retry counter of a QoS station).  Without ``max_attempts`` a frame keeps its
    CW for as long as it is sent; once it is abandoned, CW is reset after more than 7 failures in a row, the default of
    the standard's retry limit.  With ``edition: 2016`` CW is reset whenever a frame is given up or abandoned, as
    §10.3.3 of that edition is commonly read.

    **Frames.** The payload with 36 bytes of MAC and LLC headers, at the rate of the standard's physical layer, then
    SIFS and ACK; with ``rts`` larger frames are preceded by RTS and CTS.  One frame holds at most 2304 bytes of MSDU,
    2296 of payload.  A larger update is sent in several frames, each of which contends separately
    (``access.transport``).  With ``max_attempts`` the first of them that is given up ends the update, unless the
    transport has an ``arq``.

    **Rates.**  A station sends all its frames at its ``rate``, or each attempt at the rate that the ``rate_adaptation``
    chooses.  ACK, RTS and CTS have the highest control rate that is not above it.  With a radio, a frame is received by
    the mode of the reception that has its rate, and so by its own threshold.  Frames that collide last for different
    times; all stations wait for the end of the longest.  As all stations have equal chances to send, a slow one slows
    all: saturated stations with equal frames have equal throughputs, of L / Σ T_i at most, where T_i is the time of a
    frame of station i (M. Heusse et al., "Performance anomaly of 802.11b", INFOCOM 2003).

    **Hidden stations.**  By default (``senses: all``) stations of a cell sense each other.  With ``senses: by_power``
    station i senses a frame of station j if it receives at least ``sense_threshold`` from it: the power of j, both
    antenna gains, and the path loss at the present distance of the two users.  A station counts its slots down while
    others send that it does not sense.  The towers are sensed by all.  A station reads a frame that it has sensed from
    its start, alone, and leaves room for its ACK (NAV); after other frames in error it waits as after a collision.  The
    medium decides on frames that overlap at the tower.  While the tower sends a CTS or an ACK, it receives nothing.  An
    RTS that is received counts as no attempt; stations that read an RTS without a CTS forget it after the NAV time-out
    (§10.3.2.4).

    **After a collision.**  The colliders wait for the end of the ACK (CTS) time-out, which lasts SIFS, a slot and the
    preamble (§10.3.2.11), and then for DIFS, before they count slots (§10.3.4.3).  With ``edition: 2016`` they count
    from the end of the time-out, as the medium has been idle for longer than DIFS by then.  The bystanders wait DIFS
    if they cannot decode the overlapping preambles and only sense energy (OFDM), or EIFS if they
    take the collision for a frame in error (DSSS; §10.3.2.3.7); ``after_collision`` overrides this.  The bystanders of
    a frame that fades alone decode it and leave room for its ACK; after a captured frame all wait for its ACK.

    **Power.**  A station whose power control withholds its frame sends nothing.  It backs off when its channel has
    changed, with the window that it had.  With ``senses: by_power`` all frames have full power.

    **Idle time.**  Counters run in idle time, after DIFS, until they are at zero; the window does not change.

    **IEEE 802.15.4.**  ``standard: 802.15.4`` is the unslotted CSMA-CA of IEEE 802.15.4-2020 §6.2.5.1 over the O-QPSK
    PHY at 2.4 GHz (§12: 250 kbit/s, symbols of 16 µs), and shares nothing of the above but what a station senses.  A
    station waits for k periods of 320 µs, k uniform on 0 … 2^BE - 1 with BE = ``min_be``, and then senses the medium
    once, for 128 µs (``cca``).  The wait is not frozen while others send.  If nothing was on the air in this time, it
    turns from receiving to sending in 192 µs, in which others may begin, too, and sends.  If something was, it waits
    again, with BE + 1 up to ``max_be``, and after ``max_backoffs`` further waits the access has failed: the frame is
    given up without a repeat.  An update whose frame is given up has ended as ``given_up``, unless the transport has an
    ``arq``; ``access_failures`` counts these frames, and they are no attempts.

    A frame has 6 bytes of PHY, the ``header`` of the MAC, and 127 bytes at most without those of the PHY; a larger
    update is sent in several.  192 µs after a frame that it has received the tower sends an acknowledgement of 352 µs
    (``acknowledge``).  Other stations may begin to send in between.  The acknowledgement is lost if a frame or a burst
    that the station senses overlaps with it, and the tower receives no frame while it sends one.  A station without an
    acknowledgement after 864 µs starts another access for the same frame, up to ``max_retries`` times (§6.7.4.4).  A
    frame whose acknowledgement was lost is repeated as a duplicate, which the tower discards.  Without ``acknowledge``
    each frame is sent once.  A station leaves a space of 192 µs after frames of up to 18 bytes, and of 640 µs after
    larger ones, or after their acknowledgements (§6.2.4).

    **Jammer.**  All stations sense a burst of the ``jammer``.  Counters of 802.11 freeze, and continue DIFS after
    it; ACK, RTS and CTS are received nevertheless.  With ``senses: by_power`` 802.11 refuses a jammer, and a station of
    802.15.4 senses one of at least ``sense_threshold``.

    **Propagation.**  All stations notice the begin and the end of a frame at the same time, when its end has arrived at
    the tower, as the standard assumes of delays that are short against a slot.  Longer delays are warned of.

    Example::

        kind: csma_ca
        standard: 802.11a
        max_attempts: 7
    """

    standard: Literal["802.11a", "802.11b", "802.11g", "802.15.4"] = "802.11a"
    """Timing: 802.11a, 802.11b (long preamble), 802.11g (without 802.11b stations), or 802.15.4 (O-QPSK, 2.4 GHz)."""
    rate: Annotated[Annotated[_Rates | _Rate, ByForm()] | None, _NotLrWpan] = None
    """Rate of the data, one of the standard's: one for all users, or a list, one for each; by default 6 Mbps (802.11a),
    11 Mbps (802.11b), 54 Mbps (802.11g).  With ``rate_adaptation: arf`` that of the first frame, by default the
    lowest."""
    rate_adaptation: Annotated[Annotated[RateAdaptation, FamilyMember()] | None, _NotLrWpan] = None
    """Choice of the rate of each attempt among the modes of the reception; ``null``: the ``rate``."""
    senses: Literal["all", "by_power"] = "all"
    """Stations that a station senses: all of its cell, or those whose frames it receives with ``sense_threshold``."""
    sense_threshold: Annotated[DecibelMilliwatts | None, OnlyWith("senses", "by_power")] = None
    """Power from which on a station senses and reads a frame; by default -82 dBm for 802.11 (§17.3.10.6 at 20 MHz) and
    -75 dBm for 802.15.4 (§10.2.8)."""
    rts: Annotated[Annotated[Bits, Field(ge=0)] | None, _NotLrWpan] = None
    """Payloads larger than this are preceded by RTS and CTS; ``null``: none."""
    max_attempts: Annotated[Annotated[int, Field(ge=1)] | None, _NotLrWpan] = None
    """Attempts after which a frame is given up; ``null`` is no limit.  802.15.4 has ``max_retries`` in its place."""
    edition: Annotated[Literal[2016, 2020], _NotLrWpan] = 2020
    """Edition of IEEE 802.11 whose rules apply after a failure; 2016 is closer to Bianchi's model."""
    after_collision: Annotated[Literal["difs", "eifs"] | None, _NotLrWpan] = None
    """Wait of bystanders after a collision; ``null`` follows the physical layer."""
    min_be: Annotated[int, Field(ge=0, le=8), _OnlyLrWpan] = 3
    """802.15.4: macMinBe, exponent of the first backoff."""
    max_be: Annotated[int, Field(ge=3, le=8), _OnlyLrWpan] = 5
    """802.15.4: macMaxBe, largest exponent of a backoff."""
    max_backoffs: Annotated[int, Field(ge=0, le=5), _OnlyLrWpan] = 4
    """802.15.4: macMaxCsmaBackoffs, backoffs after the first one until an access has failed."""
    cca: Annotated[Literal["sense", "aloha"], _OnlyLrWpan] = "sense"
    """802.15.4: clear channel assessment: ``sense`` any signal, or report an idle medium always (``aloha``, CCA mode 4
    of §10.2.8)."""
    acknowledge: Annotated[bool, _OnlyLrWpan] = True
    """802.15.4: whether the tower acknowledges frames."""
    max_retries: Annotated[int, Field(ge=0, le=7), _OnlyLrWpan] = 3
    """802.15.4: macMaxFrameRetries, repeats of a frame without an acknowledgement."""
    header: Annotated[Bits, Field(ge=40, le=848), _OnlyLrWpan] = 88.0
    """802.15.4: header and FCS of the MAC; by default 11 bytes, with short addresses in one PAN."""

    @property
    def rate_bps(self) -> float:
        return min(self.rates_bps)

    @property
    def rates_bps(self) -> tuple[float, ...]:
        if self.is_lr_wpan:
            return (lr_wpan.BIT_RATE_BPS,)
        if self.rate_adaptation is not None:
            return tuple(rate * 1e6 for rate in sorted(self.phy.rates))
        return tuple(rate * 1e6 for rate in dict.fromkeys(self._rates_mbps))

    @property
    def is_lr_wpan(self) -> bool:
        """True for IEEE 802.15.4."""
        return self.standard == _LR_WPAN

    @property
    def phy(self) -> PhyTiming:
        """Timing of the physical layer of IEEE 802.11.

        Raises:
            ValueError: the standard is IEEE 802.15.4.
        """
        if self.standard == "802.15.4":
            raise ValueError(f"{_LR_WPAN} has no timing of IEEE 802.11")
        return PHYS[self.standard]

    @property
    def threshold_dbm(self) -> float:
        """Power from which on a station senses a frame."""
        if self.sense_threshold is not None:
            return self.sense_threshold
        return _LR_WPAN_THRESHOLD_DBM if self.is_lr_wpan else _WIFI_THRESHOLD_DBM

    @property
    def sets_modes(self) -> bool:
        return not self.is_lr_wpan

    @property
    def senses_by_power(self) -> bool:
        return self.senses == "by_power"

    @property
    def can_fail_access(self) -> bool:
        return self.is_lr_wpan and self.cca == "sense"

    @property
    def max_payload_bits(self) -> float:
        if self.is_lr_wpan:
            return 8.0 * lr_wpan.MAX_FRAME_BYTES - self.header
        return _MAX_PAYLOAD_BITS

    @property
    def idle_time(self) -> IdleTime:
        return "expires"

    @property
    def attempt_limit(self) -> int | None:
        if self.is_lr_wpan:
            return self._lr_wpan_parameters.max_attempts
        return self.max_attempts

    @property
    def has_carrier_sense(self) -> bool:
        return True

    @property
    def needs_full_power(self) -> bool:
        return self.senses == "by_power"

    @property
    def needs_fixed_towers(self) -> bool:
        return self.senses == "by_power"

    @property
    def observes(self) -> tuple[str, ...]:
        if self.rate_adaptation is not None and self.rate_adaptation.observes_snr:
            return ("user_up", "rate_bps")
        return ("user_up",)

    @property
    def receiver_limits(self) -> ReceiverLimits | None:
        if self.is_lr_wpan and self.acknowledge:
            return ReceiverLimits(answers=True)
        if self.senses == "by_power" and not self.is_lr_wpan:
            return ReceiverLimits(answers=True)
        return None

    @property
    def observer(self) -> Literal["tower", "users"]:
        return "users"

    @property
    def keeps_window(self) -> bool:
        """True if the window continues after a drop, and colliders wait DIFS after the time-out."""
        return self.edition == 2020

    @property
    def wait_after_error(self) -> int:
        """Wait of bystanders after a collision, in ns."""
        phy = self.phy
        has_eifs = phy.decodes if self.after_collision is None else self.after_collision == "eifs"
        return phy.eifs if has_eifs else phy.difs

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if self.is_lr_wpan:
            yield from self._lr_wpan_faults()
            return
        rates = self.phy.rates
        listed = ", ".join(f"{rate:g}" for rate in sorted(rates))
        by_user = isinstance(self.rate, tuple)
        if by_user and len(self._rates_mbps) != facts.users:
            problem = f"{len(self._rates_mbps)} rates for {facts.users} users"
            yield Fault("rate", problem, None, f"give one rate, or {facts.users} of them")
        for index, rate in enumerate(self._rates_mbps):
            if rate not in rates:
                key = f"rate.{index}" if by_user else "rate"
                yield Fault(key, f"{self.standard} has no such rate", rate * 1e6, f"one of {listed} Mbps")
        if self.rate_adaptation is not None and not self.rate_adaptation.starts_at_rate:
            yield from no_effect(self, ["rate"], "with this rate_adaptation, which chooses the rate of all frames")

    def _lr_wpan_faults(self) -> Iterator[Fault]:
        """Yield the errors of the keys of IEEE 802.15.4."""
        if self.min_be > self.max_be:
            yield Fault("min_be", f"larger than max_be, {self.max_be}", self.min_be, "make it smaller")
        if not self.acknowledge:
            reason = "without acknowledge: a station does not learn of a failure"
            yield from no_effect(self, ["max_retries"], reason)
        if self.cca == "aloha":
            reason = "with cca: aloha, by which the medium is always idle"
            yield from no_effect(self, ["max_be", "max_backoffs"], reason)

    def jammer_faults(self) -> Iterator[Fault]:
        if self.senses_by_power and not self.is_lr_wpan:
            problem = "stations of IEEE 802.11 that sense by power do not know of bursts of a jammer"
            yield Fault("senses", problem, self.senses, "set senses: all, or leave the jammer out")

    def radio_faults(
        self, radio: Radio | None, channels: Sequence[Channel], reception: Reception | None
    ) -> Iterator[Fault]:
        if self.is_lr_wpan:
            if self.senses == "by_power":
                yield from self._sensing_faults(radio, channels)
            return
        if radio is None or reception is None:
            if self.rate_adaptation is not None:
                problem = "without a radio and a reception no frame is too weak, so that there is nothing to adapt to"
                yield Fault("rate_adaptation", problem, None, f"{_MODES_REMEDY}; or leave it out")
        elif not reception.follows_snr:
            yield from self._mode_faults(radio, reception)
        if self.senses == "by_power":
            yield from self._sensing_faults(radio, channels)

    def _mode_faults(self, radio: Radio, reception: Reception) -> Iterator[Fault]:
        """Yield the errors of rates that are no modes of the reception."""
        key = "rate" if self.rate_adaptation is None else "rate_adaptation"
        if reception.modes == 1:
            if self.rate_adaptation is not None:
                yield Fault(key, "the reception has one rate, so that there is nothing to adapt", None, _MODES_REMEDY)
            elif len(self.rates_bps) > 1:
                problem = "several rates, but the reception has one threshold for all of them"
                yield Fault(key, problem, None, _MODES_REMEDY)
            return
        if radio.common_bandwidth_hz is None:
            problem = "the rates of the reception follow the bandwidth, and those of the radios differ"
            yield Fault(key, problem, None, "give one radio.bandwidth")
            return
        modes_bps = [reception.rate_bps(radio.common_bandwidth_hz, mode) for mode in range(reception.modes)]
        listed = ", ".join(f"{rate_bps / 1e6:g}" for rate_bps in modes_bps)
        if self.rate_adaptation is not None:
            standard_bps = [rate * 1e6 for rate in self.phy.rates]
            foreign = [bps for bps in modes_bps if not any(is_equal_rate(bps, rate) for rate in standard_bps)]
            if foreign:
                problem = f"the reception has rates that {self.standard} has not ({listed} Mbps)"
                yield Fault(key, problem, None, _MODES_REMEDY)
                return
        if self.rate is None and self.rate_adaptation is not None:
            return
        for rate in dict.fromkeys(self._rates_mbps):
            if not any(is_equal_rate(rate * 1e6, mode_bps) for mode_bps in modes_bps):
                problem = f"the reception has no mode of that rate, but {listed} Mbps"
                yield Fault("rate", problem, rate * 1e6, f"give one of them, or {_MODES_REMEDY}")

    def _sensing_faults(self, radio: Radio | None, channels: Sequence[Channel]) -> Iterator[Fault]:
        """Yield the errors of a network in which the power of a user at another is not known."""
        if radio is None:
            problem = "compares powers that users receive from each other, but there is no radio"
            yield Fault("senses", problem, self.senses, "give radio, channel and reception, or set senses: all")
            return
        unknown = [channel for channel in channels if channel.has_path_loss and not channel.holds_between_users]
        if unknown:
            kind = kind_of(type(unknown[0]))
            problem = f"compares powers that users receive from each other, which channel {kind} does not state"
            yield Fault("senses", problem, self.senses, "take a path loss by distance, such as log_distance")
        elif not any(channel.holds_between_users for channel in channels):
            problem = "compares powers that users receive from each other, but no channel has a path loss"
            yield Fault("senses", problem, self.senses, "add a path loss by distance, such as log_distance")

    def reception_faults(self, reception: Reception) -> Iterator[Fault]:
        if isinstance(reception, Mcs) and (self.rate_adaptation is None or not self.rate_adaptation.observes_snr):
            reason = "with csma_ca, whose stations choose no rate by the SNR"
            remedy = "leave it out, or set rate_adaptation: ideal"
            yield from no_effect(reception, ["margin", "packet", "packet_error"], reason, remedy)

    def frame_times_s(self, bits: float, snr_db: Floats, airtime_s: Floats) -> tuple[Floats, Floats]:
        users = len(snr_db)
        if self.is_lr_wpan:
            airtime_s = np.full(users, bits / self.rate_bps)
        elif self.rate_adaptation is None:
            rates_bps = np.array([rate * 1e6 for rate in self._rates_mbps])
            airtime_s = bits / np.broadcast_to(rates_bps, users)
        elif not self.rate_adaptation.observes_snr:
            airtime_s = np.full(users, bits / max(self.rates_bps))
        return airtime_s, airtime_s

    def max_frames_hz(self, airtime_s: float, longest_s: float, delay_s: float) -> float:
        if self.attempt_limit is not None:  # frames that are given up leave, too
            return inf
        return 1.0 / airtime_s

    def late_frame_warnings(self, mean_s: float, longest_s: float, delay_s: float) -> Iterator[str]:
        name = "a slot"
        slot_s = 0.0
        if self.is_lr_wpan:
            name = "an assessment of the channel"
            slot_s = lr_wpan.CCA * _NS
        else:
            slot_s = self.phy.slot * _NS
        if delay_s > slot_s:
            yield (
                f"csma_ca: signals travel for up to {delay_s:.3g} s, longer than {name} of {slot_s:.3g} s, but "
                "stations are modelled as sensing each other at once; take a MAC that does not listen before it sends"
            )

    def frame_timing(self, bits: float, rate_mbps: float | None = None) -> FrameTiming:
        """Return the durations around a frame with *bits* of payload, by default at the rate of the first user."""
        phy = self.phy
        rate_mbps = rate_mbps or self._rates_mbps[0]
        control_rate = phy.control_rate(rate_mbps)
        data = phy.airtime(bits + _HEADER_BITS, rate_mbps)
        ack = phy.airtime(ACK_BITS, control_rate)
        rts = 0
        cts = 0
        lead = 0
        colliding = data
        if self.rts is not None and bits > self.rts:
            rts = phy.airtime(RTS_BITS, control_rate)
            cts = phy.airtime(CTS_BITS, control_rate)
            lead = rts + phy.sifs + cts + phy.sifs
            colliding = rts  # data frames follow a CTS only
        timeout = phy.timeout
        if self.keeps_window:  # colliders wait DIFS after the time-out (2020, §10.3.4.3)
            timeout += phy.difs
        return FrameTiming(
            success=lead + data + phy.sifs + ack,
            data=data,
            lead=lead,
            collision=colliding,
            timeout=timeout,
            bystanders=self.wait_after_error,
            rts=rts,
            cts=cts,
            ack=ack,
        )

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        if self.is_lr_wpan:
            stations = UnslottedCsma(cell, self._lr_wpan_parameters, _uniforms(cell.streams.rng("backoff")))
            cell.devices = stations
            return stations.serve()
        if self.senses == "by_power":
            return HiddenStations(
                cell,
                self.phy,
                lru_cache(_CACHED_SIZES)(self.frame_timing),
                self.open_rates(cell),
                self.open_backoff(cell),
                limit=self.max_attempts,
                threshold_dbm=self.threshold_dbm,
                after_error=self.wait_after_error,
            ).serve()
        has_one_rate = self.rate_adaptation is None and len(self.rates_bps) == 1
        if has_one_rate and len(cell.mode_rates_bps) == 1:
            contention = Contention(cell, self)
        else:
            contention = MultirateContention(cell, self)
        cell.devices = contention
        return contention.serve()

    def open_backoff(self, cell: Cell) -> Backoff:
        """Return the contention windows of the stations of *cell*."""
        uniforms = _uniforms(cell.streams.rng("backoff"))
        cw = self.phy.cw
        return Backoff(cell.size, cw, self.max_attempts, uniforms, keeps_window=self.keeps_window)

    def open_rates(self, cell: Cell) -> StationRates:
        """Return the rates of the stations of *cell*."""
        given_mbps = None
        if self.rate is not None or self.rate_adaptation is None:
            given_mbps = [self._rates_mbps[user if len(self._rates_mbps) > 1 else 0] for user in cell.ids.tolist()]
        return StationRates(cell, self.phy.rates, given_mbps, self.rate_adaptation)

    def laws(self) -> tuple[Law, ...]:
        """Claim the cycle of a lone station; the standard's freezing rule has no closed form for more stations.

        A cycle lasts T = DIFS + k slots + frame, SIFS and ACK, k uniform on 0 … CWmin, so that
        Var T = slot² CWmin (CWmin + 2) / 12.
        """
        if self.is_lr_wpan:
            return (self._lr_wpan_law(),)
        phy = self.phy
        shortest_s = (phy.difs + self.frame_timing(1.0).success) * 1e-9
        slot_s = phy.slot * 1e-9
        cw_min = phy.cw[0]

        def cdf(cycle_s: Floats) -> Floats:
            slots = np.floor((np.asarray(cycle_s) - shortest_s) / slot_s + 1e-3)
            return np.asarray(np.clip(slots + 1, 0, cw_min + 1) / (cw_min + 1))

        def cycles(streams: Streams, size: int) -> Floats:
            return self._lone_cycles_s(streams, size, shortest_s)

        return (
            Law(
                "time from success to success of a lone station, s",
                "DIFS + k slots + frame, SIFS and ACK, with k uniform on 0 … CWmin; "
                "more stations: scenarios/validation/dcf.yaml, beside a slot-exact reference",
                draw=cycles,
                mean=shortest_s + slot_s * cw_min / 2,
                variance=slot_s**2 * cw_min * (cw_min + 2) / 12,
                cdf=cdf,
            ),
        )

    def _lr_wpan_law(self) -> Law:
        """Return the claim of the cycle of a lone station of IEEE 802.15.4.

        A cycle lasts T = k periods + CCA + turnaround + frame [+ turnaround + ACK] + space, k uniform on 0 … 2^BE - 1.
        """
        frame_bits = 1.0 + self.header
        shortest = lr_wpan.CCA + lr_wpan.TURNAROUND + lr_wpan.frame_airtime(frame_bits)
        shortest += lr_wpan.frame_space(frame_bits)
        if self.acknowledge:
            shortest += lr_wpan.TURNAROUND + lr_wpan.ACK
        periods = 2**self.min_be
        period_s = lr_wpan.UNIT_BACKOFF * _NS

        def cdf(cycle_s: Floats) -> Floats:
            counted = np.floor((np.asarray(cycle_s) - shortest * _NS) / period_s + 1e-3)
            return np.asarray(np.clip(counted + 1, 0, periods) / periods)

        return Law(
            "time from success to success of a lone station, s",
            "k periods of 320 µs + CCA, turnaround, frame, turnaround, ACK and space, with k uniform on 0 … 2^BE - 1; "
            "more stations: tests/network/mac/test_unslotted_csma.py, beside an independent simulation",
            draw=lambda streams, size: self._lone_cycles_s(streams, size, shortest * _NS),
            mean=shortest * _NS + period_s * (periods - 1) / 2,
            variance=period_s**2 * (periods**2 - 1) / 12,
            cdf=cdf,
        )

    def _lone_cycles_s(self, streams: Streams, size: int, shortest_s: float) -> Floats:
        """Return the times from success to success of a lone saturated station, ``[size]``."""
        bench = MacTestBench(BenchSetup(self, 1, shortest_s, streams), saturated_users)
        while len(bench.deliveries) <= size:
            bench.env.step()
        return np.round(np.diff([received_s for _, _, received_s in bench.deliveries]), 9)  # whole nanoseconds

    @cached_property
    def _lr_wpan_parameters(self) -> CsmaParameters:
        """Parameters of the unslotted CSMA-CA of IEEE 802.15.4."""
        return CsmaParameters(
            min_be=self.min_be,
            max_be=self.max_be,
            max_backoffs=self.max_backoffs,
            senses=self.cca == "sense",
            acknowledges=self.acknowledge,
            max_retries=self.max_retries,
            header_bits=self.header,
            threshold_dbm=self.threshold_dbm if self.senses == "by_power" else None,
        )

    @cached_property
    def _rates_mbps(self) -> tuple[float, ...]:
        """Rate of all users, or of each, in Mb/s."""
        if self.rate is None:
            return self.phy.rates[:1]
        if isinstance(self.rate, tuple):
            return tuple(rate / 1e6 for rate in self.rate)
        return (self.rate / 1e6,)


@dataclass(slots=True)
class _Countdown:
    """A station whose slots do not begin with those of the others; times are ns from the begin of the idle period.

    Args:
        begin: time at which it begins to count.
        slots: number of slots that it counts.
        user: the station.
    """

    begin: int
    slots: int
    user: int

    def end(self, slot: int) -> int:
        """Return the time at which its counter runs out, with slots of *slot* ns."""
        return self.begin + self.slots * slot


class _SendingStation(NamedTuple):
    """A station whose frame is on the air, or has just ended.

    Args:
        ready_s: time from which it has the frame.
        received: outcome of each frame that was sent with it.
        place: its place among them.
    """

    ready_s: float
    received: Bools
    place: int


class Contention:
    """The stations of one cell that count down idle slots.

    Times within an idle period are whole nanoseconds from its beginning, so slots never drift apart.  Stations that
    wait with frozen counters are sorted by the *virtual slot* in which their counter runs out: the number of idle slots
    counted since the start of the run.  Virtual time stops in a busy period, which freezes all counters at no
    cost.  An event costs one heap operation, whatever the number of stations.

    A station that moves to another cell takes its window, its failures and the slots that it has left along.  There it
    waits for DIFS before it counts them.
    """

    def __init__(self, cell: Cell, mac: CsmaCa) -> None:
        phy = mac.phy
        self._cell = cell
        self._limit = mac.max_attempts
        self._timing = lru_cache(_CACHED_SIZES)(mac.frame_timing)
        self._slot = phy.slot
        self._difs = phy.difs
        self._backoff = mac.open_backoff(cell)

        # the present idle period
        self._wait = phy.difs  # idle time before slots are counted
        self._idle_since_s = 0.0
        self._period = 0  # its number
        self._virtual = 0  # idle slots counted before it
        self._is_busy = False  # whether it has ended, and the next one has not begun
        self._jammed_until_s = -inf  # end of the last burst of a jammer that stations have sensed

        # of each station
        self._due = [-1] * cell.size  # virtual slot in which the counter runs out
        self._drawn = [-1] * cell.size  # idle period before which the counter was drawn
        self._is_queued = [False] * cell.size  # whether it has a frame and contends
        self._was_waiting: set[int] = set()  # stations kept from sending a frame: they back off once they can send it
        self._slots_left: dict[int, int] = {}  # of stations that have come with a frame, until they join
        self._sending: dict[int, _SendingStation] = {}

        # stations by the time at which they send
        self._frozen: list[tuple[int, int]] = []  # heap of (virtual slot, station)
        self._late: list[_Countdown] = []
        self._coming: list[tuple[float, int]] = []  # heap of (time, station) of future frames

    def serve(self) -> Generator[simpy.Event, Any, None]:
        """Control the medium."""
        cell = self._cell
        env = cell.env
        while True:
            if cell.jamming is not None:
                yield from self._pass_bursts(cell.jamming.timeline)
            self._update_stations()
            offset = self._next_offset()
            start_s = inf if offset is None else self._idle_since_s + offset * _NS
            until_s = min(start_s, self._coming[0][0]) if self._coming else start_s
            if cell.jamming is not None and offset is not None:
                burst_s, _ = cell.jamming.timeline.ending_after(self._jammed_until_s)
                if burst_s < start_s - _SLACK_S:  # the medium becomes busy before a station sends
                    start_s = inf
                    until_s = min(until_s, max(burst_s, env.now))
                    offset = None
            can_skip_wait = cell.quiet and offset is not None  # nothing comes in between: attempt() may begin ahead
            if until_s > env.now + _SLACK_S and not can_skip_wait:
                yield cell.wait_for_change(until_s)
                if cell.changed or self._is_frame_due(until_s):
                    continue
            if start_s <= until_s and offset is not None:
                yield from self._send(offset)

    def _pass_bursts(self, bursts: BurstTimeline) -> Generator[simpy.Event, Any, None]:
        """Freeze all counters during the bursts of a jammer that have begun by now, and wait for the end of the last.

        Stations sense its energy, but no frame in error, so that they wait for DIFS after it.
        """
        env = self._cell.env
        while True:
            begin_s, end_s = bursts.ending_after(self._jammed_until_s)
            if begin_s > env.now + _SLACK_S:
                return
            self._jammed_until_s = end_s
            if end_s <= self._idle_since_s:  # within a busy period
                continue
            self._freeze(max(round((begin_s - self._idle_since_s) / _NS), 0))
            if end_s > env.now:
                yield self._cell.wait_until(end_s)
            self._is_busy = False
            self._idle_since_s = end_s
            self._wait = self._difs

    def _is_frame_due(self, time_s: float) -> bool:
        return bool(self._coming) and self._coming[0][0] <= time_s + _SLACK_S

    def _update_stations(self) -> None:
        """Take in the stations whose frames are new, gone or changed."""
        cell = self._cell
        now_s = cell.env.now
        if cell.changed:
            users = cell.changes()
            if cell.quiet:  # every changed user has a frame
                for user in users.tolist():
                    if not self._is_queued[user]:
                        self._join(user, now_s)
                return
            for user, ready_s in zip(users.tolist(), cell.ready_s[users].tolist(), strict=True):
                if ready_s > now_s:
                    self._withdraw(user)
                    if ready_s < inf:
                        heappush(self._coming, (ready_s, user))
                elif not self._is_queued[user]:
                    self._join(user, ready_s)
        while self._is_frame_due(now_s):
            ready_s, user = heappop(self._coming)
            if not self._is_queued[user] and cell.ready_s[user] == ready_s:  # else the frame has changed since
                self._join(user, ready_s)

    def _join(self, user: int, ready_s: float) -> None:
        """Queue a station with a new frame: its counter may still run, or have run out; then the medium decides."""
        offset = round((ready_s - self._idle_since_s) / _NS)
        slots_left = self._due[user] - self._virtual
        slots_counted = (offset - self._wait) // self._slot  # negative before slots are counted
        has_run_out = (
            slots_left < 0
            or slots_left <= slots_counted
            or (slots_left == 0 and self._drawn[user] != self._period)  # it ran out in an earlier idle period
        )
        was_waiting = user in self._was_waiting
        self._was_waiting.discard(user)
        self._is_queued[user] = True
        is_idle = slots_counted >= 0
        if user in self._slots_left:  # it has come with a frame: it listens for DIFS and counts the rest
            slots_left = self._slots_left.pop(user)
            if is_idle:
                self._late.append(_Countdown(offset + self._difs, slots_left, user))
            else:
                self._set_counter(user, slots_left)
                heappush(self._frozen, (self._due[user], user))
        elif is_idle and was_waiting:  # back after an outage: it listens for DIFS and backs off
            self._late.append(_Countdown(offset + self._difs, self._draw(user), user))
        elif is_idle and has_run_out:  # the medium has been idle for DIFS: it sends at once
            self._late.append(_Countdown(offset, 0, user))
        else:
            if has_run_out or was_waiting:  # the medium is busy
                self._draw(user)
            heappush(self._frozen, (self._due[user], user))

    def _withdraw(self, user: int) -> None:
        """Remove a station that has no frame any more, or is cut off."""
        is_cut_off = self._is_queued[user] and not self._cell.connected(np.array([user]))[0]
        if is_cut_off:
            self._was_waiting.add(user)
        self._is_queued[user] = False
        if user in self._slots_left:  # it has come with a frame, which has ended
            self._set_counter(user, self._slots_counted() + self._slots_left.pop(user))
        self._backoff.withdraw(user, is_cut_off=bool(is_cut_off))
        if self._late:
            self._late = [late for late in self._late if late.user != user]

    def _draw(self, user: int) -> int:
        """Draw and return the slots that a station counts down, uniform on 0 … CW."""
        slots = self._backoff.draw(user)
        self._set_counter(user, slots)
        return slots

    def _set_counter(self, user: int, slots: int) -> None:
        """Let a station count down *slots* from the beginning of the idle period on."""
        self._due[user] = self._virtual + slots
        self._drawn[user] = self._period

    def _next_offset(self) -> int | None:
        """Return when the next station sends, from the beginning of the idle period; ``None`` without a frame."""
        frozen = self._frozen
        while frozen and not self._is_valid(frozen[0]):
            heappop(frozen)
        offset = self._wait + (frozen[0][0] - self._virtual) * self._slot if frozen else None
        for late in self._late:
            late_offset = late.end(self._slot)
            if self._is_queued[late.user] and (offset is None or late_offset < offset):
                offset = late_offset
        return offset

    def _is_valid(self, entry: tuple[int, int]) -> bool:
        """Return whether an entry of the heap is that of the station's present counter."""
        due, user = entry
        return self._is_queued[user] and self._due[user] == due

    def _take(self, offset: int) -> list[int]:
        """Return the stations that send at *offset*, and remove them from the queue."""
        slot = self._slot
        frozen = self._frozen
        senders = dict[int, None]()  # a set that keeps the order
        while frozen and self._wait + (frozen[0][0] - self._virtual) * slot == offset:
            entry = heappop(frozen)
            if self._is_valid(entry):
                _, user = entry
                senders[user] = None
        for late in self._late:
            if late.end(slot) == offset and self._is_queued[late.user]:
                senders[late.user] = None
        for user in senders:
            self._is_queued[user] = False
        if self._late:
            self._late = [late for late in self._late if late.user not in senders]
        return list(senders)

    def _freeze(self, offset: int) -> None:
        """Stop all counters at *offset*, where a station begins to send."""
        slot = self._slot
        if offset > self._wait:
            self._virtual += (offset - self._wait) // slot
        for late in self._late:
            slots_counted = (offset - late.begin) // slot if offset > late.begin else 0
            self._due[late.user] = self._virtual + late.slots - slots_counted
            heappush(self._frozen, (self._due[late.user], late.user))
        self._late = []
        self._period += 1
        self._is_busy = True

    def _send(self, offset: int) -> Generator[simpy.Event, Any, None]:
        """Let the due stations send and process the outcome; if none of them can, the slot stays idle."""
        cell = self._cell
        due_stations = self._take(offset)
        senders = cell.drop_silent(due_stations)
        if len(senders) < len(due_stations):
            self._was_waiting.update(set(due_stations) - set(senders))
            if not senders:
                return
        self._freeze(offset)

        # a lone sender is on the air for its whole frame, several until the longest of their first frames ends
        users = np.array(senders)
        is_alone = len(senders) == 1
        timing = self._longest_timing(users)
        duration = timing.lead + timing.data if is_alone else timing.collision
        ready_s = cell.ready_s[users].tolist()
        start_s = self._idle_since_s + offset * _NS if cell.quiet else 0.0
        end = self._attempt(users, duration, start_s)
        outcomes = np.asarray(end.value)  # filled in as the frames end
        for place, user in enumerate(senders):
            self._sending[user] = _SendingStation(ready_s[place], outcomes, place)
        yield end
        received = outcomes.tolist()

        # the next idle period begins; senders that failed count slots from *begin* on
        self._is_busy = False
        self._idle_since_s = cell.env.now
        answer = timing.success - duration
        begin = timing.timeout
        if True in received:  # all stations wait for the end of the ACK
            self._idle_since_s = cell.env.now + answer * _NS
            self._wait = self._difs
            begin = self._difs
        elif is_alone:  # bystanders have decoded the frame, and leave room for its ACK
            self._wait = answer + self._difs
        else:
            self._wait = timing.bystanders

        # each sender draws its next counter, except those that have left as their frames ended
        for user in senders:
            if user not in self._sending:
                continue
            is_success, has_frame = self._take_outcome(user)
            slots = self._draw(user)
            if not is_success and (has_frame or cell.ready_s[user] <= cell.env.now):
                self._is_queued[user] = True
                self._late.append(_Countdown(self._end_of_timeout(user, begin), slots, user))

    def _longest_timing(self, users: Users) -> FrameTiming:
        """Return the timing of the frame of *users* that lasts longest in a collision."""
        sizes = self._cell.sizes(users)
        if len(sizes) == 1:  # the size of all frames
            return self._timing(sizes[0])
        return max(map(self._timing, sizes), key=_COLLISION)

    def _attempt(self, users: Users, duration: int, start_s: float) -> simpy.Event:
        """Let *users* send for *duration*, in a quiet cell from *start_s* on; return the event of their outcomes."""
        return self._cell.attempt(users, duration_s=duration * _NS, limit=self._limit, begin_s=start_s)

    def _end_of_timeout(self, user: int, begin: int) -> int:
        """Return from when on a station that failed counts slots; *begin* is that of the longest of the frames."""
        return begin

    def _take_outcome(self, user: int) -> tuple[bool, bool]:
        """Change the window of a station whose frame has ended.

        Returns:
            Whether the frame was received, and whether the station still has it.
        """
        station = self._sending.pop(user)
        is_success = bool(station.received[station.place])
        has_frame = self._cell.quiet or bool(self._cell.ready_s[user] == station.ready_s)
        self._backoff.end_attempt(user, is_success=is_success, has_frame=has_frame)
        return is_success, has_frame

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        slots_left = []
        for user in users.tolist():
            if user in self._sending:  # its frame has ended at this instant
                self._take_outcome(user)
                slots_left.append(self._draw(user))
            elif user in self._was_waiting:
                slots_left.append(self._draw(user))
            else:
                slots_left.append(self._slots_left_of(user))
        row = {**self._backoff.take(users), "slots_left": np.array(slots_left)}
        leaving = set(users.tolist())
        self._late = [late for late in self._late if late.user not in leaving]
        self._was_waiting -= leaving
        for user in leaving:
            self._is_queued[user] = False
            self._slots_left.pop(user, None)
        return row

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self._backoff.put(users, row)
        is_ready = self._cell.ready_s[users] <= self._cell.env.now
        for place, user in enumerate(users.tolist()):
            slots_left = int(row["slots_left"][place])
            if is_ready[place]:
                self._slots_left[user] = slots_left
            else:  # it counts in idle slots from now on
                self._set_counter(user, self._slots_counted() + slots_left)

    def _slots_left_of(self, user: int) -> int:
        """Return the idle slots that a station has not counted yet."""
        if user in self._slots_left:
            return self._slots_left[user]
        offset = self._offset_of_now()
        for late in self._late:
            if late.user == user:
                return late.slots - max((offset - late.begin) // self._slot, 0)
        return max(self._due[user] - self._virtual - self._slots_counted(), 0)

    def _slots_counted(self) -> int:
        """Return the idle slots that stations have counted in the present idle period, if there is one."""
        if self._is_busy:
            return 0
        return max((self._offset_of_now() - self._wait) // self._slot, 0)

    def _offset_of_now(self) -> int:
        return round((self._cell.env.now - self._idle_since_s) / _NS)


class MultirateContention(Contention):
    """Stations that sense each other, and send their frames at rates of their own.

    What the rate adaptation knows of a station moves with it, too.
    """

    def __init__(self, cell: Cell, mac: CsmaCa) -> None:
        Contention.__init__(self, cell, mac)
        self._rates = mac.open_rates(cell)
        self._control_rate = mac.phy.control_rate
        self._sent: dict[int, tuple[FrameTiming, float]] = {}  # timing and rate of the last frame of each station
        self._is_alone = False  # whether one station sends
        self._longest = 0  # duration of the longest of the frames that collide

    def _longest_timing(self, users: Users) -> FrameTiming:
        sizes = np.broadcast_to(self._cell.sizes(users), len(users)).tolist()
        timings = []
        for user, bits in zip(users.tolist(), sizes, strict=True):
            rate_mbps = self._rates.choose(user)
            timing = self._timing(bits, rate_mbps)
            self._sent[user] = timing, rate_mbps
            timings.append(timing)
        return max(timings, key=_COLLISION)

    def _attempt(self, users: Users, duration: int, start_s: float) -> simpy.Event:
        sent = [self._sent[user] for user in users.tolist()]
        self._is_alone = len(sent) == 1
        if self._is_alone:
            ((_, rate_mbps),) = sent
            mode = self._rates.mode_of(rate_mbps)
            return self._cell.attempt(users, duration_s=duration * _NS, limit=self._limit, begin_s=start_s, mode=mode)
        self._longest = duration
        durations_s = np.array([timing.collision * _NS for timing, _ in sent])
        first_rates = [self._control_rate(rate) if timing.rts else rate for timing, rate in sent]
        modes = np.array([self._rates.mode_of(rate) for rate in first_rates])
        return self._cell.attempt(users, duration_s=durations_s, limit=self._limit, begin_s=start_s, mode=modes)

    def _end_of_timeout(self, user: int, begin: int) -> int:
        if self._is_alone:
            return begin
        timing, _ = self._sent[user]  # its time-out began at the end of its own frame
        return max(self._difs, begin - (self._longest - timing.collision))

    def _take_outcome(self, user: int) -> tuple[bool, bool]:
        timing, _ = self._sent[user]
        is_success, has_frame = Contention._take_outcome(self, user)
        if self._is_alone or not timing.rts:  # an RTS that collides says nothing of the rate of the data
            self._rates.record(user, is_success=is_success)
        return is_success, has_frame

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        row = Contention.take(self, users)  # first: it takes the outcomes of frames that end now
        return {**row, "rates": self._rates.take(users)}

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        Contention.put(self, users, row)
        self._rates.put(users, row["rates"])


def _uniforms(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_DRAWS).tolist()
