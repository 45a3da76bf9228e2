"""Preparation of a run: load and partition the data, and make the context of each replica's access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from warnings import warn

import numpy as np
from numpy.typing import NDArray

from netfl.access import OpenAccess
from netfl.core.kinds import kind_of
from netfl.core.remedies import changed, function
from netfl.errors import Fault, NetflWarning, ScenarioError, model_errors, suggest
from netfl.learning.blocks import Block
from netfl.learning.conformance import check_plugins
from netfl.learning.data import Data, Dataset, Examples
from netfl.learning.evaluation_sets import load_test_sets, on_validation
from netfl.learning.spec import LearnerSpec
from netfl.learning.validation_split import split_validation
from netfl.results.reported import reported_faults
from netfl.results.tracking import check_packages
from netfl.scenario.scenario import Scenario
from netfl.simulation import memory
from netfl.streams import Streams
from netfl.types import AccessContext, NullRecorder, Recorder, RoundProgress, ignore_progress


@dataclass(frozen=True)
class RunSetup:
    """A scenario with its data loaded and partitioned.

    Args:
        scenario: the scenario to run.
        replicas: the replicas to run.
        datasets: for each replica, the examples with the labels that its users give; empty where nothing needs them.
            Replicas whose users agree share one object, and all share the test examples.
        splits: for each replica, the rows of each user; empty without data.
        contexts: for each replica, the context of its access, with a recorder that keeps nothing.
        orders: for each replica, the users by falling participation, where the partition depends on that.
        validation: for each replica, the validation examples; empty without validation.
    """

    scenario: Scenario
    replicas: range
    datasets: Sequence[Dataset]
    splits: Sequence[list[NDArray[np.int64]]]
    contexts: Sequence[AccessContext]
    orders: Sequence[NDArray[np.int64] | None]
    validation: Sequence[Examples]

    @property
    def dataset(self) -> Dataset | None:
        """The examples of the first replica; those of others differ at most in labels of the training examples."""
        return self.datasets[0] if self.datasets else None

    def with_recorders(self, recorders: Sequence[Recorder]) -> RunSetup:
        """Return the same setup with a recorder for each replica."""
        pairs = zip(self.contexts, recorders, strict=True)
        return replace(self, contexts=[replace(context, recorder=recorder) for context, recorder in pairs])

    @property
    def validation_counts(self) -> list[int]:
        """Number of validation examples of each class, or of all in a regression, over all replicas.

        Examples that the data state are those of every replica, and count once.
        """
        distinct = [*self.validation]
        if self.scenario.evaluation.validation is None:
            distinct = distinct[:1]
        if self.dataset is None or self.dataset.is_regression:
            return [sum(len(examples.y) for examples in distinct)]
        counts = [np.bincount(examples.y, minlength=self.dataset.classes) for examples in distinct]
        return [int(number) for number in np.sum(counts, axis=0)]

    def open_access(self, replica: int) -> OpenAccess:
        """Open the access of one replica; the caller takes its rounds.

        Raises:
            ScenarioError: the access cannot be simulated.
            ModelError: a model failed.
        """
        context = self.contexts[self.replicas.index(replica)]
        with access_errors(self.scenario, 0.0):
            return self.scenario.access.open(context)

    def users(self, replica: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the users table of one replica."""
        number = self.replicas.index(replica)
        context = self.contexts[number]
        order = self.orders[number]
        columns: dict[str, NDArray[Any]] = {"user": np.arange(context.users)}
        with locate_faults(self.scenario, "access"):
            columns |= self.scenario.access.user_columns(context)
        if order is not None:
            columns["rank"] = np.argsort(order)
        if self.scenario.partition is not None:
            blocks = self.scenario.partition.user_blocks(context.users, order)
            if blocks:
                columns["block"] = _block_names(blocks, context.users)
        if self.datasets:
            dataset = self.datasets[number]
            if dataset.user_names is not None and self._holds_users_of_data:
                columns["name"] = np.array(dataset.user_names, object)
            counts = label_counts(dataset, self.splits[number])
            columns["samples"] = counts.sum(axis=1)
            if not dataset.is_regression:
                for label in range(dataset.classes):
                    columns[f"class:{label}"] = counts[:, label]
        return columns

    @property
    def _holds_users_of_data(self) -> bool:
        """True if each user holds the examples of one user of the data."""
        return self.scenario.partition is not None and self.scenario.partition.grouped_by == "user"

    def nodes(self, replica: int) -> Mapping[str, NDArray[Any]]:
        """Return the columns of the nodes table of one replica."""
        with locate_faults(self.scenario, "access"):
            return self.scenario.access.node_columns(self.contexts[self.replicas.index(replica)])


