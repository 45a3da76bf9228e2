"""How much of the time a node is up that fails and is mended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from netfl.errors import Fault
from netfl.network.outage.renewal import Renewal
from netfl.network.theory import Theory, TheoryCase, misfit_fault


class Availability(Theory):
    """A node that alternates between up and down is up for A = E[up] / (E[up] + E[down]), whatever the two laws.

    The share of a stationary alternating renewal process, also over any finite time on average; it falls
    1 / (E[up] + E[down]) times a second.  Nodes that several independent outages strike are up for the product of
    their A.  D. R. Cox, "Renewal Theory", 1962, §7.3.

    Example::

        kind: availability
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        """Outages that are no stationary renewal of all users."""
        outages = case.said.outages
        if not outages or not all(isinstance(one, Renewal) and one.start == "stationary" for one in outages):
            yield misfit_fault("outages", "renewal outages that start stationary")
        elif not all(isinstance(one, Renewal) and one.nodes == "users" for one in outages):
            yield misfit_fault("outages", "outages of all users")
        if case.said.probe is None:
            yield misfit_fault("probe", "users that are looked at, by a probe")

    def figures(self, case: TheoryCase) -> Mapping[str, float]:
        """Availability, and the mean sojourns of a single outage."""
        means = [(one.up.mean, one.down.mean) for one in case.said.outages if isinstance(one, Renewal)]
        told = {"availability_theory": prod(up_s / (up_s + down_s) for up_s, down_s in means)}
        if len(means) == 1:
            told["up_mean_theory_s"], told["down_mean_theory_s"] = means[0]
        return told
