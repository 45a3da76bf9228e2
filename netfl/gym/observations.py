"""Observations: what an agent sees of the users and of the network, scaled to fixed ranges.

`USER_FEATURES` have one number for each user, `NETWORK_FEATURES` one or several for the whole network.  Unknown values
are 0, except a link margin, which is -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from netfl.errors import Fault, ScenarioError, suggest
from netfl.types import OUTCOMES, Floats, Ints

if TYPE_CHECKING:
    from netfl.simulation.simulation import SimulationState

LINK_RANGE_DB = 20.0
"""Link margin that is observed as 1."""
RATE_RANGE_DB = 60.0
"""The same where the rate follows the SNR: 20 bit/s/Hz, more than any link has."""
LARGE_BITS = 1e6
"""Size of an update that is observed as 1/2."""
FAILURES = tuple(name for name in OUTCOMES if name not in {"delivered", "superseded", "not_trained", "unfinished"})
"""Outcomes of updates that failed on the way, or came too late."""

_DELIVERED = OUTCOMES.index("delivered")
_IS_FAILURE = np.array([*(name in FAILURES for name in OUTCOMES), False])  # the last entry is that of -1

ObservationForm = Literal["dict", "flat"]
"""Form of observations: a dictionary of features, or one vector of all."""


@dataclass(frozen=True, slots=True)
class View:
    """Values that features are computed from.

    Args:
        state: present state of the simulation.
        rounds: rounds of the episode.
        outcomes: number of updates that ended in the last round, by outcome.
        outcome: last outcome of each user in the last round, as a number of `netfl.types.OUTCOMES`, ``[users]``; -1
            for none.
        failed: failed attempts of each user in the last round, by cause, ``[users]`` each.
        losses: newest training loss of each user, ``[users]``; ``None`` without a learner.
        tower_up: whether the tower of each user is up, ``[users]``.
        farthest_m: largest distance of a user from its tower at the start.
        needed_db: least SNR that the reception needs; where the rate follows the SNR, that of 1 bit/s/Hz.
        range_db: link margin that is observed as 1.
        observed: values that the agent has declared, by name; ``None`` if it sees the present state.
    """

    state: SimulationState
    rounds: int
    outcomes: Mapping[str, int]
    outcome: Ints
    failed: Mapping[str, Ints]
    losses: Floats | None
    tower_up: NDArray[np.bool_]
    farthest_m: float
    needed_db: float
    range_db: float
    observed: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Feature:
    """An entry of an observation.

    Args:
        formula: what it is, and how it is scaled.
        values: returns the scaled values, ``[users]`` or ``[n]``; ``None`` if the scenario has no such values.
        low: smallest value; the largest is 1.
    """

    formula: str
    values: Callable[[View], NDArray[Any] | None]
    low: float = 0.0


def _saturating(values: Any, scale: float = 1.0) -> Floats:
    """Return x / (x + scale), which is 0 for 0, 1/2 for *scale*, and less than 1."""
    x = np.asarray(values, float)
    return np.asarray(x / (x + scale))


def _link_margin(view: View) -> Floats | None:
    snr_db = view.state.snr_db
    if snr_db is None:
        return None
    margin_db = np.nan_to_num(snr_db - view.needed_db, nan=-np.inf)
    return np.asarray(np.clip(margin_db / view.range_db, -1.0, 1.0))


def _energy(view: View) -> Floats | None:
    energy_j = view.state.energy_j
    return None if energy_j is None else _share_of_largest(energy_j)


def _battery(view: View) -> Floats | None:
    if view.observed is None or "battery_j" not in view.observed:
        return None
    return _share_of_largest_finite(np.asarray(view.observed["battery_j"], float))


def _speed(view: View) -> Floats | None:
    speed = view.state.speed
    if speed is None:
        return None
    return _share_of_largest_finite(speed)


def _share_of_largest(values: Floats) -> Floats:
    """Return *values* as shares of the largest; 0 for unknown ones."""
    known = np.nan_to_num(values)
    return np.asarray(known / max(float(known.max()), 1e-300))


def _share_of_largest_finite(values: Floats) -> Floats:
    """Return *values* as shares of the largest finite one; 1 for infinite ones, such as the speed of no compute."""
    is_infinite = np.isposinf(values)
    shares = _share_of_largest(np.where(is_infinite, 0.0, values))
    return np.where(is_infinite, 1.0, shares)


def _failed(view: View) -> NDArray[np.bool_] | None:
    """Return whether each user's update has failed, which no server sees."""
    return None if view.observed is not None else _IS_FAILURE[view.outcome]


def _attempts(cause: str, view: View) -> Floats | None:
    """Return the attempts that failed by *cause*, which no server sees."""
    return None if view.observed is not None else _saturating(view.failed[cause])


def _outcomes(view: View) -> Floats | None:
    if view.observed is not None:
        return None
    return _saturating([view.outcomes[name] for name in OUTCOMES], len(view.outcome))


def _up(view: View) -> NDArray[np.bool_] | None:
    user_up = view.state.user_up
    if user_up is None:
        return None
    return np.nan_to_num(user_up).astype(bool) & view.tower_up


