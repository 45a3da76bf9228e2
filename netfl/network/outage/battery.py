"""Users that run on batteries, and are down while these are empty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.errors import Fault
from netfl.network.outage import Outage, Timeline
from netfl.network.outage._charge import Charge, Costs
from netfl.network.outage._nodes import Nodes, faults_of, numbers
from netfl.network.outage._supply import DAY_S, Charger, NoSupply, Solar, Supply
from netfl.network.sites import Sites
from netfl.streams import Streams
from netfl.types import Facts, Law
from netfl.units import Joules, Probability, Watts


def _range(value: Any) -> Any:
    """One figure as a range of no width."""
    return value if isinstance(value, list | tuple) else (value, value)


class Battery(Outage):
    """A user's battery is drained by training, by sending and by being on; empty, it is down until enough is charged.

    The charge c is between 0 and ``capacity``.  Up, dc/dt = P(t) - idle, with P the power of the charger or the sun;
    a training takes per_training + per_sample · samples, and a transmission, the moment it begins, per_bit · bits.
    At c = 0 the user goes down, and drains nothing while dc/dt = P(t) brings c back to restart · capacity.  A use
    that takes more than is left empties the battery at once.  Integrals are exact, piece by piece: no time steps.

    Uses must be told in the order of time, user by user; one told late counts at the user's last.  Of times after a
    user's last use the answer is what comes about if there are no further uses; of earlier times, what was.

    Example::

        kind: battery
        capacity: 15 Wh
        initial: [0.3, 1]
        per_sample: 20 mJ
        per_bit: 1 uJ
        idle: 30 mW
        solar: {peak: 1 W, clouds: 0.8}
    """

    nodes: Nodes = "users"
    """Which users have batteries: ``users`` for all, or a list of their numbers."""
    capacity: Annotated[Joules, Field(gt=0)]
    """Energy of a full battery."""
    initial: Annotated[tuple[Probability, Probability], BeforeValidator(_range)] = (1.0, 1.0)
    """Charge at time 0 as a share of the capacity: one figure, or [from, to], over which users are uniform."""
    restart: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The share of the capacity at which a user that ran empty is up again."""
    per_training: Annotated[Joules, Field(ge=0)] = 0.0
    """What each training takes."""
    per_sample: Annotated[Joules, Field(ge=0)] = 0.0
    """What each training sample takes besides."""
    per_bit: Annotated[Joules, Field(ge=0)] = 0.0
    """What each bit that is sent takes."""
    idle: Annotated[Watts, Field(ge=0)] = 0.0
    """What a user takes that is up."""
    charger: Charger | None = None
    """A charger: its ``power``, and when it is plugged in."""
    solar: Solar | None = None
    """In its place, a solar panel: its ``peak``, ``sunrise``, ``sunset`` and ``clouds``."""

    @model_validator(mode="after")
    def _sound(self) -> Battery:
        """One supply; a range that is one; something that drains."""
        if self.charger is not None and self.solar is not None:
            raise ValueError("give charger or solar, not both")
        if self.initial[0] > self.initial[1]:
            raise ValueError("initial is [from, to], and from is above to")
        if not (self.per_training or self.per_sample or self.per_bit or self.idle):
            raise ValueError("nothing drains the battery: give per_training, per_sample, per_bit or idle")
        return self

    def faults(self, facts: Facts) -> Iterator[Fault]:
        """Users that there are not; nodes that are no users."""
        yield from faults_of(self.nodes, facts)
        strangers = [self.nodes] if isinstance(self.nodes, str) else [n for n in self.nodes if isinstance(n, str)]
        if strangers and self.nodes != "users":
            yield Fault("nodes", "only users have batteries", strangers, "write users, or numbers of users")

    def open(self, sites: Sites, streams: Streams) -> Timeline:
        """A battery for each user."""
        return self._opened(numbers(self.nodes, sites), sites.nodes, streams)

    def laws(self) -> tuple[Law, ...]:
        """The charge at the start, and the sunlight of a day, where they are drawn."""
        (least, most), laws = self.initial, []

        def initial(streams: Streams, size: int) -> NDArray[np.float64]:
            every = np.arange(size)
            return self._opened(every, size, streams).charge_j(every, 0.0) / self.capacity

        if least < most:
            width = most - least
            laws.append(
                Law(
                    "charge at time 0, as a share of the capacity",
                    f"uniform on [{least:g}, {most:g}]",
                    draw=initial,
                    mean=(least + most) / 2.0,
                    variance=width**2 / 12.0,
                    cdf=lambda x: np.clip((x - least) / width, 0.0, 1.0),
                )
            )
        if self.solar is not None and self.solar.clouds:
            laws.append(_sunlight(self.solar))
        return tuple(laws) or (Law.none("nothing is drawn: what is drained is what users do"),)

    def _opened(self, struck: NDArray[np.int64], nodes: int, streams: Streams) -> Charge:
        """The batteries of the users *struck*, among so many nodes."""
        row = np.full(nodes, -1)
        row[struck] = np.arange(len(struck))
        least, most = self.initial
        share = least + (most - least) * streams.field("initial").uniform(np.arange(len(struck)))
        source = self.charger or self.solar
        supply: Supply = NoSupply() if source is None else source.open(len(struck), streams)
        costs = Costs(self.per_training, self.per_sample, self.per_bit, self.idle)
        return Charge(row, self.capacity * share, self.capacity, self.restart * self.capacity, costs, supply)


def _sunlight(solar: Solar) -> Law:
    """What a panel brings in a day."""
    clear_j = 2.0 / np.pi * solar.peak * (solar.sunset - solar.sunrise)

    def draw(streams: Streams, size: int) -> NDArray[np.float64]:
        rise_s = DAY_S * np.arange(size, dtype=np.float64) + solar.sunrise
        gain = solar.open(1, streams).gain(np.zeros(size, np.int64), rise_s, np.zeros(size))
        return gain(rise_s + (solar.sunset - solar.sunrise))

    return Law(
        "sunlight of a day in J",
        "2/π · peak · (sunset - sunrise) times f, uniform on [1 - clouds, 1]",
        draw=draw,
        mean=clear_j * (1.0 - solar.clouds / 2.0),
        variance=(clear_j * solar.clouds) ** 2 / 12.0,
        cdf=lambda x: np.clip((np.asarray(x) / clear_j - 1.0 + solar.clouds) / solar.clouds, 0.0, 1.0),
    )
