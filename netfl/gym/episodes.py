"""Episodes: simulations of one scenario with different seeds, which share its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pydantic import PrivateAttr

from netfl.errors import Fault, ScenarioError, suggest
from netfl.learning.data import Data, Dataset
from netfl.learning.partition import Partition
from netfl.scenario.scenario import Scenario, ScenarioSource, load
from netfl.simulation.setup import prepare_run
from netfl.simulation.simulation import Simulation
from netfl.streams import Streams
from netfl.types import Ints

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

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        return self._rows

    @property
    def rare_labels(self) -> tuple[int, ...]:
        return self.source.rare_labels

    @classmethod
    def of(cls, source: Partition, rows: Sequence[Ints]) -> KnownPartition:
        """Return the partition in which each user holds its *rows*, as *source* has drawn them."""
        partition = cls.model_construct(source=source)
        partition._rows = list(rows)
        return partition


@dataclass(frozen=True)
class Episodes:
    """Source of the simulations of an environment.

    Args:
        scenario: the scenario of all episodes; only the seed changes.
        learning: whether a learner trains.
    """

    scenario: Scenario
    learning: bool = False

    def open(self, seed: int) -> Simulation:
        """Return the simulation of the episode with this seed.

        Raises:
            ScenarioError: the scenario cannot be simulated round by round.
        """
        return Simulation(self.scenario.model_copy(update={"seed": seed}), learning=self.learning, record=False)

    def with_fixed_data(self) -> Episodes:
        """Return episodes in which all users hold the examples that they have with the seed of the scenario."""
        if self.scenario.data is None or not (self.learning or self.scenario.access.info.needs_data):
            return replace(self, scenario=_without_data(self.scenario))
        dataset, rows = _load_data(self.scenario.to_yaml(), self.learning)
        assert self.scenario.partition is not None
        data = {
            "data": LoadedData.of(self.scenario.data, dataset),
            "partition": KnownPartition.of(self.scenario.partition, rows),
        }
        return replace(self, scenario=self.scenario.model_copy(update=data))


def load_scenario(
    source: ScenarioSource,
    overrides: Mapping[str, object] | None,
    named: Sequence[str],
    rounds: int | None,
    learner: str | None,
) -> Scenario:
    """Return the scenario of an environment; with *learner*, that is its only learner.

    Raises:
        ScenarioError: the scenario or an override is wrong, it has no rounds, or there is no such learner.
    """
    values = dict(overrides or {}) | ({} if rounds is None else {"rounds": rounds})
    scenario = load(source, values, named)
    if scenario.rounds is None:
        problem = "the scenario has a duration, and an environment needs rounds"
        raise ScenarioError([Fault("duration", problem, scenario.duration, "give rounds instead")])
    if learner is None:
        return scenario
    if learner not in scenario.learners:
        raise ScenarioError([Fault("learner", "no such learner", learner, suggest(learner, [*scenario.learners]))])
    return scenario.model_copy(update={"learners": {learner: scenario.learners[learner]}})


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
