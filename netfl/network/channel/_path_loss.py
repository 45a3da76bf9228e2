"""A gain that follows from the distance between a user and its tower."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from netfl.errors import Fault, ScenarioError
from netfl.network.channel import LinkGain
from netfl.network.channel._gains import StaticGain
from netfl.network.layout import LIGHT_M_S, Layout

Loss = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""``loss(distance_m)``: the loss in dB at each distance, ``[n]``."""
LinkLoss = Callable[[NDArray[np.int64], NDArray[np.float64]], NDArray[np.float64]]
"""``loss(users, distance_m)``: the loss in dB of each user's link at its distance, ``[n]``."""
Outside = Literal["fault", "extend"]
"""What to do with users outside of the distances that a model was measured for."""

_NAMED = 5
"""How many users outside of a range are named."""
_ROUNDING = 1e-9
"""By which part a distance may miss a limit that it was meant to be at."""


def distance_gain(sites: Layout, loss_db: Loss, least_db: float | None = None) -> LinkGain:
    """The gains of links that lose *loss_db* of their distance: found once where users stand still.

    Args:
        sites: where everything stands.
        loss_db: finite at any distance from 0 on.
        least_db: no loss is less; that at distance 0 if not given.
    """
    bound = None if least_db is None else lambda users: np.full(len(users), least_db)
    return link_gain(sites, lambda _, distance_m: loss_db(distance_m), bound)


def link_gain(
    sites: Layout, loss_db: LinkLoss, least_db: Callable[[NDArray[np.int64]], NDArray[np.float64]] | None = None
) -> LinkGain:
    """As `by_distance`, for losses that differ from user to user."""
    if not sites.moving:
        return StaticGain(-loss_db(np.arange(sites.users), sites.distance_m))
    return _Moving(sites, loss_db, least_db or (lambda users: loss_db(users, np.zeros(len(users)))))


def friis_db(frequency_hz: float, distance_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """The loss of free space, (4π d f / c)² in dB, for distances above 0."""
    return np.asarray(20.0 * np.log10(4.0 * math.pi * frequency_hz / LIGHT_M_S * distance_m))


def refuse_near_field(sites: Layout, wavelength_m: float) -> None:
    """Refuse users who stand nearer to their tower than a wavelength, where no far field is.

    Raises:
        ScenarioError: some do; the key is relative to the model.
    """
    who = _outside(sites, wavelength_m, math.inf)
    if who and not sites.moving:
        problem = f"{who}, less than the wavelength of {wavelength_m:.3g} m: no far field, in which alone the law holds"
        remedy = "place users farther away (topology), or send at a higher frequency"
        raise ScenarioError([Fault("frequency", problem, LIGHT_M_S / wavelength_m, remedy)])


def refuse_outside(sites: Layout, least_m: float, most_m: float, outside: Outside) -> None:
    """Refuse users outside of *least_m* to *most_m* from their own tower, unless the model is to be extended to them.

    Raises:
        ScenarioError: some are there, or may come there; the key is relative to the model.
    """
    if outside == "extend" or sites.seen_from is not None:
        return
    who = "users move, and may leave it" if sites.moving else _outside(sites, least_m, most_m)
    if who:
        span = f"{least_m / 1000:g} to {most_m / 1000:g} km" if least_m else f"up to {most_m / 1000:g} km"
        remedy = "place users within it (topology), or write 'outside: extend' to use the model beyond it"
        raise ScenarioError([Fault("outside", f"the model holds for {span}: {who}", outside, remedy)])


def _outside(sites: Layout, least_m: float, most_m: float) -> str:
    """Who is outside of *least_m* to *most_m*, in words; empty if nobody."""
    wrong = (sites.distance_m < least_m * (1.0 - _ROUNDING)) | (sites.distance_m > most_m * (1.0 + _ROUNDING))
    far = np.flatnonzero(wrong)
    named = ", ".join(_placed(far[:_NAMED], sites.distance_m))
    more = f" and {len(far) - _NAMED} more" if len(far) > _NAMED else ""
    return f"user{'s' * (len(far) > 1)} {named}{more} from the tower" if far.size else ""


def _placed(users: NDArray[np.int64], distance_m: NDArray[np.float64]) -> Iterator[str]:
    """Users with their distances."""
    return (f"{user} ({distance_m[user]:.6g} m)" for user in users)


class _Moving(LinkGain):
    """Gains that change as users move."""

    def __init__(
        self, sites: Layout, loss_db: LinkLoss, least_db: Callable[[NDArray[np.int64]], NDArray[np.float64]]
    ) -> None:
        self._sites, self._loss_db, self._least_db = sites, loss_db, least_db

    def gain_db(self, users: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """The gain where each user is at *time_s*."""
        return -self._loss_db(users, self._sites.distances_m(users, time_s))

    def peak_db(self, users: NDArray[np.int64]) -> NDArray[np.float64]:
        """The gain in the best place, where any user may come to."""
        return -self._least_db(users)
