"""Energy that users spend on trainings, on sending and receiving, and while idle: it is counted here.

A battery (`netfl.network.outage.battery`) is drained by what is counted here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.core.spec import Spec, no_effect
from netfl.errors import Fault
from netfl.network.counters import jain
from netfl.network.state_times import DownTimes, StateTimes
from netfl.types import Bools, Floats, Ints, ScenarioFacts
from netfl.units import Joules, RadioWatts, Watts, db_to_linear

_ROUNDS = ("per_training", "per_sample", "capacitance", "compute", "receive")
"""Costs that occur in rounds only."""


class PowerRates(NamedTuple):
    """Energy and power of each user, ``[users]`` each, in joules and watts.

    ``cycles_j`` is the energy of the processor cycles of a sample at the frequency of ``compute``.  ``down_w`` is NaN
    where it is the power while idle.
    """

    training_j: Floats
    sample_j: Floats
    transmit_w: Floats
    receive_w: Floats
    idle_w: Floats
    cycles_j: Floats
    compute_w: Floats
    down_w: Floats


class EnergyCosts(Spec):
    """Energy and power of one user."""

    per_training: Annotated[Joules, Field(ge=0)] | None = None
    """Energy of each training, at its start."""
    per_sample: Annotated[Joules, Field(ge=0)] | None = None
    """Additional energy of each training sample."""
    capacitance: Annotated[float, Field(ge=0, le=1)] | None = None
    """κ, the effective switched capacitance of the processor, in J s²: a cycle at the frequency f costs κ f².  A sample
    of ``compute.cycles`` c costs κ c f² in addition; about 1e-28 for a phone."""
    compute: Annotated[Watts, Field(ge=0)] | None = None
    """Power of a user while it trains, from the begin of a warm-up (``compute.warm_up``) to the end of the training."""
    transmit: Annotated[RadioWatts, Field(ge=0)] | None = None
    """Power of a user on the air, amplifier and circuits together, at the power of its radio."""
    efficiency: Annotated[float, Field(gt=0, le=1)] | None = None
    """Instead of ``transmit``: the radiated share of that power, which is then the user's radio.power / efficiency."""
    receive: Annotated[RadioWatts, Field(ge=0)] | None = None
    """Power of a user while a version is sent to it over the air."""
    idle: Annotated[Watts, Field(ge=0)] | None = None
    """Power of a user at all times, in addition to all else."""
    down: Annotated[Watts, Field(ge=0)] | None = None
    """Power of a user while an outage disconnects it, in place of ``idle``, which is the default; 0 for a device that
    sleeps or is off.  A training that goes on meanwhile costs what it costs.  Not with a battery, which states when
    its user is off."""

    @model_validator(mode="after")
    def _one_power(self) -> EnergyCosts:
        if self.transmit is not None and self.efficiency is not None:
            raise ValueError("transmit and efficiency are given together; give only one of them")
        return self

    @property
    def has_sending_power(self) -> bool:
        """True if the power of sending is given, as it is or by the radiated share of it."""
        return self.transmit is not None or self.efficiency is not None


