"""The users of one cell and what each is at: training, waiting to be heard, or done with the version that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netfl.network.compute import Luck
from netfl.network.energy import EnergyMeter
from netfl.network.event_log import EventLog
from netfl.network.message import Message
from netfl.network.radio.tx_queue import Frames, TxQueue, Users

# How users behave, whatever they are at.


Busy = Literal["restart", "finish", "ignore"]
"""What a user does that is at an update when a newer version reaches it."""


@dataclass(frozen=True, slots=True)
class UserBehaviour:
    """How users behave.

    Args:
        busy: what a user does that is at an update when a newer version reaches it.
        waits: whether the server waits for users who are cut off when their tower has a version.
        train: told which users begin to train, by their numbers in the whole network, and when; ``None``: nobody asks.
        luck: by how much longer than usual single updates take; ``None``: they do not.
        spending: what trainings and receptions cost; ``None``: nobody counts.
    """

    busy: Busy = "restart"
    waits: bool = True
    train: Callable[[Users, NDArray[np.float64]], None] | None = None
    luck: Luck | None = None
    spending: EnergyMeter | None = None


class UserPopulation(TxQueue):
    """The users of one cell, numbered from 0, as arrays: which version each has, and the update that it is at.

    A user that receives a version starts an update from it.  One that is still at another (training, or not yet past
    the air) abandons that, or finishes it and starts from the newest version that it has then, or ignores the new one.
    A user that is cut off when its tower has a new version receives it at a known later time (`due_s`); it is taken
    note of when somebody looks, so that no event is needed for it.  In between the user cannot send.

    Args:
        ids: the cell's users, as the whole network numbers them.
        compute_s: how long each trains for one update, but for its luck.
        bits: the size of an update.
        tower: the tower's name.
        ledger: where events and fates go.
        conduct: how the users behave.

    Attributes:
        base: the version that the update starts from; -1 before the first.
        held: the newest version that each user has; -1 before the first.
        open: whether the update is neither ended nor past the air.
        ready_s: when it joined, or will join, the backlog; infinity if there is none to come.
        sent_s: when its first attempt began; NaN before.
        attempts: how many attempts it has made.
        on_air: whether it is on the air.
        wake: told of users whose entries have changed otherwise than by what the cell asked for.
    """

    def __init__(
        self,
        ids: Users,
        compute_s: NDArray[np.float64],
        bits: float,
        tower: str,
        ledger: EventLog,
        conduct: UserBehaviour | None = None,
    ) -> None:
        self._conduct = conduct or UserBehaviour()
        self._busy, self._waits = self._conduct.busy, self._conduct.waits
        self._luck, self._spending = self._conduct.luck, self._conduct.spending
        self.ids, self._usual_s, self.most_bits, self._tower, self._ledger = ids, compute_s, bits, tower, ledger
        size = len(ids)
        self._compute_s, self._drawn = compute_s.copy(), np.zeros(size, np.int64)
        self._draw(np.arange(size))
        self.wake: Callable[[Users], None] = lambda _: None
        self.base = np.full(size, -1, np.int64)
        self.open = np.zeros(size, np.bool_)
        self.ready_s = np.full(size, np.inf)
        self.sent_s = np.full(size, np.nan)
        self.attempts = np.zeros(size, np.int64)
        self.on_air = np.zeros(size, np.bool_)
        self._trained_s = np.full(size, np.inf)
        self._due_s = np.full(size, np.inf)
        self._told_s = -np.inf
        self.held = np.full(size, -1, np.int64)
        self._lost = np.zeros(size, np.bool_)  # whose update can come no more, as they are cut off for good
        self._coming = np.full(size, -1, np.int64)
        self._absent: Users = np.empty(0, np.int64)

    def hear(self, version: int, users: Users, due_s: NDArray[np.float64], now_s: float) -> None:
        """*users* are sent *version*, which each receives at its *due_s*: now, later, or never."""
        self.refresh(now_s)
        here = due_s <= now_s
        self._await(version, users[~here], due_s[~here])
        self.start(users[here], np.full(np.count_nonzero(here), now_s), version)
        if self._absent.size or not here.all():
            absent = np.flatnonzero(np.isfinite(self._due_s))
            self._absent = absent[np.argsort(self._due_s[absent], kind="stable")]

    def refresh(self, now_s: float) -> None:
        """Let those who were cut off, and are so no longer, have the version that they missed."""
        if self._absent.size:
            count = np.searchsorted(self._due_s[self._absent], now_s, side="right")
            if count:
                back, self._absent = self._absent[:count], self._absent[count:]
                self.start(back, self._due_s[back], self._coming[back])

    def start(self, users: Users, at_s: NDArray[np.float64], version: int | NDArray[np.int64]) -> None:
        """*users* receive *version* at *at_s*; they begin to train, unless they are busy and go on with that.

        Args:
            users: who; by their numbers in the cell.
            at_s: when each of them does.
            version: one for all, or one for each.
        """
        versions = np.broadcast_to(version, users.shape)
        self._due_s[users] = np.inf
        if self._busy != "restart":
            busy = self.open[users]
            if self._busy == "finish" and busy.any():
                self._receive(users[busy], at_s[busy], versions[busy])
                self._ledger.hopes.have(self.ids[users[busy]], versions[busy], anew=self._waits)
            if self._busy == "ignore":
                self._ledger.turn(self.ids[users[busy]], versions[busy], self.base[users[busy]])
            users, at_s, versions = users[~busy], at_s[~busy], versions[~busy]
        if users.size:
            self._supersede(users, at_s)
            self._receive(users, at_s, versions)
            self._begin(users, at_s)

    def miss(self, version: int, users: Users, now_s: float) -> None:
        """*users* have missed *version*: who is not busy begins anew from the version that it has, if it has one."""
        self.refresh(now_s)
        busy, vain = self.open[users], (self.held[users] < 0) | (self.open[users] & self._lost[users])
        self._ledger.strand(self.ids[users[vain]], version)
        self._ledger.turn(self.ids[users[~vain]], version, self.held[users[~vain]])
        self._renew(users[~busy & ~vain], now_s)

    def dismiss(self, users: Users, now_s: float) -> None:
        """*users* are not wanted for now: they stop whatever they are at."""
        self.refresh(now_s)
        self._supersede(users, np.full(len(users), now_s))
        self.open[users] = self.on_air[users] = False
        self.ready_s[users] = self._due_s[users] = self._trained_s[users] = np.inf
        self._absent = self._absent[np.isfinite(self._due_s[self._absent])]

    def versions(self) -> set[int]:
        """The versions that users have, or will have once they are back."""
        later = self._coming[np.isfinite(self._due_s)]
        return {*np.unique(self.held[self.held >= 0]).tolist(), *later.tolist()}

    def _await(self, version: int, users: Users, due_s: NDArray[np.float64]) -> None:
        """*users* are cut off and receive *version* at *due_s*."""
        if not users.size:
            return
        self._due_s[users], self._coming[users] = due_s, version
        waiting = users if self._busy == "restart" else users[~self.open[users]]
        self.ready_s[waiting] = self._due_s[waiting] + self._compute_s[waiting]
        gone = users if not self._waits else users[np.isinf(due_s)]
        self._ledger.strand(self.ids[gone], version)

    def _receive(self, users: Users, at_s: NDArray[np.float64], versions: NDArray[np.int64]) -> None:
        """*users* have *versions* now."""
        self._ledger.received(at_s, self.ids[users], versions, self._tower)
        if self._spending is not None:
            self._spending.hear(self.ids[users])
        self.held[users] = versions

    def _begin(self, users: Users, at_s: NDArray[np.float64]) -> None:
        """*users* begin to train from the versions that they have."""
        base = self.held[users]
        self._ledger.begin(base)
        self._ledger.hopes.have(self.ids[users], base, anew=self._waits)
        self.base[users] = base
        self.open[users], self.on_air[users], self._lost[users] = True, False, False
        self.attempts[users], self.sent_s[users] = 0, np.nan
        self.ready_s[users] = self._trained_s[users] = at_s + self._compute_s[users]
        if self._conduct.train is not None:
            self._conduct.train(self.ids[users], at_s)
        if self._spending is not None:
            self._spending.train(self.ids[users], at_s, self._trained_s[users])
        self._draw(users)

    def _draw(self, users: Users) -> None:
        """How long *users* will train for their next updates."""
        if self._luck is not None:
            self._compute_s[users] = self._usual_s[users] * self._luck(self.ids[users], self._drawn[users])
            self._drawn[users] += 1

    def _go_on(self, users: Users, now_s: float) -> None:
        """*users* are past an update: those who have received a newer version meanwhile begin from that."""
        if self._busy == "finish":
            self._renew(users[(self.held[users] > self.base[users]) & ~self.open[users]], now_s)

    def _renew(self, users: Users, now_s: float) -> None:
        """*users*, who are not busy, begin from the versions that they have."""
        if users.size:
            at_s = np.full(len(users), now_s)
            self._supersede(users, at_s)
            self._begin(users, at_s)
            self.wake(users)

    def _supersede(self, users: Users, at_s: NDArray[np.float64]) -> None:
        """What *users* are at ends, unless it is on the air."""
        self._tell_trained(users, at_s)
        if self._spending is not None:
            self._spending.stop(self.ids[users], at_s)
        old = self._abandon(users)
        self._ledger.end("superseded", at_s[old], self.ids[users[old]], self.base[users[old]])

    def _abandon(self, users: Users) -> NDArray[np.int64]:
        """The places of those whose update ends as a newer version comes: those that are not on the air."""
        return np.flatnonzero(self.open[users] & ~self.on_air[users])

    def _close(self, users: Users) -> None:
        """The updates of *users* have ended or are past the air."""
        self.open[users] = self.on_air[users] = False
        self.ready_s[users] = self._due_s[users] + self._compute_s[users]

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait, are cut off *until_s*."""
        self.ready_s[users] = until_s
        gone = users[np.isinf(until_s)]
        self._lost[gone] = True
        self._ledger.strand(self.ids[gone], self.held[gone])

    def tell(self, now_s: float) -> None:
        """Record what has come about up to now without anybody looking."""
        self.refresh(now_s)
        everyone = np.arange(len(self.ids)) if self._wants_trained else self._absent[:0]
        self._tell_trained(everyone, np.full(len(everyone), now_s))
        self._told_s = now_s

    @property
    def _wants_trained(self) -> bool:
        """Whether the end of a training is recorded."""
        return self._ledger.wants("trained") or self._ledger.wants("queued")

    def _tell_trained(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """Record the trainings of *users* that ended by *until_s* and have not been told yet."""
        if not self._wants_trained:
            return
        trained_s = self._trained_s[users]
        done = (trained_s > self._told_s) & (trained_s <= until_s)
        if done.any():
            who, when, base = self.ids[users[done]], trained_s[done], self.base[users[done]]
            for kind in ("trained", "queued"):
                self._ledger.event(kind, when, user=who, node=self._tower, value=base)

    def _end_open(self, now_s: float) -> None:
        """The run ends: so do all updates that are open."""
        users = np.flatnonzero(self.open)
        self._ledger.end("unfinished", now_s, self.ids[users], self.base[users])


# Updates that are sent whole.


class _Sent(NamedTuple):
    """What was sent: updates that start from these versions."""

    base: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    attempts: NDArray[np.int64]


class WholeUpdates(UserPopulation):
    """The newest update of every user of one cell, each sent whole."""

    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """All updates are of one size."""
        return self.most_bits

    def launch(self, users: Users, now_s: float) -> Frames:
        """The updates of *users* go on the air."""
        self.on_air[users] = True
        self.attempts[users] += 1
        self.sent_s[users] = np.fmin(self.sent_s[users], now_s)
        self._ledger.uplink_bits += self.most_bits * len(users)
        self._ledger.event("sent", now_s, user=self.ids[users], node=self._tower, value=self.most_bits)
        return Frames(users, self.most_bits, _Sent(self.base[users], self.sent_s[users], self.attempts[users]))

    def still(self, frames: Frames) -> Users:
        """The users who are still at the update that they sent: no newer version has reached them."""
        return frames.users[self._still(frames)]

    def _still(self, frames: Frames) -> NDArray[np.bool_]:
        """The same as a mask, ``[n]``."""
        users = frames.users
        return np.asarray(self.on_air[users] & (self.base[users] == frames.told.base))

    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """What was received goes on to the server, what was not is tried again or ends."""
        self.refresh(now_s)
        still, past = self._still(frames), []
        self.on_air[frames.users[still]] = False
        for cause in dict.fromkeys(causes):
            chosen = np.array([each == cause for each in causes])
            over = chosen & still & (not cause or frames.told.attempts >= (limit or np.inf))
            self._close(frames.users[over])
            past.append(frames.users[over])
            if cause:
                self._end(frames, over, *((cause, "") if limit == 1 else ("given_up", cause)), now_s)
                self._end(frames, chosen & ~still, "superseded", "", now_s)
                self._again(frames, chosen & still & ~over, cause, snr_db, now_s)
        messages = [self._message(frames, place) for place, cause in enumerate(causes) if not cause]
        self._ledger.flying.update(dict.fromkeys(messages))
        self._go_on(np.concatenate(past), now_s)
        return messages

    def _message(self, frames: Frames, place: int) -> Message:
        """An update that was received, on its way to the server."""
        user, told = int(self.ids[frames.users[place]]), frames.told
        sent_s, attempts = float(told.sent_s[place]), int(told.attempts[place])
        return Message(user, int(told.base[place]), self.most_bits, sent_s, attempts, flow=user)

    def _end(self, frames: Frames, chosen: NDArray[np.bool_], fate: str, detail: str, now_s: float) -> None:
        """Updates that were on the air end."""
        ids, base = self.ids[frames.users[chosen]], frames.told.base[chosen]
        self._ledger.end(fate, now_s, ids, base, node=self._tower, detail=detail)

    def _again(
        self, frames: Frames, chosen: NDArray[np.bool_], cause: str, snr_db: NDArray[np.float64], now_s: float
    ) -> None:
        """Attempts failed that will be followed by others."""
        self._ledger.fail(int(np.count_nonzero(chosen)), now_s)
        if chosen.any() and self._ledger.wants("failed"):
            told = {"user": self.ids[frames.users[chosen]], "node": self._tower, "detail": cause}
            self._ledger.event("failed", now_s, value=snr_db[chosen], **told)

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The run ends: so do all updates that are open, and those that were abandoned while on the air."""
        for frames in on_air:
            self._end(frames, ~self._still(frames), "unfinished", "", now_s)
        self._end_open(now_s)
