"""Random mixes of labels, by the Dirichlet distribution."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer, Sizes, whole_portions
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_CLAIM_PARTS = 10
"""Size of the mix whose distribution is stated."""
_TINY = 1e-300


class Dirichlet(Partition):
    """Symmetric Dirichlet mixes of labels, or of users; a small ``concentration`` makes them pure.

    - ``mixes``: each user k draws a mix κ_k over the labels and takes of label c's examples the share
      ``κ_kc / Σ_m κ_mc``; all are distributed, and sizes differ (Wang and Ji, "A lightweight method for tackling
      unknown participation statistics in federated averaging", ICLR 2024).
    - ``labels``: each label draws its shares over the users (Yurochkin et al., ICML 2019; Li et al., "Federated
      learning on non-IID data silos", ICDE 2022); sizes differ.
    - ``draws``: each user draws a mix over the labels, and then its examples one by one by that mix, without
      repetition; a label that has run out leaves its share to the others (Hsu, Qi and Brown, arXiv:1909.06335).  Users
      come in random order; sizes are equal, or as ``sizes`` says.

    The concentration α is that of each label: a share of one of C labels has mean 1/C and variance
    ``(C - 1) / (C² (C α + 1))``.

    Example::

        kind: dirichlet
        concentration: 0.5
        by: mixes
    """

    concentration: Annotated[float, Field(ge=0.01, le=1e6)]
    """α, of each label or, with ``labels``, of each user."""
    by: Literal["mixes", "labels", "draws"] = "mixes"
    """The way in which the examples are distributed."""
    sizes: Sizes | None = None
    """The number of examples of users, for ``draws`` only; equal shares by default."""

    @model_validator(mode="after")
    def _check_sizes(self) -> Dirichlet:
        if self.sizes is not None and self.by != "draws":
            raise ValueError(f"sizes follow from the mixes by '{self.by}'; leave them out, or set by: draws")
        return self

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        available = np.bincount(labels)
        if self.by == "draws":
            counts = self._draw_counts(available, users, streams)
        else:
            if self.by == "labels":
                shares = self.draw_mixes(streams, len(available), users)
            else:  # a label that no mix has is shared out equally
                shares = np.maximum(self.draw_mixes(streams, users, len(available)).T, _TINY)
            portions = [
                whole_portions(total, of_label) for total, of_label in zip(available.tolist(), shares, strict=True)
            ]
            counts = np.stack(portions)  # [labels, users]
        dealer = RowDealer(users, streams.rng("dirichlet"))
        for label, label_counts in enumerate(counts):
            dealer.deal(np.flatnonzero(labels == label), range(users), label_counts)
        return dealer.rows()

    def draw_mixes(self, streams: Streams, draws: int, parts: int) -> Floats:
        """Draw independent mixes over *parts*, ``[draws, parts]``; more *draws* do not change the first ones."""
        return streams.rng("mixes").dirichlet(np.full(parts, self.concentration), draws)

    def laws(self) -> tuple[Law, ...]:
        from scipy.stats import beta

        def draw(streams: Streams, size: int) -> Floats:
            return self.draw_mixes(streams, size, _CLAIM_PARTS)[:, -1]

        distribution = beta(self.concentration, (_CLAIM_PARTS - 1) * self.concentration)
        share = Law(f"share of one of {_CLAIM_PARTS}", "beta(α, 9 α)", draw, distribution=distribution)
        if self.sizes is None:
            return (share,)
        return (share, self.sizes.weight_law())

    def _draw_counts(self, available: Ints, users: int, streams: Streams) -> Ints:
        """Draw the number of each user's examples of each label, ``[labels, users]``, from those *available*."""
        mixes = self.draw_mixes(streams, users, len(available))
        total = int(available.sum())
        if self.sizes is None:
            sizes = whole_portions(total, np.ones(users))
        else:
            sizes = self.sizes.draw_counts(streams.at("sizes"), users, total)
        rng = streams.rng("draws")
        left = available.copy()
        counts = np.zeros((users, len(available)), np.int64)
        for user in rng.permutation(users).tolist():
            while (missing := int(sizes[user] - counts[user].sum())) > 0:
                chances = np.where(left > 0, mixes[user], 0.0)
                if chances.sum() <= _TINY:  # all labels of the mix have run out
                    chances = left.astype(float)
                drawn = rng.multinomial(missing, chances / chances.sum())
                drawn = np.minimum(drawn, left)  # what a label lacks is drawn again, from the others
                counts[user] += drawn
                left -= drawn
        return counts.T
