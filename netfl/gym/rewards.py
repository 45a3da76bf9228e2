"""Rewards: functions of one step of an environment, alone or as a weighted sum.

A reward is a function of a `Transition`.  Those of this module have the names of `REWARDS`, which environments accept
in place of the function; a mapping of names or functions to weights is their weighted sum.  All are to be maximised, so
costs are negative::

    reward = "deliveries"
    reward = {"deliveries": 1.0, "energy": 0.2, "max_age": 0.01}
    reward = lambda transition: -transition.outcomes["collided"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netfl.errors import Fault, ScenarioError, suggest
from netfl.types import Ints, Round

if TYPE_CHECKING:
    from netfl.simulation.simulation import SimulationState


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of an environment.

    Args:
        round: the round that was simulated.
        before: the network as the round opened.
        after: the network as the round closed.
        outcomes: number of updates that ended in this round, by outcome; see `netfl.types.OUTCOMES`.
        failed: failed attempts of each user in this round by cause, ``collided``, ``faded``, ``lost``, ``busy`` or
            ``jammed``, ``[users]``.
        metrics_before: the newest metrics of the learner before the round, such as ``accuracy``; none without one.
        metrics: the newest metrics of the learner after the round.
    """

    round: Round
    before: SimulationState
    after: SimulationState
    outcomes: Mapping[str, int]
    failed: Mapping[str, Ints]
    metrics_before: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


RewardFunction = Callable[[Transition], float]
Reward = str | RewardFunction | Mapping[str | RewardFunction, float]
"""Reward of an environment: a name of `REWARDS`, a function, or the weights of several."""


def deliveries(transition: Transition) -> float:
    """Return the number of delivered updates."""
    return float(len(transition.round.all_deliveries()))


def time(transition: Transition) -> float:
    """Return minus the duration of the round, in seconds of simulated time.

    A round in which no user may take part can last 0 s: combine it with ``deliveries``.
    """
    return transition.round.opened_s - transition.round.closed_s


def energy(transition: Transition) -> float:
    """Return minus the energy that all users spent, in joules; the scenario needs an energy model."""
    before = transition.before.energy_j
    after = transition.after.energy_j
    if before is None or after is None:
        raise _no_energy()
    return float(before.sum() - after.sum())


def accuracy(transition: Transition) -> float:
    """Return the gain in test accuracy, a share from 0 to 1, since the last evaluation; 0 without a new one.

    It needs a learner.  The sum over an episode is the accuracy at the end minus that of the first model.
    """
    return transition.metrics["accuracy"] - transition.metrics_before["accuracy"]


def max_age(transition: Transition) -> float:
    """Return minus the age of the user that was delivered longest ago, in rounds since its last delivery."""
    return -float(np.max(transition.after.age))


def mean_age(transition: Transition) -> float:
    """Return minus the mean age of information of the users, in rounds since their last delivery."""
    return -float(np.mean(transition.after.age))


def collisions(transition: Transition) -> float:
    """Return minus the number of attempts that collided; the access must be a network."""
    return -float(transition.failed["collided"].sum())


REWARDS: Mapping[str, RewardFunction] = {
    function.__name__: function for function in (deliveries, time, energy, accuracy, max_age, mean_age, collisions)
}
"""Rewards by their names."""


class WeightedReward:
    """A weighted sum of rewards.

    Args:
        reward: the reward as an environment accepts it.

    Raises:
        ScenarioError: *reward* is none, or names an unknown one.
    """

    def __init__(self, reward: Reward) -> None:
        if not (isinstance(reward, str | Mapping) or callable(reward)) or reward == {}:
            raise _no_reward(reward)
        weights = reward if isinstance(reward, Mapping) else {reward: 1.0}
        self._terms: dict[str, tuple[RewardFunction, float]] = {}
        for key, weight in weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not np.isfinite(weight):
                raise ScenarioError([Fault(f"reward.{self._name(key)}", "not a weight", weight, "give a number")])
            name = self._name(key)
            count = 2
            while name in self._terms or (callable(key) and name in REWARDS):
                name = f"{self._name(key)}_{count}"
                count += 1
            self._terms[name] = self._function(key), float(weight)

    @property
    def needs_learner(self) -> bool:
        """True if it uses metrics of a learner."""
        return self._uses(accuracy)

    @property
    def needs_energy(self) -> bool:
        """True if it uses the energy of users."""
        return self._uses(energy)

    def terms(self, transition: Transition) -> dict[str, float]:
        """Return the terms of the sum by name, each multiplied by its weight.

        Functions of the same name are numbered.

        Raises:
            ScenarioError: a reward is no number.
        """
        terms = {name: (function(transition), weight) for name, (function, weight) in self._terms.items()}
        for name, (value, _) in terms.items():
            if not isinstance(value, int | float | np.number | np.bool_) or np.isnan(value):
                problem = f"{name}() returned no number in round {transition.round.index}"
                raise ScenarioError([Fault("reward", problem, value, "return a number")])
        return {name: weight * float(value) for name, (value, weight) in terms.items()}

    def _uses(self, function: RewardFunction) -> bool:
        return any(used is function for used, _ in self._terms.values())

    @staticmethod
    def _name(key: str | RewardFunction) -> str:
        if isinstance(key, str):
            return key
        return getattr(key, "__name__", type(key).__name__)  # an object that is callable has no name of its own

    @staticmethod
    def _function(key: str | RewardFunction) -> RewardFunction:
        if isinstance(key, str):
            if key not in REWARDS:
                raise ScenarioError([Fault("reward", "no such reward", key, suggest(key, [*REWARDS]))])
            return REWARDS[key]
        if not callable(key):
            raise _no_reward(key)
        return key


def _no_reward(value: object) -> ScenarioError:
    remedy = f"give one of {', '.join(REWARDS)}, a function of a Transition, or a mapping of these to weights"
    return ScenarioError([Fault("reward", "not a reward", value, remedy)])


def _no_energy() -> ScenarioError:
    return ScenarioError([Fault("access.energy", "the energy of users is not simulated", None, "add an energy model")])
