"""Types that the packages exchange: deliveries, rounds, learner reports, run observers, and what a model may know.

Each file of the package is one concept.  Other code imports the names from `netfl.types`.
"""

from __future__ import annotations

from netfl.types.access_context import AccessContext, RoundControls
from netfl.types.arrays import Bools, Floats, Ints, Users
from netfl.types.deliveries import Delivery, LinkReport
from netfl.types.events import (
    ADDED_TABLES,
    KINDS,
    OUTCOMES,
    RARE_OUTCOMES,
    Event,
    EventKind,
    NullRecorder,
    Outcome,
    Recorder,
    check_kind,
    check_table,
)
from netfl.types.facts import ScenarioFacts
from netfl.types.laws import Law, Rows, StatisticClaim
from netfl.types.learner_reports import QUERIES, SMALLER_STEP, Divergence, LearnerReport
from netfl.types.merges import SERVER, Merge, MergedModel, VersionRef, waves
from netfl.types.observations import OBSERVATIONS, ObservationAge, ObservationInfo, Observed
from netfl.types.observers import RunObserver, RunProgress, RunStart
from netfl.types.payload import Payload
from netfl.types.reported import DECLARE, UNDECLARED, Reported, reported_problem
from netfl.types.round_ledger import RoundLedger
from netfl.types.rounds import Round, RoundBatch, RoundProgress, ignore_progress, round_number

__all__ = [
    "ADDED_TABLES",
    "DECLARE",
    "KINDS",
    "OBSERVATIONS",
    "OUTCOMES",
    "QUERIES",
    "RARE_OUTCOMES",
    "SERVER",
    "SMALLER_STEP",
    "UNDECLARED",
    "AccessContext",
    "Bools",
    "Delivery",
    "Divergence",
    "Event",
    "EventKind",
    "Floats",
    "Ints",
    "Law",
    "LearnerReport",
    "LinkReport",
    "Merge",
    "MergedModel",
    "NullRecorder",
    "ObservationAge",
    "ObservationInfo",
    "Observed",
    "Outcome",
    "Payload",
    "Recorder",
    "Reported",
    "Round",
    "RoundBatch",
    "RoundControls",
    "RoundLedger",
    "RoundProgress",
    "Rows",
    "RunObserver",
    "RunProgress",
    "RunStart",
    "ScenarioFacts",
    "StatisticClaim",
    "Users",
    "VersionRef",
    "check_kind",
    "check_table",
    "ignore_progress",
    "reported_problem",
    "round_number",
    "waves",
]
