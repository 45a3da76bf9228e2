"""Updates that are sent in packets: which packet of which user goes next, and what ends an update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import simpy
from numpy.typing import NDArray

from netfl.network.clock import call_after
from netfl.network.event_log import EventLog
from netfl.network.message import Message
from netfl.network.radio.tx_queue import Frames, Users
from netfl.network.transport.spec import Arq, Segmentation
from netfl.network.transport.transfer import NOTHING, Segment, Transfer
from netfl.network.users import UserBehaviour, UserPopulation


class SegmentedUpdates(UserPopulation):
    """The newest update of every user of one cell, in packets; a user's first frame is the packet that goes next.

    Users, versions and trainings are those of `UserPopulation`; here an update is *open* until it has its fate.

    Args:
        ids: the cell's users, as the whole network numbers them.
        compute_s: how long each trains for one update.
        cut: the packets of an update.
        tower: the tower's name.
        ledger: where events and fates go.
        arq: how packets are repeated; ``None``: they are not.
        env: the clock.
        back_s: how long an acknowledgement takes now to a user, by its number in the whole network.
        conduct: how the users behave.
    """

    def __init__(
        self,
        ids: Users,
        compute_s: NDArray[np.float64],
        cut: Segmentation,
        tower: str,
        ledger: EventLog,
        *,
        arq: Arq | None,
        env: simpy.Environment,
        back_s: Callable[[int], float],
        conduct: UserBehaviour | None = None,
    ) -> None:
        super().__init__(ids, compute_s, cut.most_bits, tower, ledger, conduct)
        self._cut, self._arq, self._env, self._back_s = cut, arq, env, back_s
        ledger.figures |= {"packets_sent": 0.0, "packets_repeated": 0.0}
        self._away_s = np.full(len(ids), -np.inf)
        self._at: list[Transfer | None] = [None] * len(ids)
        self._left: dict[Transfer, None] = {}

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """The sizes of the packets that go next."""
        bits = [self._cut.of(self._of(user).head) for user in users.tolist()]
        return bits[0] if len(set(bits)) == 1 else np.array(bits)

    def launch(self, users: Users, now_s: float) -> Frames:
        """The next packets of *users* go on the air."""
        self.on_air[users] = True
        ledger, told = self._ledger, [self._of(user) for user in users.tolist()]
        parts = [transfer.depart(now_s) for transfer in told]
        bits = np.array([self._cut.of(part) for part in parts])
        for transfer, part in zip(told, parts, strict=True):
            if transfer.tries == 1:
                ledger.figures["packets_sent"] += 1
                ledger.figures["packets_repeated"] += transfer.sends[part] > 1
        ledger.uplink_bits += float(bits.sum())
        ledger.event("sent", now_s, user=self.ids[users], node=self._tower, value=bits)
        return Frames(users, bits, [*zip(told, parts, strict=True)])

    def still(self, frames: Frames) -> Users:
        """The users who are still at the update that they sent a packet of."""
        return np.array([each.user for each, _ in frames.told if self._at[each.user] is each], np.int64)

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """Packets that were received go on to the server, the others are tried again or given up."""
        self.refresh(now_s)
        messages: list[Message] = []
        for place, ((transfer, part), cause) in enumerate(zip(frames.told, causes, strict=True)):
            if still := self._at[transfer.user] is transfer:
                self.on_air[transfer.user] = False
            if not cause:
                messages.append(self._segment(transfer, part))
            else:
                transfer.lose(part)
                if not still:
                    self._end_one(transfer, "superseded", now_s, self._tower)
                    continue
                if self._retried(transfer, part, cause, snr_db[place : place + 1], limit, now_s):
                    continue
            if still:
                self._after(transfer, part, now_s)
        return messages

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait, are cut off *until_s*."""
        self.ready_s[users] = self._away_s[users] = until_s
        for user in users[np.isinf(until_s)].tolist():
            transfer = self._of(user)
            transfer.gone = True
            self._despair(transfer)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The run ends: so do all updates that are open."""
        self._end_open(now_s)
        for transfer in [*self._left]:
            self._end_one(transfer, "unfinished", now_s)

    def land(self, transfer: Transfer, part: int, fate: str, time_s: float, node: str) -> None:
        """A packet has ended behind the air or, at the server, the whole update with it."""
        if fate in {"delivered", "late"}:
            self._end_one(transfer, fate, time_s, node)
            return
        self.refresh(time_s)
        transfer.lose(part)
        if self._arq is None:
            self._stop(transfer, fate, "", time_s, node)
        elif transfer.left:
            self._end_one(transfer, "superseded", time_s, node)
        else:
            transfer.cause[part] = fate
            self._despair(transfer)

    def answer(self, transfer: Transfer, part: int) -> None:
        """The server acknowledges a packet."""
        if self._arq is not None:
            call_after(self._env, self._back_s(int(self.ids[transfer.user])), partial(self._heard, transfer, part))

    def _of(self, user: int) -> Transfer:
        """The update that *user* is at."""
        transfer = self._at[user]
        if transfer is None:
            window = None if self._arq is None else self._arq.window
            transfer = self._at[user] = Transfer(self, user, int(self.base[user]), self._cut.count, window)
            transfer.advance()
        return transfer

    def _segment(self, transfer: Transfer, part: int) -> Segment:
        """A packet that was received, on its way to the server."""
        user = int(self.ids[transfer.user])
        return Segment(user, transfer.base, self._cut.of(part), transfer.sent_s, 1, user, part=part, transfer=transfer)

    def _retried(
        self, transfer: Transfer, part: int, cause: str, snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> bool:
        """An attempt failed: whether the MAC makes another.  If not, and nobody repeats packets, the update ends."""
        over = limit is not None and transfer.tries >= limit
        if not transfer.sending or transfer.acknowledged(part):
            return False
        if over and self._arq is None:
            fate, detail = (cause, "") if limit == 1 else ("given_up", cause)
            self._stop(transfer, fate, detail, now_s, self._tower)
            return False
        transfer.cause[part] = cause
        self._ledger.fail(1, now_s)
        self._ledger.event("failed", now_s, user=self.ids[transfer.user], node=self._tower, value=snr_db, detail=cause)
        return not over

    def _after(self, transfer: Transfer, part: int, now_s: float) -> None:
        """The head has been heard or given up by the MAC: its timer starts, and the next packet moves up."""
        transfer.head = NOTHING
        if self._arq is not None and transfer.sending and not transfer.acknowledged(part):
            call_after(self._env, self._arq.timeout, partial(self._expire, transfer, part))
        self._move_up(transfer, now_s)

    def _expire(self, transfer: Transfer, part: int, event: simpy.Event) -> None:
        """A timer has run out: without an acknowledgement the packet is sent again, or the update given up."""
        arq, now_s = self._arq, self._env.now
        assert arq is not None
        self.refresh(now_s)
        if not transfer.sending or transfer.acknowledged(part):
            return
        if transfer.sends[part] > arq.retries:
            self._stop(transfer, "given_up", transfer.cause.get(part, "timeout"), now_s, self._tower)
        else:
            transfer.repeat(part)
            self._turn(transfer, now_s)

    def _heard(self, transfer: Transfer, part: int, event: simpy.Event) -> None:
        """An acknowledgement is back."""
        now_s = self._env.now
        self.refresh(now_s)
        transfer.acknowledge(part)
        if transfer.head == part and not self.on_air[transfer.user]:
            transfer.head = NOTHING
        self._turn(transfer, now_s)

    def _turn(self, transfer: Transfer, now_s: float) -> None:
        """What there is to send may be another now; while the user is on the air that can wait."""
        user = transfer.user
        if self._at[user] is transfer and not self.on_air[user] and transfer.head == NOTHING:
            was_s = self.ready_s[user]
            self._move_up(transfer, now_s)
            if self.ready_s[user] != was_s:
                self.wake(np.array([user]))

    def _move_up(self, transfer: Transfer, now_s: float) -> None:
        """The next packet is ready, if there is one, as soon as the user is not cut off."""
        user = transfer.user
        if self._at[user] is not transfer:
            return
        due_s = self._due_s[user] + self._compute_s[user]
        self.ready_s[user] = max(now_s, self._away_s[user]) if transfer.advance() and np.isinf(due_s) else due_s

    def _stop(self, transfer: Transfer, fate: str, detail: str, now_s: float, node: str) -> None:
        """An update ends, and its user sends no more of it."""
        self._end_one(transfer, fate, now_s, node, detail)
        transfer.sending, on_air = False, self.on_air[transfer.user]
        transfer.head = transfer.head if on_air else NOTHING
        self._turn(transfer, now_s)

    def _end_one(self, transfer: Transfer, fate: str, now_s: float, node: str = "", detail: str = "") -> None:
        """An update has its fate, if it has none yet."""
        user, hoped = transfer.user, not transfer.stranded
        if transfer.open:
            transfer.open = False
            self._left.pop(transfer, None)
            self.open[user] &= self._at[user] is not transfer
            self._ledger.end(fate, now_s, self.ids[user], transfer.base, node=node, detail=detail, hoped=hoped)
            if self.held[user] > self.base[user]:
                call_after(self._env, 0.0, lambda _: self._go_on(np.array([user]), self._env.now))

    def _despair(self, transfer: Transfer) -> None:
        """Tell the ledger, once, of an update whose user is cut off for good with packets to send."""
        if transfer.gone and transfer.open and transfer.lacking and not transfer.stranded:
            transfer.stranded = self._lost[transfer.user] = True
            base = self.held[transfer.user] if self._at[transfer.user] is transfer else transfer.base
            self._ledger.strand(self.ids[[transfer.user]], base)

    def _abandon(self, users: Users) -> NDArray[np.int64]:
        """The places of those whose update ends as a newer version comes: of which anything has still to be sent."""
        places = []
        for place, user in enumerate(users.tolist()):
            transfer, self._at[user] = self._at[user], None
            ends = bool(self.open[user])
            if transfer is not None and transfer.leave(open=ends):
                self._left[transfer], ends = None, False
            if ends:
                places.append(place)
        self._away_s[users] = -np.inf
        return np.array(places, np.int64)
