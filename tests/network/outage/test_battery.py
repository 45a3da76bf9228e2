"""Batteries compared with a stepwise simulation, and with values worked out by hand."""

import math

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
from netfl.network.energy import Energy, EnergyMeter
from netfl.network.outage._combined import CombinedOutages
from netfl.network.outage._state import NodeState
from netfl.network.outage.battery import Battery, Solar, _Sun
from netfl.network.topology.star import Star
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.streams import Streams
from netfl.types import ScenarioFacts

STREAMS = Streams(41)
HOUR, DAY = 3600.0, 86400.0
USER_0 = np.array([0])


def layout(users=1):
    return Star(radius=10).open(users, STREAMS)


def open_metered(users=1, *, energy, samples=10.0, **settings):
    """Return batteries that pay what *energy* counts, and the meter that counts it."""
    battery = Battery(**settings).open(layout(users), STREAMS)
    rates = Energy(**energy).rates(np.full(users, ""), 20.0, 1e18)
    meter = EnergyMeter(rates, np.full(users, samples))
    battery.draw_from(meter)
    meter.count_idle_by(lambda now_s: battery.idle_j(np.arange(users), now_s))
    return battery, meter


def open_battery(users=1, *, samples=10.0, **settings):
    """Return batteries, with the costs among *settings* by their keys in `Energy`."""
    energy = {key: settings.pop(key) for key in [*settings] if key in Energy.model_fields}
    return open_metered(users, energy=energy, samples=samples, **settings)[0]


def at(*times_s):
    return np.array(times_s, float)


