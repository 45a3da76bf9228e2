"""Empirical risk: the mean loss, which FedAvg minimises."""

from __future__ import annotations

from netfl.learning.objective._mean import MeanLoss


class Erm(MeanLoss):
    """The mean loss of the mini-batch.  It has no t.

    Globally ``Σ_k ρ_k f_k``, with the mean loss f_k of user k and its share ρ_k of the deliveries.

    Source: McMahan et al., "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017.

    Example::

        kind: erm
    """
