"""Users that run on batteries, and are down while these are empty."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator, Field, model_validator

from netfl.core.spec import OnlyWith, Spec
from netfl.errors import Fault
from netfl.network.energy import Energy, EnergyMeter
from netfl.network.layout import Layout
from netfl.network.outage import LargestUses, NodeAvailability
from netfl.network.outage._arrivals import BernoulliArrivals, PoissonArrivals
from netfl.network.outage._daily import draw_shifts_s, recurring_window
from netfl.network.outage._targets import NodeOutage, Nodes, node_rows
from netfl.network.periods import after_rounding, surrounding_instants
from netfl.streams import RandomField, Streams
from netfl.types import Bools, Floats, Ints, Law
from netfl.units import Joules, Probability, Seconds, Watts

DAY_S = 86400.0
_AHEAD = 4
"""Segments of the energy source that are searched for a change at once."""
_DARK_W = 1e-300
"""Least power by which a drain is divided."""
_MAX_EVALUATIONS = 128
"""Limit of the search for a crossing; fifteen are typical, and a hundred if every step is a bisection."""
_LAW_PERIODS = 5
"""Periods over which the law of arrivals counts them."""
_ROUNDING = 1e-12
"""Share of the capacity by which a cost may exceed the charge and still counts as equal: sums of costs are rounded."""

EnergyGain = Callable[[Floats], Floats]
"""Energy as a function of the end of the time over which it is counted, each ``[n]``."""


class EnergySource(Protocol):
    """Power of each user over time, cut into segments in which power minus a constant drain keeps its sign."""

    def segment_end(self, users: Ints, from_s: Floats, drain_w: Floats) -> tuple[Floats, Floats]:
        """Return the end of the segment of *from_s*, later than *from_s*, and the energy that arrives there at once.

        Both are ``[n]``.
        """

    def gain(self, users: Ints, from_s: Floats, drain_w: Floats) -> EnergyGain:
        """Return the energy supplied minus the energy drained, from *from_s* to a later time of the same segment.

        What arrives at the instant at which the segment ends does not count.
        """


class Charger(Spec):
    """A charger of constant power, plugged in always or in one window of each day, or energy that arrives in portions.

    - ``constant``: ``power``, within the window from ``opens`` to ``closes``.
    - ``poisson``: portions of ``energy`` at the instants of a Poisson process of rate 1/period, of each user by itself:
      in a time t, a mean of energy · t/period, with the variance energy² · t/period.
    - ``bernoulli``: at the end of each period, a portion of ``energy`` with ``probability``, of each user by itself: in
      n periods, a mean of energy · n p, with the variance energy² · n p (1 - p).

    A full battery refuses what exceeds its capacity.
    """

    kind: Literal["constant", "poisson", "bernoulli"] = "constant"
    """Power, or portions of energy."""
    power: Annotated[Annotated[Watts, Field(gt=0)] | None, OnlyWith("kind", "constant", needed=True)] = None
    """Its power."""
    opens: Annotated[Annotated[Seconds, Field(ge=0, le=DAY_S)] | None, OnlyWith("kind", "constant")] = None
    """Time at which it is plugged in, from the start of the day, as at time 0; by default it always is."""
    closes: Annotated[Annotated[Seconds, Field(ge=0, le=DAY_S)] | None, OnlyWith("kind", "constant")] = None
    """Time at which it is unplugged, possibly after midnight."""
    spread: Annotated[Seconds, Field(ge=0, le=DAY_S), OnlyWith("opens")] = 0.0
    """Width of the interval, around 0, from which the shift of each user's window is drawn."""
    energy: Annotated[Annotated[Joules, Field(gt=0)] | None, OnlyWith("kind", "poisson", "bernoulli", needed=True)] = (
        None
    )
    """Energy of a portion."""
    period: Annotated[Annotated[Seconds, Field(gt=0)] | None, OnlyWith("kind", "poisson", "bernoulli", needed=True)] = (
        None
    )
    """Mean time between two portions of ``poisson``; of ``bernoulli`` the time between two chances of one."""
    probability: Annotated[Annotated[float, Field(gt=0, le=1)] | None, OnlyWith("kind", "bernoulli", needed=True)] = (
        None
    )
    """Probability p of a portion at the end of a period."""

    @model_validator(mode="after")
    def _check_window(self) -> Charger:
        if (self.opens is None) != (self.closes is None):
            raise ValueError("one of opens and closes is missing; give both, or neither")
        if self.opens is not None and (self.closes or 0.0) % DAY_S == self.opens % DAY_S:
            raise ValueError("opens and closes are the same time of day; change one of them")
        return self

    def most_j(self, duration_s: float) -> float:
        """Return the largest energy that it can supply within *duration_s*."""
        if self.power is not None:
            return self.power * duration_s
        assert self.energy is not None
        assert self.period is not None
        if self.kind == "bernoulli":
            return self.energy * (duration_s // self.period + 1.0)
        return np.inf  # any number of portions can arrive

    def open(self, ids: Ints, streams: Streams) -> EnergySource:
        """Return the chargers of users with the numbers *ids*."""
        if self.energy is not None and self.period is not None:  # it comes in portions
            draws = streams.field("arrivals")
            if self.probability is None:
                return PoissonArrivals(self.energy, self.period, ids, draws)
            return BernoulliArrivals(self.energy, self.period, ids, draws, self.probability)

        assert self.power is not None
        users = len(ids)
        if self.opens is None or self.closes is None:  # always plugged in
            return _PluggedIn(self.power, np.zeros(users), np.inf)
        opens_s = self.opens + draw_shifts_s(self.spread, users, streams)
        length_s = (self.closes - self.opens) % DAY_S  # it may extend over midnight
        return _PluggedIn(self.power, opens_s, length_s)


class Solar(Spec):
    """A solar panel: half a sine from sunrise to sunset, dimmed by the clouds of the day, the same for all users.

    P(t) = peak · f · sin(π (t - sunrise)/(sunset - sunrise)), f uniform on [1 - clouds, 1] and drawn for each day; a
    day without clouds brings 2/π · peak · (sunset - sunrise).
    """

    peak: Annotated[Watts, Field(gt=0)]
    """Power at noon of a clear day."""
    sunrise: Annotated[Seconds, Field(ge=0, le=DAY_S)] = DAY_S / 4.0
    """Time of sunrise, from the start of the day, as at time 0."""
    sunset: Annotated[Seconds, Field(ge=0, le=DAY_S)] = 3.0 * DAY_S / 4.0
    """Time of sunset."""
    clouds: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The largest share of the power that clouds can take."""

    @model_validator(mode="after")
    def _check_daylight(self) -> Solar:
        if self.sunset <= self.sunrise:
            raise ValueError("the sun sets before it rises; exchange the two times")
        return self

    def most_j(self, duration_s: float) -> float:
        """Return an upper bound of the energy within *duration_s*: that of noon."""
        return self.peak * duration_s

    def open(self, ids: Ints, streams: Streams) -> EnergySource:
        """Return the solar power of users with the numbers *ids*."""
        return _Sun(self, streams.field("clouds"))


def _as_range(value: Any) -> Any:
    """Return a single value as a range of no width."""
    if isinstance(value, list | tuple):
        return value
    return (value, value)


class Battery(NodeOutage):
    """A user's battery is drained by training, by sending and by being on; empty, it is down until it is recharged.

    The charge c is between 0 and ``capacity``.  Up, dc/dt = P(t) - d, with P the power of the charger or the sun and d
    that of the user; at c = ``capacity`` the battery refuses what exceeds d.

    What drains it is what ``energy`` of the network counts, joule for joule: d is the power of being on and, from the
    start of a training to its end, that of its samples; per_training, a transmission and a reception are taken the
    moment they begin.  The costs are given there, such as ``energy: {per_sample: 20 mJ, transmit: 300 mW}``.

    - A use that costs at most c, up to rounding, is paid.  If nothing is left, c = 0, the user stays up as long as
      the supply covers d: with d = 0, until its next use.
    - A use that costs more takes c, fails at once, and the user goes down.
    - A user for whom d takes the last of c goes down.

    A user that is down is switched off: it drains nothing while dc/dt = P(t) brings c back to restart · capacity, and
    it does not train.  A training during which the user goes down is lost; one that should begin while it is down is
    lost without costs.  Integrals are exact, piece by piece: no time steps.

    Uses must be reported in the order of time, user by user; a late report counts at the user's last use.  States after
    a user's last use assume that it has no further uses; earlier states are final.

    Example::

        kind: battery
        capacity: 15 Wh
        initial: [0.3, 1]
        solar: {peak: 1 W, clouds: 0.8}
    """

    has_batteries: ClassVar[bool] = True
    users_only = "only users have batteries"
    nodes: Nodes = "users"
    """Users with batteries: ``users`` for all, or a list of their numbers."""
    capacity: Annotated[Joules, Field(gt=0)]
    """Energy of a full battery."""
    initial: Annotated[tuple[Probability, Probability], BeforeValidator(_as_range)] = (1.0, 1.0)
    """Charge at time 0 as a share of the capacity: one value, or [from, to], over which users are uniform."""
    restart: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the capacity at which a user that ran empty is up again."""
    charger: Charger | None = None
    """A charger: its ``power``, and when it is plugged in; or a ``kind`` whose energy arrives in portions."""
    solar: Solar | None = None
    """In its place, a solar panel: its ``peak``, ``sunrise``, ``sunset`` and ``clouds``."""

    @model_validator(mode="after")
    def _check_keys(self) -> Battery:
        if self.charger is not None and self.solar is not None:
            raise ValueError("charger and solar are given together; give only one of them")
        if self.initial[0] > self.initial[1]:
            raise ValueError("initial is [from, to], but from is above to; put the smaller share first")
        return self

    def energy_faults(self, energy: Energy | None) -> Iterator[Fault]:
        if energy is None or not energy.has_costs:
            remedy = "give costs in access.energy, such as per_sample, transmit or idle"
            yield Fault("", "nothing drains the battery, which pays what access.energy counts", None, remedy)

    def open(self, layout: Layout, streams: Streams) -> NodeAvailability:
        return self._open_rows(node_rows(self.nodes, layout), streams)

    def warnings(self, uses: LargestUses) -> Iterator[str]:
        available_j = self.capacity * (1.0 + _ROUNDING)
        too_dear = []
        if uses.frame_j is not None and uses.frame_j > available_j:
            too_dear.append(("a frame", uses.frame_j, "transmit"))
        if uses.training_j is not None:
            supplied_j = 0.0 if self._source is None else self._source.most_j(uses.training_s)
            # the costs of a start are taken at once, those of a training while the supply recharges the battery
            if uses.start_j > available_j or uses.training_j > available_j + supplied_j:
                too_dear.append(("a training", uses.training_j, "its costs"))
        for use, cost_j, keys in too_dear:
            yield (
                f"{use} costs up to {cost_j:.3g} J, more than the capacity of {self.capacity:.3g} J, so it always "
                f"empties the battery and fails; increase capacity, or lower {keys} in access.energy"
            )

    @property
    def has_charging_times(self) -> bool:
        return self.solar is not None or (self.charger is not None and self.charger.kind == "constant")

    @property
    def _source(self) -> Charger | Solar | None:
        return self.charger or self.solar

    def laws(self) -> tuple[Law, ...]:
        from scipy import stats

        low, high = self.initial

        def initial(streams: Streams, size: int) -> Floats:
            users = np.arange(size)
            return self._open_rows(users, streams).charge_j(users, 0.0) / self.capacity

        laws = []
        if low < high:
            quantity = "charge at time 0, as a share of the capacity"
            statement = f"uniform on [{low:g}, {high:g}]"
            laws.append(Law(quantity, statement, draw=initial, distribution=stats.uniform(low, high - low)))
        if self.solar is not None and self.solar.clouds:
            laws.append(_sunlight_law(self.solar))
        if self.charger is not None and self.charger.kind != "constant":
            laws.append(_arrivals_law(self.charger))
        return tuple(laws) or (Law.none("nothing is drawn: the activity of users drains the battery"),)

    def _open_rows(self, row: Ints, streams: Streams) -> BatteryState:
        """Return batteries: that of node n is *row[n]*, -1 for none."""
        batteries = int(row.max(initial=-1)) + 1
        low, high = self.initial
        share = low + (high - low) * streams.field("initial").uniform(np.arange(batteries))
        if self._source is None:
            supply: EnergySource = _PluggedIn(0.0, np.zeros(batteries), np.inf)
        else:
            users = np.flatnonzero(row >= 0)
            ids = users[np.argsort(row[users])]  # the user of each battery
            supply = self._source.open(ids, streams)
        return BatteryState(row, self.capacity * share, self, supply)


def _arrivals_law(charger: Charger) -> Law:
    from scipy import stats

    assert charger.energy is not None
    assert charger.period is not None
    energy_j = charger.energy
    period_s = charger.period

    def draw(streams: Streams, size: int) -> Floats:
        supply = charger.open(np.arange(size), streams)
        until_s = np.full(size, after_rounding(_LAW_PERIODS * period_s))
        return np.rint(supplied_energy_j(supply, np.arange(size), until_s) / energy_j)

    distribution = stats.poisson(_LAW_PERIODS)
    if charger.probability is not None:
        distribution = stats.binom(_LAW_PERIODS, charger.probability)
    quantity = f"portions of energy in {_LAW_PERIODS} periods"
    return Law(quantity, "independent of other users", draw=draw, distribution=distribution)


def _sunlight_law(solar: Solar) -> Law:
    from scipy import stats

    clear_j = 2.0 / np.pi * solar.peak * (solar.sunset - solar.sunrise)

    def draw(streams: Streams, size: int) -> Floats:
        sun = solar.open(np.zeros(1, np.int64), streams)
        rise_s = DAY_S * np.arange(size, dtype=np.float64) + solar.sunrise  # of one day each
        same_user = np.zeros(size, np.int64)
        gain = sun.gain(same_user, rise_s, np.zeros(size))
        return gain(rise_s + (solar.sunset - solar.sunrise))

    statement = "2/π · peak · (sunset - sunrise) times f, uniform on [1 - clouds, 1]"
    distribution = stats.uniform(clear_j * (1.0 - solar.clouds), clear_j * solar.clouds)
    return Law("sunlight of a day in J", statement, draw=draw, distribution=distribution)


class BatteryLedger(NamedTuple):
    """Energy of batteries since time 0, in joules, ``[n]`` each.

    supplied = charge - initial + paid + failed + computing + idle + refused, up to rounding.

    Args:
        initial: charge at time 0.
        charge: charge now.
        supplied: energy from the charger or the sun, integrated apart from the batteries.
        refused: energy from there that full batteries did not take.
        paid: energy of the uses that were paid.
        failed: energy of the uses that failed, as they cost more than was left.
        computing: energy of trainings from their starts on, as counted by the network.
        idle: energy of being up.
    """

    initial: Floats
    charge: Floats
    supplied: Floats
    refused: Floats
    paid: Floats
    failed: Floats
    computing: Floats
    idle: Floats


@dataclass(slots=True)
class _Knots:
    """Time, charge and state of batteries: one knot of each, ``[n]``, or a chain of each, ``[n, knots]``.

    Args:
        refused_j: energy refused by the full battery since time 0.
        idle_j: energy of being up since time 0.
        computing_j: energy of computing since time 0.
        computing_w: power of a training, in addition to that of being up.
        computed_s: end of that training.
    """

    time_s: Floats
    charge_j: Floats
    up: Bools
    refused_j: Floats
    idle_j: Floats
    computing_j: Floats
    computing_w: Floats
    computed_s: Floats

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self.time_s,
            self.charge_j,
            self.up,
            self.refused_j,
            self.idle_j,
            self.computing_j,
            self.computing_w,
            self.computed_s,
        )

    @property
    def is_computing(self) -> Bools:
        """True where a training takes power in the segment after each knot."""
        return self.computing_w > 0.0

    def select(self, rows: Ints | Bools) -> _Knots:
        """Return a copy of the knots, or of the chains, of some rows."""
        return _Knots(*(column[rows] for column in self._columns))

    def assign(self, rows: Ints | Bools, knots: _Knots) -> None:
        """Replace the knots, or the chains, of some rows."""
        for column, new in zip(self._columns, knots._columns, strict=True):
            column[rows] = new

    def at(self, index: Ints) -> _Knots:
        """Return one knot of each chain."""
        rows = np.arange(len(index))
        return _Knots(*(column[rows, index] for column in self._columns))

    def changes_after(self, index: Ints) -> Bools:
        """Return the knots after one of each chain at which the state differs from there, ``[n, knots]``."""
        is_after = np.arange(self.up.shape[1]) > index[:, None]
        has_other_state = self.up != self.at(index).up[:, None]
        return np.asarray(is_after & has_other_state)

    def start_chains(self) -> _Knots:
        """Return chains that end with these knots, with nothing before."""
        batteries = np.arange(len(self.time_s))
        chains = self.select(np.repeat(batteries[:, None], _AHEAD + 1, axis=1))  # [n, knots]
        chains.time_s[:, :-1] = -np.inf  # only the last is a knot
        return chains

    def extend(self, rows: Ints, knots: _Knots) -> None:
        """Append a knot to the chains of *rows*, and drop their oldest."""
        for chains, new in zip(self._columns, knots._columns, strict=True):
            chains[rows, :-1] = chains[rows, 1:]
            chains[rows, -1] = new


