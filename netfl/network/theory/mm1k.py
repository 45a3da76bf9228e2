"""M/M/1/K queue: one link, Poisson packets of exponential sizes, limited room."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._queues import EXPONENTIAL_SIZES, LIMITED, LINE, ONE_LINK, build_line


class MM1K(Theory):
    """M/M/1/K: the share P_K = ρ^K / (1 + ρ + … + ρ^K) of the packets is dropped.

    K = capacity + 1, as the packet being sent is not in the queue; any load ρ = λ/μ.  With L = Σ n P_n packets
    in the system, the mean delay of accepted packets is L / (λ (1 - P_K)) (Little), and the link is busy for the
    share 1 - P_0 of time.  L. Kleinrock, "Queueing Systems", vol. I, 1975, §3.6.

    Example::

        kind: mm1k
    """

    conditions = (*LINE, ONE_LINK, EXPONENTIAL_SIZES, LIMITED)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        line = build_line(case)
        n = np.arange((line.room or 0) + 1)
        exponents = n * math.log(line.load)
        weights = np.exp(exponents - exponents.max())  # ρ^n, scaled so that none overflows
        share = weights / weights.sum()  # P_n
        inside = float(n @ share)  # L
        dropped = float(share[-1])
        return {
            "loss_ratio_theory": dropped,
            "delay_theory_s": line.delay_s + inside / (line.rate_hz * (1.0 - dropped)),
            "utilisation_theory": 1.0 - float(share[0]),
        }
