"""Path losses that follow from the distance, and checks of the distances for which they are valid."""

from __future__ import annotations

import math
from typing import Literal

import networkx as nx
import numpy as np

from netfl.errors import Fault, ScenarioError
from netfl.network.channel import Channel
from netfl.network.layout import LIGHT_M_S, Layout
from netfl.streams import Streams
from netfl.types import Floats, Law

Outside = Literal["error", "extend"]
"""Treatment of users outside of the distances for which a model was measured."""

_MAX_LISTED = 5
"""Users outside of a range that an error lists."""
_ROUNDING = 1e-9
"""Relative tolerance of a distance at a limit."""


class PathLoss(Channel):
    """Base class of channels whose loss follows from the distance alone."""

    @property
    def has_path_loss(self) -> bool:
        return True

    @property
    def holds_between_users(self) -> bool:
        return True

    def between_users_db(self, distance_m: Floats) -> Floats:
        """Return the gain between two users, one of which has the place and the height of a tower, ``[n]``."""
        tower: nx.Graph[str] = nx.Graph()
        tower.add_node("tower:0", role="tower", x_m=0.0, y_m=0.0)
        places_m = np.column_stack([distance_m, np.zeros(len(distance_m))])
        layout = Layout(tower, places_m, seen_from="tower:0")
        return self.open(layout, Streams(0)).gain_db(np.arange(len(distance_m)), 0.0)

    def laws(self) -> tuple[Law, ...]:
        return (Law.none("nothing is drawn: the loss follows from the distance"),)


def friis_db(frequency_hz: float, distance_m: Floats) -> Floats:
    """Return the loss of free space, (4π d f / c)² in dB, for distances above 0."""
    return np.asarray(20.0 * np.log10(4.0 * math.pi * frequency_hz / LIGHT_M_S * distance_m))


def refuse_near_field(layout: Layout, wavelength_m: float) -> None:
    """Refuse static users nearer to their tower than a wavelength, outside of the far field.

    Raises:
        ScenarioError: there are such users; the key is relative to the model.
    """
    near_users = _users_outside(layout, wavelength_m, math.inf)
    if near_users and not layout.moving:
        problem = (
            f"{near_users}, less than the wavelength of {wavelength_m:.3g} m: the model is valid only in the far field"
        )
        remedy = "place users farther away (topology), or use a higher frequency"
        raise ScenarioError([Fault("frequency", problem, LIGHT_M_S / wavelength_m, remedy)])


def refuse_outside(layout: Layout, min_m: float, max_m: float, outside: Outside) -> None:
    """Refuse users outside of *min_m* to *max_m* from their tower, unless *outside* is ``extend``.

    Raises:
        ScenarioError: users are, or may move, outside; the key is relative to the model.
    """
    if outside == "extend" or layout.seen_from is not None:  # links to other towers may have any length
        return
    users = "users move and may leave this range" if layout.moving else _users_outside(layout, min_m, max_m)
    if users:
        span = f"{min_m / 1000:g} to {max_m / 1000:g} km" if min_m else f"up to {max_m / 1000:g} km"
        remedy = "place users within it (topology), or set out_of_range: extend to use the model beyond it"
        raise ScenarioError([Fault("out_of_range", f"the model holds for {span}: {users}", outside, remedy)])


def _users_outside(layout: Layout, min_m: float, max_m: float) -> str:
    """Return a list of the users outside of *min_m* to *max_m*; empty if there are none."""
    distance_m = layout.distance_m
    is_near = distance_m < min_m * (1.0 - _ROUNDING)
    is_far = distance_m > max_m * (1.0 + _ROUNDING)
    users = np.flatnonzero(is_near | is_far)
    if not users.size:
        return ""
    noun = "users" if len(users) > 1 else "user"
    listed = ", ".join(f"{user} ({distance_m[user]:.6g} m)" for user in users[:_MAX_LISTED])
    more = f" and {len(users) - _MAX_LISTED} more" if len(users) > _MAX_LISTED else ""
    return f"{noun} {listed}{more} from the tower"
