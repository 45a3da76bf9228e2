"""What users spend: the joules of a training, and the watts of sending, listening, and being there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.counters import jain
from netfl.registry import Spec
from netfl.types import ScenarioFacts
from netfl.units import Joules, Watts, db_to_linear

_ROUNDS = ("per_training", "per_sample", "receive")
"""What is spent only where versions are sent and trained from."""


class PowerRates(NamedTuple):
    """What each user spends, ``[users]`` each, in joules and watts."""

    training_j: NDArray[np.float64]
    sample_j: NDArray[np.float64]
    transmit_w: NDArray[np.float64]
    receive_w: NDArray[np.float64]
    idle_w: NDArray[np.float64]


class EnergyCosts(Spec):
    """What one user spends."""

    per_training: Annotated[Joules, Field(ge=0)] | None = None
    """What each training takes as it begins."""
    per_sample: Annotated[Joules, Field(ge=0)] | None = None
    """What each training sample takes besides."""
    transmit: Annotated[Watts, Field(ge=0)] | None = None
    """What a user draws while it is on the air, amplifier and circuits together."""
    efficiency: Annotated[float, Field(gt=0, le=1)] | None = None
    """In its place: the share of what a user draws that is radiated, so that it draws radio.power / efficiency."""
    receive: Annotated[Watts, Field(ge=0)] | None = None
    """What it draws while a version is sent to it over the air."""
    idle: Annotated[Watts, Field(ge=0)] | None = None
    """What it draws all the time, beside all else, cut off or not."""

    @model_validator(mode="after")
    def _one_power(self) -> EnergyCosts:
        """The power of sending from one source."""
        if self.transmit is not None and self.efficiency is not None:
            raise ValueError("give transmit or efficiency, not both")
        return self

    @property
    def stated(self) -> tuple[str, ...]:
        """The figures that are given."""
        return tuple(name for name in EnergyCosts.model_fields if getattr(self, name) is not None)

    def sending_w(self, radiated_w: float) -> float | None:
        """What sending draws; ``None`` where that is not said."""
        return self.transmit if self.efficiency is None else radiated_w / self.efficiency


class Energy(EnergyCosts):
    """What users spend, counted and told; nobody runs out of anything.

    A user spends per_training + f · samples · per_sample on a training, f being the share of its time that it went on
    for: 1, unless the user abandoned it or the run ended.  It spends transmit · airtime on every attempt that it puts
    on the air, whatever becomes of it, airtime being how long the MAC has it there; receive · bits / rate on every
    version that is sent to it; and idle · T in a time T.  What is not stated costs nothing.
    """

    devices: Mapping[str, EnergyCosts] = Field(default_factory=dict)
    """Other figures for a class of ``compute.devices``, by its name; those that are not given there are as for all."""

    @model_validator(mode="after")
    def _something(self) -> Energy:
        """Something must be spent."""
        if not any(getattr(one, name) for one in (self, *self.devices.values()) for name in one.stated):
            raise ValueError("nothing is spent: give per_training, per_sample, transmit, efficiency, receive or idle")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """What is spent only in rounds, where there are none."""
        if facts.duration_s is not None:
            for key, costs in self.each():
                for name in (name for name in costs.stated if name in _ROUNDS):
                    problem = "has no effect with a duration, in which nobody trains and no version is sent"
                    yield Fault(f"{key}{name}", problem, getattr(costs, name), "leave it out")

    def each(self) -> Iterator[tuple[str, EnergyCosts]]:
        """The figures for all, and of each class, with what goes before their keys."""
        yield "", self
        yield from ((f"devices.{name}.", costs) for name, costs in self.devices.items())

    def rates(self, devices: NDArray[np.str_], power_dbm: float) -> PowerRates:
        """What each user spends.

        Args:
            devices: the name of each user's class, ``[users]``; empty names where there are none.
            power_dbm: what radios send with; NaN without any.
        """
        radiated_w = float(db_to_linear(power_dbm - 30.0))

        def of(costs: EnergyCosts) -> tuple[float | None, ...]:
            return costs.per_training, costs.per_sample, costs.sending_w(radiated_w), costs.receive, costs.idle

        every = [np.full(len(devices), figure or 0.0) for figure in of(self)]
        for name, costs in self.devices.items():
            for row, figure in zip(every, of(costs), strict=True):
                if figure is not None:
                    row[devices == name] = figure
        return PowerRates(*every)


# The account of what users spend, user by user.


Ids = NDArray[np.int64]


class EnergyMeter:
    """What users have spent since the beginning, or since `restart`; told of trainings, attempts and receptions.

    Counts and times are kept, and priced at the end.  A training counts by the share of its time that it went on for.
    Users are numbered as in the whole network.

    Args:
        rates: what each of them spends.
        samples: training samples of one update, ``[users]``.
        broadcast_s: how long a version is on the air on an ideal way down.
    """

    def __init__(self, rates: PowerRates, samples: NDArray[np.float64], broadcast_s: float = 0.0) -> None:
        self._rates, self._samples, self._broadcast_s = rates, samples, broadcast_s
        self._from_s, self._until_s = np.zeros(len(samples)), np.zeros(len(samples))
        self.restart(0.0)

    def restart(self, now_s: float) -> None:
        """Count from now on."""
        self._since_s = now_s
        self._begun, self._trained, self._sending_s, self._hearing_s = np.zeros((4, len(self._samples)))

    def train(self, ids: Ids, from_s: NDArray[np.float64], until_s: NDArray[np.float64]) -> None:
        """Users begin to train, each of whom is at no other training."""
        self._begun[ids] += 1
        self._from_s[ids], self._until_s[ids] = from_s, until_s

    def stop(self, ids: Ids, at_s: ArrayLike) -> None:
        """The last trainings of users are over, if they were not before."""
        running = self._until_s[ids] > self._from_s[ids]
        ids, by_s = ids[running], np.broadcast_to(at_s, ids.shape)[running]
        from_s, until_s = self._from_s[ids], self._until_s[ids]
        self._trained[ids] += np.clip((by_s - from_s) / (until_s - from_s), 0.0, 1.0)
        self._from_s[ids] = until_s

    def send(self, ids: Ids, airtime_s: float) -> None:
        """Users go on the air."""
        self._sending_s[ids] += airtime_s

    def receive(self, ids: Ids, airtime_s: float) -> None:
        """A version is sent to users."""
        self._hearing_s[ids] += airtime_s

    def receive_broadcast(self, ids: Ids) -> None:
        """Users receive a version on an ideal way down."""
        self.receive(ids, self._broadcast_s)

    def total_j(self, now_s: float) -> float:
        """What all have spent by now; a training that is under way counts by the share of its time that has passed."""
        lasts = np.where(self._until_s > self._from_s, self._until_s - self._from_s, np.inf)
        under_way = np.clip((now_s - self._from_s) / lasts, 0.0, 1.0)
        spent = float(sum(joules.sum() for joules in self._spent(now_s).values()))
        return spent + float((self._rates.sample_j * self._samples * under_way).sum())

    def close(self, now_s: float) -> dict[str, NDArray[Any]]:
        """The run ends: what each user has done and spent, by name, ``[users]`` each."""
        self.stop(np.arange(len(self._samples)), now_s)
        spent = self._spent(now_s)
        done = {"begun": self._begun.astype(np.int64), "trained": self._trained}
        times = {"sending_s": self._sending_s, "receiving_s": self._hearing_s}
        told = {f"{name}_J": joules for name, joules in spent.items()}
        return {
            "user": np.arange(len(self._samples)),
            **done,
            **times,
            **told,
            "energy_J": np.sum([*spent.values()], axis=0),
        }

    @staticmethod
    def figures(columns: Mapping[str, NDArray[Any]], deliveries: int | None) -> dict[str, float]:
        """The figures of a replica, from its columns; *deliveries* is ``None`` where there can be none."""
        each = columns["energy_J"]
        told = {"energy_J": float(each.sum())}
        parts = {name: float(columns[f"{name}_J"].sum()) for name in ("train", "send", "receive", "idle")}
        told |= {f"energy_{name}_J": joules for name, joules in parts.items() if joules}
        if deliveries is not None:
            told["energy_per_delivery_J"] = told["energy_J"] / deliveries if deliveries else np.nan
        return told | {"energy_max_J": float(each.max()), "energy_jain": jain(each)}

    def _spent(self, now_s: float) -> dict[str, NDArray[np.float64]]:
        """Joules of each user, by what they went into."""
        rates = self._rates
        return {
            "train": rates.training_j * self._begun + rates.sample_j * self._samples * self._trained,
            "send": rates.transmit_w * self._sending_s,
            "receive": rates.receive_w * self._hearing_s,
            "idle": rates.idle_w * (now_s - self._since_s),
        }
