"""Validation examples, and test examples of users."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Dataset, Examples
from netfl.learning.data._splits import whole_shares
from netfl.learning.spec import EvaluateSpec
from netfl.streams import Streams
from netfl.types import Floats, Ints

Rows = list[Ints]


def split_validation(
    evaluate: EvaluateSpec, dataset: Dataset, split: Sequence[Ints], streams: Streams
) -> tuple[Rows, Examples]:
    """Return the training rows of each user, and the validation examples.

    Of a user with n training examples, ``⌊n share⌋`` at random are used for validation.
    """
    if evaluate.validation is None:
        return [*split], _given_examples(evaluate, dataset, split)
    if dataset.validation is not None:
        problem = "has no effect because these data have their own validation examples"
        raise ScenarioError([Fault("validation", problem, evaluate.validation, "leave it out")])
    counts = whole_shares(np.array([len(rows) for rows in split]), evaluate.validation)
    if not counts.any():
        problem = "no user has a validation example"
        raise ScenarioError([Fault("validation", problem, evaluate.validation, "keep a larger share")])
    validation = []
    training = []
    for user, (rows, count) in enumerate(zip(split, counts.tolist(), strict=True)):
        shuffled = streams.rng("validation", user).permutation(rows)
        validation.append(shuffled[:count])
        training.append(np.sort(shuffled[count:]))
    return training, _held_examples(dataset, np.concatenate(validation), counts)


def _given_examples(evaluate: EvaluateSpec, dataset: Dataset, split: Sequence[Ints]) -> Examples:
    """Return the validation examples of the data; they have users if users hold their own data."""
    given = dataset.validation
    if given is None:
        remedy = "keep a share of the training examples, such as evaluate.validation: 0.1"
        raise ScenarioError([Fault("", "these data have no validation examples", None, remedy)])
    if given.user is not None and users_hold_own_data(dataset, split):
        return given
    for name, choice in evaluate.choose.items():
        if choice.per == "user":
            problem = "the validation examples belong to no user: the partition ignores the users of the data"
            raise ScenarioError([Fault(f"choose.{name}.per", problem, "user", "use partition: natural")])
    return Examples(given.x, given.y)


def _held_examples(dataset: Dataset, rows: Ints, counts: Ints) -> Examples:
    """Return training examples, *rows*, of which each user holds so many, user by user."""
    return Examples(
        dataset.train_x[rows],
        dataset.train_y[rows],
        user=np.repeat(np.arange(len(counts)), counts),
        data_x=None if dataset.data_x is None else dataset.data_x[rows],
        data_y=None if dataset.data_y is None else dataset.data_y[rows],
    )


def users_hold_own_data(dataset: Dataset, split: Sequence[Ints]) -> bool:
    """Return whether each user holds its own examples of the data, as with ``partition: natural``."""
    if dataset.train_user is None:
        return False
    holders = np.repeat(np.arange(len(split)), [len(rows) for rows in split])
    return bool((dataset.train_user[np.concatenate([*split])] == holders).all())


def users_have_test_data(dataset: Dataset, split: Sequence[Ints]) -> bool:
    """Return whether each user has its own test examples."""
    return dataset.test_user is not None and users_hold_own_data(dataset, split)


def user_weights(dataset: Dataset, split: Sequence[Ints]) -> Floats:
    """Return the weight of each user in a mean over data, ``[users]``; 0 for a user that cannot be tested.

    The weight is its number of test examples or, if users have no test examples, its number of training examples.
    """
    if dataset.test_user is not None and users_have_test_data(dataset, split):
        return np.bincount(dataset.test_user, minlength=len(split)).astype(float)
    is_tested = np.bincount(dataset.test_groups, minlength=dataset.groups) > 0  # labels with test examples
    labels = dataset.train_groups
    weights = np.zeros(len(split))
    for user, rows in enumerate(split):
        if is_tested[labels[rows]].any():
            weights[user] = len(rows)
    return weights
