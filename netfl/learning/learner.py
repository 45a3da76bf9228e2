"""The learner: trains only what was delivered, from the version that its user had, all lanes in one batch.

A lane is one learner in one replica.  Versions are stacked over lanes, learner by learner and within that replica by
replica: ``[lanes, parameters + 1]``, θ and, last, the objective's t.  A round looks up the base of each delivery,
trains those users for every learner at once, and aggregates lane by lane; the result is the next version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from netfl.errors import MachineError
from netfl.learning.aggregation import Updates
from netfl.learning.batch_limits import evaluation_slices, torch_threads
from netfl.learning.cohort import Cohort, RepeatCounter
from netfl.learning.data import Dataset, Examples
from netfl.learning.evaluation import Evaluation
from netfl.learning.local_training import LearnerGroup, group_learners
from netfl.learning.metrics import Metrics
from netfl.learning.minibatches import BatchSampler
from netfl.learning.model import Model
from netfl.learning.model_versions import Versions
from netfl.learning.queries import LearnerQueries
from netfl.learning.server_state import LaneServers
from netfl.learning.spec import EvaluateSpec, LearnerSpec
from netfl.learning.tensors import device_of, tensor
from netfl.learning.user_data import UserDatasets
from netfl.learning.user_losses import user_losses
from netfl.streams import Streams
from netfl.types import Divergence, LearnerReport, Round


class BatchedLearner:
    """All learners of a run, in all its replicas.

    Args:
        learners: by name.
        model: what they train.
        datasets: of each replica; may be one object for all.
        splits: for each replica the rows of each user.
        evaluate: when to evaluate, and what is told.
        rare_classes: whose accuracy is reported together.
        validation: of each replica the examples to validate with; empty where nothing is validated.
        rounds: how many there will be; the last is evaluated.
        streams: each replica's random streams for learning.
        heard: by replica in what share of the rounds users are heard, where the access states it.
        device: ``cpu``, ``cuda``, or ``auto`` for the one that is there.
        first: the number of the first of the replicas.
        tokens: how many there are, where examples are rows of tokens.
        follows: the learner that answers what accesses ask; ``None`` for the only one.
        dtype: of all arithmetic.
        team: all learners of the run, where these lanes are a part of it.
    """

    def __init__(
        self,
        *,
        learners: Mapping[str, LearnerSpec],
        model: Model,
        datasets: Sequence[Dataset],
        splits: Sequence[Sequence[NDArray[np.int64]]],
        evaluate: EvaluateSpec,
        rare_classes: tuple[int, ...],
        validation: Sequence[Examples] = (),
        rounds: int,
        streams: Sequence[Streams],
        heard: Mapping[int, NDArray[np.float64]] = {},
        device: str = "auto",
        first: int = 0,
        follows: str | None = None,
        tokens: int | None = None,
        dtype: torch.dtype = torch.float32,
        team: Sequence[LearnerSpec] = (),
    ) -> None:
        self.lanes = tuple((name, first + replica) for name in learners for replica in range(len(datasets)))
        self._specs = [learners[name].informed(heard.get(replica)) for name, replica in self.lanes]
        self._replicas, self._every, self._rounds = len(datasets), evaluate.every, rounds
        self._network = model.open(datasets[0].train_x.shape[1:], datasets[0].classes, tokens)
        self._pool = UserDatasets(datasets, splits, device_of(device), dtype, streams)
        self._groups = group_learners([*learners.values()], self._network, self._pool)
        self._shuffles, self._turns = BatchSampler(streams), RepeatCounter()
        self._voice = [*learners].index(follows) if follows is not None else 0 if len(learners) == 1 else None
        replicas = [replica - first for _, replica in self.lanes]
        starts = np.stack([self._network.start(one.at("start")) for one in streams])
        origins = tensor(np.pad(starts, ((0, 0), (0, 1)))).to(self._pool.x)
        self._servers = LaneServers(self.lanes, self._specs, self._pool.sizes.shape[1], origins[replicas], not team)
        self._versions = Versions(origins[replicas], self._servers.messages())
        evaluation = Evaluation(datasets, splits, replicas, rare_classes, self._pool.x, validation)
        told = evaluate, evaluation, self._network, self._pool
        self._metrics = Metrics(*told, self._specs, self._servers, origins[replicas], team)

    @torch.inference_mode()
    def start(self) -> LearnerReport:
        """The evaluation of version 0."""
        figures = self._metrics.figures(self._versions.newest, 0)
        return LearnerReport(0, figures, diverged=self._servers.fresh((), 0.0))

    @torch.inference_mode()
    def step(self, rounds: Sequence[Round]) -> LearnerReport:
        """Make the next version of every lane.

        Args:
            rounds: one of each replica, in order, all of one index.

        Returns:
            The evaluation of that version, if one is due; what accesses asked about it; and which lanes diverged.

        Raises:
            ModelError: no lane is left whose training has not diverged, nor one that an access listens to; an answer
                is not finite; it says whose.
        """
        index = self._versions.number + 1
        if len(rounds) != self._replicas or any(one.index != index for one in rounds):
            raise ValueError(f"round {index} of {self._replicas} replicas is due")
        closed_s = max(one.closed_s for one in rounds)
        following, cohort = list(self._versions.newest), self._turns.count(Cohort.of(rounds))
        for lane, current in enumerate(following):
            if not rounds[lane % self._replicas].deliveries:
                following[lane] = self._servers.idle(lane, current, index)
        if len(cohort.users):
            self._metrics.hear(index, cohort)
            pieces = [piece for group in self._groups for piece in group.pieces(cohort)]
            for group, piece in pieces:
                self._learn(group, piece, following, closed_s)
                if len(pieces) > 1:
                    self._servers.release(following)
        versions = self._servers.settled(following, self._versions.newest, index)
        self._versions.add(versions, self._servers.messages(), rounds)
        self._turns.forget(self._versions.oldest)
        due = index % self._every == 0 or index == self._rounds
        figures = self._metrics.figures(self._versions.newest, index) if due else {}
        heeded = self._heeded if any(one.asks for one in rounds) else range(0)
        diverged = self._servers.fresh(heeded, closed_s)
        return LearnerReport(index, figures, self._answers(rounds) if heeded else (), diverged)

    def state(self) -> dict[str, Any]:
        """All that `restore` needs, in tensors (its own: copy them before the next step), words, lists, dicts."""
        return {
            "lanes": [list(lane) for lane in self.lanes],
            "round": self._versions.number,
            "versions": self._versions.state(),
            "servers": self._servers.state(),
            "metrics": self._metrics.state(),
            "turns": self._turns.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from *state*.

        Raises:
            MachineError: it is the state of other lanes or of another model.
        """
        shapes = {kept.shape for kept in state["versions"]["kept"].values()}
        if [tuple(lane) for lane in state["lanes"]] != [*self.lanes] or shapes != {self._versions.newest.shape}:
            raise MachineError("the kept state is that of other learners, or of another model")
        self._versions.restore(int(state["round"]), state["versions"])
        self._metrics.restore(state["metrics"])
        self._turns.restore(state["turns"])
        self._servers.restore(state["servers"], self._pool.x.device)

    def working(self) -> AbstractContextManager[None]:
        """Let torch have as many threads as pay, for as long as this lasts."""
        batch = max(group.amount.of(self._pool.sizes.ravel())[0].max() for group in self._groups)
        return torch_threads(len(self.lanes) * batch * self._network.size)

    @property
    def diverged(self) -> tuple[Divergence, ...]:
        """The lanes whose training has diverged so far."""
        return self._servers.diverged

    def version(self, lane: int) -> NDArray[np.float64]:
        """The current θ and, last, t of a lane."""
        return np.array(self._versions.newest[lane].cpu().double().numpy())

    @torch.inference_mode()
    def predict(self, lane: int, x: NDArray[np.float32]) -> NDArray[np.int64]:
        """The labels that a lane's current model gives to examples *x*."""
        theta = self._versions.newest[lane : lane + 1, :-1]
        stack = self._network.open(theta, trained=False)
        parts = (tensor(x[part]).to(theta) for part in evaluation_slices(len(x)))
        return np.concatenate([stack.scores(part[None]).argmax(2)[0].cpu().numpy() for part in parts])

    def _learn(self, group: LearnerGroup, cohort: Cohort, following: list[Tensor], closed_s: float) -> None:
        """Train *cohort* for the learners of *group*, and put their next versions into *following*."""
        replicas, users, device = cohort.replicas, cohort.users, self._pool.x.device
        lanes = np.array(group.members) * self._replicas + replicas[:, None]
        bases = self._versions.of(cohort.bases, lanes)
        whose, since = (tensor(one).to(device) for one in (users, cohort.bases))
        trained = group.updated(bases, self._shuffles, cohort, lambda here: self._drift(cohort, lanes, here))
        self._metrics.train(self._versions.number + 1, cohort, self._shuffles, group, trained)
        samples, index = tensor(self._pool.sizes[replicas, users]).to(bases), self._versions.number + 1
        sent = cohort.dealt(whose, since, bases, trained.models, samples, trained.steps, trained.rates)
        for mine, (who, base_rounds, *several, held, steps, rates) in zip(cohort.parts, sent, strict=True):
            each = (one.unbind(1) for one in (*several, rates))
            for lane, base, model, rate in zip(lanes[mine.start].tolist(), *each, strict=True):
                losses = self._losses(cohort, mine, lane) if self._servers.wants_losses(lane) else None
                now, messages = self._servers.now(lane, index), self._versions.messages(cohort.bases[mine], lane)
                told = Updates(index, who, base_rounds, base, model, held, steps, rate, now, losses, messages)
                following[lane] = self._servers.step(lane, following[lane], told, closed_s)

    def _drift(self, cohort: Cohort, lanes: NDArray[np.int64], here: slice) -> Tensor | None:
        """What those of *cohort* who are *here* add to their gradients, ``[users, members, parameters + 1]``."""
        found, newest, count = None, self._versions.newest, here.stop - here.start
        for mine in cohort.within(here):
            users = tensor(cohort.users[mine]).to(newest.device)
            for column, lane in enumerate(lanes[mine.start].tolist()):
                own = self._servers.drift(lane, users, self._versions.messages(cohort.bases[mine], lane))
                if own is not None and mine == here and lanes.shape[1] == 1:
                    return own[:, None]
                if own is not None:
                    found = newest.new_zeros(count, lanes.shape[1], newest.shape[1]) if found is None else found
                    found[mine.start - here.start : mine.stop - here.start, column] = own
        return found

    def _losses(self, cohort: Cohort, mine: slice, lane: int) -> Tensor:
        """How well the bases of *lane* do on what those of *cohort* hold who are *mine*, ``[users]``."""
        users, bases, found = cohort.users[mine], cohort.bases[mine], np.empty(mine.stop - mine.start)
        for base in np.unique(bases):
            there = bases == base
            model = self._versions.of(bases[there][:1], np.array([[lane]]))[0, :, :-1]
            found[there] = user_losses(self._network, self._pool, lane % self._replicas, users[there], model)[:, 0]
        return tensor(found).to(self._versions.newest)

    @property
    def _heeded(self) -> range:
        """The lanes of the learner that accesses ask.

        Raises:
            ValueError: nobody said which.
        """
        if self._voice is None:
            raise ValueError("an access asks the learners, and does not say which of them")
        return range(self._voice * self._replicas, (self._voice + 1) * self._replicas)

    def _answers(self, rounds: Sequence[Round]) -> tuple[Mapping[str, NDArray[np.float64]], ...]:
        """What each replica's access asked about the version that was just made."""
        lanes = self._heeded
        own = LearnerGroup({0: self._specs[lanes[0]]}, self._network, self._pool)
        answers = LearnerQueries(
            own, self._network, self._pool, self._shuffles, [self._servers.name(one) for one in lanes]
        )
        return tuple(
            answers.to(one.asks, replica, self._versions.number, self._versions.newest[lane])
            for replica, (lane, one) in enumerate(zip(lanes, rounds, strict=True))
        )
