"""Local SGD of the delivered users, for several learners at once.

`netfl.learning.learner.BatchedLearner.step` calls `LearnerGroup.train_cohort`.  The SGD step itself is the loop in
`LearnerGroup._run_sgd`; the gradients are those of the batched model (`netfl.learning.architecture.BatchedModel`).
A *job* is a pair of a learner and a delivered user.  Jobs lie user by user, and within a user learner by learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from netfl.learning.batch_limits import max_jobs_at_once
from netfl.learning.batch_loader import BatchInputs, BatchLoader
from netfl.learning.cohort import Cohort
from netfl.learning.minibatches import Batches, BatchSampler
from netfl.learning.module_training import TrainingStep
from netfl.learning.step_graphs import StepGraphs
from netfl.learning.step_sizes import StepSizes
from netfl.learning.tensors import runs_on_gpu, upload
from netfl.learning.training_phases import FrozenValues, TrainingPhases
from netfl.types import Ints

if TYPE_CHECKING:
    from netfl.learning.architecture import Architecture, BatchedModel
    from netfl.learning.objective import Objective
    from netfl.learning.spec import LearnerSpec, LocalWork
    from netfl.learning.user_data import UserDatasets


@dataclass(frozen=True, slots=True)
class LocalResult:
    """The updates of a cohort.

    Args:
        models: θ and t after training, ``[users, members, size + 1]``.
        steps: local steps of each user, ``[users]``.
        samples: examples that each user holds, ``[users]``.
        step_counts: the local steps on the host.
        rates: step sizes on θ and on t, ``[users, members, 2]``.
        momentum: the momentum buffer of θ at the end, in the shape of *models*, if one was given.
    """

    models: Tensor
    steps: Tensor
    samples: Tensor
    step_counts: Ints
    rates: Tensor
    momentum: Tensor | None = None


class JobInputs(NamedTuple):
    """Tensors with which jobs train side by side, on the device.

    Args:
        theta: θ, its buffers and t of each job, ``[jobs, size + 1]``.
        rates: step sizes on θ and t, ``[jobs, 2]``.
        drift: terms that are added to all gradients, ``[jobs, size + 1]``.
        keys: of each step and user, ``[steps, users]``, for a model with a training mode.
        momentum: the momentum buffer of θ at the start, ``[jobs, size + 1]``; ``None`` for 0.
        head_steps: number of first steps that train the personal layers alone, ``[jobs]``, if a learner has such steps.
    """

    theta: Tensor
    rates: Tensor
    drift: Tensor | None
    keys: Tensor | None
    momentum: Tensor | None
    head_steps: Tensor | None


class LearnerGroup:
    """Learners by number, with the same amount of local work, which therefore train side by side, step by step."""

    def __init__(
        self,
        learners: Mapping[int, LearnerSpec],
        architecture: Architecture,
        data: UserDatasets,
        graphs: StepGraphs | None = None,
    ) -> None:
        self.members = tuple(learners)
        self._learners = learners
        self._specs = tuple(learners.values())
        self.work = self._specs[0].local_work
        self._architecture = architecture
        self._data = data
        self._graphs = graphs
        self._largest_job = self._job_size(data.sizes)

        # the terms of a step: momentum m, weight decay λ and pull μ of each learner, [members, 3]
        terms = np.array([(spec.momentum, spec.weight_decay, spec.objective.pull) for spec in self._specs])
        self._terms = upload(terms, data.x.device, data.x.dtype)
        self._has_terms = np.any(terms, axis=0).tolist()
        self._phases = TrainingPhases.of(self._specs, architecture, data.x)
        self._step_sizes = StepSizes(self._specs, data.x)

        # the objectives, and what need not be computed for them
        objectives = [spec.objective for spec in self._specs]
        self._objectives = batch_objectives(self._specs, data.x)
        self._has_t = any(objective.t_rate for objective in objectives)
        self._has_equal_weights = all(objective.has_equal_weights for objective in objectives)
        # The check for weights of 0 pays if all objectives give them; a GPU would have to be synchronized.
        self._can_skip_backward = not runs_on_gpu(data.x.device) and all(
            objective.has_zero_weights for objective in objectives
        )

    def max_jobs(self, cohort: Cohort) -> int:
        """Return the number of jobs that train at once if each holds as many examples as the largest of *cohort*."""
        max_jobs = max_jobs_at_once(self._largest_job, self._data.numbers_at_once)
        if len(cohort.users) * len(self.members) <= max_jobs:  # even jobs of the user with the most examples fit
            return max_jobs
        sizes = self._data.sizes[cohort.replicas, cohort.users]
        return max_jobs_at_once(self._job_size(sizes), self._data.numbers_at_once)

    def _job_size(self, sizes: Ints) -> int:
        """Return the parameters and the mini-batches of the largest job of users with *sizes* examples."""
        work = self.work.count(sizes)
        steps = int(work.steps.max())
        width = int(work.width.max())
        indices = width * steps  # of the examples in all mini-batches
        examples = width * self._data.x[0].numel()  # in one of them
        return self._architecture.size + indices + examples

    def pieces(self, cohort: Cohort) -> Iterator[tuple[LearnerGroup, Cohort]]:
        """Cut the jobs into pieces that train at once: between replicas, and in a large replica between learners."""
        max_jobs = self.max_jobs(cohort)
        for piece in cohort.pieces(max_jobs // len(self.members)):
            max_members = max(1, max_jobs // len(piece.users))
            if max_members >= len(self.members):
                yield self, piece
                continue
            for start in range(0, len(self.members), max_members):
                members = self.members[start : start + max_members]
                learners = {member: self._learners[member] for member in members}
                yield LearnerGroup(learners, self._architecture, self._data, self._graphs), piece

    def among(self, is_wanted: Callable[[LearnerSpec], bool]) -> LearnerGroup | None:
        """Return the learners that are wanted as a group; ``None`` if none is."""
        learners = {member: spec for member, spec in self._learners.items() if is_wanted(spec)}
        if not learners:
            return None
        return LearnerGroup(learners, self._architecture, self._data, self._graphs)

    def train_cohort(
        self,
        bases: Tensor,
        sampler: BatchSampler,
        cohort: Cohort,
        drift: Callable[[slice], Tensor | None] = lambda _: None,
        momentum: Tensor | None = None,
    ) -> LocalResult:
        """Train *cohort* from *bases*, in batches of at most `max_jobs` jobs.

        Args:
            bases: θ, its buffers and t of each job, ``[users, members, size + 1]``.
            sampler: draws the mini-batches.
            cohort: the users.
            drift: returns the term added to all gradients of a slice of users, in the shape of their *bases*, or
                ``None``.
            momentum: the momentum buffer of θ at the start, in the shape of *bases*; ``None`` for 0.
        """
        users = len(cohort.users)
        max_users = max(1, self.max_jobs(cohort) // len(self.members))
        if users <= max_users:
            return self._train_batch(bases, sampler, cohort, drift(slice(0, users)), momentum)
        models = bases.new_empty(bases.shape)
        step_counts = np.empty(users, np.int64)
        momentum_after: Tensor | None = None
        if momentum is not None:
            momentum_after = torch.empty_like(momentum)
        for start in range(0, users, max_users):
            rows = slice(start, min(start + max_users, users))
            momentum_of_rows = None if momentum is None else momentum[rows]
            result = self._train_batch(bases[rows], sampler, cohort.select(rows), drift(rows), momentum_of_rows)
            models[rows] = result.models
            step_counts[rows] = result.step_counts
            if momentum_after is not None and result.momentum is not None:
                momentum_after[rows] = result.momentum
        return LocalResult(
            models=models,
            steps=upload(step_counts, bases.device, bases.dtype),
            samples=upload(self._data.sizes[cohort.replicas, cohort.users], bases.device, bases.dtype),
            step_counts=step_counts,
            rates=self._step_sizes.of(cohort.clocks),
            momentum=momentum_after,
        )

    def _train_batch(
        self, bases: Tensor, sampler: BatchSampler, cohort: Cohort, drift: Tensor | None, momentum: Tensor | None
    ) -> LocalResult:
        """Train all users of *cohort* side by side."""
        batches = sampler.draw(cohort, self._data.sizes[cohort.replicas, cohort.users], self.work)
        rates = self._step_sizes.of(cohort.clocks)
        keys: Tensor | None = None
        if self._architecture.has_training_mode:
            keys = upload(sampler.draw_keys(cohort, batches), bases.device)
        models, momentum = self._run_sgd(bases, cohort, batches, rates, drift, keys, momentum)
        layout = batches.layout.on(bases)
        return LocalResult(models, layout.steps, layout.samples, batches.layout.steps, rates, momentum)

    def _run_sgd(
        self,
        bases: Tensor,
        cohort: Cohort,
        batches: Batches,
        rates: Tensor,
        drift: Tensor | None,
        keys: Tensor | None,
        momentum: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Run all steps of all jobs; return θ and t after training, and the *momentum*, in the shape of *bases*.

        The objectives weigh the examples of a mini-batch.  ``descend`` makes the step ``θ -= lr Σ_b w_b ∇ℓ_b``, and t
        makes the step ``t -= t_rate ∂t``.  *keys*, ``[steps, users]``, are given for models with a training mode.
        """
        order = None if batches.layout.is_ordered else batches.order
        inputs = JobInputs(
            theta=_flatten_users(bases, order),
            rates=_flatten_users(rates, order),
            drift=None if drift is None else _flatten_users(drift, order),
            keys=keys,
            momentum=None if momentum is None else _flatten_users(momentum, order),
            head_steps=None if self._phases is None else self._phases.head_steps(batches.layout.per_pass),
        )
        loader = BatchLoader(self._data, cohort, batches, len(self.members))

        def descend(*tensors: Any) -> Tensor:
            """Run all steps with the tensors of *inputs*, and those of *loader* after them."""
            of_jobs = JobInputs(*tensors[: len(inputs)])
            of_batches = BatchInputs(*tensors[len(inputs) :])
            return self._descend(loader.with_inputs(of_batches), batches.counts, of_jobs)

        has_equal_counts = keys is None or bool((batches.counts == batches.counts[:1]).all())
        if self._graphs is not None and has_equal_counts and self._architecture.is_recordable:
            after = self._graphs.run((self.members, loader.extents), descend, (*inputs, *loader.inputs))
        else:
            after = self._descend(loader, batches.counts, inputs)
        results = [result.reshape(bases.shape) for result in torch.split(after, bases.shape[-1], dim=1)]
        if order is not None:  # back to the order of the cohort
            results = [_select_users(result, np.argsort(order)) for result in results]
        if momentum is None:
            return results[0], None
        return results[0], results[1]

    def _descend(self, loader: BatchLoader, counts: Ints, inputs: JobInputs) -> Tensor:
        """Run all steps of jobs; return θ and t after training, followed by the momentum if one is given.

        Args:
            loader: the mini-batches.
            counts: examples in each mini-batch, ``[users, steps]``.
            inputs: of the jobs.

        Returns:
            ``[jobs, size + 1]``, or ``[jobs, 2 (size + 1)]`` with the momentum.
        """
        members = len(self.members)
        users = len(inputs.theta) // members
        model = self._architecture.open(inputs.theta[:, :-1])
        t = inputs.theta[:, -1].clone()
        objectives = self._objectives
        if users > 1:
            objectives = tuple(of_kind.map(lambda value: value.repeat(users)) for of_kind in objectives)
        all_jobs = JobHyperparameters(len(t), inputs.rates[:, :1], inputs.rates[:, 1], objectives)
        corrections = self._corrections(model, inputs)
        if self._has_equal_weights:
            loader.scale_shares(all_jobs.lr)

        jobs = all_jobs  # those that make the step: the first ones, as jobs lie by their number of steps
        t_of_jobs = t
        for step, (batch, (jobs_in_step, _)) in enumerate(zip(loader, loader.extents, strict=True)):
            x, y, share = batch
            if jobs.count != jobs_in_step:
                jobs = all_jobs.first(jobs_in_step)
                t_of_jobs = t[:jobs_in_step]

            # forward
            if inputs.keys is None:
                model.scores(x)
            else:
                examples = np.repeat(counts[:, step], members).tolist()
                keys_of_jobs = inputs.keys[step].repeat_interleave(members)
                model.training_scores(x, TrainingStep(examples, keys_of_jobs))

            # weights of the examples, lr w_b, [jobs, batch]; the step of t
            if self._has_equal_weights:
                model.take_labels(y)
                weights = share  # with the step size
            else:
                weights = self._weigh(jobs, model.losses(y), share, t_of_jobs, inputs.drift)

            # backward: θ -= Σ_b lr w_b ∇ℓ_b, and the other terms of a step
            if corrections is not None:
                corrections.before(jobs_in_step)
            if not self._can_skip_backward or weights.any():
                model.descend(weights)
            if corrections is not None:
                corrections.after(jobs_in_step, step)
        after = model.finish(t, self._architecture.size)
        if inputs.momentum is None or corrections is None:
            return after
        return torch.cat([after, corrections.momentum_of(inputs)], dim=1)

    def _weigh(
        self, jobs: JobHyperparameters, losses: Tensor, share: Tensor, t: Tensor, drift: Tensor | None
    ) -> Tensor:
        """Make a step of *t* in place; return the weights of the examples, with the step size, ``[jobs, batch]``."""
        weights, t_gradient = jobs.weigh(losses, share, t)
        if drift is not None:
            t_gradient = t_gradient + drift[: jobs.count, -1]
        if self._has_t:
            t.addcmul_(jobs.t_rate, t_gradient, value=-1)
        return weights.mul(jobs.lr)

    def _corrections(self, model: BatchedModel, inputs: JobInputs) -> StepCorrections | None:
        """Return the terms of a step besides the gradient, with the symbols there; ``None`` if no job has any."""
        has_momentum, has_decay, has_pull = self._has_terms
        has_inputs = inputs.drift is not None or inputs.momentum is not None or self._phases is not None
        if not has_inputs and not any(self._has_terms):
            return None
        base = inputs.theta[:, :-1]
        lr = inputs.rates[:, 0]
        jobs = len(base)
        momentum, decay, pull = self._terms.repeat(jobs // len(self._terms), 1).T  # m, λ and μ, [jobs] each

        slope: Tensor | None = None
        if has_decay or has_pull:
            slope = -lr * (decay + pull)

        constant: Tensor | None = None  # μ base - d, [jobs, size]
        if has_pull:
            constant = pull[:, None] * base
        if inputs.drift is not None:
            drift = inputs.drift[:, :-1]
            constant = -drift if constant is None else constant.sub_(drift)
        constant_step: Sequence[Tensor] | None = None
        if constant is not None:
            constant_step = self._architecture.open(constant.mul_(lr[:, None])).values(jobs)

        moved: BatchedModel | None = None  # θ - θ⁻ = -lr v
        if inputs.momentum is not None:
            moved = self._architecture.open(inputs.momentum[:, :-1] * -lr[:, None])
        frozen: FrozenValues | None = None
        if self._phases is not None and inputs.head_steps is not None:
            frozen = self._phases.open(self._architecture, inputs.head_steps)
        return StepCorrections(model, jobs, slope, constant_step, momentum if has_momentum else None, moved, frozen)


def group_learners(
    specs: Sequence[LearnerSpec], architecture: Architecture, data: UserDatasets, graphs: StepGraphs | None
) -> list[LearnerGroup]:
    """Group learners that have the same `LearnerSpec.local_work`; they share *graphs*."""
    groups: dict[LocalWork, dict[int, LearnerSpec]] = {}
    for number, spec in enumerate(specs):
        groups.setdefault(spec.local_work, {})[number] = spec
    return [LearnerGroup(members, architecture, data, graphs) for members in groups.values()]


@dataclass(frozen=True, slots=True)
class ObjectiveBatch:
    """Objectives of one kind with the same bools in `Objective.hyper`, evaluated for all jobs.

    Args:
        gradient_weights: `Objective.gradient_weights` of the kind.
        hyper: hyper-parameters by name, ``[jobs]``, or a bool.
        is_used: whether a job has such an objective, ``[jobs]``.
    """

    gradient_weights: Callable[[Tensor, Tensor, Tensor, Mapping[str, Any]], tuple[Tensor, Tensor]]
    hyper: Mapping[str, Tensor | bool]
    is_used: Tensor

    def map(self, select: Callable[[Tensor], Tensor]) -> ObjectiveBatch:
        """Return the objectives of the jobs that *select* returns from a tensor with one entry for each job."""
        hyper: dict[str, Tensor | bool] = {}
        for name, value in self.hyper.items():
            hyper[name] = value if isinstance(value, bool) else select(value)
        return ObjectiveBatch(self.gradient_weights, hyper, select(self.is_used))


_ObjectiveKind = tuple[type["Objective"], tuple[tuple[str, bool], ...]]
"""Class of an objective, and the bools in its `Objective.hyper`."""


def batch_objectives(specs: Sequence[LearnerSpec], like: Tensor) -> tuple[ObjectiveBatch, ...]:
    """Batch the objectives of *specs* by kind, for the jobs of one user, in the type of *like*.

    Objectives with equal weights join those of another kind, if there is one that has `Objective.neutral` values.
    """
    objectives = [spec.objective for spec in specs]
    hypers = [objective.hyper() for objective in objectives]
    kinds: list[_ObjectiveKind] = []
    for objective, hyper in zip(objectives, hypers, strict=True):
        bools = tuple((name, value) for name, value in hyper.items() if isinstance(value, bool))
        kinds.append((type(objective), bools))

    weighted = {
        kind: objective for kind, objective in zip(kinds, objectives, strict=True) if not objective.has_equal_weights
    }
    if len(weighted) == 1:
        ((only_kind, weighted_objective),) = weighted.items()
        neutral = weighted_objective.neutral()
        if neutral is not None:  # equal weights are those of this kind, too
            kinds = [only_kind] * len(objectives)
            hypers = [
                neutral if objective.has_equal_weights else hyper
                for objective, hyper in zip(objectives, hypers, strict=True)
            ]
    return tuple(_batch_kind(kind, kinds, hypers, like) for kind in dict.fromkeys(kinds))


def _batch_kind(
    kind: _ObjectiveKind, kinds: Sequence[_ObjectiveKind], hypers: Sequence[Mapping[str, float | bool]], like: Tensor
) -> ObjectiveBatch:
    """Batch the objectives of one of *kinds*; jobs of another kind have values that are not used."""

    def put(values: Sequence[float]) -> Tensor:
        return upload(np.array(values, np.float64), like.device, like.dtype)

    is_used = [other == kind for other in kinds]
    first = hypers[kinds.index(kind)]
    filled = [hyper if used else first for hyper, used in zip(hypers, is_used, strict=True)]
    values: dict[str, Tensor | bool] = {}
    for name, value in first.items():
        if isinstance(value, bool):
            values[name] = value
        else:
            values[name] = put([hyper[name] for hyper in filled])
    objective_class, _ = kind
    return ObjectiveBatch(objective_class.gradient_weights, values, put(is_used).bool())


@dataclass(frozen=True, slots=True)
class JobHyperparameters:
    """Hyper-parameters of jobs that train side by side.

    Args:
        count: number of jobs.
        lr: step sizes on θ, ``[jobs, 1]``.
        t_rate: step sizes on t, ``[jobs]``.
        objectives: by kind.
    """

    count: int
    lr: Tensor
    t_rate: Tensor
    objectives: tuple[ObjectiveBatch, ...]

    def first(self, count: int) -> JobHyperparameters:
        """Select the first *count* jobs."""
        objectives = tuple(batch.map(lambda value: value[:count]) for batch in self.objectives)
        return JobHyperparameters(count, self.lr[:count], self.t_rate[:count], objectives)

    def weigh(self, losses: Tensor, share: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of the examples and the gradients of t, each job's from its own objective."""
        first, *others = self.objectives
        weights, t_gradient = first.gradient_weights(losses, share, t, first.hyper)
        for batch in others:
            batch_weights, batch_t_gradient = batch.gradient_weights(losses, share, t, batch.hyper)
            weights = batch_weights.where(batch.is_used[:, None], weights)
            t_gradient = batch_t_gradient.where(batch.is_used, t_gradient)
        return weights, t_gradient


class StepCorrections:
    """Completes each step of a batched model: ``θ⁺ = θ - lr (g + λ θ + μ (θ - base) + d) + m (θ - θ⁻)``.

    θ⁻ is θ one step earlier; in the first step ``θ - θ⁻`` is 0, or what is left of an earlier update.  With a constant
    lr this is the momentum of PyTorch's SGD, ``v⁺ = m v + gradient`` and ``θ⁺ = θ - lr v⁺``.  The model itself makes
    the step along g; `before` and `after` surround it.

    Args:
        model: at its start.
        jobs: their number.
        slope: factor of θ in a step, ``-lr (λ + μ)``, ``[jobs]``, or ``None`` for 0.
        constant: ``lr (μ base - d)``, in the layout of `BatchedModel.values`, or ``None``.
        momentum: m, ``[jobs]``, or ``None`` for 0.
        moved: ``θ - θ⁻`` before the first step, as a model; ``None`` for 0.
        frozen: parameters that stay in some steps.
    """

    def __init__(
        self,
        model: BatchedModel,
        jobs: int,
        slope: Tensor | None,
        constant: Sequence[Tensor] | None,
        momentum: Tensor | None,
        moved: BatchedModel | None = None,
        frozen: FrozenValues | None = None,
    ) -> None:
        self._model = model
        self._slope = slope
        self._constant = constant
        self._momentum = momentum
        self._frozen = frozen
        self._before: Sequence[Tensor] | None = None  # θ before the gradient
        if slope is not None or momentum is not None or frozen is not None:
            self._before = [value.clone() for value in model.values(jobs)]
        self._moved_model = moved
        self._moved: Sequence[Tensor] | None = None
        if moved is not None:
            self._moved = moved.values(jobs)
        elif momentum is not None:
            self._moved = [torch.zeros_like(value) for value in model.values(jobs)]

    def before(self, jobs: int) -> None:
        """Remember θ of the first *jobs*, if a term needs it."""
        if self._before is not None:
            for before, value in zip(self._before, self._model.values(jobs), strict=True):
                before[:jobs].copy_(value)

    def after(self, jobs: int, step: int) -> None:
        """Add all terms but the gradient to a *step* of the first *jobs*."""
        for index, value in enumerate(self._model.values(jobs)):  # θ - lr g, [jobs, …]
            of_jobs = (jobs, *[1] * (value.ndim - 1))  # shape of a factor for each job
            before = None if self._before is None else self._before[index][:jobs]  # θ
            if before is not None and self._slope is not None:
                value.addcmul_(before, self._slope[:jobs].view(of_jobs))  # - lr (λ + μ) θ
            if self._constant is not None:
                value.add_(self._constant[index][:jobs])  # + lr (μ base - d)
            moved = None
            if self._moved is not None and self._momentum is not None:
                moved = self._moved[index][:jobs]
                value.addcmul_(moved, self._momentum[:jobs].view(of_jobs))  # + m (θ - θ⁻)
            if before is not None and self._frozen is not None:
                self._frozen.restore(value, before, index, step)
            if before is not None and moved is not None:
                moved.copy_(value).sub_(before)  # θ⁺ - θ, for the next step

    def momentum_of(self, inputs: JobInputs) -> Tensor:
        """Return the momentum buffer v of θ after the last step of each job, ``[jobs, size + 1]``; ``θ - θ⁻ = -lr v``.

        With a step size of 0, nothing follows of v from θ: it is then as before the first step.

        Args:
            inputs: those with which the jobs began.
        """
        assert self._moved_model is not None
        assert inputs.momentum is not None
        lr = inputs.rates[:, :1]
        moved = torch.zeros_like(inputs.theta)
        self._moved_model.store(moved[:, :-1])
        return (moved / -lr).where(lr > 0, inputs.momentum)


def _flatten_users(values: Tensor, order: Ints | None) -> Tensor:
    """Reshape ``[users, members, …]`` to ``[jobs, …]``, the users in *order*."""
    return (values if order is None else _select_users(values, order)).flatten(0, 1)


def _select_users(values: Tensor, order: Ints) -> Tensor:
    """Return ``values[order]``."""
    return values[upload(order, values.device)]
