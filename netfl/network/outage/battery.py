"""Users that run on batteries, and are down while these are empty."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.errors import Fault
from netfl.network.layout import Layout
from netfl.network.outage import NodeAvailability, Outage
from netfl.network.outage._diurnal_clock import surrounding_instants
from netfl.network.outage._targets import Nodes, node_faults, node_numbers
from netfl.registry import Spec
from netfl.streams import RandomField, Streams
from netfl.types import Law, ScenarioFacts
from netfl.units import Joules, Probability, Seconds, Watts

# Where a function that rises from below 0 to 0 or above crosses it.


_MOST = 128
"""Values asked for; fifteen do as a rule, and a hundred where every step is a halving."""


def find_crossing(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The place from which on *function* is 0 or above, to the last bits, ``[n]``.

    By Chandrupatla's method (Adv. Eng. Softw. 28, 1997): inverse quadratic interpolation where the last three points
    say that it is safe, halving where not.

    Args:
        function: of one place each, ``[n]``; continuous.
        low: where it is below 0, or is 0 already, ``[n]``.
        high: where it is 0 or above, ``[n]``.
    """
    new, other = np.array(high), np.array(low)
    new_f, other_f = function(new), function(other)
    step = np.full(len(new), 0.5)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MOST):
            least = np.spacing(np.maximum(np.abs(new), np.abs(other)))
            done = (np.abs(other - new) <= least) | (new_f == 0.0)
            if done.all():
                break
            at = np.where(done, new, new + step * (other - new))
            at_f = function(at)
            same = (at_f >= 0.0) == (new_f >= 0.0)
            old, old_f = np.where(same, new, other), np.where(same, new_f, other_f)
            other, other_f = np.where(same, other, new), np.where(same, other_f, new_f)
            new, new_f = at, at_f
            place, level = (new - other) / (old - other), (new_f - other_f) / (old_f - other_f)
            safe = (level**2 < place) & ((1.0 - level) ** 2 < 1.0 - place)
            there = new_f / (other_f - new_f) * old_f / (other_f - old_f)
            there += (old - new) / (other - new) * new_f / (old_f - new_f) * other_f / (old_f - other_f)
            edge = np.minimum(least / np.abs(other - new), 0.5)
            step = np.clip(np.where(safe & np.isfinite(there), there, 0.5), edge, 1.0 - edge)
    return np.where(new_f >= 0.0, new, other)


# Where a battery's energy comes from: nothing, a charger, the sun.


DAY_S = 86400.0
Gain = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""Energy as a function of the time up to which it is counted, each ``[n]``."""


class EnergySource(Protocol):
    """Power for each user over time, cut into segments in which power less a constant drain keeps its sign."""

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When the segment that begins at *from_s*, or that it lies in, ends, ``[n]``; later than *from_s*."""

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """Energy that comes in less what is drained, from *from_s* to a later time of the same segment."""


class Charger(Spec):
    """A charger of constant power, plugged in all the time or in one window of each day."""

    power: Annotated[Watts, Field(gt=0)]
    """What it gives."""
    opens: Annotated[Seconds, Field(ge=0, le=DAY_S)] | None = None
    """When it is plugged in, from the start of the day; time 0 is one.  Without, it always is."""
    closes: Annotated[Seconds, Field(ge=0, le=DAY_S)] | None = None
    """When it is unplugged, perhaps after midnight."""
    spread: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 0.0
    """Width of the interval, around 0, from which the shift of each user's window is drawn."""

    @model_validator(mode="after")
    def _window(self) -> Charger:
        """Both ends of a window, or none."""
        if (self.opens is None) != (self.closes is None):
            raise ValueError("give opens and closes, or neither")
        if self.opens is not None and (self.closes or 0.0) % DAY_S == self.opens % DAY_S:
            raise ValueError("opens and closes are the same instant of the day")
        if self.opens is None and self.spread:
            raise ValueError("spread has no effect without opens and closes")
        return self

    def open(self, users: int, streams: Streams) -> EnergySource:
        """The charger of each user."""
        if self.opens is None or self.closes is None:
            return _Plugged(self.power, np.zeros(users), DAY_S, always=True)
        shift_s = self.spread * (streams.field("shift").uniform(np.arange(users)) - 0.5)
        return _Plugged(self.power, self.opens + shift_s, (self.closes - self.opens) % DAY_S, always=False)


