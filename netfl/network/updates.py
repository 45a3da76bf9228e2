"""Updates: the states of one, the message that carries it, and those that the server still expects."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from netfl.network.event_log import Ending, EventLog
from netfl.network.link_log import LinkUse
from netfl.network.message import Message
from netfl.types import Bools, Ints, Users

_NONE = -1


class UpdateState(IntEnum):
    """State of an update, from the version that its user receives to the outcome; `STATE_RULES` has the properties."""

    IN_TRAINING = 0
    """Its user trains it; the end is known ahead and has no event, so an update may wait already."""
    WAITING = 1
    """It waits in the transmit queue for an attempt."""
    ON_AIR = 2
    """Its user has sent all of it: its frame, or the last of its packets, is on the air or further on its way."""
    IN_SEGMENTS = 3
    """Some of its packets have been sent, others still have to be."""
    SUPERSEDED = 4
    """Its user has turned to a newer version while all of it was on the air: it is received, or ends as superseded."""
    RECEIVED = 5
    """A tower has received it, and it is on its way to the server, or awaits the end of its round there."""
    ENDED = 6
    """Its outcome is recorded; a user without an update has this state, too."""


class StateRule(NamedTuple):
    """Properties of a state of an update.

    Args:
        kept_in: object that holds an update in this state.
        keeps_user_busy: whether its user is busy: it abandons, finishes or prefers this update when a version comes.
        ends_on_newer_version: whether a newer version, to which its user turns, ends it at once.
    """

    kept_in: str
    keeps_user_busy: bool
    ends_on_newer_version: bool


STATE_RULES = {
    UpdateState.IN_TRAINING: StateRule("UpdateQueue", keeps_user_busy=True, ends_on_newer_version=True),
    UpdateState.WAITING: StateRule("UpdateQueue", keeps_user_busy=True, ends_on_newer_version=True),
    UpdateState.ON_AIR: StateRule("Frames or Transfer", keeps_user_busy=True, ends_on_newer_version=False),
    UpdateState.IN_SEGMENTS: StateRule("Transfer", keeps_user_busy=True, ends_on_newer_version=True),
    UpdateState.SUPERSEDED: StateRule("Frames or Transfer", keeps_user_busy=False, ends_on_newer_version=False),
    UpdateState.RECEIVED: StateRule("Update", keeps_user_busy=False, ends_on_newer_version=False),
    UpdateState.ENDED: StateRule("EventLog", keeps_user_busy=False, ends_on_newer_version=False),
}
"""Properties of all states: what a newer version, to which its user turns, does to an update.