class Energy(EnergyCosts):
    """Energy of users: what they spend is counted, and drains their batteries, if they have any (``outages: battery``).

    A training of the time T costs per_training + x · (samples · (per_sample + κ c f²) + compute · T), where x is its
    completed share of that time, with its warm-up: 1, unless the user abandoned it or the run ended.  κ c f² is that of
    a processor with the frequency f and c cycles for each sample (``capacitance`` κ; T. D. Burd and R. W. Brodersen, J.
    VLSI Signal Process. 13, 1996).  Every attempt costs transmit · airtime, whatever its outcome; every version that is
    sent to a user costs receive · bits / rate; a time T costs idle · T, as long as no battery has switched the user
    off, and ``down`` · T while an outage disconnects it.  Costs that are not given are 0.

    Powers that are stated as totals of a state, as data sheets do, are ``idle`` and the differences from it: with 2 W
    while waiting and 9 W while computing, ``idle: 2 W`` and ``compute: 7 W``.
    """

    states: bool = False
    """True to record the time of each user in each state of its device, in the table ``energy``."""
    devices: Mapping[str, EnergyCosts] = Field(default_factory=dict)
    """Other costs for a class of ``compute.devices``, by its name; costs that are not given are those of all users."""

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        if facts.duration_s is None:
            return
        reason = "without access.round: no user trains, and no version is sent"
        for key, costs in self.each():
            yield from no_effect(costs, _ROUNDS, reason, prefix=key)

    @property
    def has_costs(self) -> bool:
        """True if anything costs energy."""
        return any(
            costs.per_training
            or costs.per_sample
            or costs.capacitance
            or costs.compute
            or costs.transmit
            or costs.efficiency
            or costs.receive
            or costs.idle
            or costs.down
            for _, costs in self.each()
        )

    def each(self) -> Iterator[tuple[str, EnergyCosts]]:
        """Yield the costs of all users and of each class, with the prefix of their keys."""
        yield "", self
        yield from ((f"devices.{name}.", costs) for name, costs in self.devices.items())

    def rates(
        self, devices: NDArray[np.str_], power_dbm: float | Floats, cycles_hz2: float | Floats = 0.0
    ) -> PowerRates:
        """Return energy and power of each user.

        Args:
            devices: name of the class of each user, ``[users]``.
            power_dbm: power of the radios of all users, or of each, ``[users]``; NaN without a radio.
            cycles_hz2: cycles of a sample times the squared frequency, c f², of all users or of each.
        """
        users = len(devices)
        radiated_w = db_to_linear(power_dbm - 30.0)

        def rates_of(costs: EnergyCosts) -> dict[str, float | Floats | None]:
            """Return the costs that are given, by the fields of `PowerRates`."""
            transmit_w: float | Floats | None = costs.transmit
            if costs.efficiency is not None:
                transmit_w = radiated_w / costs.efficiency
            cycles_j = None
            if costs.capacitance is not None:
                cycles_j = costs.capacitance * cycles_hz2  # κ c f²
            return {
                "training_j": costs.per_training,
                "sample_j": costs.per_sample,
                "transmit_w": transmit_w,
                "receive_w": costs.receive,
                "idle_w": costs.idle,
                "cycles_j": cycles_j,
                "compute_w": costs.compute,
                "down_w": costs.down,
            }

        rates = {name: np.zeros(users) for name in PowerRates._fields}
        rates["down_w"][:] = np.nan
        classes: list[tuple[Bools, EnergyCosts]] = [(np.ones(users, np.bool_), self)]
        classes += [(devices == name, costs) for name, costs in self.devices.items()]
        for is_member, costs in classes:
            for name, value in rates_of(costs).items():
                if value is not None:  # a class without it has that of all users
                    rates[name][is_member] = np.broadcast_to(value, users)[is_member]
        return PowerRates(**rates)


Ids = Ints


