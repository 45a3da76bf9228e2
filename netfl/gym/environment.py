"""Common part of the environments: an episode is a run of a scenario, and a step is one round.

**Episodes.**  An episode has the rounds of the scenario and ends *truncated*.  No state is terminal: an agent that
bootstraps may do so at the end.

**Seeds.**  ``reset(seed=s)`` starts replica 0 of the scenario with ``seed: s``, so positions, fading, outages, medium
access and learning are those of ``netfl trace --set seed=s``.  The same seed and the same actions give the same
trajectory.  Later calls of ``reset()`` draw the seeds of their episodes from the generator that the last seed has
started; ``info["seed"]`` states them.  By default the users hold the same data in all episodes, those of the scenario's
seed, because a partition may need a run of the network; ``redraw_data`` distributes them in each episode, as
``netfl trace`` does.

**Information.**  ``reset`` returns ``seed`` and ``time_s``.  ``step`` returns also ``round``, the
`netfl.types.Round`; ``deliveries``, the number of delivered updates of each user, ``[users]``; ``outcomes``, the number
of updates that ended in the round, by outcome; ``rewards``, the terms of the reward; and ``metrics``, the newest ones
of the learner.  ``env.unwrapped.simulation`` is the `netfl.Simulation` of the episode, for everything else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np

from netfl.access.network import NetworkAccess
from netfl.errors import Fault, ScenarioError
from netfl.gym.episodes import Episodes, keep_learner, load_scenario
from netfl.gym.observations import LINK_RANGE_DB, RATE_RANGE_DB, ObservationForm, Observer, View
from netfl.gym.rendering import draw_users
from netfl.gym.rewards import Reward, Transition, WeightedReward
from netfl.scenario.scenario import Scenario, ScenarioSource
from netfl.simulation.simulation import SimulationState
from netfl.types import OUTCOMES, Floats, Ints, Round

Action = TypeVar("Action")
_SEEDS = 2**31
"""Number of seeds from which episodes without a given one draw theirs."""


class NetworkEnvironment(gymnasium.Env[Any, Action]):
    """A scenario as an environment; see the module for episodes, seeds and information.

    Args:
        scenario: a file, the name of an example, YAML text, a mapping, or a scenario.
        overrides: dotted paths and values that replace those of the scenario, as in `netfl.load`.
        named: blocks of the scenario's ``overrides`` to apply first.
        rounds: rounds of an episode; ``None`` for those of the scenario.
        observe: names of `netfl.gym.observations.FEATURES`; ``None`` for all that the scenario has.
        declare: values of the users that the agent sees, with their ages, and the cost of answers, as the key
            ``observe`` of a selection; the features show these values then, and others of the network do not exist.
            ``None`` shows the present state of the network, for nothing.
        observation: ``dict``, a vector for each feature; or ``flat``, one vector of all.
        reward: a name of `netfl.gym.rewards.REWARDS`, a function of a `Transition`, or a mapping of these to weights.
        learner: the learner that trains the delivered updates, for the reward ``accuracy`` and the feature ``loss``;
            ``None`` for none, or if one is needed for the only one of the scenario, or that of its closed loop.
        redraw_data: whether the data are loaded and distributed again in each episode.
        record: whether ``simulation.snapshot()`` has the tables of the episode, as the section ``record`` states.
        render_mode: ``rgb_array`` for `render`.

    Raises:
        ScenarioError: an argument is wrong, or the scenario cannot be simulated round by round.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 - as Gymnasium types it

    def __init__(
        self,
        scenario: ScenarioSource = "rural_outage",
        *,
        overrides: Mapping[str, object] | None = None,
        named: Sequence[str] = (),
        rounds: int | None = None,
        observe: Sequence[str] | None = None,
        declare: Mapping[str, object] | None = None,
        observation: ObservationForm = "dict",
        reward: Reward = "deliveries",
        learner: str | None = None,
        redraw_data: bool = False,
        record: bool = False,
        render_mode: Literal["rgb_array"] | None = None,
    ) -> None:
        self._reward = WeightedReward(reward)
        self.render_mode = render_mode
        loaded = self._prepare(load_scenario(scenario, overrides, named, rounds))
        if self._reward.needs_energy and not loaded.access.info.has_energy:
            problem = "the reward needs the energy of users, which this scenario does not simulate"
            raise ScenarioError([Fault("access.energy", problem, None, "add an energy model, or use another reward")])
        learner = learner or loaded.access.info.learner
        observes_loss = observe is not None and "loss" in observe
        learns = learner is not None or self._reward.needs_learner or observes_loss or loaded.access.info.is_closed_loop
        if learns:
            loaded = keep_learner(loaded, learner)
        self._episodes = Episodes(loaded, learns, record, declare)
        if not redraw_data:
            self._episodes = self._episodes.with_fixed_data()
        self.scenario = self._episodes.scenario
        self._needed_db, self._range_db = _link_scale(loaded)
        self._declared = declare
        self._observed: Mapping[str, Any] | None = None
        self._state: SimulationState
        self._metrics: dict[str, float]
        self.simulation = self._episodes.open(self.scenario.seed)
        self._begin_episode()
        self._observer = Observer(self._view(), observe, observation)
        self.observation_space = self._observer.space
        self._is_started = False

    @property
    def users(self) -> int:
        """Number of users."""
        return self.scenario.users

    @property
    def observation_slices(self) -> Mapping[str, slice]:
        """The part of each feature in a flat observation; one with a number for each user has ``[users]``.

        Raises:
            ScenarioError: observations are mappings, which other wrappers may flatten in another order.
        """
        if not isinstance(self.observation_space, gymnasium.spaces.Box):
            remedy = "use observation: flat"
            raise ScenarioError([Fault("observation", "observations have no slices", "dict", remedy)])
        return self._observer.slices

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Args:
            seed: seed of the scenario, and of the generator for later episodes; ``None`` draws one.
            options: none exist.

        Raises:
            ScenarioError: *options* are given.
        """
        super().reset(seed=seed)
        if options:
            remedy = "give arguments of the environment to gymnasium.make"
            raise ScenarioError([Fault("options", "reset() has no options", [*options], remedy)])
        self._seed = int(self.np_random.integers(_SEEDS)) if seed is None else seed
        self.simulation.close()
        self.simulation = self._episodes.open(self._seed)
        self._begin_episode()
        self._is_started = True
        return self._observer.observe(self._view()), {"seed": self._seed, "time_s": self._state.time_s}

    def step(self, action: Action | None) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulate a round.

        Args:
            action: a member of the action space; ``None`` leaves the scenario as it is, for comparisons.

        Raises:
            ScenarioError: *action* does not fit the action space, or the episode is over.
            ModelError: a model failed, or the training of the learner diverged.
        """
        if not self._is_started or self.simulation.is_done:
            problem = "no episode has begun"
            if self._is_started:
                problem = "the episode is over"
            raise ScenarioError([Fault("", problem, None, "call reset()")])
        before = self._state
        metrics_before = self._metrics
        result = self._simulate(action)
        self._state = self.simulation.state
        self._metrics = self._newest_metrics()
        self._outcomes = dict(zip(OUTCOMES, self.simulation.history.outcomes_count.tolist(), strict=True))
        terms = self._reward.terms(
            Transition(
                result,
                before,
                self._state,
                self._outcomes,
                self.simulation.history.failed,
                metrics_before,
                self._metrics,
            )
        )
        info = {
            "seed": self._seed,
            "time_s": self._state.time_s,
            "round": result,
            "deliveries": np.bincount([delivery.user for delivery in result.all_deliveries()], minlength=self.users),
            "outcomes": dict(self._outcomes),
            "rewards": terms,
            "metrics": dict(self._metrics),
        }
        return self._observer.observe(self._view()), sum(terms.values()), False, self.simulation.is_done, info

    def render(self) -> Any:
        """Return an image of the users and their deliveries, ``[height, width, 3]``; ``None`` without `render_mode`."""
        if self.render_mode is None:
            return None
        return draw_users(self._state.xy_m, self._state.delivered, self.simulation.layout)

    def close(self) -> None:
        """End the simulation."""
        self.simulation.close()

    @abstractmethod
    def _simulate(self, action: Action | None) -> Round:
        """Simulate a round with *action*."""

    def _prepare(self, scenario: Scenario) -> Scenario:
        """Return the scenario with what the actions need."""
        return scenario

    def _begin_episode(self) -> None:
        """Read the state of a simulation that has simulated no round."""
        self._state = self.simulation.state
        self._metrics = {}
        self._metrics = self._newest_metrics()
        self._outcomes = dict.fromkeys(OUTCOMES, 0)
        layout = self.simulation.layout
        self._towers: tuple[str, ...] = ()
        self._farthest_m = 1.0
        if layout is not None:
            self._towers = layout.towers
            self._farthest_m = float(layout.distance_m.max()) or 1.0  # all users may be at their towers

    def _tower_of(self) -> Ints:
        """Return the index of each user's present tower, ``[users]``; 0 without towers."""
        if self._state.tower is None:
            return np.zeros(self.users, np.int64)
        return self._state.tower

    def _newest_metrics(self) -> dict[str, float]:
        """Return the newest metrics of the learner, the earlier ones if the last round had no evaluation."""
        metrics = {}
        if self._episodes.learning:
            metrics = {name: float(values[0]) for name, values in self.simulation.report.metrics.items()}
        return metrics or dict(self._metrics)

    def _losses(self) -> Floats | None:
        """Return the newest training loss of each user; ``None`` without a learner."""
        if not self._episodes.learning:
            return None
        return np.array([self._metrics.get(f"loss/user:{user}", np.nan) for user in range(self.users)])

    def _view(self) -> View:
        state = self._state
        losses = self._losses()
        if self._declared is not None:
            if not self.simulation.is_done:
                self._observed = self.simulation.observe().values
            state = _declared_state(state, self._observed or {})
            losses = (self._observed or {}).get("loss")
        node_up = state.node_up or {}
        towers_up = np.ones(len(self._towers) or 1, bool)
        if node_up:
            towers_up = np.array([node_up[name] for name in self._towers] or [True])
        return View(
            state=state,
            rounds=self.scenario.steps,
            outcomes=self._outcomes,
            outcome=self.simulation.history.outcome,
            failed=self.simulation.history.failed,
            losses=losses,
            tower_up=towers_up[self._tower_of()],
            farthest_m=self._farthest_m,
            needed_db=self._needed_db,
            range_db=self._range_db,
            observed=self._observed,
        )


