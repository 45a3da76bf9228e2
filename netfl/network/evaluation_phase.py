"""Evaluations at the end of rounds: the model goes to users, who compute and answer, before the round closes.

The model has a downlink object of its own, which tells its copies from those of the round.  Both objects share the
links, the queues and the transmitters of towers.  `EvaluationReceiver` stands in for a tower there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from netfl.network.clock import Clock, call_after
from netfl.network.downlink import DownlinkPath
from netfl.network.energy import EnergyMeter
from netfl.network.evaluation_rounds import ANSWERS, EvaluationRounds
from netfl.network.event_log import EventLog
from netfl.network.membership import Membership
from netfl.network.radio.answer_queue import Answer
from netfl.network.radio.connection import Connection
from netfl.network.tower import Tower
from netfl.streams import RandomField
from netfl.types import Bools, Floats, Ints, Users


class EvaluationReceiver:
    """The users of a tower, as the downlink of evaluations sees them.

    Args:
        tower: their tower.
        on_arrival: called with users, by their numbers at the tower, to whom the model comes now.
        on_miss: called with the numbers in the network of users whom it does not reach.
    """

    def __init__(
        self, tower: Tower, on_arrival: Callable[[Tower, int, Users], None], on_miss: Callable[[int, Users], None]
    ) -> None:
        self.tower = tower
        self.name = tower.name
        self.cell = tower.cell
        self._on_arrival = on_arrival
        self._on_miss = on_miss

    def announce(self, version: int, users: Users) -> None:
        """Note that a copy of *version* sets out."""

    def begin_copy(self, version: int) -> None:
        """Note that a copy of *version* sets out again."""

    def end_copy(self, version: int) -> None:
        """Note that a copy of *version* has ended."""

    def is_selected(self, users: Users) -> Bools:
        """Return whether each of *users* is to have the model, ``[n]``: all."""
        return np.ones(len(users), np.bool_)

    def has_to_wait(self, users: Users) -> Bools:
        """Return whether a model that no user has is sent again to each of *users*, ``[n]``: to none."""
        return np.zeros(len(users), np.bool_)

    def schedule_broadcast(self, version: int, at_s: float, users: Users, *, held_s: float = -np.inf) -> None:
        """Send *version* to *users* at *at_s*, unless its route is interrupted until then."""
        if held_s > self.cell.env.now:
            self.miss(version, users, "lost")
            return

        def arrive() -> None:
            self.cell.pay_for_ideal_reception(users)
            self.deliver(version, users)

        call_after(self.cell.env, at_s - self.cell.env.now, lambda _: arrive())

    def deliver(self, version: int, users: Users) -> None:
        """Let *users* receive *version* now."""
        self._on_arrival(self.tower, version, users)

    def miss(self, version: int, users: Users, cause: str) -> None:
        """Note that *users* do not receive *version*."""
        self._on_miss(version, self.cell.ids[users])

    def note_missed(self, version: int, users: Users, cause: str) -> None:
        """Note that *users* do not receive *version*."""
        self.miss(version, users, cause)


class EvaluationPhase:
    """The evaluations of one replica, one after the other.

    Args:
        spec: which users evaluate, how much, and what they answer.
        evaluate_s: computing time of each user, ``[users]``.
        share_draws: draws of the users of each evaluation.
        energy: energy meter; ``None`` if energy is not counted.

    Attributes:
        downlink: path of the model; must be set before the first evaluation.
        counts: evaluations, answers, and users without one, for the metrics.
    """

    downlink: DownlinkPath

    def __init__(
        self,
        spec: EvaluationRounds,
        env: Clock,
        log: EventLog,
        evaluate_s: Floats,
        towers: Mapping[str, Tower],
        membership: Membership,
        connection: Connection,
        share_draws: RandomField,
        energy: EnergyMeter | None,
    ) -> None:
        self._spec = spec
        self._env = env
        self._log = log
        self._evaluate_s = evaluate_s
        self._membership = membership
        self._connection = connection
        self._share_draws = share_draws
        self._energy = energy
        self._receivers = {
            tower.index: EvaluationReceiver(tower, self._arrive, self._miss) for tower in towers.values()
        }
        self._number = 0
        self._is_open = False
        self._pending: set[int] = set()  # users who may still answer
        self._began_s = 0.0
        self._on_end: Callable[[], None] = lambda: None
        self.counts = {"evaluations": 0.0, "evaluation_answers": 0.0, "evaluation_missed": 0.0, "evaluation_s": 0.0}

    def is_due(self, round: int) -> bool:
        """Return whether users evaluate after *round*."""
        return self._spec.is_due(round)

    def begin(self, round: int, on_end: Callable[[], None]) -> None:
        """Send the model of *round* to the users who evaluate; *on_end* is called once all is over."""
        self._number = round
        self._is_open = True
        self._on_end = on_end
        self._began_s = float(self._env.now)
        users = self._choose(round)
        self._pending = set(users.tolist())
        self.counts["evaluations"] += 1
        tower_of = self._membership.tower_at(users, self._began_s)
        receivers = []
        for index in np.unique(tower_of).tolist():
            slots = self._membership.slots(users[tower_of == index], index)
            receivers.append((self._receivers[index], slots))
        self.downlink.send(round, receivers)  # type: ignore[arg-type]  # a receiver does what downlinks ask of towers
        if self._spec.deadline is not None:
            call_after(self._env, self._spec.deadline, lambda _: self._end_late(round))

    def cancel(self, users: Users, version: int) -> None:
        """Note that *users* are cut off for good, as the ideal downlink finds out."""
        self._miss(version, users)

    def _choose(self, round: int) -> Ints:
        """Return the users that evaluate after *round*, in rising order."""
        users = self._membership.users
        draws = self._share_draws.uniform(np.arange(users), round)
        return np.sort(np.argsort(draws, kind="stable")[: self._spec.count(users)])

    def _arrive(self, tower: Tower, number: int, users: Users) -> None:
        """Let *users* of *tower*, to whom the model has come, evaluate it, if they are connected and can pay."""
        now_s = float(self._env.now)
        ids = tower.cell.ids[users]
        is_waited_for = np.array([number == self._number and user in self._pending for user in ids.tolist()], np.bool_)
        begins = is_waited_for & self._connection.connected(ids, tower.cell.tower.number, now_s)
        self._miss(number, ids[is_waited_for & ~begins])
        users = users[begins]
        ids = ids[begins]
        if not users.size:
            return
        has_energy = self._pay(tower, users, ids, now_s)
        self._miss(number, ids[~has_energy])
        for user, slot in zip(ids[has_energy].tolist(), users[has_energy].tolist(), strict=True):
            ready_s = now_s + float(self._evaluate_s[user])
            if tower.answers is None:
                call_after(self._env, ready_s - now_s, partial(self._answer_nothing, number, user))
                continue
            bits = tower.answers.max_bits
            answer = Answer(user, bits, user, traffic=ANSWERS, number=number, on_end=self._note)
            tower.answers.put(slot, answer, ready_s)
        if tower.answers is not None:
            tower.wake(users[has_energy])

    def _pay(self, tower: Tower, users: Users, ids: Users, now_s: float) -> Bools:
        """Count the energy of evaluations that begin; return whether the battery of each user had it, ``[n]``."""
        if self._energy is None:
            return np.ones(len(users), np.bool_)
        joules = self._energy.evaluating_j(ids, self._evaluate_s[ids])
        shares = self._connection.evaluate(ids, now_s, joules)
        if shares is None:
            shares = np.ones(len(users))
        else:
            tower.cell.check_power(users, now_s)
        self._energy.evaluate(ids, now_s, self._evaluate_s[ids], shares)
        return np.asarray(shares >= 1.0)

    def _answer_nothing(self, number: int, user: int, event: object) -> None:
        """Note that *user* has evaluated, and answers nothing."""
        if number == self._number:
            self._settle([user], answers=1)

    def _note(self, answer: Answer, has_come: bool) -> None:
        """Note the end of an answer."""
        if answer.number == self._number:
            self._settle([answer.user], answers=int(has_come))

    def _miss(self, number: int, users: Users) -> None:
        if number == self._number:
            self._settle(users.tolist(), answers=0)

    def _settle(self, users: list[int], *, answers: int) -> None:
        """Wait no more for *users*, of whom this number has answered."""
        waited_for = self._pending.intersection(users)
        if not self._is_open or not waited_for:
            return
        self._pending -= waited_for
        self.counts["evaluation_answers"] += answers
        self.counts["evaluation_missed"] += len(waited_for) - answers
        if not self._pending:
            self._end()

    def _end_late(self, number: int) -> None:
        """End the evaluation at its deadline, if it is still open."""
        if number != self._number or not self._is_open:
            return
        for receiver in self._receivers.values():
            answers = receiver.tower.answers
            if answers is not None:
                slots = np.flatnonzero(np.isin(answers.ids, [*self._pending]))
                for slot in slots.tolist():
                    answers.drop(slot)
                receiver.tower.wake(slots)
        self._settle([*self._pending], answers=0)

    def _end(self) -> None:
        self._is_open = False
        self.counts["evaluation_s"] += float(self._env.now) - self._began_s
        self._on_end()
