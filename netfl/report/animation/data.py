"""Content of a replay as arrays: everything that happened in one replica, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.report.animation import encoding
from netfl.report.animation import events as replay_events
from netfl.report.animation.layout import AnimationLayout, build_layout, entity_numbers
from netfl.report.animation.paths import packet_paths, update_paths
from netfl.report.run_data import RunData
from netfl.results.formatting import clock, format_count, join_words
from netfl.types import KINDS

MAX_USER_VALUES = 400_000
"""Maximum number of accuracies of single users in a page."""

UNKNOWN = 255
"""Code of a missing accuracy; others are in half percents."""


@dataclass(frozen=True)
class AccuracyTracks:
    """Accuracies over time in the animated replica.

    Args:
        data: the run.
        end_s: end of the replay in seconds; later values are left out.
        max_values: maximum number of accuracies of single users.
    """

    data: RunData
    end_s: float
    max_values: int = MAX_USER_VALUES

    @cached_property
    def _rows(self) -> pd.DataFrame:
        table = self.data.metrics
        shown = (table["replica"] == self.data.first) & (table["metric"] == "accuracy")
        return table[shown & (table["time_s"] <= self.end_s)].astype({"group": str, "learner": str})

    @cached_property
    def overall(self) -> pd.DataFrame:
        """Accuracy over all data: an index of times in seconds, a column for each learner."""
        rows = self._rows[self._rows["group"] == ""]
        table = rows.pivot_table(index="time_s", columns="learner", values="value", aggfunc="last")
        return table.reindex(columns=[*self.data.learners])

    @cached_property
    def _by_user(self) -> pd.DataFrame:
        """Accuracy of each user: an index of times in seconds, a column for each (learner, user)."""
        rows = self._rows.assign(user=pd.to_numeric(self._rows["group"].str.extract(r"^user:(\d+)$", expand=False)))
        rows = rows.dropna(subset="user")
        table = rows.pivot_table(index="time_s", columns=["learner", "user"], values="value", aggfunc="last")
        known = set(table.columns.get_level_values(0))
        learners = [name for name in self.data.learners if name in known]
        columns = [(name, user) for name in learners for user in self.data.first_users["user"]]
        return table.reindex(columns=pd.MultiIndex.from_tuples(columns, names=["learner", "user"]))

    @property
    def stride(self) -> int:
        """Distance of the evaluations with accuracies of single users."""
        return max(1, -(-self._by_user.size // self.max_values))

    @property
    def user_learners(self) -> list[str]:
        """Learners with accuracies of single users."""
        return [str(name) for name in self._by_user.columns.unique("learner")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return times and accuracies: by learner and time, and by time, learner and user."""
        users = self._by_user.iloc[:: self.stride]
        codes = np.rint(200.0 * users.to_numpy(float))
        return {
            "score_time": encoding.tick_differences(self.overall.index.to_numpy(float), self.end_s),
            "score": self.overall.to_numpy(np.float32).T.ravel(),
            "user_score_time": encoding.tick_differences(users.index.to_numpy(float), self.end_s),
            "user_score": np.where(np.isnan(codes), UNKNOWN, codes).astype(np.uint8).ravel(),
        }


