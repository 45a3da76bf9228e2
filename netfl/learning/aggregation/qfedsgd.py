"""q-FedSGD: q-FedAvg with a single gradient per user."""

from __future__ import annotations

from collections.abc import Iterator

from netfl.errors import Fault
from netfl.learning.aggregation import LearnerOptions
from netfl.learning.aggregation.qfedavg import Qfedavg
from netfl.learning.objective.erm import Erm


class Qfedsgd(Qfedavg):
    """Gradients are weighted by a power of the user's loss: ``x ← x - Σ_k Δ_k / Σ_k h_k``, for the objective of q-FFL.

    ``Δ_k = F_k^q ∇F_k`` and ``h_k = q F_k^(q-1) ‖∇F_k‖² + L F_k^q``, with ``L = 1/lr`` and the mean loss F_k of base_k
    over the examples of user k plus 1e-10.  Users make one step on all their examples with the mean loss, so that
    ``∇F_k = (base_k - θ_k) / lr``; the rest is `qfedavg`.  With q = 0 it is gradient descent.

    Source: Li et al., "Fair resource allocation in federated learning", ICLR 2020, algorithm 1.

    Example::

        kind: qfedsgd
        q: 1
    """

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        if learner.batch_size != "full" or not learner.has_single_step:
            problem = "qfedsgd uses a user's change as its gradient, which needs one step on all examples"
            yield Fault("kind", problem, "qfedsgd", "give batch_size: full and local_steps: 1, or use 'qfedavg'")
        if not isinstance(learner.objective, Erm) or learner.objective.pull or learner.weight_decay:
            problem = "qfedsgd needs the gradient of the mean loss"
            remedy = "use the objective 'erm' without weight_decay, or 'qfedavg', which accepts any"
            yield Fault("kind", problem, "qfedsgd", remedy)
