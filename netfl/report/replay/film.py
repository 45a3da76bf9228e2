"""What a replay shows, as arrays: everything that happened in one replica, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.report import phrases
from netfl.report.replay import gathering, packing
from netfl.report.replay.places import Places, entities, places_of
from netfl.report.replay.scores import MOST_FIGURES, Scores
from netfl.report.replay.travels import packets, travels
from netfl.report.view import View
from netfl.types import KINDS


@dataclass(frozen=True)
class Film:
    """The replica that a report shows one by one, ready for its page.

    Args:
        view: the run.
        most_events: how many events are kept.
        most_figures: how many accuracies of single users are kept.
    """

    view: View
    most_events: int = gathering.MOST_EVENTS
    most_figures: int = MOST_FIGURES

    @cached_property
    def places(self) -> Places:
        """Where everything stands."""
        return places_of(self.view)

    @cached_property
    def recorded(self) -> pd.DataFrame:
        """All events of the replica."""
        return gathering.recorded(self.view)

    @cached_property
    def kept(self) -> gathering.Kept:
        """Those that the page has room for."""
        return gathering.kept(self.recorded, self.most_events)

    @property
    def events(self) -> pd.DataFrame:
        """They themselves."""
        return self.kept.events

    @property
    def users(self) -> int:
        """How many users there are."""
        return len(self.view.one)

    @property
    def end_s(self) -> float:
        """When the film ends, in seconds; earlier than the run where there is too much to show."""
        return self.view.end_s if self.kept.to_s is None else self.kept.to_s

    @cached_property
    def ways(self) -> pd.DataFrame:
        """The stretches that updates or packets go, see `travels`."""
        if self.view.duration_s is not None:
            return packets(self.events, self.places)
        came = gathering.deliveries(self.view)
        return travels(self.events, self.places, came[came["arrived_s"] <= self.end_s], self.end_s)

    @cached_property
    def scores(self) -> Scores:
        """The accuracies."""
        return Scores(self.view, self.end_s, self.most_figures)

    def notes(self) -> Iterator[str]:
        """What a reader must know of what is not shown, or not as it was, as sentences."""
        view, places, kept = self.view, self.places, self.kept
        if len(view.replicas) > 1:
            yield f"Shown is replica {view.first}, of {len(view.replicas)}."
        if not places.real:
            yield "Nobody has a place in this run: users stand around the server in the order of their numbers."
        elif not places.known:
            yield "The scenario no longer lays out this network: links are drawn as far as the events tell of them."
        if places.walk is not None:
            yield f"Users move: their places are those at {len(places.frames(self.end_s))} even instants."
        if kept.gone:
            yield f"There are too many events for a page: those called {phrases.listed(kept.gone)} are left out."
        if kept.to_s is not None:
            yield (
                f"The replay ends after {phrases.span(kept.to_s)} of {phrases.span(view.end_s)}, as a page has room "
                f"for {phrases.count(self.most_events)} events."
            )
        if places.real and view.duration_s is None and not (self.recorded["kind"] == "forwarded").any():
            yield "When an update passed which node was not recorded (record: all): it is drawn as evenly on its way."
        if view.duration_s is not None:
            yield "A packet is drawn as evenly on its way from a user to where it ended, and others where they wait."
        if self.scores.every > 1:
            yield f"Colours by accuracy change with one evaluation in {self.scores.every}."

    def header(self) -> dict[str, Any]:
        """What of the film is no array."""
        return {
            "end_s": self.end_s,
            "users": self.users,
            "step": "round" if self.view.duration_s is None else "window",
            "names": self.places.names,
            "roles": self.places.roles,
            "kinds": KINDS,
            "details": self._details,
            "learners": self.view.learners,
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
            "links": packing.whole(np.array(places.links, np.int64).ravel()),
            "onward": packing.whole(places.onward),
            "tower": packing.whole(places.tower),
            "frames": places.frames(self.end_s).astype(np.float32).ravel(),
            "rare": packing.whole(self.view.one["rare"].to_numpy(int)),
        }

    def _events(self) -> dict[str, NDArray[Any]]:
        """Events and outages.

        ``event_who`` is 0 for nobody, then come users, nodes and links; ``switch_who`` begins with the users.
        """
        events = self.events
        changes = gathering.switches(events, self.places, self.users)
        kinds, details = ({name: at for at, name in enumerate(names)} for names in (KINDS, self._details))
        node = events["node"].map(self.places.numbers).fillna(-1).to_numpy(np.int64)
        return {
            "event_time": packing.steps(events["time_s"], self.end_s),
            "event_kind": packing.whole(events["kind"].map(kinds)),
            "event_who": packing.whole(entities(events, self.places, self.users) + 1),
            "event_node": packing.whole(node + 1),
            "event_value": events["value"].to_numpy(np.float32),
            "event_detail": packing.whole(events["detail"].map(details)),
            "switch_time": packing.steps(changes["time_s"], self.end_s),
            "switch_who": packing.whole(changes["who"]),
            "switch_down": packing.whole(changes["down"]),
        }

    def _ways(self) -> dict[str, NDArray[Any]]:
        """The travels; users and nodes by number."""
        ways = self.ways
        start, end = (packing.ticks(ways[name], self.end_s) for name in ("start_s", "end_s"))
        names = ("user", "source", "target", "outcome")
        return {
            "way_start": packing.steps(ways["start_s"], self.end_s),
            "way_length": (end - start).clip(0).astype(np.int32),
            **{f"way_{name}": packing.whole(ways[name]) for name in names},
        }

    def _rounds(self) -> dict[str, NDArray[Any]]:
        """Rounds, and who was heard."""
        rounds = gathering.rounds(self.view)
        rounds = rounds[rounds["opened_s"] <= self.end_s]
        heard = self.events[(self.events["kind"] == "delivered") & (self.events["user"] >= 0)]
        return {
            "round_open": packing.steps(rounds["opened_s"], self.end_s),
            "round_close": packing.steps(rounds["closed_s"], self.end_s),
            "heard_time": packing.steps(heard["time_s"], self.end_s),
            "heard_user": packing.whole(heard["user"]),
        }
