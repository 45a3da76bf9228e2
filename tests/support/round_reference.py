"""A reference simulator of rounds, event by event in plain Python, independent of the code of the network.

Each user has its own tower, channel and links, so that users do not interact.
"""

import heapq
from dataclasses import dataclass, field
from itertools import count

NEVER = float("inf")
_TIE = 1e-4


@dataclass
class Case:
    """A case to simulate: times in s per user, and outages as lists of (from, to) per user."""

    train: list
    delay: list
    rule: str
    size: int = 1
    deadline: float | None = None
    knows_losses: bool = True
    least: int = 0
    busy: str = "restart"
    staleness: int | None = None
    attempts: int | None = None
    spares: bool = False
    outages: list | None = None
    chosen: list | None = None
    hop: float = 0.0
    air: float = 1.0

    @property
    def continuous(self):
        return self.rule in {"buffered", "asynchronous"}


@dataclass(eq=False)
class Update:
    """One update of a user."""

    user: int
    base: int
    tried: int = 0
    state: str = "training"  # then: waiting, air, flying, over
    left: bool = False  # its user has abandoned it
    stuck: bool = False  # its user is down for ever


@dataclass
class User:
    """The state of a user: its version, its update and the versions on their way to it."""

    version: int = -1
    update: Update | None = None
    coming: list = field(default_factory=list)
    air_free: float = 0.0
    expected: bool = True


