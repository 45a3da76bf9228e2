"""Empirical risk: the mean loss, what FedAvg minimises."""

from __future__ import annotations

from netfl.learning.objective._mean import MeanLoss


class Erm(MeanLoss):
    """The mean loss of the mini-batch.

    Globally ``Σ_k ρ_k f_k``, with f_k the mean loss of user k and ρ_k its share of what is heard (McMahan et al.,
    "Communication-efficient learning of deep networks from decentralized data", AISTATS 2017).  It has no t.

    Example::

        kind: erm
    """
