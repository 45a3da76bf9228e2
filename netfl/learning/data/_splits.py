"""Splits of a data set into training, validation and test examples."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Data, Dataset, Examples
from netfl.types import Ints, Law
from netfl.units import Seed

Rounding = Literal["down", "up"]
"""Rounding of the number of test examples of a user."""


class PerUserData(Data):
    """Data whose examples belong to users; a share of each user's examples is for testing and for validation."""

    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The share of each user's examples that is kept for testing; see ``test_rounding``."""
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """The share of each user's examples that is kept for validation; see ``test_rounding``."""
    test_rounding: Rounding = "down"
    """``down``: test and validation examples are rounded down.  ``up``: test examples are rounded up and training
    examples down, as in the code of q-FFL; the others are for validation."""
    seed: Seed = 0
    """Seed of all random draws for the set; independent of the seed of the run."""

    @model_validator(mode="after")
    def _check_shares(self) -> PerUserData:
        if self.test_share + self.validation_share >= 1:
            raise ValueError(
                f"shares of {self.test_share} and {self.validation_share} leave no training examples; decrease them"
            )
        return self

    def split_users(self, user: Ints, rng: np.random.Generator) -> SplitRows:
        """Return the rows of the examples of each *user* for training, validation and testing.

        Raises:
            ScenarioError: no example is left for testing.
        """
        rows = split_by_user(user, self.validation_share, self.test_share, rng, self.test_rounding)
        if not len(rows.test):
            problem = f"leaves none of {len(user)} examples for testing"
            raise ScenarioError([Fault("test_share", problem, self.test_share, "keep more")])
        return rows

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("a fixed set; random choices without repetition choose its users and split their examples"),)


class SplitRows(NamedTuple):
    """Rows of the training, validation and test examples."""

    train: Ints
    validation: Ints
    test: Ints


def legacy_generator(seed: int) -> np.random.RandomState:
    """Return NumPy's generator from before version 1.17, which drew the published sets.

    It is a local object of one set; nothing else in netfl draws from it.
    """
    return np.random.RandomState(seed)


def split_like_sklearn(x: NDArray[Any], y: NDArray[Any], test_share: float, seed: int) -> Dataset:
    """Split examples as scikit-learn's `train_test_split` does with *seed*.

    Of n examples, the first ``⌈n test_share⌉`` of a permutation of all are for testing.
    """
    order = legacy_generator(seed).permutation(len(x))
    test, train = np.split(order, [math.ceil(test_share * len(x))])
    return Dataset(
        x[train].astype(np.float32),
        y[train].astype(np.int64),
        x[test].astype(np.float32),
        y[test].astype(np.int64),
        int(y.max()) + 1,
    )


def split_by_user(
    user: Ints, validation_share: float, test_share: float, rng: np.random.Generator, rounding: Rounding = "down"
) -> SplitRows:
    """Shuffle the examples of each user and split them; see `held_out_sizes`.

    >>> train, validation, test = split_by_user(np.repeat([0, 1], [10, 5]), 0.1, 0.2, np.random.default_rng(0))
    >>> len(train), len(validation), len(test)
    (11, 1, 3)
    """
    order = np.lexsort([rng.random(len(user)), user])  # user by user, each in random order
    _, starts, counts = np.unique(user[order], return_index=True, return_counts=True)
    rank = np.arange(len(user)) - np.repeat(starts, counts)  # of an example among those of its user
    test_sizes, validation_sizes = held_out_sizes(counts, validation_share, test_share, rounding)
    is_test = rank < np.repeat(test_sizes, counts)
    is_train = rank >= np.repeat(test_sizes + validation_sizes, counts)
    return SplitRows(order[is_train], order[~is_test & ~is_train], order[is_test])


def held_out_sizes(
    counts: Ints, validation_share: float, test_share: float, rounding: Rounding = "down"
) -> tuple[Ints, Ints]:
    """Return the numbers of test and of validation examples of users with so many examples, each ``[users]``.

    Rounded ``down``, a user with n examples has ``⌊n test_share⌋`` for testing, ``⌊n validation_share⌋`` for
    validation, and the others for training.  Rounded ``up``, it has ``⌈n test_share⌉`` for testing,
    ``⌊n (1 - test_share - validation_share)⌋`` for training, and the others for validation: the split of
    ``flearn/models/client.py`` in the code of Li et al., "Fair resource allocation in federated learning".  In both
    cases at least one example is for training.

    >>> held_out_sizes(np.array([57]), 0.1, 0.1), held_out_sizes(np.array([57]), 0.1, 0.1, "up")
    ((array([5]), array([5])), (array([6]), array([6])))
    """
    if rounding == "down":
        return whole_shares(counts, test_share), whole_shares(counts, validation_share)
    train = np.maximum(whole_shares(counts, 1 - test_share - validation_share), 1)
    untested = np.maximum(whole_shares(counts, 1 - test_share), train)
    return counts - untested, untested - train


def whole_shares(counts: Ints, share: float) -> Ints:
    """Return ``⌊share · count⌋``; a product that is whole up to rounding errors is not rounded down."""
    return np.asarray(np.floor(counts * share + 1e-9), np.int64)


def split_dataset(examples: Examples, rows: SplitRows, classes: int) -> Dataset:
    """Return the data set with the given *rows* of *examples*, which must have users."""
    assert examples.user is not None
    train, validation, test = (Examples(examples.x[part], examples.y[part], examples.user[part]) for part in rows)
    return Dataset(
        train.x,
        train.y,
        test.x,
        test.y,
        classes,
        train.user,
        test.user,
        validation if len(validation.y) else None,
    )


def choose_users(sizes: Ints, min_size: int, users: int | None, rng: np.random.Generator) -> Ints:
    """Choose users at random among those with at least *min_size* examples; returned in ascending order."""
    eligible = np.flatnonzero(sizes >= min_size)
    if len(eligible) < (users or 1):
        problem = f"{len(eligible)} users have at least {min_size} examples"
        raise ScenarioError([Fault("users", problem, users, "set fewer users, or a smaller minimum of examples")])
    if users is None:
        return eligible
    return np.sort(rng.choice(eligible, users, replace=False))