class Play:
    """Simulates the rounds of a case; `closed` has (time, [(user, base, arrived)]) for each round."""

    def __init__(self, case, rounds):
        self.case, self.rounds, self.users = case, rounds, [User() for _ in case.train]
        self.queue, self.order, self.now, self.round, self.closed = [], count(), 0.0, 0, []
        self.updates, self.tied, self.moments = set(), False, []

    def at(self, when, action, *rest):
        """Schedule a call. At equal times, the reception of versions comes first."""
        if when < NEVER:
            heapq.heappush(self.queue, (when, action != self.receive, next(self.order), action, rest))

    def next_up_s(self, k, t):
        """Return the first time from t on at which user k is up."""
        spans = self.case.outages[k] if self.case.outages else []
        while ends := [b for a, b in spans if a <= t < b]:
            t = max(ends)
        return t

    def run(self):
        """Simulate all rounds, or as many as are possible."""
        self.open()
        while len(self.closed) < self.rounds and self.queue:
            self.now, _, _, action, rest = heapq.heappop(self.queue)
            action(*rest)
            self.close_hopeless_rounds()
        return self.closed

    def open(self):
        case, users = self.case, range(len(self.users))
        self.round, self.got, self.is_open = self.round + 1, [], True
        self.may = set(case.chosen[(self.round - 1) % len(case.chosen)] if case.chosen else users)
        if case.deadline is not None:
            self.at(self.now + case.deadline, self.expire, self.round)
        for k, user in enumerate(self.users):
            user.expected = k in self.may
            if case.continuous:
                if k in self.may and self.resting(k):
                    self.send(k)
            elif k in self.may:
                self.send(k)
            elif case.busy == "restart":
                self.leave(user)
                user.coming = []

    def resting(self, k):
        """Return whether user k has no version on its way to it and no outstanding update."""
        return not self.users[k].coming and not any(update.user == k for update in self.updates)

    def send(self, k):
        entry = [self.round - 1]
        self.users[k].coming.append(entry)
        self.at(self.now + self.case.hop + self.case.delay[k], self.at_tower, k, entry)

    def at_tower(self, k, entry):
        user, case = self.users[k], self.case
        if entry not in user.coming:
            return
        user.coming = user.coming[next(i for i, other in enumerate(user.coming) if other is entry) :]
        if (next_up_s := self.next_up_s(k, self.now)) > self.now:
            if case.rule == "available" and entry[0] == self.round - 1:
                user.expected = False
            if next_up_s == NEVER:
                user.coming.remove(entry)
            self.at(next_up_s, self.receive, k, entry)
        else:
            self.receive(k, entry)

    def receive(self, k, entry):
        user = self.users[k]
        if not any(other is entry for other in user.coming):
            return
        user.coming = [other for other in user.coming if other is not entry]
        is_busy = user.update is not None
        if is_busy and self.case.busy == "ignore":
            return
        user.version = entry[0]
        if not is_busy or self.case.busy == "restart":
            self.begin(k)

    def begin(self, k):
        user = self.users[k]
        self.leave(user)
        user.update = Update(k, user.version)
        self.updates.add(user.update)
        self.at(self.now + self.case.train[k], self.ready, user.update)

    def leave(self, user):
        """Let a user abandon its update. A frame on the air continues to its end."""
        if (update := user.update) is not None:
            user.update, update.left = None, True
            if update.state != "air":
                self.over(update)

    def over(self, update):
        self.updates.discard(update)
        update.state = "over"
        if self.case.continuous and self.is_open and update.user in self.may:
            self.send(update.user)

    def ready(self, update):
        if update.state not in {"training", "waiting"}:
            return
        update.state, user = "waiting", self.users[update.user]
        if self.now < user.air_free:
            self.at(user.air_free, self.ready, update)
            return
        if (next_up_s := self.next_up_s(update.user, self.now)) > self.now:  # a vain attempt takes no time
            update.stuck = next_up_s == NEVER
            self.at(next_up_s, self.ready, update)
        else:
            user.air_free = self.now + self.case.air
            update.state = "air"
            self.at(user.air_free, self.landed, update, self.now)

    def landed(self, update, start):
        case, user = self.case, self.users[update.user]
        spans = case.outages[update.user] if case.outages else []
        cut = not case.spares and any(start < a < self.now for a, _ in spans)
        update.tried += 1
        if cut and not update.left and update.tried != case.attempts:
            update.state = "waiting"
            self.ready(update)
            return
        if user.update is update:
            user.update = None
        if cut:
            self.over(update)
        else:
            update.state = "flying"
            self.at(self.now + case.hop + case.delay[update.user], self.arrive, update)
        if user.update is None and not update.left and case.busy == "finish" and user.version > update.base:
            self.begin(update.user)

    def fresh(self, base):
        limit = self.case.staleness
        return limit is None or self.round - 1 - base <= limit

    def note_time(self):
        """Note whether two events at the server coincide up to rounding, as their order is then undefined."""
        self.tied |= any(abs(self.now - other) < _TIE for other in self.moments)
        self.moments = [*self.moments[-3:], self.now]

    def arrive(self, update):
        self.note_time()
        if self.is_open and self.fresh(update.base):
            self.got.append((update.user, update.base, self.now))
            self.is_open = not self.enough()
        self.over(update)
        if not self.is_open:
            self.close()

    def enough(self):
        rule, needed = self.case.rule, len(self.may) if self.case.rule == "available" else self.case.size
        return len(self.got) >= (1 if rule == "asynchronous" else needed)

    def expire(self, number):
        self.note_time()
        if number == self.round and self.is_open:
            self.close()

    def close(self):
        self.is_open = False
        self.closed.append((self.now, self.got if len(self.got) >= self.case.least else []))
        self.open()

    def close_hopeless_rounds(self):
        """Close a round as soon as no update can be delivered any more, if the server knows of losses."""
        while self.case.knows_losses and not self.can_deliver() and len(self.closed) < self.rounds:
            before = self.now, len(self.closed)
            self.close()
            if not self.can_deliver():
                self.closed = self.closed[: before[1] + 1]
                self.queue = []
                return

    def can_deliver(self):
        only_expected = self.case.rule == "available"
        return any(
            (user.expected or not only_expected) and self.can_deliver_from(k) for k, user in enumerate(self.users)
        )

    def can_deliver_from(self, k):
        user, updates = self.users[k], [update for update in self.updates if update.user == k]
        retries = self.case.continuous  # a useless arrival is followed by another update
        if any(retries or self.fresh(version) for (version,) in user.coming):
            return True
        if any(update.state in {"air", "flying"} and (retries or self.fresh(update.base)) for update in updates):
            return True
        update = user.update
        return update is not None and not update.stuck and (retries or self.fresh(max(update.base, user.version)))
