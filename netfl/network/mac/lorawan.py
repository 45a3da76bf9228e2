"""LoRaWAN, class A: ALOHA on several channels and spreading factors, under a limit on the time on the air."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.network.mac import Mac
from netfl.network.mac._random_draws import BufferedDraws
from netfl.network.mac._test_bench import attempt_outcomes
from netfl.network.mac._unslotted import RetryState, Users, serve_free
from netfl.network.reception.lora import FACTORS, fastest_mode
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law, StatisticClaim
from netfl.units import Decibels, Hertz

if TYPE_CHECKING:
    from netfl.network.radio.cell import Cell


# How long LoRa frames are on the air, and how large those of LoRaWAN may be.


OVERHEAD_BYTES = 13
"""What a LoRaWAN uplink adds to its application payload: MHDR 1, FHDR 7 without options, FPort 1, MIC 4."""
MOST_BYTES = np.array([222, 222, 115, 51, 51, 51])
"""The largest application payload of each mode, SF7 to SF12 at 125 kHz, in EU868 where repeaters are allowed for."""
_OPTIMISED_FROM_S = 16e-3
"""Low data rate optimisation is mandated for symbols that are longer."""


def time_on_air_s(
    phy_bytes: ArrayLike, modes: ArrayLike, bandwidth_hz: float, coding: int = 1, preamble: int = 8
) -> NDArray[np.float64]:
    """How long LoRa frames with explicit header and CRC are on the air.

    T = 2^SF / B.  The preamble takes (n + 4.25) T, all else 8 + max(ceil((8 PL - 4 SF + 28 + 16) / (4 (SF - 2 DE)))
    (CR + 4), 0) symbols; DE is 1 where T exceeds 16 ms (Semtech, SX1276 data sheet, §4.1.1.6 and §4.1.1.7; AN1200.13).

    Args:
        phy_bytes: PL, the physical payload.
        modes: spreading factor less 7.
        bandwidth_hz: B.
        coding: CR, 1 for code rate 4/5 to 4 for 4/8.
        preamble: n, its programmed symbols.

    >>> (1e3 * time_on_air_s(64, [0, 5], 125e3)).round(3).tolist()
    [118.016, 2793.472]
    """
    factor = FACTORS[np.asarray(modes)]
    symbol_s = 2.0**factor / bandwidth_hz
    optimised = symbol_s > _OPTIMISED_FROM_S
    blocks = np.ceil((8 * np.asarray(phy_bytes) - 4 * factor + 44) / (4 * (factor - 2 * optimised)))
    return np.asarray((preamble + 4.25 + 8 + np.maximum(blocks * (coding + 4), 0)) * symbol_s)


def payload_bytes(cell: Cell, users: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next frame of each of *users*, in whole bytes."""
    return np.ceil(np.broadcast_to(cell.sizes(users), len(users)) / 8.0).astype(np.int64)


_WINDOW_S = 2.0
"""RECEIVE_DELAY2: from the end of an uplink to its second receive window, before which nothing else may be sent."""
_ACK_TIMEOUT_S = (1.0, 3.0)
"""ACK_TIMEOUT is drawn between these, from the second receive window on."""
_BANDWIDTHS_HZ = (125e3, 250e3, 500e3)
_MARGIN_DB = 10.0
_LAW_USERS, _LAW_LOAD = 2000, 0.4
_ROWS, _ATTEMPTS_OF_A_ROW = 100, 200


class SubBand(Spec):
    """Channels that share a limit on the time on the air."""

    channels: Annotated[int, Field(ge=1, le=10_000)] = 3
    """How many."""
    duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.01
    """The share of time for which a user may be on the air of all of them together."""


