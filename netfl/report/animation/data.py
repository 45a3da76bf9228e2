"""What a replay shows, as arrays: everything that happened in one replica, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.report.animation import encoding
from netfl.report.animation import events as gathering
from netfl.report.animation.layout import AnimationLayout, entity_numbers, places_of
from netfl.report.animation.paths import packets, update_paths
from netfl.report.run_data import RunData
from netfl.results import formatting
from netfl.types import KINDS

# The accuracies that a replay counts along.


MOST_FIGURES = 400_000
"""Accuracies of single users that a page holds, at most."""

UNKNOWN = 255
"""What stands for no figure; all others are half percents."""


@dataclass(frozen=True)
class AccuracyTracks:
    """The accuracies of the replica shown.

    Args:
        data: the run.
        end_s: when the film ends; later figures do not count.
        most: how many accuracies of single users are kept.
    """

    data: RunData
    end_s: float
    most: int = MOST_FIGURES

    @cached_property
    def _rows(self) -> pd.DataFrame:
        """All accuracies of the replica."""
        table = self.data.metrics
        shown = (table["replica"] == self.data.first) & (table["metric"] == "accuracy")
        return table[shown & (table["time_s"] <= self.end_s)].astype({"group": str, "learner": str})

    @cached_property
    def whole(self) -> pd.DataFrame:
        """The accuracy over everything: an index of times in seconds, a column for each learner."""
        rows = self._rows[self._rows["group"] == ""]
        table = rows.pivot_table(index="time_s", columns="learner", values="value", aggfunc="last")
        return table.reindex(columns=[*self.data.learners])

    @cached_property
    def _of_users(self) -> pd.DataFrame:
        """The accuracy of each user: an index of times, columns (learner, user), those of learners that have any."""
        rows = self._rows.assign(user=pd.to_numeric(self._rows["group"].str.extract(r"^user:(\d+)$", expand=False)))
        table = rows.dropna(subset="user").pivot_table(
            index="time_s", columns=["learner", "user"], values="value", aggfunc="last"
        )
        known = set(table.columns.get_level_values(0))
        columns = [
            (name, user) for name in self.data.learners if name in known for user in self.data.first_users["user"]
        ]
        return table.reindex(columns=pd.MultiIndex.from_tuples(columns, names=["learner", "user"]))

    @property
    def every(self) -> int:
        """One evaluation in so many has the accuracies of single users that are kept."""
        return max(1, -(-self._of_users.size // self.most))

    @property
    def coloured(self) -> list[str]:
        """The learners that users can be coloured by."""
        return [str(name) for name in self._of_users.columns.unique("learner")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Times and figures: by learner and time, and by time, learner and user."""
        users = self._of_users.iloc[:: self.every]
        halves = np.rint(200.0 * users.to_numpy(float))
        return {
            "score_time": encoding.tick_differences(self.whole.index.to_numpy(float), self.end_s),
            "score": self.whole.to_numpy(np.float32).T.ravel(),
            "user_score_time": encoding.tick_differences(users.index.to_numpy(float), self.end_s),
            "user_score": np.where(np.isnan(halves), UNKNOWN, halves).astype(np.uint8).ravel(),
        }


