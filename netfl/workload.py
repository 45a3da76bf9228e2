"""How much a run will have to do, told before it begins: an estimate from what its scenario says.

It is there to warn of what takes hours or fills a disk, and to refuse what would never end.  Counted is what the
scenario asks for whatever happens in it: each update or packet once, however often contention has it sent again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from netfl.access import Access
from netfl.errors import Fault, ScenarioError
from netfl.learning import memory
from netfl.learning.settings import LearnerSpec
from netfl.scenario import Scenario
from netfl.types import FATES

LONG_S = 3600.0
"""A run of more processor time than this is worth a warning."""
LARGE_BYTES = 10e9
"""So are tables that are larger on the disk."""
ENDLESS_S = 365.25 * 86400.0
"""A run of more processor time than this is refused."""

_TOLD_S, _LEAPT_S = 3e-5, 3e-7
"""Processor time of a node that goes down or comes up, where that is an event, and where nobody records it."""
_STEP_S, _PRODUCT_S, _SEEN_S = 5e-5, 1e-10, 5e-11
"""Processor time of a local step, of each multiplication in it on the way forward, and of those of an evaluation."""
_MOVED = 10
"""To bring a number of an example to where it is needed takes as long as so many multiplications."""
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
class Workload:
    """What a run takes, roughly.

    Args:
        updates: updates that users make, or packets and looks of a watched time.
        seconds: processor time.
        memory: bytes that it holds at once.
        disk: bytes of its events and deliveries.
    """

    updates: float
    seconds: float
    memory: float
    disk: float

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
        sizes = f"{_in(self.memory, _SIZES)} of memory, {_in(self.disk, _SIZES)} on the disk"
        return f"about {what} updates or packets, {_in(self.seconds, _TIMES)}, {sizes}"


def of(scenario: Scenario, *, learning: bool = True, round_s: float = 0.0) -> Workload:
    """What a run of *scenario* takes.

    Args:
        scenario: what is run.
        learning: with its learners, or without them.
        round_s: processor time of a round of the network in all replicas, where one was played.
    """
    access, replicas = scenario.access, scenario.replicas
    updates = float(replicas) * access.work(scenario.users, scenario.steps, scenario.duration)
    heard = 0.0 if scenario.duration is not None else float(replicas) * _heard(access, scenario)
    steps_s, models = _learning(scenario, heard / replicas) if learning else (0.0, 0.0)
    counted = not (learning and scenario.learners) and not any(scenario.keeping.wants(kind, 1) for kind in FATES)
    rounds_s = access.seconds(scenario.users, scenario.steps, scenario.duration, counted=counted)
    changes = float(replicas) * access.changes(scenario.users, scenario.steps, scenario.duration)
    told = changes if any(scenario.keeping.wants(kind, 1) for kind in ("down", "up")) else 0.0
    rounds_s = max(replicas * rounds_s, round_s * scenario.steps)
    seconds = rounds_s + _TOLD_S * told + _LEAPT_S * (changes - told) + steps_s
    disk = _ROW_BYTES * (_rows(scenario, updates) + told) + _DELIVERY_BYTES * heard
    process = _PROCESS_BYTES[learning and bool(scenario.learners)]
    held = process + _users(scenario, learning) + _examples(scenario, learning) + replicas * models
    return Workload(updates, seconds, held, disk)


def check(scenario: Scenario, *, learning: bool) -> None:
    """Refuse what would not end in a year, or whose users or made-up examples do not fit into memory.

    Raises:
        ScenarioError: it is one or the other.
    """
    work, found = of(scenario, learning=learning), []
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


def warning(work: Workload) -> str:
    """What to say of a large one before it starts."""
    return f"large: {work}; more than {_in(LONG_S, _TIMES)}, or than {_in(LARGE_BYTES, _SIZES)} on the disk"


def _users(scenario: Scenario, learning: bool) -> float:
    """Bytes of memory that users take, in all replicas."""
    return float(_USER_BYTES[learning and bool(scenario.learners)]) * scenario.users * scenario.replicas


def _examples(scenario: Scenario, learning: bool) -> float:
    """Bytes of memory that examples take that are made up."""
    if scenario.data is None or not (learning or scenario.access.wants_data):
        return 0.0
    return scenario.data.memory


def _heard(access: Access, scenario: Scenario) -> float:
    """Deliveries in all rounds of a replica, at most."""
    return float(access.most(scenario.users, scenario.steps)) * scenario.steps


def _rows(scenario: Scenario, updates: float) -> float:
    """Rows of events: a fate for each update, and each of the steps on the way to it, as far as they are kept."""
    keeping = scenario.keeping
    each = sum(keeping.wants(kind, 1) for kind in ("sent", "failed", "received", "trained", "queued", "forwarded"))
    fates = any(keeping.wants(kind, 1) for kind in FATES)
    kept = 1.0 if keeping.users is None else float(keeping.users.mean())
    return updates * (fates + (each if scenario.access.networked else 0)) * kept / keeping.every


def _learning(scenario: Scenario, heard: float) -> tuple[float, float]:
    """Processor time of the learners' steps and evaluations, and bytes of their models, in one replica."""
    if not scenario.learners or scenario.model is None or scenario.data is None:
        return 0.0, 0.0
    data, access, rounds = scenario.data, scenario.access, scenario.steps
    parameters = scenario.model.parameters(data.shape, data.classes, data.tokens)
    products = scenario.model.multiplications(data.shape, data.classes, data.tokens) + _MOVED * math.prod(data.shape)
    train, test = data.counts or (0.0, 0.0)
    looks = 2 + rounds // scenario.evaluation.every
    seconds = numbers = 0.0
    for one in scenario.learners.values():
        steps, batch = _steps(one, train / scenario.users)
        step_s = _STEP_S + _PRODUCT_S * products * batch
        seconds += scenario.replicas * (heard * steps * step_s + looks * test * products * _SEEN_S)
        together = _HEARD * access.most(scenario.users, rounds) + _MODELS
        numbers += one.aggregation.memory(scenario.users, parameters) + together * parameters
    return seconds, numbers * (8 if scenario.precision == "float64" else 4)


def _steps(learner: LearnerSpec, held: float) -> tuple[float, float]:
    """Steps of an update, and examples in each, of a user that holds so many; 0 if that is not known."""
    batch = held if learner.batch_size == "full" else float(learner.batch_size)
    each_epoch = max(1, math.ceil(held / (batch or 1.0)))
    return learner.local_steps or (learner.local_epochs or 1) * each_epoch, min(batch, held or batch)


def _in(figure: float, units: tuple[tuple[str, float], ...]) -> str:
    """A figure in the largest unit of which it has one."""
    for name, size in units:
        if figure >= size:
            return f"{figure / size:,.3g} {name}" if figure < 1000 * size else f"{figure / size:.0e} {name}"
    return f"under 1 {units[-1][0]}"
