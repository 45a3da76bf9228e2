'''Theory family: closed forms for a scenario, reported beside the metrics of the simulation.

A theory answers two questions about a `TheoryCase`: whether the scenario meets its assumptions (`Theory.misfits`), so
that no comparison is silently wrong; and which values it predicts (`Theory.predict`), by names such as
``delay_theory_s`` beside ``delay_mean_s``.

To add a model, write a file in this package, or a class in your own package, that derives from `Theory`.  A complete
one::

    class Busy(Theory):
        """The share of time in which a link is busy is the load, for any distributions of times and sizes.

        Example::

            kind: mylab.busy:Busy
        """

        def misfits(self, case):
            if len(case.network.traffic) != 1 or case.network.traffic[0].rate_hz(1.0) is None:
                yield misfit_fault("traffic", "one kind of traffic of a known rate")

        def predict(self, case):
            (traffic,), (link,) = case.network.traffic, case.layout.graph.edges.values()
            return {"utilisation_theory": traffic.rate_hz(link["rate_bps"]) * traffic.size.mean / link["rate_bps"]}
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.parts import NetworkParts
from netfl.registry import Spec, exported_models
from netfl.streams import Streams
from netfl.types import Law


@dataclass(frozen=True)
class TheoryCase:
    """A scenario that is compared with a theory.

    Args:
        network: the parts of the network: keys of ``access``.
        layout: positions, nodes and links.
        streams: for a theory that computes with random draws.
    """

    network: NetworkParts
    layout: Layout
    streams: Streams


class Theory(Spec):
    """Base class of theories."""

    @abstractmethod
    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Yield an error for each assumption that *case* violates; keys are those of ``access``."""

    @abstractmethod
    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        """Return the predicted metrics of a *case* without misfits."""

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a formula: nothing is drawn"),)


def misfit_fault(key: str, wanted: str, value: object = None) -> Fault:
    """Return the error of a scenario that violates an assumption.

    Args:
        key: key below ``access``.
        wanted: condition under which the theory is valid.
        value: the value in the scenario.
    """
    return Fault(key, f"the theory is valid only for {wanted}", value, "change it, or leave theory out")


__getattr__ = exported_models(__name__)
