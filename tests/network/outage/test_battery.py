"""Batteries against a reckoning second by second, and against figures worked out by hand."""

import math

import numpy as np
import pytest

import netfl
from netfl.errors import ScenarioError
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
ONE = np.array([0])


def sites(users=1):
    return Star(radius=10).open(users, STREAMS)


def battery(users=1, **said):
    return Battery(**said).open(sites(users), STREAMS)


class TestByHand:
    def test_idle_drains_linearly_and_a_charger_brings_it_back(self):
        """100 J at 2 W are gone after 50 s; down, 1 W brings back 20 J in 20 s; then net -1 W lasts 20 s."""
        timeline = battery(capacity=100, idle=2, charger={"power": 1}, restart=0.2)
        times = [timeline.next_change(ONE, 0.0)[0]]
        for _ in range(4):
            times.append(timeline.next_change(ONE, times[-1])[0])
        assert times == pytest.approx([100, 120, 140, 160, 180])
        assert timeline.up(np.zeros(5, int), times).tolist() == [False, True, False, True, False]
        assert timeline.charge_j(np.zeros(4, int), [50, 100, 110, 120]) == pytest.approx([50, 0, 10, 20])

    def test_uses_are_taken_when_they_come(self):
        timeline = battery(capacity=100, per_training=10, per_sample=0.5, per_bit=0.001)
        assert timeline.next_change(ONE, 0.0) == [math.inf]
        timeline.train(ONE, 5.0, 40)
        assert timeline.charge_j(ONE, 5.0) == pytest.approx(70)
        timeline.transmit(ONE, 6.0, 30_000)
        assert timeline.charge_j(ONE, 7.0) == pytest.approx(40)
        timeline.transmit(ONE, 8.0, 50_000)  # more than is left
        assert timeline.charge_j(ONE, 8.0) == [0.0]
        assert timeline.up(np.zeros(3, int), [0.0, 7.999, 8.0]).tolist() == [True, True, False]
        assert timeline.next_change(np.zeros(2, int), [6.5, 8.0]).tolist() == [8.0, math.inf]

    def test_a_full_battery_stays_full(self):
        timeline = battery(capacity=100, per_training=30, charger={"power": 1})
        assert timeline.charge_j(ONE, 1e6) == [100.0]
        timeline.train(ONE, 1000.0, 0)
        assert timeline.charge_j(np.zeros(2, int), [1010.0, 1e6]) == pytest.approx([80, 100])

    def test_a_charger_at_night(self):
        """8 h at 10 W fill 288 kJ; 16 h at 5 W drain as much."""
        timeline = battery(capacity=288e3, idle=5, charger={"power": 15, "opens": "22 h", "closes": "6 h"}, initial=0.5)
        hours = np.array([0, 6, 16, 22])
        # from half: full after 4 h at 36 kJ an hour; then 16 h at 18 kJ an hour down to nothing
        found = timeline.charge_j(np.zeros(4, int), hours * HOUR)
        assert found == pytest.approx([144e3, 288e3, 108e3, 0], abs=1e-3)

    def test_a_day_of_sun_is_two_thirds_of_the_noon_power_over_the_daylight(self):
        timeline = battery(capacity=1e9, initial=0.0, idle=1e-9, solar={"peak": 2, "sunrise": "7 h", "sunset": "17 h"})
        assert timeline.charge_j(ONE, DAY) == pytest.approx(2 / math.pi * 2 * 10 * HOUR)
        assert timeline.charge_j(ONE, 12 * HOUR) == pytest.approx(1 / math.pi * 2 * 10 * HOUR)

    def test_an_empty_one_without_supply_is_down_for_ever(self):
        timeline = battery(capacity=10, idle=1)
        assert timeline.next_change(ONE, 0.0) == [10.0]
        assert timeline.next_change(ONE, 10.0) == [math.inf]
        assert CombinedOutages([timeline]).next_up(ONE, 20.0) == [math.inf]

    @pytest.mark.parametrize("cost", ["per_training", "per_sample", "per_bit"])
    def test_each_kind_of_use_is_metered(self, cost):
        assert battery(capacity=10, **{cost: 1}).is_metered

    def test_half_a_joule_is_enough_to_be_up(self):
        """At the start, after a use, and as a charger comes on."""
        timeline = battery(capacity=100, per_training=1, initial=0.015)
        assert timeline.up(ONE, 0.0)
        timeline.train(ONE, 3.0, 0)
        assert timeline.charge_j(ONE, 4.0) == pytest.approx(0.5)
        assert timeline.up(ONE, 4.0)
        assert battery(capacity=100, idle=1, initial=0.005).next_change(ONE, 0.0) == pytest.approx(0.5)
        timeline = battery(capacity=3600.5, idle=1, charger={"power": 2, "opens": "1 h", "closes": "2 h"})
        assert timeline.charge_j(ONE, HOUR) == pytest.approx(0.5)
        assert timeline.next_change(ONE, 0.0) == pytest.approx(3 * HOUR + 0.5)

    def test_one_that_is_empty_at_the_start_is_down(self):
        timeline = battery(capacity=100, idle=0.5, initial=0, charger={"power": 1}, restart=0.2)
        assert timeline.next_change(ONE, 0.0) == pytest.approx(20)
        assert timeline.up(np.zeros(3, int), [0.0, 19.0, 21.0]).tolist() == [False, False, True]

    def test_one_that_is_empty_just_as_the_charger_comes_on_is_down_until_it_restarts(self):
        """3600 J at 1 W are gone at 1 h; then 2 W bring 1800 J in 900 s."""
        charger = {"power": 2, "opens": "1 h", "closes": "2 h"}
        timeline = battery(capacity=3600, idle=1, charger=charger, restart=0.5)
        assert timeline.next_change(np.zeros(2, int), [0.0, HOUR]) == pytest.approx([HOUR, HOUR + 900])
        assert timeline.up(np.zeros(3, int), [HOUR - 1, HOUR + 1, HOUR + 901]).tolist() == [True, False, True]

    def test_one_that_may_restart_just_as_the_charger_goes_is_up(self):
        """0.5 W bring 1800 J from 1 h to 2 h, which then last half an hour."""
        charger = {"power": 0.5, "opens": "1 h", "closes": "2 h"}
        timeline = battery(capacity=3600, idle=1, charger=charger, restart=0.5, initial=0)
        assert timeline.next_change(np.zeros(2, int), [0.0, 2 * HOUR]) == pytest.approx([2 * HOUR, 2.5 * HOUR])
        assert timeline.up(np.zeros(3, int), [2 * HOUR - 1, 2 * HOUR + 1, 2.6 * HOUR]).tolist() == [False, True, False]

    def test_what_one_night_brings_counts_in_the_next(self):
        """1125 J of the first window and 675 J of the second make 1800 J: after 2160 s of it."""
        charger = {"power": 0.3125, "opens": "1 h", "closes": "2 h"}
        timeline = battery(capacity=3600, idle=1, charger=charger, restart=0.5, initial=0)
        assert timeline.next_change(ONE, 0.0) == pytest.approx(25 * HOUR + 2160)

    def test_a_use_leaves_what_has_been_as_it_was(self):
        """Empty at 100, 140 and 180, up again 20 s after each; at 210 there are 10 J: with 5 less it lasts to 215."""
        timeline = battery(capacity=100, idle=2, per_bit=1, charger={"power": 1}, restart=0.2)
        timeline.transmit(ONE, 210.0, 5)
        assert timeline.charge_j(ONE, 210.0) == pytest.approx(5)
        looks = np.arange(5.0, 210.0, 10.0)
        many = np.zeros(len(looks), int)
        assert timeline.up(many, looks).tolist() == [at_s < 100 or at_s // 20 % 2 == 0 for at_s in looks]
        before = looks < 200
        found = timeline.next_change(many[before], looks[before])
        assert found == pytest.approx(np.maximum(100.0, 20.0 * (looks[before] // 20 + 1)))
        assert timeline.next_change(np.zeros(3, int), [205.0, 210.0, 212.0]) == pytest.approx([215.0] * 3)

    def test_a_use_at_the_instant_of_a_restart_finds_the_battery_up(self):
        timeline = battery(capacity=100, idle=2, per_bit=1, charger={"power": 1}, restart=0.2)
        at_s = timeline.next_change(ONE, 105.0)
        assert at_s == pytest.approx(120)
        timeline.transmit(ONE, at_s, 5)
        assert timeline.up(ONE, at_s)
        assert timeline.next_change(ONE, at_s) == pytest.approx(135)

    def test_a_look_ahead_ends_some_time_although_nothing_changes(self):
        """So it is not exact, and who asks must ask on."""
        timeline = battery(capacity=100, idle=1e-9, charger={"power": 1, "opens": "1 h", "closes": "2 h"})
        until_s = timeline.next_change(ONE, 0.0)
        assert DAY < until_s < 1000 * DAY
        assert timeline.up(np.zeros(2, int), [until_s[0] - 1.0, until_s[0] + 1.0]).all()
        assert not timeline.is_exact


SOLAR = {"capacity": 40e3, "idle": 0.4, "restart": 0.3, "solar": {"peak": 1.3, "clouds": 0.9}, "initial": [0.1, 1]}
NIGHTLY = {"power": 0.8, "opens": "21 h", "closes": "7 h", "spread": 7200}
NIGHTS = {"capacity": 20e3, "idle": 0.35, "charger": NIGHTLY}


class TestAgainstSecondBySecond:
    @pytest.mark.parametrize("said", [SOLAR, NIGHTS], ids=["solar", "nights"])
    @pytest.mark.slow
    def test_charge_and_state(self, said):
        """Power by a difference quotient of the supply's energy, summed up step by step."""
        users, step, horizon = 4, 5.0, 4 * DAY
        every, ticks = np.arange(users), np.arange(int(horizon / step))
        timeline, capacity = battery(users, per_sample=1.0, **said), said["capacity"]
        middle = np.repeat((ticks + 0.5) * step, users)
        gained = timeline._supply.gain(np.tile(every, len(ticks)), middle, np.zeros(len(middle)))(middle + 1e-3)
        power = (gained / 1e-3).reshape(-1, users)
        rng = np.random.default_rng(3)
        uses = dict(zip(np.sort(rng.choice(ticks, 12)).tolist(), rng.uniform(500, 5000, 12).tolist(), strict=True))
        charge, up, flips = timeline.charge_j(every, 0.0), np.ones(users, bool), []
        for tick in ticks:
            was, charge = up, np.maximum(charge - uses.get(tick, 0.0), 0.0)
            up = up & (charge > 0)  # a use may empty it
            charge = np.minimum(charge + step * (power[tick] - said["idle"] * up), capacity)
            up = np.where(up, charge > 0, charge >= said.get("restart", 0.1) * capacity)
            charge = np.maximum(charge, 0.0)
            flips += [(user, tick * step) for user in every[was != up]]
        for tick, joules in uses.items():
            timeline.train(every, tick * step, joules)
        when, who, _ = CombinedOutages([timeline]).changes(every, 0.0, horizon)
        for user in every:
            expected = [t for u, t in flips if u == user]
            assert len(expected) >= 2
            assert when[who == user] == pytest.approx(expected, abs=60.0)
        assert timeline.charge_j(every, horizon) == pytest.approx(charge, abs=20.0)

    @pytest.mark.slow
    def test_no_answer_depends_on_what_was_asked_before(self):
        asked, fresh = battery(4, per_bit=1.0, **SOLAR), battery(4, per_bit=1.0, **SOLAR)
        every, rng = np.arange(4), np.random.default_rng(5)
        for at_s in np.sort(rng.uniform(0, 6 * DAY, 10)):
            for look_s in rng.uniform(0, 10 * DAY, 4):
                asked.up(every, look_s)
                asked.next_change(every, look_s)
            for timeline in (asked, fresh):
                timeline.transmit(every, at_s, 2000.0)
        for look_s in rng.uniform(0, 10 * DAY, 30):
            assert (asked.up(every, look_s) == fresh.up(every, look_s)).all()
            assert (asked.next_change(every, look_s) == fresh.next_change(every, look_s)).all()

    @pytest.mark.slow
    def test_nothing_changes_between_changes_and_the_new_state_holds_at_each(self):
        timeline = battery(50, **SOLAR)
        every = np.arange(50)
        when, who, up = CombinedOutages([timeline]).changes(every, 0.0, 20 * DAY)
        assert len(when) > 100
        assert (timeline.up(who, when) == up).all()
        assert (timeline.up(who, np.nextafter(when, 0)) != up).all()

    def test_uses_before_a_time_do_not_change_what_was(self):
        timeline = battery(1, per_bit=1.0, **SOLAR)
        before = [timeline.up(ONE, t)[0] for t in np.arange(0, 3 * DAY, 600.0)]
        timeline.transmit(ONE, 3 * DAY, 1e9)
        assert [timeline.up(ONE, t)[0] for t in np.arange(0, 3 * DAY, 600.0)] == before
        assert not timeline.up(ONE, 3 * DAY)[0]


def reckoned(said, charge, uses, until_s):
    """The charge at the end, whether the user is up then, and the joules that came, were used and found no room."""
    capacity, idle, charger = said["capacity"], said["idle"], said.get("charger", {"power": 0.0})
    edges = [day * DAY + charger[key] for day in range(-1, 5) for key in ("opens", "closes") if key in charger]
    up, now_s, came, used, spilt = charge > 0, 0.0, 0.0, 0.0, 0.0
    for end_s in sorted({*edges, *uses, until_s}):
        while now_s < end_s <= until_s:
            hour = (now_s + end_s) / 2 % DAY
            plugged = "opens" not in charger or (charger["opens"] <= hour) != (hour < charger["closes"])
            power = charger["power"] * plugged
            net = power - idle * up
            goal = 0.0 if up else said["restart"] * capacity
            left_s = (goal - charge) / net if net else math.inf
            turns = (net < 0) == up and 0 < left_s <= end_s - now_s
            span_s = left_s if turns else end_s - now_s
            came, used = came + power * span_s, used + idle * up * span_s
            spilt += max(0.0, charge + net * span_s - capacity)
            charge = goal if turns else min(charge + net * span_s, capacity)
            up, now_s = up != turns, now_s + span_s if turns else end_s
        if end_s in uses:
            taken = min(charge, uses[end_s])
            charge, used, up = charge - taken, used + taken, up and taken < charge
    return charge, up, came, used, spilt


class TestEveryJouleIsSomewhere:
    @pytest.mark.parametrize("seed", range(40))
    def test_what_was_there_and_came_is_used_spilt_or_left(self, seed):
        """Batteries at random, beside a reckoning of one at a time, whose account adds up."""
        rng = np.random.default_rng(seed)
        said = {"capacity": rng.uniform(50, 5000), "idle": rng.uniform(0.005, 0.2), "restart": rng.uniform(0.05, 1)}
        if seed % 4:
            said["charger"] = {"power": rng.uniform(0.01, 0.5)}
        if seed % 4 > 1:
            said["charger"] |= {"opens": rng.uniform(13, 24) * HOUR, "closes": rng.uniform(1, 12) * HOUR}
        share, until_s = rng.uniform(), rng.uniform(1, 3.5) * DAY
        timeline = battery(per_bit=1.0, initial=share, **said)
        uses = dict(zip(np.sort(rng.uniform(0, until_s, 20)).tolist(), rng.exponential(300, 20).tolist(), strict=True))
        for at_s, joules in uses.items():
            timeline.transmit(ONE, at_s, joules)
        start = share * said["capacity"]
        charge, up, came, used, spilt = reckoned(said, start, uses, until_s)
        assert start + came == pytest.approx(charge + used + spilt)
        assert timeline.charge_j(ONE, until_s) == pytest.approx(charge, abs=1e-6 * said["capacity"])
        assert timeline.up(ONE, until_s)[0] == up


class TestPresenceOfBatteries:
    def test_what_users_do_is_told_and_forgotten(self):
        timeline = battery(2, capacity=100, per_training=40, per_bit=0.001, charger={"power": 1}, restart=0.1)
        presence = NodeState(CombinedOutages([timeline]), 4)
        assert presence.is_metered
        users = np.array([0, 1])
        assert presence.up(users, 1.0).all()
        presence.train(users[:1], 2.0, np.array([5.0]))
        presence.transmit(users[:1], 3.0, 70_000)  # 61 J are left
        assert presence.node_up_until_s(0, 3.0) <= 3.0
        assert presence.cut_s(0, 3.0, 5.0) <= 3.0
        assert presence.cut_s(1, 3.0, 5.0) >= 5.0
        assert presence.all_up_from_s(np.array([[0, 2]]), 3.0) == pytest.approx([13.0])
        assert presence.up(users, 13.1).all()

    def test_an_upload_is_cut_when_the_battery_runs_empty_under_way(self):
        presence = NodeState(CombinedOutages([battery(capacity=100, idle=1, per_bit=1)]), 3)
        presence.transmit(ONE, 20.0, 60)
        assert presence.cut_s(0, 20.0, 25.0) == 40.0
        assert presence.cut_s(0, 20.0) == 40.0

    def test_idling_alone_needs_no_telling(self):
        assert not NodeState(CombinedOutages([battery(capacity=100, idle=1)]), 3).is_metered


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"capacity": 10}, "nothing drains"),
        ({"capacity": 10, "idle": 1, "initial": [0.5, 0.2]}, "from is above to"),
        ({"capacity": 10, "idle": 1, "initial": 1.5}, "less than or equal to 1"),
        ({"capacity": 10, "idle": 1, "restart": 0}, "greater than 0"),
        ({"capacity": 10, "idle": 1, "solar": {"peak": 1}, "charger": {"power": 1}}, "only one of"),
        ({"capacity": 10, "idle": 1, "charger": {"power": 1, "opens": 3}}, "opens and closes"),
        ({"capacity": 10, "idle": 1, "solar": {"peak": 1, "sunset": "2 h"}}, "sets before it rises"),
        ({"capacity": "3000 mAh", "idle": 1}, "instead of an energy|a value in"),
    ],
)
def test_batteries_that_are_none(said, told):
    with pytest.raises(ScenarioError, match=told):
        Battery(**said)


