"""Energy that arrives in portions, compared with a simulation event by event, and with closed forms."""

import math

import numpy as np
import pytest
from scipy import stats

from netfl.errors import ScenarioError
from netfl.network.energy import Energy, EnergyMeter
from netfl.network.outage import LargestUses
from netfl.network.outage.battery import Battery, Charger, supplied_energy_j
from netfl.network.topology.star import Star
from netfl.streams import Streams
from netfl.testing.laws import check_laws

STREAMS = Streams(43)
USER_0 = np.array([0])
POISSON = {"kind": "poisson", "energy": 8.0, "period": 10.0}
BERNOULLI = {"kind": "bernoulli", "energy": 8.0, "period": 10.0, "probability": 0.4}
CERTAIN = BERNOULLI | {"probability": 1.0}


def open_battery(users=1, *, idle=0.0, **settings):
    """Return batteries of *users* users that drain *idle* watts and 1 W while they send."""
    battery = Battery(**settings).open(Star(radius=10).open(users, STREAMS), STREAMS)
    rates = Energy(idle=idle, transmit=1.0).rates(np.full(users, ""), 20.0, 1e18)
    battery.draw_from(EnergyMeter(rates, np.ones(users)))
    return battery


def arrivals_of(charger, user, until_s):
    """Return the times of the portions of a user, one entry for each."""
    supply = Charger(**charger).open(np.array([user]), STREAMS)
    times_s, now_s = [], np.zeros(1)
    while now_s[0] <= until_s:
        now_s, arriving_j = supply.segment_end(USER_0, now_s, np.zeros(1))
        times_s += [now_s[0]] * round(arriving_j[0] / charger["energy"])
    return [time_s for time_s in times_s if time_s <= until_s]


def simulate(battery, idle_w, arrivals_s, portion_j, uses, until_s):
    """Return the charge, the state and the refused energy of a battery after the events, one by one."""
    capacity, charge = battery["capacity"], battery["initial"] * battery["capacity"]
    up, now_s, refused_j = charge > 0, 0.0, 0.0
    events = [(time_s, portion_j) for time_s in arrivals_s] + [(time_s, -joules) for time_s, joules in uses.items()]
    for at_s, change_j in [*sorted(events), (until_s, 0.0)]:
        drained_j = idle_w * up * (at_s - now_s)
        up = up and (drained_j < charge or not idle_w)
        charge, now_s = max(charge - drained_j, 0.0), at_s
        if change_j < 0 and not up:
            charge = max(charge + change_j, 0.0)  # a use while it is down fails, and takes what there is
        elif change_j < 0:
            up = -change_j <= charge
            charge = max(charge + change_j, 0.0)
        elif change_j > 0:
            refused_j += max(charge + change_j - capacity, 0.0)
            charge = min(charge + change_j, capacity)
            up = up or charge >= battery["restart"] * capacity
    return charge, up, refused_j


@pytest.mark.parametrize("charger", [POISSON, BERNOULLI], ids=["poisson", "bernoulli"])
@pytest.mark.parametrize("seed", range(12))
def test_battery_equals_simulation_event_by_event(charger, seed):
    rng = np.random.default_rng(seed)
    battery = {"capacity": rng.uniform(10, 60), "initial": rng.uniform(), "restart": rng.uniform(0.1, 1)}
    idle_w, until_s, user = rng.uniform(0, 1.2), 3000.0, int(rng.integers(5))
    uses = dict(zip(np.sort(rng.uniform(0, until_s, 40)).tolist(), rng.exponential(10, 40).tolist(), strict=True))
    timeline = open_battery(5, idle=idle_w, charger=charger, **battery)
    for at_s, joules in uses.items():
        timeline.transmit(np.array([user]), at_s, joules)
    arrivals_s = arrivals_of(charger, user, until_s)
    charge_j, up, refused_j = simulate(battery, idle_w, arrivals_s, charger["energy"], uses, until_s)
    ledger = timeline.ledger(np.array([user]), until_s)
    assert ledger.charge == pytest.approx([charge_j], abs=1e-9)
    assert timeline.up(np.array([user]), until_s)[0] == up
    assert ledger.refused == pytest.approx([refused_j])
    assert ledger.supplied == pytest.approx([charger["energy"] * len(arrivals_s)])
    spent_j = ledger.paid + ledger.failed + ledger.computing + ledger.idle
    assert ledger.initial + ledger.supplied == pytest.approx(ledger.charge + spent_j + ledger.refused)


def test_charger_without_chance_brings_what_a_constant_one_does():
    """At the ends of its periods, with uses between them."""
    battery = {"capacity": 1e6, "initial": 0.5}
    portions = open_battery(idle=0.3, charger=CERTAIN, **battery)
    constant = open_battery(idle=0.3, charger={"power": 0.8}, **battery)
    for at_s in (15.0, 203.0, 997.0):
        for timeline in (portions, constant):
            timeline.transmit(USER_0, at_s, 40.0)
    ends_s = np.arange(1000.0, 4000.0, 10.0)
    rows = np.zeros(len(ends_s), int)
    assert portions.charge_j(rows, ends_s) == pytest.approx(constant.charge_j(rows, ends_s), rel=1e-12)
    before_j = portions.charge_j(rows, np.nextafter(ends_s, 0.0))
    assert portions.charge_j(rows, ends_s) - before_j == pytest.approx(8.0)


