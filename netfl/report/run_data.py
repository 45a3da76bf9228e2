"""Tables and values of a run that the sections of its report share, computed once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from netfl import diagnosis
from netfl.diagnosis.reading import participation_of_run
from netfl.errors import ScenarioError
from netfl.learning.performance import split_group
from netfl.network.periods import after_rounding
from netfl.report.salvage import salvage_run
from netfl.results import aggregates, formatting, statistics
from netfl.results.run_reader import Run
from netfl.types import SERVER


@dataclass(frozen=True)
class RunData:
    """A run for its report, finished or not, with sentences on what is missing in its folder.

    Args:
        run: the run.
        damage: sentences on what is missing.
        until_s: simulated time of the final values: those of the last evaluations at or before it; by default the end.
    """

    run: Run
    damage: tuple[str, ...] = ()
    until_s: float = math.inf
    _finals: dict[str, dict[str, pd.Series[float]]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def name(self) -> str:
        """Name of the scenario."""
        return str(self.run.scenario.get("name") or self.run.folder.name)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """The metrics of learners, without the t of learners whose t is constantly zero."""
        table = self.run.metrics
        table = table[table["learner"] != ""]
        is_t = table["metric"] == "t"
        moving = table.loc[is_t & (table["value"] != 0.0), "learner"].unique()
        return table[~is_t | table["learner"].isin(moving)]

    @cached_property
    def access_curves(self) -> pd.DataFrame:
        """Metrics that the selection and the allocation report, over the evaluations or, in a trace, the rounds."""
        table = self.run.metrics
        return table[table["learner"] == ""]

    @cached_property
    def learners(self) -> tuple[str, ...]:
        """Learners with metrics, in the order of the scenario."""
        evaluated = set(self.metrics["learner"].astype(str))
        ordered = [name for name in self.run.learners if name in evaluated]
        unlisted = sorted(evaluated - set(ordered))  # the scenario may be lost
        return (*ordered, *unlisted)

    @cached_property
    def diverged(self) -> frozenset[str]:
        """Learners that diverged in every replica."""
        entries = self.run.manifest.get("diverged", [])
        lanes = {(entry["learner"], entry["replica"]) for entry in entries}
        counts = Counter(name for name, _ in lanes)
        return frozenset(name for name, number in counts.items() if number == len(self.replicas))

    def lacks(self, *names: str) -> bool:
        """Return whether one of these tables and documents, such as ``rounds`` or ``scenario``, is lost."""
        return not {name.partition(".")[0] for name in self.run.without}.isdisjoint(names)

    @property
    def is_trace(self) -> bool:
        """No learner trains in the run; false if this is unknown."""
        has_none = not (self.run.learners or self.lacks("manifest", "scenario"))
        return has_none or self.run.manifest.get("learning") is False

    @cached_property
    def replicas(self) -> tuple[int, ...]:
        """Replicas with rounds; if these are lost, with metrics or deliveries."""
        tables = [self.run.rounds]
        if self.lacks("rounds"):
            tables += [self.run.metrics, self.run.deliveries]
        return tuple(sorted({int(replica) for table in tables for replica in table["replica"].unique()}))

    @cached_property
    def first(self) -> int:
        """The replica whose users are drawn."""
        return self.replicas[0] if self.replicas else 0

    @property
    def replica_sentence(self) -> str:
        """A sentence that names the replica drawn; empty if there is only one."""
        if len(self.replicas) < 2:
            return ""
        return f"Shown: replica {self.first} of {len(self.replicas)}."

    @cached_property
    def rounds(self) -> int:
        """The last recorded round."""
        return max((int(table["round"].max()) for table in (self.run.rounds, self.metrics) if len(table)), default=0)

    @property
    def ends(self) -> pd.DataFrame | None:
        """The rounds until `until_s`, with the last of each replica; ``None`` if there are none, or they are lost."""
        if self.run.rounds.empty:
            return None
        return self._until(self.run.rounds, "closed_s")

    def _until(self, table: pd.DataFrame, time: str) -> pd.DataFrame:
        """Return the rows of *table* at or before `until_s`, by its column *time*."""
        if math.isinf(self.until_s):
            return table
        return table[table[time] <= after_rounding(self.until_s)]

    @property
    def duration_s(self) -> float | None:
        """Simulated duration of a run of traffic; ``None`` for a run of rounds."""
        return self.run.duration_s

    @cached_property
    def warmup_s(self) -> float:
        """Simulated time that does not count for the metrics of a run of traffic."""
        return float(self.run.scenario.get("warmup") or 0.0)

    @cached_property
    def ends_s(self) -> pd.Series[float]:
        """End of the last round by replica, in seconds."""
        return self.run.rounds.groupby("replica")["closed_s"].max()

    @cached_property
    def end_s(self) -> float:
        """End of the last round of the replica `first`, in seconds."""
        return float(self.ends_s.get(self.first, 0.0))

    @property
    def rare_classes(self) -> tuple[int, ...]:
        """Labels of the rare classes."""
        return self.run.rare_classes

    @property
    def has_delays(self) -> bool:
        """True unless the summary states no delays: updates of a direct access only have an order within a round."""
        return not self.run.summary or "delay_mean_s" in self.run.summary

    @cached_property
    def users(self) -> pd.DataFrame:
        """Users of every replica, from `aggregates.with_delivery_counts`."""
        deliveries = self.run.deliveries
        table = self.run.users
        if table.empty:  # the table is not written yet
            number = int(self.run.scenario.get("users") or 0)
            if len(deliveries):
                number = max(number, int(deliveries["user"].max() + 1))
            keys = [(replica, user) for replica in self.replicas for user in range(number)]
            table = pd.DataFrame(keys, columns=["replica", "user"])
        if self.duration_s is not None:  # a run of traffic delivers packets, which are events
            events = self.run.events
            deliveries = events[events["kind"] == "delivered"]
        return aggregates.with_delivery_counts(table, deliveries, self.rare_classes)

    @property
    def has_all_users(self) -> bool:
        """The number of users is known, also of those without a delivery."""
        return len(self.run.users) > 0 or "users" in self.run.scenario

    @cached_property
    def first_users(self) -> pd.DataFrame:
        """Users of the replica `first`."""
        return self.users[self.users["replica"] == self.first].reset_index(drop=True)

    @cached_property
    def deliveries(self) -> pd.DataFrame:
        """Deliveries in the replica `first`."""
        return self.run.deliveries[self.run.deliveries["replica"] == self.first]

    @property
    def has_distances(self) -> bool:
        """The distance of every user to its tower is known."""
        return "distance_m" in self.first_users and bool(self.first_users["distance_m"].notna().all())

    @cached_property
    def has_positions(self) -> bool:
        """The position of every user is known."""
        has_columns = {"x_m", "y_m"} <= set(self.users) and len(self.first_users) > 0
        return has_columns and bool(self.first_users[["x_m", "y_m"]].notna().all(axis=None))

    @cached_property
    def towers(self) -> pd.Series[str]:
        """Node of the tower of each of `first_users`: from the table of users, else the last that it sent to."""
        if "node" in self.first_users:
            return self.first_users["node"].astype(str)
        if "tower" in self.first_users:  # an earlier version of netfl wrote the number alone
            return "tower:" + self.first_users["tower"].astype(str)
        events = self.run.events
        rows = events[(events["replica"] == self.first) & (events["user"] >= 0) & (events["kind"] == "sent")]
        last = rows.drop_duplicates("user", keep="last").set_index("user")["node"].astype(str)
        return self.first_users["user"].map(last).astype(object).fillna("")

    @cached_property
    def outages(self) -> pd.DataFrame:
        """Outages of users and nodes in the replica `first`."""
        events = self.run.events
        return aggregates.outages(events[events["replica"] == self.first], self.end_s)

    @cached_property
    def tower_outages(self) -> pd.DataFrame:
        """Outages of the towers of `first_users`; none where users change their towers."""
        users = self.first_users.assign(tower=self.towers)
        if "tower" in self.run.deliveries:
            users = users.head(0)
        return aggregates.tower_outages(self.outages, users)

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """Towers, routers and the server of the replica `first`; empty without a network."""
        table = self.run.table("nodes")
        if table.empty:
            return pd.DataFrame(columns=["node", "role", "x_m", "y_m"])
        return table[table["replica"] == self.first]

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """Outcomes of updates; empty if they were not recorded."""
        return aggregates.outcomes(self.run.events)

    @cached_property
    def merges(self) -> pd.DataFrame:
        """Merges of other nodes than the server."""
        table = self.run.table("merges")
        return table[table["node"] != SERVER]

    @property
    def merging_nodes(self) -> int:
        """Number of other nodes than the server that merged; 0 if this is lost with the deliveries, which need it."""
        return 0 if self.lacks("deliveries") else self.merges["node"].nunique()

    @cached_property
    def lost_share(self) -> float | None:
        """Mean share of its parts that a delivered update lacks; ``None`` if the run has no parts, or no deliveries.

        It is that of the metric ``parts_lost_share``, computed from the tables, so that unfinished runs have it, too.
        """
        deliveries = self.run.deliveries.groupby("replica").size()
        if "erasures" not in self.run.tables or self.lacks("deliveries") or deliveries.empty:
            return None
        erasures = self.run.table("erasures")  # a row for each part that did not arrive
        lost = (1.0 / erasures["parts"]).groupby(erasures["replica"]).sum()  # in updates
        lost = lost.reindex(deliveries.index, fill_value=0.0)
        return float((lost / deliveries).mean())

    @cached_property
    def failures(self) -> pd.DataFrame:
        """Failed attempts."""
        return aggregates.failures(self.run.events)

    @cached_property
    def access_metrics(self) -> list[str]:
        """Names of the metrics of the access in display order; empty for an unfinished run."""
        return formatting.access_metrics(self.run.summary, self.run.learners)

    @cached_property
    def costs(self) -> pd.DataFrame:
        """Costs of target accuracies: columns replica, learner, target, cost, value."""
        table = self.run.final_metrics
        keys = table["metric"].astype(str).str.extract(r"^(?P<learner>.*)\.target:(?P<target>.+)\.(?P<cost>\w+)$")
        return table[["replica", "value"]].join(keys).dropna(subset="learner")

    @cached_property
    def synchronised(self) -> dict[str, float]:
        """Towers whose users stay synchronised, and the share of collisions after which they overlap again."""
        if self.lacks("final_metrics"):
            return {}
        table = self.run.final_metrics
        towers = table["metric"].astype(str).str.extract(r"^synchronised\.(?P<tower>.+)$")["tower"]
        shares = table["value"].groupby(towers).mean()
        return {str(tower): float(share) for tower, share in shares.items()}

    @property
    def learner_metrics(self) -> list[str]:
        """The metrics that a table of final values may have."""
        return formatting.learner_metrics(self.run.test_sets, self.run.blocks, in_report=True)

    def has(self, metric: str) -> bool:
        """Return whether *metric* was evaluated, over all data or of its group, as in ``accuracy/block:remote``."""
        name, group = self._split(metric)
        rows = self.metrics["metric"] == name
        return bool(rows.any() and (self.metrics["group"][rows] == group).any())

    def _split(self, metric: str) -> tuple[str, str]:
        """Return a metric and its group; a name with a slash in the table, as an app may give, has none."""
        if (self.metrics["metric"] == metric).any():
            return metric, ""
        return split_group(metric)

    @cached_property
    def app_metrics(self) -> list[str]:
        """Names of the metrics that a Flower app computes; none of other runs."""
        if "flower" not in self.run.manifest:
            return []
        return [str(name) for name in self.metrics.loc[self.metrics["group"] == "", "metric"].unique()]

    @cached_property
    def accuracy(self) -> pd.DataFrame:
        """Final accuracy of each user under each learner: learner, replica, user, value, delivered, rare."""
        return self.user_values("accuracy")

    def user_values(self, metric: str) -> pd.DataFrame:
        """Return a final metric of each user under each learner: learner, replica, user, value, delivered, rare."""
        rows = aggregates.grouped_final_metrics(
            self.metrics, metric, "user", choices=self.run.choices, rounds=self.ends
        )
        counts = self.users[["replica", "user", "delivered", "rare"]]
        return rows.rename(columns={"number": "user"}).merge(counts, on=["replica", "user"], how="inner")

    @cached_property
    def x_axes(self) -> tuple[aggregates.Over, ...]:
        """Units of the x axes of curves: rounds, time, and bits and energy if the access measures them."""
        rounds = self.run.rounds
        axes: list[aggregates.Over] = ["round", "time"]
        if (rounds["uplink_bits"] > 0).any():
            axes.append("bits")
        if rounds["energy_J"].notna().any():
            axes.append("energy")
        return tuple(axes)

    @cached_property
    def window(self) -> statistics.FinalWindow:
        """The rounds that a final value is the mean of."""
        metrics = self._until(self.metrics, "time_s")
        evaluated = metrics.loc[metrics["group"] == "", "round"]
        is_common = self.ends is None or self.ends.groupby("replica")["round"].max().nunique() < 2
        return statistics.final_window(evaluated, is_common=is_common)

    @cached_property
    def selection(self) -> diagnosis.Diagnosis | None:
        """Diagnosis of the selection process in the replica `first`; ``None`` if it cannot be made."""
        if self.lacks("deliveries"):
            return None
        try:
            return diagnosis.diagnose(participation_of_run(self.run, self.first))
        except ScenarioError:
            return None

    def final(self, metric: str) -> dict[str, pd.Series[float]]:
        """Return the final value of each learner by replica; of a choice that of its last evaluation."""
        if metric not in self._finals:
            metrics = self._until(self.metrics, "time_s")
            name, group = self._split(metric)
            values = aggregates.final(metrics, name, group, choices=self.run.choices, rounds=self.ends)
            by_learner = values.groupby("learner", sort=False)
            self._finals[metric] = {str(learner): rows.droplevel("learner") for learner, rows in by_learner}
        return self._finals[metric]

    def intervals(self, metric: str) -> dict[str, statistics.ConfidenceInterval]:
        """Return the mean final value of each learner with its interval."""
        return {name: statistics.interval(values) for name, values in self.final(metric).items()}

    def cell(self, metric: str, learner: str) -> str:
        """Return the final value of a learner as a table cell; a dash without one."""
        value = self.intervals(metric).get(learner)
        if value is None:
            return "–"
        return interval_cell(metric, value, len(self.replicas))

    def text(self, metric: str, learner: str) -> str:
        """Return the final value of a learner for a sentence: the cell of its tables, with the unit."""
        value = self.intervals(metric)[learner]
        return formatting.format_final(metric, value.mean, value.half, value.replicas, len(self.replicas))

    @cached_property
    def first_rounds(self) -> int:
        """The last recorded round of the replica `first`."""
        rounds = self.run.rounds
        if rounds.empty:
            return self.rounds
        return int(rounds.loc[rounds["replica"] == self.first, "round"].max())

    @property
    def round_count(self) -> str:
        """Number of rounds, with that of the replicas if they differ."""
        counts = self.run.rounds.groupby("replica")["round"].max()
        if counts.nunique() > 1:
            return f"{formatting.format_count(int(counts.min()))} to {formatting.format_count(int(counts.max()))}"
        return formatting.format_count(self.rounds)

    @property
    def scenario_text(self) -> str:
        """Text of the scenario file; empty without one."""
        return read_scenario_text(self.run.folder)


def read_run_data(run: Run) -> RunData:
    """Read what is readable of *run*."""
    return RunData(*salvage_run(run))


def read_scenario_text(folder: Path) -> str:
    """Return the text of the scenario file in *folder*; empty without one."""
    path = folder / "scenario.yaml"
    if not path.is_file():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def interval_cell(metric: str, value: statistics.ConfidenceInterval, replicas: int) -> str:
    """Return a learner's value as a table cell; *replicas* is the number of all replicas."""
    return formatting.metric_cell(metric, value.mean, value.half, value.replicas, replicas)
