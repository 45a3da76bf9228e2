"""M/D/1 queue: one link, Poisson packets of one size."""

from __future__ import annotations

from collections.abc import Mapping

from netfl.network.theory import Theory, TheoryCase
from netfl.network.theory._queues import FIXED_SIZES, LINE, ONE_LINK, STABLE, UNLIMITED, build_line


class MD1(Theory):
    """M/D/1: by Pollaczek and Khinchine the mean time in the system is s + s ρ / (2 (1 - ρ)).

    s is the time of a packet on the link, ρ = λ s < 1; the propagation delay is added.  The wait is half that
    of M/M/1.  L. Kleinrock, "Queueing Systems", vol. I, 1975, §5.6: W = λ E[S²] / (2 (1 - ρ)).

    Example::

        kind: md1
    """

    conditions = (*LINE, ONE_LINK, FIXED_SIZES, UNLIMITED, STABLE)

    def predict(self, case: TheoryCase) -> Mapping[str, float]:
        line = build_line(case)
        wait_s = line.service_s[0] * line.load / (2.0 * (1.0 - line.load))
        return {"delay_theory_s": line.delay_s + line.service_s[0] + wait_s, "utilisation_theory": line.load}