def test_portion_that_a_full_battery_cannot_take_is_refused():
    battery = open_battery(capacity=10, initial=0.5, charger=CERTAIN)
    assert battery.charge_j(np.zeros(3, int), [9.0, 10.0, 20.0]).tolist() == [5.0, 10.0, 10.0]
    ledger = battery.ledger(USER_0, 20.0)
    assert (ledger.supplied, ledger.refused) == ([16.0], [11.0])


def test_user_that_is_down_restarts_with_the_portion_that_suffices():
    """8 J at 1 W last 8 s; 16 J of two portions reach 12 J, and the third is there before they are used."""
    battery = open_battery(capacity=20, initial=0.4, restart=0.6, idle=1.0, charger=CERTAIN)
    assert battery.next_change(USER_0, 0.0) == [8.0]
    assert battery.next_change(USER_0, 8.0) == [20.0]
    assert battery.charge_j(np.zeros(3, int), [19.0, 20.0, 25.0]).tolist() == [8.0, 16.0, 11.0]


def test_portion_comes_in_time_for_a_battery_that_is_empty_at_this_instant():
    battery = open_battery(capacity=20, initial=0.5, restart=0.4, idle=1.0, charger=CERTAIN)
    assert battery.next_change(USER_0, 0.0) == [18.0]  # 10 J last 10 s, and the 8 J that come then 8 s
    too_little = open_battery(capacity=20, initial=0.5, restart=0.5, idle=1.0, charger=CERTAIN)
    assert too_little.next_change(USER_0, 0.0) == [10.0]
    assert too_little.charge_j(USER_0, 15.0) == [8.0]


def test_arrivals_are_keyed_by_user():
    """A list of users, in any order, changes no user's arrivals."""
    together = open_battery(5, capacity=1e6, initial=0.0, charger=POISSON)
    listed = open_battery(5, nodes=[3, 1], capacity=1e6, initial=0.0, charger=POISSON)
    users = np.array([1, 3])
    assert together.charge_j(users, 5000.0).tolist() == listed.charge_j(users, 5000.0).tolist()
    assert len({*together.charge_j(np.arange(5), 5000.0).tolist()}) > 1


@pytest.mark.parametrize(("charger", "spread"), [(POISSON, 1.0), (BERNOULLI, 0.6)], ids=["poisson", "bernoulli"])
def test_arrivals_have_their_mean_and_variance_and_are_independent(charger, spread):
    """Over 30 periods of 1000 users: of both kinds a binomial or Poisson number, of which the others tell nothing."""
    users, periods = 1000, 30
    supply = Charger(**charger).open(np.arange(users), STREAMS)
    edges_s = np.arange(periods + 1) * charger["period"] + 1e-6
    energy_j = np.array([supplied_energy_j(supply, np.arange(users), np.full(users, edge_s)) for edge_s in edges_s])
    counts = np.diff(energy_j, axis=0) / charger["energy"]  # [periods, users]
    mean = charger.get("probability", 1.0)
    variance = mean * spread
    assert counts.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / counts.size))
    assert counts.var() == pytest.approx(variance, rel=5 * math.sqrt(3.0 / counts.size))
    assert counts.sum(axis=0).var() == pytest.approx(periods * variance, rel=5 * math.sqrt(2.0 / users))
    neighbours = np.corrcoef(counts[:, :-1].ravel(), counts[:, 1:].ravel())[0, 1]
    successive = np.corrcoef(counts[:-1].ravel(), counts[1:].ravel())[0, 1]
    assert abs(neighbours) < 5 / math.sqrt(counts.size)
    assert abs(successive) < 5 / math.sqrt(counts.size)


def test_times_between_poisson_arrivals_are_exponential():
    gaps_s = np.diff([0.0, *arrivals_of(POISSON, 2, 100_000.0)])
    assert len(gaps_s) > 9000
    assert stats.kstest(gaps_s, stats.expon(scale=10.0).cdf).pvalue > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("charger", [POISSON, BERNOULLI], ids=["poisson", "bernoulli"])
def test_law_holds(charger):
    assert check_laws(Battery(capacity=10, charger=charger), STREAMS) == []


def test_warning_counts_what_can_arrive_during_a_training():
    uses = LargestUses(1000.0, training_j=30.0, training_s=25.0)
    warned = {name: [*Battery(capacity=10, charger=charger).warnings(uses)] for name, charger in (
        ("poisson", POISSON), ("three portions", CERTAIN), ("two portions", CERTAIN | {"period": 20.0}),
    )}  # fmt: skip
    assert [name for name, lines in warned.items() if lines] == ["two portions"]


@pytest.mark.parametrize(
    ("charger", "problem"),
    [
        ({}, r"power: missing; kind: constant needs it"),
        ({"kind": "poisson", "energy": 1}, r"period: missing; kind: poisson needs it"),
        ({"kind": "bernoulli", "energy": 1, "period": 1}, r"probability: missing; kind: bernoulli needs it"),
        (POISSON | {"probability": 0.5}, r"probability: has no effect without kind: bernoulli"),
        (POISSON | {"power": 1}, r"power: has no effect without kind: constant"),
        (POISSON | {"opens": 1, "closes": 2}, r"opens: has no effect without kind: constant"),
        (BERNOULLI | {"probability": 0}, r"greater than 0|more than 0"),
        ({"kind": "poison"}, r"did you mean 'poisson'"),
    ],
)
def test_invalid_chargers_are_rejected(charger, problem):
    with pytest.raises(ScenarioError, match=problem):
        Battery(capacity=10, charger=charger)
