"""Users of one cell: the version that each has, its training, and the updates that it feeds to a transmit queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from netfl.network.clock import Environment, call_at
from netfl.network.compute import TrainingJitter
from netfl.network.energy import EnergyMeter
from netfl.network.event_log import Ending
from netfl.network.periods import SAME_INSTANT_S, after_rounding, before_rounding
from netfl.network.radio.connection import Connection
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.training_gate import TrainingGate
from netfl.network.versions import OnNewVersion
from netfl.types import Bools, Floats, Ints, Users

_OUT_OF_POWER = Ending("lost", detail="battery")
_NOT_TRAINED = Ending("not_trained")


@dataclass(frozen=True, slots=True)
class TrainingPower:
    """The energy of trainings, from batteries that can switch users off.

    Args:
        env: the clock.
        connection: connection that knows the batteries.
    """

    env: Environment
    connection: Connection

    def is_on(self, ids: Users, at_s: Floats) -> Bools:
        """Return whether no battery has switched each user off at its *at_s*, ``[n]``."""
        return self.connection.off_s(ids, at_s, at_s) > at_s

    def pay(self, ids: Users, at_s: Floats, until_s: Floats) -> Floats:
        """Take the energy of trainings from *at_s* to *until_s*; return the share of its start that each had, ``[n]``.

        A user that is switched off has none, and spends none.
        """
        is_on = self.is_on(ids, at_s)
        shares = is_on.astype(float)
        paid = self.connection.train(ids[is_on], at_s[is_on], until_s[is_on])
        if paid is not None:  # else trainings are free
            shares[is_on] = paid
        return shares

    def stop(self, ids: Users, at_s: Floats) -> None:
        """End trainings at *at_s*, which take no more energy."""
        self.connection.stop(ids, at_s)

    def off_s(self, ids: Users, from_s: Floats, by_s: Floats) -> Floats:
        """Return when each user is first switched off in [*from_s*, *by_s*), ``[n]``; infinity if it is not."""
        return self.connection.off_s(ids, from_s, before_rounding(by_s))

    def call_at(self, times_s: Floats, callback: Callable[[], None]) -> None:
        """Call *callback* at each of *times_s* that is finite."""
        for time_s in np.unique(times_s[np.isfinite(times_s)]).tolist():
            call_at(self.env, time_s, lambda _: callback())


@dataclass(frozen=True, slots=True)
class UserBehaviour:
    """Behaviour of users.

    Args:
        on_new_version: reaction of a user with an unfinished update to a newer version.
        server_waits: whether the server waits for users that are disconnected when their tower has a version.
        power: energy of trainings; ``None`` where nothing can end them.
        jitter: factors of the training times of single updates.
        energy: energy meter of trainings and receptions.
        gate: decision whether to train from a version; ``None`` for always.
        trains_again: whether a user without an update that misses a version trains again from the one that it has.
        warm_up_s: time before the first training of each user, ``[size]``; ``None`` without.
    """

    on_new_version: OnNewVersion = "restart"
    server_waits: bool = True
    power: TrainingPower | None = None
    jitter: TrainingJitter | None = None
    energy: EnergyMeter | None = None
    gate: TrainingGate | None = None
    trains_again: bool = False
    warm_up_s: Floats | None = None


class UserPopulation:
    """The users of one cell as arrays: the version that each has, and the time of its training.

    A user that receives a version begins an update from it, which the population puts into the transmit queue.  A user
    whose last update is unfinished (in training, or not yet received over the air) abandons it, or finishes it and then
    begins from the newest version that it has, or ignores the new one.

    A user that is disconnected when its tower has a new version receives it at a known later time, most often without
    an event of its own: `refresh` applies it when somebody looks.  Until then the user cannot send.

    Args:
        compute_s: training time of each user for one update, without jitter, ``[size]``.

    Attributes:
        version: newest version that each user has; -1 before the first.
        on_change: called with users whose frames have changed otherwise than by a request of the cell.
        plan_returns: called with times at which `return_users` has to be called, or infinity.
    """

    def __init__(self, queue: UpdateQueue, compute_s: Floats, behaviour: UserBehaviour | None = None) -> None:
        behaviour = behaviour or UserBehaviour()
        self._on_new_version = behaviour.on_new_version
        self._server_waits = behaviour.server_waits
        self._trains_again = behaviour.trains_again
        self._energy = behaviour.energy
        self._power = behaviour.power
        self._gate = behaviour.gate

        self.queue = queue
        queue.source = self
        self._ids = queue.ids
        self._tower = queue.tower
        self._log = queue.log
        self._outstanding = queue.outstanding
        self.on_change: Callable[[Users], None] = lambda _: None
        self.plan_returns: Callable[[Floats], None] = lambda _: None

        # times of the next trainings, and how many have been drawn
        size = len(self._ids)
        self._jitter = behaviour.jitter
        self._full_compute_s = compute_s
        self._mean_compute_s = compute_s
        self._compute_s = compute_s.copy()
        self._frequency = np.ones(size)  # over that of each processor
        self._drawn = np.zeros(size, np.int64)
        self._draw_compute_time(np.arange(size))

        # warm-up: what is left of it, without that of the training that runs; and the end of that
        self._warm_up_s = behaviour.warm_up_s
        self._cold_s = np.zeros(size)
        self._warm_by_s = np.full(size, -np.inf)
        self._last_began_s = np.zeros(size)  # the last training of each user
        if self._warm_up_s is not None:
            self._cold_s[:] = self._warm_up_s

        # versions and trainings
        self.version = np.full(size, -1, np.int64)
        self._trained_s = np.full(size, np.inf)
        self._off_s = np.full(size, np.inf)  # end of a training that its battery ends
        self._unpaid_s = np.full(size, -np.inf)  # time at which a training last ended for lack of energy
        self._records_trainings = (
            self._log.wants("trained") or self._log.wants("queued") or self._log.trainings is not None
        )
        self._recorded_s = -np.inf

        # versions that disconnected users receive later
        self._version_due_s = np.full(size, np.inf)
        self._due_version = np.full(size, -1, np.int64)
        self._disconnected: Users = np.empty(0, np.int64)  # in the order of their return

    def receive_version(self, version: int, users: Users, due_s: Floats, now_s: float) -> None:
        """Send *version* to *users*, each of whom receives it at its *due_s*: now, later, or never."""
        self.refresh(now_s)
        is_connected = due_s <= now_s
        self._receive_later(version, users[~is_connected], due_s[~is_connected])
        at_s = np.full(np.count_nonzero(is_connected), now_s)
        self.receive_and_train(users[is_connected], at_s, version)
        if self._disconnected.size or not is_connected.all():
            disconnected = np.flatnonzero(np.isfinite(self._version_due_s))
            by_return = np.argsort(self._version_due_s[disconnected], kind="stable")
            self._disconnected = disconnected[by_return]

    def refresh(self, now_s: float) -> None:
        """Let users that were disconnected, and are so no longer, have the versions that they missed.

        Those that return at this instant have it at the end of the instant, unless a newer one comes (`Stage.RETURNS`).
        """
        if self._disconnected.size:
            self._receive_due(before_rounding(now_s), "left")

    def _receive_due(self, by_s: float, side: Literal["left", "right"]) -> Users:
        """Let users have what is due before *by_s*, or also at *by_s* with *side* ``right``; return these users."""
        count = np.searchsorted(self._version_due_s[self._disconnected], by_s, side=side)
        returned = self._disconnected[:count]
        if count:
            self._disconnected = self._disconnected[count:]
            self.receive_and_train(returned, self._version_due_s[returned], self._due_version[returned])
        return returned

    def return_users(self, now_s: float) -> None:
        """Let users that return at this instant, which ends, have the versions that they missed."""
        returned = self._receive_due(after_rounding(now_s), "right")
        trains_at_once = returned[self._trains_at_once(returned)]
        if trains_at_once.size:  # the others are ready at a time that their MAC knows
            self.on_change(trains_at_once)

    def _trains_at_once(self, users: Users) -> Bools:
        """Return whether the next update of each of *users* is ready at the instant at which it begins, ``[n]``."""
        return np.asarray(self._compute_s[users] <= SAME_INSTANT_S)

    def receive_and_train(self, users: Users, at_s: Floats, version: int | Ints) -> None:
        """Let *users* receive *version*, one for all or one for each, at *at_s*, and train if they are not busy."""
        versions = np.broadcast_to(version, users.shape)
        self._version_due_s[users] = np.inf
        if self._on_new_version != "restart":
            goes_on = self._goes_on(users)
            if goes_on.any():
                self._continue(users[goes_on], at_s[goes_on], versions[goes_on])
            users = users[~goes_on]
            at_s = at_s[~goes_on]
            versions = versions[~goes_on]
        if users.size:
            self._supersede(users, at_s)
            self._get_version(users, at_s, versions)
            self._begin(users, at_s)

    def miss_version(self, version: int, users: Users, now_s: float) -> None:
        """Note that *users* have missed *version*, of which they do not know.

        A user with an outstanding update continues.  One without waits for the next version or, as `trains_again` says,
        begins again from the version that it has.
        """
        self.refresh(now_s)
        is_busy = self.queue.is_busy(users)
        begins = ~self.has_to_wait(users) & ~is_busy

        # the server expects the update that each has or begins, or else the one that is on its way
        base = np.where(is_busy | begins, self.version[users], self._bases_in_flight(users))
        can_arrive = (base >= 0) & ~(is_busy & self.queue.is_lost[users])
        self._outstanding.cancel(self._ids[users[~can_arrive]], version)
        self._outstanding.redirect(self._ids[users[can_arrive]], version, base[can_arrive])

        self._renew(users[begins], now_s)

    def record_missed(self, version: int, users: Users, cause: str, now_s: float) -> None:
        """Record that *users* do not receive *version*, and why."""
        self._log.event("missed", now_s, user=self._ids[users], node=self._tower, value=version, detail=cause)

    def has_to_wait(self, users: Users) -> Bools:
        """Return whether each of *users*, without an update, can do nothing but wait for a version, ``[n]``.

        It cannot train again without a version that still counts, nor without energy.
        """
        if not self._trains_again:
            return np.ones(len(users), np.bool_)
        oldest_useful = max(0, self._outstanding.min_version)  # users without any version have -1
        has_to_wait: Bools = self.version[users] < oldest_useful
        if self._power is not None:
            now_s = self._power.env.now
            has_to_wait |= ~self._power.is_on(self._ids[users], np.full(len(users), now_s))
            # a battery may be up again at the instant at which it ran empty
            has_to_wait |= self._unpaid_s[users] >= before_rounding(now_s)
        return has_to_wait

    def dismiss(self, users: Users, now_s: float) -> None:
        """Let *users*, which are not selected, abandon their updates."""
        self.refresh(now_s)
        self._supersede(users, np.full(len(users), now_s))
        self.queue.clear(users)
        self._trained_s[users] = np.inf
        self._off_s[users] = np.inf
        self._forget_due(users)

    def has_work(self, users: Users) -> Bools:
        """Return whether each of *users* has an update, or a version is on its way to it, ``[n]``."""
        is_coming = np.isfinite(self._version_due_s[users]) | ~self._outstanding.absent(self._ids[users])
        return np.asarray(self.queue.is_busy(users) | is_coming)

    def is_awaited(self, users: Users) -> Bools:
        """Return whether the server expects an update of each of *users*, which has none, ``[n]``."""
        return np.asarray(~self._outstanding.absent(self._ids[users]) & ~self.queue.is_busy(users))

    def take_row(self, users: Users, now_s: float) -> dict[str, Any]:
        """Take the rows of *users*, who leave, out of the arrays; see `netfl.network.membership.Row`.

        Their constants, such as the mean of their training times, are in the arrays of each tower.  ``due_version`` is
        the version that each would receive when it is connected again; -1 for none.
        """
        self.record_trainings(now_s)  # they were of this tower
        is_due = np.isfinite(self._version_due_s[users])
        row = {
            "version": self.version[users].copy(),
            "compute_s": self._compute_s[users].copy(),
            "drawn": self._drawn[users].copy(),
            "cold_s": self._cold_s[users].copy(),
            "warm_by_s": self._warm_by_s[users].copy(),
            "last_began_s": self._last_began_s[users].copy(),
            "trained_s": self._trained_s[users].copy(),
            "off_s": self._off_s[users].copy(),
            "unpaid_s": self._unpaid_s[users].copy(),
            "due_version": np.where(is_due, self._due_version[users], -1),
            "queue": self.queue.take_row(users),
        }
        self.version[users] = -1
        self._trained_s[users] = np.inf
        self._off_s[users] = np.inf
        self._unpaid_s[users] = -np.inf
        self._forget_due(users)
        return row

    def put_row(self, users: Users, row: Mapping[str, Any], now_s: float) -> None:
        """Put the rows of users that come from another tower into the slots *users*."""
        self.record_trainings(now_s)  # up to now they were of the other tower
        self.version[users] = row["version"]
        self._compute_s[users] = row["compute_s"]
        self._drawn[users] = row["drawn"]
        self._cold_s[users] = row["cold_s"]
        self._warm_by_s[users] = row["warm_by_s"]
        self._last_began_s[users] = row["last_began_s"]
        self._trained_s[users] = row["trained_s"]
        self._off_s[users] = row["off_s"]
        self._unpaid_s[users] = row["unpaid_s"]
        self.queue.put_row(users, row["queue"])
        busy = users[self.queue.is_busy(users)]
        self.queue.ready_s[busy] = np.maximum(self._trained_s[busy], now_s)
        if self._power is not None:
            self._power.call_at(self._off_s[busy], self._end_without_power)

    def drop_waiting(self, users: Users, ending: Ending, now_s: float) -> None:
        """End those updates of *users* that are trained and wait to be sent."""
        is_trained = self._trained_s[users] <= after_rounding(now_s)
        self._end_unsent(users[is_trained & self.queue.is_busy(users)], ending, now_s)

    def withdraw(self, users: Users, ending: Ending, now_s: float) -> None:
        """End the updates of *users*, in training or not, which are not sent."""
        users = users[self.queue.is_busy(users)]
        self._stop_spending(users, np.full(len(users), now_s))
        in_training = users[self._trained_s[users] > after_rounding(now_s)]
        self._trained_s[in_training] = np.inf
        self._off_s[users] = np.inf
        self._end_unsent(users, ending, now_s)

    def _end_unsent(self, users: Users, ending: Ending, now_s: float) -> None:
        """End the updates of *users*, which are not sent, and let those with a newer version begin."""
        if users.size:
            self.queue.abort(users, ending, now_s)
            self.on_change(users)
            self.start_next(users, now_s)

    def versions(self) -> set[int]:
        """Return the versions that users have, or will have when they are connected again."""
        later = self._due_version[np.isfinite(self._version_due_s)]
        return {*np.unique(self.version[self.version >= 0]).tolist(), *later.tolist()}

    def next_ready_s(self, users: Users | int) -> Floats:
        """Return the time at which each user's next update is ready; infinity if none is known, ``[n]``.

        It is later than the instant at which the user returns, at whose end it begins.
        """
        due_s = self._version_due_s[users]
        warm_s = self._warm_s(users, due_s)
        return np.maximum(warm_s + self._compute_s[users], np.nextafter(after_rounding(after_rounding(due_s)), np.inf))

    def start_next(self, users: Users, now_s: float) -> None:
        """Let *users*, whose updates left the queue, begin from a newer version that they have received."""
        if self._on_new_version != "finish":  # users begin from each version when they receive it
            return
        has_newer = self.version[users] > self.queue.base[users]
        self._renew(users[has_newer & ~self.queue.is_busy(users)], now_s)

    def cancel(self, users: Users, base: int | None = None) -> None:
        """Expect no update of *users* from *base*, by default their newest version, as they are cut off for good."""
        bases = self.version[users] if base is None else base
        self._outstanding.cancel(self._ids[users], bases)

    def set_frequency(self, factor: Floats) -> None:
        """Let trainings that begin from now on run at *factor* times the frequency of each processor, ``[size]``.

        Trainings that run keep theirs.
        """
        change = factor / self._frequency
        if (change == 1.0).all():
            return
        self._frequency = factor
        self._mean_compute_s = self._full_compute_s / factor
        self._compute_s = self._compute_s / change
        due = np.flatnonzero(np.isfinite(self._version_due_s))
        if due.size and self._on_new_version != "restart":
            due = due[~self._goes_on(due)]
        self.queue.ready_s[due] = self.next_ready_s(due)

    def record_trainings(self, now_s: float) -> None:
        """Record the trainings that have ended by now."""
        self.refresh(now_s)
        if not self._records_trainings:
            return
        size = len(self._ids)
        self._record_trained(np.arange(size), np.full(size, now_s))
        self._recorded_s = now_s

    def _forget_due(self, users: Users) -> None:
        """Let *users* receive no version when they are connected again."""
        self._version_due_s[users] = np.inf
        receives_later = np.isfinite(self._version_due_s[self._disconnected])
        self._disconnected = self._disconnected[receives_later]

    def _receive_later(self, version: int, users: Users, due_s: Floats) -> None:
        if not users.size:
            return
        self._version_due_s[users] = due_s
        self._due_version[users] = version

        # their next frames are of updates from this version, unless older updates go on until then
        waiting = users
        if self._on_new_version != "restart":
            waiting = users[~self._goes_on(users)]
        self.queue.ready_s[waiting] = self.next_ready_s(waiting)

        if self._server_waits:  # except for users that are cut off for good
            self._outstanding.cancel(self._ids[users[np.isinf(due_s)]], version)
        else:
            self._outstanding.ignore(self._ids[users], version)

        needs_event = self._trains_at_once(users)  # it may send at once
        needs_event |= self._goes_on(users)  # the round may wait for it no longer
        if self._power is not None or self._gate is not None:  # an update may end when it begins
            needs_event[:] = True
        if needs_event.any():
            self.plan_returns(due_s[needs_event])

    def _goes_on(self, users: Users) -> Bools:
        """Return whether each of *users* goes on with an unfinished update when a version comes, ``[n]``."""
        return self.queue.is_busy(users)

    def _continue(self, users: Users, at_s: Floats, versions: Ints) -> None:
        """Let *users*, which are busy, continue their updates when they receive *versions*."""
        ids = self._ids[users]
        if self._on_new_version == "finish":  # they begin from these versions afterwards
            self._log.event("held", at_s, user=ids, node=self._tower, value=versions)
            self._get_version(users, at_s, versions)
            self._outstanding.expect(ids, versions, include_absent=self._server_waits)
        else:  # they ignore these versions, so that no update from them will come
            self._outstanding.redirect(ids, versions, self.queue.base[users])

    def _get_version(self, users: Users, at_s: Floats, versions: Ints) -> None:
        """Let *users* have *versions*, for which they pay."""
        self._log.receptions += len(users)
        self._receive_broadcast(users, at_s)
        self.version[users] = versions

    def _receive_broadcast(self, users: Users, at_s: Floats) -> None:
        """Let *users* pay for a version on an ideal downlink, which arrives at *at_s*."""
        energy = self._energy
        if energy is None or not energy.broadcast_s:
            return
        ids = self._ids[users]
        paid_s: float | Floats = energy.broadcast_s
        if self._power is not None:
            shares = self._power.connection.receive(ids, at_s, energy.broadcast_s)
            if shares is not None:
                paid_s = energy.broadcast_s * shares
                self.check_power(users, self._power.env.now)
        energy.receive(ids, paid_s, at_s - energy.broadcast_s)

    def _begin(self, users: Users, at_s: Floats) -> None:
        """Let *users* begin updates from the versions that they have."""
        base = self.version[users]
        ids = self._ids[users]
        self._log.event("received", at_s, user=ids, node=self._tower, value=base)
        self._outstanding.begin(base)
        self._outstanding.expect(ids, base, include_absent=self._server_waits)
        self._cool_if_off(users, at_s)
        trained_s = self._warm_s(users, at_s) + self._compute_s[users]
        self._trained_s[users] = trained_s
        self.queue.put(users, base, trained_s)
        if self._gate is not None:
            trains = self._gate.trains(ids, base, at_s)
            self._skip(users[~trains], at_s[~trains])
            users = users[trains]
            at_s = at_s[trains]
        if users.size:
            self._train(users, at_s)

    def _train(self, users: Users, at_s: Floats) -> None:
        """Let *users* train for the updates that they have begun."""
        self._warm_up(users, at_s)
        if self._energy is not None:
            self._energy.train(self._ids[users], at_s, self._trained_s[users])
        self._draw_compute_time(users)
        if self._power is not None:
            self._pay(self._power, users, at_s)

    def _warm_s(self, users: Users | int, at_s: Floats) -> Floats:
        """Return when each user is warm in a training that begins at its *at_s*, after any that runs until then."""
        if self._warm_up_s is None:
            return at_s
        return np.asarray(np.maximum(at_s + self._cold_s[users], self._warm_by_s[users]))

    def _warm_up(self, users: Users, at_s: Floats) -> None:
        """Note that trainings of *users* begin, with what is left of their warm-ups."""
        if self._warm_up_s is None:
            return
        self._warm_by_s[users] = self._warm_s(users, at_s)
        self._last_began_s[users] = at_s
        self._cold_s[users] = 0.0

    def _stop_warming(self, users: Users, at_s: Floats) -> None:
        """Leave the rest of the warm-ups of *users*, whose trainings end at *at_s*, to their next trainings."""
        if self._warm_up_s is None:
            return
        self._cold_s[users] += np.maximum(0.0, self._warm_by_s[users] - at_s)
        self._warm_by_s[users] = -np.inf

    def _cool_if_off(self, users: Users, at_s: Floats) -> None:
        """Let those of *users* whom a battery has switched off since their last trainings need their whole warm-ups."""
        if self._warm_up_s is None or self._power is None:
            return
        off_s = self._power.off_s(self._ids[users], self._last_began_s[users], at_s)
        cold = users[off_s < at_s]
        self._cold_s[cold] = self._warm_up_s[cold]
        self._warm_by_s[cold] = -np.inf

    def _skip(self, users: Users, at_s: Floats) -> None:
        """End the updates of *users*, which decide not to train."""
        if users.size:
            self._trained_s[users] = np.inf
            self._off_s[users] = np.inf
            self._abort(users, _NOT_TRAINED, at_s)
            self.on_change(users)

    def _abort(self, users: Users, ending: Ending, at_s: Floats) -> None:
        """End the updates of *users*, each at its *at_s*, as nothing of them is trained."""
        for time_s in np.unique(at_s).tolist():
            self.queue.abort(users[at_s == time_s], ending, time_s)

    def _pay(self, power: TrainingPower, users: Users, at_s: Floats) -> None:
        """Pay for trainings that begin; those that cannot be paid are lost at once."""
        ids = self._ids[users]
        shares = power.pay(ids, at_s, self._trained_s[users])
        off_s = power.off_s(ids, at_s, self._trained_s[users])

        is_unpaid = shares < 1.0
        if self._energy is not None:
            self._energy.fail(ids[is_unpaid], shares[is_unpaid])
        self._off_s[users] = np.where(is_unpaid, at_s, off_s)

        ends_at_once = self._off_s[users] <= at_s
        self._lose(users[ends_at_once], at_s[ends_at_once])
        power.call_at(self._off_s[users], self._end_without_power)

    def check_power(self, users: Users, now_s: float) -> None:
        """Find out again when the batteries of *users* end their trainings, as they have paid for something else."""
        if self._power is None:
            return
        trained_s = self._trained_s[users]
        in_training = np.isfinite(trained_s) & (trained_s > after_rounding(now_s))  # not one that ends at this instant
        users = users[in_training & self.queue.is_busy(users)]
        if not users.size:
            return
        at_s = np.full(len(users), now_s)
        self._off_s[users] = self._power.off_s(self._ids[users], at_s, self._trained_s[users])
        self._power.call_at(self._off_s[users], self._end_without_power)

    def _end_without_power(self) -> None:
        """End the trainings of users that have been switched off by now."""
        assert self._power is not None
        users = np.flatnonzero(self._off_s <= self._power.env.now)
        self._lose(users, self._off_s[users])

    def _lose(self, users: Users, at_s: Floats) -> None:
        """End the trainings of *users*, which have no energy for them."""
        if not users.size:
            return
        self._stop_spending(users, at_s)
        self._trained_s[users] = np.inf
        self._off_s[users] = np.inf
        self._unpaid_s[users] = at_s
        self._abort(users, _OUT_OF_POWER, at_s)
        now_s = float(at_s.max())
        self._log.count_lost_trainings(len(users), now_s)
        self.on_change(users)
        self.start_next(users, now_s)

    def _draw_compute_time(self, users: Users) -> None:
        """Draw the time of the next training of *users*."""
        if self._jitter is not None:
            factor = self._jitter(self._ids[users], self._drawn[users])
            self._compute_s[users] = self._mean_compute_s[users] * factor
            self._drawn[users] += 1

    def _bases_in_flight(self, users: Users) -> Ints:
        """Return the base of each user's newest update between the air and the server; -1 without one, ``[n]``."""
        base_of = {message.user: message.base for message in self._outstanding.in_flight}
        return np.array([base_of.get(user, -1) for user in self._ids[users].tolist()], np.int64)

    def _renew(self, users: Users, now_s: float) -> None:
        """Let *users*, which are not busy, begin from the versions that they have."""
        if not users.size:
            return
        at_s = np.full(len(users), now_s)
        self._supersede(users, at_s)
        self._begin(users, at_s)
        self.on_change(users)

    def _supersede(self, users: Users, at_s: Floats) -> None:
        """End the trainings of *users*, and their updates as far as a newer version ends them."""
        self._record_trained(users, at_s)
        self._stop_spending(users, at_s)
        self.queue.supersede(users, at_s)

    def _stop_spending(self, users: Users, at_s: Floats) -> None:
        """Let the last trainings of *users* cost nothing from *at_s* on, if they have not ended before."""
        ids = self._ids[users]
        self._stop_warming(users, at_s)
        if self._energy is not None:
            self._energy.stop(ids, at_s)
        if self._power is not None:
            self._power.stop(ids, at_s)

    def _record_trained(self, users: Users, until_s: Floats) -> None:
        """Record the trainings of *users* that ended by *until_s* and are not recorded yet."""
        if not self._records_trainings:
            return
        trained_s = self._trained_s[users]
        has_ended = (trained_s > self._recorded_s) & (trained_s <= until_s)
        if not has_ended.any():
            return
        trained_users = users[has_ended]
        ids = self._ids[trained_users]
        base = self.queue.base[trained_users]
        if self._log.trainings is not None:
            self._log.trainings.add(ids.tolist(), trained_s[has_ended].tolist(), base.tolist())
        for kind in ("trained", "queued"):  # an update joins its queue as soon as it is trained
            self._log.event(kind, trained_s[has_ended], user=ids, node=self._tower, value=base)