What the server counts no more is stated by `netfl.network.server.Server`.
"""
_KEEPS_BUSY = np.array([STATE_RULES[state].keeps_user_busy for state in UpdateState])
_ENDS_ON_NEWER = np.array([STATE_RULES[state].ends_on_newer_version for state in UpdateState])


def keeps_user_busy(states: Ints) -> Bools:
    """Return whether the user of each update is busy with it, ``[n]``."""
    return _KEEPS_BUSY.take(states)


def ends_on_newer_version(states: Ints) -> Bools:
    """Return whether each update ends at once when its user turns to a newer version, ``[n]``."""
    return _ENDS_ON_NEWER.take(states)


class UpdateReceiver(Protocol):
    """A node that takes updates, such as the server."""

    def receive(self, *updates: Update) -> None:
        """Receive updates that arrive together."""


class UpdateCarrier(Message):
    """A message that carries updates to the server: one, a part of one, or several."""

    __slots__ = ()

    @abstractmethod
    def arrive(self, server: UpdateReceiver) -> None:
        """Hand the updates that have arrived with this message to *server*."""


@dataclass(slots=True, eq=False, kw_only=True)
class Update(UpdateCarrier):
    """An update that a tower has received, on its way to the server.

    Args:
        base: version from which it was trained.
        sent_s: start of its first attempt.
        attempts: number of attempts over the air.
        outstanding: updates that the server expects, this one among them.
        received: whether the server has each of its parts; ``None`` for all.
        link: how it came over the air; ``None`` where nothing asks for it.
        tower: name of the tower from which it goes on to the server; with packets, the last of them.
    """

    base: int
    sent_s: float
    attempts: int
    outstanding: OutstandingUpdates
    received: tuple[bool, ...] | None = None
    link: LinkUse | None = None
    tower: str = ""

    def note_link(self, use: LinkUse) -> None:
        self.link = use

    def note_tower(self, tower: str) -> None:
        self.tower = tower

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        del self.outstanding.in_flight[self]
        self.outstanding.end(log, ending, time_s, np.array([self.user]), self.base)

    def arrive(self, server: UpdateReceiver) -> None:
        server.receive(self)


@dataclass(slots=True, eq=False, kw_only=True)
class UpdateSum(UpdateCarrier):
    """The sum of updates that a tower has received as one, on its way to the server; it has the size of one.

    Args:
        updates: the updates, in the order in which the server takes them.
    """

    updates: tuple[Update, ...]

    def user_ids(self) -> Iterable[int]:
        return [update.user for update in self.updates]

    def end(self, log: EventLog, ending: Ending, time_s: float) -> None:
        for update in self.updates:
            update.end(log, ending, time_s)

    def arrive(self, server: UpdateReceiver) -> None:
        server.receive(*self.updates)


class OutstandingUpdates:
    """Updates that have not ended, and for each user the newest version from which one may still be delivered.

    A user can have older updates, too, which are on their way while it has turned to a newer version.  They may be
    delivered although the newest is lost: `may_deliver` looks at all of them.

    Args:
        on_exhausted: called when no update is expected any more, and again for each that ends while none is.

    Attributes:
        count: number of users of whom an update is expected.
        min_version: oldest version from which an update counts.
        open_updates: number of updates that have not ended, by the version from which they were trained.
        in_flight: updates between the air and the server, in the order in which they left the air.
        on_end: called with users whose updates have ended, before `on_exhausted`; it may expect new ones.
    """

    def __init__(self, users: int, on_exhausted: Callable[[], None] = lambda: None) -> None:
        self._expected = np.full(users, _NONE, np.int64)
        self._is_awaited = np.ones(users, np.bool_)  # whether the round waits for older updates of a user, too
        self._left_behind: Counter[tuple[int, int]] = Counter()  # on the air, by user and base: its user has turned
        self._on_exhausted = on_exhausted
        self.count = 0
        self.min_version = 0
        self.open_updates: Counter[int] = Counter()
        self.in_flight: dict[Update, None] = {}
        self.on_end: Callable[[Users], None] | None = None

    def may_deliver(self, counted: Collection[Update] = ()) -> bool:
        """Return whether an update for which the round waits can still arrive and count.

        Args:
            counted: updates that have arrived, but await the end of the round.
        """
        if self.count:
            return True
        on_the_way = Counter((update.user, update.base) for update in self.in_flight)
        on_the_way.update(self._left_behind)
        on_the_way.subtract((update.user, update.base) for update in counted)
        return any(
            base >= self.min_version and self._is_awaited[user]
            for (user, base), number in on_the_way.items()
            if number > 0
        )

    def leave_behind(self, users: Users, base: Ints) -> None:
        """Note that *users* turn to newer versions while all of their updates from *base* is on the air, ``[n]``."""
        self._left_behind.update(zip(users.tolist(), base.tolist(), strict=True))

    def catch_up(self, users: Users, base: Ints) -> None:
        """Note that the updates of *users* from *base*, ``[n]``, have left the air, if they were `leave_behind`."""
        for key in zip(users.tolist(), base.tolist(), strict=True):
            if self._left_behind[key] > 1:
                self._left_behind[key] -= 1
            else:
                del self._left_behind[key]

    def begin(self, base: Ints) -> None:
        """Count updates that begin, one from each *base*."""
        self._count_open(base, len(base), 1)

    def end(
        self,
        log: EventLog,
        ending: Ending,
        time_s: ArrayLike,
        users: Users,
        base: ArrayLike,
        *,
        is_expected: bool = True,
    ) -> None:
        """End updates of *users* from *base*, with one time and version for all or one for each; *log* records it.

        *is_expected* is whether the server could still expect them; it does so no longer.
        """
        if not users.size:
            return
        log.record_ending(ending, time_s, users, base)
        self._count_open(base, len(users), -1)
        if is_expected:
            self._remove(users, base)
        if self.on_end is not None:
            self.on_end(users)
        self.signal_exhausted()

    def signal_exhausted(self) -> None:
        """Call `on_exhausted` if no update is expected."""
        if not self.count:
            self._on_exhausted()

    def expect(self, users: Users, base: ArrayLike, *, include_absent: bool = True) -> None:
        """Expect updates of *users*, all distinct, from *base*, if they count, and none from older versions.

        *base* is one version for all, or one for each.  Without *include_absent*, users of whom no update is expected
        stay so.
        """
        bases = np.broadcast_to(base, users.shape)
        is_absent = self.absent(users)
        is_newer = (bases > self._expected[users]) & (bases >= self.min_version)
        changes = is_newer & (include_absent | ~is_absent)
        self._is_awaited[users[changes]] = True
        self.count += int(np.count_nonzero(is_absent[changes]))
        self._expected[users[changes]] = bases[changes]

    def redirect(self, users: Users, base: ArrayLike, other: Ints) -> None:
        """Expect updates of *users* from *other*, ``[n]``, instead of *base*; none where *other* does not count."""
        bases = np.broadcast_to(base, users.shape)
        is_old = other < self.min_version
        is_expected = self._expected[users] == bases
        changes = is_expected & ~is_old
        self._expected[users[changes]] = other[changes]
        self.cancel(users[is_old], bases[is_old])

    def cancel(self, users: Users, base: ArrayLike) -> None:
        """Expect no updates of *users* from *base* any more; older ones that are on their way may still come."""
        self._remove(users, base)
        self.signal_exhausted()

    def ignore(self, users: Users, base: ArrayLike) -> None:
        """Wait for no update of *users* any more, of whom one from *base* was expected."""
        bases = np.broadcast_to(base, users.shape)
        self._is_awaited[users[self._expected[users] == bases]] = False
        self.cancel(users, base)

    def absent(self, users: Users) -> Bools:
        """Return whether no update of each of *users* is expected, ``[n]``."""
        return np.asarray(self._expected[users] == _NONE)

    def drop_older(self, version: int, *, awaits_sent: bool) -> None:
        """Expect no updates from versions before *version* any more.

        *awaits_sent* is whether the round waits for older ones that are on their way and count.
        """
        self._is_awaited[:] = awaits_sent
        self._expected[self._expected < version] = _NONE
        is_expected = self._expected != _NONE
        self._is_awaited |= is_expected
        self.count = int(np.count_nonzero(is_expected))

    def _remove(self, users: Users, base: ArrayLike) -> None:
        """Expect no updates of *users* from *base*."""
        removed = users[self._expected[users] == base]
        self._expected[removed] = _NONE
        self.count -= len(removed)

    def _count_open(self, base: ArrayLike, count: int, sign: int) -> None:
        """Add or subtract *count* updates, most often all from one version."""
        bases = np.asarray(base)
        first = bases.flat[0]
        count_of = {int(first): count}
        if bases.size > 1 and not (bases == first).all():
            versions, counts = np.unique(bases, return_counts=True)
            count_of = dict(zip(versions.tolist(), counts.tolist(), strict=True))
        for version, number in count_of.items():
            self.open_updates[version] += sign * number
            if not self.open_updates[version]:
                del self.open_updates[version]
