"""Acknowledgements of LoRaWAN gateways, which take airtime and can be lost, and the uplinks that wait for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Literal

import simpy
from pydantic import Field

from netfl.network.clock import call_after, call_at
from netfl.network.mac._unslotted import UnslottedCell
from netfl.network.periods import after_rounding
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import TowerTransmitter
from netfl.network.radio.transmission import Frames
from netfl.registry import Spec
from netfl.types import Bools

RX1_DELAY_S = 1.0
"""RECEIVE_DELAY1: from the end of an uplink to its first receive window."""
RX2_DELAY_S = 2.0
"""RECEIVE_DELAY2: from the end of an uplink to its second receive window, before which nothing else may be sent."""
PHY_BYTES = 12
"""Physical payload of an acknowledgement: MHDR 1, FHDR 7 and MIC 4."""
Window = Literal["first", "second"]
"""Receive window of a user."""
RX2_MODE = 5
"""Mode of the second window: SF12, in EU868."""


class Acknowledgements(Spec):
    """Acknowledgements of a gateway: frames of 12 bytes, one at a time.

    The gateway answers in the first window, 1 s after the end of an uplink, with the spreading factor of the uplink.
    If it is sending at that time, or its duty cycle does not allow it, it answers in the second window, 2 s after the
    end, at SF12; if it cannot do so either, not at all.  It has the power of the user that it answers.  The user
    receives the answer as it would a version: without interference, if the signal is strong enough and no outage
    interrupts it.  Of several gateways that have received an uplink, the one with the strongest copy answers.
    """

    duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Largest share of time that the gateway may answer in first windows, on the channels of the uplinks."""
    second_duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The same in second windows, which have a channel of their own."""


@dataclass(slots=True)
class ConfirmedUplink:
    """The last uplink of a user.

    Args:
        duplicate: its frame, as it is sent again once the gateway has it.
        first_mode: mode of its first attempt.
        attempts: number of its attempts.
        is_received: whether the gateway has it.
        is_awaited: whether the user still waits for the end of its last attempt, or for the answer.
        answered_s: end of the answer; minus infinity without one.
    """

    duplicate: Frames
    first_mode: int
    attempts: int
    is_received: bool = False
    is_awaited: bool = True
    answered_s: float = -math.inf

    @property
    def is_unanswered(self) -> bool:
        """True if the gateway has it, and the user does not know that."""
        return self.is_received and not self.is_awaited and self.answered_s == -math.inf


@dataclass(slots=True, eq=False)
class AcknowledgedUplinks:
    """The uplinks of a cell that wait for acknowledgements.

    A user whose uplink was received without an answer repeats it, and its gateway discards the duplicate.

    Args:
        airtimes_s: airtime of an acknowledgement in each mode.

    Attributes:
        last: last uplink of each user that has sent one.
    """

    cell: Cell
    unslotted: UnslottedCell
    spec: Acknowledgements
    airtimes_s: Sequence[float]
    last: dict[int, ConfirmedUplink] = field(default_factory=dict)

    def note_attempt(self, user: int, mode: int, end: simpy.Event) -> None:
        """Note that a user sends its last uplink in *mode*, until *end*."""
        uplink = self.last[user]
        uplink.is_awaited = True
        assert end.callbacks is not None
        end.callbacks.append(partial(self._end, user, uplink, mode))

    def _end(self, user: int, uplink: ConfirmedUplink, mode: int, event: simpy.Event) -> None:
        """Take the end of an attempt: the gateway answers if it was received."""
        received: Bools = event.value  # type: ignore[assignment]
        if received[0]:
            uplink.is_received = True
            call_after(self.cell.env, RX1_DELAY_S, lambda _: self._answer_first(user, uplink, mode))
        else:
            uplink.is_awaited = False

    def _answer_first(self, user: int, uplink: ConfirmedUplink, mode: int) -> None:
        env = self.cell.env
        second_s = env.now + RX2_DELAY_S - RX1_DELAY_S
        gateway = self.cell.answering(user)
        if not self._can_send(gateway, "first"):
            call_at(env, second_s, lambda _: self._answer_second(gateway, user, uplink))
        elif self._send(gateway, user, uplink, "first", mode):
            call_at(env, uplink.answered_s, lambda _: self._conclude(user, uplink))
        else:  # the gateway does not know that its answer is lost
            call_at(env, second_s, lambda _: self._conclude(user, uplink))

    def _answer_second(self, gateway: TowerTransmitter, user: int, uplink: ConfirmedUplink) -> None:
        if self._can_send(gateway, "second") and self._send(gateway, user, uplink, "second", RX2_MODE):
            call_at(self.cell.env, uplink.answered_s, lambda _: self._conclude(user, uplink))
        else:
            self._conclude(user, uplink)

    def _can_send(self, gateway: TowerTransmitter, window: Window) -> bool:
        now_s = after_rounding(self.cell.env.now)
        return max(gateway.sends_until_s, gateway.silent_until_s.get(window, -math.inf)) <= now_s

    def _send(self, gateway: TowerTransmitter, user: int, uplink: ConfirmedUplink, window: Window, mode: int) -> bool:
        """Send an answer; return whether the user receives it."""
        now_s = self.cell.env.now
        airtime_s = self.airtimes_s[mode]
        duty_cycle = self.spec.duty_cycle if window == "first" else self.spec.second_duty_cycle
        gateway.silent_until_s[window] = now_s + airtime_s / duty_cycle
        is_received = self.cell.send_down(gateway, user, 8.0 * PHY_BYTES, airtime_s, mode)
        if is_received:
            uplink.answered_s = now_s + airtime_s
        return is_received

    def _conclude(self, user: int, uplink: ConfirmedUplink) -> None:
        """Let a user know whether its attempt was answered."""
        uplink.is_awaited = False
        self.unslotted.replan(user)
