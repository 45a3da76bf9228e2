"""What users are validated and tested with: examples kept apart, and whether test examples are their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._splits import whole_shares
from netfl.learning.spec import EvaluateSpec
from netfl.streams import Streams

Rows = list[NDArray[np.int64]]


def split_validation(
    evaluate: EvaluateSpec, dataset: Dataset, split: Sequence[NDArray[np.int64]], streams: Streams
) -> tuple[Rows, Examples]:
    """What users train on, and what is validated with.

    A user with n training examples keeps ``⌊n share⌋`` of them apart, drawn at random.

    Args:
        evaluate: what is wanted.
        dataset: the examples.
        split: the rows that each user holds.
        streams: of the replica.

    Raises:
        ScenarioError: there is nothing to validate with, or two kinds of it.
    """
    own = dataset.validation
    if evaluate.validation is None:
        if own is None:
            remedy = "keep a share of the training examples, such as evaluate.validation: 0.1"
            raise ScenarioError([Fault("", "these data keep no examples to validate with", None, remedy)])
        if own.user is not None and users_hold_own_data(dataset, split):
            return [*split], own
        for name in (name for name, choice in evaluate.choose.items() if choice.per == "user"):
            problem = "the validation examples are nobody's: users do not hold what is theirs in the data"
            raise ScenarioError([Fault(f"choose.{name}.per", problem, "user", "take partition: natural, or per: all")])
        return [*split], Examples(own.x, own.y)
    if own is not None:
        problem = "has no effect: these data keep validation examples of their own"
        raise ScenarioError([Fault("validation", problem, evaluate.validation, "leave it out")])
    shuffled = [streams.rng("validation", user).permutation(rows) for user, rows in enumerate(split)]
    counts = whole_shares(np.array([len(rows) for rows in split]), evaluate.validation)
    kept = [rows[:count] for rows, count in zip(shuffled, counts.tolist(), strict=True)]
    if not counts.any():
        problem = "leaves no user an example to validate with"
        raise ScenarioError([Fault("validation", problem, evaluate.validation, "keep a larger share")])
    rows = np.concatenate(kept)
    user = np.repeat(np.arange(len(split)), counts)
    trained = [np.sort(rows[count:]) for rows, count in zip(shuffled, counts.tolist(), strict=True)]
    return trained, Examples(dataset.train_x[rows], dataset.train_y[rows], user)


def users_hold_own_data(dataset: Dataset, split: Sequence[NDArray[np.int64]]) -> bool:
    """Whether users hold what is theirs in the data, as with ``partition: natural``."""
    if dataset.train_user is None:
        return False
    holders = np.repeat(np.arange(len(split)), [len(rows) for rows in split])
    return bool((dataset.train_user[np.concatenate([*split])] == holders).all())


def users_have_test_data(dataset: Dataset, split: Sequence[NDArray[np.int64]]) -> bool:
    """Whether users have test examples of their own."""
    return dataset.test_user is not None and users_hold_own_data(dataset, split)


def user_weights(dataset: Dataset, split: Sequence[NDArray[np.int64]]) -> NDArray[np.float64]:
    """What each user counts for in a mean over data, ``[users]``; 0 for a user on whom nothing can be tested.

    That is how many test examples it has or, where users have none of their own, how many examples it trains on.
    """
    if dataset.test_user is not None and users_have_test_data(dataset, split):
        return np.bincount(dataset.test_user, minlength=len(split)).astype(float)
    tested = np.bincount(dataset.test_y, minlength=dataset.classes) > 0
    return np.array([float(len(rows) if tested[dataset.train_y[rows]].any() else 0) for rows in split])
