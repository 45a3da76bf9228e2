"""The aggregation family: rules by which the server makes the next version of the model from the delivered updates.

To add one, derive a class from `Aggregation` in a file of this package, or in a module of your own.  This one is
complete::

    class Damped(Aggregation):
        \"\"\"The version moves by a part of the mean change: ``x + part · mean_k (θ_k - base_k)``.\"\"\"

        part: float = 0.5

        def step(self, state, current, updates):
            return current + self.part * (updates.models - updates.bases).mean(0), state

- A rule handles one lane, that is one learner in one replica.  A model is a flat vector ``[parameters + 1]``: θ and,
  last, the scalar t of the objective, which is treated like any other parameter.
- `step` is a pure function of the state, the current version and the `Updates` of the round.  It returns the next
  version and the next state, and must not write into the version or the updates.  A user may occur more than once.
- The change of each user is ``updates.models - updates.bases``.  Its staleness is ``updates.round - 1 -
  updates.base_rounds``.
- The state is a mapping of names to tensors, which checkpoints store.  `open` returns the first one, for example with
  one row per user.  A rule may change its state in place, as is best for large tables.
- A state with a large row per user may have a `netfl.learning.device_store.UserRows` in the place of a tensor.  Then
  users that have not delivered take no memory, which the rule states in `Aggregation.has_device_rows`.
- A model with buffers, such as a batch normalisation, has them aside: see `Aggregation.next_buffers`.
- Models of a few parameters train much faster than rules step lane by lane.  A rule for many lanes may make their
  steps at once: see `Aggregation.step_together`.
- The other methods have defaults: nothing is sent, kept, or reported beside the version.
- A rule whose users send or receive more than the model states it in `Aggregation.uplink_extra` and
  `Aggregation.downlink_extra`, because networks bill it.
- A codec changes the models before `step` sees them.  A rule that computes from them what users send beside the model
  states it in `Aggregation.needs_whole_models`: it would compute something else than its users.
- A rule that needs what is known of all users before a run, their participation rates or numbers of examples, gets it
  by `Aggregation.with_participation` and `Aggregation.with_examples`.  A rule around another one forwards the calls.
- A rule that takes changes for gradients states by what it divides them: `Aggregation.divides_by_steps`,
  `Aggregation.divides_by_rates`.  Devices that train in another way are then refused.
- An access may deliver updates without some of their parts.  A rule that is right for them states it in
  `Aggregation.accepts_parts` or, if it needs to know which parts arrived, in `Aggregation.reads_parts`.
- A rule that measures something itself, such as the error of its mean, declares it in `Aggregation.reports`, and
  returns it from `Aggregation.metrics`.  It is then a metric like the others.
- A rule that draws random numbers takes them from `Updates.draws`: those of a replica are the same for all learners.
- A rule for sums in the air (``interference: over_the_air``) states it in `Aggregation.reads_not_summed`, and finds the
  updates that a sum left out in `Updates.not_summed`.
- A rule that uses how updates came over the air, such as their SNR, names it in `Aggregation.reads_links`, and finds
  it in `Updates.links`.
- Use only methods and operators of tensors.  A file that needs torch itself imports it inside the method.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.errors import Fault
from netfl.types import Floats, Ints, Law, Reported

if TYPE_CHECKING:
    from torch import Tensor as Tensor

    from netfl.learning.objective import Objective
else:
    Tensor = object  # torch is imported by runs that learn, not by scenarios

State = Mapping[str, "Tensor"]
"""Tensors that an aggregation remembers, by name."""


class LearnerOptions(Protocol):
    """The other options of a learner, with which an aggregation may conflict; see `netfl.learning.spec.LearnerSpec`."""

    @property
    def objective(self) -> Objective:
        """The local objective."""

    @property
    def momentum(self) -> float:
        """Momentum of local SGD."""

    @property
    def weight_decay(self) -> float:
        """Weight decay of local SGD."""

    @property
    def batch_size(self) -> int | Literal["full"]:
        """Examples in a mini-batch."""

    @property
    def base(self) -> str:
        """The model from which a user starts."""

    @property
    def local_epochs(self) -> int | None:
        """Passes over a user's examples for one update."""

    @property
    def local_steps(self) -> int | None:
        """Mini-batches for one update, in place of passes."""

    @property
    def has_single_step(self) -> bool:
        """True if an update is a single step for any number of examples."""


class Draws(Protocol):
    """Random numbers of a merge."""

    def normal(self, count: int) -> Tensor:
        """Return standard normal numbers, ``[count]``; of the same count always the same."""


