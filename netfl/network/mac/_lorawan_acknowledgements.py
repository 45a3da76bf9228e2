"""Acknowledgements of LoRaWAN gateways, which take airtime and can be lost, and the uplinks that wait for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
import simpy
from pydantic import Field

from netfl.core.spec import Spec
from netfl.network.clock import call_after, call_at
from netfl.network.mac._unslotted import UnslottedCell
from netfl.network.periods import after_rounding
from netfl.network.radio.cell import Cell
from netfl.network.radio.medium import TowerTransmitter
from netfl.network.radio.transmission import Frames
from netfl.types import Bools, Users

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
    If it is sending or down at that time, or its duty cycle does not allow it, it answers in the second window, 2 s
    after the end, at SF12; if it cannot do so either, not at all.  It has the power of the user that it answers.  The
    user receives the answer as it would a version: without interference, if the signal is strong enough and no outage
    interrupts it.  Of several gateways that have received an uplink, the one with the strongest copy answers, also a
    user that has another tower by then.
    """

    duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.01
    """Largest share of time that the gateway may answer in first windows, on the channels of the uplinks."""
    second_duty_cycle: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The same in second windows, which have a channel of their own."""


@dataclass(slots=True)
class ConfirmedUplink:
    """The last uplink of a user.

    Args:
        uplinks: those of the cell in which the user is.
        user: its number in this cell.
        duplicate: its frame, as it is sent again once the gateway has it.
        first_mode: mode of its first attempt.
        attempts: number of its attempts.
        is_received: whether the gateway has it.
        is_awaited: whether the user still waits for the end of its last attempt, or for the answer.
        answered_s: end of the answer; minus infinity without one.
        on_air: mode of the attempt whose end is not known yet, and the event of its end; ``None`` for no such attempt.
    """

    uplinks: AcknowledgedUplinks
    user: int
    duplicate: Frames
    first_mode: int
    attempts: int
    is_received: bool = False
    is_awaited: bool = True
    answered_s: float = -math.inf
    on_air: tuple[int, simpy.Event] | None = None

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
        uplink.on_air = mode, end
        assert end.callbacks is not None
        end.callbacks.append(lambda _: self._end(uplink))

    def take(self, users: Users) -> Mapping[str, Any]:
        """Take what is known of users who leave, as `DeviceState.take`."""
        last = np.empty(len(users), object)
        for place, user in enumerate(users.tolist()):
            uplink = self.last.pop(user, None)
            if uplink is not None:
                self._end(uplink)  # it may have ended at this instant, in which its user leaves
            last[place] = uplink
        return {"last": last}

    def put(self, users: Users, row: Mapping[str, Any]) -> None:
        """Put back what is known of users who come, as `DeviceState.put`."""
        for user, uplink in zip(users.tolist(), row["last"].tolist(), strict=True):
            if uplink is None:
                continue
            uplink.uplinks = self
            uplink.user = user
            uplink.duplicate = replace(uplink.duplicate, users=np.array([user]))
            self.last[user] = uplink

    def _end(self, uplink: ConfirmedUplink) -> None:
        """Take the end of an attempt, if that is not done: the gateway answers if it was received."""
        if uplink.on_air is None:
            return
        mode, event = uplink.on_air
        uplink.on_air = None
        received: Bools = event.value  # type: ignore[assignment]
        if not received[0]:
            uplink.is_awaited = False
            return
        uplink.is_received = True
        gateway = self.cell.answering(uplink.user)  # by now: its user may move until it answers
        call_after(self.cell.env, RX1_DELAY_S, lambda _: self._answer_first(gateway, uplink, mode))

    def _answer_first(self, gateway: TowerTransmitter, uplink: ConfirmedUplink, mode: int) -> None:
        env = self.cell.env
        second_s = env.now + RX2_DELAY_S - RX1_DELAY_S
        if not self._can_send(gateway, "first"):
            call_at(env, second_s, lambda _: self._answer_second(gateway, uplink))
        elif self._send(gateway, uplink, "first", mode):
            call_at(env, uplink.answered_s, lambda _: _conclude(uplink))
        else:  # the gateway does not know that its answer is lost
            call_at(env, second_s, lambda _: _conclude(uplink))

    def _answer_second(self, gateway: TowerTransmitter, uplink: ConfirmedUplink) -> None:
        if self._can_send(gateway, "second") and self._send(gateway, uplink, "second", RX2_MODE):
            call_at(self.cell.env, uplink.answered_s, lambda _: _conclude(uplink))
        else:
            _conclude(uplink)

    def _can_send(self, gateway: TowerTransmitter, window: Window) -> bool:
        is_silent = gateway.silent_until_s.get(window, -math.inf) > after_rounding(self.cell.env.now)
        return not is_silent and self.cell.can_answer(gateway)

    def _send(self, gateway: TowerTransmitter, uplink: ConfirmedUplink, window: Window, mode: int) -> bool:
        """Send an answer; return whether the user receives it."""
        now_s = self.cell.env.now
        airtime_s = self.airtimes_s[mode]
        duty_cycle = self.spec.duty_cycle if window == "first" else self.spec.second_duty_cycle
        gateway.silent_until_s[window] = now_s + airtime_s / duty_cycle
        cell = uplink.uplinks.cell  # that of the user now
        is_received = cell.send_down(gateway, uplink.user, 8.0 * PHY_BYTES, airtime_s, mode)
        if is_received:
            uplink.answered_s = now_s + airtime_s
        return is_received


def _conclude(uplink: ConfirmedUplink) -> None:
    """Let a user know whether its attempt was answered."""
    uplink.is_awaited = False
    uplink.uplinks.unslotted.replan(uplink.user)
