"""The learner: trains the delivered updates and aggregates them, for all learners and replicas of a run at once.

A *lane* is one learner in one replica.  Lanes lie learner by learner, and within a learner replica by replica.
`BatchedLearner.step` looks up the base version of each delivery, trains the users of all lanes together (continue
reading in `netfl.learning.local_training`), and aggregates lane by lane (`netfl.learning.server_state`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import Fault, MachineError, ModelError, ScenarioError
from netfl.learning.aggregation import SingleUpdates, Updates
from netfl.learning.base_rule import BaseRule, LastParticipation, by_member
from netfl.learning.batch_limits import evaluation_slices, is_faster_together
from netfl.learning.centralized import CentralizedBaseline
from netfl.learning.codec import WHOLE, Codecs
from netfl.learning.codec.none import Whole
from netfl.learning.cohort import Cohort, RepeatCounter
from netfl.learning.device_rules import DeviceRules
from netfl.learning.device_store import DeviceStore
from netfl.learning.evaluation import Evaluation, LearningMetrics, on_validation_examples, user_losses
from netfl.learning.local_training import LearnerGroup, LocalResult, group_learners
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model import Model
from netfl.learning.model_versions import ModelVersions
from netfl.learning.node_versions import NodeVersions, waves_of_replicas
from netfl.learning.own_evaluation import OwnEvaluation
from netfl.learning.own_training import OwnTrainings
from netfl.learning.rule_draws import RuleDraws
from netfl.learning.server_state import LaneServers
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.step_graphs import open_graphs
from netfl.learning.tensors import device_of, gpu_arithmetic, gpu_name, read_together, runs_on_gpu, tensor, upload
from netfl.learning.threads import ThreadChoice, choose_threads, torch_threads
from netfl.learning.training_in_vain import TrainingsInVain
from netfl.learning.unsummed_trainings import UnsummedTrainings
from netfl.learning.update_coding import UpdateCoder, VersionCoder
from netfl.learning.user_data import ReplicaData, UserDatasets
from netfl.streams import Streams
from netfl.types import QUERIES, SERVER, Divergence, Floats, Ints, LearnerReport, Merge, Round

_NodeLanes = Mapping[int, dict[int, Tensor]]
"""Versions of nodes besides the server by node and lane, ``[size + 1]`` each."""
_EXAMINED = 4
"""Examples on which a module is examined."""
_TIMED = 8
"""Learners, and steps, that are trained at most while threads are compared."""


@dataclass(frozen=True)
class LearningTask:
    """The inputs of a `BatchedLearner`.

    Args:
        learners: by name.
        model: that all learners train.
        replicas: in order, with consecutive numbers.
        evaluate: rounds and metrics of the evaluation.
        rounds: number of rounds; the last is always evaluated.
        rare_classes: labels whose accuracy is also reported together.
        feedback_learner: name of the learner that answers the queries of accesses; ``None`` for the only one.
        tokens: size of the vocabulary, if examples are rows of tokens.
        device: ``cpu``, ``cuda``, ``cuda:N``, or ``auto``.
        dtype: of all arithmetic.
        products: ``tf32`` or ``bf16``, to which the factors of products are rounded in training; ``None`` for *dtype*.
        all_learners: all learners of the run, if these lanes are only a part of it.
        codecs: of updates and of broadcasts.
        loses_parts: whether deliveries may lack parts.
        has_nodes: whether other nodes than the server merge.
        base_rule: from which versions users start; by default as the learners state it.
    """

    learners: Mapping[str, LearnerSpec]
    model: Model
    replicas: Sequence[ReplicaData]
    evaluate: EvaluateSpec
    rounds: int
    rare_classes: tuple[int, ...] = ()
    feedback_learner: str | None = None
    tokens: int | None = None
    device: str = "auto"
    dtype: torch.dtype = torch.float32
    products: str | None = None
    all_learners: Sequence[LearnerSpec] = ()
    codecs: Codecs = WHOLE
    loses_parts: bool = False
    has_nodes: bool = False
    base_rule: type[BaseRule] | None = None

    @property
    def lanes(self) -> tuple[tuple[str, int], ...]:
        """Learner and replica of each lane."""
        return tuple((name, data.replica) for name in self.learners for data in self.replicas)

    @property
    def may_diverge(self) -> bool:
        """True if all lanes may diverge without an error: where candidates are compared, those that diverge lose."""
        return self.evaluate.on == "validation"

    @property
    def sent_beside_theta(self) -> int:
        """Numbers that an update holds beside θ and its buffers: 1 for t, if a learner of the run has it."""
        specs = (*self.learners.values(), *self.all_learners)
        return int(any(spec.objective.t_rate > 0 for spec in specs))

    @property
    def cvar_levels(self) -> list[float]:
        """The levels α at which the CVaR of every lane is reported."""
        levels = {*self.evaluate.levels}
        for spec in (*self.learners.values(), *self.all_learners):
            levels.update(spec.objective.levels)
        return sorted(levels)


@dataclass(frozen=True, slots=True)
class _Trained:
    """Models that users have trained for a group of learners, and what they are aggregated with.

    Args:
        cohort: the users.
        lanes: of each user and member, ``[users, members]``.
        numbers: of their bases, as `BaseRule.numbers` gives them.
        users: of the cohort, on the device, ``[users]``.
        bases: from which the server reads their changes, ``[users, members, size + 1]``.
        result: their models, as the server reads them, and their work.
        received: whether the server knows each number of an update, ``[users, members or 1, size + 1]``; ``None`` for
            all.
    """

    cohort: Cohort
    lanes: Ints
    numbers: Ints
    users: Tensor
    bases: Tensor
    result: LocalResult
    received: Tensor | None


def _received_by_member(trained: _Trained, part: slice, members: int) -> Sequence[Tensor | None]:
    """Return whether the server knows each number of the updates in *part*, for each member, ``[users, size + 1]``."""
    if trained.received is None:
        return [None] * members
    received = trained.received[part].expand(-1, members, -1)
    return received.unbind(1)


class BatchedLearner:
    """Learner of all lanes of a task, which are trained together.

    A version is ``[lanes, size + 1]``: the parameters θ with the model's buffers, and, last, the scalar t of the
    objective.
    """

    def __init__(self, task: LearningTask) -> None:
        first = task.replicas[0].dataset
        self.lanes = task.lanes
        self._task = task
        self._replica_count = len(task.replicas)
        self._specs = [
            spec.with_participation(data.participation).with_examples(data.examples)
            for spec in task.learners.values()
            for data in task.replicas
        ]
        self._link_values = frozenset[str]().union(*(spec.aggregation.reads_links for spec in self._specs))
        self._threads = ThreadChoice(1)
        self._is_working = False

        # the model, the examples, and the training of users
        device = device_of(task.device)
        graphs = open_graphs(device)
        self._architecture = task.model.open(first.train_x.shape[1:], first.classes, task.tokens)
        self._data = UserDatasets(task.replicas, device, task.dtype, graphs)
        self._architecture.has_bf16_products = task.products == "bf16"
        self._architecture.prepare(self._data.x[:_EXAMINED])
        self.check_batches(task.learners)
        self._groups = group_learners([*task.learners.values()], self._architecture, self._data, graphs)
        streams = [data.streams for data in task.replicas]
        self._sampler = BatchSampler(streams, device, graphs)
        self._streams = streams
        self._repeats = RepeatCounter()

        # the devices
        users = self._data.sizes.shape[1]
        self._store = DeviceStore(users, self._replica_count)
        self._base_rule = self._open_base_rule(task)
        if task.has_nodes and type(self._base_rule) is not BaseRule:
            raise ValueError("a rule of bases chooses versions of the server, but other nodes have versions, too")
        origins = self._origins(streams)
        self._unsummed = UnsummedTrainings(self._groups, self._replica_count, self._sampler, origins[0])
        names = [name for name, _ in self.lanes]
        self._devices = DeviceRules([*zip(names, self._specs, strict=True)], self._store, self._architecture, origins)
        self._own_trainings = OwnTrainings([*task.learners.values()], self._architecture, self._data, self._devices)
        self._in_vain = TrainingsInVain(streams, device, graphs)
        self._keeping: dict[tuple[int, ...], LearnerGroup | None] = {}  # of a group, by its members

        # the servers, and codecs between them and the devices
        self._servers = LaneServers(
            dict(zip(self.lanes, self._specs, strict=True)),
            users,
            origins,
            is_whole_run=not task.all_learners and not task.may_diverge,
            model=task.model,
            buffers=self._architecture.buffers,
            codecs=task.codecs,
            has_nodes=task.has_nodes,
            store=self._store,
            personal=self._devices.personal,
        )
        parameters = self._architecture.trained
        self._coder: UpdateCoder | None = None
        if task.codecs.up is not None or task.loses_parts:
            whole_numbers = self._architecture.buffers + task.sent_beside_theta
            self._coder = UpdateCoder(task.codecs.up or Whole(), streams, parameters, self._store, whole_numbers)
        version_coder = None
        if task.codecs.down is not None:
            version_coder = VersionCoder(task.codecs.down, streams, parameters)
        self._versions = ModelVersions(origins, self._servers.messages(), version_coder)
        self._nodes: NodeVersions | None = None
        if task.has_nodes:
            self._nodes = NodeVersions(self._versions, self._servers, origins, self._replica_count)

        # the evaluation
        self._baseline: CentralizedBaseline | None = None
        if "weight_divergence" in task.evaluate.metrics:
            specs = self._specs[:: self._replica_count]
            self._baseline = CentralizedBaseline(specs, self._architecture, self._data.pooled(), origins)
        self._metrics = self._open_metrics()

    def _origins(self, streams: Sequence[Streams]) -> Tensor:
        """Return version 0 of each lane, ``[lanes, size + 1]``."""
        starts = np.stack([self._architecture.start(stream.at("start")) for stream in streams])
        with_t = np.pad(starts, ((0, 0), (0, 1)))  # t starts at 0
        origins = np.tile(with_t, (len(self._task.learners), 1))  # the same for all learners of a replica
        return tensor(origins).to(self._data.x)

    def _open_metrics(self) -> LearningMetrics:
        """Return the metrics of all lanes, on the test examples or those in their place."""
        task = self._task
        evaluated = task.replicas
        if task.evaluate.on == "validation":
            evaluated = on_validation_examples(task.replicas)
        evaluation = Evaluation(self._architecture, self._data, evaluated, len(task.learners), task.rare_classes)
        own_models: OwnEvaluation | None = None
        if "own_models" in task.evaluate.metrics:
            own_models = OwnEvaluation(
                evaluation,
                self._devices,
                [*task.learners.values()],
                self._architecture,
                self._data,
                self._sampler,
                task.evaluate.fine_tune,
            )
        return LearningMetrics(task.evaluate, evaluation, self._servers, self._baseline, task.cvar_levels, own_models)

    def _open_base_rule(self, task: LearningTask) -> BaseRule:
        """Return the rule of bases of a task, or that of its learners."""
        if task.base_rule is not None:
            return task.base_rule(self._store, self.lanes)
        asking = [lane for lane, spec in enumerate(self._specs) if spec.base == "last_participation"]
        if asking:
            return LastParticipation(self._store, self.lanes, asking)
        return BaseRule(self._store, self.lanes)

    @torch.inference_mode()
    def start(self) -> LearnerReport:
        """Evaluate version 0."""
        metrics = self._metrics.evaluate(self._versions.newest, 0, self._versions.changed_in)
        return LearnerReport(0, metrics, diverged=self._servers.new_divergences((), 0.0))

    @torch.inference_mode()
    def step(self, rounds: Sequence[Round | None]) -> LearnerReport:
        """Make the next version of every lane.

        Args:
            rounds: one of each replica, in order, all with the same index.  ``None`` is a replica that has ended: its
                lanes keep their versions, and have no metrics.

        Returns:
            The evaluation of the version, if one is due, the answers to accesses, and the lanes that diverged.

        Raises:
            ModelError: all lanes have diverged, or one whose feedback an access needs; or an answer is not finite.
        """
        index = self._versions.number + 1
        open_rounds = [round_ for round_ in rounds if round_ is not None]
        if len(rounds) != self._replica_count or any(round_.index != index for round_ in open_rounds):
            raise ValueError(f"round {index} of {self._replica_count} replicas is expected")
        closed_s = max((round_.closed_s for round_ in open_rounds), default=0.0)
        self._make_versions(rounds, closed_s)

        is_due = index % self._task.evaluate.every == 0 or index == self._task.rounds
        feedback_lanes = range(0)
        if any(round_.queries for round_ in open_rounds):
            feedback_lanes = self._feedback_lanes
        if is_due or feedback_lanes:
            self._servers.find_diverged()
        metrics: Mapping[str, Floats] = {}
        if is_due:
            metrics = self._metrics.evaluate(self._versions.newest, index, self._versions.changed_in)
        if len(open_rounds) < len(rounds):
            has_ended = np.tile([round_ is None for round_ in rounds], len(self._task.learners))
            metrics = {name: np.where(has_ended, np.nan, values) for name, values in metrics.items()}
        diverged = self._servers.new_divergences(feedback_lanes, closed_s)
        answers = self._answer(rounds) if feedback_lanes else ()
        return LearnerReport(index, metrics, answers, diverged)

    def state(self) -> dict[str, Any]:
        """Return the state for `restore`.  Its tensors are not copies: copy or write them before the next step."""
        self._servers.find_diverged()
        state: dict[str, Any] = {}
        if self._nodes is not None:
            state["nodes"] = self._nodes.state()
        return state | {
            "lanes": [list(lane) for lane in self.lanes],
            "round": self._versions.number,
            "versions": self._versions.state(),
            "servers": self._servers.state(),
            "devices": self._store.state(),
            "metrics": self._metrics.state(),
            "turns": self._repeats.state(),
            "turns_in_vain": self._in_vain.repeats.state(),
            "threads": self._threads.threads,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`.

        Raises:
            MachineError: the state belongs to other lanes or to another model.
        """
        lanes = [tuple(lane) for lane in state["lanes"]]
        shapes = {version.shape for version in state["versions"]["kept"].values()}
        if lanes != [*self.lanes] or shapes != {self._versions.newest.shape}:
            raise MachineError("the saved state is of other learners, or of another model")
        self._versions.restore(int(state["round"]), state["versions"])
        if self._nodes is not None:
            self._nodes.restore(state["nodes"])
        self._metrics.restore(state["metrics"])
        self._repeats.restore(state["turns"])
        self._in_vain.repeats.restore(state.get("turns_in_vain", ()))
        self._store.restore(state.get("devices", {}), self._data.x.device)
        self._servers.restore(state["servers"], self._data.x.device)
        self._devices.check_restored(state["metrics"]["deliveries"].numpy())
        if self._is_working and state.get("threads"):  # of this machine or another; sums depend on it in the last bits
            self._threads = ThreadChoice(state["threads"])
            torch.set_num_threads(self._threads.threads)

    def check_batches(self, learners: Mapping[str, LearnerSpec]) -> None:
        """Check that the mini-batches of *learners* have enough examples for the model.

        Raises:
            ScenarioError: a user has a mini-batch of one example, and the model needs two.
        """
        sizes = self._data.sizes
        for name, spec in learners.items():
            work = spec.local_work.count(sizes)
            last_of_pass = sizes - (work.per_pass - 1) * work.width  # examples that full mini-batches leave
            is_partial_pass = work.steps < work.per_pass
            last = np.where(is_partial_pass, work.width, last_of_pass)
            is_too_small = np.minimum(work.width, last) < self._architecture.min_batch
            if is_too_small.any():
                user = int(np.argwhere(is_too_small)[0, 1])
                problem = (
                    f"a mini-batch of user {user} has one example, for which a batch normalisation has no variance"
                )
                remedy = "use another batch_size, or torch.nn.GroupNorm"
                raise ScenarioError([Fault(f"learners.{name}.batch_size", problem, spec.batch_size, remedy)])

    @contextmanager
    def working(self) -> Iterator[None]:
        """Set the number of torch's threads by `choose_threads`, until the context ends."""
        if not runs_on_gpu(self._data.x.device):
            batch = max(int(group.work.count(self._data.sizes.ravel()).width.max()) for group in self._groups)
            products_of_step = len(self.lanes) * batch * self._architecture.size
            self._threads = choose_threads(products_of_step, self._train_briefly)
        arithmetic = gpu_arithmetic(self._data.x.device, self._task.products == "tf32")
        with torch_threads(self._threads.threads), arithmetic:
            self._is_working = True
            try:
                yield
            finally:
                self._is_working = False

    @property
    def training_method(self) -> str:
        """The method and the threads of training, as a clause for the user; empty for the usual way."""
        products = ""
        if self._task.products == "tf32" and self._data.x.device.type != "cuda":
            products = "products are computed in float32, because only GPUs have TF32"
        return "; ".join(filter(None, (self._architecture.training_method, products, self._threads.reason)))

    @property
    def gpu(self) -> str:
        """The name of the GPU that trains; empty on a CPU."""
        return gpu_name(self._data.x.device)

    @torch.inference_mode()
    def _train_briefly(self) -> None:
        """Train the user with the most examples in some lanes for a few steps, and forget the result."""
        group = max(self._groups, key=lambda group: len(group.members))
        members = group.members[:_TIMED]
        replicas = np.zeros(1, np.int64)  # the first one
        users = self._data.sizes[:1].argmax(1)
        steps = min(_TIMED, int(group.work.count(self._data.sizes[0, users]).steps[0]))
        specs = [*self._task.learners.values()]
        brief_work = {"local_steps": steps, "local_epochs": None}
        brief = {member: specs[member].model_copy(update=brief_work) for member in members}
        cohort = Cohort(replicas, users, np.zeros(1, np.int64), (slice(0, 1),))
        lanes = np.array(members) * self._replica_count
        bases = self._versions.newest[lanes][None]
        LearnerGroup(brief, self._architecture, self._data).train_cohort(bases, self._sampler, cohort)

    @property
    def diverged(self) -> tuple[Divergence, ...]:
        """Lanes whose training has diverged."""
        self._servers.find_diverged()
        return self._servers.diverged

    def version(self, lane: int) -> Floats:
        """Return the current version of *lane*, ``[size + 1]``."""
        return np.array(self._versions.newest[lane].cpu().double().numpy())

    @torch.inference_mode()
    def predict(self, lane: int, x: NDArray[np.float32]) -> Ints:
        """Return the labels that the current model of *lane* predicts for the examples *x*."""
        theta = self._versions.newest[lane : lane + 1, :-1]
        model = self._architecture.open(theta, trained=False)
        layer_bytes = self._architecture.largest_layer * theta.element_size()
        labels: list[Ints] = []
        for part in evaluation_slices(len(x), layer_bytes=layer_bytes):
            examples = tensor(x[part]).to(theta)
            scores = model.scores(examples[None])[0]  # [examples, classes]
            labels.append(scores.argmax(1).cpu().numpy())
        return np.concatenate(labels)

    def _make_versions(self, rounds: Sequence[Round | None], closed_s: float) -> None:
        """Make the next version of each lane, and forget the versions from which no update will start."""
        index = self._versions.number + 1
        newest = self._versions.newest
        kept = newest.unbind()
        following = [*kept]
        if any(round_ is not None and round_.merges for round_ in rounds):
            self._merge(rounds, following, closed_s)
        else:
            for lane, current in enumerate(following):
                of_lane = rounds[lane % self._replica_count]
                if of_lane is not None and not of_lane.deliveries:
                    following[lane] = self._servers.idle(lane, current, index)
            self._unsummed.train(rounds, self._own_bases)
            self._train(Cohort.of(rounds, self._link_values), following, {}, closed_s)
        versions = newest  # kept where no lane changes: neither copied nor checked
        has_updates = any(round_ is not None and round_.all_deliveries() for round_ in rounds)
        if has_updates or any(version is not before for version, before in zip(following, kept, strict=True)):
            versions = self._servers.accept_finite(following, newest, index)
        self._versions.add(versions, self._servers.messages(), rounds, self._base_rule.needed())
        self._in_vain.repeats.forget(self._versions.in_use)
        if self._nodes is None:
            self._repeats.forget(self._versions.in_use)
        else:
            self._nodes.forget(rounds)
            self._repeats.forget(self._versions.in_use, self._nodes.kept)

    def _merge(self, rounds: Sequence[Round | None], following: list[Tensor], closed_s: float) -> None:
        """Make the versions of all merges of *rounds*, wave by wave; those of the server are *following*."""
        assert self._nodes is not None
        index = self._versions.number + 1
        for wave in waves_of_replicas(rounds):
            # the newest versions of the nodes that merge, which training and aggregation replace
            of_nodes: defaultdict[int, dict[int, Tensor]] = defaultdict(dict)
            for replica, merge in wave:
                if merge.node != SERVER:
                    models = self._nodes.newest(replica, merge.node)
                    of_nodes[merge.node].update(zip(self._nodes.lanes(replica), models, strict=True))
            self._train(Cohort.of_merges(wave, self._link_values), following, of_nodes, closed_s)

            # merges of models, and those without deliveries
            for replica, merge in wave:
                versions = following if merge.node == SERVER else of_nodes[merge.node]
                lanes = self._nodes.lanes(replica)
                if merge.models:
                    self._mix(replica, merge, versions)
                elif not merge.deliveries:
                    for lane in lanes:
                        versions[lane] = self._servers.idle(lane, versions[lane], index, merge.node)
                if merge.node != SERVER:
                    self._nodes.add(replica, merge.version, torch.stack([versions[lane] for lane in lanes]))

    def _mix(self, replica: int, merge: Merge, versions: list[Tensor] | dict[int, Tensor]) -> None:
        """Replace the lanes of a replica in *versions* by the mean of the models of a merge."""
        assert self._nodes is not None
        models = [self._nodes.model(replica, node, number) for node, number, _ in merge.models]
        weights = [weight for *_, weight in merge.models]
        by_lane = torch.stack(models, dim=1)  # [learners, models, size + 1]
        for lane, of_lane in zip(self._nodes.lanes(replica), by_lane, strict=True):
            versions[lane] = self._servers.merge_models(lane, versions[lane], of_lane, weights)

    def _train(self, cohort: Cohort, following: list[Tensor], of_nodes: _NodeLanes, closed_s: float) -> None:
        """Train *cohort* for all learners, and replace lanes in *following* and *of_nodes* by the next versions."""
        if not len(cohort.users):
            return
        cohort = self._in_vain.count(self._repeats.count(cohort))
        if self._nodes is not None and cohort.nodes is not None:
            cohort = replace(cohort, base_rounds=self._nodes.clocks(cohort))
        self._metrics.add_deliveries(self._versions.number + 1, cohort)
        pieces = [piece for group in self._groups for piece in group.pieces(cohort)]
        for group, piece in pieces:
            self._train_and_aggregate(group, piece, following, of_nodes, closed_s)
            if len(pieces) > 1:
                self._servers.release_updates(following)
        self._base_rule.close(cohort, self._versions.number + 1)

    def _train_and_aggregate(
        self, group: LearnerGroup, cohort: Cohort, following: list[Tensor], of_nodes: _NodeLanes, closed_s: float
    ) -> None:
        """Train *cohort* for the learners of *group*, and replace their lanes by the next versions; see `_train`."""
        trained = self._train_users(group, cohort)
        is_done = np.zeros(trained.lanes.shape, bool)
        if self._can_step_together(cohort, trained.result.models):
            is_done = self._step_together(trained, following)
        if not is_done.all():
            self._step_lanes(trained, is_done, following, of_nodes, closed_s)
            self._servers.check_updates(trained.lanes, cohort, trained.users, trained.result.models)

    def _train_users(self, group: LearnerGroup, cohort: Cohort) -> _Trained:
        """Train *cohort* for the learners of *group*, and code what the server reads of it."""
        self._train_in_vain(group, cohort)
        lanes, numbers, bases, result = self._train_devices(group, cohort, self._sampler)
        result = replace(result, models=self._devices.sent(bases, result.models, cohort, lanes))
        self._store.add(cohort)  # before the aggregations of these users write their rows

        received = None
        if self._coder is not None:
            coded = self._coder.code(bases, result.models, cohort, lanes)
            result = replace(result, models=coded.models)
            received = coded.received
        if self._baseline is not None:
            self._baseline.step(self._versions.number + 1, cohort, self._sampler, group, result.step_counts)
        return _Trained(cohort, lanes, numbers, upload(cohort.users, self._data.x.device), bases, result, received)

    def _train_in_vain(self, group: LearnerGroup, cohort: Cohort) -> None:
        """Train what the users of *cohort* trained in vain before, for learners of *group* whose devices keep it."""
        if cohort.lost_bases is None:
            return
        if group.members not in self._keeping:
            self._keeping[group.members] = group.among(lambda spec: spec.on_loss == "keep")
        keeping = self._keeping[group.members]
        if keeping is None:
            return
        for trainings in cohort.trainings_in_vain():
            self._train_devices(keeping, trainings, self._in_vain.sampler)

    def _own_bases(self, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the base of each user of *cohort* in *lanes*, as `_base_models`."""
        return self._base_models(cohort, self._base_rule.numbers(cohort, lanes), lanes)

    def _train_devices(
        self, group: LearnerGroup, cohort: Cohort, sampler: BatchSampler
    ) -> tuple[Ints, Ints, Tensor, LocalResult]:
        """Train *cohort* for the learners of *group*, and let its devices keep what they keep.

        Returns:
            The lanes and the numbers of the bases, ``[users, members]``; the models from which the server reads
            changes, ``[users, members, size + 1]``; and the result.
        """
        lanes = np.array(group.members) * self._replica_count + cohort.replicas[:, None]  # [users, members]
        numbers = self._base_rule.numbers(cohort, lanes)
        versions = self._base_models(cohort, numbers, lanes)
        bases = self._devices.bases(versions, cohort, lanes)
        starts = self._devices.starts(bases, cohort, lanes)
        result = group.train_cohort(
            starts,
            sampler,
            cohort,
            lambda rows: self._drift(cohort, numbers, lanes, rows),
            self._devices.momentum(bases, cohort, lanes),
        )
        self._own_trainings.train(group.members, versions, sampler, cohort, lanes)
        self._devices.keep(starts, result.models, result.momentum, cohort, lanes)
        return lanes, numbers, bases, result

    def _step_lanes(
        self,
        trained: _Trained,
        is_done: NDArray[np.bool_],
        following: list[Tensor],
        of_nodes: _NodeLanes,
        closed_s: float,
    ) -> None:
        """Aggregate what was *trained*, lane by lane, except where it *is_done*, ``[users, members]``."""
        cohort, lanes, result = trained.cohort, trained.lanes, trained.result
        index = self._versions.number + 1
        device = self._data.x.device
        links = {name: upload(values, device, result.models.dtype) for name, values in cohort.links.items()}
        clocks = trained.numbers if cohort.base_rounds is None else cohort.base_rounds[:, None]
        columns = cohort.split_into_parts(
            trained.users,
            result.samples,
            result.steps,
            upload(clocks, device),
            trained.bases,
            result.models,
            result.rates,
        )
        for part, (users, samples, steps, base_rounds, *of_members) in zip(cohort.parts, columns, strict=True):
            replica = int(cohort.replicas[part.start])
            node = cohort.node_of(part)
            versions = following if node == SERVER else of_nodes[node]
            losses = self._base_losses(trained, part)
            has_repeats = len({*cohort.users[part].tolist()}) < len(users)

            # what differs between the members: views of the columns
            lanes_of_part = lanes[part.start].tolist()
            members = len(lanes_of_part)
            has_stepped = is_done[part.start].tolist()
            numbers = by_member(trained.numbers[part], members)
            received = _received_by_member(trained, part, members)
            times_of_bases = base_rounds.unbind(1) * (members // base_rounds.shape[1])  # one for all, or one for each
            bases, models, rates = (column.unbind(1) for column in of_members)
            for member, lane in enumerate(lanes_of_part):
                if has_stepped[member]:
                    continue
                reads_links = self._specs[lane].aggregation.reads_links
                updates = Updates(
                    round=index,
                    users=users,
                    base_rounds=times_of_bases[member],
                    bases=bases[member],
                    models=models[member],
                    samples=samples,
                    steps=steps,
                    rates=rates[member],
                    newest_rates=self._servers.newest_rates(lane, index),
                    losses=losses.get(lane),
                    messages=self._messages(cohort, part, numbers[member], lane),
                    has_repeats=has_repeats,
                    received=received[member],
                    links={name: values[part] for name, values in links.items() if name in reads_links},
                    draws=RuleDraws(self._streams[replica], node, index, bases[member]),
                    not_summed=self._unsummed.changes.get(lane),
                )
                if node == SERVER:
                    versions[lane] = self._servers.step(lane, versions[lane], updates, closed_s)
                else:
                    versions[lane] = self._servers.step_node(lane, node, versions[lane], updates, closed_s)

    def _base_models(self, cohort: Cohort, numbers: Ints, lanes: Ints) -> Tensor:
        """Return the base of each user and member, ``[users, members, size + 1]``.

        *numbers* are those of `BaseRule.numbers` for the users of *cohort* in *lanes*.
        """
        if self._nodes is None or cohort.nodes is None:
            return self._versions.of(numbers, lanes)
        return self._nodes.of(cohort, lanes)

    def _messages(self, cohort: Cohort, part: slice, numbers: Ints, lane: int) -> Tensor | None:
        """Return the messages of *lane* that came with the bases *numbers* of a part, ``[n, …]``, or ``None``."""
        if self._nodes is None or cohort.nodes is None:
            return self._versions.messages(numbers, lane)
        return self._nodes.messages(int(cohort.replicas[part.start]), cohort.node_of(part), numbers, lane)

    def _step_together(self, trained: _Trained, following: list[Tensor]) -> NDArray[np.bool_]:
        """Aggregate the single updates of all lanes; return a mask of the lanes that are done, ``[users, members]``."""
        result = trained.result
        _, members = trained.lanes.shape
        lanes = trained.lanes.ravel()
        newest_rates = self._servers.all_newest_rates(self._versions.number + 1)
        updates = SingleUpdates(
            users=trained.users.repeat_interleave(members),
            bases=trained.bases.flatten(0, 1),
            models=result.models.flatten(0, 1),
            rates=result.rates.flatten(0, 1),
            newest_rates=newest_rates[upload(lanes, trained.bases.device)],
        )
        is_done = self._servers.step_together(lanes, updates, following)
        return is_done.reshape(trained.lanes.shape)

    def _can_step_together(self, cohort: Cohort, models: Tensor) -> bool:
        """Return whether rules may step all lanes at once: each has one whole update, of a small model on a CPU."""
        return (
            not runs_on_gpu(models.device)
            and cohort.nodes is None
            and len(cohort.parts) == len(cohort.users)
            and self._coder is None
            and not self._architecture.buffers
            and is_faster_together(*models.shape[1:])
        )

    def _drift(self, cohort: Cohort, numbers: Ints, lanes: Ints, rows: slice) -> Tensor | None:
        """Return the `Aggregation.drift` of the users in *rows*, ``[users, members, size + 1]``.

        *numbers* are those of `BaseRule.numbers` for the users of *cohort* in *lanes*.
        """
        if not self._servers.has_drift:
            return None
        newest = self._versions.newest
        members = lanes.shape[1]
        all_users = upload(cohort.users[rows], newest.device)
        drifts: Tensor | None = None
        for part in cohort.parts_within(rows):
            of_part = slice(part.start - rows.start, part.stop - rows.start)  # among the rows
            users = all_users[of_part]
            numbers_by_member = by_member(numbers[part], members)
            for member, lane in enumerate(lanes[part.start].tolist()):
                messages = self._messages(cohort, part, numbers_by_member[member], lane)
                drift = self._servers.drift(lane, cohort.node_of(part), users, messages)
                if drift is None:
                    continue
                if part == rows and members == 1:  # all users, in one lane
                    return drift[:, None]
                if drifts is None:
                    drifts = newest.new_zeros(len(all_users), members, newest.shape[1])
                drifts[of_part, member] = drift
        return drifts

    def _base_losses(self, trained: _Trained, part: slice) -> dict[int, Tensor]:
        """Return the mean loss of each user's base over its training examples, ``[users]``, for lanes that need it.

        A GPU evaluates lanes with the same bases together.  On a CPU, this would change the last bits.
        """
        cohort, numbers = trained.cohort, trained.numbers
        lanes = trained.lanes[part.start].tolist()
        members_of_lanes = {lane: member for member, lane in enumerate(lanes) if self._servers.needs_losses(lane)}
        if members_of_lanes and numbers.shape[1] == 1 and runs_on_gpu(self._data.x.device):
            losses = self._losses_of(cohort, part, numbers[part, 0], [*members_of_lanes])
            return dict(zip(members_of_lanes, losses.unbind(1), strict=True))
        bases = by_member(numbers[part], len(lanes))
        return {
            lane: self._losses_of(cohort, part, bases[member], [lane])[:, 0]
            for lane, member in members_of_lanes.items()
        }

    def _losses_of(self, cohort: Cohort, part: slice, bases: Ints, lanes: Sequence[int]) -> Tensor:
        """Return the losses of the users of a part from their *bases*, ``[users, lanes]``; *lanes* of one replica."""
        users = cohort.users[part]
        replica = lanes[0] % self._replica_count
        first_user = cohort.select(slice(part.start, part.start + 1))
        newest = self._versions.newest
        rows_by_base: list[Ints] = []
        losses: list[Tensor] = []
        for base in np.unique(bases):  # the users of one base are evaluated together
            rows = np.flatnonzero(bases == base)
            of_base = replace(first_user, bases=base.reshape(1))
            models = self._base_models(of_base, base.reshape(1, 1), np.array([lanes]))[0, :, :-1]
            losses_of_rows = user_losses(self._architecture, self._data, replica, users[rows], models)
            losses.append(losses_of_rows.to(newest))
            rows_by_base.append(rows)
        if len(losses) == 1:
            return losses[0]
        order = np.argsort(np.concatenate(rows_by_base))  # back to the order of the part
        return torch.cat(losses)[upload(order, newest.device)]

    @property
    def _feedback_lanes(self) -> range:
        """The lanes of the learner that answers the queries of accesses."""
        names = [*self._task.learners]
        name = self._task.feedback_learner
        if name is None and len(names) > 1:
            raise ValueError("an access uses the learners' reports, but does not name a learner")
        number = 0 if name is None else names.index(name)
        return range(number * self._replica_count, (number + 1) * self._replica_count)

    def _answer(self, rounds: Sequence[Round | None]) -> tuple[Mapping[str, Floats], ...]:
        """Answer the queries of each replica's access about the newest version: a value for each user of a query."""
        lanes = self._feedback_lanes
        group = LearnerGroup({0: self._specs[lanes[0]]}, self._architecture, self._data)
        queries: dict[tuple[int, str], Ints] = {}
        for lane, round_ in zip(lanes, rounds, strict=True):
            if round_ is not None:
                for query, users in round_.queries.items():
                    queries[lane, query] = np.array(users, np.int64)
        on_device = {
            (lane, query): self._answer_query(query, group, lane, users) for (lane, query), users in queries.items()
        }
        answers: dict[int, dict[str, Floats]] = {lane: {} for lane in lanes}
        for (lane, query), values in read_together(on_device).items():
            broken = np.flatnonzero(~np.isfinite(values))
            if broken.size:
                problem = self._servers.divergence_text(lane, f"{query} of version {self._versions.number}")
                raise ModelError(self._servers.name(lane), problem, user=int(queries[lane, query][broken[0]]))
            answers[lane][query] = values
        return tuple(answers.values())

    def _answer_query(self, query: str, group: LearnerGroup, lane: int, users: Ints) -> Tensor:
        """Return the loss of each of *users*, or the norm of the change of θ if it trained; *group* is the learner."""
        if query not in QUERIES:
            raise ModelError("access", f"no query to the learners ('{query}'); name one of {', '.join(QUERIES)}")
        version = self._versions.newest_sent[lane]
        if not users.size:
            return version.new_empty(0)
        replica = lane % self._replica_count
        if query == "loss":
            return user_losses(self._architecture, self._data, replica, users, version[None, :-1])[:, 0]
        bases = np.full_like(users, self._versions.number)
        cohort = Cohort(np.full_like(users, replica), users, bases, (slice(0, len(users)),))
        return self._change_norms(group, lane, cohort, version)

    def _change_norms(self, group: LearnerGroup, lane: int, cohort: Cohort, version: Tensor) -> Tensor:
        """Return the norms ``‖θ_k - base_k‖`` of the changes if the users trained from *version*, ``[users]``."""
        max_jobs = group.max_jobs(cohort)
        parameters = self._architecture.trained
        norms: list[Tensor] = []
        for start in range(0, len(cohort.users), max_jobs):  # in parts, because all models together may be large
            part = cohort.select(slice(start, min(start + max_jobs, len(cohort.users))))
            lanes = np.full((len(part.users), 1), lane)
            bases = self._devices.bases(version.expand(len(part.users), 1, -1), part, lanes)
            starts = self._devices.starts(bases, part, lanes)
            momentum = self._devices.momentum(bases, part, lanes)
            models = group.train_cohort(starts, self._sampler, part, momentum=momentum).models
            sent = self._devices.sent(bases, models, part, lanes)
            change = (sent - bases)[:, 0, :parameters].double()
            norms.append(change.square().sum(1).sqrt())
        return torch.cat(norms)
