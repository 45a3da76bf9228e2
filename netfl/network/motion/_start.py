"""The random waypoint model as it is in its stationary state, given where a user is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from netfl.network.motion._area import Area, Floats
from netfl.streams import Streams


def mean_pace(speed: tuple[float, float]) -> float:
    """E[1/V] of a speed that is uniform on [min, max], in s/m."""
    least, most = speed
    return 1.0 / least if most == least else math.log(most / least) / (most - least)


def paused_share(area: Area, speed: tuple[float, float], pause: tuple[float, float]) -> float:
    """The share of time spent pausing, E[P] / (E[P] + E[L] E[1/V])."""
    pause_s = sum(pause) / 2.0
    return pause_s / (pause_s + area.mean_leg_m * mean_pace(speed))


@dataclass(frozen=True, slots=True)
class Start:
    """What each user is doing at time 0.

    Args:
        pausing: whether it pauses; else it is on its way.
        target_m: where it is on its way to, ``[n, 2]``; where it is if it pauses.
    """

    pausing: NDArray[np.bool_]
    target_m: Floats


def stationary(xy_m: Floats, area: Area, pause_share: float, streams: Streams) -> Start:
    """Draw whether users who are at *xy_m* pause, and where to they are on their way, as at any late instant.

    A user on its way is, seen at any instant, on a leg between two places of density 1/A² each, drawn in proportion to
    its length l, uniformly along it.  With behind and ahead the distances from where it is back to the leg's begin and
    on to its end, and φ the direction, that is the density (behind + ahead) / A²E[l] over place, φ, behind and ahead.
    So the density of the place and of φ is b a (b + a) / 2A²E[l], where b and a are the ways to the area's edge; and
    that of ahead, given these, is proportional to b/2 + ahead.  A pausing user is anywhere alike.  The state is drawn
    by rejection from a bound on all that, from the pause with weight share / A and from the directions.

    Args:
        xy_m: where users are, ``[n, 2]``.
        area: what they move in.
        pause_share: the share of time spent pausing.
        streams: where draws come from.
    """
    inner = area.inward(xy_m)
    pausing, target = np.ones(len(xy_m), bool), xy_m.copy()
    field = streams.field("start")
    on_the_way = (1.0 - pause_share) / (2.0 * area.size_m2**2 * area.mean_leg_m) * area.longest_m
    pause_weight = pause_share / area.size_m2
    chance = pause_weight / (pause_weight + on_the_way * area.headings(inner))
    todo: NDArray[np.int64] = np.arange(len(xy_m))
    attempt = 0
    while todo.size:
        state, first, second, accept, ahead = (field.uniform(todo, index=attempt, draw=draw) for draw in range(5))
        angle, bound = area.heading(inner[todo], first, second)
        towards = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        back, on = area.reach_m(inner[todo], -towards), area.reach_m(inner[todo], towards)
        moves = state >= chance[todo]
        kept = ~moves | (accept * bound * area.longest_m < back * on * (back + on))
        going = kept & moves
        way = _ahead(back, on, ahead)[going, None] * towards[going]
        pausing[todo[going]], target[todo[going]] = False, inner[todo[going]] + way
        todo, attempt = todo[~kept], attempt + 1
    return Start(pausing, target)


def _ahead(back: Floats, on: Floats, unit: Floats) -> Floats:
    """The way ahead, of density proportional to back/2 + ahead on [0, on], from a uniform draw."""
    wanted = unit * on * (back + on)
    return 2.0 * wanted / (np.sqrt(back**2 + 4.0 * wanted) + back)
