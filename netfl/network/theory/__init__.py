'''The theory family: what a formula says of a scenario, told beside the figures that the network came to.

A theory is asked two things of a `TheoryCase`: where the scenario leaves its assumptions (`Theory.misfits`), each a
fault,
so that no comparison is ever wrong silently; and what it predicts (`Theory.figures`), by names such as
``delay_theory_s`` beside ``delay_mean_s``.

A complete one::

    class Busy(Theory):
        """The share of time in which one link is busy is the load, whatever the laws of times and sizes.

        Example::

            kind: mylab.busy:Busy
        """

        def misfits(self, case):
            if len(case.said.traffic) != 1 or case.said.traffic[0].rate_hz(1.0) is None:
                yield misfit("traffic", "one kind of traffic of a known rate")

        def figures(self, case):
            (traffic,), (link,) = case.said.traffic, case.sites.graph.edges.values()
            return {"utilisation_theory": traffic.rate_hz(link["rate_bps"]) * traffic.size.mean / link["rate_bps"]}

        def laws(self):
            return (Law.none("a formula: nothing is drawn"),)
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from netfl.errors import Fault
from netfl.network.channel import Channel
from netfl.network.layout import Layout
from netfl.network.mac import Mac
from netfl.network.motion import Motion
from netfl.network.outage import Outage
from netfl.network.probe import Probe
from netfl.network.queue import Queue
from netfl.network.radio.link_budget import Radio
from netfl.network.reception import Reception
from netfl.network.traffic import Traffic
from netfl.registry import Spec
from netfl.streams import Streams
from netfl.types import Law


class NetworkDescription(Protocol):
    """What a scenario says of its network: the keys of ``access`` that a theory may ask for."""

    @property
    def motion(self) -> Motion | None:
        """How users move."""

    @property
    def radio(self) -> Radio | None:
        """What users send with."""

    @property
    def channel(self) -> tuple[Channel, ...]:
        """What the air does."""

    @property
    def reception(self) -> Reception | None:
        """Which signal is enough."""

    @property
    def interference(self) -> str:
        """What becomes of those who meet."""

    @property
    def capture(self) -> float | None:
        """By how much one must exceed the others."""

    @property
    def mac(self) -> Mac | None:
        """How users share the medium."""

    @property
    def queue(self) -> Queue:
        """The waiting room of every port."""

    @property
    def queues(self) -> Mapping[str, Queue]:
        """Those of some ports."""

    @property
    def outages(self) -> tuple[Outage, ...]:
        """When nodes are cut off."""

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """What comes."""

    @property
    def probe(self) -> Probe | None:
        """What is looked at."""


@dataclass(frozen=True)
class TheoryCase:
    """A scenario that a theory is held beside.

    Args:
        said: what it says of its network.
        sites: the network laid out.
        streams: for a theory that is a calculation on draws of its own.
    """

    said: NetworkDescription
    sites: Layout
    streams: Streams


class Theory(Spec):
    """The contract of a theory."""

    @abstractmethod
    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Where *case* leaves what the theory assumes; keys are those of ``access``."""

    @abstractmethod
    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """What the theory says of *case*, in which nothing misfits."""

    def laws(self) -> tuple[Law, ...]:
        """A formula draws nothing."""
        return (Law.none("a formula: nothing is drawn"),)


def misfit_fault(key: str, wanted: str, value: object = None) -> Fault:
    """The fault of a scenario that a theory does not hold for.

    Args:
        key: where, below ``access``.
        wanted: what the theory holds for.
        value: what is there.
    """
    return Fault(key, f"the theory holds for {wanted} only", value, "change it, or leave theory out")
