"""Availability of nodes that fail and are repaired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from netfl.errors import Fault
from netfl.network.outage.renewal import Renewal
from netfl.network.theory import Theory, TheoryCase, misfit_fault


class Availability(Theory):
    """A node that alternates between up and down is up for A = E[up] / (E[up] + E[down]), for any two distributions.

    The share of a stationary alternating renewal process, also over any finite time on average; it falls
    1 / (E[up] + E[down]) times a second.  Nodes that several independent outages strike are up for the product of
    their A.  D. R. Cox, "Renewal Theory", 1962, §7.3.

    Example::

        kind: availability
    """

    def misfits(self, case: TheoryCase) -> Iterator[Fault]:
        outages = case.network.outages
        if not outages or not all(isinstance(outage, Renewal) and outage.start == "stationary" for outage in outages):
            yield misfit_fault("outages", "renewal outages that start stationary")
        elif not all(isinstance(outage, Renewal) and outage.nodes == "users" for outage in outages):
            yield misfit_fault("outages", "outages of all users")
        if case.network.probe is None:
            yield misfit_fault("probe", "users that a probe samples")

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        means = [(outage.up.mean, outage.down.mean) for outage in case.network.outages if isinstance(outage, Renewal)]
        metrics = {"availability_theory": prod(up_s / (up_s + down_s) for up_s, down_s in means)}
        if len(means) == 1:
            metrics["up_mean_theory_s"], metrics["down_mean_theory_s"] = means[0]
        return metrics