def check_without_data(scenario: Scenario, *, learning: bool = True) -> None:
    """Refuse a run for errors that show without its data and without a simulation; *learning* as in `prepare_run`.

    Raises:
        ScenarioError: the run is too large, a package or a learner is missing, or a model of the user is wrong.
    """
    faults = [*reported_faults(scenario)]
    if faults:
        raise ScenarioError(scenario.located(faults))
    memory.check_before_loading(scenario, learning=learning)
    if learning:
        with locate_faults(scenario, "track"):
            check_packages(scenario.track)
        with locate_faults(scenario, ""):
            max_deliveries = scenario.access.max_deliveries(scenario.users, scenario.steps)
            check_plugins(
                scenario.learners, scenario.model, scenario.data, scenario.users, max_deliveries, scenario.codecs
            )
    if scenario.access.info.is_closed_loop:
        _check_followed_learner(scenario, learning=learning)


def prepare_run(
    scenario: Scenario,
    *,
    learning: bool = True,
    replicas: range | None = None,
    pulse: Callable[[RoundProgress], None] = ignore_progress,
    limit: Callable[[], AbstractContextManager[None]] = nullcontext,
    most_ranked: int | None = None,
) -> RunSetup:
    """Load and partition what a run of *scenario* needs.

    Args:
        scenario: the scenario to run.
        learning: whether learners run; without them the data are loaded only if the access depends on them.
        replicas: the replicas to prepare; by default all.
        pulse: called with the progress of rounds: those that the partition needs now, and those of the run.
        limit: returns a context for what the partition needs of the access; by default one without effect.
        most_ranked: most rounds by whose deliveries the partition ranks the users; by default all.

    Raises:
        ScenarioError: the run is too large, data are missing or cannot be partitioned, or the access needs learners.
    """
    access = scenario.access
    if replicas is None:
        replicas = range(scenario.replicas)

    if learning and scenario.tuning is not None:
        problem = "only runs and sweeps tune their learners"
        fault = Fault("tuning", problem, None, f"use {function('run')}, or leave it out: {changed('tuning', None)}")
        raise ScenarioError(scenario.located([fault]))

    check_without_data(scenario, learning=learning)
    dataset = None
    mean_held = 1.0
    if scenario.data is not None and (learning or access.info.needs_data):
        dataset = _load_data(scenario, scenario.data, learning=learning)
        mean_held = len(dataset.train_y) / scenario.users

    # the order of the users, as if all held equally many examples
    orders: list[NDArray[np.int64] | None] = []
    with limit():
        for replica in replicas:
            preliminary = access_context(scenario, replica, np.full(scenario.users, mean_held), pulse)
            if most_ranked is not None:
                preliminary = replace(preliminary, rounds=min(most_ranked, preliminary.rounds))
            orders.append(_users_by_participation(scenario, preliminary))

    datasets: list[Dataset] = []
    splits: list[list[NDArray[np.int64]]] = []
    contexts: list[AccessContext] = []
    validation: list[Examples] = []
    for replica, order in zip(replicas, orders, strict=True):
        if dataset is None:
            splits.append([])
            contexts.append(access_context(scenario, replica, pulse=pulse))
            continue

        # the examples of each user
        streams = scenario.streams_of(replica)
        rows, of_replica = _partition_data(scenario, dataset, order, streams)
        if scenario.evaluation.needs_validation:
            with locate_faults(scenario, "evaluate"):
                rows, examples = split_validation(scenario.evaluation, of_replica, rows, streams)
                if scenario.evaluation.on == "validation":
                    _check_rare_examples(scenario, on_validation(of_replica, examples))
            validation.append(examples)
        datasets.append(of_replica)
        splits.append(rows)

        # what the access may know of them
        counts = label_counts(of_replica, rows)
        held = counts.sum(axis=1).astype(float)
        context = replace(access_context(scenario, replica, held, pulse), held=held)
        if access.info.needs_labels:
            context = replace(context, label_mix=counts / held[:, None])
        contexts.append(context)
    return RunSetup(scenario, replicas, datasets, splits, contexts, orders, validation)


