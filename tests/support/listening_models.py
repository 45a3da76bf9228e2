"""Accesses and selections for tests that use feedback from the learners or the sample counts of users."""

from typing import ClassVar

import numpy as np

from netfl.access import Access, AccessInfo
from netfl.access.selection import Selection, Selector
from netfl.types import Delivery, Law, Round


class Listening(Access):
    """Delivers the users with the highest loss; the norms of all updates set the length of the round.

    User 0 is slow: it starts from the version before the newest.
    """

    m: int = 1
    learner: str | None = None

    def rounds(self, setting):
        users, reply, at_s = tuple(range(setting.users)), None, 0.0
        for index in range(1, setting.rounds + 1):
            loss, norm = (None if reply is None else reply.answer(metric) for metric in ("loss", "norm"))
            delivered = np.arange(self.m) if loss is None else np.argsort(-loss, kind="stable")[: self.m]
            end_s = at_s + 1 + (0.0 if norm is None else float(norm.sum()))
            bases = {user: max(0, index - 2) if user == 0 else index - 1 for user in delivered.tolist()}
            deliveries = tuple(
                Delivery(user=user, base=base, sent_s=at_s, arrived_s=end_s) for user, base in bases.items()
            )
            asks = {"loss": users, "norm": users[1:]} if index % 4 else {}
            reply = yield Round(
                index=index,
                opened_s=at_s,
                closed_s=end_s,
                deliveries=deliveries,
                oldest=max(0, index - 1),
                uplink_bits=1.0,
                downlink_bits=1.0,
                queries=asks,
            )
            at_s = end_s

    def max_deliveries(self, users, rounds):
        return self.m

    @property
    def info(self):
        return AccessInfo(is_closed_loop=True, learner=self.learner)

    def laws(self):
        return (Law.none("a toy"),)


class Hurried(Access):
    """Asynchronous users that restart at once from the newest version; each version has 0 to 4 deliveries."""

    def rounds(self, setting):
        rng, versions = setting.streams.rng("hurry"), np.zeros(setting.users, np.int64)
        chances = 0.5 ** np.arange(setting.users)
        for index in range(1, setting.rounds + 1):
            delivered, deliveries = rng.choice(setting.users, size=index % 5, p=chances / chances.sum()), []
            for at, user in enumerate(delivered.tolist()):
                deliveries.append(
                    Delivery(user=user, base=int(versions[user]), sent_s=index - 1.0, arrived_s=index - 0.9 + 0.1 * at)
                )
                versions[user] = index - 1
            versions[delivered[-1:]] = index
            needed = tuple(int(base) for base in np.unique(versions) if base < index)
            yield Round(
                index=index,
                opened_s=index - 1.0,
                closed_s=float(index),
                deliveries=tuple(deliveries),
                oldest=int(versions.min()),
                needed=needed,
            )

    def max_deliveries(self, users, rounds):
        return 4

    def laws(self):
        return (Law.none("a toy"),)


class Neediest(Selection):
    """Selects the user with the highest loss."""

    observes: ClassVar = ("loss",)

    def open(self, population):
        return _Neediest()

    def max_selected(self, users):
        return 1

    def laws(self):
        return (Law.none("a toy"),)


class _Neediest(Selector):
    def choose(self, moment):
        return np.array([0 if np.isnan(moment.loss).any() else moment.loss.argmax()])


class Richest(Selection):
    """Selects the users with more samples than average."""

    def open(self, population):
        return _Richest(np.flatnonzero(population.sample_counts > population.sample_counts.mean()))

    @property
    def needs_sample_counts(self):
        return True

    def laws(self):
        return (Law.none("a toy"),)


class _Richest(Selector):
    def __init__(self, rich):
        self._rich = rich

    def choose(self, moment):
        return self._rich
