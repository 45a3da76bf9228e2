"""A simulator of rounds, event by event in plain Python, that shares no code with the network.

Every user has a tower, a channel and links of its own, so that nobody meets or waits for anybody.
"""

import heapq
from dataclasses import dataclass, field
from itertools import count

NEVER = float("inf")
_TIE = 1e-4


@dataclass
class Case:
    """What is played: times in s, one for each user; outages are lists of (from, to) for each user."""

    train: list
    delay: list
    rule: str
    size: int = 1
    deadline: float | None = None
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
    left: bool = False  # by its user, who is at another
    stuck: bool = False  # as its user has found out, for good


@dataclass
class User:
    """What a user has, what it is at, and which versions are on their way to it."""

    held: int = -1
    update: Update | None = None
    coming: list = field(default_factory=list)
    air_free: float = 0.0
    expected: bool = True


class Play:
    """The rounds of a case: `told` has (closed, [(user, base, arrived)]) for each."""

    def __init__(self, case, rounds):
        self.case, self.rounds, self.users = case, rounds, [User() for _ in case.train]
        self.queue, self.order, self.now, self.round, self.told = [], count(), 0.0, 0, []
        self.updates, self.tied, self.moments = set(), False, []

    def at(self, when, what, *rest):
        """Versions come before all else that happens at the same time."""
        if when < NEVER:
            heapq.heappush(self.queue, (when, what != self.receive, next(self.order), what, rest))

    def back(self, k, t):
        """When user k is up, from t on."""
        spans = self.case.outages[k] if self.case.outages else []
        while ends := [b for a, b in spans if a <= t < b]:
            t = max(ends)
        return t

    def run(self):
        """All rounds, or as many as there can be."""
        self.open()
        while len(self.told) < self.rounds and self.queue:
            self.now, _, _, what, rest = heapq.heappop(self.queue)
            what(*rest)
            self.despair()
        return self.told

    def open(self):
        case, everybody = self.case, range(len(self.users))
        self.round, self.got, self.is_open = self.round + 1, [], True
        self.may = set(case.chosen[(self.round - 1) % len(case.chosen)] if case.chosen else everybody)
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
        """Whether no version is on its way to user k, and no update of it on its way to the server."""
        return not self.users[k].coming and not any(one.user == k for one in self.updates)

    def send(self, k):
        entry = [self.round - 1]
        self.users[k].coming.append(entry)
        self.at(self.now + self.case.hop + self.case.delay[k], self.at_tower, k, entry)

    def at_tower(self, k, entry):
        user, case = self.users[k], self.case
        if entry not in user.coming:
            return
        user.coming = user.coming[next(i for i, one in enumerate(user.coming) if one is entry) :]
        if (back := self.back(k, self.now)) > self.now:
            if case.rule == "available" and entry[0] == self.round - 1:
                user.expected = False
            if back == NEVER:
                user.coming.remove(entry)
            self.at(back, self.receive, k, entry)
        else:
            self.receive(k, entry)

    def receive(self, k, entry):
        user = self.users[k]
        if not any(one is entry for one in user.coming):
            return
        user.coming = [one for one in user.coming if one is not entry]
        at_work = user.update is not None
        if at_work and self.case.busy == "ignore":
            return
        user.held = entry[0]
        if not at_work or self.case.busy == "restart":
            self.begin(k)

    def begin(self, k):
        user = self.users[k]
        self.leave(user)
        user.update = Update(k, user.held)
        self.updates.add(user.update)
        self.at(self.now + self.case.train[k], self.ready, user.update)

    def leave(self, user):
        """A user stops what it is at; what is on the air goes on to the end of that."""
        if (one := user.update) is not None:
            user.update, one.left = None, True
            if one.state != "air":
                self.over(one)

    def over(self, one):
        self.updates.discard(one)
        one.state = "over"
        if self.case.continuous and self.is_open and one.user in self.may:
            self.send(one.user)

    def ready(self, one):
        if one.state not in {"training", "waiting"}:
            return
        one.state, user = "waiting", self.users[one.user]
        if self.now < user.air_free:
            self.at(user.air_free, self.ready, one)
            return
        user.air_free = self.now + self.case.air
        if (back := self.back(one.user, self.now)) > self.now:  # asked in vain, which takes as long
            one.stuck = back == NEVER
            self.at(max(back, user.air_free), self.ready, one)
        else:
            one.state = "air"
            self.at(user.air_free, self.landed, one, self.now)

    def landed(self, one, start):
        case, user = self.case, self.users[one.user]
        spans = case.outages[one.user] if case.outages else []
        cut = not case.spares and any(start < a < self.now for a, _ in spans)
        one.tried += 1
        if cut and not one.left and one.tried != case.attempts:
            one.state = "waiting"
            self.ready(one)
            return
        if user.update is one:
            user.update = None
        if cut:
            self.over(one)
        else:
            one.state = "flying"
            self.at(self.now + case.hop + case.delay[one.user], self.arrive, one)
        if user.update is None and not one.left and case.busy == "finish" and user.held > one.base:
            self.begin(one.user)

    def fresh(self, base):
        limit = self.case.staleness
        return limit is None or self.round - 1 - base <= limit

    def tell(self):
        """Two things at the server at one time, but for rounding: which comes first is no matter of rules."""
        self.tied |= any(abs(self.now - other) < _TIE for other in self.moments)
        self.moments = [*self.moments[-3:], self.now]

    def arrive(self, one):
        self.tell()
        if self.is_open and self.fresh(one.base):
            self.got.append((one.user, one.base, self.now))
            self.is_open = not self.enough()
        self.over(one)
        if not self.is_open:
            self.close()

    def enough(self):
        rule, wanted = self.case.rule, len(self.may) if self.case.rule == "available" else self.case.size
        return len(self.got) >= (1 if rule == "asynchronous" else wanted)

    def expire(self, number):
        self.tell()
        if number == self.round and self.is_open:
            self.close()

    def close(self):
        self.is_open = False
        self.told.append((self.now, self.got if len(self.got) >= self.case.least else []))
        self.open()

    def despair(self):
        """Without a deadline a round closes as soon as nothing that counts can come any more."""
        while self.case.deadline is None and not self.hope() and len(self.told) < self.rounds:
            before = self.now, len(self.told)
            self.close()
            if not self.hope():
                self.told = self.told[: before[1] + 1]
                self.queue = []
                return

    def hope(self):
        some = self.case.rule == "available"
        return any((user.expected or not some) and self.promising(k) for k, user in enumerate(self.users))

    def promising(self, k):
        user, mine = self.users[k], [one for one in self.updates if one.user == k]
        again = self.case.continuous  # what comes of no use makes room for another
        if any(again or self.fresh(version) for (version,) in user.coming):
            return True
        if any(one.state in {"air", "flying"} and (again or self.fresh(one.base)) for one in mine):
            return True
        one = user.update
        return one is not None and not one.stuck and (again or self.fresh(max(one.base, user.held)))