def _declared_state(state: SimulationState, observed: Mapping[str, Any]) -> SimulationState:
    """Return *state* with the observed values in place of the present ones, and without those that nobody observes."""
    return replace(
        state,
        xy_m=None,
        distance_m=observed.get("distance_m"),
        snr_db=observed.get("snr_db"),
        backlog=observed.get("backlog"),
        queues=observed.get("queues"),
        user_up=observed.get("user_up"),
        node_up=None,
        energy_j=observed.get("energy_j"),
        battery_j=observed.get("battery_j"),
        speed=observed.get("speed"),
    )


def _link_scale(scenario: Scenario) -> tuple[float, float]:
    """Return the SNR in dB at which a link margin is 0, and the margin in dB that is observed as 1.

    The former is the least SNR at which a frame is received, for users with different bandwidths that of those who need
    the most; 0 dB without a radio, or if any SNR can suffice.  A sender whose rate follows the SNR needs none: it is
    then the SNR at which it sends 1 bit/s/Hz, and margins have a larger range.
    """
    access = scenario.access
    if not isinstance(access, NetworkAccess) or access.radio is None or access.reception is None:
        return 0.0, LINK_RANGE_DB
    reception = access.reception
    if reception.follows_snr:
        return reception.snr_gap_db, RATE_RANGE_DB
    needed_db = max(reception.threshold_db(band_hz) for band_hz in access.radio.bandwidth_bounds_hz)
    if not np.isfinite(needed_db):
        needed_db = 0.0
    return needed_db, LINK_RANGE_DB