def warnings(scenario: Scenario) -> Iterator[str]:
    """Yield warnings about *scenario* before it runs: unusual quantities, and those of the access.

    Raises:
        ScenarioError: the access finds an error.
    """
    yield from map(str, scenario.doubts())
    with locate_faults(scenario, "access"):
        yield from scenario.access.warnings(access_context(scenario, 0))


def give_warnings(scenario: Scenario) -> list[str]:
    """Give each of the `warnings` about *scenario* once, as a `NetflWarning` at the line that called the caller.

    They are returned, too: in a large network they take much time.

    Raises:
        ScenarioError: the access finds an error.
    """
    texts = [*dict.fromkeys(warnings(scenario))]
    for text in texts:
        warn(text, NetflWarning, stacklevel=3)
    return texts


def notes(scenario: Scenario) -> Iterator[str]:
    """Yield sentences on what the settings of *scenario* give a user."""
    with locate_faults(scenario, "access"):
        yield from scenario.access.notes(access_context(scenario, 0))
    if scenario.access.info.sums:
        ideal = [name for name, spec in scenario.learners.items() if not spec.aggregation.reads_not_summed]
        if ideal:
            yield f"{', '.join(ideal)}: reads each update without the noise of the sum in the air, as an ideal rival"


def _check_rare_examples(scenario: Scenario, dataset: Dataset) -> None:
    """Refuse validation examples, in place of the test examples of *dataset*, without one of the rare classes."""
    missing = [label for label in scenario.rare_classes if not (dataset.test_groups == label).any()]
    if missing:
        problem = f"there is no validation example of rare class {', '.join(map(str, missing))}"
        raise ScenarioError([Fault("validation", problem, scenario.evaluation.validation, "keep a larger share")])


def _load_data(scenario: Scenario, data: Data, *, learning: bool) -> Dataset:
    """Load the examples and, for learning, those of further test sets."""
    streams = Streams(scenario.seed).at("data")
    with locate_faults(scenario, "data"):
        dataset = data.load(streams)
        missing = [label for label in scenario.rare_classes if not (dataset.test_groups == label).any()]
        if missing:
            problem = f"the test set has no example of rare class {', '.join(map(str, missing))}"
            remedy = "keep more examples for testing, or use other rare classes"
            raise ScenarioError([Fault("", problem, None, remedy)])
    if not learning:
        return dataset
    with locate_faults(scenario, "evaluate"):
        return load_test_sets(data, scenario.evaluation.sets, dataset, streams)


def _partition_data(
    scenario: Scenario, dataset: Dataset, order: NDArray[np.int64] | None, streams: Streams
) -> tuple[list[NDArray[np.int64]], Dataset]:
    """Return the rows of each user in one replica, and the examples with the labels that users give.

    Args:
        scenario: the scenario to run.
        dataset: the examples as loaded.
        order: the users by falling participation, if that matters.
        streams: of the replica.
    """
    partition = scenario.partition
    assert partition is not None
    with locate_faults(scenario, "partition"):
        if partition.grouped_by == "label":
            groups = dataset.train_groups
        elif dataset.train_user is not None:
            groups = dataset.train_user
        else:
            remedy = "use other data, or another partition"
            raise ScenarioError([Fault("", "these data have no users", None, remedy)])
        rows = partition.split(groups, scenario.users, order, streams.at("partition"))
        blocks = partition.user_blocks(scenario.users, order)
        return rows, dataset.held_by(rows, blocks)


@contextmanager
def locate_faults(scenario: Scenario, key: str) -> Iterator[None]:
    """Prefix the keys of errors that are raised inside with *key*, and add their place in the file.

    Errors of ``controls``, which a caller of a simulation gives, have no place in the file.
    """
    try:
        yield
    except ScenarioError as error:
        if all(fault.key.startswith("controls.") for fault in error.faults):
            raise
        raise ScenarioError(scenario.located([fault.under(key) for fault in error.faults])) from error


@contextmanager
def access_errors(scenario: Scenario, time_s: float) -> Iterator[None]:
    """Locate the errors of an access in the scenario, and raise any other exception as a `ModelError` with the time."""
    with locate_faults(scenario, "access"), model_errors(kind_of(type(scenario.access)), time_s):
        yield


def _block_names(blocks: Sequence[Block], users: int) -> NDArray[Any]:
    """Return the name of each user's block, ``[users]``; empty for users in none."""
    names = np.full(users, "", object)
    for block in blocks:
        names[block.users] = block.name
    return names