class Solar(Spec):
    """A solar panel: half a sine from sunrise to sunset, dimmed by the clouds of the day, the same for all users.

    P(t) = peak · f · sin(π (t - sunrise)/(sunset - sunrise)), f uniform on [1 - clouds, 1] and drawn for each day; a
    day without clouds brings 2/π · peak · (sunset - sunrise).
    """

    peak: Annotated[Watts, Field(gt=0)]
    """Power at noon of a clear day."""
    sunrise: Annotated[Seconds, Field(ge=0, le=DAY_S)] = DAY_S / 4.0
    """When the sun rises, from the start of the day; time 0 is one."""
    sunset: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 3.0 * DAY_S / 4.0
    """When it sets."""
    clouds: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The largest share of the power that clouds can take."""

    @model_validator(mode="after")
    def _daylight(self) -> Solar:
        """A day between morning and evening."""
        if self.sunset <= self.sunrise:
            raise ValueError("the sun sets before it rises")
        return self

    def open(self, users: int, streams: Streams) -> EnergySource:
        """The sun on all users."""
        return _Sun(self, streams.field("clouds"))


class NoSupply:
    """No energy comes in."""

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Never."""
        return np.full(len(users), np.inf)

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """The drain alone."""
        return _constant(-drain_w, from_s)


class _Plugged:
    """Constant power, always or in a window of the day."""

    def __init__(self, power_w: float, opens_s: NDArray[np.float64], length_s: float, *, always: bool) -> None:
        self._power_w, self._opens_s, self._length_s, self._always = power_w, opens_s, length_s, always

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """When it is plugged in or out."""
        if self._always:
            return np.full(len(users), np.inf)
        opened_s, opens_s = surrounding_instants(self._opens_s[users], DAY_S, from_s)
        closes_s = opened_s + self._length_s
        return np.where(from_s < closes_s, closes_s, opens_s)

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """Power times time."""
        opened_s, _ = surrounding_instants(self._opens_s[users], DAY_S, from_s)
        plugged = self._always | (from_s < opened_s + self._length_s)
        return _constant(self._power_w * plugged - drain_w, from_s)


class _Sun:
    """Half a sine each day; a day's segments end where the power meets the drain, at noon if it never does."""

    def __init__(self, solar: Solar, clouds: RandomField) -> None:
        self._solar, self._clouds, self._length_s = solar, clouds, solar.sunset - solar.sunrise

    def until_s(
        self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Sunrise, where power begins to exceed the drain, where it ceases to, or sunset."""
        rise_s, next_s = surrounding_instants(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        angle = np.arcsin(np.minimum(drain_w / np.maximum(self._peak_w(rise_s), _DARK_W), 1.0))
        early_s = angle / np.pi * self._length_s
        edges_s = rise_s + np.array([early_s, self._length_s - early_s, np.full(len(users), self._length_s)])
        edges_s = np.vstack([edges_s, next_s])
        return np.asarray(np.where(edges_s > from_s, edges_s, np.inf).min(axis=0))

    def gain(self, users: NDArray[np.int64], from_s: NDArray[np.float64], drain_w: NDArray[np.float64]) -> Gain:
        """∫ peak · f · sin, in closed form, less the drain."""
        rise_s, _ = surrounding_instants(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        scale_j = self._peak_w(rise_s) * self._length_s / np.pi

        def cosine(at_s: NDArray[np.float64]) -> NDArray[np.float64]:
            return np.asarray(np.cos(np.pi * np.minimum(np.maximum((at_s - rise_s) / self._length_s, 0.0), 1.0)))

        begin = cosine(from_s)
        return lambda to_s: scale_j * (begin - cosine(to_s)) - drain_w * (to_s - from_s)

    def _peak_w(self, rise_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Power at noon of the day with this sunrise; the day before time 0 is a clear one."""
        day = np.rint((rise_s - self._solar.sunrise) / DAY_S).astype(np.int64)
        factor = 1.0 - self._solar.clouds * self._clouds.uniform(0, np.maximum(day, 0))
        return self._solar.peak * np.where(day >= 0, factor, 1.0)


_DARK_W = 1e-300


def _constant(power_w: NDArray[np.float64], from_s: NDArray[np.float64]) -> Gain:
    """Power times time, none for ever being none."""

    def gain_j(to_s: NDArray[np.float64]) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):
            return np.where(power_w == 0.0, 0.0, power_w * (to_s - from_s))

    return gain_j


