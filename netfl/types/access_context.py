"""Context of an access: its replica, and what the caller of an open access controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from netfl.streams import Streams
from netfl.types.arrays import Floats, Ints
from netfl.types.events import Recorder
from netfl.types.learner_reports import LearnerReport
from netfl.types.observations import ObservationAge, Observed
from netfl.types.rounds import RoundProgress, ignore_progress


@dataclass(slots=True)
class RoundControls:
    """Settings that the caller of an open access may change before each round.

    Sizes are those of values before an assumed compression, without headers.

    Args:
        design_bits: size of the largest update and of a broadcast, for which the access is designed; ``None`` for that
            of the scenario.
        update_bits: size of the updates that users begin from now on, ``[users]``; ``None`` for the design size.
        broadcast_bits: size of the broadcasts from now on; ``None`` for the design size.
        mac: settings of users for a MAC that its caller controls, by name, ``[users]`` each.
        can_select: whether the caller may give `selected`; it is stated before the access is opened, as an access may
            save draws for users that nobody selects.
        selected: the users that may take part in the next round, distinct and in rising order; ``None`` for the
            selection of the access.
        deadline_s: time from the opening of the next round to its close at the latest; ``None`` for that of the access.
        observed_ages: the ages of the values that the caller observes, beside those of the selection, by name; stated
            before the access is opened.
        answer_airtime_s: time of an answer to the call of the server, where the caller observes ``check_in``; if the
            selection has one, too, the larger counts.
        observe: set by an access that is open: returns the observed values before the next round, from the learners'
            report on the last one.
    """

    design_bits: float | None = None
    update_bits: Floats | None = None
    broadcast_bits: float | None = None
    mac: Mapping[str, Floats] = field(default_factory=dict)
    can_select: bool = False
    selected: Ints | None = None
    deadline_s: float | None = None
    observed_ages: Mapping[str, ObservationAge] = field(default_factory=dict)
    answer_airtime_s: float = 0.0
    observe: Callable[[LearnerReport | None], Observed] | None = None


@dataclass(frozen=True, slots=True)
class AccessContext:
    """Context of an access: the replica that it serves.

    Args:
        users: the number of users.
        rounds: the number of rounds, at most.
        replica: the number of the replica, from 0.
        streams: this replica's random streams for the access.
        samples: training samples that each user processes for one update, ``[users]``.
        uplink_bits: size of one update.
        downlink_bits: size of one broadcast.
        recorder: receiver of the events.
        label_mix: shares of the labels in each user's data, ``[users, classes]``; only where the access needs it.
        duration_s: how long a network with traffic in place of rounds is simulated; ``None`` with rounds.  `rounds` is
            then the number of equal windows of that time.
        stop_s: simulated time at which a run with rounds ends: its last round is the last that closes at or before
            this time; ``None`` if only their number ends it.
        warmup_s: time at the start that does not count in the metrics.
        held: number of training examples of each user, ``[users]``; ``None`` without data.
        pulse: called now and then with the progress of the open round; an exception that it raises ends the round.
        controls: settings that a caller changes before each round; ``None`` in a run.
        reports_links: whether deliveries state how they came over the air, ``Delivery.link``.
        reports_lost: whether deliveries state the trainings that were in vain before them, ``Delivery.lost_bases``.
        reports_not_summed: whether rounds state the updates that a sum in the air left out, ``Round.not_summed``.
    """

    users: int
    rounds: int
    replica: int
    streams: Streams
    samples: Floats
    uplink_bits: float
    downlink_bits: float
    recorder: Recorder
    label_mix: Floats | None = None
    duration_s: float | None = None
    stop_s: float | None = None
    warmup_s: float = 0.0
    held: Floats | None = None
    pulse: Callable[[RoundProgress], None] = ignore_progress
    controls: RoundControls | None = None
    reports_links: bool = False
    reports_lost: bool = False
    reports_not_summed: bool = False

    def bits_of(self, users: Ints) -> float:
        """Return the size of the updates of *users* together."""
        if self.controls is None or self.controls.update_bits is None:
            return len(users) * self.uplink_bits
        return float(self.controls.update_bits[users].sum())

    @property
    def broadcast_bits(self) -> float:
        """Size of the next broadcast."""
        if self.controls is None or self.controls.broadcast_bits is None:
            return self.downlink_bits
        return self.controls.broadcast_bits
