"""What the chapters of a report need to know of a run, worked out once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from netfl import diagnosis
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import ScenarioError
from netfl.report import measures, tallies
from netfl.report.salvage import salvage_run
from netfl.results import formatting
from netfl.results.run_reader import Run
from netfl.results.statistics import is_final


@dataclass(frozen=True)
class RunData:
    """A run as its report sees it.

    Args:
        run: the run, finished or not.
        damage: what is missing in its folder, in sentences.
    """

    run: Run
    damage: tuple[str, ...] = ()
    _finals: dict[str, dict[str, pd.Series[float]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def name(self) -> str:
        """The scenario's name."""
        return str(self.run.scenario.get("name") or self.run.folder.name)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The metrics table, without the t of learners whose t never moves: they have none."""
        table = self.run.metrics
        is_t = table["metric"] == "t"
        moving = table.loc[is_t & (table["value"] != 0.0), "learner"].unique()
        return table[~is_t | table["learner"].isin(moving)]

    @cached_property
    def learners(self) -> tuple[str, ...]:
        """The learners that have figures, in the scenario's order."""
        known = self.metrics["learner"].astype(str).unique()
        asked = self.run.learners
        return tuple([name for name in asked if name in known] + sorted(set(known) - set(asked)))

    @cached_property
    def choices(self) -> dict[str, dict[str, Any]]:
        """The choices among learners, as the scenario says them."""
        return self.run.choices

    @cached_property
    def lost(self) -> frozenset[str]:
        """The learners that diverged in every replica."""
        told = self.run.manifest.get("diverged", [])
        gone = Counter(name for name, _ in {(one["learner"], one["replica"]) for one in told})
        return frozenset(name for name, number in gone.items() if number == len(self.replicas))

    @cached_property
    def replicas(self) -> tuple[int, ...]:
        """The replicas that have rounds."""
        return tuple(sorted(int(one) for one in self.run.rounds["replica"].unique()))

    @cached_property
    def first(self) -> int:
        """The replica whose users are shown one by one."""
        return self.replicas[0] if self.replicas else 0

    @property
    def which(self) -> str:
        """A sentence on which replica a picture of single users shows, after a space; nothing where there is one."""
        return f" Shown is replica {self.first}, of {len(self.replicas)}." if len(self.replicas) > 1 else ""

    @cached_property
    def rounds(self) -> int:
        """The last recorded round."""
        found = [int(table["round"].max()) for table in (self.run.rounds, self.metrics) if len(table)]
        return max(found, default=0)

    @cached_property
    def duration_s(self) -> float | None:
        """How long traffic was to be watched; ``None`` for a run of rounds."""
        asked = self.run.scenario.get("duration")
        return None if asked is None else float(asked)

    @property
    def steps(self) -> str:
        """What the rows of the table of rounds are."""
        return "rounds" if self.duration_s is None else "even windows of time"

    @cached_property
    def ends_s(self) -> pd.Series[float]:
        """When the last round of each replica closed, in seconds."""
        return self.run.rounds.groupby("replica")["closed_s"].max()

    @cached_property
    def end_s(self) -> float:
        """When the last round of the replica `first` closed, in seconds."""
        return float(self.ends_s.get(self.first, 0.0))

    @cached_property
    def rare_classes(self) -> tuple[int, ...]:
        """The labels that the scenario calls rare."""
        evaluate, partition = (_mapping(self.run.scenario.get(key)) for key in ("evaluate", "partition"))
        rare = evaluate.get("rare_classes")
        if rare is None and partition.get("kind") == "rare_classes":
            rare = partition.get("classes")
        return tuple(int(label) for label in rare or ())

    @cached_property
    def users(self) -> pd.DataFrame:
        """The users of every replica with ``heard`` and ``rare``, as `tallies.counted` has them."""
        table = self._unlisted() if self.run.users.empty else self.run.users
        events = self.run.events
        heard = self.run.deliveries if self.duration_s is None else events[events["kind"] == "delivered"]
        return tallies.with_delivery_counts(table, heard, self.rare_classes)

    def _unlisted(self) -> pd.DataFrame:
        """The users of a run whose table of users is not there yet."""
        count = int(self.run.scenario.get("users") or 0)
        users = np.arange(max(count, int(self.run.deliveries["user"].max() + 1) if len(self.run.deliveries) else 0))
        return pd.DataFrame(
            [(replica, user) for replica in self.replicas for user in users], columns=["replica", "user"]
        )

    @cached_property
    def one(self) -> pd.DataFrame:
        """The users of the replica `first`."""
        return self.users[self.users["replica"] == self.first].reset_index(drop=True)

    @cached_property
    def placed(self) -> bool:
        """Whether users have positions."""
        told = {"x_m", "y_m"} <= set(self.users) and len(self.one) > 0
        return told and bool(self.one[["x_m", "y_m"]].notna().all(axis=None))

    @cached_property
    def towers(self) -> pd.Series[str]:
        """The node of the tower of each user in `one`: as the table of users says, else the last one it sent to."""
        if "tower" in self.one:
            return "tower:" + self.one["tower"].astype(str)
        events = self.run.events
        rows = events[(events["replica"] == self.first) & (events["user"] >= 0) & (events["kind"] == "sent")]
        last = rows.drop_duplicates("user", keep="last").set_index("user")["node"].astype(str)
        return self.one["user"].map(last).astype(object).fillna("")

    @cached_property
    def outages(self) -> pd.DataFrame:
        """When each user and node of the replica `first` was down."""
        events = self.run.events
        return tallies.outages(events[events["replica"] == self.first], self.end_s)

    @cached_property
    def tower_outages(self) -> pd.DataFrame:
        """When the tower of each user in `one` was down."""
        return tallies.tower_outages(self.outages, self.one.assign(tower=self.towers))

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """Towers, routers and the server of the replica `first`; empty where the run has no network."""
        table = self.run.table("nodes")
        bare = pd.DataFrame(columns=["node", "role", "x_m", "y_m"])
        return table[table["replica"] == self.first] if len(table) else bare

    @cached_property
    def fates(self) -> pd.DataFrame:
        """How each update ended; empty where that was not recorded."""
        return tallies.fates(self.run.events)

    @cached_property
    def failures(self) -> pd.DataFrame:
        """The attempts that failed."""
        return tallies.failures(self.run.events)

    @cached_property
    def own_figures(self) -> list[str]:
        """The figures that the access ended with, by name, in the order to show them; none of an unfinished run."""
        return formatting.access_metrics(self.run.summary, self.run.learners)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """What it took to reach target accuracies: columns replica, learner, target, cost, value."""
        told = self.run.figures
        found = told["figure"].astype(str).str.extract(r"^(?P<learner>.*)\.target:(?P<target>.+)\.(?P<cost>\w+)$")
        return told[["replica", "value"]].join(found).dropna(subset="learner")

    def has(self, metric: str) -> bool:
        """Whether there are figures of *metric* over everything."""
        rows = self.metrics["metric"] == metric
        return bool(rows.any() and (self.metrics["group"][rows] == "").any())

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Final accuracy of each user under each learner: learner, replica, user, value, heard, rare."""
        return self.of_users("accuracy")

    def of_users(self, metric: str) -> pd.DataFrame:
        """A final figure of each user under each learner: learner, replica, user, value, heard, rare."""
        rows = measures.grouped_final_metrics(self.metrics, metric, "user", choices=self.choices).rename(
            columns={"number": "user"}
        )
        return rows.merge(self.users[["replica", "user", "heard", "rare"]], on=["replica", "user"], how="inner")

    @cached_property
    def ways(self) -> tuple[measures.Over, ...]:
        """What curves can run over: rounds, time, and bits and joules where the access counts them."""
        rounds = self.run.rounds
        bits: tuple[measures.Over, ...] = ("bits",) if (rounds["uplink_bits"] > 0).any() else ()
        energy: tuple[measures.Over, ...] = ("energy",) if rounds["energy_J"].notna().any() else ()
        return ("round", "time", *bits, *energy)

    @cached_property
    def tail(self) -> tuple[int, int, int]:
        """What a final figure is the mean of: the number of evaluations, the first of them and the last."""
        metrics = self.metrics
        at = np.sort(metrics.loc[(metrics["metric"] == "accuracy") & (metrics["group"] == ""), "round"].unique())
        last = at[is_final(at)] if len(at) else np.zeros(1, int)
        return len(last), int(last[0]), int(last[-1])

    @cached_property
    def selection(self) -> diagnosis.Diagnosis | None:
        """What kind of process being heard is, in the first replica; nothing where that cannot be asked."""
        try:
            return diagnosis.diagnose(participation_of_run(self.run, self.first))
        except ScenarioError:
            return None

    def final(self, metric: str) -> dict[str, pd.Series[float]]:
        """The final figure of each learner, by replica; of a choice that of its last evaluation."""
        if metric not in self._finals:
            found = measures.final(self.metrics, metric, choices=self.choices).groupby("learner", sort=False)
            self._finals[metric] = {str(name): rows.droplevel("learner") for name, rows in found}
        return self._finals[metric]


def read_view(run: Run) -> RunData:
    """The view of what can be read of *run*."""
    return RunData(*salvage_run(run))


def _mapping(value: object) -> dict[str, Any]:
    """*value* if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}
