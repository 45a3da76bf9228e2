'''The selection family: the users that the server allows to take part in a round.

Users that are not selected do not train, do not send and are not delivered.  Which of the selected users are delivered
is up to the access.

To write a selection, add a file to this package, or a class to a package of your own, that derives from `Selection`.

- `Selection.open` is called once for each replica.  It gets a `UserInfo` and returns a `Selector`.
- `Selector.choose` is called as each round opens.  It gets a `RoundInfo` and returns the selected users.  Draws come
  from ``population.streams`` only, indexed by the round: ``streams.field("turn").uniform(users, moment.round)``.
- A selector sees what its selection declares in `Selection.observes`, by the names of `netfl.types.OBSERVATIONS`, and
  nothing else: ``moment.battery_j``.  Values may be names of `Selection.can_observe` instead, which it observes where
  the scenario's key ``observe`` names them.  ``observe`` also states the age of each value, and its cost.
- ``moment.candidates`` are the users that have checked in, or all users where ``check_in`` is not observed.
- A selection that computes a value with its decision, such as an objective, declares it in `Selection.reports`, and
  returns it from `Selector.metrics`.  It is then a metric of the run.
- A selection that observes ``loss`` or ``norm`` closes the loop between learning and network.  `Selector.queries` may
  ask about fewer users than all.
- A selection that cannot work for a population raises a `netfl.errors.ScenarioError` in `Selection.open`, with keys
  relative to the selection.  Errors that are known before that come from ``faults``.

A complete selection, which sees batteries and who has checked in::

    class Charged(Selection):
        """Select all users that have checked in with at least so many joules.

        Example::

            kind: mylab.charged:Charged
            need: 2 J
            observe: {check_in: {airtime: 5 ms}, battery_j: check_in}
        """

        observes: ClassVar = ("check_in", "battery_j")
        need: Joules
        """Smallest charge of a selected user."""

        def open(self, population):
            return _Charged(self.need)

        def laws(self):
            return (Law.none("draws nothing"),)

    class _Charged(Selector):
        def __init__(self, need_j):
            self._need_j = need_j

        def choose(self, moment):
            users = moment.candidates
            return users[moment.battery_j[users] >= self._need_j]
'''

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import ClassVar

from netfl.access.selection._observation import Observe
from netfl.core.kinds import exported_models
from netfl.core.plugins import Overridable
from netfl.core.spec import Spec
from netfl.streams import Streams
from netfl.types import Floats, ObservationAge, Observed, Reported, Users


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Properties of the users that do not change during a run.

    Args:
        size: number of users.
        streams: this replica's random streams for the selection.
        sample_counts: training examples of each user, ``[size]``; ``None`` without data.
        airtime_s: expected airtime of one update of each user, including faded attempts, ``[size]``; ``None`` without
            a network, or if the selection does not need it.
        update_bits: size of an update on the air; ``None`` without a network.
        work: training samples of one update of each user, ``[size]``; ``None`` without a network.
        label_mix: shares of the labels in each user's data, ``[size, classes]``; ``None`` if the selection does not
            need them.
    """

    size: int
    streams: Streams
    sample_counts: Floats | None = None
    airtime_s: Floats | None = None
    update_bits: float | None = None
    work: Floats | None = None
    label_mix: Floats | None = None


@dataclass(frozen=True)
class RoundInfo(Observed):
    """Values that a selection observes before a round, read as attributes: ``moment.age``, ``moment.battery_j``.

    Args:
        round: the round to choose for, from 1.
    """

    round: int = 1


class Selector(Overridable, ABC):
    """A selection in one replica."""

    @abstractmethod
    def choose(self, moment: RoundInfo) -> Users:
        """Return the users selected for a round: distinct and ascending, possibly none."""

    def metrics(self) -> Mapping[str, float]:
        """Return the values of `Selection.reports` by name, those of the last `choose`.

        It is called after each `choose` of a selection that declares `Selection.reports`.  The run records the mean
        over the rounds since the last evaluation, and over all rounds.
        """
        return {}

    def deadline_s(self, moment: RoundInfo) -> float | None:
        """Return the time from the opening of the round to its close at the latest; ``None`` for that of the scenario.

        It is asked after `choose`, in networks whose rule of the round has a deadline.  `Selection.sets_deadline` tells
        warnings that it answers.
        """
        return None

    def queries(self, round: int, delivered: Users) -> Mapping[str, Users] | None:
        """Return the questions to the learners before `choose` for *round* (2 or later): ``{"loss": users}``.

        ``None`` asks about all users for values of the age ``present``, and about *delivered* for ``last_delivery``.

        Args:
            round: the round to choose for.
            delivered: the users delivered in the round before, ascending.
        """
        return None


class Selection(Spec):
    """The contract of a selection."""

    reports: ClassVar[tuple[Reported, ...]] = ()
    """Metrics that the selection reports, by `Selector.metrics`; none by default."""

    observe: Observe = Observe()
    """Values that the server observes before it selects, with their age, and the cost of the users' answers."""

    @abstractmethod
    def open(self, population: UserInfo) -> Selector:
        """Return the selector of one replica.

        Raises:
            netfl.errors.ScenarioError: the selection cannot work for this population; keys relative to the selection.
        """

    def max_selected(self, users: int) -> int:
        """Return the largest number of *users* that one round selects."""
        return users

    @property
    def observes(self) -> Collection[str]:
        """Names of the values that the selector always reads, of `netfl.types.OBSERVATIONS`."""
        return ()

    @property
    def can_observe(self) -> Collection[str]:
        """Names of the values that the selector uses where the scenario's ``observe`` names them."""
        return ()

    @property
    def ages(self) -> dict[str, ObservationAge]:
        """The age of each value that the selector reads, by name."""
        ages: dict[str, ObservationAge] = dict.fromkeys(self.observes, "present")
        return ages | self.observe.ages

    @property
    def selects_all(self) -> bool:
        """True if every round selects all users."""
        return False

    @property
    def sets_deadline(self) -> bool:
        """True if its selector decides the deadline of each round, `Selector.deadline_s`."""
        return False

    @property
    def needs_learner_metrics(self) -> bool:
        """True if the selector asks the learners, which closes the loop."""
        return "loss" in self.ages or "norm" in self.ages

    @property
    def needs_sample_counts(self) -> bool:
        """True if the selector reads ``UserInfo.sample_counts``, or observes ``samples``."""
        return "samples" in self.ages

    @property
    def needs_label_mix(self) -> bool:
        """True if the selector reads ``UserInfo.label_mix``."""
        return False

    @property
    def needs_airtime(self) -> bool:
        """True if the selector reads ``UserInfo.airtime_s``."""
        return False


__getattr__ = exported_models(__name__)
