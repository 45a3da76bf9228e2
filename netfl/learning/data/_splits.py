"""How a set that comes whole is split into training, validation and test examples."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Data, Dataset, Examples


def legacy_generator(seed: int) -> np.random.RandomState:
    """Return NumPy's generator of before 1.17, whose draws are frozen: the published sets were drawn from it.

    It is a local object of one set; nothing else in netfl draws from it.
    """
    return np.random.RandomState(seed)


def split(x: NDArray[Any], y: NDArray[Any], test_share: float, seed: int) -> Dataset:
    """Split examples whose labels count from 0, as scikit-learn's `train_test_split` does with *seed*.

    Of n examples, ``⌈n test_share⌉`` are for testing: the first ones of a permutation of all.
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
    user: NDArray[np.int64], validation_share: float, test_share: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on, to validate with and to test with: each user's examples, shuffled and cut for themselves.

    Of n examples ``⌊n test_share⌋`` are for testing and ``⌊n validation_share⌋`` for validation; all others, at least
    one, are for training.

    >>> train, validation, test = split_by_user(np.repeat([0, 1], [10, 5]), 0.1, 0.2, np.random.default_rng(0))
    >>> len(train), len(validation), len(test)
    (11, 1, 3)
    """
    order = np.lexsort([rng.random(len(user)), user])
    _, starts, counts = np.unique(user[order], return_index=True, return_counts=True)
    place = np.arange(len(user)) - np.repeat(starts, counts)
    test, validation = (np.repeat(whole_shares(counts, share), counts) for share in (test_share, validation_share))
    later = place >= test + validation
    return order[later], order[(place >= test) & ~later], order[place < test]


def whole_shares(counts: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """``⌊share · count⌋``, where a whole number stays one however *share* is rounded."""
    return np.asarray(np.floor(counts * share + 1e-9), np.int64)


def split_dataset(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    user: NDArray[np.int64],
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    classes: int,
) -> Dataset:
    """The data set whose *rows* are for training, validation and testing, in this order."""
    train, validation, test = rows
    kept = Examples(x[validation], y[validation], user[validation]) if len(validation) else None
    return Dataset(x[train], y[train], x[test], y[test], classes, user[train], user[test], kept)


# Data that have users of their own: what is said of their splits, and who is chosen among them.


Share = Annotated[float, Field(ge=0, lt=1)]
"""A share of each user's examples."""


class OfUsers(Data):
    """Data whose examples belong to users, each of whom keeps some for testing and for validation."""

    test_share: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """The share of each user's examples that is kept for testing, rounded down."""
    validation_share: Share = 0.1
    """The share of each user's examples that is kept for validation, rounded down."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides all that is drawn for the set, whatever the seed of the run."""

    @model_validator(mode="after")
    def _leaves_some(self) -> OfUsers:
        """Refuse shares that leave nothing to train on."""
        if self.test_share + self.validation_share >= 1:
            raise ValueError(f"shares of {self.test_share} and {self.validation_share} leave nothing to train on")
        return self


def choose_users(
    sizes: NDArray[np.int64], least: int, users: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Which users are taken of those who have *sizes* examples, in rising order.

    Args:
        sizes: of all users.
        least: users with fewer examples are left out.
        users: how many of the others to choose at random; ``None`` for all.
        rng: chooses.

    Raises:
        ScenarioError: there are not so many.
    """
    able = np.flatnonzero(sizes >= least)
    if len(able) < (users or 1):
        problem = f"{len(able)} users have {least} examples or more"
        raise ScenarioError([Fault("users", problem, users, "ask for fewer, or for fewer examples each")])
    return able if users is None else np.sort(rng.choice(able, users, replace=False))
