"""Paths of updates and packets through the network, reconstructed from events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from netfl.report.animation.layout import AnimationLayout
from netfl.types import OUTCOMES

OUTCOME_CODES = {"delivered": 1, "failed": 2, "collided": 2, "faded": 2, "lost": 2, "given_up": 2, "dropped": 2}
"""Code of each outcome: 1 success, 2 failure; 0 for others, such as late or superseded."""

COLUMNS = ["user", "start_s", "end_s", "source", "target", "outcome"]


@dataclass
class _Attempt:
    """One attempt under way; *position* is its last node, ``None`` on the air."""

    user: int
    node: int
    since_s: float
    position: int | None = None
    legs: list[tuple[float, float, int, int]] = field(default_factory=list)

    def forward(self, node: int, arrived_s: float, left_s: float, user_code: int) -> None:
        """Arrive at *node* and leave it; *user_code* represents the user in the legs."""
        arrived_s = max(self.since_s, arrived_s)
        source = user_code if self.position is None else self.position
        self.legs.append((self.since_s, arrived_s, source, node))
        if left_s > arrived_s:  # it waited at the node, or was in transmission
            self.legs.append((arrived_s, left_s, node, node))
        self.position = node
        self.since_s = left_s

    def may_reach(self, node: int, links: set[tuple[int, int]]) -> bool:
        """Return whether *node* can be the next one: the receiver on the air, a neighbour beyond it."""
        if self.position is None:
            return self.node == node
        return (self.position, node) in links


def update_paths(events: pd.DataFrame, layout: AnimationLayout, deliveries: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Return each leg of the path of each update: columns user, start_s, end_s, source, target, outcome.

    Source and target are numbers of nodes; the number of nodes represents the user.  If they are equal, the update
    waits there or is in transmission.  Without events of sending, the table of deliveries gives the start.

    Args:
        events: events of one replica in the order of time.
        layout: positions and links.
        deliveries: deliveries of the same replica.
        end_s: end of attempts without outcome, in seconds.
    """
    legs = [*_legs(events, layout, end_s)]
    if not (events["kind"] == "sent").any():
        server = layout.roles.index("server")
        rows = deliveries[["user", "sent_s", "arrived_s"]].itertuples(index=False)
        legs += [(int(user), sent_s, arrived_s, len(layout.names), server, 1) for user, sent_s, arrived_s in rows]
    table = pd.DataFrame(legs, columns=COLUMNS)
    return table.sort_values("start_s", kind="stable", ignore_index=True)


def packet_paths(events: pd.DataFrame, layout: AnimationLayout) -> pd.DataFrame:
    """Return the same of packets: from their origin to their end, and their time in each port."""
    user_code = len(layout.names)
    ends = events[events["kind"].isin(OUTCOMES) & (events["user"] >= 0) & events["value"].notna()]
    node = ends["node"].astype(str).map(layout.numbers).fillna(-1).to_numpy(np.int64)
    paths = pd.DataFrame(
        {
            "user": ends["user"].to_numpy(),
            "start_s": (ends["time_s"] - ends["value"]).to_numpy(),
            "end_s": ends["time_s"].to_numpy(),
            "source": user_code,
            "target": np.where((node >= 0) & (node < user_code), node, user_code),
            "outcome": ends["kind"].astype(str).map(OUTCOME_CODES).fillna(0).to_numpy(np.int64),
        }
    )
    forwarded = events[(events["kind"] == "forwarded") & (events["value"] > 0)]
    port = forwarded["node"].astype(str).map(layout.numbers).fillna(user_code).to_numpy(np.int64)
    stays = pd.DataFrame(
        {
            "user": forwarded["user"].to_numpy().clip(0),
            "start_s": (forwarded["time_s"] - forwarded["value"]).to_numpy(),
            "end_s": forwarded["time_s"].to_numpy(),
            "source": port,
            "target": port,
            "outcome": 0,
        }
    )
    table = pd.concat([paths, stays[stays["source"] < user_code]])
    return table[COLUMNS].sort_values("start_s", kind="stable", ignore_index=True)


def _legs(
    events: pd.DataFrame, layout: AnimationLayout, end_s: float
) -> Iterator[tuple[int, float, float, int, int, int]]:
    """Yield the legs of all attempts of updates with an event of sending."""
    is_shown = events["kind"].isin(("sent", "failed", "forwarded", *OUTCOMES)) & (events["user"] >= 0)
    rows = events[is_shown & (events["traffic"] == "")]
    user_code = len(layout.names)
    links = {*layout.links, *((second, first) for first, second in layout.links)}  # in both directions
    under_way: dict[int, list[_Attempt]] = {}
    last_failure: dict[int, tuple[float, str]] = {}
    columns = (rows["time_s"], rows["kind"].astype(str), rows["user"], rows["node"].astype(str), rows["value"])
    for time_s, kind, user, name, value in zip(*(column.tolist() for column in columns), strict=True):
        node = layout.numbers.get(name, user_code)
        attempts = under_way.setdefault(user, [])
        if kind == "sent":
            attempts.append(_Attempt(user, node, time_s))
        elif kind == "forwarded":
            for attempt in attempts:
                if attempt.may_reach(node, links):
                    attempt.forward(node, time_s - value, time_s, user_code)
                    break
        elif kind != "failed" and last_failure.get(user) == (time_s, name):
            continue  # the update ends with the attempt that has just failed
        elif name and attempts:
            if kind == "failed":
                last_failure[user] = time_s, name
            ended = _pop_ended(attempts, node)
            yield from _finished(ended, node, time_s, OUTCOME_CODES.get(kind, 0), user_code)
    for attempts in under_way.values():
        for attempt in attempts:
            yield from _finished(attempt, attempt.node, end_s, 0, user_code)


def _pop_ended(attempts: list[_Attempt], node: int) -> _Attempt:
    """Remove and return the attempt of a user that has ended at *node*."""
    last = attempts[-1]
    if last.position is None and last.node == node:
        return attempts.pop()  # on the air only the last attempt can end
    return attempts.pop(0)  # beyond it the first attempt ends first


def _finished(
    attempt: _Attempt, node: int, time_s: float, outcome: int, user_code: int
) -> Iterator[tuple[int, float, float, int, int, int]]:
    """Yield all legs of an attempt that ended at a node, or on a link, at *time_s*."""
    source = user_code if attempt.position is None else attempt.position
    if node < user_code:
        target = node
    elif attempt.position is None:  # on the air it is drawn on its way to the node that it was sent to
        target = attempt.node
    else:  # on a link it is drawn at the node before the link
        target = attempt.position
    attempt.legs.append((attempt.since_s, time_s, source, target))
    for start_s, end_s, leg_source, leg_target in attempt.legs:
        if leg_source < user_code or leg_target < user_code:
            yield attempt.user, start_s, end_s, leg_source, leg_target, outcome