@dataclass(frozen=True)
class AnimationData:
    """The replica of a run that its report animates.

    Args:
        data: the run.
        max_events: maximum number of events.
        max_user_values: maximum number of accuracies of single users.
    """

    data: RunData
    max_events: int = replay_events.MAX_EVENTS
    max_user_values: int = MAX_USER_VALUES

    @cached_property
    def layout(self) -> AnimationLayout:
        """Positions and links."""
        return build_layout(self.data)

    @cached_property
    def recorded(self) -> pd.DataFrame:
        """Events of the replica, in the order of time."""
        return replay_events.recorded_events(self.data)

    @cached_property
    def kept(self) -> replay_events.KeptEvents:
        """The events for which the page has room."""
        return replay_events.limit_events(self.recorded, self.max_events)

    @property
    def events(self) -> pd.DataFrame:
        """Table of the kept events."""
        return self.kept.events

    @property
    def end_s(self) -> float:
        """End of the replay in seconds; earlier than that of the run if there are too many events."""
        return self.data.end_s if self.kept.end_s is None else self.kept.end_s

    @cached_property
    def paths(self) -> pd.DataFrame:
        """Paths of updates or packets; see `update_paths`."""
        if self.data.duration_s is not None:
            return packet_paths(self.events, self.layout)
        deliveries = replay_events.deliveries(self.data)
        return update_paths(self.events, self.layout, deliveries[deliveries["arrived_s"] <= self.end_s], self.end_s)

    @cached_property
    def scores(self) -> AccuracyTracks:
        """Accuracies over time."""
        return AccuracyTracks(self.data, self.end_s, self.max_user_values)

    def notes(self) -> Iterator[str]:
        """Yield sentences on what is left out, and what is not as it was."""
        data, layout, kept = self.data, self.layout, self.kept
        if len(data.replicas) > 1:
            yield data.replica_sentence.strip()
        if not layout.has_positions:
            yield "Nobody has a place in this run: users stand around the server in the order of their numbers."
        elif not layout.has_scenario_links:
            yield "The scenario no longer lays out this network: links are drawn as far as the events tell of them."
        if layout.trajectory is not None:
            yield f"Users move: their places are those at {len(layout.frames(self.end_s))} even instants."
        if kept.omitted_kinds:
            yield f"There are too many events for a page: those called {join_words(kept.omitted_kinds)} are left out."
        if kept.end_s is not None:
            yield (
                f"The replay ends after {clock(kept.end_s)} of {clock(data.end_s)}, as a page has room for "
                f"{format_count(self.max_events)} events."
            )
        if layout.has_positions and data.duration_s is None and not (self.recorded["kind"] == "forwarded").any():
            yield "When an update passed which node was not recorded (record: all): it is drawn as evenly on its way."
        if data.duration_s is not None:
            yield "A packet is drawn as evenly on its way from a user to where it ended, and others where they wait."
        if self.scores.stride > 1:
            yield f"Colours by accuracy change with one evaluation in {self.scores.stride}."

    def header(self) -> dict[str, Any]:
        """Return the content that is not in arrays."""
        return {
            "end_s": self.end_s,
            "users": len(self.data.first_users),
            "step": "round" if self.data.duration_s is None else "window",
            "names": self.layout.names,
            "roles": self.layout.roles,
            "kinds": KINDS,
            "details": self._details,
            "learners": self.data.learners,
            "coloured": self.scores.user_learners,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        parts = (self._layout_arrays(), self._event_arrays(), self._path_arrays(), self._round_arrays())
        return {name: array for part in (*parts, self.scores.arrays()) for name, array in part.items()}

    @property
    def _details(self) -> list[str]:
        return sorted(set(self.events["detail"]))

    def _layout_arrays(self) -> dict[str, NDArray[Any]]:
        layout = self.layout
        return {
            "user_xy": layout.users.astype(np.float32).ravel(),
            "node_xy": layout.nodes.astype(np.float32).ravel(),
            "links": encoding.narrow_integers(np.array(layout.links, np.int64).ravel()),
            "onward": encoding.narrow_integers(layout.next_hops),
            "tower": encoding.narrow_integers(layout.tower),
            "frames": layout.frames(self.end_s).astype(np.float32).ravel(),
            "rare": encoding.narrow_integers(self.data.first_users["rare"].to_numpy(int)),
        }

    def _event_arrays(self) -> dict[str, NDArray[Any]]:
        """Return events and outages.

        ``event_who`` is 0 for none, then come users, nodes and links; ``switch_who`` begins with the users.
        """
        events, users = self.events, len(self.data.first_users)
        switches = replay_events.outage_switches(events, self.layout, users)
        kinds, details = ({name: code for code, name in enumerate(names)} for names in (KINDS, self._details))
        node = events["node"].map(self.layout.numbers).fillna(-1).to_numpy(np.int64)
        return {
            "event_time": encoding.tick_differences(events["time_s"], self.end_s),
            "event_kind": encoding.narrow_integers(events["kind"].map(kinds)),
            "event_who": encoding.narrow_integers(entity_numbers(events, self.layout, users) + 1),
            "event_node": encoding.narrow_integers(node + 1),
            "event_value": events["value"].to_numpy(np.float32),
            "event_detail": encoding.narrow_integers(events["detail"].map(details)),
            "switch_time": encoding.tick_differences(switches["time_s"], self.end_s),
            "switch_who": encoding.narrow_integers(switches["entity"]),
            "switch_down": encoding.narrow_integers(switches["down"]),
        }

    def _path_arrays(self) -> dict[str, NDArray[Any]]:
        start, end = (encoding.to_ticks(self.paths[name], self.end_s) for name in ("start_s", "end_s"))
        columns = ("user", "source", "target", "outcome")
        return {
            "way_start": encoding.tick_differences(self.paths["start_s"], self.end_s),
            "way_length": (end - start).clip(0).astype(np.int32),
            **{f"way_{name}": encoding.narrow_integers(self.paths[name]) for name in columns},
        }

    def _round_arrays(self) -> dict[str, NDArray[Any]]:
        rounds = replay_events.rounds(self.data)
        rounds = rounds[rounds["opened_s"] <= self.end_s]
        delivered = self.events[(self.events["kind"] == "delivered") & (self.events["user"] >= 0)]
        return {
            "round_open": encoding.tick_differences(rounds["opened_s"], self.end_s),
            "round_close": encoding.tick_differences(rounds["closed_s"], self.end_s),
            "heard_time": encoding.tick_differences(delivered["time_s"], self.end_s),
            "heard_user": encoding.narrow_integers(delivered["user"]),
        }