@dataclass(frozen=True, slots=True)
class Updates:
    """The updates delivered to one lane in one round, in the order of their arrival; at least one.

    Args:
        round: number of the open round; at the server also that of the version that they make.
        users: senders, ``[k]``, int64.
        base_rounds: times of the versions from which they started, in rounds of the server, ``[k]``, int64.  For the
            server's versions these are their numbers; see `netfl.types.VersionRef`.
        bases: those versions, ``[k, parameters + 1]``.
        models: the trained models, ``[k, parameters + 1]``.
        samples: number of examples that each sender holds, ``[k]``, in the type of the models.
        steps: number of local steps, ``[k]``.
        rates: step sizes on θ and on t, ``[k, 2]``; 0 for a constant t.
        newest_rates: step sizes of a user that starts from a version of the time ``round - 1``, the server's newest,
            ``[2]``.
        losses: mean loss of each base over the sender's examples, ``[k]``; only if `Aggregation.needs_losses`.
        messages: the message that came with each base, ``[k, …]``; only if there is an `Aggregation.message`.
        has_repeats: whether a user occurs more than once, or may.
        received: whether each number of the models arrived, ``[k, parameters + 1]``; the models have the base in its
            place otherwise.  ``None`` if all arrived; only if `Aggregation.reads_parts`.
        links: how each update came over the air: the fields of `netfl.types.LinkReport` that `Aggregation.reads_links`
            names, ``[k]`` each in the type of the models, in dB, seconds and joules.
        draws: random numbers of this merge, the same for all learners of a replica.
        not_summed: changes of the users that the sum in the air left out, ``[m, parameters + 1]``; ``None`` unless
            `Aggregation.reads_not_summed`.
    """

    round: int
    users: Tensor
    base_rounds: Tensor
    bases: Tensor
    models: Tensor
    samples: Tensor
    steps: Tensor
    rates: Tensor
    newest_rates: Tensor
    losses: Tensor | None = None
    messages: Tensor | None = None
    has_repeats: bool = True
    received: Tensor | None = None
    links: Mapping[str, Tensor] = field(default_factory=dict)
    draws: Draws | None = None
    not_summed: Tensor | None = None


@dataclass(frozen=True, slots=True)
class SingleUpdates:
    """One update of each of several lanes in the same round; the fields are those of `Updates`, a row for each lane.

    Args:
        users: senders, ``[lanes]``, int64.
        bases: versions from which they started, ``[lanes, parameters + 1]``.
        models: the trained models, ``[lanes, parameters + 1]``.
        rates: step sizes on θ and on t, ``[lanes, 2]``.
        newest_rates: step sizes from the server's newest version, ``[lanes, 2]``.
    """

    users: Tensor
    bases: Tensor
    models: Tensor
    rates: Tensor
    newest_rates: Tensor

    @property
    def changes(self) -> Tensor:
        """The change of each lane's user, ``[lanes, parameters + 1]``."""
        return self.models - self.bases