def test_towers_have_no_batteries():
    (fault,) = Battery(nodes=[0, "tower:0"], capacity=1, idle=1).faults(ScenarioFacts(users=3, rounds=1))
    assert (fault.key, fault.problem) == ("nodes", "only users have batteries")


def test_in_a_whole_network_users_train_until_their_batteries_are_empty(tmp_path):
    """100 J are four trainings of 30 J: the fourth empties the battery, and what it began is never sent."""
    said = {
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
            "outages": [{"kind": "battery", "capacity": 100, "per_training": 30}],
        },
    }
    run = netfl.trace(validate(ScenarioDocument(said, "drained")), tmp_path / "run")
    events = run.events
    assert events[events.kind == "received"].groupby("user").size().tolist() == [4] * 4
    assert events[events.kind == "delivered"].groupby("user").size().tolist() == [3] * 4
    assert events[events.kind == "down"].groupby("user").size().tolist() == [1] * 4
    assert not (events.kind == "up").any()


def test_a_use_while_down_puts_off_when_it_is_known_to_be_back():
    """50 J at 1 W would be there after 50 s; a training at 20 s takes the 20 J that there are."""
    charged = battery(capacity=100, initial=0.0, restart=0.5, per_training=80, charger={"power": 1})
    presence = NodeState(CombinedOutages([charged]), 1)
    assert presence.all_up_from_s(ONE[None], 0.0) == pytest.approx([50.0])
    presence.train(ONE, 20.0, 1)
    assert presence.all_up_from_s(ONE[None], 20.0) == pytest.approx([70.0])