class TestByHand:
    def test_idle_power_and_charger(self):
        """100 J at 2 W with a charger of 1 W last 100 s; then 20 J are charged in 20 s and used at net -1 W in 20 s."""
        timeline = open_battery(capacity=100, idle=2, charger={"power": 1}, restart=0.2)
        times = [timeline.next_change(USER_0, 0.0)[0]]
        for _ in range(4):
            times.append(timeline.next_change(USER_0, times[-1])[0])
        assert times == pytest.approx([100, 120, 140, 160, 180])
        assert timeline.up(np.zeros(5, int), times).tolist() == [False, True, False, True, False]
        assert timeline.charge_j(np.zeros(4, int), [50, 100, 110, 120]) == pytest.approx([50, 0, 10, 20])

    def test_uses_drain_battery_immediately(self):
        timeline = open_battery(capacity=100, per_training=30, transmit=0.001)
        assert timeline.next_change(USER_0, 0.0) == [math.inf]
        timeline.train(USER_0, at(5.0), at(5.5))
        assert timeline.charge_j(USER_0, 5.0) == pytest.approx(70)
        timeline.transmit(USER_0, 6.0, 30_000)
        assert timeline.charge_j(USER_0, 7.0) == pytest.approx(40)
        timeline.transmit(USER_0, 8.0, 50_000)  # more than is left
        assert timeline.charge_j(USER_0, 8.0) == [0.0]
        assert timeline.up(np.zeros(3, int), [0.0, 7.999, 8.0]).tolist() == [True, True, False]
        assert timeline.next_change(np.zeros(2, int), [6.5, 8.0]).tolist() == [8.0, math.inf]

    def test_full_battery_stays_full(self):
        timeline = open_battery(capacity=100, per_training=30, charger={"power": 1})
        assert timeline.charge_j(USER_0, 1e6) == [100.0]
        timeline.train(USER_0, at(1000.0), at(1000.0))
        assert timeline.charge_j(np.zeros(2, int), [1010.0, 1e6]) == pytest.approx([80, 100])

    def test_charger_at_night(self):
        """8 h at 10 W charge 288 kJ; 16 h at 5 W use as much."""
        timeline = open_battery(
            capacity=288e3, idle=5, charger={"power": 15, "opens": "22 h", "closes": "6 h"}, initial=0.5
        )
        hours = np.array([0, 6, 16, 22])
        # from half: full after 4 h at 36 kJ per hour; then empty after 16 h at 18 kJ per hour
        charge_j = timeline.charge_j(np.zeros(4, int), hours * HOUR)
        assert charge_j == pytest.approx([144e3, 288e3, 108e3, 0], abs=1e-3)

    def test_solar_energy_of_day(self):
        timeline = open_battery(
            capacity=1e9, initial=0.0, idle=1e-9, solar={"peak": 2, "sunrise": "7 h", "sunset": "17 h"}
        )
        assert timeline.charge_j(USER_0, DAY) == pytest.approx(2 / math.pi * 2 * 10 * HOUR)
        assert timeline.charge_j(USER_0, 12 * HOUR) == pytest.approx(1 / math.pi * 2 * 10 * HOUR)

    def test_empty_battery_without_supply_is_down_for_ever(self):
        timeline = open_battery(capacity=10, idle=1)
        assert timeline.next_change(USER_0, 0.0) == [10.0]
        assert timeline.next_change(USER_0, 10.0) == [math.inf]
        assert CombinedOutages([timeline]).next_up(USER_0, 20.0) == [math.inf]

    @pytest.mark.parametrize("cost", ["per_training", "per_sample", "transmit"])
    def test_each_cost_is_metered(self, cost):
        assert open_battery(capacity=10, **{cost: 1}).is_metered

    def test_battery_with_half_a_joule_is_up(self):
        """This holds at the start, after a use, and when the charger starts."""
        timeline = open_battery(capacity=100, per_training=1, initial=0.015)
        assert timeline.up(USER_0, 0.0)
        timeline.train(USER_0, at(3.0), at(3.0))
        assert timeline.charge_j(USER_0, 4.0) == pytest.approx(0.5)
        assert timeline.up(USER_0, 4.0)
        assert open_battery(capacity=100, idle=1, initial=0.005).next_change(USER_0, 0.0) == pytest.approx(0.5)
        timeline = open_battery(capacity=3600.5, idle=1, charger={"power": 2, "opens": "1 h", "closes": "2 h"})
        assert timeline.charge_j(USER_0, HOUR) == pytest.approx(0.5)
        assert timeline.next_change(USER_0, 0.0) == pytest.approx(3 * HOUR + 0.5)

    def test_initially_empty_battery_is_down(self):
        timeline = open_battery(capacity=100, idle=0.5, initial=0, charger={"power": 1}, restart=0.2)
        assert timeline.next_change(USER_0, 0.0) == pytest.approx(20)
        assert timeline.up(np.zeros(3, int), [0.0, 19.0, 21.0]).tolist() == [False, False, True]

    def test_battery_empty_at_start_of_charging_is_down_until_restart(self):
        """3600 J at 1 W are used at 1 h; then net 2 W charge 1800 J in 900 s."""
        charger = {"power": 2, "opens": "1 h", "closes": "2 h"}
        timeline = open_battery(capacity=3600, idle=1, charger=charger, restart=0.5)
        assert timeline.next_change(np.zeros(2, int), [0.0, HOUR]) == pytest.approx([HOUR, HOUR + 900])
        assert timeline.up(np.zeros(3, int), [HOUR - 1, HOUR + 1, HOUR + 901]).tolist() == [True, False, True]

    def test_battery_that_restarts_at_end_of_charging_is_up(self):
        """0.5 W charge 1800 J from 1 h to 2 h, which then last half an hour."""
        charger = {"power": 0.5, "opens": "1 h", "closes": "2 h"}
        timeline = open_battery(capacity=3600, idle=1, charger=charger, restart=0.5, initial=0)
        assert timeline.next_change(np.zeros(2, int), [0.0, 2 * HOUR]) == pytest.approx([2 * HOUR, 2.5 * HOUR])
        assert timeline.up(np.zeros(3, int), [2 * HOUR - 1, 2 * HOUR + 1, 2.6 * HOUR]).tolist() == [False, True, False]

    def test_charge_accumulates_over_nights(self):
        """1125 J of the first window and 675 J of the second make 1800 J, after 2160 s of it."""
        charger = {"power": 0.3125, "opens": "1 h", "closes": "2 h"}
        timeline = open_battery(capacity=3600, idle=1, charger=charger, restart=0.5, initial=0)
        assert timeline.next_change(USER_0, 0.0) == pytest.approx(25 * HOUR + 2160)

    def test_use_does_not_change_past(self):
        """The battery is empty at 100, 140 and 180 for 20 s each; 10 J at 210 less 5 J last until 215."""
        timeline = open_battery(capacity=100, idle=2, transmit=1, charger={"power": 1}, restart=0.2)
        timeline.transmit(USER_0, 210.0, 5)
        assert timeline.charge_j(USER_0, 210.0) == pytest.approx(5)
        times_s = np.arange(5.0, 210.0, 10.0)
        rows = np.zeros(len(times_s), int)
        assert timeline.up(rows, times_s).tolist() == [at_s < 100 or at_s // 20 % 2 == 0 for at_s in times_s]
        is_past = times_s < 200
        next_changes_s = timeline.next_change(rows[is_past], times_s[is_past])
        assert next_changes_s == pytest.approx(np.maximum(100.0, 20.0 * (times_s[is_past] // 20 + 1)))
        assert timeline.next_change(np.zeros(3, int), [205.0, 210.0, 212.0]) == pytest.approx([215.0] * 3)

    def test_battery_is_up_for_use_at_restart(self):
        timeline = open_battery(capacity=100, idle=2, transmit=1, charger={"power": 1}, restart=0.2)
        at_s = timeline.next_change(USER_0, 105.0)
        assert at_s == pytest.approx(120)
        timeline.transmit(USER_0, at_s, 5)
        assert timeline.up(USER_0, at_s)
        assert timeline.next_change(USER_0, at_s) == pytest.approx(135)

    def test_look_ahead_is_limited(self):
        """The result is not exact, so callers must query again."""
        timeline = open_battery(capacity=100, idle=1e-9, charger={"power": 1, "opens": "1 h", "closes": "2 h"})
        until_s = timeline.next_change(USER_0, 0.0)
        assert DAY < until_s < 1000 * DAY
        assert timeline.up(np.zeros(2, int), [until_s[0] - 1.0, until_s[0] + 1.0]).all()
        assert not timeline.is_exact


class TestWhatTheNetworkCounts:
    def test_training_takes_power_from_start_to_end(self):
        """4 J at the start; then 10 samples of 2 J in 5 s, beside 1 W of being on and 0.5 W of the charger."""
        costs = {"per_training": 4, "per_sample": 2, "idle": 1}
        battery, _ = open_metered(energy=costs, capacity=100, charger={"power": 0.5}, restart=0.2)
        assert battery.is_metered
        assert battery.train(USER_0, at(10), at(15)) == [1.0]
        charges_j = battery.charge_j(np.zeros(6, int), at(10, 11, 13, 15, 16, 20))
        before_j = 100 - 10 * 0.5
        expected_j = [before_j - 4 - 4.5 * min(s, 5) - 0.5 * max(s - 5, 0) for s in (0, 1, 3, 5, 6, 10)]
        assert charges_j == pytest.approx(expected_j)
        ledger = battery.ledger(USER_0, 20.0)
        assert (ledger.paid, ledger.computing, ledger.idle) == ([4.0], pytest.approx([20.0]), pytest.approx([20.0]))

    def test_battery_that_runs_empty_in_a_training_ends_it(self):
        """5 J less 1 J at the start, at a net 4 W for 1 s; then 5 J at 1 W, as nothing is computed any more."""
        battery, _ = open_metered(
            energy={"per_training": 1, "per_sample": 2.5}, capacity=10, initial=0.5, charger={"power": 1}, restart=0.5
        )
        battery.train(USER_0, at(0), at(5))
        assert battery.next_change(USER_0, 0.0) == pytest.approx([1.0])
        assert battery.next_change(USER_0, 1.0) == pytest.approx([6.0])
        assert battery.charge_j(USER_0, 8.0) == pytest.approx([7.0])
        assert battery.ledger(USER_0, 8.0).computing == pytest.approx([5.0])

    @pytest.mark.parametrize("steps", [3, 7, 10])
    def test_training_that_takes_exactly_what_is_left_is_paid(self, steps):
        """Up to rounding; the user stays on with an empty battery, as nothing drains it."""
        battery, _ = open_metered(energy={"per_sample": 0.1}, samples=1.0, capacity=0.1 * steps)
        for step in range(steps):
            battery.train(USER_0, at(step), at(step + 0.7))
            assert battery.next_change(USER_0, step) == [math.inf]
        assert battery.charge_j(USER_0, 99.0) == pytest.approx([0.0], abs=1e-12)
        battery.train(USER_0, at(99), at(100))
        assert battery.next_change(USER_0, 98.0) == [99.0]

    def test_training_that_ends_early_takes_no_more(self):
        battery, _ = open_metered(2, energy={"per_sample": 2}, capacity=100)
        users = np.arange(2)
        battery.train(users, at(0, 0), at(10, 10))
        battery.stop(users[:1], at(3))
        assert battery.charge_j(users, 20.0) == pytest.approx([94, 80])
        battery.stop(users, at(15, 15))  # both have ended
        assert battery.charge_j(users, 20.0) == pytest.approx([94, 80])

    def test_new_training_replaces_the_last(self):
        battery, _ = open_metered(energy={"per_sample": 2}, capacity=100)
        battery.train(USER_0, at(0), at(10))
        battery.train(USER_0, at(4), at(6))
        assert battery.charge_j(USER_0, 30.0) == pytest.approx([100 - 4 * 2 - 20])

    def test_frame_that_cannot_be_paid_ends_the_training(self):
        battery, _ = open_metered(
            energy={"per_sample": 1, "transmit": 5}, capacity=20, charger={"power": 1}, restart=0.5
        )
        battery.train(USER_0, at(0), at(5))  # a net 1 W
        assert battery.transmit(USER_0, 2.0, 10.0) == pytest.approx([18 / 50])
        assert battery.next_change(USER_0, 2.0) == pytest.approx([12.0])
        assert battery.charge_j(USER_0, 15.0) == pytest.approx([13.0])

    def test_cost_follows_power_and_frequency(self):
        """Half the frequency takes a quarter of the energy of cycles; 3 dB less power half that of a frame."""
        costs = {"capacitance": 1e-18, "efficiency": 0.5, "receive": 0.25}
        battery, meter = open_metered(energy=costs, capacity=100)
        battery.train(USER_0, at(0), at(1))
        assert battery.charge_j(USER_0, 1.0) == pytest.approx([90])  # κ c f² = 1 J for each sample
        meter.frequency_factor = np.array([0.5])
        battery.train(USER_0, at(2), at(4))
        assert battery.charge_j(USER_0, 4.0) == pytest.approx([87.5])
        battery.transmit(USER_0, 5.0, 10.0)  # 20 dBm are 0.1 W
        assert battery.charge_j(USER_0, 5.0) == pytest.approx([85.5])
        meter.set_power_offset(np.array([10 * math.log10(0.5)]))
        battery.transmit(USER_0, 6.0, 10.0)
        assert battery.charge_j(USER_0, 6.0) == pytest.approx([84.5])
        battery.receive(USER_0, 7.0, 2.0)
        assert battery.charge_j(USER_0, 7.0) == pytest.approx([84.0])

    @pytest.mark.parametrize("cost", ["per_training", "per_sample", "transmit", "receive"])
    def test_each_cost_is_metered(self, cost):
        assert open_metered(energy={cost: 1}, capacity=10)[0].is_metered
        assert not open_metered(energy={"idle": 1}, capacity=10)[0].is_metered

    def test_idle_power_is_counted_while_a_user_is_on(self):
        """10 J at a net 1 W are empty after 10 s, and 2 J are charged in 2 s: on for 10 s of 12."""
        battery, meter = open_metered(energy={"idle": 2}, capacity=10, charger={"power": 1}, restart=0.2)
        assert battery.next_change(USER_0, 0.0) == [10.0]
        assert meter.by_user_j(12.0) == pytest.approx([20.0])
        assert meter.by_user_j(13.0) == pytest.approx([22.0])
        meter.restart(12.0)
        assert meter.by_user_j(13.0) == pytest.approx([2.0])


SOLAR = {"capacity": 40e3, "idle": 0.4, "restart": 0.3, "solar": {"peak": 1.3, "clouds": 0.9}, "initial": [0.1, 1]}
NIGHTLY = {"power": 0.8, "opens": "21 h", "closes": "7 h", "spread": 7200}
NIGHT_CHARGER = {"capacity": 20e3, "idle": 0.35, "charger": NIGHTLY}


class TestStepwiseSimulation:
    @pytest.mark.parametrize("overrides", [SOLAR, NIGHT_CHARGER], ids=["solar", "nights"])
    @pytest.mark.slow
    def test_charge_and_state(self, overrides):
        """The power is a difference quotient of the energy of the supply, summed step by step."""
        users, step, horizon = 4, 5.0, 4 * DAY
        all_users, ticks = np.arange(users), np.arange(int(horizon / step))
        timeline, capacity = open_battery(users, transmit=1.0, **overrides), overrides["capacity"]
        middle = np.repeat((ticks + 0.5) * step, users)
        energy_j = timeline._supply.gain(np.tile(all_users, len(ticks)), middle, np.zeros(len(middle)))(middle + 1e-3)
        power = (energy_j / 1e-3).reshape(-1, users)
        rng = np.random.default_rng(3)
        uses = dict(zip(np.sort(rng.choice(ticks, 12)).tolist(), rng.uniform(500, 5000, 12).tolist(), strict=True))
        charge, up, changes = timeline.charge_j(all_users, 0.0), np.ones(users, bool), []
        for tick in ticks:
            was_up, charge = up, np.maximum(charge - uses.get(tick, 0.0), 0.0)
            up = up & (charge > 0)  # a use may empty it
            charge = np.minimum(charge + step * (power[tick] - overrides["idle"] * up), capacity)
            up = np.where(up, charge > 0, charge >= overrides.get("restart", 0.1) * capacity)
            charge = np.maximum(charge, 0.0)
            changes += [(user, tick * step) for user in all_users[was_up != up]]
        for tick, joules in uses.items():
            timeline.transmit(all_users, tick * step, joules)
        times_s, changed_users, _ = CombinedOutages([timeline]).changes(all_users, 0.0, horizon)
        for user in all_users:
            expected = [time_s for changed_user, time_s in changes if changed_user == user]
            assert len(expected) >= 2
            assert times_s[changed_users == user] == pytest.approx(expected, abs=60.0)
        assert timeline.charge_j(all_users, horizon) == pytest.approx(charge, abs=20.0)

    @pytest.mark.slow
    def test_results_are_independent_of_earlier_queries(self):
        queried, fresh = open_battery(4, transmit=1.0, **SOLAR), open_battery(4, transmit=1.0, **SOLAR)
        all_users, rng = np.arange(4), np.random.default_rng(5)
        for at_s in np.sort(rng.uniform(0, 6 * DAY, 10)):
            for query_s in rng.uniform(0, 10 * DAY, 4):
                queried.up(all_users, query_s)
                queried.next_change(all_users, query_s)
            for timeline in (queried, fresh):
                timeline.transmit(all_users, at_s, 2000.0)
        for query_s in rng.uniform(0, 10 * DAY, 30):
            assert (queried.up(all_users, query_s) == fresh.up(all_users, query_s)).all()
            assert (queried.next_change(all_users, query_s) == fresh.next_change(all_users, query_s)).all()

    @pytest.mark.slow
    def test_changes_are_exact(self):
        timeline = open_battery(50, **SOLAR)
        all_users = np.arange(50)
        times_s, changed_users, up = CombinedOutages([timeline]).changes(all_users, 0.0, 20 * DAY)
        assert len(times_s) > 100
        assert (timeline.up(changed_users, times_s) == up).all()
        assert (timeline.up(changed_users, np.nextafter(times_s, 0)) != up).all()

    def test_use_does_not_change_past_states(self):
        timeline = open_battery(1, transmit=1.0, **SOLAR)
        states = [timeline.up(USER_0, t)[0] for t in np.arange(0, 3 * DAY, 600.0)]
        timeline.transmit(USER_0, 3 * DAY, 1e9)
        assert [timeline.up(USER_0, t)[0] for t in np.arange(0, 3 * DAY, 600.0)] == states
        assert not timeline.up(USER_0, 3 * DAY)[0]


def simulate_charge(overrides, charge, uses, until_s):
    """Return the final charge and state, and the joules charged, used and wasted."""
    capacity, idle, charger = overrides["capacity"], overrides["idle"], overrides.get("charger", {"power": 0.0})
    edges = [day * DAY + charger[key] for day in range(-1, 5) for key in ("opens", "closes") if key in charger]
    up, now_s, charged, used, wasted = charge > 0, 0.0, 0.0, 0.0, 0.0
    for end_s in sorted({*edges, *uses, until_s}):
        while now_s < end_s <= until_s:
            hour = (now_s + end_s) / 2 % DAY
            is_plugged = "opens" not in charger or (charger["opens"] <= hour) != (hour < charger["closes"])
            power = charger["power"] * is_plugged
            net = power - idle * up
            target = 0.0 if up else overrides["restart"] * capacity
            left_s = (target - charge) / net if net else math.inf
            is_change = (net < 0) == up and 0 < left_s <= end_s - now_s
            span_s = left_s if is_change else end_s - now_s
            charged, used = charged + power * span_s, used + idle * up * span_s
            wasted += max(0.0, charge + net * span_s - capacity)
            charge = target if is_change else min(charge + net * span_s, capacity)
            up, now_s = up != is_change, now_s + span_s if is_change else end_s
        if end_s in uses:
            drained = min(charge, uses[end_s])
            charge, used, up = charge - drained, used + drained, up and drained < charge
    return charge, up, charged, used, wasted


class TestEnergyConservation:
    @pytest.mark.parametrize("seed", range(40))
    def test_energy_is_conserved(self, seed):
        """Random batteries are compared with an independent simulation whose energy balance holds."""
        rng = np.random.default_rng(seed)
        overrides = {
            "capacity": rng.uniform(50, 5000),
            "idle": rng.uniform(0.005, 0.2),
            "restart": rng.uniform(0.05, 1),
        }
        if seed % 4:
            overrides["charger"] = {"power": rng.uniform(0.01, 0.5)}
        if seed % 4 > 1:
            overrides["charger"] |= {"opens": rng.uniform(13, 24) * HOUR, "closes": rng.uniform(1, 12) * HOUR}
        share, until_s = rng.uniform(), rng.uniform(1, 3.5) * DAY
        timeline = open_battery(transmit=1.0, initial=share, **overrides)
        uses = dict(zip(np.sort(rng.uniform(0, until_s, 20)).tolist(), rng.exponential(300, 20).tolist(), strict=True))
        for at_s, joules in uses.items():
            timeline.transmit(USER_0, at_s, joules)
        start = share * overrides["capacity"]
        charge, up, charged, used, wasted = simulate_charge(overrides, start, uses, until_s)
        assert start + charged == pytest.approx(charge + used + wasted)
        assert timeline.charge_j(USER_0, until_s) == pytest.approx(charge, abs=1e-6 * overrides["capacity"])
        assert timeline.up(USER_0, until_s)[0] == up


class TestNodeState:
    def test_uses_change_node_state(self):
        timeline = open_battery(2, capacity=100, per_training=40, transmit=0.001, charger={"power": 1}, restart=0.1)
        presence = NodeState(CombinedOutages([timeline]), 4)
        assert presence.is_metered
        users = np.array([0, 1])
        assert presence.up(users, 1.0).all()
        presence.train(users[:1], at(2.0), at(2.0))
        presence.transmit(users[:1], 3.0, 70_000)  # leaves 61 J
        assert presence.node_up_until_s(0, 3.0) <= 3.0
        assert presence.cut_s(0, 3.0, 5.0) <= 3.0
        assert presence.cut_s(1, 3.0, 5.0) >= 5.0
        assert presence.all_up_from_s(np.array([[0, 2]]), 3.0) == pytest.approx([13.0])
        assert presence.up(users, 13.1).all()

    def test_upload_is_cut_when_battery_is_empty(self):
        presence = NodeState(CombinedOutages([open_battery(capacity=100, idle=1, transmit=1)]), 3)
        presence.transmit(USER_0, 20.0, 60)
        assert presence.cut_s(0, 20.0, 25.0) == 40.0
        assert presence.cut_s(0, 20.0) == 40.0

    def test_idle_power_alone_is_not_metered(self):
        assert not NodeState(CombinedOutages([open_battery(capacity=100, idle=1)]), 3).is_metered


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"capacity": 10, "initial": [0.5, 0.2]}, "from is above to"),
        ({"capacity": 10, "initial": 1.5}, "less than or equal to 1"),
        ({"capacity": 10, "restart": 0}, "greater than 0"),
        ({"capacity": 10, "solar": {"peak": 1}, "charger": {"power": 1}}, "only one of"),
        ({"capacity": 10, "charger": {"power": 1, "opens": 3}}, "opens and closes"),
        ({"capacity": 10, "solar": {"peak": 1, "sunset": "2 h"}}, "sets before it rises"),
        ({"capacity": "3000 mAh"}, "unknown unit: mAh"),
    ],
)
def test_invalid_settings_are_rejected(overrides, problem):
    with pytest.raises(ScenarioError, match=problem):
        Battery(**overrides)


