"""Selection among learners by validation; the tables list each selection like one more learner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netfl.learning.performance import NAMES, UserPerformance, accuracy_spread, block_metrics, user_metrics
from netfl.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from netfl.learning.spec import ChoiceSpec

Lanes = Sequence[tuple[str, int]]


class ModelSelection:
    """Selections, made at every evaluation and in every replica.

    Args:
        choose: the selections, by name.
        lanes: learner and replica of each lane.
        weights: of users in a mean over data, ``[users]`` for each replica.
        members: which users are in each block, by its name, ``[users]`` for each replica; by default without blocks.
    """

    def __init__(
        self,
        choose: Mapping[str, ChoiceSpec],
        lanes: Lanes,
        weights: Sequence[Floats],
        members: Sequence[Mapping[str, Bools]] | None = None,
    ) -> None:
        self._lane_count = len(lanes)
        if members is None:
            members = [{}] * len(weights)
        replicas = list(dict.fromkeys(replica for _, replica in lanes))
        self.lanes = tuple((name, replica) for name in choose for replica in replicas)
        self._selections: list[_Selection] = []
        for choice in choose.values():
            for replica, of_users, blocks in zip(replicas, weights, members, strict=True):
                candidates = np.array([lanes.index((learner, replica)) for learner in choice.learners])
                self._selections.append(_Selection(choice, candidates, of_users, blocks))

    def extend_metrics(self, metrics: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """Append the metrics of the selections to *metrics*, each ``[lanes]``."""
        selected = [dict(_selected_metrics(selection, metrics)) for selection in self._selections]
        names = dict.fromkeys([*metrics, *(name for values in selected for name in values)])
        missing = np.full(self._lane_count, np.nan)
        extended = {}
        for name in names:
            of_selections = [values.get(name, np.nan) for values in selected]
            extended[name] = np.concatenate([metrics.get(name, missing), of_selections])
        return extended


@dataclass(frozen=True, slots=True)
class _Selection:
    """One selection in one replica: its lanes, and weights and blocks of the users, as of `ModelSelection`."""

    choice: ChoiceSpec
    lanes: Ints
    weights: Floats
    members: Mapping[str, Bools]


def _selected_metrics(selection: _Selection, metrics: Mapping[str, Floats]) -> Iterator[tuple[str, float]]:
    """Yield the metrics of one selection, none if all its lanes diverged; ``chosen`` is an index into its lanes."""
    choice = selection.choice
    lanes = selection.lanes
    weights = selection.weights
    best = _best(choice, metrics[choice.by][lanes][:, None])[0]
    if best < 0:
        return
    users = np.arange(len(weights))
    best_by_user = _best(choice, _by_user(choice.by, users, metrics)[lanes])
    chosen = np.where(best_by_user < 0, best, best_by_user)  # users without validation examples take the best of all

    def performance(prefix: str, user_weights: Floats) -> UserPerformance:
        """Return the performance of the model that each user has chosen, from metrics with *prefix*."""
        names = [name for name in NAMES if f"{name}/user:0" in metrics]
        means = {name: _by_user(f"{prefix}{name}", users, metrics)[lanes[chosen], users] for name in names}
        return _single_lane(means, user_weights)

    test = performance("", weights)
    validation = performance("validation_", np.ones(len(users)))
    members = {block: is_member[None] for block, is_member in selection.members.items()}
    for name, values in (
        *test.whole().items(),
        *block_metrics(test, members),
        *user_metrics(test),
        *accuracy_spread(test),
        *user_metrics(validation, "validation_"),
    ):
        yield name, float(values[0])
    for user, index in enumerate(chosen):
        yield f"chosen/user:{user}", float(index)


def _best(choice: ChoiceSpec, values: Floats) -> Ints:
    """Return the index of the best lane in each column of *values*, ``[lanes, columns]``; -1 if all are NaN."""
    sign = -1.0 if choice.by == "validation_loss" else 1.0
    scores = np.where(np.isnan(values), -np.inf, sign * values)
    has_none = np.isneginf(scores).all(0)
    return np.where(has_none, -1, scores.argmax(0))


def _by_user(metric: str, users: Ints, metrics: Mapping[str, Floats]) -> Floats:
    """Return a metric of each user, ``[lanes, users]``."""
    return np.stack([metrics[f"{metric}/user:{user}"] for user in users.tolist()], axis=1)


def _single_lane(means: Mapping[str, Floats], weights: Floats) -> UserPerformance:
    """Build the performance of a single lane from means of users, ``[users]``; NaN has weight 0."""
    has_value = ~np.isnan(means["loss"])
    of_lane = {name: np.where(has_value, values, 0.0)[None] for name, values in means.items()}
    return UserPerformance(of_lane, np.where(has_value, weights, 0.0)[None])
