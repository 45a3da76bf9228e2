"""LoRaWAN, class A: ALOHA on several channels and spreading factors, with a limited duty cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import ArrayLike
from pydantic import Field, model_validator

from netfl.core.spec import ByForm, Spec
from netfl.errors import Fault, ScenarioError
from netfl.network.mac import BufferedDraws, IdleTime, Mac
from netfl.network.mac._hopping import ChannelOrders, Hopping, check_hopping, open_orders, permutation_law
from netfl.network.mac._lorawan_acknowledgements import (
    PHY_BYTES,
    RX2_DELAY_S,
    AcknowledgedUplinks,
    Acknowledgements,
    ConfirmedUplink,
)
from netfl.network.mac._unslotted import UnslottedCell
from netfl.network.radio.bench import BenchSetup, attempt_outcomes, failed_attempts
from netfl.network.radio.cell import Cell
from netfl.network.radio.receiver import ReceiverLimits
from netfl.network.reception import Reception
from netfl.network.reception.lora import FACTORS, Lora, fastest_mode, fastest_mode_of
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law, StatisticClaim, Users
from netfl.units import Decibels, Hertz

OVERHEAD_BYTES = 13
"""Bytes that a LoRaWAN uplink adds to its application payload: MHDR 1, FHDR 7 without options, FPort 1, MIC 4."""
MAX_PAYLOAD_BYTES = np.array([222, 222, 115, 51, 51, 51])
"""Largest application payload of each mode, SF7 to SF12 at 125 kHz, in EU868 where repeaters are allowed for."""
_MAX_PAYLOAD_BYTES: list[int] = MAX_PAYLOAD_BYTES.tolist()
_OPTIMISED_FROM_S = 16e-3
"""Low data rate optimisation is mandatory for longer symbols."""
_ACK_TIMEOUT_S = (1.0, 3.0)
"""Range of ACK_TIMEOUT, called RETRANSMIT_TIMEOUT from 1.0.4 on (RP002-1.0.4, §3.3)."""
_ATTEMPTS = {"1.0.3": 8, "1.0.4": 1}
"""Attempts of a confirmed uplink by default: recommended in 1.0.3, and NbTrans of 1.0.4."""
_SENDS_PER_RATE = 2
"""Attempts at one data rate, with version 1.0.3, before the next lower one."""
_BANDWIDTHS_HZ = (125e3, 250e3, 500e3)
_RASTER = 1.6
"""Distance of the centre frequencies of neighbouring channels over the bandwidth, as in EU868: 200 kHz at 125 kHz."""
_MARGIN_DB = 10.0
_LAW_USERS, _LAW_LOAD = 2000, 0.4
_MIN_ROWS, _ATTEMPTS_PER_ROW = 100, 200


def time_on_air_s(
    phy_bytes: ArrayLike, modes: ArrayLike, bandwidth_hz: float, coding: int = 1, preamble: int = 8, *, crc: bool = True
) -> Floats:
    """Return the time on air of LoRa frames with explicit header.

    T = 2^SF / B.  The preamble takes (n + 4.25) T, the rest 8 + max(ceil((8 PL - 4 SF + 28 + 16 CRC) / (4 (SF - 2
    DE))) (CR + 4), 0) symbols; DE is 1 where T exceeds 16 ms (Semtech, SX1276 data sheet, §4.1.1.6 and §4.1.1.7;
    AN1200.13).

    Args:
        phy_bytes: PL, the physical payload.
        modes: spreading factors minus 7.
        bandwidth_hz: B.
        coding: CR, 1 for code rate 4/5 to 4 for 4/8.
        preamble: n, its programmed symbols.
        crc: CRC, whether they have a checksum of the payload, as uplinks do.

    >>> (1e3 * time_on_air_s(64, [0, 5], 125e3)).round(3).tolist()
    [118.016, 2793.472]
    """
    factor = FACTORS[np.asarray(modes)]  # SF
    symbol_s = 2.0**factor / bandwidth_hz  # T
    is_optimised = symbol_s > _OPTIMISED_FROM_S  # DE
    checked_bits = 44 if crc else 28
    blocks = np.ceil((8 * np.asarray(phy_bytes) - 4 * factor + checked_bits) / (4 * (factor - 2 * is_optimised)))
    return np.asarray((preamble + 4.25 + 8 + np.maximum(blocks * (coding + 4), 0)) * symbol_s)


class SubBand(Spec):
    """Channels that share one duty cycle."""

    channels: Annotated[int, Field(ge=1, le=10_000)] = 3
    """Number of channels."""
    duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Maximum share of time that a user may be on the air, over all of these channels."""
    frequencies: Annotated[tuple[Annotated[Hertz, Field(gt=0)], ...], Field(min_length=1)] | None = None
    """Centre frequency of each channel, such as ``[868.1 MHz, 868.3 MHz, 868.5 MHz]``, for gains that differ by
    frequency; ``null``: channel n of all sub-bands is at n times 1.6 B, 200 kHz at 125 kHz."""

    @model_validator(mode="after")
    def _check_frequencies(self) -> SubBand:
        if self.frequencies is not None and len(self.frequencies) != self.channels:
            problem = f"frequencies has {len(self.frequencies)} values for {self.channels} channels"
            raise ValueError(f"{problem}; give one for each channel")
        return self


