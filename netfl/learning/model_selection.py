"""Choices among learners by validation, told as if each were one more learner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from netfl.learning.performance import NAMES, Floats, UserPerformance, accuracy_spread, user_metrics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from netfl.learning.spec import ChoiceSpec

Lanes = Sequence[tuple[str, int]]


class ModelSelection:
    """The choices, each made anew at every evaluation and in every replica.

    Args:
        choose: the choices by name.
        lanes: learner and replica of each lane, learner by learner.
        weights: for each replica, what each user counts for in a mean over data, ``[users]``.
    """

    def __init__(self, choose: Mapping[str, ChoiceSpec], lanes: Lanes, weights: Sequence[Floats]) -> None:
        self._width = len(lanes)
        replicas = list(dict.fromkeys(replica for _, replica in lanes))
        self.lanes = tuple((name, replica) for name in choose for replica in replicas)
        self._among = [
            (choice, np.array([lanes.index((learner, replica)) for learner in choice.of]), own)
            for choice in choose.values()
            for replica, own in zip(replicas, weights, strict=True)
        ]

    def told(self, metrics: Mapping[str, Floats]) -> Mapping[str, Floats]:
        """*metrics*, each ``[lanes]``, with the figures of the choices behind those of the lanes."""
        found = [dict(_figures(*one, metrics)) for one in self._among]
        names = dict.fromkeys([*metrics, *(name for own in found for name in own)])
        nothing = np.full(self._width, np.nan)
        return {
            name: np.concatenate([metrics.get(name, nothing), [own.get(name, np.nan) for own in found]])
            for name in names
        }


def _figures(
    choice: ChoiceSpec, lanes: NDArray[np.int64], weights: Floats, metrics: Mapping[str, Floats]
) -> Iterator[tuple[str, float]]:
    """The figures of one choice among *lanes*, none if all are lost; ``chosen`` is the place of that kept, from 0."""
    best = _best(choice, metrics[choice.by][lanes][:, None])[0]
    if best < 0:
        return
    if choice.per == "all":
        yield from ((name, float(values[lanes[best]])) for name, values in metrics.items())
        yield "chosen", float(best)
        return
    users = np.arange(len(weights))
    own = _best(choice, _by_user(choice.by, users, metrics)[lanes])
    kept = np.where(own < 0, best, own)
    parts = [_by_user(name, users, metrics)[lanes[kept], users] for name in (*NAMES, *_VALIDATED)]
    test = _performance(parts[0], parts[1], weights)
    validation = _performance(parts[2], parts[3], np.ones(len(users)))
    for name, whole in zip(NAMES, test.whole(), strict=True):
        yield name, float(whole[0])
    for name, values in (*user_metrics(test), *accuracy_spread(test), *user_metrics(validation, "validation_")):
        yield name, float(values[0])
    yield from ((f"chosen/user:{user}", float(place)) for user, place in enumerate(kept))


_VALIDATED = tuple(f"validation_{name}" for name in NAMES)


def _best(choice: ChoiceSpec, figures: Floats) -> NDArray[np.int64]:
    """Which of the lanes is best in each column of *figures*, ``[lanes, columns]``; -1 where none has a figure."""
    sign = -1.0 if choice.by == "validation_loss" else 1.0
    scores = np.where(np.isnan(figures), -np.inf, sign * figures)
    return np.where(np.isneginf(scores).all(0), -1, scores.argmax(0))


def _by_user(metric: str, users: NDArray[np.int64], metrics: Mapping[str, Floats]) -> Floats:
    """A metric of each user, ``[lanes, users]``."""
    return np.stack([metrics[f"{metric}/user:{user}"] for user in users.tolist()], axis=1)


def _performance(accuracy: Floats, loss: Floats, weights: Floats) -> UserPerformance:
    """Figures of users, ``[users]``, as those of a single lane; those that are not there weigh nothing."""
    there = ~np.isnan(accuracy)
    accuracy, loss, weights = (np.where(there, part, 0.0)[None] for part in (accuracy, loss, weights))
    return UserPerformance(accuracy, loss, weights)
