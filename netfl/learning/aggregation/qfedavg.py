"""q-FedAvg: the server lets changes of users whom the model serves badly count more."""

from __future__ import annotations

from netfl.learning.aggregation._qffl import QfflAggregation


class Qfedavg(QfflAggregation):
    """Changes count by a power of their user's loss: ``x ← x - Σ_k Δ_k / Σ_k h_k``, for the objective of q-FFL.

    The sums run over the round's deliveries.  ``Δ_k = F_k^q Δw_k`` and ``h_k = q F_k^(q-1) ‖Δw_k‖² + L F_k^q``, with
    ``Δw_k = L (base_k - θ_k)``, ``L = 1/lr`` the user's own, and F_k the mean loss of base_k over all that user k
    holds; 1e-10 is added to it.  With q = 0 and one lr it is an `average` with equal weights of users that started from
    x.  t moves by the same weights; it is no part of the norm.  F_k is the mean loss also where the users' objective is
    another.

    Li et al., "Fair resource allocation in federated learning", ICLR 2020, algorithm 2.

    Example::

        kind: qfedavg
        q: 1
    """