def time_when_met_s(
    gain: Gain, from_s: NDArray[np.float64], to_s: NDArray[np.float64], wanted_j: NDArray[np.float64]
) -> NDArray[np.float64]:
    """When, within a segment from *from_s* to *to_s* in which it comes about, *gain* is *wanted_j*, ``[n]``."""
    if np.isinf(to_s).all():  # the power is constant
        return np.asarray(from_s + np.abs(wanted_j / gain(from_s + 1.0)))
    return find_crossing(lambda at_s: np.abs(gain(at_s)) - np.abs(wanted_j), from_s, to_s)


# The charge of batteries over time, as uses are told.


_AHEAD = 16
"""Segments of the supply over which a change is looked for."""


@dataclass(frozen=True, slots=True)
class BatteryCosts:
    """What drains a battery, in joules and watts."""

    training_j: float
    sample_j: float
    bit_j: float
    idle_w: float


@dataclass(slots=True)
class _State:
    """When, how much charge, and whether up: of each battery, ``[n]``, or along a chain of each, ``[n, knots]``."""

    time_s: NDArray[np.float64]
    charge_j: NDArray[np.float64]
    up: NDArray[np.bool_]

    def of(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> _State:
        """Those of *rows*, apart from these."""
        return _State(self.time_s[rows], self.charge_j[rows], self.up[rows])

    def put(self, rows: NDArray[np.int64] | NDArray[np.bool_], state: _State) -> None:
        """Let *rows* be in *state*."""
        self.time_s[rows], self.charge_j[rows], self.up[rows] = state.time_s, state.charge_j, state.up

    def at(self, knots: NDArray[np.int64]) -> _State:
        """One knot of each chain."""
        rows = np.arange(len(knots))
        return _State(self.time_s[rows, knots], self.charge_j[rows, knots], self.up[rows, knots])

    def changes(self, knots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where, after one knot of each chain, the state is not as there, ``[n, knots]``."""
        after = np.arange(self.up.shape[1]) > knots[:, None]
        return np.asarray(after & (self.up != self.at(knots).up[:, None]))

    def chain(self) -> _State:
        """Chains that come to this state, with nothing before."""
        every = np.repeat(np.arange(len(self.time_s))[:, None], _AHEAD + 1, axis=1)
        chain = self.of(every)
        chain.time_s[:, :-1] = -np.inf
        return chain

    def add(self, rows: NDArray[np.int64], state: _State) -> None:
        """Let the chains of *rows* go on to *state*; what lies furthest back is forgotten."""
        for kept, new in ((self.time_s, state.time_s), (self.charge_j, state.charge_j), (self.up, state.up)):
            kept[rows, :-1] = kept[rows, 1:]
            kept[rows, -1] = new


class BatteryState(NodeAvailability):
    """Batteries: from its last use each follows a chain of knots, the ends of segments and its own changes.

    An answer is read off the last knot before the time that is asked, so that it does not depend on what was asked
    before; the last knots that were reached are kept, so that the chain need not be walked anew.

    Args:
        row: each node's battery, ``[nodes]``; -1 for those without.
        charge_j: what is in each at time 0, ``[batteries]``.
        capacity_j: what is in a full one.
        restart_j: with how much a user that ran empty is up again.
        costs: what drains them.
        supply: what charges them.
    """

    def __init__(
        self,
        row: NDArray[np.int64],
        charge_j: NDArray[np.float64],
        capacity_j: float,
        restart_j: float,
        costs: BatteryCosts,
        supply: EnergySource,
    ) -> None:
        self._row, self._capacity_j, self._restart_j = row, capacity_j, restart_j
        self._costs, self._supply = costs, supply
        self._used = _State(np.zeros(len(charge_j)), charge_j.copy(), charge_j > 0.0)
        self._kept = self._used.chain()
        self._past: dict[int, list[float]] = {}
        self._began_up = self._used.up.copy()

    @property
    def exact(self) -> bool:
        """It looks only some segments ahead."""
        return False

    @property
    def metered(self) -> bool:
        """Unless they only idle."""
        return bool(self._costs.training_j or self._costs.sample_j or self._costs.bit_j)

    def up(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.bool_]:
        """Whether each battery has not run empty, or is charged again."""
        return self._look(nodes, time_s, ahead=False)[0]

    def next_change(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """When it runs empty, or is charged again; or until when it is looked ahead."""
        return self._look(nodes, time_s, ahead=True)[1]

    def charge_j(self, nodes: NDArray[np.int64], time_s: ArrayLike) -> NDArray[np.float64]:
        """What is in each battery at *time_s*, not before its last use, ``[n]``; all nodes must have one."""
        rows = self._row[nodes]
        at_s = np.broadcast_to(np.asarray(time_s, float), rows.shape)
        chain, knot = self._reach(rows, at_s)
        return self._at(rows, chain.at(knot), at_s)

    def train(self, users: NDArray[np.int64], time_s: ArrayLike, samples: ArrayLike) -> None:
        """Take what a training needs."""
        self._use(users, time_s, self._costs.training_j + self._costs.sample_j * np.asarray(samples, float))

    def transmit(self, users: NDArray[np.int64], time_s: ArrayLike, bits: ArrayLike) -> None:
        """Take what a transmission needs."""
        self._use(users, time_s, self._costs.bit_j * np.asarray(bits, float))

    def _use(self, users: NDArray[np.int64], time_s: ArrayLike, joules: NDArray[np.float64]) -> None:
        """Take *joules* from the batteries of *users*, each named once, and remember how they came to that."""
        rows = self._row[users]
        own = rows >= 0
        rows = rows[own]
        at_s = np.maximum(np.broadcast_to(np.asarray(time_s, float), own.shape)[own], self._used.time_s[rows])
        state = self._used.of(rows)
        todo = np.arange(len(rows))
        while todo.size:
            following = self._step(rows[todo], state.of(todo))
            within = following.time_s <= at_s[todo]
            todo, following = todo[within], following.of(np.flatnonzero(within))
            self._remember(rows[todo], following.time_s, state.up[todo] != following.up)
            state.put(todo, following)
        left_j = np.maximum(self._at(rows, state, at_s) - np.broadcast_to(joules, own.shape)[own], 0.0)
        up = state.up & (left_j > 0.0)
        self._remember(rows, at_s, state.up != up)
        self._used.put(rows, _State(at_s, left_j, up))
        self._kept.put(rows, self._used.of(rows).chain())

    def _remember(self, rows: NDArray[np.int64], time_s: NDArray[np.float64], changed: NDArray[np.bool_]) -> None:
        """Keep the changes that came before a use."""
        for row, at_s in zip(rows[changed].tolist(), time_s[changed].tolist(), strict=True):
            self._past.setdefault(row, []).append(at_s)

    def _look(
        self, nodes: NDArray[np.int64], time_s: ArrayLike, *, ahead: bool
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Whether each node is up, and, if it is looked *ahead*, until when."""
        up, until_s = np.ones(len(nodes), np.bool_), np.full(len(nodes), np.inf)
        time = np.broadcast_to(np.asarray(time_s, float), len(nodes))
        own = np.flatnonzero(self._row[nodes] >= 0)
        rows, at_s = self._row[nodes[own]], time[own]
        was = at_s < self._used.time_s[rows]
        chain, knot = self._reach(rows, np.maximum(at_s, self._used.time_s[rows]))
        up[own] = chain.at(knot).up
        if ahead:
            until_s[own] = self._ahead(rows, chain, knot)
        for place, row, when in zip(own[was].tolist(), rows[was].tolist(), at_s[was].tolist(), strict=True):
            past = self._past.get(row, [])
            count = bisect_right(past, when)
            up[place] = bool(self._began_up[row]) ^ (count % 2 == 1)
            until_s[place] = past[count] if count < len(past) else until_s[place]
        return up, until_s

    def _reach(self, rows: NDArray[np.int64], at_s: NDArray[np.float64]) -> tuple[_State, NDArray[np.int64]]:
        """A chain of each battery beyond *at_s*, not before its last use, and which knot is its last up to then."""
        chain = self._kept.of(rows)
        past = chain.time_s[:, 0] > at_s
        chain.put(past, self._used.of(rows[past]).chain())
        todo = np.flatnonzero(chain.time_s[:, -1] <= at_s)
        while todo.size:
            self._extend(rows, chain, todo)
            todo = todo[chain.time_s[todo, -1] <= at_s[todo]]
        self._kept.put(rows, chain)
        return chain, (chain.time_s <= at_s[:, None]).sum(axis=1) - 1

    def _ahead(self, rows: NDArray[np.int64], chain: _State, knot: NDArray[np.int64]) -> NDArray[np.float64]:
        """When the state after the knots with these numbers changes; or a time before which it does not."""
        todo = np.arange(len(rows))
        while todo.size:
            todo = todo[~chain.changes(knot)[todo].any(axis=1)]
            todo = todo[(knot[todo] > 0) & np.isfinite(chain.time_s[todo, -1])]
            self._extend(rows, chain, todo)
            knot[todo] -= 1
        self._kept.put(rows, chain)
        changes = chain.changes(knot)
        return chain.at(np.where(changes.any(axis=1), changes.argmax(axis=1), _AHEAD)).time_s

    def _extend(self, rows: NDArray[np.int64], chain: _State, which: NDArray[np.int64]) -> None:
        """Let *which* of the chains go on by one knot."""
        if which.size:
            chain.add(which, self._step(rows[which], chain.at(np.full(len(rows), _AHEAD)).of(which)))

    def _step(self, rows: NDArray[np.int64], state: _State) -> _State:
        """The knot that follows each."""
        drain_w = self._drain_w(state)
        end_s = self._supply.until_s(rows, state.time_s, drain_w)
        charge_j = state.charge_j + self._supply.gain(rows, state.time_s, drain_w)(end_s)
        changes = np.where(state.up, charge_j <= 0.0, charge_j >= self._restart_j) & (charge_j != state.charge_j)
        up, at = state.up ^ changes, np.flatnonzero(changes)
        if at.size:
            goal_j = np.where(up[at], self._restart_j, 0.0)
            gain = self._supply.gain(rows[at], state.time_s[at], drain_w[at])
            end_s[at] = time_when_met_s(gain, state.time_s[at], end_s[at], goal_j - state.charge_j[at])
            charge_j[at] = goal_j
        return _State(end_s, np.clip(charge_j, 0.0, self._capacity_j), up)

    def _at(self, rows: NDArray[np.int64], state: _State, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is in each battery at *at_s*, in the segment after its knot."""
        gain = self._supply.gain(rows, state.time_s, self._drain_w(state))
        return np.clip(state.charge_j + gain(at_s), 0.0, self._capacity_j)

    def _drain_w(self, state: _State) -> NDArray[np.float64]:
        """What takes from each, unless it is down."""
        return np.where(state.up, self._costs.idle_w, 0.0)


def _range(value: Any) -> Any:
    """One figure as a range of no width."""
    return value if isinstance(value, list | tuple) else (value, value)


class Battery(Outage):
    """A user's battery is drained by training, by sending and by being on; empty, it is down until enough is charged.

    The charge c is between 0 and ``capacity``.  Up, dc/dt = P(t) - idle, with P the power of the charger or the sun;
    a training takes per_training + per_sample · samples, and a transmission, the moment it begins, per_bit · bits.
    At c = 0 the user goes down, and drains nothing while dc/dt = P(t) brings c back to restart · capacity.  A use
    that takes more than is left empties the battery at once.  Integrals are exact, piece by piece: no time steps.

    Uses must be told in the order of time, user by user; one told late counts at the user's last.  Of times after a
    user's last use the answer is what comes about if there are no further uses; of earlier times, what was.

    Example::

        kind: battery
        capacity: 15 Wh
        initial: [0.3, 1]
        per_sample: 20 mJ
        per_bit: 1 uJ
        idle: 30 mW
        solar: {peak: 1 W, clouds: 0.8}
    """

    nodes: Nodes = "users"
    """Which users have batteries: ``users`` for all, or a list of their numbers."""
    capacity: Annotated[Joules, Field(gt=0)]
    """Energy of a full battery."""
    initial: Annotated[tuple[Probability, Probability], BeforeValidator(_range)] = (1.0, 1.0)
    """Charge at time 0 as a share of the capacity: one figure, or [from, to], over which users are uniform."""
    restart: Annotated[float, Field(gt=0, le=1)] = 0.1
    """The share of the capacity at which a user that ran empty is up again."""
    per_training: Annotated[Joules, Field(ge=0)] = 0.0
    """What each training takes."""
    per_sample: Annotated[Joules, Field(ge=0)] = 0.0
    """What each training sample takes besides."""
    per_bit: Annotated[Joules, Field(ge=0)] = 0.0
    """What each bit that is sent takes."""
    idle: Annotated[Watts, Field(ge=0)] = 0.0
    """What a user takes that is up."""
    charger: Charger | None = None
    """A charger: its ``power``, and when it is plugged in."""
    solar: Solar | None = None
    """In its place, a solar panel: its ``peak``, ``sunrise``, ``sunset`` and ``clouds``."""

    @model_validator(mode="after")
    def _sound(self) -> Battery:
        """One supply; a range that is one; something that drains."""
        if self.charger is not None and self.solar is not None:
            raise ValueError("give charger or solar, not both")
        if self.initial[0] > self.initial[1]:
            raise ValueError("initial is [from, to], and from is above to")
        if not (self.per_training or self.per_sample or self.per_bit or self.idle):
            raise ValueError("nothing drains the battery: give per_training, per_sample, per_bit or idle")
        return self

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Users that there are not; nodes that are no users."""
        yield from node_faults(self.nodes, facts)
        strangers = [self.nodes] if isinstance(self.nodes, str) else [n for n in self.nodes if isinstance(n, str)]
        if strangers and self.nodes != "users":
            yield Fault("nodes", "only users have batteries", strangers, "write users, or numbers of users")

    def open(self, sites: Layout, streams: Streams) -> NodeAvailability:
        """A battery for each user."""
        return self._opened(node_numbers(self.nodes, sites), sites.nodes, streams)

    def laws(self) -> tuple[Law, ...]:
        """The charge at the start, and the sunlight of a day, where they are drawn."""
        (least, most), laws = self.initial, []

        def initial(streams: Streams, size: int) -> NDArray[np.float64]:
            every = np.arange(size)
            return self._opened(every, size, streams).charge_j(every, 0.0) / self.capacity

        if least < most:
            width = most - least
            laws.append(
                Law(
                    "charge at time 0, as a share of the capacity",
                    f"uniform on [{least:g}, {most:g}]",
                    draw=initial,
                    mean=(least + most) / 2.0,
                    variance=width**2 / 12.0,
                    cdf=lambda x: np.clip((x - least) / width, 0.0, 1.0),
                )
            )
        if self.solar is not None and self.solar.clouds:
            laws.append(_sunlight(self.solar))
        return tuple(laws) or (Law.none("nothing is drawn: what is drained is what users do"),)

    def _opened(self, struck: NDArray[np.int64], nodes: int, streams: Streams) -> BatteryState:
        """The batteries of the users *struck*, among so many nodes."""
        row = np.full(nodes, -1)
        row[struck] = np.arange(len(struck))
        least, most = self.initial
        share = least + (most - least) * streams.field("initial").uniform(np.arange(len(struck)))
        source = self.charger or self.solar
        supply: EnergySource = NoSupply() if source is None else source.open(len(struck), streams)
        costs = BatteryCosts(self.per_training, self.per_sample, self.per_bit, self.idle)
        return BatteryState(row, self.capacity * share, self.capacity, self.restart * self.capacity, costs, supply)


def _sunlight(solar: Solar) -> Law:
    """What a panel brings in a day."""
    clear_j = 2.0 / np.pi * solar.peak * (solar.sunset - solar.sunrise)

    def draw(streams: Streams, size: int) -> NDArray[np.float64]:
        rise_s = DAY_S * np.arange(size, dtype=np.float64) + solar.sunrise
        gain = solar.open(1, streams).gain(np.zeros(size, np.int64), rise_s, np.zeros(size))
        return gain(rise_s + (solar.sunset - solar.sunrise))

    return Law(
        "sunlight of a day in J",
        "2/π · peak · (sunset - sunrise) times f, uniform on [1 - clouds, 1]",
        draw=draw,
        mean=clear_j * (1.0 - solar.clouds / 2.0),
        variance=(clear_j * solar.clouds) ** 2 / 12.0,
        cdf=lambda x: np.clip((np.asarray(x) / clear_j - 1.0 + solar.clouds) / solar.clouds, 0.0, 1.0),
    )
