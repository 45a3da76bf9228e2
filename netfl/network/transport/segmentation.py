"""Transmit queue of updates that are sent in packets, with or without repetition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import simpy

from netfl.network.clock import Clock, Stage, call_after
from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Message
from netfl.network.radio.transmission import Frames
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.transport.spec import Arq, LossRule, Segmentation
from netfl.network.transport.transfer import NO_PACKET, Segment, Transfer
from netfl.network.updates import OutstandingUpdates, UpdateState, ends_on_newer_version, keeps_user_busy
from netfl.types import Bools, Floats, Ints, Users

_JUDGED_BY_SERVER = {"delivered", "late", "discarded"}
"""Outcomes of whole updates, which the server decides; a packet that arrives has none of its own."""


class SegmentedUpdateQueue(UpdateQueue):
    """The newest update of each user, sent in packets; a user's first frame is the next packet.

    An update is open here until it has its outcome, also after its packets were received over the air.

    Args:
        ids: numbers of the users in the network.
        cut: packets of an update.
        arq: repetition of packets; ``None`` is none.
        loss_rule: rule for updates without some packets; ``None`` if the first packet that is lost for good ends one.
        ack_delay_s: returns the present delay of an acknowledgement to a user, by its number in the network.
    """

    def __init__(
        self,
        ids: Users,
        cut: Segmentation,
        tower: str,
        env: Clock,
        log: EventLog,
        outstanding: OutstandingUpdates,
        arq: Arq | None,
        loss_rule: LossRule | None,
        ack_delay_s: Callable[[int], float],
    ) -> None:
        super().__init__(ids, cut.max_bits, tower, log, outstanding)
        self._env = env
        self._arq = arq
        self._loss_rule = loss_rule
        self._ack_delay_s = ack_delay_s
        self._disconnected_until_s = np.full(len(ids), -np.inf)
        self._transfers: list[Transfer | None] = [None] * len(ids)
        self._superseded: dict[Transfer, None] = {}
        self._cuts = [cut] * len(ids)
        self._next_cuts: list[Segmentation] | None = None  # None while all updates are cut alike
        self.log.metrics |= {"packets_sent": 0.0, "packets_retransmitted": 0.0}

    def set_cuts(self, cuts: Sequence[Segmentation]) -> None:
        self._next_cuts = [*cuts]

    @property
    def next_bits(self) -> Floats:
        return np.array([cut.total_bits for cut in self._next_cuts or self._cuts])

    def put(self, users: Users, base: Ints, ready_s: Floats) -> None:
        super().put(users, base, ready_s)
        if self._next_cuts is None:
            return
        for user in users.tolist():
            self._cuts[user] = self._next_cuts[user]

    def supersede(self, users: Users, at_s: Floats) -> None:
        """End the updates of *users* with packets still to send, as newer ones follow."""
        ends = ends_on_newer_version(self.state[users])
        for place, user in enumerate(users.tolist()):
            transfer = self._transfers[user]
            if transfer is None:  # no packet has been sent
                continue
            self._transfers[user] = None
            ends[place] = transfer.supersede()
            if transfer.is_open:  # packets on their way may complete it
                self._superseded[transfer] = None
                self.outstanding.leave_behind(self.ids[[user]], np.array([transfer.base]))
        self._disconnected_until_s[users] = -np.inf
        self._end_superseded(users[ends], at_s[ends])

    def bits(self, users: Users) -> float | Floats:
        transfers = [self._transfer(user) for user in users.tolist()]
        bits = [transfer.packet_bits(transfer.head) for transfer in transfers]
        if len(set(bits)) == 1:
            return bits[0]
        return np.array(bits)

    def lengths(self, now_s: float) -> Ints:
        lengths = super().lengths(now_s)
        for user in np.flatnonzero(lengths).tolist():
            transfer = self._transfers[user]
            if transfer is None:
                lengths[user] = self._cuts[user].count
            else:
                lengths[user] = max(1, transfer.missing)
        return lengths

    def launch(self, users: Users, now_s: float) -> Frames:
        self.on_air[users] = True
        transfers = [self._transfer(user) for user in users.tolist()]
        packets = [(transfer, transfer.launch(now_s)) for transfer in transfers]
        bits = np.array([transfer.packet_bits(part) for transfer, part in packets])
        for transfer, part in packets:
            if transfer.head_attempts > 1:  # the MAC repeats a frame: the packet has been counted
                continue
            self.log.metrics["packets_sent"] += 1
            if transfer.sends[part] > 1:
                self.log.metrics["packets_retransmitted"] += 1
        self.log.uplink_bits += float(bits.sum())
        return Frames(users, bits, packets, np.array([transfer.base for transfer in transfers]))

    def end(self, frames: Frames, causes: Sequence[str], limit: int | None, now_s: float) -> list[Message]:
        self.refresh(now_s)
        messages: list[Message] = []
        for (transfer, part), cause in zip(frames.handle, causes, strict=True):
            is_current = self._transfers[transfer.user] is transfer
            if is_current:
                self.on_air[transfer.user] = False
            if cause:
                transfer.lose(part)
            else:
                messages.append(self._segment(transfer, part))

            if not is_current:  # its user sends another update by now
                if cause:
                    self._end_superseded_packet(transfer, part, self.tower, now_s)
                continue
            if cause and self._retries(transfer, part, cause, limit, now_s):
                transfer.causes[part] = cause
                self.log.count_failures(1, now_s)
                if limit is None or transfer.head_attempts < limit:  # the MAC repeats the frame
                    continue
            self._leave_air(transfer, part, now_s)
        return messages

    def defer(self, users: Users, until_s: Floats) -> None:
        self.ready_s[users] = until_s
        self._disconnected_until_s[users] = until_s
        for user in users[np.isinf(until_s)].tolist():
            transfer = self._transfer(user)
            transfer.is_unreachable = True
            self._cancel_unreachable(transfer)

    def abort(self, users: Users, ending: Ending, now_s: float) -> None:
        transfers = [self._transfers[user] for user in users.tolist()]
        for transfer in transfers:
            if transfer is not None:
                self._stop(transfer, ending, now_s)
        has_no_transfer = [transfer is None for transfer in transfers]
        super().abort(users[has_no_transfer], ending, now_s)

    def take_row(self, users: Users) -> dict[str, Any]:
        cuts = np.empty(len(users), object)
        for place, user in enumerate(users.tolist()):
            self._transfers[user] = None  # it has ended
            cuts[place] = self._cuts[user]
        self._disconnected_until_s[users] = -np.inf
        return {**super().take_row(users), "cuts": cuts}

    def put_row(self, users: Users, row: Mapping[str, Any]) -> None:
        super().put_row(users, row)
        for user, cut in zip(users.tolist(), row["cuts"], strict=True):
            self._cuts[user] = cut

    def has_begun(self, users: Users) -> Bools:
        has_transfer = [self._transfers[user] is not None for user in users.tolist()]
        return np.array(has_transfer, np.bool_) & self.is_busy(users)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        super().finish(now_s, ())
        for transfer in [*self._superseded]:
            self._end_transfer(transfer, Ending("unfinished"), now_s)

    def end_segment(self, transfer: Transfer, part: int, ending: Ending, time_s: float) -> None:
        """Handle the end of a packet between the air and the server or, at the server, of the whole update."""
        if ending.outcome in _JUDGED_BY_SERVER:
            self._end_transfer(transfer, ending, time_s)
            return
        self.refresh(time_s)
        transfer.lose(part)
        if self._arq is None:  # nothing repeats the packet
            self._give_up(transfer, part, ending, time_s)
        elif transfer.state is UpdateState.SUPERSEDED:  # its user does not repeat it any more
            self._end_superseded_packet(transfer, part, ending.node, time_s)
        else:
            transfer.causes[part] = ending.outcome
            self._cancel_unreachable(transfer)

    def send_acknowledgement(self, transfer: Transfer, part: int) -> None:
        """Let the user know, a delay later, that the server has a packet."""
        if self._arq is None:
            return
        delay_s = self._ack_delay_s(int(self.ids[transfer.user]))
        call_after(self._env, delay_s, partial(self._receive_acknowledgement, transfer, part))

    def _segment(self, transfer: Transfer, part: int) -> Segment:
        user = int(self.ids[transfer.user])
        return Segment(
            user,
            transfer.packet_bits(part),
            user,
            base=transfer.base,
            sent_s=transfer.sent_s,
            attempts=1,
            outstanding=self.outstanding,
            tower=self.tower,
            part=part,
            transfer=transfer,
        )

    def _transfer(self, user: int) -> Transfer:
        """Return the transfer of the update of *user*, which begins if it has not."""
        transfer = self._transfers[user]
        if transfer is not None:
            return transfer
        window = None
        if self._arq is not None:
            window = self._arq.window
        transfer = Transfer(self, user, int(self.base[user]), self._cuts[user], window)
        self._transfers[user] = transfer
        if keeps_user_busy(self.state[user]):
            self.state[user] = transfer.state
        else:  # a MAC asks for the size of a frame that the user does not have
            transfer.end()
        transfer.advance()
        return transfer

    def _retries(self, transfer: Transfer, part: int, cause: str, limit: int | None, now_s: float) -> bool:
        """Return whether a packet that failed is sent again; without repetition, the last attempt gives it up."""
        if not transfer.is_sending or transfer.is_acknowledged(part):
            return False
        if self._arq is None and limit is not None and transfer.head_attempts >= limit:
            self._give_up(transfer, part, Ending.of_failure(cause, limit, self.tower), now_s)
            return False
        return True

    def _leave_air(self, transfer: Transfer, part: int, now_s: float) -> None:
        """Start the timer of a head that was received, or given up by the MAC, and let the next packet follow."""
        transfer.head = NO_PACKET
        if self._arq is not None and transfer.is_sending and not transfer.is_acknowledged(part):
            call_after(self._env, self._arq.timeout, partial(self._time_out, transfer, part))
        self._update_ready(transfer, now_s)

    def _time_out(self, transfer: Transfer, part: int, event: simpy.Event) -> None:
        """Let a timer expire, unless the acknowledgement comes at this instant."""
        self._env.at_end(Stage.TIMERS, partial(self._expire, transfer, part))

    def _expire(self, transfer: Transfer, part: int) -> None:
        """Queue a packet again whose acknowledgement has not come in time, or give the update up."""
        arq = self._arq
        assert arq is not None
        now_s = self._env.now
        self.refresh(now_s)
        if not transfer.is_sending or transfer.is_acknowledged(part):
            return
        if transfer.sends[part] > arq.retries:
            cause = transfer.causes.get(part, "timeout")
            self._give_up(transfer, part, Ending("given_up", self.tower, cause), now_s)
        else:
            transfer.repeat(part)
            self._resume(transfer, now_s)

    def _receive_acknowledgement(self, transfer: Transfer, part: int, event: simpy.Event) -> None:
        now_s = self._env.now
        self.refresh(now_s)
        transfer.acknowledge(part)
        if transfer.head == part and not self.on_air[transfer.user]:  # it need not be sent again
            transfer.head = NO_PACKET
        self._resume(transfer, now_s)

    def _resume(self, transfer: Transfer, now_s: float) -> None:
        """Choose the next packet of a user without one, unless the user is on the air."""
        user = transfer.user
        is_current = self._transfers[user] is transfer
        if not is_current or self.on_air[user] or transfer.head != NO_PACKET:
            return
        before_s = self.ready_s[user]
        self._update_ready(transfer, now_s)
        if self.ready_s[user] != before_s:
            self.source.on_change(np.array([user]))

    def _update_ready(self, transfer: Transfer, now_s: float) -> None:
        """Set when the user's next frame is ready: a packet of this update, or the next update."""
        user = transfer.user
        if self._transfers[user] is not transfer:
            return
        has_packet = transfer.advance()
        next_update_s = self.source.next_ready_s(user)
        if has_packet and np.isinf(next_update_s):
            self.ready_s[user] = max(now_s, self._disconnected_until_s[user])
        else:
            self.ready_s[user] = next_update_s

    def settle(self, transfer: Transfer) -> None:
        """Let an update arrive, or end it, once each of its packets has arrived or is lost."""
        arrived = transfer.arrived
        if arrived is None or not transfer.is_open or transfer.is_handed_over:
            return
        if self._loss_rule is None:  # an update that has lost a packet is not open
            transfer.hand_over(tuple(arrived))
            return
        parts = self._loss_rule.parts(arrived)
        if parts is not None:
            transfer.hand_over(parts)
            return
        assert transfer.last_loss is not None, "a packet is lost"
        self._stop(transfer, transfer.last_loss, self._env.now)

    def _give_up(self, transfer: Transfer, part: int, ending: Ending, now_s: float) -> None:
        """End an update by a packet that is lost for good, or erase the packet alone."""
        if self._loss_rule is None:
            self._stop(transfer, ending, now_s)
            return
        self._erase(transfer, part, ending)
        self._resume(transfer, now_s)

    def _erase(self, transfer: Transfer, part: int, ending: Ending) -> None:
        """Let an update no longer wait for a packet, which is lost for good."""
        transfer.erase(part, ending)
        self.settle(transfer)

    def _end_superseded_packet(self, transfer: Transfer, part: int, node: str, now_s: float) -> None:
        """End an update whose user has turned to a newer version by a lost packet, or erase the packet alone."""
        ending = Ending("superseded", node)
        if self._loss_rule is None:
            self._end_transfer(transfer, ending, now_s)
        else:
            self._erase(transfer, part, ending)

    def _stop(self, transfer: Transfer, ending: Ending, now_s: float) -> None:
        """End an update whose user may have sent only some of its packets."""
        self._end_transfer(transfer, ending, now_s)
        transfer.is_sending = False
        if not self.on_air[transfer.user]:
            transfer.head = NO_PACKET
        self._resume(transfer, now_s)

    def _end_transfer(self, transfer: Transfer, ending: Ending, now_s: float) -> None:
        """End an update, unless it has ended; its user may begin the next one."""
        if not transfer.is_open:
            return
        user = transfer.user
        users = np.array([user])
        transfer.end()
        if transfer in self._superseded:
            del self._superseded[transfer]
            self.outstanding.catch_up(self.ids[users], np.array([transfer.base]))
        if self._transfers[user] is transfer:  # else its user is busy with another update
            self.state[user] = UpdateState.ENDED
        is_expected = not transfer.is_cancelled
        self.end_updates(ending, now_s, users, transfer.base, is_expected=is_expected)
        if self.source.version[user] > self.base[user]:  # once this change is complete
            call_after(self._env, 0.0, lambda _: self.source.start_next(users, self._env.now))

    def _cancel_unreachable(self, transfer: Transfer) -> None:
        """Report once that a user is disconnected for good with packets to send."""
        has_packets = transfer.is_open and transfer.missing > 0
        if not transfer.is_unreachable or not has_packets or transfer.is_cancelled:
            return
        user = transfer.user
        transfer.is_cancelled = True
        self.is_lost[user] = True
        is_current = self._transfers[user] is transfer
        self.source.cancel(np.array([user]), None if is_current else transfer.base)
