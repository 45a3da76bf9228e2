"""A jammer: bursts of a signal from outside of the network, as of another system in the same band."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from netfl.core.kinds import kind_of
from netfl.core.spec import OnlyWith, Spec
from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.radio.jamming import BurstTimeline, Jamming
from netfl.streams import Streams
from netfl.types import Floats, Ints
from netfl.units import DecibelMilliwatts, Metres, Seconds

if TYPE_CHECKING:
    from netfl.network.radio.link_budget import LinkBudget


class Jammer(Spec):
    """A transmitter from outside of the network, which sends bursts whatever the users do.

    Bursts of mean duration b and gaps of mean duration g = b (1 - d) / d alternate from before time 0 on, so that the
    share of time in bursts is the duty cycle d.  With ``distribution: exponential`` both durations are exponential, so
    that a time T holds no part of a burst with probability (1 - d) exp(-T / g), which is the chance of a frame of
    airtime T that is sent without regard to it.  With ``fixed`` bursts are periodic, at a random phase, and that chance
    is max(0, 1 - d - T / (b + g)).

    The signal is noise in the whole band and on all channels.  ``interference`` decides what it does to a frame at a
    tower: with ``collide`` a frame that meets a burst is lost.  With ``capture``, ``sinr`` and ``sic`` its power counts
    beside that of the other frames, at the worst moment, and is never subtracted.  Frames that fail by it alone are
    ``jammed``.  Stations that listen before they send (``csma_ca``) find the medium busy during a burst.  Versions on
    the downlink, and acknowledgements of LoRaWAN and Wi-Fi, do not meet it.

    Example::

        duty_cycle: 0.1
        burst: 5 ms
        power: -70 dBm
    """

    duty_cycle: Annotated[float, Field(gt=0, lt=1)]
    """Share d of the time in which it sends."""
    burst: Annotated[Seconds, Field(gt=0)]
    """Mean duration b of a burst."""
    distribution: Literal["exponential", "fixed"] = "exponential"
    """Distribution of the durations of bursts and gaps."""
    power: DecibelMilliwatts | None = None
    """Power of its signal in the band of the widest radio: the one that each tower and user receives or, with a
    ``position``, the one that it radiates.  Not with ``interference: collide``, unless stations sense by power."""
    position: Annotated[tuple[Metres, Metres] | None, OnlyWith("power")] = None
    """Place of its transmitter, east and north; the path loss is that of the channel between two users, without fading.
    ``null``: all receive the same power."""

    @property
    def gap_s(self) -> float:
        """Mean duration of a gap between bursts, in s."""
        return self.burst * (1.0 - self.duty_cycle) / self.duty_cycle

    def channel_faults(self, channels: Sequence[Channel]) -> Iterator[Fault]:
        """Yield the errors of a position that no channel gives a path loss; keys are relative to this section."""
        if self.position is None:
            return
        unknown = [channel for channel in channels if channel.has_path_loss and not channel.holds_between_users]
        remedy = "leave it out and give the received power, or take a path loss by distance, such as log_distance"
        if unknown:
            problem = f"the path loss from a place is not stated by channel {kind_of(type(unknown[0]))}"
            yield Fault("position", problem, list(self.position), remedy)
        elif not any(channel.holds_between_users for channel in channels):
            yield Fault("position", "no channel has a path loss", list(self.position), remedy)

    def open(self, streams: Streams, budget: LinkBudget | None) -> Jamming:
        """Return the jammer of a network.

        Args:
            streams: streams of the jammer.
            budget: links of the network; ``None`` without a radio.
        """
        is_fixed = self.distribution == "fixed"
        timeline = BurstTimeline(self.duty_cycle, self.burst, streams.rng("bursts"), is_fixed=is_fixed)
        power_dbm = self.power
        if power_dbm is None or budget is None:
            return Jamming(timeline)
        if self.position is None:
            return Jamming(timeline, lambda tower: power_dbm, lambda users, time_s: np.full(len(users), power_dbm))
        place_m = np.array(self.position)

        def at_tower_dbm(tower: str) -> float:
            return budget.from_place_dbm(power_dbm, place_m, tower)

        def at_users_dbm(users: Ints, time_s: float) -> Floats:
            return budget.from_place_to_users_dbm(power_dbm, place_m, users, time_s)

        return Jamming(timeline, at_tower_dbm, at_users_dbm)
