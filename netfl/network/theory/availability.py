"""Availability of nodes that fail and are repaired."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from netfl.network.outage.renewal import Renewal
from netfl.network.theory import Condition, Theory, TheoryCase


def _is_stationary(case: TheoryCase) -> bool:
    outages = case.network.outages
    return bool(outages) and all(isinstance(outage, Renewal) and outage.start == "stationary" for outage in outages)


def _strikes_users(case: TheoryCase) -> bool:
    return all(isinstance(outage, Renewal) and outage.nodes == "users" for outage in case.network.outages)


def _keeps_users(case: TheoryCase) -> bool:
    return case.network.motion is None or not case.network.motion.has_absences


_STATIONARY = Condition("outages", "renewal outages that start stationary", _is_stationary)


class Availability(Theory):
    """A node that alternates between up and down is up for A = E[up] / (E[up] + E[down]), for any two distributions.

    The share of a stationary alternating renewal process, also over any finite time on average; it falls
    1 / (E[up] + E[down]) times a second.  Nodes that several independent outages strike are up for the product of
    their A.  D. R. Cox, "Renewal Theory", 1962, §7.3.

    Example::

        kind: availability
    """

    conditions = (
        _STATIONARY,
        Condition("outages", "outages of all users", _strikes_users, given=(_STATIONARY,)),
        Condition("motion", "a motion that takes nobody out of the network", _keeps_users),
        Condition("probe", "users that a probe samples", lambda case: case.network.probe is not None),
    )

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        means = [(outage.up.mean, outage.down.mean) for outage in case.network.outages if isinstance(outage, Renewal)]
        metrics = {"availability_theory": prod(up_s / (up_s + down_s) for up_s, down_s in means)}
        if len(means) == 1:
            metrics["up_mean_theory_s"], metrics["down_mean_theory_s"] = means[0]
        return metrics