class Lorawan(Mac):
    """Class A uplinks: sent at once on a random channel, and again after a random time if no acknowledgement comes.

    **Time on the air** is that of a LoRa frame of the update's bytes and 13 more of MAC headers, by the spreading
    factor (Semtech, SX1276 data sheet, §4.1.1.7).  An update may have 222 bytes at SF7 and SF8, 115 at SF9 and 51 above
    (LoRaWAN Regional Parameters, EU868, where repeaters are allowed for); a larger one is a fault.

    **Duty cycle.**  After a time A on the air of a sub-band its sender keeps off it for A / duty_cycle - A.  It picks
    any channel of the sub-bands that it may use, and waits for the first that it may use if there is none.

    **Retries.**  Nothing else is sent before the second receive window, 2 s after the end of an uplink.  One that was
    not acknowledged is repeated ACK_TIMEOUT later, which is uniform between 1 and 3 s.  One attempt at most is an
    unconfirmed uplink.  Acknowledgements cost no air and are never lost, and towers hear while they send.

    **Who meets.**  Those on one channel with one spreading factor; different ones are orthogonal unless said otherwise.
    With ``access.interference: collide`` a frame that meets others is lost, unless it is stronger by
    ``access.capture``, 6 dB for LoRa.  With ``sinr`` the thresholds of `lora` decide, for each pair of spreading
    factors.

    Exact: n senders that are silent for a fixed time of one airtime T at least and then for an exponential one, a cycle
    of μ in all, and pick one of M channels, are received with probability (1 - 2 T / (M μ))^(n-1): whoever begins to
    send in 2 T does so once.  For large n that is exp(-2 G), G = n T / (M μ) attempts per airtime and channel.

    Example::

        kind: lorawan
        spreading_factor: 7
        sub_bands:
          - {channels: 3, duty_cycle: 0.01}
          - {channels: 5, duty_cycle: 0.01}
        max_attempts: 8
    """

    spreading_factor: Annotated[int, Field(ge=7, le=12)] | Literal["adaptive", "random"] = "adaptive"
    """7 to 12; ``random``, drawn once for each user; or ``adaptive``, the least that the SNR of the moment bears."""
    margin: Annotated[Decibels, Field(ge=0)] | None = None
    """By how much that SNR must exceed the least for a spreading factor, for ``adaptive`` alone; ``null`` is 10 dB."""
    sub_bands: Annotated[tuple[SubBand, ...], Field(min_length=1)] = (SubBand(),)
    """Channels and their limits; by default the three that all devices of EU868 have, at 1 %."""
    max_attempts: Annotated[int, Field(ge=1, le=15)] = 8
    """Attempts after which an update is given up; 1 is an unconfirmed uplink."""
    bandwidth: Hertz = 125e3
    """B of the signal, 125, 250 or 500 kHz; the same as the radio's."""
    code_rate: Literal["4/5", "4/6", "4/7", "4/8"] = "4/5"
    """Information bits over bits sent."""
    preamble: Annotated[int, Field(ge=6)] = 8
    """Its programmed symbols."""
    orthogonal: bool = True
    """Whether different spreading factors on one channel do not disturb each other."""

    @model_validator(mode="after")
    def _in_range(self) -> Lorawan:
        """Bandwidths that there are, and keys that have an effect."""
        if self.bandwidth not in _BANDWIDTHS_HZ:
            raise ValueError(f"bandwidth is {self.bandwidth:g} Hz; give 125 kHz, 250 kHz or 500 kHz")
        if self.margin is not None and self.spreading_factor != "adaptive":
            raise ValueError("margin has an effect on adaptive spreading factors only; leave it out")
        return self

    @property
    def bandwidth_hz(self) -> float:
        """That of its airtimes."""
        return self.bandwidth

    def longest_s(self, bits: float, slowest_bps: float) -> float:
        """Return the time on air with the largest spreading factor that is used and holds so much."""
        payload = np.array(math.ceil(bits / 8.0))
        mode = max(int(np.count_nonzero(payload <= MOST_BYTES)) - 1, 0)
        if isinstance(self.spreading_factor, int):
            mode = self.spreading_factor - int(FACTORS[0])
        return float(self._time_on_air_s(payload, np.array(mode)))

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let everybody send when it may."""
        tries, bands = RetryState(cell), _Bands(cell, self.sub_bands)
        timeouts, choose = BufferedDraws(cell.streams.field("ack_timeout").uniform, cell.ids), self._chooser(cell)

        def plan(users: Users) -> NDArray[np.float64]:
            least_s, most_s = _ACK_TIMEOUT_S
            again, free_s = tries.failures[users] > 0, tries.over_s[users] + _WINDOW_S
            if again.any():
                free_s[again] += least_s + (most_s - least_s) * timeouts.next(users[again])
            return bands.open_s(users, np.maximum(cell.ready_s[users], free_s))

        def send(users: Users) -> None:
            payload = payload_bytes(cell, users)
            modes = choose(users, payload)
            duration_s = self._time_on_air_s(payload, modes)
            channel = bands.take(users, duration_s)
            place = channel * len(FACTORS) + modes if self.orthogonal else channel
            tries.send(users, self.max_attempts, duration_s, channel=place, mode=modes)

        return serve_free(cell, tries, plan, send)

    def _time_on_air_s(self, payload: NDArray[np.int64], modes: NDArray[np.int64]) -> NDArray[np.float64]:
        """How long updates of so many bytes are on the air."""
        return time_on_air_s(
            payload + OVERHEAD_BYTES, modes, self.bandwidth, coding=int(self.code_rate[2]) - 4, preamble=self.preamble
        )

    def _chooser(self, cell: Cell) -> Callable[[Users, NDArray[np.int64]], NDArray[np.int64]]:
        """What gives the mode in which each user sends so many bytes."""
        said, margin_db = self.spreading_factor, _MARGIN_DB if self.margin is None else self.margin
        fixed = (6.0 * cell.streams.field("spreading_factor").uniform(cell.ids)).astype(np.int64)
        if isinstance(said, int):
            fixed = np.full(cell.size, said - int(FACTORS[0]))

        def choose(users: Users, payload: NDArray[np.int64]) -> NDArray[np.int64]:
            modes = fixed[users]
            if said == "adaptive":
                slowest = np.count_nonzero(payload[:, None] <= MOST_BYTES, axis=1) - 1
                modes = np.minimum(fastest_mode(cell.snr_db(users) - margin_db), np.maximum(slowest, 0))
            _check(payload, modes)
            return modes

        return choose

    def laws(self) -> tuple[Law, ...]:
        """The share of unconfirmed uplinks that are received."""
        random = self.spreading_factor == "random"
        model = self.model_copy(update={"max_attempts": 1, **({"spreading_factor": 7} if random else {})})
        factor = model.spreading_factor if isinstance(model.spreading_factor, int) else int(FACTORS[0])
        airtime_s = float(model._time_on_air_s(np.array(1), np.array(factor - int(FACTORS[0]))))
        off_s = max(_WINDOW_S, airtime_s, *(airtime_s / band.duty_cycle - airtime_s for band in self.sub_bands))
        channels, cycle_s = sum(band.channels for band in self.sub_bands), airtime_s + 2.0 * off_s
        users = min(max(2, round(_LAW_LOAD * channels * cycle_s / airtime_s)), _LAW_USERS)
        share = (1.0 - 2.0 * airtime_s / (channels * cycle_s)) ** (users - 1)

        def draw(streams: Streams, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            rng, rows = streams.rng("pauses"), max(_ROWS, size // _ATTEMPTS_OF_A_ROW)
            span_s = _ATTEMPTS_OF_A_ROW * cycle_s / users

            def again(who: NDArray[np.int64], now: float) -> NDArray[np.float64]:
                return now + off_s * (1.0 + rng.exponential(size=len(who)))

            return attempt_outcomes(model, users, airtime_s, streams, again, span_s, rows)

        statement = (
            f"(1 - 2 T / (M μ))^(n-1), n = {users} users, M = {channels} channels, T = {1e3 * airtime_s:.4g} ms "
            f"(1 byte at SF{factor}), a cycle of μ = {cycle_s:.4g} s; tends to exp(-2 G)"
        )
        return (
            Law("uplinks that are received", statement, figures=(StatisticClaim("share", statement, draw, (share,)),)),
        )


class _Bands:
    """Which sub-bands each user of a cell may use when.

    Args:
        cell: the cell.
        bands: the sub-bands.
    """

    def __init__(self, cell: Cell, bands: Sequence[SubBand]) -> None:
        self._cell, self._luck = cell, BufferedDraws(cell.streams.field("channel").uniform, cell.ids)
        self._band = np.repeat(np.arange(len(bands)), [band.channels for band in bands])
        self._duty = np.array([band.duty_cycle for band in bands])
        self._open_s = np.full((cell.size, len(bands)), -np.inf)

    def open_s(self, users: Users, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """The first time from *at_s* on at which each user may use some channel."""
        return np.asarray(np.maximum(at_s, self._open_s[users].min(axis=1)))

    def take(self, users: Users, duration_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """The channel that each user takes now, for so long."""
        now = self._cell.env.now
        may = (self._open_s[users] <= now)[:, self._band]
        which = np.floor(self._luck.next(users) * may.sum(axis=1))
        channel = (np.cumsum(may, axis=1) > which[:, None]).argmax(axis=1)
        band = self._band[channel]
        self._open_s[users, band] = now + duration_s / self._duty[band]
        return np.asarray(channel)


def _check(payload: NDArray[np.int64], modes: NDArray[np.int64]) -> None:
    """Refuse updates that are too large.

    Raises:
        netfl.errors.ScenarioError: one is.
    """
    for place in np.flatnonzero(payload > MOST_BYTES[modes])[:1]:
        mode, size = int(modes[place]), int(payload[place])
        problem = f"an update of {size} bytes is sent at SF{FACTORS[mode]}, where {MOST_BYTES[mode]} fit"
        fits = FACTORS[size <= MOST_BYTES]
        smaller = f"make updates smaller, {MOST_BYTES[mode]} bytes at most, or send them in packets"
        remedy = f"a spreading_factor of {fits.max()} at most, or {smaller}" if fits.size else smaller
        raise ScenarioError([Fault("mac.spreading_factor", problem, None, remedy)])
