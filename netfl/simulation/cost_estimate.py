"""Cost of a run before it starts: a lower bound of its processor time, its memory, and the size of its tables.

`netfl.simulation.dry_run` measures time and deliveries instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from netfl.errors import Fault, ScenarioError
from netfl.learning import memory
from netfl.scenario.scenario import Scenario
from netfl.types import FATES, RoundProgress

LONG_S = 3600.0
"""Processor time from which a run is large."""
LARGE_BYTES = 10e9
"""Size of tables from which a run is large."""
ENDLESS_S = 365.25 * 86400.0
"""Processor time from which a run is refused."""

_CHANGE_S, _STEP_S = 3e-7, 1e-5
"""Minimum processor time of a node that goes down or comes up, and of a local step of all users of a round."""
_RANGE = 2.0
"""Factor by which a measured estimate may be wrong (docs/running.md)."""
_ROW_BYTES, _DELIVERY_BYTES = 8, 24
"""Bytes on the disk of an event and of a delivery."""
_PROCESS_BYTES, _USER_BYTES = (150e6, 450e6), (400, 2000)
"""Memory of the process, and of each user in each replica, without learning and with it (docs/background/scale.md)."""
_LANE_MODELS, _DELIVERY_MODELS = 6, 3
"""Maximum number of models of a lane, and of each delivery of a round."""
_STEP_KINDS = ("sent", "failed", "received", "trained", "queued", "forwarded")
_TIMES = (("years", ENDLESS_S), ("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_SIZES = (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


@dataclass(frozen=True, slots=True)
class DryRun:
    """Result of a dry run; see `netfl.simulation.dry_run`.

    Args:
        seconds: processor time of the whole run, extrapolated; a lower bound if a round was cut.
        rounds: number of complete rounds of each replica.
        deliveries: mean number of deliveries in a round of a replica.
        max_deliveries: largest number of deliveries in a round.
        cut: progress of the round that was cut; ``None`` without one.
    """

    seconds: float
    rounds: int = 0
    deliveries: float = 0.0
    max_deliveries: int = 0
    cut: RoundProgress | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Estimated cost of a run.

    Args:
        updates: number of updates, or of packets and samples of a timed run; contention does not count.
        seconds: processor time; a lower bound unless rounds were measured.
        memory: bytes of memory at once.
        disk: bytes of events and deliveries.
        played: rounds that were measured.
        cut: whether a round was cut, so that the time is a lower bound too.
    """

    updates: float
    seconds: float
    memory: float
    disk: float
    played: int = 0
    cut: bool = False

    @property
    def is_large(self) -> bool:
        """``True`` if the run deserves a warning."""
        return not self.is_endless and (self.seconds > LONG_S or self.disk > LARGE_BYTES)

    @property
    def is_endless(self) -> bool:
        """``True`` if the run is refused."""
        return self.seconds > ENDLESS_S

    def __str__(self) -> str:
        count = f"{self.updates:,.0f}" if self.updates < 1e9 else f"{self.updates:.0e}"
        time = f"at least {_in(self.seconds, _TIMES)} of processor time" if self.seconds >= 1.0 else ""
        if self.played and not self.cut:
            low, high = _in(self.seconds / _RANGE, _TIMES), _in(self.seconds * _RANGE, _TIMES)
            rounds = "1 round" if self.played == 1 else f"{self.played} rounds"
            time = f"{_in(self.seconds, _TIMES)} of processor time ({low} to {high}, estimated from {rounds})"
        sizes = f"{_in(self.memory, _SIZES)} of memory, {_in(self.disk, _SIZES)} on the disk"
        return ", ".join(filter(None, (f"about {count} updates or packets", time, sizes)))