class Lorawan(Mac):
    """Class A uplinks: sent at once on a random channel, and again after a random time without acknowledgement.

    **Time on the air** is that of a LoRa frame of the update's bytes and 13 more of MAC headers, by the spreading
    factor (Semtech, SX1276 data sheet, §4.1.1.7).  An update may have 222 bytes at SF7 and SF8, 115 at SF9 and 51 above
    (LoRaWAN Regional Parameters, EU868, where repeaters are allowed for).  With a fixed or random factor a larger one
    is an error.  ``adaptive`` factors stay small enough for the update: a user whose signal needs a larger factor sends
    in vain, and `netfl check` warns of it.

    **Duty cycle.**  After a time A on the air in a sub-band its sender leaves it for A / duty_cycle - A.  It picks
    any channel of the sub-bands that it may use, and waits for the first that it may use if there is none.

    **Hopping.**  Devices differ in how they choose the channel of an uplink.  With ``hopping: permutation`` each draws
    one order of all channels and repeats it: with C channels the same one comes again after exactly C uplinks, repeats
    included.  A list is the order of all devices, which begin at its start, by the numbers of the channels from 0 over
    all sub-bands; a channel may occur several times.  A device then waits until the sub-band of its next channel is
    open.

    **Idle time** ends the waits of the duty cycle and of the receive windows, which the clock alone determines.

    **Retries.**  A user sends nothing else before the second receive window, 2 s after the end of an uplink, and after
    an uplink without acknowledgement not before a random ACK_TIMEOUT.  It then repeats the uplink on a channel that it
    draws again, or sends a newer update that has replaced it.  The versions differ in two points:

    - ``1.0.3`` leaves the number of attempts to the device (§4.3.1.3), and strongly recommends eight: the third and
      fourth use the next lower data rate, the fifth and sixth the one below that, and so on down to SF12 (§18.4).
    - ``1.0.4`` sends a frame NbTrans times, once by default, at one data rate (TS001-1.0.4, §4.3.1.3).

    Our choices, where the specification says nothing: a data rate is not lowered so far that the update would be too
    large for it; and the random ACK_TIMEOUT, uniform between 1 and 3 s, starts at the second receive window or, if that
    is later, when the duty cycle allows the user to send again.  If it started at the receive window in any case, the
    silence of the duty cycle, a minute or more, would outlast it, and users that collide once would collide for ever.
    An uplink that needs more than one or two seconds of airtime stays synchronised with others for many attempts.

    Unconfirmed uplinks are sent once; repeats of them without regard to their reception, as NbTrans allows in 1.0.4,
    are not modelled.  Acknowledgements take no airtime and are never lost, unless ``acknowledgements`` says how they
    are sent.  A user whose uplink was received, but not its acknowledgement, repeats it as one that failed; the gateway
    discards the duplicate, which takes airtime and energy.

    **Gateways** receive any number of frames, also while they send, unless ``demodulators`` and ``half_duplex`` limit
    them.  A frame takes a demodulator from its start to its end if it is strong enough to be received alone, and also
    if it collides.  Of frames that come as a Poisson process of a erlangs, all in channels of their own, k demodulators
    miss the share (aᵏ / k!) / Σ_(i ≤ k) aⁱ / i! (Erlang's loss formula).

    **Interference.**  Frames on the same channel with the same spreading factor interfere; different factors are
    orthogonal by default.  With ``access.interference: collide`` overlapping frames are lost.  With ``capture`` one is
    spared that is stronger by ``margin``, 6 dB for LoRa.  With ``sinr`` the thresholds of `lora` decide, for each pair
    of spreading factors.

    Exact: n senders that are silent for a fixed time of one airtime T at least and then for an exponential one, a cycle
    of μ in all, and pick one of M channels, are received with probability (1 - 2 T / (M μ))^(n-1): a user that begins
    to send within 2 T does so once.  For large n that is exp(-2 G), G = n T / (M μ) attempts per airtime and channel.

    Example::

        kind: lorawan
        spreading_factor: 7
        sub_bands:
          - {channels: 3, duty_cycle: 0.01}
          - {channels: 5, duty_cycle: 0.01}
        version: 1.0.3
        max_attempts: 8
    """

    version: Literal["1.0.3", "1.0.4"] = "1.0.3"
    """Version of the specification, which gives the attempts of an uplink and their data rates."""
    spreading_factor: Annotated[Annotated[int, Field(ge=7, le=12)] | Literal["adaptive", "random"], ByForm()] = (
        "adaptive"
    )
    """7 to 12; ``random``, drawn once for each user; or ``adaptive``, the lowest that the SNR allows at each attempt,
    with ``version: 1.0.3`` at the first of an update."""
    margin: Annotated[Decibels, Field(ge=0)] | None = None
    """SNR margin over the threshold of a spreading factor, for ``adaptive`` only; ``null`` is 10 dB."""
    sub_bands: Annotated[tuple[SubBand, ...], Field(min_length=1)] = (SubBand(),)
    """Channels and their duty cycles; by default the three channels of all EU868 devices, at 1 %."""
    hopping: Hopping = "random"
    """Channel of each uplink: ``random``; ``permutation``, one order of all channels for each device; or a list of
    channels, from 0, the order of all devices."""
    max_attempts: Annotated[int, Field(ge=1, le=15)] | None = None
    """Attempts after which an update is given up, NbTrans in ``1.0.4``; ``null`` is the number of the version, 8 in
    ``1.0.3`` and 1 in ``1.0.4``, or 1 without ``confirmed``."""
    confirmed: bool | None = None
    """``true``: users wait for an acknowledgement, and for an ACK_TIMEOUT without one; ``null`` is ``true`` unless
    ``max_attempts`` is 1."""
    bandwidth: Hertz = 125e3
    """B of the signal, 125, 250 or 500 kHz; the same as the radio's."""
    code_rate: Literal["4/5", "4/6", "4/7", "4/8"] = "4/5"
    """Information bits over bits sent."""
    preamble: Annotated[int, Field(ge=6)] = 8
    """Its programmed symbols."""
    orthogonal: bool = True
    """Whether different spreading factors on one channel do not interfere."""
    demodulators: Annotated[int, Field(ge=1)] | None = None
    """Frames that a gateway receives at once, over all channels and spreading factors, such as 8 of the SX1301;
    ``null`` is any number.  A frame that begins while all are taken is lost, with the cause ``busy``."""
    half_duplex: bool = False
    """Whether a gateway receives nothing while it sends a version of the ``downlink``, or one of the
    ``acknowledgements``: frames that are on the air at any time of it are lost, with the cause ``busy``."""
    acknowledgements: Acknowledgements | None = None
    """Acknowledgements that take airtime of the gateway and can be lost, such as ``{}`` with the duty cycles of EU868;
    ``null``: they take no airtime and are never lost."""

    @model_validator(mode="after")
    def _check_frequencies(self) -> Lorawan:
        is_given = [band.frequencies is not None for band in self.sub_bands]
        if any(is_given) and not all(is_given):
            missing = is_given.index(False)
            problem = f"sub_bands.{missing} has no frequencies, but others have"
            raise ValueError(f"{problem}; give those of all sub-bands, or of none")
        return self

    @model_validator(mode="after")
    def _check_order(self) -> Lorawan:
        check_hopping(self.hopping, self._channels)
        return self

    @model_validator(mode="after")
    def _check_keys(self) -> Lorawan:
        if self.bandwidth not in _BANDWIDTHS_HZ:
            raise ValueError(f"bandwidth is {self.bandwidth:g} Hz; give 125 kHz, 250 kHz or 500 kHz")
        if self.margin is not None and self.spreading_factor != "adaptive":
            raise ValueError("margin has an effect on adaptive spreading factors only; leave it out")
        if self.confirmed is False and self.max_attempts not in {None, 1}:
            problem = f"max_attempts is {self.max_attempts}, but unconfirmed uplinks are sent once"
            raise ValueError(f"{problem}; leave it out, or set confirmed: true")
        if self.acknowledgements is not None and not self.is_confirmed:
            raise ValueError("acknowledgements have no effect on unconfirmed uplinks; set confirmed: true")
        return self

    @property
    def idle_time(self) -> IdleTime:
        return "expires"

    @property
    def bandwidth_hz(self) -> float:
        return self.bandwidth

    def channels_hz(self, bandwidth_hz: float) -> Floats | None:
        """Return the frequencies of the sub-bands, or a raster of 1.6 B as that of EU868, 200 kHz at 125 kHz."""
        if self._channels == 1:
            return None
        given_hz = [each for band in self.sub_bands for each in band.frequencies or ()]
        if given_hz:
            return np.array(given_hz)
        return np.asarray(_RASTER * self.bandwidth * np.arange(self._channels), np.float64)

    @property
    def _channels(self) -> int:
        """Number of channels of all sub-bands."""
        return sum(band.channels for band in self.sub_bands)

    @property
    def codes_per_channel(self) -> int:
        return len(FACTORS) if self.orthogonal else 1

    @property
    def frequency_keys(self) -> tuple[str, ...]:
        bands = enumerate(self.sub_bands)
        return tuple(f"sub_bands.{index}.frequencies" for index, band in bands if band.frequencies is not None)

    @property
    def tower_answers(self) -> bool:
        return self.acknowledgements is not None

    @property
    def receiver_limits(self) -> ReceiverLimits | None:
        if self.demodulators is None and not self.half_duplex:
            return None
        return ReceiverLimits(self.demodulators, self.half_duplex)

    @property
    def attempt_limit(self) -> int:
        if self.max_attempts is not None:
            return self.max_attempts
        return _ATTEMPTS[self.version] if self.is_confirmed else 1

    @property
    def is_confirmed(self) -> bool:
        """True if users wait for acknowledgements."""
        return self.max_attempts != 1 if self.confirmed is None else self.confirmed

    def max_airtime_s(self, bits: float, slowest_bps: float) -> float:
        """Return the airtime with the largest spreading factor that is used and holds the payload."""
        payload = math.ceil(bits / 8.0)
        mode = _slowest_mode(payload)
        if isinstance(self.spreading_factor, int):
            first_mode = self.spreading_factor - int(FACTORS[0])
            mode = self._retry_mode(first_mode, payload, self.attempt_limit - 1)
        return self._airtime_s(payload, mode)

    def frame_times_s(self, bits: float, snr_db: Floats, airtime_s: Floats) -> tuple[Floats, Floats]:
        """Return the times of a first attempt; with A of airtime the next frame comes A / Σ duty cycles later.

        In an order of channels in which a sub-band of duty cycle d has the share h, that is A h / d in the mean, for
        the sub-band with the largest.  With ``random`` factors it is that of the lowest.
        """
        payload = math.ceil(bits / 8.0)
        factor = self.spreading_factor
        if isinstance(factor, int):
            modes = [factor - int(FACTORS[0])] * len(snr_db)
        elif factor == "random":
            modes = [0] * len(snr_db)
        else:
            margin_db = _MARGIN_DB if self.margin is None else self.margin
            slowest_mode = _slowest_mode(payload)
            modes = [min(fastest_mode_of(each_db - margin_db), slowest_mode) for each_db in snr_db.tolist()]
        airtime_of = {mode: self._airtime_s(payload, mode) for mode in {*modes}}
        airtime_s = np.array([airtime_of[mode] for mode in modes])
        duty_cycle = sum(band.duty_cycle for band in self.sub_bands)
        if self.hopping != "random":
            order = range(self._channels) if isinstance(self.hopping, str) else self.hopping
            band_of = [index for index, band in enumerate(self.sub_bands) for _ in range(band.channels)]
            shares = np.bincount([band_of[channel] for channel in order], minlength=len(self.sub_bands)) / len(order)
            duty_cycle = 1.0 / max(
                share / band.duty_cycle for share, band in zip(shares.tolist(), self.sub_bands, strict=True)
            )
        return airtime_s, np.maximum(airtime_s / duty_cycle, airtime_s + RX2_DELAY_S)

    def _retry_mode(self, first_mode: int, payload: int, failures: int) -> int:
        """Return the mode after failed attempts of an update whose first attempt was in *first_mode*."""
        if self.version == "1.0.4":
            return first_mode
        lowered = first_mode + failures // _SENDS_PER_RATE
        return max(first_mode, min(lowered, _slowest_mode(payload)))

    def reception_faults(self, reception: Reception) -> Iterator[Fault]:
        if reception.modes > 1 and not isinstance(reception, Lora):
            problem = "lorawan sets the spreading factor, but the modes of this reception are no spreading factors"
            yield Fault("", problem, None, "take reception: lora, or one with a single mode")

    def link_warnings(self, bits: float, mean_snr_db: Callable[[], Floats]) -> Iterator[str]:
        """Warn of users whose signal needs a larger spreading factor than the one that holds their frames."""
        payload = math.ceil(bits / 8.0)
        if self.spreading_factor != "adaptive" or payload > MAX_PAYLOAD_BYTES[0]:
            return  # a frame that is too large is an error
        slowest_mode = _slowest_mode(payload)
        needed_modes = fastest_mode(mean_snr_db())
        users = np.flatnonzero(needed_modes > slowest_mode)
        if not users.size:
            return
        needed = needed_modes.max()
        yield (
            f"frames too large for their spreading factor: the mean signal of {users.size} of {len(needed_modes)} "
            f"users, such as user {users[0]}, needs up to SF{FACTORS[needed]}, which allows "
            f"{MAX_PAYLOAD_BYTES[needed]} bytes; they send {payload} bytes at SF{FACTORS[slowest_mode]}, and are not "
            "received; send smaller frames (access.transport)"
        )

    @property
    def observes(self) -> tuple[str, ...]:
        if self.spreading_factor == "adaptive":
            return ("snr_db",)
        return ()

    @property
    def observer(self) -> Literal["tower", "users"]:
        return "users"

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        devices = _ClassADevices(self, cell)
        cell.devices = devices
        return devices.unslotted.serve(devices.plan, devices.send)

    def _airtime_s(self, payload: int, mode: int) -> float:
        coding = int(self.code_rate[2]) - 4
        airtime_s = time_on_air_s(payload + OVERHEAD_BYTES, mode, self.bandwidth, coding=coding, preamble=self.preamble)
        return float(airtime_s)

    def _answer_s(self, mode: int) -> float:
        """Return the airtime of an acknowledgement."""
        coding = int(self.code_rate[2]) - 4
        airtime_s = time_on_air_s(PHY_BYTES, mode, self.bandwidth, coding=coding, preamble=self.preamble, crc=False)
        return float(airtime_s)

    def _fixed_modes(self, cell: Cell) -> list[int]:
        """Return the mode of each device of a cell, ``[size]``; without effect if it is adaptive."""
        if isinstance(self.spreading_factor, int):
            return [self.spreading_factor - int(FACTORS[0])] * cell.size
        draws = cell.streams.field("spreading_factor").uniform(cell.ids)
        modes: list[int] = (6.0 * draws).astype(np.int64).tolist()
        return modes

    def _adaptive_mode(self, snr_db: float, payload: int) -> int:
        """Return the mode of the first attempt of an update with this payload, at this SNR."""
        margin_db = _MARGIN_DB if self.margin is None else self.margin
        return min(fastest_mode_of(snr_db - margin_db), _slowest_mode(payload))

    def laws(self) -> tuple[Law, ...]:
        """Claim that an unconfirmed uplink is received with (1 - 2 T / (M μ))^(n-1), and the wait before a retry.

        With a given order of channels, devices that begin together keep in step for long.  In an order of several
        sub-bands a retry also waits for that of its channel.
        """
        if not isinstance(self.hopping, str):
            return (Law.none("the order of channels is given"),)
        update: dict[str, Any] = {"max_attempts": 1, "confirmed": False}
        if self.spreading_factor == "random":  # one factor for all, as the claim is about equal users
            update["spreading_factor"] = 7
        model = self.model_copy(update=update)
        factor = model.spreading_factor if isinstance(model.spreading_factor, int) else int(FACTORS[0])
        airtime_s = model._airtime_s(1, factor - int(FACTORS[0]))
        silences_s = [airtime_s / band.duty_cycle - airtime_s for band in self.sub_bands]
        off_s = max(RX2_DELAY_S, airtime_s, *silences_s)
        cycle_s = airtime_s + 2.0 * off_s
        channels = self._channels
        users = min(max(2, round(_LAW_LOAD * channels * cycle_s / airtime_s)), _LAW_USERS)
        share = (1.0 - 2.0 * airtime_s / (channels * cycle_s)) ** (users - 1)

        def draw(streams: Streams, size: int) -> tuple[Floats, Floats]:
            rng = streams.rng("pauses")
            rows = max(_MIN_ROWS, size // _ATTEMPTS_PER_ROW)

            def next_ready(sleepers: Ints, now: float) -> Floats:
                return now + off_s * (1.0 + rng.exponential(size=len(sleepers)))

            span_s = _ATTEMPTS_PER_ROW * cycle_s / users
            return attempt_outcomes(BenchSetup(model, users, airtime_s, streams), next_ready, span_s, rows)

        statement = (
            f"(1 - 2 T / (M μ))^(n-1), n = {users} users, M = {channels} channels, T = {1e3 * airtime_s:.4g} ms "
            f"(1 byte at SF{factor}), a cycle of μ = {cycle_s:.4g} s; tends to exp(-2 G)"
        )
        claim = StatisticClaim("share", statement, draw, (share,))
        laws = [Law("uplinks that are received", statement, statistics=(claim,))]
        if self.hopping == "random" or len(self.sub_bands) == 1:
            laws.append(self._retry_law(factor))
        if self.hopping == "permutation":
            laws.append(permutation_law(channels))
        return tuple(laws)

    def _retry_law(self, factor: int) -> Law:
        """Return the claim about the wait before a retry, of users that all begin at once and are never received."""
        from scipy import stats

        if len(self.sub_bands) == 1:
            limit = max(2, self.attempt_limit)
            duty_cycle = self.sub_bands[0].duty_cycle
        else:  # after the first attempt another sub-band is open
            limit = 2
            duty_cycle = 1.0
        retries = {"max_attempts": limit, "confirmed": True, "spreading_factor": factor, "margin": None}
        model = self.model_copy(update=retries)

        def draw(streams: Streams, size: int) -> Floats:
            users = math.ceil(size / (limit - 1))
            starts_s, ends_s = failed_attempts(BenchSetup(model, users, 1.0, streams), limit)
            airtimes_s = (ends_s - starts_s)[:, :-1]
            silences_s = np.maximum(RX2_DELAY_S, airtimes_s / duty_cycle - airtimes_s)
            return np.asarray(starts_s[:, 1:] - ends_s[:, :-1] - silences_s).ravel()

        min_s, max_s = _ACK_TIMEOUT_S
        statement = (
            "uniform on [1, 3], independent: ACK_TIMEOUT from the second receive window on, or from when the duty "
            "cycle allows sending again"
        )
        distribution = stats.uniform(min_s, max_s - min_s)
        return Law("wait of a retry in s", statement, draw, distribution=distribution)


class _ClassADevices:
    """The users of a cell, which send when their duty cycles, receive windows and time-outs allow it.

    All of these move with a device (`netfl.network.radio.device_state.DeviceState`).  Draws are those of the cell.
    """

    def __init__(self, mac: Lorawan, cell: Cell) -> None:
        self.unslotted = UnslottedCell(cell)
        self._mac = mac
        self._cell = cell
        self._orders = open_orders(mac.hopping, cell.streams.field("hopping"), cell.ids, mac._channels)
        self._duty = _DutyCycle(cell, mac.sub_bands, self._orders)
        self._timeouts = BufferedDraws(cell.streams.field("ack_timeout").uniform, cell.ids)
        self._fixed_modes = mac._fixed_modes(cell)
        self._first_modes = [0] * cell.size
        self._free_s = [-math.inf] * cell.size  # end of the time-out after a failed attempt
        self._drawn_for_s = [math.nan] * cell.size  # the receive window from which it was counted
        self._is_confirmed = mac.is_confirmed
        self._limit = mac.attempt_limit
        self._airtimes_s = cache(mac._airtime_s)
        self._uplinks: AcknowledgedUplinks | None = None
        if mac.acknowledgements is not None:
            answer_s = [mac._answer_s(mode) for mode in range(len(FACTORS))]
            self._uplinks = AcknowledgedUplinks(cell, self.unslotted, mac.acknowledgements, answer_s)
            self.unslotted.send_again = partial(self._send_again, self._uplinks)

    def plan(self, users: Ints) -> list[float]:
        """Return the time of the next attempt of each of *users*."""
        ready_s = self._cell.ready_s
        return [self._next_attempt_s(user, float(ready_s[user])) for user in users.tolist()]

    def _next_attempt_s(self, user: int, ready_s: float) -> float:
        window_s = float(self.unslotted.over_s[user]) + RX2_DELAY_S
        has_failed = bool(self.unslotted.has_failed[user])
        if self._uplinks is not None and user in self._uplinks.last:
            uplink = self._uplinks.last[user]
            if uplink.is_awaited:
                return math.inf
            window_s = max(window_s, uplink.answered_s)
            has_failed = has_failed or uplink.is_unanswered
            if uplink.is_unanswered and uplink.attempts < self._limit:  # it is repeated, unless a newer one is ready
                ready_s = window_s
        if not (self._is_confirmed and has_failed):
            return self._duty.open_s(user, max(ready_s, window_s))
        if self._drawn_for_s[user] != window_s:
            # the time-out starts here: the silence of the duty cycle would outlast one from the receive window
            min_s, max_s = _ACK_TIMEOUT_S
            timeout_s = min_s + (max_s - min_s) * self._timeouts.next_of(user)
            self._free_s[user] = self._duty.open_s(user, window_s) + timeout_s
            self._drawn_for_s[user] = window_s
        return self._duty.open_s(user, max(ready_s, self._free_s[user]))

    def send(self, users: Ints) -> None:
        """Let *users* send the frames of their queues."""
        channels = []
        modes = []
        durations_s = []
        payloads = [math.ceil(bits / 8.0) for bits in self._cell.sizes(users)]
        if len(payloads) < len(users):
            payloads *= len(users)  # all frames have one size
        for user, payload in zip(users.tolist(), payloads, strict=True):
            failures = int(self.unslotted.failures[user])
            if failures == 0:
                self._first_modes[user] = self._choose_mode(user, payload)
            mode = self._mac._retry_mode(self._first_modes[user], payload, failures)
            airtime_s = self._airtimes_s(payload, mode)
            channels.append(self._take_channel(user, airtime_s, mode))
            modes.append(mode)
            durations_s.append(airtime_s)
        if self._uplinks is None:
            self.unslotted.send(users, self._limit, durations_s, channel=channels, mode=modes)
            return
        for place, user in enumerate(users.tolist()):  # each ends by itself, and has an answer of its own
            only = slice(place, place + 1)
            options = {"channel": channels[only], "mode": modes[only]}
            end = self.unslotted.send(users[only], self._limit, durations_s[only], **options)
            attempts = int(self.unslotted.failures[user]) + 1
            frame = self._cell.frame_on_air(user)
            self._uplinks.last[user] = ConfirmedUplink(self._uplinks, user, frame, self._first_modes[user], attempts)
            self._uplinks.note_attempt(user, modes[place], end)

    def _send_again(self, uplinks: AcknowledgedUplinks, user: int) -> None:
        """Let a user repeat an uplink that was received, but not answered."""
        uplink = uplinks.last[user]
        if not self._cell.can_repeat(user):
            uplink.attempts = self._limit  # it gives up, and may send its next frame
            self.unslotted.replan(user)
            return
        payload = math.ceil(float(uplink.duplicate.bits) / 8.0)
        mode = self._mac._retry_mode(uplink.first_mode, payload, uplink.attempts)
        airtime_s = self._airtimes_s(payload, mode)
        channel = self._take_channel(user, airtime_s, mode)
        end = self.unslotted.repeat(user, uplink.duplicate, airtime_s, channel=channel, mode=mode)
        uplink.attempts += 1
        uplinks.note_attempt(user, mode, end)

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        places = users.tolist()
        row: dict[str, Any] = {
            "unslotted": self.unslotted.take(users),
            "open_s": self._duty.take(users),
            "fixed_mode": np.array([self._fixed_modes[user] for user in places]),
            "first_mode": np.array([self._first_modes[user] for user in places]),
            "free_s": np.array([self._free_s[user] for user in places]),
            "drawn_for_s": np.array([self._drawn_for_s[user] for user in places]),
        }
        if self._orders is not None:
            row["orders"] = self._orders.take(users)
        if self._uplinks is not None:
            row["uplinks"] = self._uplinks.take(users)
        return row

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        self.unslotted.put(users, row["unslotted"])
        self._duty.put(users, row["open_s"])
        for place, user in enumerate(users.tolist()):
            self._fixed_modes[user] = int(row["fixed_mode"][place])
            self._first_modes[user] = int(row["first_mode"][place])
            self._free_s[user] = float(row["free_s"][place])
            self._drawn_for_s[user] = float(row["drawn_for_s"][place])
        if self._orders is not None:
            self._orders.put(users, row["orders"])
        if self._uplinks is not None:
            self._uplinks.put(users, row["uplinks"])

    def _choose_mode(self, user: int, payload: int) -> int:
        """Return the mode of a user's first attempt of an update, by its payload."""
        mode = self._fixed_modes[user]
        if self._mac.spreading_factor == "adaptive":
            snr_db = float(self._cell.snr_db(np.array([user]))[0])
            mode = self._mac._adaptive_mode(snr_db, payload)
        _check_payload(payload, mode)
        return mode

    def _take_channel(self, user: int, airtime_s: float, mode: int) -> int:
        """Draw the channel of an attempt; different spreading factors on one may count as different channels."""
        channel = self._duty.take_channel(user, airtime_s)
        if self._mac.orthogonal:
            return channel * self._mac.codes_per_channel + mode
        return channel


class _DutyCycle:
    """Times from which each user of a cell may use each sub-band again.

    Args:
        cell: the cell.
        bands: the sub-bands.
        orders: the orders of channels of the users; ``None`` if each picks any channel.
    """

    def __init__(self, cell: Cell, bands: Sequence[SubBand], orders: ChannelOrders | None = None) -> None:
        self._cell = cell
        self._orders = orders
        self._band_of = [index for index, band in enumerate(bands) for _ in range(band.channels)]  # of each channel
        self._uniforms = BufferedDraws(cell.streams.field("channel").uniform, cell.ids)
        self._bands = bands
        self._open_s = [[-math.inf] * len(bands) for _ in range(cell.size)]

    def take(self, users: Users) -> Floats:
        """Return the times from which each of *users*, who leave, may use each sub-band again, ``[n, bands]``."""
        open_s = np.array([self._open_s[user] for user in users.tolist()])
        for user in users.tolist():
            self._open_s[user] = [-math.inf] * len(self._bands)
        return open_s

    def put(self, users: Users, open_s: Floats) -> None:
        """Let *users*, who come from another tower, use each sub-band from these times on, ``[n, bands]``."""
        for user, user_open_s in zip(users.tolist(), open_s.tolist(), strict=True):
            self._open_s[user] = user_open_s

    def open_s(self, user: int, time_s: float) -> float:
        """Return the first time from *time_s* on at which a user may use a channel, or the next one of its order."""
        if self._orders is not None:
            return max(time_s, self._open_s[user][self._band_of[self._orders.channel_of(user)]])
        return max(time_s, min(self._open_s[user]))

    def take_channel(self, user: int, duration_s: float) -> int:
        """Return the channel that a user takes now for *duration_s*: of open sub-bands, or the next of its order."""
        now = self._cell.env.now
        open_s = self._open_s[user]
        if self._orders is not None:
            channel = self._orders.next_of(user)
            band_index = self._band_of[channel]
            open_s[band_index] = now + duration_s / self._bands[band_index].duty_cycle
            return channel
        open_channels = sum(band.channels for band, at_s in zip(self._bands, open_s, strict=True) if at_s <= now)
        rank = math.floor(self._uniforms.next_of(user) * open_channels)  # of the channel among the open ones
        first_channel = 0  # of the band
        for index, band in enumerate(self._bands):
            if open_s[index] <= now:
                if rank < band.channels:
                    open_s[index] = now + duration_s / band.duty_cycle
                    return first_channel + rank
                rank -= band.channels
            first_channel += band.channels
        raise AssertionError("a user sends only while a sub-band is open to it")


def _slowest_mode(payload: int) -> int:
    """Return the mode of the largest spreading factor that holds a payload; that of the smallest if there is none."""
    return max(sum(payload <= limit for limit in _MAX_PAYLOAD_BYTES) - 1, 0)


def _check_payload(payload: int, mode: int) -> None:
    limit = _MAX_PAYLOAD_BYTES[mode]
    if payload <= limit:
        return
    problem = f"an update of {payload} bytes is sent at SF{FACTORS[mode]}, which allows {limit}"
    smaller = f"make updates at most {limit} bytes, or send them in packets"
    fits = payload <= MAX_PAYLOAD_BYTES  # [factors]
    remedy = smaller
    if fits.any():
        remedy = f"use a spreading_factor of at most {FACTORS[fits].max()}, or {smaller}"
    raise ScenarioError([Fault("mac.spreading_factor", problem, None, remedy)])
