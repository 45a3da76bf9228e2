"""Content of a replay as arrays: everything that happened in one replica, in the order of time."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from netfl.report.animation import events as replay_events
from netfl.report.animation.layout import AnimationLayout, build_layout, entity_numbers
from netfl.report.animation.paths import packet_paths, update_paths
from netfl.report.run_data import RunData
from netfl.types import KINDS

TICKS = 2**31 - 1
"""Length of a replay in ticks; all times are whole numbers of ticks, and their differences fit 32 bits."""

MAX_USER_VALUES = 400_000
"""Maximum number of accuracies of single users in a page."""

UNKNOWN = 255
"""Code of a missing accuracy; others are in half percents."""


@dataclass(frozen=True)
class AccuracyTracks:
    """Accuracies over time in the animated replica, up to *end_s*."""

    data: RunData
    end_s: float

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
        return max(1, -(-self._by_user.size // MAX_USER_VALUES))

    @property
    def user_learners(self) -> list[str]:
        """Learners with accuracies of single users."""
        return [str(name) for name in self._by_user.columns.unique("learner")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return times and accuracies: by learner and time, and by time, learner and user."""
        users = self._by_user.iloc[:: self.stride]
        codes = np.rint(200.0 * users.to_numpy(float))
        return {
            "score_time": tick_differences(self.overall.index.to_numpy(float), self.end_s),
            "score": self.overall.to_numpy(np.float32).T.ravel(),
            "user_score_time": tick_differences(users.index.to_numpy(float), self.end_s),
            "user_score": np.where(np.isnan(codes), UNKNOWN, codes).astype(np.uint8).ravel(),
        }


@dataclass(frozen=True)
class AnimationData:
    """The replica of a run that its report animates."""

    data: RunData

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
        return replay_events.limit_events(self.recorded, replay_events.MAX_EVENTS)

    @property
    def events(self) -> pd.DataFrame:
        """Table of the kept events."""
        return self.kept.events

    @property
    def end_s(self) -> float:
        """End of the replay in seconds; earlier than that of the run if there are too many events."""
        if self.kept.end_s is None:
            return self.data.end_s
        return self.kept.end_s

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
        return AccuracyTracks(self.data, self.end_s)

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
            "metres": self.layout.has_positions,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        layout = self.layout
        rounds = replay_events.rounds(self.data)
        rounds = rounds[rounds["opened_s"] <= self.end_s]
        delivered = self.events[(self.events["kind"] == "delivered") & (self.events["user"] >= 0)]
        paths = self.paths
        start = to_ticks(paths["start_s"], self.end_s)
        end = to_ticks(paths["end_s"], self.end_s)
        return {
            "user_xy": layout.users.astype(np.float32).ravel(),
            "node_xy": layout.nodes.astype(np.float32).ravel(),
            "links": narrow_integers(np.array(layout.links, np.int64).ravel()),
            "onward": narrow_integers(layout.next_hops),
            "tower": narrow_integers(layout.tower),
            "frames": layout.frames(self.end_s).astype(np.float32).ravel(),
            "rare": narrow_integers(self.data.first_users["rare"].to_numpy(int)),
            **self._event_arrays(),
            "way_start": tick_differences(paths["start_s"], self.end_s),
            "way_length": (end - start).clip(0).astype(np.int32),
            **{f"way_{name}": narrow_integers(paths[name]) for name in ("user", "source", "target", "outcome")},
            "round_open": tick_differences(rounds["opened_s"], self.end_s),
            "round_close": tick_differences(rounds["closed_s"], self.end_s),
            "delivered_time": tick_differences(delivered["time_s"], self.end_s),
            "delivered_user": narrow_integers(delivered["user"]),
            **self.scores.arrays(),
        }

    @property
    def _details(self) -> list[str]:
        return sorted(set(self.events["detail"]))

    def _event_arrays(self) -> dict[str, NDArray[Any]]:
        """Return events and outages.

        ``event_who`` is 0 for none, then come users, nodes and links; ``switch_who`` begins with the users.
        """
        events = self.events
        users = len(self.data.first_users)
        switches = replay_events.outage_switches(events, self.layout, users)
        kinds = {name: code for code, name in enumerate(KINDS)}
        details = {name: code for code, name in enumerate(self._details)}
        node = events["node"].map(self.layout.numbers).fillna(-1).to_numpy(np.int64)
        return {
            "event_time": tick_differences(events["time_s"], self.end_s),
            "event_kind": narrow_integers(events["kind"].map(kinds)),
            "event_who": narrow_integers(entity_numbers(events, self.layout, users) + 1),
            "event_node": narrow_integers(node + 1),
            "event_value": events["value"].to_numpy(np.float32),
            "event_detail": narrow_integers(events["detail"].map(details)),
            "switch_time": tick_differences(switches["time_s"], self.end_s),
            "switch_who": narrow_integers(switches["entity"]),
            "switch_down": narrow_integers(switches["down"]),
        }


def pack_data(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Return *header* and *arrays* as JSON that is safe inside a ``<script>`` element.

    ``arrays`` in the JSON lists name, type (``u1``, ``u2``, ``u4``, ``i4``, ``f4``) and length of each array in the
    order of ``block``: their bytes, little-endian, compressed by zlib, in base64.  The widest type comes first, so that
    each array begins at a multiple of its width.
    """
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    table = [[name, f"{array.dtype.kind}{array.dtype.itemsize}", array.size] for name, array in ordered]
    raw = b"".join(array.astype(array.dtype.newbyteorder("<")).tobytes() for _, array in ordered)
    whole = {**header, "arrays": table, "block": base64.b64encode(zlib.compress(raw, 9)).decode("ascii")}
    text = json.dumps(whole, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def to_ticks(times_s: ArrayLike, end_s: float) -> NDArray[np.int64]:
    """Return times as ticks of a replay that ends at *end_s*; times outside are moved to its edge."""
    share = np.asarray(times_s, float) / max(end_s, 1e-300)
    return np.rint(np.clip(np.nan_to_num(share), 0.0, 1.0) * TICKS).astype(np.int64)


def tick_differences(times_s: ArrayLike, end_s: float) -> NDArray[np.int32]:
    """Return the differences between the ticks of times, the first from 0: small numbers, which compress well."""
    return np.diff(to_ticks(times_s, end_s), prepend=0).astype(np.int32)


def narrow_integers(values: ArrayLike) -> NDArray[Any]:
    """Return non-negative integers in the narrowest type that holds them."""
    array = np.asarray(values, np.int64)
    largest = int(array.max(initial=0))
    if largest < 2**8:
        return array.astype(np.uint8)
    if largest < 2**16:
        return array.astype(np.uint16)
    return array.astype(np.uint32)
