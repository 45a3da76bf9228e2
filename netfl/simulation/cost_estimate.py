"""What a run takes: updates, processor time, memory, and room on the disk, estimated before it begins.

Counts come from the scenario; each update or packet counts once, however often contention has it sent again.  Time,
and how many updates are delivered in a round, are measured by `netfl.simulation.dry_run`.  Without that, time is a
rough lower
bound to refuse what would never end.
"""

from __future__ import annotations

from dataclasses import dataclass

from netfl.errors import Fault, ScenarioError
from netfl.learning import memory
from netfl.scenario.scenario import Scenario
from netfl.types import FATES, RoundProgress

LONG_S = 3600.0
"""A run of more processor time than this is worth a warning."""
LARGE_BYTES = 10e9
"""So are tables that are larger on the disk."""
ENDLESS_S = 365.25 * 86400.0
"""A run of more processor time than this is refused."""

_CHANGE_S, _STEP_S = 3e-7, 1e-5
"""Processor time, at least, of a node that goes down or comes up, and of a local step of all users of a round."""
_RANGE = 2.0
"""The factor by which a measured estimate may be wrong (docs/running.md)."""
_ROW_BYTES, _DELIVERY_BYTES = 8, 24
"""What a row of events, and one of deliveries, takes on the disk."""
_PROCESS_BYTES = (150e6, 450e6)
"""What the process of any run takes in memory, and that of one that learns (docs/background/scale.md)."""
_USER_BYTES = (400, 2000)
"""What a user takes in memory, in each replica, and one who learns."""
_MODELS, _HEARD = 6, 3
"""Models that a lane has at most, and those of each user that is heard in a round of it."""
_TIMES = (("years", ENDLESS_S), ("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_SIZES = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a dry run measured; see `netfl.simulation.dry_run`.

    Args:
        seconds: processor time of the whole run, extrapolated; a lower bound if a round was cut.
        rounds: how many rounds were played whole, of each replica.
        deliveries: mean number of deliveries in a round of a replica.
        most: the largest number of them.
        cut: how far the round was that was cut; ``None`` where none was.
    """

    seconds: float
    rounds: int = 0
    deliveries: float = 0.0
    most: int = 0
    cut: RoundProgress | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run takes, roughly.

    Args:
        updates: updates that users make, or packets and looks of a watched time.
        seconds: processor time; a lower bound if no rounds were played.
        memory: bytes that it holds at once.
        disk: bytes of its events and deliveries.
        played: rounds that were played to measure the time.
        cut: whether a round took too long to be played to its end, so that the time is a lower bound, too.
    """

    updates: float
    seconds: float
    memory: float
    disk: float
    played: int = 0
    cut: bool = False

    @property
    def large(self) -> bool:
        """Whether it is worth a warning."""
        return not self.endless and (self.seconds > LONG_S or self.disk > LARGE_BYTES)

    @property
    def endless(self) -> bool:
        """Whether it is refused."""
        return self.seconds > ENDLESS_S

    def __str__(self) -> str:
        what = f"{self.updates:,.0f}" if self.updates < 1e9 else f"{self.updates:.0e}"
        spent = f"at least {_in(self.seconds, _TIMES)} of processor time" if self.seconds >= 1.0 else ""
        if self.played and not self.cut:
            low, high = _in(self.seconds / _RANGE, _TIMES), _in(self.seconds * _RANGE, _TIMES)
            rounds = "1 round" if self.played == 1 else f"{self.played} rounds"
            spent = f"{_in(self.seconds, _TIMES)} of processor time ({low} to {high}, estimated from {rounds})"
        sizes = f"{_in(self.memory, _SIZES)} of memory, {_in(self.disk, _SIZES)} on the disk"
        return ", ".join(filter(None, (f"about {what} updates or packets", spent, sizes)))


def estimate_workload(scenario: Scenario, *, learning: bool = True, played: DryRun | None = None) -> Workload:
    """Estimate what a run of *scenario* takes.

    Args:
        scenario: what is run.
        learning: with its learners, or without them.
        played: a dry run of it, whose time and deliveries count in place of bounds.
    """
    access, replicas = scenario.access, scenario.replicas
    most = deliveries = (
        float(access.max_deliveries(scenario.users, scenario.steps)) if scenario.duration is None else 0.0
    )
    if played is not None and played.rounds:
        most, deliveries = played.most, played.deliveries
    delivered = deliveries * scenario.steps * replicas
    counted = not (learning and scenario.learners) and not any(scenario.keeping.wants(kind, 1) for kind in FATES)
    cost = access.estimate_cost(scenario.users, scenario.steps, scenario.duration, counted=counted)
    updates, changes = replicas * cost.updates, replicas * cost.outage_changes
    seconds = float(replicas) * cost.seconds
    seconds += _CHANGE_S * changes
    if learning:
        steps = sum(one.local_steps or 1 for one in scenario.learners.values())
        seconds += _STEP_S * replicas * scenario.steps * steps
    told = changes if any(scenario.keeping.wants(kind, 1) for kind in ("down", "up")) else 0.0
    disk = _ROW_BYTES * (_rows(scenario, updates) + told) + _DELIVERY_BYTES * delivered
    held = _PROCESS_BYTES[learning and bool(scenario.learners)] + _users(scenario, learning)
    held += _examples(scenario, learning) + (_models(scenario, most) if learning else 0.0)
    if played is None:
        return Workload(updates, seconds, held, disk)
    return Workload(updates, played.seconds, held, disk, played.rounds, played.cut is not None)


def check(scenario: Scenario, *, learning: bool, played: DryRun | None = None) -> Workload:
    """Refuse what would not end in a year, or whose users or made-up examples do not fit into memory.

    Args:
        scenario: what is run.
        learning: with its learners, or without them.
        played: a dry run of it.

    Raises:
        ScenarioError: it is one or the other.
    """
    work, found = estimate_workload(scenario, learning=learning, played=played), []
    if work.endless:
        key = "rounds" if scenario.duration is None else "duration"
        problem = f"the run would not end in a year: {work}"
        found.append(Fault(key, problem, getattr(scenario, key), "make it shorter, or take fewer users or replicas"))
    there = memory.available()
    parts = (
        ("users", _users(scenario, learning), scenario.users, "take fewer users or replicas"),
        ("data", _examples(scenario, learning), None, "make fewer of them"),
    )
    for key, needed, value, remedy in parts:
        if there is not None and needed > there:
            problem = f"they need {_in(needed, _SIZES)} of memory, and {_in(float(there), _SIZES)} are there"
            found.append(Fault(key, problem, value, remedy))
    if found:
        raise ScenarioError(scenario.located(found))
    return work


def warning(work: Workload) -> str:
    """What to say of a large one before it starts."""
    return f"large: {work}; more than {_in(LONG_S, _TIMES)}, or than {_in(LARGE_BYTES, _SIZES)} on the disk"


def _users(scenario: Scenario, learning: bool) -> float:
    """Bytes of memory that users take, in all replicas."""
    return float(_USER_BYTES[learning and bool(scenario.learners)]) * scenario.users * scenario.replicas


def _examples(scenario: Scenario, learning: bool) -> float:
    """Bytes of memory that examples take that are made up."""
    if scenario.data is None or not (learning or scenario.access.info.needs_data):
        return 0.0
    return scenario.data.memory


def _rows(scenario: Scenario, updates: float) -> float:
    """Rows of events: a fate for each update, and each of the steps on the way to it, as far as they are kept."""
    keeping = scenario.keeping
    each = sum(keeping.wants(kind, 1) for kind in ("sent", "failed", "received", "trained", "queued", "forwarded"))
    fates = any(keeping.wants(kind, 1) for kind in FATES)
    kept = 1.0 if keeping.users is None else float(keeping.users.mean())
    return updates * (fates + (each if scenario.access.info.is_networked else 0)) * kept / keeping.every


def _models(scenario: Scenario, most: float) -> float:
    """Bytes of the learners' models, where a round brings so many deliveries at *most*."""
    if scenario.model is None or scenario.data is None:
        return 0.0
    data, numbers = scenario.data, 0.0
    parameters = scenario.model.parameters(data.shape, data.classes, data.tokens)
    for one in scenario.learners.values():
        numbers += one.aggregation.memory(scenario.users, parameters) + (_HEARD * most + _MODELS) * parameters
    return scenario.replicas * numbers * (8 if scenario.precision == "float64" else 4)


def _in(figure: float, units: tuple[tuple[str, float], ...]) -> str:
    """A figure in the largest unit of which it has one."""
    for name, size in units:
        if figure >= size:
            return f"{figure / size:,.3g} {name}" if figure < 1000 * size else f"{figure / size:.0e} {name}"
    return f"under 1 {units[-1][0]}"
