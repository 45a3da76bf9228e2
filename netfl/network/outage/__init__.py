"""The outage family: times at which users, towers, routers and links are down.

A node that is down neither sends nor receives.  A transmission is lost if either end is down at any time of it, unless
the outage spares uploads.  A user that is down continues to compute, unless the outage switches devices off
(`NodeAvailability.powers_devices`), which ends their trainings.  A network may have several outages: a node is up when
it is up in all of them.

To write an outage, derive a class from `Outage` and define `Outage.open`, which returns a `NodeAvailability`, and
``laws``.  Optional is `Outage.warnings`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.energy import Energy, EnergyMeter
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class LargestUses:
    """The largest uses of a device: the quantities of a network that decide what a battery can pay.

    Args:
        frame_bits: size of the largest frame that users send.
        samples: training samples of the user that has the most; ``None`` if nobody trains.
        frame_j: energy of a frame, the largest of all users; ``None`` if it is not counted, or its rate is not known.
        training_j: energy of a training, the largest of all users; ``None`` if it is not counted.
        start_j: the part of it that is spent at its start.
        training_s: time of that training.
    """

    frame_bits: float
    samples: float | None = None
    frame_j: float | None = None
    training_j: float | None = None
    start_j: float = 0.0
    training_s: float = 0.0


class NodeAvailability(Overridable, ABC):
    """The states of a network's nodes, as a function of (node, time) that may be asked in any order.

    Nodes are numbered as in `Layout`, including links.  Nodes that the outage does not affect are always up.
    """

    @property
    def is_exact(self) -> bool:
        """True if `next_change` only returns instants at which the state changes."""
        return True

    @property
    def is_metered(self) -> bool:
        """True if states depend on the activity of users, which `train`, `transmit` and others then report."""
        return False

    @property
    def powers_devices(self) -> bool:
        """True if a user that is down is switched off and cannot train; else it is disconnected only."""
        return False

    @abstractmethod
    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        """Return whether each node is up at *time_s*, ``[n]``; at the instant of a change the new state holds."""

    @abstractmethod
    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        """Return the first instant after *time_s* at which each node changes, ``[n]``; infinity if never.

        If not `is_exact`, the result may be an earlier instant before which nothing changes.
        """

    def draw_from(self, energy: EnergyMeter) -> None:
        """Let what users do cost what *energy* counts; it is called once, before all else, if energy is counted."""

    def train(self, users: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        """Report that each of *users* trains from *time_s* to *until_s*.

        Returns:
            The share of the energy that each training needs at its start that it had, ``[n]``; below 1 the training
            fails at once.  ``None`` if all had theirs.
        """
        return None

    def stop(self, users: Ints, time_s: Floats) -> None:
        """Report that the trainings of *users* end at *time_s*, if they have not ended before."""

    def transmit(
        self, users: Ints, time_s: ArrayLike, airtime_s: ArrayLike, power_factor: Floats | None = None
    ) -> Floats | None:
        """Report that each of *users* starts to transmit at *time_s*, for *airtime_s*.

        Args:
            users: the users.
            time_s: start, one for all or ``[n]``.
            airtime_s: airtime, one for all or ``[n]``.
            power_factor: radiated power of each relative to that of its radio, ``[n]``; ``None`` for its present power.

        Returns:
            The share of its energy that each transmission had, as from `train`.
        """
        return None

    def receive(self, users: Ints, time_s: ArrayLike, airtime_s: float) -> Floats | None:
        """Report that a version is sent to each of *users* for *airtime_s*, from *time_s*; the result is as before."""
        return None

    def evaluate(self, users: Ints, time_s: ArrayLike, joules: Floats) -> Floats | None:
        """Report that each of *users* begins an evaluation at *time_s*, for which it pays *joules* at once."""
        return None

    def charge_j(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        """Return the charge of each user's battery at *time_s*, ``[n]``; infinite for users without one.

        ``None`` if this outage has no batteries.
        """
        return None

    def charge_share(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        """Return `charge_j` as a share of the capacity of each battery, ``[n]``."""
        return None

    def is_charging(self, users: Ints, time_s: ArrayLike) -> Bools | None:
        """Return whether each user's battery gets power at *time_s*, ``[n]``; true for users without one.

        ``None`` if this outage has no batteries.
        """
        return None

    def idle_j(self, users: Ints, time_s: ArrayLike) -> Floats | None:
        """Return the energy that each user has taken from its battery by *time_s* for being on, ``[n]``.

        It is NaN for users without a battery; ``None`` if this outage has no batteries.
        """
        return None


class Outage(Spec):
    """Base class of all outages."""

    in_progress: Literal["interrupt", "finish"] = "interrupt"
    """Transmissions in progress as it begins: ``interrupt`` loses them; ``finish`` lets them end, so the outage acts
    between transmissions only."""

    has_batteries: ClassVar[bool] = False
    """`NodeAvailability.charge_j` states the charge of batteries."""

    @property
    def has_charging_times(self) -> bool:
        """True if it has batteries that get power from a source."""
        return False

    @abstractmethod
    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        """Return the states of the nodes of *layout* under this outage."""

    def energy_faults(self, energy: Energy | None) -> Iterator[Fault]:
        """Yield contradictions to *energy*, the costs that the network counts; ``None`` if it counts none."""
        yield from ()

    def warnings(self, uses: LargestUses) -> Iterator[str]:
        """Yield warnings about uses of a device that this outage always ends."""
        yield from ()

    def has_times_within(self, end_s: float) -> bool:
        """Return whether the file of this outage, if it reads one, has a time in a run that ends at *end_s*."""
        return True


__getattr__ = exported_models(__name__)
