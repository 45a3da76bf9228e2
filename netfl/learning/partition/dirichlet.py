"""Users hold mixes of labels that differ at random, by Dirichlet's law."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer, whole_portions
from netfl.learning.partition._sizes import Sizes
from netfl.streams import Streams
from netfl.types import Law

_SHOWN = 10
"""Labels, or users, of the mix whose law is told."""
_NOTHING = 1e-300


class Dirichlet(Partition):
    """Mixes of labels, or of users, drawn from the symmetric Dirichlet law; a small ``concentration`` makes them pure.

    - ``mixes``: each user k draws a mix κ_k over the labels and takes of label c's examples the share
      ``κ_kc / Σ_m κ_mc``; all are dealt out, and sizes differ (Wang and Ji, "A lightweight method for tackling unknown
      participation statistics in federated averaging", ICLR 2024).
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
    """α, of each label or, by ``labels``, of each user."""
    by: Literal["mixes", "labels", "draws"] = "mixes"
    """How the examples are dealt out."""
    sizes: Sizes | None = None
    """How many examples users hold, by ``draws`` and only there; equal shares by default."""

    @model_validator(mode="after")
    def _sizes_are_drawn(self) -> Dirichlet:
        """Refuse sizes where they follow from the mixes."""
        if self.sizes is not None and self.by != "draws":
            raise ValueError(f"sizes follow from the mixes by '{self.by}': leave them out, or say by: draws")
        return self

    def split(
        self, labels: NDArray[np.int64], users: int, order: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Draw the mixes and deal each label out."""
        there = np.bincount(labels)
        if self.by == "draws":
            counts = self._drawn(there, users, streams)
        else:
            shares = self._shares(streams, len(there), users)
            counts = np.stack([whole_portions(total, own) for total, own in zip(there.tolist(), shares, strict=True)])
        hands = RowDealer(users, streams.rng("dirichlet"))
        for label, own in enumerate(counts):
            hands.deal(np.flatnonzero(labels == label), range(users), own)
        return hands.rows()

    def mixes(self, streams: Streams, draws: int, parts: int) -> NDArray[np.float64]:
        """Independent mixes over *parts*, ``[draws, parts]``; the first are the same however many there are."""
        return streams.rng("mixes").dirichlet(np.full(parts, self.concentration), draws)

    def laws(self) -> tuple[Law, ...]:
        """One share of ten, and the weights of the sizes."""
        from scipy.stats import beta

        def draw(streams: Streams, size: int) -> NDArray[np.float64]:
            return self.mixes(streams, size, _SHOWN)[:, -1]

        known = beta(self.concentration, (_SHOWN - 1) * self.concentration)
        own = Law(f"share of one of {_SHOWN}", "beta(α, 9 α)", draw, distribution=known)
        return (own,) if self.sizes is None else (own, self.sizes.law_of_weights())

    def _shares(self, streams: Streams, labels: int, users: int) -> NDArray[np.float64]:
        """In which proportions each label goes to the users, ``[labels, users]``."""
        if self.by == "labels":
            return self.mixes(streams, labels, users)
        return np.maximum(self.mixes(streams, users, labels).T, _NOTHING)

    def _drawn(self, there: NDArray[np.int64], users: int, streams: Streams) -> NDArray[np.int64]:
        """How many examples of each label each user draws, ``[labels, users]``, of those that are *there*."""
        mixes, rng = self.mixes(streams, users, len(there)), streams.rng("draws")
        total, left = int(there.sum()), there.copy()
        sizes = whole_portions(total, np.ones(users))
        if self.sizes is not None:
            sizes = self.sizes.counts(streams.at("sizes"), users, total)
        counts = np.zeros((users, len(there)), np.int64)
        for user in rng.permutation(users).tolist():
            while (wanted := int(sizes[user] - counts[user].sum())) > 0:
                chances = np.where(left > 0, mixes[user], 0.0)
                chances = chances if chances.sum() > _NOTHING else left.astype(float)
                drawn = np.minimum(rng.multinomial(wanted, chances / chances.sum()), left)
                counts[user] += drawn
                left -= drawn
        return counts.T
