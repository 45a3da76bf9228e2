"""Synthetic(α, β): generated users with different inputs and models."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netfl.core.spec import NotWith
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._splits import PerUserData, split_dataset
from netfl.streams import Streams
from netfl.types import Floats, Ints, Law

_FEATURES = 60
_CLASSES = 10
_BYTES_PER_EXAMPLE = 560


class Synthetic(PerUserData):
    """Synthetic(α, β) of FedProx and q-FFL: users whose models and whose inputs differ; linear models can learn each.

    User k has ``n_k = ⌊exp(N(4, σ²))⌋ + 50`` examples, ``x ~ N(v_k, diag(j^-1.2))`` in 60 dimensions j = 1 … 60, with
    the label ``argmax(x W_k + b_k)``, one of 10.  The entries of W_k and b_k are ``N(u_k, 1)``, ``u_k ~ N(0, α²)``;
    those of v_k are ``N(B_k, 1)``, ``B_k ~ N(0, β²)``.  In the version ``iid`` all users share W and b, with entries
    ``N(0, 1)``, and v = 0; in ``hybrid`` the first half of the users does.  Li, Sanjabi, Beirami and Smith, "Fair
    resource allocation in federated learning", ICLR 2020, appendices B.1 and C.  Each user's examples are split into
    parts for training, validation and testing, 80/10/10 by default.  ``partition: natural`` gives each user its own.

    Example::

        kind: synthetic
        alpha: 1
        beta: 1
        users: 100
    """

    classes: ClassVar[int] = _CLASSES
    shape: ClassVar[tuple[int, ...]] = (_FEATURES,)
    variant: Literal["non_iid", "iid", "hybrid"] = "non_iid"
    """The users that share one distribution: none, all, or the first half."""
    alpha: Annotated[Annotated[float, Field(ge=0)] | None, NotWith("variant", "iid")] = None
    """Spread of the users' models: the standard deviation of u_k; 1 by default.  Not for ``iid``."""
    beta: Annotated[Annotated[float, Field(ge=0)] | None, NotWith("variant", "iid")] = None
    """Spread of the users' inputs: the standard deviation of B_k; 1 by default.  Not for ``iid``."""
    users: Annotated[int, Field(ge=1)] = 100
    """The number of users."""
    sigma: Annotated[float, Field(ge=0, le=3)] | None = None
    """Standard deviation of the logarithm of the sizes; as published by default: 2, for ``iid`` and ``hybrid`` 1."""
    split: Annotated[int, Field(ge=0)] = 0
    """Number of the random split into training, validation and test examples; ``seed`` draws the examples."""

    @property
    def _spread(self) -> float:
        if self.sigma is not None:
            return self.sigma
        return 2.0 if self.variant == "non_iid" else 1.0

    @property
    def memory(self) -> float:
        mean_size = 50.0 + math.exp(4.0 + self._spread**2 / 2.0)
        return _BYTES_PER_EXAMPLE * self.users * mean_size

    def load(self, streams: Streams) -> Dataset:
        """Draw the examples by ``seed`` and split them by ``split``, whatever the seed of the run."""
        draws = Streams(self.seed).at("synthetic")
        counts = self.draw_sizes(draws, self.users)
        x = np.empty((int(counts.sum()), _FEATURES), np.float32)
        y = np.empty(len(x), np.int64)
        ends = counts.cumsum().tolist()
        for user, (count, end) in enumerate(zip(counts.tolist(), ends, strict=True)):
            of_user = slice(end - count, end)
            x[of_user], y[of_user] = self.draw_examples(draws, user, count)
        users = np.repeat(np.arange(self.users), counts)
        rng = draws.rng("split", self.split)
        rows = self.split_users(users, rng)
        return split_dataset(Examples(x, y, users), rows, self.classes)

    def draw_sizes(self, streams: Streams, users: int) -> Ints:
        """Draw the number of examples of each user."""
        logarithms = 4 + self._spread * streams.field("size").normal(np.arange(users))
        return np.exp(logarithms).astype(np.int64) + 50

    def draw_examples(self, streams: Streams, user: int, count: int) -> tuple[Floats, Ints]:
        """Draw inputs and labels of *count* examples of one user."""
        if self.variant == "iid" or (self.variant == "hybrid" and user < self.users // 2):
            rng = streams.rng("shared")
            is_shared = True
            alpha = 0.0
            beta = 0.0
        else:
            rng = streams.rng("model", user)
            is_shared = False
            alpha = 1.0 if self.alpha is None else self.alpha
            beta = 1.0 if self.beta is None else self.beta
        model_mean = float(alpha * rng.standard_normal())  # u_k
        centre_mean = float(beta * rng.standard_normal())  # B_k
        weights = model_mean + rng.standard_normal((_FEATURES, _CLASSES))  # W_k
        offsets = model_mean + rng.standard_normal(_CLASSES)  # b_k
        centre = np.zeros(_FEATURES) if is_shared else centre_mean + rng.standard_normal(_FEATURES)  # v_k
        deviations = np.arange(1, _FEATURES + 1) ** -0.6  # of the variances j^-1.2
        x = centre + streams.rng("x", user).standard_normal((count, _FEATURES)) * deviations
        y = (x @ weights + offsets).argmax(axis=1)
        return x, y

    def laws(self) -> tuple[Law, ...]:
        from scipy.special import ndtr

        def cdf(size: Floats) -> Floats:
            largest = np.maximum(size - 49, 1e-300)  # what exp(N(4, σ²)) stays below, for at most this size
            return np.asarray(ndtr((np.log(largest) - 4) / max(self._spread, 1e-9)))

        def size(streams: Streams, users: int) -> Floats:
            return self.draw_sizes(streams, users).astype(float)

        def last_coordinate(streams: Streams, users: int) -> Floats:
            variant = "iid" if self.variant == "iid" else "non_iid"  # of a hybrid, the users that differ
            data = self.model_copy(update={"variant": variant})
            coordinates = np.empty(users)
            for user in range(users):
                x, _ = data.draw_examples(streams, user, 1)
                coordinates[user] = x[0, -1]
            return coordinates

        if self.variant == "iid":
            variance_between_users = 0.0
        else:
            beta = 1.0 if self.beta is None else self.beta
            variance_between_users = beta**2 + 1
        variance = variance_between_users + 60**-1.2
        return (
            Law("examples of a user", "⌊exp(N(4, σ²))⌋ + 50", size, cdf=cdf),
            Law("x_60 of one user", "normal, variance β² + 1 + 60^-1.2", last_coordinate, 0.0, variance),
        )