@pytest.mark.parametrize("energy", [None, {}, {"per_sample": 0}, {"transmit": 0}])
def test_battery_that_nothing_drains_is_refused(energy):
    costs = None if energy is None else Energy(**energy)
    (fault,) = Battery(capacity=10).energy_faults(costs)
    assert str(fault) == (
        "nothing drains the battery, which pays what access.energy counts; give costs in access.energy, such as "
        "per_sample, transmit or idle"
    )
    assert not [*Battery(capacity=10).energy_faults(Energy(idle=1))]


def test_batteries_of_towers_are_rejected():
    (fault,) = Battery(nodes=[0, "tower:0"], capacity=1).faults(ScenarioFacts(users=3, rounds=1))
    assert (fault.key, fault.problem) == ("nodes", "only users have batteries")


def test_users_train_until_batteries_are_empty(tmp_path):
    """100 J suffice for three trainings of 30 J; the fourth empties the battery and is never sent."""
    scenario = {
        "name": "drained",
        "users": 4,
        "rounds": 8,
        "record": "all",
        "access": {
            "kind": "network",
            "round": {"kind": "first", "deadline": "10 min"},
            "topology": {"kind": "star", "radius": "200 m"},
            "radio": {"power": "60 dBm", "bandwidth": "1 MHz"},
            "channel": [{"kind": "free_space", "frequency": "868 MHz"}],
            "reception": {"kind": "snr_threshold", "threshold": "0 dB", "rate": "50 kbps"},
            "mac": {"kind": "slotted_aloha", "probability": 0.2},
            "compute": {"speed": 100, "samples": 100},
            "broadcast_rate": "50 kbps",
            "update_size": "10 kB",
            "outages": [{"kind": "battery", "capacity": 100}],
            "energy": {"per_training": 30},
        },
    }
    run = netfl.trace(validate(ScenarioDocument(scenario, "drained")), tmp_path / "run")
    events = run.events
    assert events[events.kind == "received"].groupby("user").size().tolist() == [4] * 4
    assert events[events.kind == "delivered"].groupby("user").size().tolist() == [3] * 4
    assert events[events.kind == "down"].groupby("user").size().tolist() == [1] * 4
    assert not (events.kind == "up").any()


