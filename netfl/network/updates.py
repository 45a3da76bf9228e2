"""The users of one cell and what each is at: training, waiting to be heard, or done with the version that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netfl.network.ledger import Ledger
from netfl.network.load import Frames, Load, Users
from netfl.network.message import Message

Train = Callable[[Users, NDArray[np.float64]], None]
"""What is told which users begin to train, and when."""


class _Sent(NamedTuple):
    """What was sent: updates that start from these versions."""

    base: NDArray[np.int64]
    sent_s: NDArray[np.float64]
    attempts: NDArray[np.int64]


class Updates(Load):
    """The newest update of every user of one cell, as arrays over the cell's users, which are numbered from 0.

    A user that receives a version starts an update from it and abandons the one that it was at.  A user that is cut
    off when its tower has a new version receives it at a known later time (`due_s`); it is taken note of when somebody
    looks, so that no event is needed for it.  In between the user cannot send, and nothing else changes.

    Args:
        ids: the cell's users, as the whole network numbers them.
        compute_s: how long each trains for one update.
        bits: the size of an update.
        tower: the tower's name.
        ledger: where events and fates go.
        train: told who begins to train and when, by their numbers in the whole network; ``None`` if nobody asks.

    Attributes:
        base: the version that the update starts from; -1 before the first.
        open: whether the update is neither ended nor past the air.
        ready_s: when it joined, or will join, the backlog; infinity if there is none to come.
        sent_s: when its first attempt began; NaN before.
        attempts: how many attempts it has made.
        on_air: whether it is on the air.
        wake: told of users whose entries have changed otherwise than by what the cell asked for.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - all that it starts from
        self,
        ids: Users,
        compute_s: NDArray[np.float64],
        bits: float,
        tower: str,
        ledger: Ledger,
        train: Train | None = None,
    ) -> None:
        self.ids, self._compute_s, self.most_bits, self._tower, self._ledger = ids, compute_s, bits, tower, ledger
        size, self._train = len(ids), train
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
        self._version = -1
        self._absent: Users = np.empty(0, np.int64)

    def hear(self, version: int, due_s: NDArray[np.float64], now_s: float) -> None:
        """The tower has *version*, which each user receives at *due_s*: now, later, or never."""
        self.refresh(now_s)
        self._version = version
        here = due_s <= now_s
        absent = np.flatnonzero(~here)
        self._due_s[absent] = due_s[absent]
        self.ready_s[absent] = due_s[absent] + self._compute_s[absent]
        self._absent = absent[np.argsort(due_s[absent], kind="stable")]
        self._ledger.strand(np.full(np.count_nonzero(np.isinf(due_s)), version))
        self.start(np.flatnonzero(here), np.full(np.count_nonzero(here), now_s))

    def refresh(self, now_s: float) -> None:
        """Let those who were cut off, and are so no longer, have the version that they missed."""
        if self._absent.size:
            count = np.searchsorted(self._due_s[self._absent], now_s, side="right")
            if count:
                back, self._absent = self._absent[:count], self._absent[count:]
                self.start(back, self._due_s[back])

    def start(self, users: Users, at_s: NDArray[np.float64]) -> None:
        """*users* receive the tower's version at *at_s* and begin to train."""
        if not users.size:
            return
        self._tell_trained(users, at_s)
        old = self._abandon(users)
        self._ledger.end("superseded", at_s[old], self.ids[users[old]], self.base[users[old]])
        self._ledger.received(at_s, self.ids[users], self._version, self._tower)
        self.base[users] = self._version
        self.open[users], self.on_air[users] = True, False
        self.attempts[users], self.sent_s[users], self._due_s[users] = 0, np.nan, np.inf
        self.ready_s[users] = self._trained_s[users] = at_s + self._compute_s[users]
        if self._train is not None:
            self._train(self.ids[users], at_s)

    def _abandon(self, users: Users) -> NDArray[np.int64]:
        """The places of those whose update ends as a newer version comes: those that are not on the air."""
        return np.flatnonzero(self.open[users] & ~self.on_air[users])

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
        still = self._still(frames)
        self.on_air[frames.users[still]] = False
        for cause in dict.fromkeys(causes):
            chosen = np.array([each == cause for each in causes])
            over = chosen & still & (not cause or frames.told.attempts >= (limit or np.inf))
            self._close(frames.users[over])
            if cause:
                self._end(frames, over, *((cause, "") if limit == 1 else ("given_up", cause)), now_s)
                self._end(frames, chosen & ~still, "superseded", "", now_s)
                self._again(frames, chosen & still & ~over, cause, snr_db, now_s)
        messages = [self._message(frames, place) for place, cause in enumerate(causes) if not cause]
        self._ledger.flying.update(dict.fromkeys(messages))
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

    def _close(self, users: Users) -> None:
        """The updates of *users* have ended or are past the air."""
        self.open[users] = self.on_air[users] = False
        self.ready_s[users] = self._due_s[users] + self._compute_s[users]

    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait, are cut off *until_s*."""
        self.ready_s[users] = until_s
        self._ledger.strand(self.base[users[np.isinf(until_s)]])

    def tell(self, now_s: float) -> None:
        """Record what has come about up to now without anybody looking."""
        self.refresh(now_s)
        everyone = np.arange(len(self.ids)) if self._wants_trained else self._absent[:0]
        self._tell_trained(everyone, np.full(len(everyone), now_s))
        self._told_s = now_s

    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The run ends: so do all updates that are open, and those that were abandoned while on the air."""
        for frames in on_air:
            self._end(frames, ~self._still(frames), "unfinished", "", now_s)
        users = np.flatnonzero(self.open)
        self._ledger.end("unfinished", now_s, self.ids[users], self.base[users])

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
