"""From a scenario to what a run needs before its first round: data, who holds what, each replica's setting."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError, suggest
from netfl.learning.data import Dataset, Examples
from netfl.learning.spec import LearnerSpec
from netfl.learning.validation_split import split_validation
from netfl.registry import kind_of
from netfl.scenario import tracking
from netfl.scenario.scenario import Scenario
from netfl.scenario.validation import check_plugins
from netfl.simulation import cost_estimate
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder, RoundProgress, ignore_progress


@dataclass(frozen=True)
class RunSetup:
    """A scenario with its data loaded and dealt out.

    Args:
        scenario: what is staged.
        replicas: which of its replicas.
        dataset: the examples; ``None`` where nothing needs them.
        splits: for each of the replicas, the rows of each user; empty without data.
        settings: for each of them, what its access knows; with recorders that keep nothing.
        orders: for each of them the users from the most to the least often heard, where the partition goes by that.
        validation: for each of them the examples to validate with; empty where nothing is validated.
    """

    scenario: Scenario
    replicas: range
    dataset: Dataset | None
    splits: Sequence[list[NDArray[np.int64]]]
    settings: Sequence[AccessContext]
    orders: Sequence[NDArray[np.int64] | None]
    validation: Sequence[Examples]

    def users(self, replica: int) -> dict[str, NDArray[Any]]:
        """The columns of the users table for one replica."""
        at = self.replicas.index(replica)
        setting = self.settings[at]
        columns: dict[str, NDArray[Any]] = {"user": np.arange(setting.users)}
        with locate_faults(self.scenario, "access"):
            columns |= self.scenario.access.user_columns(setting)
        order = self.orders[at]
        if order is not None:
            columns["rank"] = np.argsort(order)
        if self.dataset is not None:
            counts = label_counts(self.dataset, self.splits[at])
            columns["samples"] = counts.sum(axis=1)
            columns |= {f"class:{label}": counts[:, label] for label in range(self.dataset.classes)}
        return columns

    def nodes(self, replica: int) -> Mapping[str, NDArray[Any]]:
        """The columns of the nodes table for one replica."""
        with locate_faults(self.scenario, "access"):
            return self.scenario.access.node_columns(self.settings[self.replicas.index(replica)])


def streams_of(scenario: Scenario, replica: int) -> Streams:
    """The random streams of one replica."""
    return Streams(scenario.seed).at("replica", replica)


def prepare_run(
    scenario: Scenario,
    *,
    learning: bool = True,
    first: int = 0,
    pulse: Callable[[RoundProgress], None] = ignore_progress,
) -> RunSetup:
    """Load and deal out what a run of *scenario* needs.

    Args:
        scenario: what to stage.
        learning: whether learners will run; without them the data are loaded only if the access depends on them.
        first: the replica to begin with, where those before it are there already.
        pulse: told how far rounds are, those that are played here and those that the settings are for.

    Raises:
        ScenarioError: too much to do; data not there, or not to be dealt out so; an access that listens to nobody.
    """
    access = scenario.access
    cost_estimate.check(scenario, learning=learning)
    if learning:
        with locate_faults(scenario, "track"):
            tracking.check(scenario.track)
        with locate_faults(scenario, "learners"):
            check_plugins(scenario.learners, scenario.users, access.max_deliveries(scenario.users, scenario.steps))
    if access.info.is_closed_loop:
        _check_answerer(scenario, scenario.learners if learning else {})
    dataset = None
    if scenario.data is not None and (learning or access.info.needs_data):
        with locate_faults(scenario, "data"):
            dataset = scenario.data.load(Streams(scenario.seed).at("data"))
            _check_test_set(dataset, scenario.rare_classes)
    splits: list[list[NDArray[np.int64]]] = []
    settings: list[AccessContext] = []
    orders: list[NDArray[np.int64] | None] = []
    validation: list[Examples] = []
    replicas = range(first, scenario.replicas)
    for replica in replicas:
        each = 1.0 if dataset is None else len(dataset.train_y) / scenario.users
        order = _users_by_participation(scenario, _setting(scenario, replica, np.full(scenario.users, each), pulse))
        orders.append(order)
        if dataset is None:
            splits.append([])
            settings.append(_setting(scenario, replica, np.ones(scenario.users), pulse))
            continue
        rows = _partition(scenario, dataset, order, replica)
        if scenario.evaluation.needs_validation:
            with locate_faults(scenario, "evaluate"):
                rows, own = split_validation(scenario.evaluation, dataset, rows, streams_of(scenario, replica))
            validation.append(own)
        splits.append(rows)
        counts = label_counts(dataset, splits[-1])
        held = counts.sum(axis=1).astype(float)
        mix = counts / held[:, None] if access.info.needs_label_mix else None
        settings.append(replace(_setting(scenario, replica, held, pulse), held=held, label_mix=mix))
    return RunSetup(scenario, replicas, dataset, splits, settings, orders, validation)


def warnings(scenario: Scenario) -> Iterator[str]:
    """What there is to say of *scenario* before it runs, though nothing is wrong.

    Raises:
        ScenarioError: something is.
    """
    with locate_faults(scenario, "access"):
        yield from scenario.access.warnings(_setting(scenario, 0, np.ones(scenario.users), ignore_progress))


@contextmanager
def locate_faults(scenario: Scenario, key: str) -> Iterator[None]:
    """Put *key* before the keys of faults that are found on the way, and say where they stand."""
    try:
        yield
    except ScenarioError as error:
        raise ScenarioError(scenario.located([fault.under(key) for fault in error.faults])) from error


def label_counts(dataset: Dataset, rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """How many examples of each label each user holds, ``[users, classes]``."""
    owner = np.repeat(np.arange(len(rows)), [len(own) for own in rows])
    held = owner * dataset.classes + dataset.train_y[np.concatenate(rows)]
    return np.bincount(held, minlength=len(rows) * dataset.classes).reshape(len(rows), dataset.classes)


def _check_answerer(scenario: Scenario, learners: Mapping[str, LearnerSpec]) -> None:
    """An access that listens to the learners must have the one of *learners* that it listens to."""
    access, kind = scenario.access, kind_of(type(scenario.access))
    if access.info.learner is not None and access.info.learner in learners:
        return
    flags = ("needs_learner_metrics", "asking")
    parts = {name: getattr(access, name) for name in type(access).model_fields}
    asking = [name for name, part in parts.items() if any(getattr(part, flag, False) for flag in flags)]
    who = f"its {asking[0]} '{kind_of(type(getattr(access, asking[0])))}'" if asking else "it"
    if not learners:
        remedy = "take netfl run, and netfl trace for a replay of that" if scenario.learners else "add learners"
        problem = f"{who} listens to the learners, and here are none: who is heard depends on what is learned"
        fault = Fault("access", problem, kind, remedy)
    elif access.info.learner is not None:
        problem = f"{who} listens to a learner that there is not"
        fault = Fault("access", problem, access.info.learner, suggest(access.info.learner, [*learners]))
    elif len(learners) > 1:
        fault = Fault("access", f"{who} does not say to which of the learners it listens", kind, "name one of them")
    else:
        return
    raise ScenarioError(scenario.located([fault]))


def _check_test_set(dataset: Dataset, rare: Sequence[int]) -> None:
    """The rare classes must be there to be tested."""
    missing = [label for label in rare if not (dataset.test_y == label).any()]
    if missing:
        problem = f"the test set holds no example of rare class {', '.join(map(str, missing))}"
        raise ScenarioError([Fault("", problem, None, "keep more examples for testing, or call other classes rare")])


def _partition(
    scenario: Scenario, dataset: Dataset, order: NDArray[np.int64] | None, replica: int
) -> list[NDArray[np.int64]]:
    """The rows of each user of one replica."""
    if scenario.partition is None:
        raise ValueError("data without a partition")
    with locate_faults(scenario, "partition"):
        streams = streams_of(scenario, replica).at("partition")
        what = dataset.train_user if scenario.partition.grouped_by == "user" else dataset.train_y
        if what is None:
            remedy = "take other data, or another partition"
            raise ScenarioError([Fault("", "these data have no users of their own", None, remedy)])
        return scenario.partition.split(what, scenario.users, order, streams)


def _users_by_participation(scenario: Scenario, setting: AccessContext) -> NDArray[np.int64] | None:
    """The users from the most to the least often heard, by what the partition goes by."""
    by = None if scenario.partition is None else scenario.partition.ranking_source
    if by is None:
        return None
    recorded = scenario.access.ranking(setting)
    if recorded is not None:
        return np.asarray(recorded, np.int64)
    if by == "rho":
        heard = scenario.access.rates(scenario.users, setting.streams)
        if heard is None:
            raise ValueError("a partition by rho needs an access that states rho")
    elif by == "distance":
        with locate_faults(scenario, "access"):
            heard = -scenario.access.user_columns(setting)["distance_m"]
    else:
        heard = np.zeros(scenario.users)
        with locate_faults(scenario, "access"):
            for one in scenario.access.rounds(setting):
                np.add.at(heard, [delivery.user for delivery in one.deliveries], 1)
    return np.asarray(np.argsort(-heard, kind="stable"), np.int64)


def _setting(
    scenario: Scenario, replica: int, held: NDArray[np.float64], pulse: Callable[[RoundProgress], None]
) -> AccessContext:
    """What the access of one replica knows, where each user holds *held* examples."""
    learner = next(iter(scenario.learners.values()), None)
    return AccessContext(
        users=scenario.users,
        rounds=scenario.steps,
        replica=replica,
        streams=streams_of(scenario, replica).at("access"),
        samples=held if learner is None else _samples(learner, held),
        uplink_bits=scenario.update_bits,
        downlink_bits=scenario.update_bits,
        recorder=NullRecorder(),
        duration_s=scenario.duration,
        warmup_s=scenario.warmup,
        pulse=pulse,
    )


def _samples(learner: LearnerSpec, held: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many examples each user processes for one update."""
    if learner.local_epochs is not None:
        return learner.local_epochs * held
    batch = held if learner.batch_size == "full" else np.minimum(held, learner.batch_size)
    steps = learner.local_steps or 0
    a_pass = np.ceil(held / batch)
    return np.asarray(steps // a_pass * held + steps % a_pass * batch)