def test_a_chain_without_changes_is_looked_at_for_sixteen_segments_in_any_order():
    """A charger's window has two edges a day: the sixteenth after 0 h is at 22 h on the eighth day."""
    charged = battery(capacity=100, per_training=1, charger={"power": 1, "opens": "22 h", "closes": "6 h"})
    edges = np.sort(np.concatenate([np.arange(6, 2000, 24), np.arange(22, 2000, 24)]))
    hours = np.random.default_rng(7).integers(0, 1200, 60)
    for hour in [0, *hours, *edges[:40]]:
        expected = edges[np.searchsorted(edges, hour, side="right") + 15]
        assert charged.next_change(ONE, hour * HOUR) == [expected * HOUR]
        assert charged.up(ONE, hour * HOUR).all()


def test_a_chain_tells_the_same_in_any_order():
    """Of two batteries, forth and back, as of fresh ones: each is charged by night and empty by day."""
    said = {"initial": [0.2, 0.9], "idle": 1, "charger": {"power": 3, "opens": "22 h", "closes": "6 h"}}
    both, kept = np.arange(2), battery(2, capacity=20e3, **said)
    for at_s in np.random.default_rng(11).uniform(0, 4 * DAY, 80):
        fresh = battery(2, capacity=20e3, **said)
        assert kept.next_change(both, at_s).tolist() == fresh.next_change(both, at_s).tolist()
        assert kept.up(both, at_s).tolist() == fresh.up(both, at_s).tolist()


def test_a_chain_is_not_walked_again():
    """Asked about the same days again, step by step, it makes no more steps than there are segments."""
    charged = battery(capacity=100, initial=0.5, idle=0.01, solar={"peak": 0.03})
    steps, step = [], charged._step

    def counted(rows, state):
        steps.append(rows)
        return step(rows, state)

    charged._step = counted
    for at_s in np.arange(0.0, 2 * DAY, 600.0):
        charged.up(ONE, at_s)
        charged.next_change(ONE, at_s)
    assert 8 <= len(steps) <= 30


@pytest.mark.parametrize("days", [[0, 8191], [8191, 8192], [20_000, 3]])
def test_the_clouds_of_a_day_are_those_of_its_number_however_late_it_is(days):
    solar = Solar(peak=2.0, clouds=0.8)
    clouds = Streams(5).field("clouds")
    rise_s = solar.sunrise + 86400.0 * np.array(days)
    expected_w = [2.0 * (1.0 - 0.8 * float(clouds.uniform(0, day))) for day in days]
    assert _Sun(solar, clouds)._peak_w(rise_s).tolist() == expected_w