@dataclass(frozen=True)
class AnimationData:
    """The replica that a report shows one by one, ready for its page.

    Args:
        data: the run.
        most_events: how many events are kept.
        most_figures: how many accuracies of single users are kept.
    """

    data: RunData
    most_events: int = gathering.MOST_EVENTS
    most_figures: int = MOST_FIGURES

    @cached_property
    def places(self) -> AnimationLayout:
        """Where everything stands."""
        return places_of(self.data)

    @cached_property
    def recorded(self) -> pd.DataFrame:
        """All events of the replica."""
        return gathering.recorded_events(self.data)

    @cached_property
    def kept(self) -> gathering.KeptEvents:
        """Those that the page has room for."""
        return gathering.limit_events(self.recorded, self.most_events)

    @property
    def events(self) -> pd.DataFrame:
        """They themselves."""
        return self.kept.events

    @property
    def users(self) -> int:
        """How many users there are."""
        return len(self.data.first_users)

    @property
    def end_s(self) -> float:
        """When the film ends, in seconds; earlier than the run where there is too much to show."""
        return self.data.end_s if self.kept.to_s is None else self.kept.to_s

    @cached_property
    def ways(self) -> pd.DataFrame:
        """The stretches that updates or packets go, see `travels`."""
        if self.data.duration_s is not None:
            return packets(self.events, self.places)
        came = gathering.deliveries(self.data)
        return update_paths(self.events, self.places, came[came["arrived_s"] <= self.end_s], self.end_s)

    @cached_property
    def scores(self) -> AccuracyTracks:
        """The accuracies."""
        return AccuracyTracks(self.data, self.end_s, self.most_figures)

    def notes(self) -> Iterator[str]:
        """What a reader must know of what is not shown, or not as it was, as sentences."""
        data, places, kept = self.data, self.places, self.kept
        if len(data.replicas) > 1:
            yield f"Shown is replica {data.first}, of {len(data.replicas)}."
        if not places.real:
            yield "Nobody has a place in this run: users stand around the server in the order of their numbers."
        elif not places.known:
            yield "The scenario no longer lays out this network: links are drawn as far as the events tell of them."
        if places.walk is not None:
            yield f"Users move: their places are those at {len(places.frames(self.end_s))} even instants."
        if kept.gone:
            yield f"There are too many events for a page: those called {formatting.join_words(kept.gone)} are left out."
        if kept.to_s is not None:
            yield (
                f"The replay ends after {formatting.clock(kept.to_s)} of {formatting.clock(data.end_s)}, "
                "as a page has room "
                f"for {formatting.format_count(self.most_events)} events."
            )
        if places.real and data.duration_s is None and not (self.recorded["kind"] == "forwarded").any():
            yield "When an update passed which node was not recorded (record: all): it is drawn as evenly on its way."
        if data.duration_s is not None:
            yield "A packet is drawn as evenly on its way from a user to where it ended, and others where they wait."
        if self.scores.every > 1:
            yield f"Colours by accuracy change with one evaluation in {self.scores.every}."

    def header(self) -> dict[str, Any]:
        """What of the film is no array."""
        return {
            "end_s": self.end_s,
            "users": self.users,
            "step": "round" if self.data.duration_s is None else "window",
            "names": self.places.names,
            "roles": self.places.roles,
            "kinds": KINDS,
            "details": self._details,
            "learners": self.data.learners,
            "coloured": self.scores.coloured,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays of the film, by name."""
        return {**self._still(), **self._events(), **self._ways(), **self._rounds(), **self.scores.arrays()}

    @property
    def _details(self) -> list[str]:
        """The details of events, each once."""
        return sorted(set(self.events["detail"]))

    def _still(self) -> dict[str, NDArray[Any]]:
        """Where everything stands, and how it is linked."""
        places = self.places
        return {
            "user_xy": places.users.astype(np.float32).ravel(),
            "node_xy": places.nodes.astype(np.float32).ravel(),
            "links": encoding.narrow_integers(np.array(places.links, np.int64).ravel()),
            "onward": encoding.narrow_integers(places.onward),
            "tower": encoding.narrow_integers(places.tower),
            "frames": places.frames(self.end_s).astype(np.float32).ravel(),
            "rare": encoding.narrow_integers(self.data.first_users["rare"].to_numpy(int)),
        }

    def _events(self) -> dict[str, NDArray[Any]]:
        """Events and outages.

        ``event_who`` is 0 for nobody, then come users, nodes and links; ``switch_who`` begins with the users.
        """
        events = self.events
        changes = gathering.outage_switches(events, self.places, self.users)
        kinds, details = ({name: at for at, name in enumerate(names)} for names in (KINDS, self._details))
        node = events["node"].map(self.places.numbers).fillna(-1).to_numpy(np.int64)
        return {
            "event_time": encoding.tick_differences(events["time_s"], self.end_s),
            "event_kind": encoding.narrow_integers(events["kind"].map(kinds)),
            "event_who": encoding.narrow_integers(entity_numbers(events, self.places, self.users) + 1),
            "event_node": encoding.narrow_integers(node + 1),
            "event_value": events["value"].to_numpy(np.float32),
            "event_detail": encoding.narrow_integers(events["detail"].map(details)),
            "switch_time": encoding.tick_differences(changes["time_s"], self.end_s),
            "switch_who": encoding.narrow_integers(changes["who"]),
            "switch_down": encoding.narrow_integers(changes["down"]),
        }

    def _ways(self) -> dict[str, NDArray[Any]]:
        """The travels; users and nodes by number."""
        ways = self.ways
        start, end = (encoding.to_ticks(ways[name], self.end_s) for name in ("start_s", "end_s"))
        names = ("user", "source", "target", "outcome")
        return {
            "way_start": encoding.tick_differences(ways["start_s"], self.end_s),
            "way_length": (end - start).clip(0).astype(np.int32),
            **{f"way_{name}": encoding.narrow_integers(ways[name]) for name in names},
        }

    def _rounds(self) -> dict[str, NDArray[Any]]:
        """Rounds, and who was heard."""
        rounds = gathering.rounds(self.data)
        rounds = rounds[rounds["opened_s"] <= self.end_s]
        heard = self.events[(self.events["kind"] == "delivered") & (self.events["user"] >= 0)]
        return {
            "round_open": encoding.tick_differences(rounds["opened_s"], self.end_s),
            "round_close": encoding.tick_differences(rounds["closed_s"], self.end_s),
            "heard_time": encoding.tick_differences(heard["time_s"], self.end_s),
            "heard_user": encoding.narrow_integers(heard["user"]),
        }