class Aggregation(Spec):
    """Base class of all aggregations."""

    reports: ClassVar[tuple[Reported, ...]] = ()
    """Metrics that the rule reports, by `metrics`; none by default."""

    def with_participation(self, rates: Floats | None) -> Self:
        """Return this rule for a replica with known participation *rates*, ``[users]``: shares of the rounds.

        *rates* are ``None`` if the access does not state them; `faults` finds that in
        `ScenarioFacts.participation_known`.
        """
        return self

    def with_examples(self, examples: Ints) -> Self:
        """Return this rule for a replica of which users hold so many *examples*, ``[users]``, for training."""
        return self

    def open(self, users: int, current: Tensor) -> State:
        """Return the state before the first round.

        Args:
            users: number of users.
            current: version 0, ``[parameters + 1]``.  Make new tensors from it, to get its type and device.
        """
        return {}

    @abstractmethod
    def step(self, state: State, current: Tensor, updates: Updates) -> tuple[Tensor, State]:
        """Return the next version, ``[parameters + 1]``, and the next state."""

    def metrics(self, state: State, current: Tensor, updates: Updates, following: Tensor) -> Mapping[str, Tensor]:
        """Return the values of `reports` by name, each a tensor with a single number, ``[]``.

        It is called after each `step` of a rule that declares `reports`.  The run records the mean over the steps since
        the last evaluation.  Values stay on the device until then, so do not read them (``.item()``).

        Args:
            state: that `step` has returned.  What only the step knows goes through it.
            current: the version before the step, ``[parameters + 1]``.
            updates: of the step.
            following: the version that the step has returned, ``[parameters + 1]``.
        """
        return {}

    @classmethod
    def step_together(
        cls, rules: Sequence[Self], states: Sequence[State], current: Tensor, updates: SingleUpdates
    ) -> tuple[Tensor, Sequence[State]]:
        """Make the `step` of several lanes at once, each with one update, for speed; the results are equal in all bits.

        It is called only if the class of the rules defines it itself: a derived class may step in another way.

        Args:
            rules: of the lanes, all of this class.
            states: of the lanes.
            current: the current versions, ``[lanes, parameters + 1]``.
            updates: of the lanes.

        Returns:
            The next versions, ``[lanes, parameters + 1]``, and the next states.
        """
        raise NotImplementedError

    def next_buffers(self, current: Tensor, updates: Updates) -> Tensor:
        """Return the buffers of the next version, such as running statistics of a batch normalisation, ``[buffers]``.

        Buffers have no gradient, and a step beyond the delivered ones could make a variance negative.  So they do not
        take part in `step`: by default they become the mean of the delivered ones, weighted by the numbers of examples.

        Args:
            current: buffers of the current version, ``[buffers]``.
            updates: as in `step`, but `Updates.bases` and `Updates.models` are buffers, ``[k, buffers]``.  Buffers that
                are lost are those of *current*, so that they count as unchanged.
        """
        return current + (updates.samples / updates.samples.sum()) @ (updates.models - current)

    def idle(self, state: State, current: Tensor, index: int, newest_rates: Tensor) -> tuple[Tensor, State]:
        """Return the next version and state after round *index* without deliveries; see `Updates.newest_rates`."""
        return current, state

    def message(self, state: State) -> Tensor | None:
        """Return what the server sends beside its version, or ``None``.  It is stored as long as the version."""
        return None

    def drift(self, state: State, users: Tensor, messages: Tensor | None) -> Tensor | None:
        """Return the term added to each gradient of θ and t, ``[k, parameters + 1]``, or ``None``.

        Args:
            state: of the server when the updates arrive.
            users: that train, ``[k]``.
            messages: that came with their bases, ``[k, …]``.
        """
        return None

    def reported(self, state: State, current: Tensor) -> Tensor:
        """Return the model that is evaluated, ``[parameters + 1]``; by default the current version."""
        return current

    def user_weights(self, state: State) -> Tensor | None:
        """Return the weight of each user's next change, ``[users]``; ``None`` if weights do not depend on the user.

        If possible in units of a rule with equal weights: 1 means the same weight as there.
        """
        return None

    @property
    def has_user_weights(self) -> bool:
        """True if the rule has `user_weights`."""
        return type(self).user_weights is not Aggregation.user_weights

    def largest_weight(self, users: int, deliveries: int) -> float | None:
        """Return the largest factor by which a round moves the version, where all changes are equal.

        All users have delivered a change Δ at some time, and all changes are Δ: then the version moves by at most
        this factor times Δ.  The mean of the delivered changes has the factor 1.  ``None`` if there is no such factor,
        because it follows losses or past deliveries, or if the rule does not state it.  A rule from outside netfl is
        then tried on changes of 1 and 2; if its answers are proportional, its factor is theirs.

        Args:
            users: number of users.
            deliveries: largest number of deliveries in a round.
        """
        return None

    def merge_weights(self, examples: Ints) -> Floats | None:
        """Return weights n_k, ``[users]``, if the version moves along the mean of the delivered changes by n_k.

        The delivered users S of a round then have the parts ``n_k / Σ_{j in S} n_j``, up to a factor for all.  ``None``
        for another rule.

        Args:
            examples: number of examples that each user holds, ``[users]``.
        """
        return None

    @property
    def needs_losses(self) -> bool:
        """True if `step` needs `Updates.losses`."""
        return False

    @property
    def accepts_parts(self) -> bool:
        """True if the rule may get updates of which parts are lost: there `Updates.models` equals `Updates.bases`."""
        return self.reads_parts

    @property
    def reads_parts(self) -> bool:
        """True if `step` reads `Updates.received`."""
        return False

    @property
    def reads_links(self) -> frozenset[str]:
        """The fields of `netfl.types.LinkReport` that `step` reads in `Updates.links`, such as ``snr_db``."""
        return frozenset()

    @property
    def reads_not_summed(self) -> bool:
        """True if `step` makes the version from sums in the air, and reads `Updates.not_summed`."""
        return False

    @property
    def needs_whole_models(self) -> bool:
        """True if `step` computes from `Updates.models` what users send beside the model; see `uplink_extra`.

        Users compute it from the model that they have trained.  A codec of updates is then refused.
        """
        return False

    @property
    def divides_by_steps(self) -> bool:
        """True if `step` divides changes by `Updates.steps`, to get the mean gradient of an update.

        Rules of devices with which a change is not the sum of the steps from the base are then refused.
        """
        return False

    @property
    def divides_by_rates(self) -> bool:
        """True if `step` divides changes by `Updates.rates`, to get a sum of gradients.

        Rules of devices that start elsewhere than at the base are then refused beside a schedule.
        """
        return False

    def uplink_extra(self, parameters: int) -> int:
        """Return how many numbers an update holds beside the model, as the source of the rule states; by default 0.

        They count in bits, airtime and energy.  State only what grows with the model or with the number of users:
        single numbers, such as a loss, a count of steps or a number of examples, are not counted.

        Args:
            parameters: length of θ without buffers, plus 1 if updates carry t.
        """
        return 0

    def downlink_extra(self, parameters: int) -> int:
        """Return how many numbers a broadcast holds beside the model, such as a `message`; see `uplink_extra`."""
        return 0

    @property
    def has_device_rows(self) -> bool:
        """True if what the state has of each user is a `UserRows`: `memory` is asked for the users that deliver."""
        return False

    def memory(self, users: int, parameters: int) -> int:
        """Return the approximate size of the state in numbers; *parameters* is the size of θ."""
        return 0

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("an aggregation draws nothing"),)

    def learner_faults(self, learner: LearnerOptions) -> Iterator[Fault]:
        """Yield conflicts with other options of *learner*; keys are relative to the aggregation."""
        yield from ()


__getattr__ = exported_models(__name__)
