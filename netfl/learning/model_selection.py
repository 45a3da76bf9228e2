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
        self._selections = [
            _Selection(choice, np.array([lanes.index((learner, replica)) for learner in choice.learners]), *of_users)
            for choice in choose.values()
            for replica, of_users in zip(replicas, zip(weights, members, strict=True), strict=True)
        ]

    def extend_metrics(self, metrics: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """Append the metrics of the selections to *metrics*, each ``[lanes]``."""
        selected = [dict(_selected_metrics(selection, metrics)) for selection in self._selections]
        names = dict.fromkeys([*metrics, *(name for values in selected for name in values)])
        missing = np.full(self._lane_count, np.nan)
        return {
            name: np.concatenate([metrics.get(name, missing), [values.get(name, np.nan) for values in selected]])
            for name in names
        }


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
    best = _best(choice, metrics[choice.by][lanes][:, None])[0]  # for users without validation examples
    if best < 0:
        return
    users = np.arange(len(weights))
    best_by_user = _best(choice, _by_user(choice.by, users, metrics)[lanes])
    chosen = np.where(best_by_user < 0, best, best_by_user)
    names = [name for name in NAMES if f"{name}/user:0" in metrics]
    test, validation = (
        _single_lane(
            {name: _by_user(f"{prefix}{name}", users, metrics)[lanes[chosen], users] for name in names}, user_weights
        )
        for prefix, user_weights in (("", weights), ("validation_", np.ones(len(users))))
    )
    for name, whole in test.whole().items():
        yield name, float(whole[0])
    of_blocks = block_metrics(test, {block: is_member[None] for block, is_member in selection.members.items()})
    for name, column in (
        *of_blocks,
        *user_metrics(test),
        *accuracy_spread(test),
        *user_metrics(validation, "validation_"),
    ):
        yield name, float(column[0])
    yield from ((f"chosen/user:{user}", float(index)) for user, index in enumerate(chosen))


def _best(choice: ChoiceSpec, values: Floats) -> Ints:
    """Return the index of the best lane in each column of *values*, ``[lanes, columns]``; -1 if all are NaN."""
    sign = -1.0 if choice.by == "validation_loss" else 1.0
    scores = np.where(np.isnan(values), -np.inf, sign * values)
    return np.where(np.isneginf(scores).all(0), -1, scores.argmax(0))


def _by_user(metric: str, users: Ints, metrics: Mapping[str, Floats]) -> Floats:
    """Return a metric of each user, ``[lanes, users]``."""
    return np.stack([metrics[f"{metric}/user:{user}"] for user in users.tolist()], axis=1)


def _single_lane(means: Mapping[str, Floats], weights: Floats) -> UserPerformance:
    """Build the performance of a single lane from means of users, ``[users]``; NaN has weight 0."""
    known = ~np.isnan(means["loss"])
    of_lane = {name: np.where(known, values, 0.0)[None] for name, values in means.items()}
    return UserPerformance(of_lane, np.where(known, weights, 0.0)[None])