class EnergyMeter:
    """Energy of users since the start of the run, or since `restart`.

    The meter counts trainings, attempts and receptions, and computes their energy at the end.  A training counts by its
    completed share; a use that a battery could not pay, by the share of its energy that the battery had.  What it
    counts of a user with a battery is what drains the battery.  Users have their numbers in the network.

    Args:
        samples: training samples of one update, ``[users]``.
        broadcast_s: airtime of a version on an ideal downlink.
        evaluated: work of an evaluation of each user in training samples, ``[users]``; ``None`` without evaluations.

    Attributes:
        power_factor: radiated power of each user relative to that of the radio, ``[users]``; 1.0 for all.
        frequency_factor: frequency of each user relative to that of ``compute``, ``[users]``; 1.0 for all.
    """

    power_factor: Floats | float = 1.0
    frequency_factor: Floats | float = 1.0

    def __init__(
        self, rates: PowerRates, samples: Floats, broadcast_s: float = 0.0, evaluated: Floats | None = None
    ) -> None:
        self.broadcast_s = broadcast_s
        self._evaluated = evaluated
        self._rates = rates
        self._samples = samples
        # begin and end of the last training of each user; equal once it is counted
        self._from_s = np.zeros(len(samples))
        self._until_s = np.zeros(len(samples))
        self._cycle_factor = np.ones(len(samples))  # energy of a cycle in the last training over that at full frequency
        self._down_times: DownTimes | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        self._states: StateTimes | None = None
        self._battery_idle_j: Callable[[float], Floats | None] = lambda _: None
        self.restart(0.0)

    def record_states(self, states: StateTimes, clock: Callable[[], float]) -> None:
        """Record the times of states in *states*; *clock* returns the present time."""
        self._states = states
        self._clock = clock

    @property
    def records_states(self) -> bool:
        """True if the times of states are recorded."""
        return self._states is not None

    def count_down_by(self, down_times: DownTimes) -> None:
        """Count the power of users that are disconnected by these times."""
        if not np.isnan(self._rates.down_w).all():
            self._down_times = down_times

    def restart(self, now_s: float) -> None:
        """Start all counts over."""
        self._since_s = now_s
        users = len(self._samples)
        self._idle_before_j = self._idle_j(now_s)
        self._begun = np.zeros(users)  # trainings
        self._trained = np.zeros(users)  # trainings by their completed shares, without those under way
        self._computed = np.zeros(users)  # the same, weighted by the energy of their cycles
        self._unpaid = np.zeros(users)  # trainings by the shares of their energy that batteries did not have
        self._computing_s = np.zeros(users)  # without trainings under way
        self._evaluations = np.zeros(users)  # by the shares of their energy that were paid
        self._evaluating_s = np.zeros(users)  # the same
        self._sending_s = np.zeros(users)
        self._receiving_s = np.zeros(users)
        self._radiated_s = self._sending_s  # weighted by the power factor, once there is one

    def count_idle_by(self, battery_idle_j: Callable[[float], Floats | None]) -> None:
        """Count the idle energy of users with a battery by that battery, as these are not always on.

        Args:
            battery_idle_j: energy that each user has taken from its battery by a time for being on, ``[users]``; NaN
                for users without a battery, and ``None`` if no user has one.
        """
        self._battery_idle_j = battery_idle_j

    @property
    def idle_w(self) -> Floats:
        """Power of each user that is on, ``[users]``."""
        return self._rates.idle_w

    @property
    def has_uses(self) -> bool:
        """True if anything that users do costs energy, beside being on."""
        uses = self._rates._replace(idle_w=np.zeros(1), down_w=np.zeros(1))
        return any(cost.any() for cost in uses)

    @property
    def transmit_w(self) -> Floats:
        """Power of each user while sending at the power of the radio, ``[users]``."""
        return self._rates.transmit_w

    @property
    def cycles_j(self) -> Floats:
        """Energy of the processor cycles of one update of each user at full frequency, ``[users]``."""
        return self._rates.cycles_j * self._samples

    @property
    def fixed_j(self) -> Floats:
        """Energy of one training of each user that no frequency changes, ``[users]``."""
        return self._rates.training_j + self._rates.sample_j * self._samples

    def starting_j(self, ids: Ids) -> Floats:
        """Return the energy of a training of each user at its start, ``[n]``."""
        return self._rates.training_j[ids]

    def computing_j(self, ids: Ids, duration_s: Floats) -> Floats:
        """Return the energy of a training of *duration_s* that begins now, from its start to its end, ``[n]``."""
        sample_j = self._rates.sample_j[ids] + self._rates.cycles_j[ids] * self._square_of_frequency(ids)
        return np.asarray(sample_j * self._samples[ids] + self._rates.compute_w[ids] * duration_s)

    def train(self, ids: Ids, from_s: Floats, until_s: Floats) -> None:
        """Count trainings that begin; each of the users has no other training."""
        self._begun[ids] += 1
        self._from_s[ids] = from_s
        self._until_s[ids] = until_s
        self._cycle_factor[ids] = self._square_of_frequency(ids)

    def stop(self, ids: Ids, at_s: ArrayLike) -> None:
        """End the last trainings of users, if they have not ended before."""
        is_running = self._until_s[ids] > self._from_s[ids]
        by_s = np.broadcast_to(at_s, ids.shape)[is_running]
        ids = ids[is_running]
        from_s = self._from_s[ids]
        until_s = self._until_s[ids]
        shares = np.clip((by_s - from_s) / (until_s - from_s), 0.0, 1.0)
        self._trained[ids] += shares
        self._computed[ids] += shares * self._cycle_factor[ids]
        self._computing_s[ids] += shares * (until_s - from_s)
        if self._states is not None:
            self._states.add("computing", ids, from_s, from_s + shares * (until_s - from_s))
        self._from_s[ids] = until_s

    def fail(self, ids: Ids, share: Floats) -> None:
        """End the last trainings of users at their start, of whose energy a battery had only a *share*."""
        self._unpaid[ids] += 1.0 - share
        self._from_s[ids] = self._until_s[ids]

    def evaluating_j(self, ids: Ids, duration_s: Floats) -> Floats:
        """Return the energy of an evaluation of *duration_s*, ``[n]``."""
        assert self._evaluated is not None
        sample_j = self._rates.sample_j[ids] + self._rates.cycles_j[ids]
        return np.asarray(sample_j * self._evaluated[ids] + self._rates.compute_w[ids] * duration_s)

    def evaluate(self, ids: Ids, now_s: float, duration_s: Floats, shares: Floats) -> None:
        """Count evaluations that begin now, by the *shares* of their energy that batteries paid."""
        self._evaluations[ids] += shares
        self._evaluating_s[ids] += duration_s * shares
        if self._states is not None:
            self._states.add("evaluating", ids, now_s, now_s + duration_s * shares)

    def send(
        self,
        ids: Ids,
        airtime_s: float | Floats,
        power_factor: Floats | None = None,
        start_s: float | None = None,
    ) -> None:
        """Count an attempt of each user, with the airtime that its battery paid for.

        Args:
            ids: the users.
            airtime_s: the airtime, one for all or ``[n]``.
            power_factor: radiated power of each frame relative to that of the radio, ``[n]``; ``None`` for that which
                the user has now, `power_factor`.
            start_s: start of the attempt; ``None`` for now.
        """
        if self._states is not None:
            from_s = self._clock() if start_s is None else start_s
            self._states.add("sending", ids, from_s, from_s + np.asarray(airtime_s))
        if power_factor is not None:
            self._count_radiated()
        self._sending_s[ids] += airtime_s
        if self._radiated_s is self._sending_s:  # all powers have been that of the radio
            return
        self._radiated_s[ids] += airtime_s * self._power_factors(ids, power_factor)

    def sending_j(self, ids: Ids, airtime_s: float | Floats, power_factor: Floats | None = None) -> Floats:
        """Return the energy of an attempt of each user, ``[n]``; the arguments are those of `send`."""
        return np.asarray(self._rates.transmit_w[ids] * airtime_s * self._power_factors(ids, power_factor))

    def set_power_offset(self, offset_db: Floats | None) -> None:
        """Let each user send with *offset_db* more power than that of the radio from now on; ``None`` is none."""
        if offset_db is None:
            self.power_factor = 1.0
            return
        self._count_radiated()
        self.power_factor = db_to_linear(offset_db)

    def _count_radiated(self) -> None:
        """Count airtimes weighted by the power apart from airtimes, as a power differs from that of a radio."""
        if self._radiated_s is self._sending_s:
            self._radiated_s = self._sending_s.copy()

    def _power_factors(self, ids: Ids, power_factor: Floats | None) -> float | Floats:
        """Return the power of each frame relative to that of its radio, as in `send`, one for all or ``[n]``."""
        if power_factor is not None:
            return power_factor
        if isinstance(self.power_factor, float):
            return self.power_factor
        return self.power_factor[ids]

    def receive(self, ids: Ids, airtime_s: float | Floats, start_s: float | Floats | None = None) -> None:
        """Count a version that is sent to each user, with the airtime that its battery paid for.

        Args:
            ids: the users.
            airtime_s: the airtime, one for all or ``[n]``.
            start_s: when it begins to arrive, one for all or ``[n]``; ``None`` for now.
        """
        if self._states is not None:
            from_s = np.asarray(self._clock() if start_s is None else start_s)
            self._states.add("receiving", ids, from_s, from_s + np.asarray(airtime_s))
        self._receiving_s[ids] += airtime_s

    def receiving_j(self, ids: Ids, airtime_s: float) -> Floats:
        """Return the energy of a version that is sent to each user, ``[n]``."""
        return np.asarray(self._rates.receive_w[ids] * airtime_s)

    def total_j(self, now_s: float) -> float:
        """Return the energy of all users by now; a training under way counts by its completed share."""
        under_way_j = self._under_way_j(now_s)
        spent_j = float(sum(joules.sum() for joules in self._spent(now_s).values()))
        return spent_j + float(under_way_j.sum())

    def by_user_j(self, now_s: float) -> Floats:
        """Return the energy of each user by now, ``[users]``, as in `total_j`."""
        return np.asarray(np.sum([*self._spent(now_s).values(), self._under_way_j(now_s)], axis=0))

    def _square_of_frequency(self, ids: Ids) -> Floats | float:
        factor = self.frequency_factor
        if not isinstance(factor, float):
            factor = factor[ids]
        return np.square(factor)

    def _idle_j(self, now_s: float) -> Floats:
        """Return the energy of each user since time 0 for being on, ``[users]``."""
        idle_j = self._rates.idle_w * now_s
        if self._down_times is not None:
            difference_w = np.nan_to_num(self._rates.down_w - self._rates.idle_w)  # 0 where none is given
            idle_j = idle_j + difference_w * self._down_times.by_s(now_s)
        battery_j = self._battery_idle_j(now_s)
        if battery_j is None:
            return idle_j
        return np.where(np.isnan(battery_j), idle_j, battery_j)

    def _under_way_j(self, now_s: float) -> Floats:
        """Return the energy of the completed share of each user's training under way, ``[users]``."""
        sample_j = self._rates.sample_j + self._rates.cycles_j * self._cycle_factor
        training_j = sample_j * self._samples + self._rates.compute_w * (self._until_s - self._from_s)
        return np.asarray(training_j * self._share_under_way(now_s))

    def _share_under_way(self, now_s: float) -> Floats:
        """Return the completed share of each user's training under way, ``[users]``."""
        is_running = self._until_s > self._from_s
        duration_s = np.where(is_running, self._until_s - self._from_s, np.inf)  # a share of 0 without a training
        return np.asarray(np.clip((now_s - self._from_s) / duration_s, 0.0, 1.0))

    def close(self, now_s: float) -> dict[str, NDArray[Any]]:
        """End all trainings; return activities and energy of the users by name, ``[users]`` each."""
        users = np.arange(len(self._samples))
        self.stop(users, now_s)
        spent = self._spent(now_s)
        states: dict[str, Floats] = {}
        if self._states is not None:
            states = self._states.columns(len(users), self._since_s, now_s)
        return {
            "user": users,
            "begun": self._begun.astype(np.int64),
            "trained": self._trained,
            "sending_s": self._sending_s,
            "receiving_s": self._receiving_s,
            **{f"{name}_J": joules for name, joules in spent.items()},
            "energy_J": np.sum([*spent.values()], axis=0),
            **states,
        }

    @staticmethod
    def metrics(columns: Mapping[str, NDArray[Any]], deliveries: int | None) -> dict[str, float]:
        """Return the metrics of a replica from its columns; *deliveries* is ``None`` without rounds."""
        energy_j = columns["energy_J"]
        metrics = {"energy_J": float(energy_j.sum())}
        names = [name for name in ("train", "evaluate", "send", "receive", "idle") if f"{name}_J" in columns]
        parts = {name: float(columns[f"{name}_J"].sum()) for name in names}
        metrics |= {f"energy_{name}_J": joules for name, joules in parts.items() if joules}
        if deliveries is not None:
            metrics["energy_per_delivery_J"] = np.nan
            if deliveries:
                metrics["energy_per_delivery_J"] = metrics["energy_J"] / deliveries
        return metrics | {"energy_max_J": float(energy_j.max()), "energy_jain": jain(energy_j)}

    def _spent(self, now_s: float) -> dict[str, Floats]:
        """Return the energy of each user by its use, without that of trainings under way, ``[users]`` each."""
        rates = self._rates
        per_training_j = rates.training_j * (self._begun - self._unpaid)
        cycles_j = rates.cycles_j * self._samples * self._computed
        computing_j = rates.compute_w * self._computing_s
        spent = {
            "train": per_training_j + rates.sample_j * self._samples * self._trained + cycles_j + computing_j,
            "send": rates.transmit_w * self._radiated_s,
            "receive": rates.receive_w * self._receiving_s,
            "idle": self._idle_j(now_s) - self._idle_before_j,
        }
        if self._evaluated is not None:
            samples_j = (rates.sample_j + rates.cycles_j) * self._evaluated * self._evaluations
            spent["evaluate"] = samples_j + rates.compute_w * self._evaluating_s
        return spent
