"""Episodes: simulations of one scenario with different seeds, which share its data."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from pydantic import PrivateAttr

from netfl.errors import Fault, ScenarioError, suggest
from netfl.learning.blocks import Block
from netfl.learning.data import Data, Dataset
from netfl.learning.partition import Partition
from netfl.network import attempt_log
from netfl.scenario.recording import EventFilter
from netfl.scenario.scenario import Scenario, ScenarioSource, load
from netfl.simulation.history import History
from netfl.simulation.setup import prepare_run
from netfl.simulation.simulation import Simulation
from netfl.streams import Streams
from netfl.types import OUTCOMES, Event, Ints

CAUSES = (*attempt_log.CAUSES, attempt_log.BUSY, attempt_log.JAMMED)
"""Causes of failed attempts."""
_CODES = {outcome: code for code, outcome in enumerate(OUTCOMES)}
_CACHED = 8
"""Number of scenarios whose data a process keeps."""


class LoadedData(Data):
    """Data that are in memory already, in place of those that a scenario names."""

    source: Data
    _dataset: Dataset = PrivateAttr()

    @property
    def classes(self) -> int:
        return self.source.classes

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def tokens(self) -> int | None:
        return self.source.tokens

    def load(self, streams: Streams) -> Dataset:
        return self._dataset

    @classmethod
    def of(cls, source: Data, dataset: Dataset) -> LoadedData:
        """Return *dataset*, which was loaded from *source*."""
        data = cls.model_construct(source=source)
        data._dataset = dataset
        return data


class KnownPartition(Partition):
    """The examples of each user, in place of the partition that a scenario names."""

    source: Partition
    _rows: list[Ints] = PrivateAttr()
    _blocks: tuple[Block, ...] = PrivateAttr()

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        return self._rows

    def user_blocks(self, users: int, ranking: Ints | None) -> tuple[Block, ...]:
        return self._blocks

    @property
    def rare_labels(self) -> tuple[int, ...]:
        return self.source.rare_labels

    @classmethod
    def of(cls, source: Partition, rows: Sequence[Ints], blocks: Sequence[Block] = ()) -> KnownPartition:
        """Return the partition in which each user holds its *rows*, as *source* has drawn them, and its *blocks*."""
        partition = cls.model_construct(source=source)
        partition._rows = list(rows)
        partition._blocks = tuple(blocks)
        return partition


class EpisodeHistory(History):
    """History of the last round as arrays: a table of it takes as long as the round.

    Args:
        replica: number of the replica.
        users: number of users.
        keeping: filter of the events that are kept for tables; ``None`` keeps neither events nor rounds.

    Attributes:
        outcomes_count: number of updates that ended, by outcome as its place in `netfl.types.OUTCOMES`.
        outcome: last outcome of each user, as its place there, ``[users]``; -1 for none.
        failed: failed attempts of each user, by cause: ``collided``, ``faded``, ``lost``, ``busy`` or ``jammed``,
            ``[users]`` each.
    """

    def __init__(
        self, replica: int, users: int, keeping: EventFilter | None, own_metrics: Collection[str] = ()
    ) -> None:
        super().__init__(replica, keeping, own_metrics)
        self._users = users
        self.clear_outcomes()

    def wants(self, kind: str) -> bool:
        return super().wants(kind) or kind == "failed"

    def record(self, event: Event) -> None:
        super().record(event)
        users = np.asarray(event.user)
        if event.kind == "failed":
            np.add.at(self.failed[event.detail], users, 1)
        if event.kind in _CODES:
            code = _CODES[event.kind]
            self.outcomes_count[code] += max(users.size, np.size(event.time_s))
            self.outcome[users] = code

    def clear_outcomes(self) -> None:
        super().clear_outcomes()
        self.outcomes_count = np.zeros(len(OUTCOMES), np.int64)
        self.outcome = np.full(self._users, -1)
        self.failed = {cause: np.zeros(self._users, np.int64) for cause in CAUSES}


class EpisodeSimulation(Simulation):
    """A simulation of an episode.

    Attributes:
        history: what happened in the last round.
    """

    history: EpisodeHistory

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        *,
        learning: bool,
        record: bool,
        observe: Mapping[str, object] | None = None,
    ) -> None:
        keeping = scenario.keeping if record else None
        history = EpisodeHistory(0, scenario.users, keeping, scenario.access.info.metrics)
        super().__init__(scenario, seed=seed, learning=learning, history=history, observe=observe)


def _of_declare(fault: Fault) -> Fault:
    """Return an error of the argument ``observe`` of a simulation as one of ``declare`` of an environment."""
    argument, dot, value = fault.key.partition(".")
    if argument != "observe":
        return fault
    return replace(fault, key=f"declare{dot}{value}", remedy=fault.remedy.replace(" to observe,", " to declare,"))


@dataclass(frozen=True)
class Episodes:
    """Source of the simulations of an environment.

    Args:
        scenario: the scenario of all episodes; only the seed changes.
        learning: whether a learner trains.
        record: whether the rounds and events of an episode are kept.
        declared: values that the agent observes, with their ages; ``None`` for the present state.
    """

    scenario: Scenario
    learning: bool = False
    record: bool = False
    declared: Mapping[str, object] | None = None

    def open(self, seed: int) -> EpisodeSimulation:
        """Return the simulation of the episode with this seed.

        Raises:
            ScenarioError: the scenario cannot be simulated round by round.
        """
        try:
            return EpisodeSimulation(
                self.scenario, seed, learning=self.learning, record=self.record, observe=self.declared
            )
        except ScenarioError as error:
            raise ScenarioError([_of_declare(fault) for fault in error.faults]) from None

    def with_fixed_data(self) -> Episodes:
        """Return episodes in which all users hold the examples that they have with the seed of the scenario."""
        if self.scenario.data is None or not (self.learning or self.scenario.access.info.needs_data):
            return replace(self, scenario=_without_data(self.scenario))
        dataset, rows = _load_data(self.scenario.to_yaml(), self.learning)
        assert self.scenario.partition is not None
        data = {
            "data": LoadedData.of(self.scenario.data, dataset),
            "partition": KnownPartition.of(self.scenario.partition, rows, dataset.blocks),
        }
        return replace(self, scenario=self.scenario.model_copy(update=data))


def load_scenario(
    source: ScenarioSource, overrides: Mapping[str, object] | None, named: Sequence[str], rounds: int | None
) -> Scenario:
    """Return the scenario of an environment, with *rounds* if they are given.

    Raises:
        ScenarioError: the scenario or an override is wrong, or it has a duration.
    """
    values = dict(overrides or {})
    if rounds is not None:
        values["rounds"] = rounds
    scenario = load(source, values, named)
    if scenario.duration is not None:
        problem = "the scenario has a duration, and an environment needs a number of rounds"
        raise ScenarioError([Fault("duration", problem, scenario.duration, "give rounds instead")])
    return scenario


def keep_learner(scenario: Scenario, learner: str | None) -> Scenario:
    """Return the scenario with one learner only: *learner*, or the only one that it has.

    Raises:
        ScenarioError: there is no such learner, or several and none is named.
    """
    known = [*scenario.learners]
    if learner is not None and learner not in known:
        raise ScenarioError([Fault("learner", "no such learner", learner, suggest(learner, known))])
    if learner is None and len(known) != 1:
        problem = "the scenario has no learner"
        remedy = "add learners, data and a model to it"
        if known:
            problem = "several learners are given"
            remedy = f"name one of {', '.join(known)}"
        raise ScenarioError([Fault("learner", problem, None, remedy)])
    name = learner or known[0]
    return scenario.model_copy(update={"learners": {name: scenario.learners[name]}})


def _without_data(scenario: Scenario) -> Scenario:
    """Return the scenario with a partition that needs no run of the network, as nothing depends on it."""
    if scenario.partition is None:
        return scenario
    return scenario.model_copy(update={"partition": KnownPartition.of(scenario.partition, ())})


@lru_cache(maxsize=_CACHED)
def _load_data(text: str, learning: bool) -> tuple[Dataset, list[Ints]]:
    """Return the data of the scenario in *text*, and the rows of each user in its first replica.

    A partition may need a run of the network, so environments with the same scenario share the result.
    """
    setup = prepare_run(load(text), learning=learning, replicas=range(1))
    assert setup.dataset is not None
    return setup.dataset, setup.splits[0]
