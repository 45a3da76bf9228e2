"""CSMA/CA: the distributed coordination function of IEEE 802.11."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import simpy
from numpy.typing import NDArray
from pydantic import Field

from netfl.errors import Fault
from netfl.network.mac import Mac
from netfl.network.mac._bench import Bench, at_once
from netfl.network.mac._contention import Contention, Spaces
from netfl.network.mac._wifi import ACK_BITS, CTS_BITS, PHYS, RTS_BITS, Standard
from netfl.streams import Streams
from netfl.types import Facts, Law
from netfl.units import Bitrate, Bits

if TYPE_CHECKING:
    from netfl.network.cell import Cell


class CsmaCa(Mac):
    """The DCF of IEEE 802.11-2020 §10.3: listen, wait a random number of idle slots, send, double the wait on failure.

    **Backoff.**  A station draws a number of slots, uniform on 0 … CW, and counts it down in idle slots.  Counters
    freeze while the medium is busy; a slot in which somebody begins to send counts for nobody, so that the slot right
    after a success can be used by its winner alone, which may have drawn 0.  (In Bianchi's chain, IEEE J-SAC 18(3),
    2000, a busy slot counts, which makes throughputs a few per cent different.)  After each of its frames a station
    draws anew, with or without another frame.  A frame that finds the medium idle for DIFS, and its station's counter
    run out, is sent at once.

    **The window.**  CW is doubled, 2 CW + 1, with every failure up to its greatest value.  A success sets it back, and
    so does being cut off.  A frame that is given up after ``max_attempts`` or abandoned does not: CW continues with the
    next frame, until the station has failed once more than ``max_attempts`` times in a row (§10.3.3 and §10.3.4.4, in
    the form that §10.23.2.2 gives for the retry counter of a QoS station).  With ``edition: 2016`` CW is set back
    whenever a frame is given up or abandoned, as §10.3.3 of that edition is commonly read.

    **Frames.**  The payload with 36 bytes of MAC and LLC headers, at the rate of the standard's physical layer, then
    SIFS and ACK; with ``rts`` larger frames are preceded by RTS and CTS.  All stations of a cell hear each other.  One
    frame holds at most 2304 bytes of MSDU, 2296 of payload.  A larger update is sent in several, each of which contends
    for itself (``access.transport``).  With ``max_attempts`` the first of them that is given up ends the update, unless
    the transport has an ``arq``.

    **After a collision.**  The colliders wait for the end of the ACK (CTS) time-out, which lasts SIFS, a slot and the
    preamble (§10.3.2.11), and then for DIFS, before they count slots (§10.3.4.3).  With ``edition: 2016`` they count
    from the end of the time-out, as the medium has been idle for longer than DIFS by then.  The bystanders wait DIFS
    where they cannot decode anything of the overlapping preambles and merely sense energy (OFDM), or EIFS where they
    take it for a frame in error (DSSS; §10.3.2.3.7); ``after_collision`` overrides that.  A frame that fades alone is
    heard by the bystanders, who leave room for its ACK; after a captured frame all wait for its ACK.

    Example::

        kind: csma_ca
        standard: 802.11a
        max_attempts: 7
    """

    standard: Standard = "802.11a"
    """Whose timings: 802.11a, 802.11b (long preamble) or 802.11g (without 802.11b stations)."""
    rate: Annotated[Bitrate, Field(gt=0)] | None = None
    """Rate of the data, one of the standard's; by default 6 Mbps (802.11a), 11 Mbps (802.11b), 54 Mbps (802.11g)."""
    rts: Annotated[Bits, Field(ge=0)] | None = None
    """Payloads larger than this are preceded by RTS and CTS; ``null``: none."""
    max_attempts: Annotated[int, Field(ge=1)] | None = None
    """Attempts after which a frame is given up; ``null`` is no limit."""
    edition: Literal[2016, 2020] = 2020
    """The edition of IEEE 802.11 whose rules apply after a failure; the older is closer to Bianchi's model."""
    after_collision: Literal["difs", "eifs"] | None = None
    """How long bystanders wait after a collision; ``null``: what the physical layer makes of it."""

    @property
    def rate_bps(self) -> float:
        """The rate of the data."""
        return self._rate * 1e6

    @property
    def most_bits(self) -> float:
        """That of the largest MSDU."""
        return _MOST_BITS

    @property
    def senses(self) -> bool:
        """All stations of a cell hear each other."""
        return True

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """A rate that the standard does not have."""
        rates = PHYS[self.standard].rates
        if self._rate not in rates:
            told = ", ".join(f"{rate:g}" for rate in sorted(rates))
            yield Fault("rate", f"{self.standard} has no such rate", self.rate, f"one of {told} Mbps")

    def spaces(self, bits: float) -> Spaces:
        """The times that a frame with *bits* of payload takes, and the spaces around it, in nanoseconds."""
        phy = PHYS[self.standard]
        control = phy.control_rate(self._rate)
        data, ack = phy.airtime(bits + _HEADER_BITS, self._rate), phy.airtime(ACK_BITS, control)
        handshake, first = 0, data
        if self.rts is not None and bits > self.rts:
            first = phy.airtime(RTS_BITS, control)
            handshake = first + phy.sifs + phy.airtime(CTS_BITS, control) + phy.sifs
        pause = phy.difs if self.edition == _CONTINUES else 0
        eifs = phy.decodes if self.after_collision is None else self.after_collision == "eifs"
        return Spaces(
            slot=phy.slot,
            difs=phy.difs,
            success=handshake + data + phy.sifs + ack,
            data=data,
            lead=handshake,
            collision=first,
            timeout=phy.timeout + pause,
            bystanders=phy.eifs if eifs else phy.difs,
        )

    def most_hz(self, airtime_s: float, longest_s: float) -> float:
        """One at a time, unless several can be given up at once."""
        return math.inf if self.max_attempts is not None else 1.0 / airtime_s

    def serve(self, cell: Cell) -> Generator[simpy.Event, Any, None]:
        """Let the stations contend."""
        cw, continues = PHYS[self.standard].cw, self.edition == _CONTINUES
        return Contention(cell, self.spaces, cw, self.max_attempts, continues=continues).serve()

    def laws(self) -> tuple[Law, ...]:
        """The cycle of a station that is alone; for more there is no closed form under the standard's freezing rule."""
        spaces, most = self.spaces(1.0), PHYS[self.standard].cw[0]
        least_s, slot_s = (spaces.difs + spaces.success) * 1e-9, spaces.slot * 1e-9

        def cycles(streams: Streams, size: int) -> NDArray[np.float64]:
            bench = Bench(self, 1, least_s, streams, at_once)
            while len(bench.heard) <= size:
                bench.env.step()
            return np.round(np.diff([heard_s for _, _, heard_s in bench.heard]), 9)  # whole nanoseconds again

        return (
            Law(
                "time from success to success of a lone station, s",
                "DIFS + k slots + frame, SIFS and ACK, with k uniform on 0 … CWmin; "
                "more stations: scenarios/validation/dcf.yaml, beside a slot-exact reference",
                draw=cycles,
                mean=least_s + slot_s * most / 2,
                variance=slot_s**2 * most * (most + 2) / 12,
                cdf=lambda x: (
                    np.clip(np.floor((np.asarray(x) - least_s) / slot_s + 1e-3) + 1, 0, most + 1) / (most + 1)
                ),
            ),
        )

    @cached_property
    def _rate(self) -> float:
        """Mb/s."""
        return PHYS[self.standard].rates[0] if self.rate is None else self.rate / 1e6


_CONTINUES = 2020
"""The edition whose window continues after a drop, and whose colliders wait DIFS after the time-out."""
_HEADER_BITS = 36 * 8
"""MAC header 24, LLC and SNAP 8, frame check sequence 4 bytes."""
_MOST_BITS = (2304 - 8) * 8.0
"""An MSDU has 2304 bytes at most (IEEE 802.11-2020 §9.2.4.8), of which LLC and SNAP take 8."""