def test_use_while_down_delays_restart():
    """50 J at 1 W are charged after 50 s; a training at 20 s uses the 20 J in the battery."""
    charged = open_battery(capacity=100, initial=0.0, restart=0.5, per_training=80, charger={"power": 1})
    presence = NodeState(CombinedOutages([charged]), 1)
    assert presence.all_up_from_s(USER_0[None], 0.0) == pytest.approx([50.0])
    presence.train(USER_0, at(20.0), at(20.0))
    assert presence.all_up_from_s(USER_0[None], 20.0) == pytest.approx([70.0])


def test_look_ahead_is_four_segments():
    """The charger has two edges a day: the fourth after 0 h is at 22 h on the second day."""
    charged = open_battery(capacity=100, per_training=1, charger={"power": 1, "opens": "22 h", "closes": "6 h"})
    edges = np.sort(np.concatenate([np.arange(6, 2000, 24), np.arange(22, 2000, 24)]))
    hours = np.random.default_rng(7).integers(0, 1200, 60)
    for hour in [0, *hours, *edges[:40]]:
        expected = edges[np.searchsorted(edges, hour, side="right") + 3]
        assert charged.next_change(USER_0, hour * HOUR) == [expected * HOUR]
        assert charged.up(USER_0, hour * HOUR).all()


