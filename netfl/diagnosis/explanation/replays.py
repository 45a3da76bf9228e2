"""Replays of the network of a run: unchanged, and without causes of missing deliveries for one user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from netfl.access.network import NetworkAccess
from netfl.diagnosis.explanation.gains import Gain, gain_between
from netfl.network.counterfactual import NO_EXEMPTIONS
from netfl.simulation.setup import RunSetup, locate_faults
from netfl.types import OUTCOMES, Event, Ints, NullRecorder


@dataclass(frozen=True)
class Replay:
    """Deliveries of a replay.

    Args:
        rows: place of the replica, round, user and base of each delivery, ``[deliveries, 4]``.
        shape: the number of replicas, rounds and users.
        open_s: duration of each round of each replica, in seconds.
    """

    rows: Ints
    shape: tuple[int, int, int]
    open_s: Sequence[float]

    @property
    def time_s(self) -> float:
        """Simulated time of all replicas."""
        return float(sum(self.open_s))

    def by_round(self) -> Ints:
        """Return the deliveries of all users in each round, ``[replicas, rounds, users]``."""
        delivered = np.zeros(self.shape, np.int64)
        replicas, rounds, users, _ = self.rows.T
        np.add.at(delivered, (replicas, rounds - 1, users), 1)
        return delivered

    def of_user(self, user: int) -> Ints:
        """Return the deliveries of *user* in each round, ``[replicas, rounds]``."""
        delivered = np.zeros(self.shape[:2], np.int64)
        replicas, rounds, _, _ = self.rows[self.rows[:, 2] == user].T
        np.add.at(delivered, (replicas, rounds - 1), 1)
        return delivered

    def gain_over(self, other: Replay, user: int) -> Gain:
        """Return what *user* gains in this replay over *other*."""
        return gain_between(other.of_user(user), self.of_user(user), other.time_s, self.time_s)


@dataclass
class Evidence(NullRecorder):
    """Facts that a replay shows about the updates of each user: a recorder that counts.

    Args:
        outcomes: number of updates by user and outcome.
        failed: number of failed attempts over the air by user and cause.
        trained: number of finished trainings by user.
    """

    outcomes: Counter[tuple[int, str]] = field(default_factory=Counter)
    failed: Counter[tuple[int, str]] = field(default_factory=Counter)
    trained: Counter[int] = field(default_factory=Counter)

    def wants(self, kind: str) -> bool:
        return super().wants(kind) or kind in {"failed", "trained", *OUTCOMES}

    def record(self, event: Event) -> None:
        kind = event.kind
        if not self.wants(kind):
            return
        shape = np.broadcast_shapes(np.shape(event.time_s), np.shape(event.user))
        for user in np.broadcast_to(event.user, shape).ravel().tolist():
            if kind == "trained":
                self.trained[user] += 1
                continue
            if kind in {"failed", "given_up"}:  # an update is given up after its last failure
                self.failed[user, event.detail] += 1
            if kind != "failed":
                self.outcomes[user, kind] += 1


class Replays:
    """The network of a run, simulated again and again.

    Args:
        setup: the run.
        access: its network.
    """

    def __init__(self, setup: RunSetup, access: NetworkAccess) -> None:
        self.setup = setup
        self.access = access

    def unchanged(self, evidence: Evidence) -> Replay:
        """Simulate the network as it is, and let *evidence* count what happens."""
        return self._play(self.access, evidence)

    def without(self, causes: Sequence[str], user: int) -> Replay:
        """Simulate the network with *user* exempt from *causes*, in addition to the users that are exempt already."""
        exempt = self.access.exempt or NO_EXEMPTIONS
        with_user = {cause: tuple({*getattr(exempt, cause), user}) for cause in causes}
        extended = exempt.model_copy(update=with_user)
        access = self.access.model_copy(update={"exempt": extended})
        return self._play(access, NullRecorder())

    def _play(self, access: NetworkAccess, recorder: NullRecorder) -> Replay:
        scenario = self.setup.scenario
        rows: list[tuple[int, int, int, int]] = []
        open_s = []
        with locate_faults(scenario, "access"):
            for context in self.setup.contexts:
                for played in access.rounds(replace(context, recorder=recorder)):
                    open_s.append(played.closed_s - played.opened_s)
                    rows += [
                        (context.replica, played.index, delivery.user, delivery.base)
                        for delivery in played.all_deliveries()
                    ]
        table = np.array(rows, np.int64).reshape(-1, 4)
        table[:, 0] -= self.setup.replicas[0]  # the place of the replica among those that are replayed
        shape = (len(self.setup.replicas), scenario.steps, scenario.users)
        return Replay(table, shape, open_s)