USER_FEATURES: Mapping[str, Feature] = {
    "age": Feature(
        "a / (a + users), a = rounds since the last delivery", lambda v: _saturating(v.state.age, len(v.state.age))
    ),
    "link_margin": Feature(
        "(SNR - SNR that the reception needs) / 20 dB at the tower now, fading included, from -1 to 1; if the rate "
        "follows the SNR, (SNR - SNR of 1 bit/s/Hz) / 60 dB",
        _link_margin,
        -1.0,
    ),
    "backlog": Feature(
        "b / (b + 1), b = frames that wait or are being sent",
        lambda v: None if v.state.backlog is None else _saturating(np.nan_to_num(v.state.backlog)),
    ),
    "up": Feature(
        "1 if the user and its tower are up",
        _up,
    ),
    "distance": Feature(
        "distance to the tower, as a share of the largest at the start",
        lambda v: None if v.state.distance_m is None else np.nan_to_num(v.state.distance_m) / v.farthest_m,
    ),
    "energy": Feature("energy that the user has spent, as a share of the largest", _energy),
    "battery": Feature("charge of the battery, as a share of the largest; only if it is declared", _battery),
    "check_in": Feature(
        "1 if the user has answered the call of the server; only if it is declared",
        lambda v: None if v.observed is None else v.observed.get("check_in"),
    ),
    "participation": Feature(
        "share of the rounds so far in which the user was delivered",
        lambda v: np.minimum(v.state.delivered / max(v.state.round, 1), 1.0),
    ),
    "delivered": Feature("1 if the user was delivered in the last round", lambda v: v.outcome == _DELIVERED),
    "failed": Feature("1 if its update failed in the last round, or was late", _failed),
    "collided": Feature("c / (c + 1), c = attempts that collided in the last round", partial(_attempts, "collided")),
    "faded": Feature("f / (f + 1), f = attempts that faded in the last round", partial(_attempts, "faded")),
    "speed": Feature(
        "training samples per second at full frequency, as a share of the largest",
        _speed,
    ),
    "upload": Feature(
        "b / (b + 1 Mbit), b = bits of the next update of the user, headers and parity included",
        lambda v: None if v.state.update_bits is None else _saturating(v.state.update_bits, LARGE_BITS),
    ),
    "loss": Feature(
        "l / (l + 1), l = mean training loss of the global model at the last evaluation",
        lambda v: None if v.losses is None else _saturating(np.nan_to_num(v.losses)),
    ),
}
"""Features with one number for each user, by name."""

NETWORK_FEATURES: Mapping[str, Feature] = {
    "progress": Feature("share of the rounds that are over", lambda v: np.array([v.state.round / v.rounds])),
    "outcomes": Feature(
        "updates that ended in the last round, n / (n + users), for each outcome of netfl.types.OUTCOMES",
        _outcomes,
    ),
    "queues": Feature(
        "q / (q + 1), q = messages in each output port towards the server, in the order of the ports",
        lambda v: _saturating([*v.state.queues.values()]) if v.state.queues else None,
    ),
    "nodes": Feature(
        "1 for each tower, router, server and link that is up",
        lambda v: np.array([*v.state.node_up.values()]) if v.state.node_up else None,
    ),
}
"""Features of the whole network, by name."""

FEATURES: Mapping[str, Feature] = {**USER_FEATURES, **NETWORK_FEATURES}
"""The features by name, in the order of a flat observation."""


class Observer:
    """The features that an agent observes, in one form.

    Args:
        view: values of an episode that has just begun, for the sizes and for the features that the scenario has.
        observe: names of the features; ``None`` for all that the scenario has.
        form: ``dict`` or ``flat``.

    Attributes:
        space: the observation space.
        slices: the part of each feature in a flat observation.

    Raises:
        ScenarioError: a feature does not exist, or the scenario does not have it.
    """

    space: spaces.Space[Any]

    def __init__(self, view: View, observe: Sequence[str] | None, form: ObservationForm) -> None:
        if form not in {"dict", "flat"}:
            raise ScenarioError([Fault("observation", "no such form", form, "use dict or flat")])
        names = _feature_names(observe)
        sizes = dict[str, int]()  # of the features that the scenario has
        missing = []
        for name in names:
            values = FEATURES[name].values(view)
            if values is None:
                missing.append(name)
            else:
                sizes[name] = len(values)
        if missing and observe is not None:
            remedy = (
                "leave it out, or change the scenario: energy needs access.energy, loss needs a learner; with "
                "`declare`, name the value there"
            )
            raise ScenarioError(
                [Fault("observe", "this scenario has no such values", name, remedy) for name in missing]
            )

        self._form = form
        self._names = [*sizes]
        self.slices = {}
        begin = 0
        for name, size in sizes.items():
            self.slices[name] = slice(begin, begin + size)
            begin += size
        self._low = np.concatenate([np.full(size, FEATURES[name].low, np.float32) for name, size in sizes.items()])
        flat = spaces.Box(self._low, np.ones_like(self._low))
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(flat.low[part], flat.high[part]) for name, part in self.slices.items()
        }
        self.space = flat if form == "flat" else spaces.Dict(parts)

    def observe(self, view: View) -> Any:
        """Return the observation of *view*, float32: a vector, or a vector for each feature."""
        values = np.concatenate([cast(Any, FEATURES[name].values(view)) for name in self._names], dtype=np.float32)
        np.clip(values, self._low, 1.0, out=values)
        if self._form == "flat":
            return values
        return {name: values[part].copy() for name, part in self.slices.items()}


def _feature_names(observe: Sequence[str] | None) -> list[str]:
    """Return the names of the features to observe, by default of all.

    Raises:
        ScenarioError: a name is unknown or occurs twice, or there is none.
    """
    if observe is None:
        return [*FEATURES]
    names = [*observe]
    if isinstance(observe, str):
        names = [observe]
    if not names:
        raise ScenarioError([Fault("observe", "names no feature", None, suggest("", [*FEATURES]))])
    unknown = [name for name in names if name not in FEATURES]
    twice = sorted({name for name in names if names.count(name) > 1})
    faults = [Fault("observe", "no such feature", name, suggest(name, [*FEATURES])) for name in unknown]
    faults += [Fault("observe", "names a feature twice", name, "name it once") for name in twice]
    if faults:
        raise ScenarioError(faults)
    return names