def test_results_are_independent_of_query_order():
    """Two batteries return the same as fresh ones; each is charged by night and empty by day."""
    overrides = {"initial": [0.2, 0.9], "idle": 1, "charger": {"power": 3, "opens": "22 h", "closes": "6 h"}}
    rows, reused = np.arange(2), open_battery(2, capacity=20e3, **overrides)
    for at_s in np.random.default_rng(11).uniform(0, 4 * DAY, 80):
        fresh = open_battery(2, capacity=20e3, **overrides)
        assert reused.next_change(rows, at_s).tolist() == fresh.next_change(rows, at_s).tolist()
        assert reused.up(rows, at_s).tolist() == fresh.up(rows, at_s).tolist()


def test_repeated_queries_reuse_segments():
    """Repeated queries about the same days take no more steps than there are segments."""
    charged = open_battery(capacity=100, initial=0.5, idle=0.01, solar={"peak": 0.03})
    steps, step = [], charged._step

    def count_step(rows, state):
        steps.append(rows)
        return step(rows, state)

    charged._step = count_step
    for at_s in np.arange(0.0, 2 * DAY, 600.0):
        charged.up(USER_0, at_s)
        charged.next_change(USER_0, at_s)
    assert 8 <= len(steps) <= 30


@pytest.mark.parametrize("days", [[0, 8191], [8191, 8192], [20_000, 3]])
def test_clouds_depend_on_number_of_day(days):
    solar = Solar(peak=2.0, clouds=0.8)
    clouds = Streams(5).field("clouds")
    rise_s = solar.sunrise + 86400.0 * np.array(days)
    expected_w = [2.0 * (1.0 - 0.8 * float(clouds.uniform(0, day))) for day in days]
    assert _Sun(solar, clouds)._peak_w(rise_s).tolist() == expected_w