class BatteryState(NodeAvailability):
    """Batteries: from its last use each follows a chain of knots, the ends of segments and its own changes.

    A result is computed from the last knot before the requested time, so it does not depend on earlier calls.  The
    latest knots are kept, so that chains are not computed again.

    Args:
        row: battery of each node, ``[nodes]``; -1 for nodes without.
        charge_j: energy of each at time 0, ``[batteries]``.
        model: capacity and costs.
        supply: the energy source.
    """

    def __init__(self, row: Ints, charge_j: Floats, model: Battery, supply: EnergySource) -> None:
        count = len(charge_j)
        self._row = row
        self._model = model
        self._supply = supply
        self._restart_j = model.restart * model.capacity
        self._idle_w = np.zeros(count)
        self._energy: EnergyMeter | None = None
        self._initial_j = charge_j
        self._paid_j = np.zeros(count)
        self._failed_j = np.zeros(count)
        # each battery at its last use, and the latest knots since then
        self._used = _Knots(
            time_s=np.zeros(count),
            charge_j=charge_j.copy(),
            up=charge_j > 0.0,
            refused_j=np.zeros(count),
            idle_j=np.zeros(count),
            computing_j=np.zeros(count),
            computing_w=np.zeros(count),
            computed_s=np.full(count, -np.inf),
        )
        self._kept = self._used.start_chains()
        # the state at time 0, and all changes up to the last use, by battery
        self._began_up = self._used.up.copy()
        self._past_changes_s: dict[int, list[float]] = {}

    @property
    def is_exact(self) -> bool:
        return False  # it looks only some segments ahead

    @property
    def is_metered(self) -> bool:
        return self._energy is not None and self._energy.has_uses

    @property
    def powers_devices(self) -> bool:
        return True

    def up(self, nodes: Ints, time_s: ArrayLike) -> Bools:
        return self._look(nodes, time_s, looks_ahead=False)[0]

    def next_change(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        return self._look(nodes, time_s, looks_ahead=True)[1]

    def charge_j(self, nodes: Ints, time_s: ArrayLike) -> Floats:
        """Return the energy of each battery at *time_s*, not before its last use, ``[n]``; infinite without one."""
        has_battery, rows, at_s = self._with_battery(nodes, time_s)
        charge_j = np.full(len(nodes), np.inf)
        charge_j[has_battery] = self._state_at(rows, at_s).charge_j
        return charge_j

    def charge_share(self, users: Ints, time_s: ArrayLike) -> Floats:
        return self.charge_j(users, time_s) / self._model.capacity

    def is_charging(self, users: Ints, time_s: ArrayLike) -> Bools:
        has_battery, rows, at_s = self._with_battery(users, time_s)
        no_drain_w = np.zeros(len(rows))
        end_s, _ = self._supply.segment_end(rows, at_s, no_drain_w)
        until_s = np.minimum(end_s, at_s + 1.0)  # within the segment, whose power keeps its sign
        is_charging = np.ones(len(users), np.bool_)
        is_charging[has_battery] = self._supply.gain(rows, at_s, no_drain_w)(until_s) > 0.0
        return is_charging

    def ledger(self, nodes: Ints, time_s: ArrayLike) -> BatteryLedger:
        """Return the energy of each battery until *time_s*, not before its last use; all nodes must have one."""
        rows = self._row[nodes]
        at_s = np.broadcast_to(np.asarray(time_s, float), rows.shape)
        now = self._state_at(rows, at_s)
        return BatteryLedger(
            initial=self._initial_j[rows],
            charge=now.charge_j,
            supplied=supplied_energy_j(self._supply, rows, at_s),
            refused=now.refused_j,
            paid=self._paid_j[rows],
            failed=self._failed_j[rows],
            computing=now.computing_j,
            idle=now.idle_j,
        )

    def idle_j(self, users: Ints, time_s: ArrayLike) -> Floats:
        has_battery, rows, at_s = self._with_battery(users, time_s)
        idle_j = np.full(len(users), np.nan)
        idle_j[has_battery] = self._state_at(rows, at_s).idle_j
        return idle_j

    def _with_battery(self, nodes: Ints, time_s: ArrayLike) -> tuple[Bools, Ints, Floats]:
        """Return which nodes have batteries, ``[n]``, and the rows of these and their times."""
        rows = self._row[nodes]
        has_battery = rows >= 0
        times_s = np.broadcast_to(np.asarray(time_s, float), has_battery.shape)
        return has_battery, rows[has_battery], times_s[has_battery]

    def draw_from(self, energy: EnergyMeter) -> None:
        self._energy = energy
        users = np.flatnonzero(self._row >= 0)
        self._idle_w[self._row[users]] = energy.idle_w[users]

    def train(self, users: Ints, time_s: Floats, until_s: Floats) -> Floats | None:
        if self._energy is None:
            return None
        # the costs of the start, at once
        shares = self._use(users, time_s, self._energy.starting_j(users))

        # those of computing, as a power until the training ends; there are none without a duration
        takes_time = until_s > time_s
        duration_s = (until_s - time_s)[takes_time]
        computing_w = np.zeros(len(users))
        computing_w[takes_time] = self._energy.computing_j(users[takes_time], duration_s) / duration_s
        begins = (shares >= 1.0) & (self._row[users] >= 0)
        self._compute(self._row[users[begins]], computing_w[begins], until_s[begins])
        return shares

    def stop(self, users: Ints, time_s: Floats) -> None:
        _, rows, at_s = self._with_battery(users, time_s)
        is_computing = (self._used.computing_w[rows] > 0.0) & (self._used.computed_s[rows] > at_s)
        rows = rows[is_computing]
        at_s = at_s[is_computing]
        self._used.assign(rows, self._advance_to(rows, at_s))
        self._compute(rows, np.zeros(len(rows)), at_s)

    def transmit(
        self, users: Ints, time_s: ArrayLike, airtime_s: ArrayLike, power_factor: Floats | None = None
    ) -> Floats | None:
        if self._energy is None:
            return None
        return self._use(users, time_s, self._energy.sending_j(users, np.asarray(airtime_s, float), power_factor))

    def receive(self, users: Ints, time_s: ArrayLike, airtime_s: float) -> Floats | None:
        if self._energy is None:
            return None
        return self._use(users, time_s, self._energy.receiving_j(users, airtime_s))

    def evaluate(self, users: Ints, time_s: ArrayLike, joules: Floats) -> Floats | None:
        if self._energy is None:
            return None
        return self._use(users, time_s, joules)

    def _compute(self, rows: Ints, computing_w: Floats, until_s: Floats) -> None:
        """Let batteries take *computing_w* from their last use until *until_s*; chains start over."""
        self._used.computing_w[rows] = computing_w
        self._used.computed_s[rows] = until_s
        self._kept.assign(rows, self._used.select(rows).start_chains())

    def _use(self, users: Ints, time_s: ArrayLike, joules: Floats) -> Floats:
        """Take *joules* from the batteries of distinct *users*; return the share that each had, ``[n]``.

        A use while a user is down fails, too, and has a share of 0.
        """
        has_battery, rows, at_s = self._with_battery(users, time_s)
        cost_j = np.broadcast_to(joules, has_battery.shape)[has_battery]
        now = self._advance_to(rows, at_s)

        # a user that is up pays, or what is left is lost and it goes down; one that is down stays so
        is_paid = now.up & (cost_j <= now.charge_j + _ROUNDING * self._model.capacity)
        is_short = now.up & ~is_paid
        spent_j = np.minimum(cost_j, now.charge_j)
        self._paid_j[rows] += np.where(is_paid, spent_j, 0.0)
        self._failed_j[rows] += np.where(is_paid, 0.0, spent_j)
        self._record_changes(rows, now.time_s, is_short)

        # chains start over from this use
        now.charge_j = now.charge_j - spent_j
        now.up = is_paid
        now.computing_w = np.where(is_paid, now.computing_w, 0.0)
        self._used.assign(rows, now)
        self._kept.assign(rows, self._used.select(rows).start_chains())

        shares = np.ones(len(has_battery))  # users without batteries have all that they need
        shares[has_battery] = np.where(is_short, spent_j / np.where(is_short, cost_j, 1.0), is_paid)
        return shares

    def _advance_to(self, rows: Ints, time_s: Floats) -> _Knots:
        """Return the batteries at *time_s*, or at their last use if that is later, and record their changes by then."""
        at_s = np.maximum(time_s, self._used.time_s[rows])
        state = self._used.select(rows)
        remaining = np.arange(len(rows))  # batteries that may have a further knot by then
        while remaining.size:
            following = self._step(rows[remaining], state.select(remaining))
            is_within = following.time_s <= after_rounding(at_s[remaining])  # a use may begin with an outage's end
            remaining = remaining[is_within]
            following = following.select(is_within)
            self._record_changes(rows[remaining], following.time_s, state.up[remaining] != following.up)
            state.assign(remaining, following)
        return self._at(rows, state, np.maximum(at_s, state.time_s))

    def _record_changes(self, rows: Ints, time_s: Floats, has_changed: Bools) -> None:
        for row, at_s in zip(rows[has_changed].tolist(), time_s[has_changed].tolist(), strict=True):
            self._past_changes_s.setdefault(row, []).append(at_s)

    def _look(self, nodes: Ints, time_s: ArrayLike, *, looks_ahead: bool) -> tuple[Bools, Floats]:
        """Return whether each node is up, and if *looks_ahead* until when."""
        up = np.ones(len(nodes), np.bool_)
        until_s = np.full(len(nodes), np.inf)
        has_battery, rows, at_s = self._with_battery(nodes, time_s)

        # from the last use on: by the chains
        last_use_s = self._used.time_s[rows]
        chain, knot = self._reach(rows, np.maximum(at_s, last_use_s))
        up[has_battery] = chain.at(knot).up
        if looks_ahead:
            until_s[has_battery] = self._next_change_s(rows, chain, knot)

        # before it: by the changes recorded, which are final, and what becomes of the user at that use
        is_past = at_s < last_use_s
        indices = np.flatnonzero(has_battery)[is_past]  # in *nodes*
        past = zip(indices.tolist(), rows[is_past].tolist(), at_s[is_past].tolist(), strict=True)
        for index, row, past_s in past:
            changes_s = self._past_changes_s.get(row, [])
            passed = bisect_right(changes_s, past_s)
            was_up = bool(self._began_up[row]) ^ (passed % 2 == 1)
            if passed < len(changes_s):
                until_s[index] = changes_s[passed]
            elif was_up != up[index]:
                until_s[index] = self._used.time_s[row]
            up[index] = was_up
        return up, until_s

    def _reach(self, rows: Ints, at_s: Floats) -> tuple[_Knots, Ints]:
        """Return a chain of each battery beyond *at_s*, not before its last use, and its last knot up to then."""
        chain = self._kept.select(rows)
        begins_later = chain.time_s[:, 0] > at_s  # its older knots were dropped: start over from the last use
        chain.assign(begins_later, self._used.select(rows[begins_later]).start_chains())
        remaining = np.flatnonzero(chain.time_s[:, -1] <= at_s)  # chains that end too early
        while remaining.size:
            self._extend(rows, chain, remaining)
            remaining = remaining[chain.time_s[remaining, -1] <= at_s[remaining]]
        self._kept.assign(rows, chain)
        last_knot = (chain.time_s <= at_s[:, None]).sum(axis=1) - 1  # times ascend
        return chain, last_knot

    def _next_change_s(self, rows: Ints, chain: _Knots, knot: Ints) -> Floats:
        """Return when the state after these knots changes, or a time before which it does not."""
        remaining = np.arange(len(rows))
        while remaining.size:
            has_change = chain.changes_after(knot)[remaining].any(axis=1)
            remaining = remaining[~has_change]
            # a further knot drops the oldest one, which must not be this one; a chain may also have no further knot
            has_room = knot[remaining] > 0
            has_next = np.isfinite(chain.time_s[remaining, -1])
            remaining = remaining[has_room & has_next]
            self._extend(rows, chain, remaining)
            knot[remaining] -= 1  # all knots have moved by one
        self._kept.assign(rows, chain)
        is_change = chain.changes_after(knot)
        first_change = np.where(is_change.any(axis=1), is_change.argmax(axis=1), _AHEAD)
        return chain.at(first_change).time_s

    def _extend(self, rows: Ints, chain: _Knots, chosen: Ints) -> None:
        """Append the knot that follows to the chains *chosen* of those of *rows*."""
        if chosen.size:
            last_knots = chain.at(np.full(len(rows), _AHEAD)).select(chosen)
            chain.extend(chosen, self._step(rows[chosen], last_knots))

    def _step(self, rows: Ints, state: _Knots) -> _Knots:
        """Return the knots that follow *state*: the end of its segment, or a change within it."""
        # the end of the segment, of the supply or of a training
        capacity_j = self._model.capacity
        drain_w = self._drain_w(rows, state)
        supply_end_s, arriving_j = self._supply.segment_end(rows, state.time_s, drain_w)
        ends_training = state.is_computing & (state.computed_s <= supply_end_s)
        end_s = np.where(ends_training, state.computed_s, supply_end_s)

        # the charge there: c(t) = c + ∫ P dt - d t
        charge_j = state.charge_j + self._supply.gain(rows, state.time_s, drain_w)(end_s)
        is_just_paid = ends_training & (np.abs(charge_j) <= _ROUNDING * capacity_j)
        charge_j[is_just_paid] = 0.0  # a training that takes exactly what is left is paid, as other uses are
        refused_j = state.refused_j + np.maximum(charge_j - capacity_j, 0.0)

        # a battery that is empty, or charged enough, by then ends the segment at that instant
        is_past_goal = np.where(state.up, charge_j <= 0.0, charge_j >= self._restart_j)
        has_changed = is_past_goal & (charge_j != state.charge_j) & ~is_just_paid
        changed = np.flatnonzero(has_changed)
        up = state.up ^ has_changed
        if changed.size:
            goal_j = np.where(up[changed], self._restart_j, 0.0)
            wanted_j = goal_j - state.charge_j[changed]
            end_s[changed] = self._reach_s(rows[changed], state.select(changed), end_s[changed], wanted_j)
            charge_j[changed] = goal_j
            refused_j[changed] = state.refused_j[changed]  # by then it was not full
        charge_j = np.clip(charge_j, 0.0, capacity_j)

        # what arrives at the end of the segment comes in time for a battery that is empty at this instant
        arriving_j = np.where(end_s == supply_end_s, arriving_j, 0.0)
        charge_j += arriving_j
        up |= (arriving_j > 0.0) & (charge_j >= self._restart_j)
        refused_j += np.maximum(charge_j - capacity_j, 0.0)
        charge_j = np.minimum(charge_j, capacity_j)

        following = self._spend_until(rows, state, end_s, charge_j, refused_j)
        following.up = up
        still_computes = up & (end_s < state.computed_s)
        following.computing_w = np.where(still_computes, state.computing_w, 0.0)
        return following

    def _reach_s(self, rows: Ints, state: _Knots, to_s: Floats, wanted_j: Floats) -> Floats:
        """Return when batteries, in a segment from *state* to *to_s*, have gained *wanted_j*, ``[n]``."""
        at_s = np.empty(len(rows))
        is_endless = np.isinf(to_s)
        drain_w = self._drain_w(rows, state)
        for chosen in (is_endless, ~is_endless):  # a gain is a closed form; its branch differs only without an end
            if chosen.any():
                from_s = state.time_s[chosen]
                gain = self._supply.gain(rows[chosen], from_s, drain_w[chosen])
                at_s[chosen] = _time_of_gain_s(gain, from_s, to_s[chosen], wanted_j[chosen])
        return at_s

    def _state_at(self, rows: Ints, at_s: Floats) -> _Knots:
        """Return the batteries at *at_s*, not before their last use."""
        chain, knot = self._reach(rows, at_s)
        return self._at(rows, chain.at(knot), at_s)

    def _at(self, rows: Ints, state: _Knots, at_s: Floats) -> _Knots:
        """Return the batteries at *at_s*, in the segment after each knot."""
        capacity_j = self._model.capacity
        drain_w = self._drain_w(rows, state)
        charge_j = state.charge_j + self._supply.gain(rows, state.time_s, drain_w)(at_s)
        refused_j = state.refused_j + np.maximum(charge_j - capacity_j, 0.0)
        return self._spend_until(rows, state, at_s, np.clip(charge_j, 0.0, capacity_j), refused_j)

    def _spend_until(self, rows: Ints, state: _Knots, at_s: Floats, charge_j: Floats, refused_j: Floats) -> _Knots:
        """Return the batteries of *state* at *at_s*, with what being up and computing have taken by then."""
        idle_w = np.where(state.up, self._idle_w[rows], 0.0)
        return replace(
            state,
            time_s=at_s,
            charge_j=charge_j,
            refused_j=refused_j,
            idle_j=state.idle_j + _energy_j(idle_w, state.time_s, at_s),
            computing_j=state.computing_j + _energy_j(state.computing_w, state.time_s, at_s),
        )

    def _drain_w(self, rows: Ints, state: _Knots) -> Floats:
        return np.where(state.up, self._idle_w[rows] + state.computing_w, 0.0)


def supplied_energy_j(supply: EnergySource, users: Ints, until_s: Floats) -> Floats:
    """Return the energy that *supply* brings from time 0 to *until_s*, ``[n]``."""
    supplied_j = np.zeros(len(users))
    from_s = np.zeros(len(users))
    remaining = np.flatnonzero(from_s < until_s)
    while remaining.size:
        begin_s = from_s[remaining]
        no_drain_w = np.zeros(len(remaining))
        segment_end_s, arriving_j = supply.segment_end(users[remaining], begin_s, no_drain_w)
        end_s = np.minimum(segment_end_s, until_s[remaining])
        supplied_j[remaining] += supply.gain(users[remaining], begin_s, no_drain_w)(end_s)
        supplied_j[remaining] += np.where(end_s == segment_end_s, arriving_j, 0.0)
        from_s[remaining] = end_s
        remaining = remaining[end_s < until_s[remaining]]
    return supplied_j


def _energy_j(power_w: Floats, from_s: Floats, to_s: Floats) -> Floats:
    """Return the energy of a constant power, ``[n]``; that of 0 W is 0 J, for ever, too."""
    takes_any = power_w > 0.0
    since_s = np.where(takes_any, from_s, 0.0)
    return np.asarray(power_w * np.where(takes_any, to_s - since_s, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class _PluggedIn:
    """Constant power in a window of the day.

    Args:
        power_w: power while it is plugged in.
        opens_s: time of the day at which each user's window opens, ``[users]``.
        length_s: length of a window; infinity for always.
    """

    power_w: float
    opens_s: Floats
    length_s: float

    def segment_end(self, users: Ints, from_s: Floats, drain_w: Floats) -> tuple[Floats, Floats]:
        _, until_s = self._window_at(users, from_s)
        return until_s, np.zeros(len(users))

    def gain(self, users: Ints, from_s: Floats, drain_w: Floats) -> EnergyGain:
        is_plugged_in, _ = self._window_at(users, from_s)
        power_w = self.power_w * is_plugged_in - drain_w

        def gain_j(to_s: Floats) -> Floats:
            with np.errstate(invalid="ignore"):  # 0 W for ever is 0 J
                return np.where(power_w == 0.0, 0.0, power_w * (to_s - from_s))

        return gain_j

    def _window_at(self, users: Ints, time_s: Floats) -> tuple[Bools, Floats]:
        """Return whether each user's charger is plugged in, and until when this holds."""
        if np.isinf(self.length_s):
            return np.ones(len(users), np.bool_), np.full(len(users), np.inf)
        return recurring_window(self.opens_s[users], self.length_s, DAY_S, time_s)


class _Sun:
    """Half a sine each day; a day's segments end where the power equals the drain, or at noon if it never does."""

    def __init__(self, solar: Solar, clouds: RandomField) -> None:
        self._solar = solar
        self._clouds = clouds
        self._length_s = solar.sunset - solar.sunrise

    def segment_end(self, users: Ints, from_s: Floats, drain_w: Floats) -> tuple[Floats, Floats]:
        rise_s, next_rise_s = surrounding_instants(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        # peak · sin(angle) = drain, in the morning and in the evening
        angle = np.arcsin(np.minimum(drain_w / np.maximum(self._peak_w(rise_s), _DARK_W), 1.0))
        early_s = angle / np.pi * self._length_s
        whole_day_s = np.full(len(users), self._length_s)
        edges_s = rise_s + np.array([early_s, self._length_s - early_s, whole_day_s])
        edges_s = np.vstack([edges_s, next_rise_s])  # [edges, n]
        end_s = np.where(edges_s > from_s, edges_s, np.inf).min(axis=0)
        return end_s, np.zeros(len(users))

    def gain(self, users: Ints, from_s: Floats, drain_w: Floats) -> EnergyGain:
        rise_s, _ = surrounding_instants(np.full(len(users), self._solar.sunrise), DAY_S, from_s)
        scale_j = self._peak_w(rise_s) * self._length_s / np.pi

        def cosine(at_s: Floats) -> Floats:
            share_of_day = np.minimum(np.maximum((at_s - rise_s) / self._length_s, 0.0), 1.0)
            return np.asarray(np.cos(np.pi * share_of_day))

        begin = cosine(from_s)  # of the integral of a sine

        def gain_j(to_s: Floats) -> Floats:
            return scale_j * (begin - cosine(to_s)) - drain_w * (to_s - from_s)

        return gain_j

    def _peak_w(self, rise_s: Floats) -> Floats:
        """Return the power at noon of the day with this sunrise; the day before time 0 is clear."""
        day = np.rint((rise_s - self._solar.sunrise) / DAY_S).astype(np.int64)
        factor = 1.0 - self._solar.clouds * self._clouds.uniform(0, np.maximum(day, 0))
        return self._solar.peak * np.where(day >= 0, factor, 1.0)


def _time_of_gain_s(gain: EnergyGain, from_s: Floats, to_s: Floats, wanted_j: Floats) -> Floats:
    """Return when, in a segment from *from_s* to *to_s*, *gain* reaches *wanted_j*, ``[n]``."""
    if np.isinf(to_s).all():  # the power is constant
        return np.asarray(from_s + np.abs(wanted_j / gain(from_s + 1.0)))
    at_s = find_crossing(lambda at_s: np.abs(gain(at_s)) - np.abs(wanted_j), from_s, to_s)
    return np.where(wanted_j == 0.0, from_s, at_s)  # an empty battery is drained


def find_crossing(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Return where an increasing *function* reaches 0, to the last bits, ``[n]``.

    Chandrupatla's method (Adv. Eng. Softw. 28, 1997): inverse quadratic interpolation if the last three points
    show that it is safe, bisection if not.  Of his points x₁, x₂ and x₃, the first is new, the second is on the other
    side of the crossing, and the third is the old one.  Interpolation is safe if φ² < ξ and (1 - φ)² < 1 - ξ, with
    ξ = (x₁ - x₂) / (x₃ - x₂) and φ = (f₁ - f₂) / (f₃ - f₂).

    Args:
        function: of one place each, ``[n]``; continuous.
        low: places where it is 0 or below, ``[n]``.
        high: places where it is 0 or above, ``[n]``.
    """
    new = np.array(high)
    new_f = function(new)
    other = np.array(low)
    other_f = function(other)
    step = np.full(len(new), 0.5)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for _ in range(_MAX_EVALUATIONS):
            resolution = np.spacing(np.maximum(np.abs(new), np.abs(other)))
            is_done = (np.abs(other - new) <= resolution) | (new_f == 0.0)
            if is_done.all():
                break
            place = np.where(is_done, new, new + step * (other - new))
            place_f = function(place)
            # the crossing stays between the new point and the other
            same_sign = (place_f >= 0.0) == (new_f >= 0.0)
            old = np.where(same_sign, new, other)
            old_f = np.where(same_sign, new_f, other_f)
            other = np.where(same_sign, other, new)
            other_f = np.where(same_sign, other_f, new_f)
            new = place
            new_f = place_f
            # the next step, as a share of the way from the new point to the other
            xi = (new - other) / (old - other)
            phi = (new_f - other_f) / (old_f - other_f)
            is_safe = (phi**2 < xi) & ((1.0 - phi) ** 2 < 1.0 - xi)
            quadratic = new_f / (other_f - new_f) * old_f / (other_f - old_f)
            quadratic += (old - new) / (other - new) * new_f / (old_f - new_f) * other_f / (old_f - other_f)
            edge = np.minimum(resolution / np.abs(other - new), 0.5)
            step = np.clip(np.where(is_safe & np.isfinite(quadratic), quadratic, 0.5), edge, 1.0 - edge)
    return np.where(new_f >= 0.0, new, other)