def estimate_workload(scenario: Scenario, *, learning: bool = True, played: DryRun | None = None) -> Workload:
    """Estimate the cost of a run.

    Args:
        scenario: the scenario to run.
        learning: with its learners, or without them.
        played: a dry run, whose time and deliveries replace the bounds.
    """
    access, replicas = scenario.access, scenario.replicas
    keeps, learns = scenario.keeping.wants, learning and bool(scenario.learners)
    has_outcomes = any(keeps(kind, 1) for kind in FATES)
    counted = not learns and not has_outcomes
    cost = access.estimate_cost(scenario.users, scenario.steps, scenario.duration, counted=counted)
    updates, changes = replicas * cost.updates, replicas * cost.outage_changes
    max_deliveries = deliveries = (
        float(access.max_deliveries(scenario.users, scenario.steps)) if scenario.duration is None else 0.0
    )
    if played is not None and played.rounds:
        max_deliveries, deliveries = played.max_deliveries, played.deliveries
    if played is None:
        steps = sum(spec.local_steps or 1 for spec in scenario.learners.values()) if learning else 0
        seconds = replicas * cost.seconds + _CHANGE_S * changes + _STEP_S * replicas * scenario.steps * steps
    else:
        seconds = played.seconds
    kinds = has_outcomes + (sum(keeps(kind, 1) for kind in _STEP_KINDS) if access.info.is_networked else 0)
    recorded_users = 1.0 if scenario.keeping.users is None else float(scenario.keeping.users.mean())
    rows = updates * kinds * recorded_users / scenario.keeping.every
    rows += changes if any(keeps(kind, 1) for kind in ("down", "up")) else 0.0
    disk = _ROW_BYTES * rows + _DELIVERY_BYTES * (deliveries * scenario.steps * replicas)
    held = _PROCESS_BYTES[learns] + _user_bytes(scenario, learns) + _example_bytes(scenario, learning)
    held += _model_bytes(scenario, max_deliveries) if learning else 0.0
    if played is None:
        return Workload(updates, seconds, held, disk)
    return Workload(updates, seconds, held, disk, played.rounds, played.cut is not None)


def check(scenario: Scenario, *, learning: bool, played: DryRun | None = None) -> Workload:
    """Refuse a run that would not end in a year, or whose users or generated examples do not fit into memory.

    Args:
        scenario: the scenario to run.
        learning: with its learners, or without them.
        played: a dry run.

    Raises:
        ScenarioError: the run is refused.
    """
    work, faults = estimate_workload(scenario, learning=learning, played=played), []
    if work.is_endless:
        key = "rounds" if scenario.duration is None else "duration"
        problem = f"the run would not end in a year: {work}"
        faults.append(Fault(key, problem, getattr(scenario, key), "make it shorter, or take fewer users or replicas"))
    free = memory.available()
    parts = (
        ("users", _user_bytes(scenario, learning and bool(scenario.learners)), scenario.users, "take fewer users"),
        ("data", _example_bytes(scenario, learning), None, "make fewer of them"),
    )
    for key, needed, value, remedy in parts:
        if free is not None and needed > free:
            problem = f"they need {_in(needed, _SIZES)} of memory, and {_in(float(free), _SIZES)} are there"
            faults.append(Fault(key, problem, value, f"{remedy} or replicas" if key == "users" else remedy))
    if faults:
        raise ScenarioError(scenario.located(faults))
    return work


def warning(work: Workload) -> str:
    """Return the warning of a large run."""
    return f"large: {work}; more than {_in(LONG_S, _TIMES)}, or than {_in(LARGE_BYTES, _SIZES)} on the disk"


def _user_bytes(scenario: Scenario, learns: bool) -> float:
    return float(_USER_BYTES[learns]) * scenario.users * scenario.replicas


def _example_bytes(scenario: Scenario, learning: bool) -> float:
    """Return the memory of generated examples."""
    if scenario.data is None or not (learning or scenario.access.info.needs_data):
        return 0.0
    return scenario.data.memory


def _model_bytes(scenario: Scenario, max_deliveries: float) -> float:
    """Return the memory of the learners' models, with at most so many deliveries in a round."""
    if scenario.model is None or scenario.data is None:
        return 0.0
    data, numbers = scenario.data, 0.0
    parameters = scenario.model.parameters(data.shape, data.classes, data.tokens)
    for spec in scenario.learners.values():
        kept = spec.aggregation.memory(scenario.users, parameters)
        numbers += kept + (_DELIVERY_MODELS * max_deliveries + _LANE_MODELS) * parameters
    return scenario.replicas * numbers * (8 if scenario.precision == "float64" else 4)


def _in(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """Return a value in the largest unit that is not larger."""
    for name, size in units:
        if value >= size:
            return f"{value / size:,.3g} {name}" if value < 1000 * size else f"{value / size:.0e} {name}"
    return f"under 1 {units[-1][0]}"
