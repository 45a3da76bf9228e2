'''Theory family: closed forms for a scenario, reported beside the metrics of the simulation.

A theory states what it assumes about a `TheoryCase`, as a table of `Condition` (`Theory.conditions`), so that no
comparison is silently wrong.  It predicts values (`Theory.predict`) by names such as ``delay_theory_s`` beside
``delay_mean_s``.

To add a model, write a file in this package, or a class in your own package, that derives from `Theory`.  A complete
one::

    def has_known_rate(case):
        return len(case.network.traffic) == 1 and case.network.traffic[0].rate_hz(1.0) is not None


    class Busy(Theory):
        """The share of time in which a link is busy is the load, for any distributions of times and sizes.

        Example::

            kind: mylab.busy:Busy
        """

        conditions = (
            Condition("topology", "one link", lambda case: len(case.layout.links) == 1),
            Condition("traffic", "one kind of traffic, of a known rate", has_known_rate),
        )

        def predict(self, case):
            (traffic,), (link,) = case.network.traffic, case.layout.graph.edges.values()
            return {"utilisation_theory": traffic.rate_hz(link["rate_bps"]) * traffic.size.mean / link["rate_bps"]}
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.parts import NetworkParts
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


def _no_value(case: TheoryCase) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Condition:
    """One assumption of a theory.

    Args:
        key: key below ``access`` that the error names.
        wanted: what the theory is valid for; a function where the text depends on the case.
        holds: whether a case meets the condition.
        value: value of the key in a case, for the error.
        given: conditions without which this one has no meaning; it is checked if they are met.
    """

    key: str
    wanted: str | Callable[[TheoryCase], str]
    holds: Callable[[TheoryCase], bool]
    value: Callable[[TheoryCase], object] = _no_value
    given: tuple[Condition, ...] = ()

    def is_met(self, case: TheoryCase) -> bool:
        """Return whether *case* meets this condition and those that it presupposes."""
        return self._applies(case) and self.holds(case)

    def misfit(self, case: TheoryCase) -> Fault | None:
        """Return the error of a *case* that violates the condition; ``None`` for one that does not."""
        if not self._applies(case) or self.holds(case):
            return None
        wanted = self.wanted if isinstance(self.wanted, str) else self.wanted(case)
        problem = f"the theory is valid only for {wanted}"
        return Fault(self.key, problem, self.value(case), "change it, or leave theory out")

    def _applies(self, case: TheoryCase) -> bool:
        return all(condition.is_met(case) for condition in self.given)


class Theory(Spec):
    """Base class of theories."""

    conditions: ClassVar[tuple[Condition, ...]] = ()
    """Assumptions of the theory, in the order in which errors report them."""

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Yield an error for each condition that *case* violates; keys are those of ``access``."""
        for condition in self.conditions:
            misfit = condition.misfit(case)
            if misfit is not None:
                yield misfit

    @abstractmethod
    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        """Return the predicted metrics of a *case* without misfits."""

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a formula: nothing is drawn"),)


__getattr__ = exported_models(__name__)
