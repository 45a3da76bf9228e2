"""M/M/1 queue: one link, Poisson packets of exponential sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._queues import EXPONENTIAL_SIZES, LINE, ONE_LINK, STABLE, UNLIMITED, build_line


class MM1(Theory):
    """M/M/1, first in, first out: the time in the system is exponential with mean 1/(μ - λ) = (1/μ) / (1 - ρ).

    λ is the rate of the packets, 1/μ their mean time on the link, ρ = λ/μ < 1; the propagation delay is added.  Its
    quantiles are -ln(1 - p) / (μ - λ), and the link is busy for the share ρ of time.  L. Kleinrock, "Queueing Systems",
    vol. I, 1975, §3.2 and §5.6.

    Example::

        kind: mm1
    """

    conditions = (*LINE, ONE_LINK, EXPONENTIAL_SIZES, UNLIMITED, STABLE)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        line = build_line(case)
        mean_s = line.service_s[0] / (1.0 - line.load)
        metrics = {"delay_theory_s": line.delay_s + mean_s, "utilisation_theory": line.load}
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
            metrics[f"delay_{name}_theory_s"] = line.delay_s - mean_s * math.log(1.0 - share)
        return metrics