def label_counts(dataset: Dataset, rows: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Count the examples of each label that each user gives, ``[users, classes]``; see `Dataset.groups`."""
    users = len(rows)
    owner = np.repeat(np.arange(users), [len(of_user) for of_user in rows])
    label = dataset.train_labels[np.concatenate(rows)]
    index = owner * dataset.groups + label  # in the table, row by row
    return np.bincount(index, minlength=users * dataset.groups).reshape(users, dataset.groups)


def _check_followed_learner(scenario: Scenario, *, learning: bool) -> None:
    """Check that the learner whose reports a closed loop uses is there; in a trace there is none."""
    access = scenario.access
    kind = kind_of(type(access))
    followed = access.info.learner
    part = "it"
    if access.closed_loop_parts:
        key, model = next(iter(access.closed_loop_parts.items()))
        part = f"its {key} '{kind_of(type(model))}'"
    if not learning or not scenario.learners:
        problem = f"{part} needs the learners' reports, and a trace has no learners"
        remedy = "add learners"
        if scenario.learners:
            remedy = f"use {function('run')}, then {function('trace')} to replay the run"
        fault = Fault("access", problem, kind, remedy)
    elif followed is None and len(scenario.learners) > 1:
        fault = Fault("access", f"{part} does not name the learner that it uses", kind, "set learner")
    elif followed is not None and followed not in scenario.learners:
        problem = f"{part} uses a learner that does not exist"
        fault = Fault("access", problem, followed, suggest(followed, [*scenario.learners]))
    else:
        return
    raise ScenarioError(scenario.located([fault]))


def _users_by_participation(scenario: Scenario, context: AccessContext) -> NDArray[np.int64] | None:
    """Return the users by falling participation, as the partition defines it; ``None`` if it does not need that."""
    if scenario.partition is None or scenario.partition.ranking_source is None:
        return None
    recorded = scenario.access.ranking(context)
    if recorded is not None:
        return np.asarray(recorded, np.int64)
    with locate_faults(scenario, "access"):
        if scenario.partition.ranking_source == "rho":
            rates = scenario.access.rates(scenario.users, context.streams)
            assert rates is not None
        elif scenario.partition.ranking_source == "distance":  # the nearest users participate most
            rates = -scenario.access.user_columns(context)["distance_m"]
        else:  # the deliveries of a run of the access alone
            rates = np.zeros(scenario.users)
            for each in scenario.access.rounds(context):
                np.add.at(rates, [delivery.user for delivery in each.all_deliveries()], 1)
    return np.asarray(np.argsort(-rates, kind="stable"), np.int64)


def access_context(
    scenario: Scenario,
    replica: int,
    held: NDArray[np.float64] | None = None,
    pulse: Callable[[RoundProgress], None] = ignore_progress,
) -> AccessContext:
    """Return the context of one replica's access, where each user holds *held* examples, by default one."""
    if held is None:
        held = np.ones(scenario.users)  # one example each, until the data are partitioned
    learner = next(iter(scenario.learners.values()), None)
    samples = held
    if learner is not None:
        samples = _samples(learner, held)
    payload = scenario.largest_payload
    return AccessContext(
        users=scenario.users,
        rounds=scenario.steps,
        replica=replica,
        streams=scenario.streams_of(replica).at("access"),
        samples=samples,
        uplink_bits=payload.uplink_bits,
        downlink_bits=payload.downlink_bits,
        recorder=NullRecorder(),
        duration_s=scenario.traffic_s,
        stop_s=scenario.stop_s,
        warmup_s=scenario.warmup,
        pulse=pulse,
        reports_links=scenario.reports_links,
        reports_lost=scenario.reports_lost,
        reports_not_summed=scenario.reports_not_summed,
    )


def _samples(learner: LearnerSpec, held: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the number of examples that each user processes for one update.

    With n examples and batches of B ≤ n examples, these are n in each of E epochs, or in s steps, of which a pass takes
    P = ⌈n / B⌉, ``⌊s / P⌋ n + (s mod P) B``.
    """
    if learner.local_epochs is not None:
        return learner.local_epochs * held
    steps = learner.local_steps or 0  # s
    batch = held  # B
    if learner.batch_size != "full":
        batch = np.minimum(held, learner.batch_size)
    per_pass = np.ceil(held / batch)  # P
    return np.asarray(steps // per_pass * held + steps % per_pass * batch)
