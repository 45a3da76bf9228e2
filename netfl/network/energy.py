"""What users spend: the joules of a training, and the watts of sending, listening, and being there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault
from netfl.network.decibels import ratio
from netfl.registry import Spec
from netfl.types import Facts
from netfl.units import Joules, Watts

_ROUNDS = ("per_training", "per_sample", "receive")
"""What is spent only where versions are sent and trained from."""


class Rates(NamedTuple):
    """What each user spends, ``[users]`` each, in joules and watts."""

    training_j: NDArray[np.float64]
    sample_j: NDArray[np.float64]
    transmit_w: NDArray[np.float64]
    receive_w: NDArray[np.float64]
    idle_w: NDArray[np.float64]


class Costs(Spec):
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
    def _one_power(self) -> Costs:
        """The power of sending from one source."""
        if self.transmit is not None and self.efficiency is not None:
            raise ValueError("give transmit or efficiency, not both")
        return self

    @property
    def stated(self) -> tuple[str, ...]:
        """The figures that are given."""
        return tuple(name for name in Costs.model_fields if getattr(self, name) is not None)

    def sending_w(self, radiated_w: float) -> float | None:
        """What sending draws; ``None`` where that is not said."""
        return self.transmit if self.efficiency is None else radiated_w / self.efficiency


class Energy(Costs):
    """What users spend, counted and told; nobody runs out of anything.

    A user spends per_training + f · samples · per_sample on a training, f being the share of its time that it went on
    for: 1, unless the user abandoned it or the run ended.  It spends transmit · airtime on every attempt that it puts
    on the air, whatever becomes of it, airtime being how long the MAC has it there; receive · bits / rate on every
    version that is sent to it; and idle · T in a time T.  What is not stated costs nothing.
    """

    devices: Mapping[str, Costs] = Field(default_factory=dict)
    """Other figures for a class of ``compute.devices``, by its name; those that are not given there are as for all."""

    @model_validator(mode="after")
    def _something(self) -> Energy:
        """Something must be spent."""
        if not any(getattr(one, name) for one in (self, *self.devices.values()) for name in one.stated):
            raise ValueError("nothing is spent: give per_training, per_sample, transmit, efficiency, receive or idle")
        return self

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """What is spent only in rounds, where there are none."""
        if facts.duration_s is not None:
            for key, costs in self.each():
                for name in (name for name in costs.stated if name in _ROUNDS):
                    problem = "has no effect with a duration, in which nobody trains and no version is sent"
                    yield Fault(f"{key}{name}", problem, getattr(costs, name), "leave it out")

    def each(self) -> Iterator[tuple[str, Costs]]:
        """The figures for all, and of each class, with what goes before their keys."""
        yield "", self
        yield from ((f"devices.{name}.", costs) for name, costs in self.devices.items())

    def rates(self, devices: NDArray[np.str_], power_dbm: float) -> Rates:
        """What each user spends.

        Args:
            devices: the name of each user's class, ``[users]``; empty names where there are none.
            power_dbm: what radios send with; NaN without any.
        """
        radiated_w = float(ratio(power_dbm - 30.0))

        def of(costs: Costs) -> tuple[float | None, ...]:
            return costs.per_training, costs.per_sample, costs.sending_w(radiated_w), costs.receive, costs.idle

        every = [np.full(len(devices), figure or 0.0) for figure in of(self)]
        for name, costs in self.devices.items():
            for row, figure in zip(every, of(costs), strict=True):
                if figure is not None:
                    row[devices == name] = figure
        return Rates(*every)
