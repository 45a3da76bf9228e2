"""The ways of updates and packets through the network, put together from single events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from netfl.report.animation.layout import AnimationLayout
from netfl.types import FATES

GONE = {"delivered": 1, "failed": 2, "collided": 2, "faded": 2, "lost": 2, "given_up": 2, "dropped": 2}
"""How a travel came out: 1 it counted, 2 it failed; 0 it did neither, as it was late or overtaken, say."""

COLUMNS = ["user", "start_s", "end_s", "source", "target", "outcome"]


@dataclass
class _Travel:
    """One attempt on its way."""

    user: int
    node: int
    since_s: float
    at: int | None = None
    legs: list[tuple[float, float, int, int]] = field(default_factory=list)

    def move(self, node: int, came_s: float, left_s: float, nobody: int) -> None:
        """It came to *node*, from the user (*nobody*) or the node where it was, and left it again."""
        came_s = max(self.since_s, came_s)
        self.legs.append((self.since_s, came_s, nobody if self.at is None else self.at, node))
        if left_s > came_s:
            self.legs.append((came_s, left_s, node, node))
        self.at, self.since_s = node, left_s


def update_paths(events: pd.DataFrame, places: AnimationLayout, deliveries: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """Each stretch that an update goes: columns user, start_s, end_s, source, target, outcome.

    Source and target are numbers of nodes, the number of nodes standing for the user itself.  Where they are the same,
    the update waits there, or is being sent.  Of a delivery whose sending is not among the events, the table of
    deliveries tells when it set out.

    Args:
        events: of one replica, in order of time.
        places: where everything stands.
        deliveries: of the same replica.
        end_s: when the last attempts end that never came to anything.
    """
    found = [*_followed(events, places, end_s)]
    if not (events["kind"] == "sent").any():
        nobody = len(places.names)
        server = places.roles.index("server")
        rows = deliveries[["user", "sent_s", "arrived_s"]].itertuples(index=False)
        found += [(int(user), sent, came, nobody, server, 1) for user, sent, came in rows]
    table = pd.DataFrame(found, columns=COLUMNS)
    return table.sort_values("start_s", kind="stable", ignore_index=True)


def packets(events: pd.DataFrame, places: AnimationLayout) -> pd.DataFrame:
    """The same of traffic without rounds: from where a packet came up to where it ended, and its time in each port."""
    ends = events[events["kind"].isin(FATES) & (events["user"] >= 0) & events["value"].notna()]
    node = ends["node"].astype(str).map(places.numbers).fillna(-1).to_numpy(np.int64)
    nobody = len(places.names)
    ways = pd.DataFrame(
        {
            "user": ends["user"].to_numpy(),
            "start_s": (ends["time_s"] - ends["value"]).to_numpy(),
            "end_s": ends["time_s"].to_numpy(),
            "source": nobody,
            "target": np.where((node >= 0) & (node < nobody), node, nobody),
            "outcome": ends["kind"].astype(str).map(GONE).fillna(0).to_numpy(np.int64),
        }
    )
    stays = events[(events["kind"] == "forwarded") & (events["value"] > 0)]
    port = stays["node"].astype(str).map(places.numbers).fillna(nobody).to_numpy(np.int64)
    held = pd.DataFrame(
        {
            "user": stays["user"].to_numpy().clip(0),
            "start_s": (stays["time_s"] - stays["value"]).to_numpy(),
            "end_s": stays["time_s"].to_numpy(),
            "source": port,
            "target": port,
            "outcome": 0,
        }
    )
    table = pd.concat([ways, held[held["source"] < nobody]])
    return table[COLUMNS].sort_values("start_s", kind="stable", ignore_index=True)


def _followed(
    events: pd.DataFrame, places: AnimationLayout, end_s: float
) -> Iterator[tuple[int, float, float, int, int, int]]:
    """The legs of all travels that have a first event."""
    kinds = ("sent", "failed", "forwarded", *FATES)
    rows = events[events["kind"].isin(kinds) & (events["user"] >= 0)]
    numbers, nobody = places.numbers, len(places.names)
    linked = {*places.links, *((other, one) for one, other in places.links)}
    under_way: dict[int, list[_Travel]] = {}
    columns = (rows["time_s"], rows["kind"].astype(str), rows["user"], rows["node"].astype(str), rows["value"])
    for time_s, kind, user, name, value in zip(*(column.tolist() for column in columns), strict=True):
        node, own = numbers.get(name, nobody), under_way.setdefault(user, [])
        if kind == "sent":
            own.append(_Travel(user, node, time_s))
        elif kind == "forwarded":
            came = next((one for one in own if _comes(one, node, linked)), None)
            if came is not None:
                came.move(node, time_s - value, time_s, nobody)
        elif name and own:
            yield from _ended(own.pop(_which(own, node)), node, time_s, GONE.get(kind, 0), places)
    for own in under_way.values():
        for travel in own:
            yield from _ended(travel, travel.node, end_s, 0, places)


def _comes(travel: _Travel, node: int, linked: set[tuple[int, int]]) -> bool:
    """Whether *travel* is one that may have come to *node*."""
    return travel.node == node if travel.at is None else (travel.at, node) in linked


def _which(own: list[_Travel], node: int) -> int:
    """Which of a user's travels ended at *node*: on the air only the last can be, further on the first is first."""
    last = own[-1]
    return len(own) - 1 if last.at is None and last.node == node else 0


def _ended(
    travel: _Travel, node: int, time_s: float, outcome: int, places: AnimationLayout
) -> Iterator[tuple[int, float, float, int, int, int]]:
    """All legs of a travel that ended at a node, or on a link, at *time_s*."""
    nobody = len(places.names)
    target = node if node < nobody else travel.at if travel.at is not None else travel.node
    travel.legs.append((travel.since_s, time_s, nobody if travel.at is None else travel.at, target))
    for start_s, end_s, source, to in travel.legs:
        if source < nobody or to < nobody:
            yield travel.user, start_s, end_s, source, to, outcome
