"""Slots whose frames end later than the slot, by propagation delay or by their size: senders are independent."""

import numpy as np
import pytest
from support.guide_macs import guide_macs
from support.small_network import make

import netfl
from netfl.network.mac._slotted import SlottedCell
from netfl.network.mac.adaptive_aloha import AdaptiveAloha
from netfl.network.mac.controlled import Controlled
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.mac.slotted_aloha import KnownBacklog, PseudoBayesian, SlottedAloha, serve_adaptive
from netfl.simulation.setup import warnings

PERSISTENT = next(model for name, model in guide_macs().items() if name.endswith("Persistent"))
AT_ONCE = {
    "slotted_aloha": SlottedAloha(probability=1.0),
    "known": SlottedAloha(adaptive="known"),
    "backoff": SlottedAloha(adaptive="backoff"),
    "pseudo_bayesian": SlottedAloha(adaptive="pseudo_bayesian"),
    "multichannel_aloha": MultichannelAloha(probability=1.0, channels=1),
    "adaptive_aloha": AdaptiveAloha(channels=1, metric="age", load=1e9),
    "controlled": Controlled(probability=1.0),
    "guide": PERSISTENT(p=1.0),
}
"""MACs whose lone user sends in its next slot."""
UNDERWATER = {
    "name": "under",
    "users": 4,
    "duration": "20 s",
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "15 m"},
        "radio": {"power": "60 dBm", "bandwidth": "1 kHz"},
        "channel": [{"kind": "underwater", "frequency": "10 kHz"}],
        "reception": {"kind": "snr_threshold", "threshold": "-40 dB", "rate": "10 kbps"},
        "mac": "tdma",
        "traffic": {"kind": "saturated", "size": {"mean": "1000 bit"}, "destination": "tower"},
    },
}
EXPONENTIAL = {
    "name": "varsize",
    "users": 10,
    "duration": "10 s",
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m"},
        "radio": {"power": "16 dBm", "bandwidth": "1 MHz", "noise_figure": "20 dB"},
        "channel": [{"kind": "constant", "gain": "-60 dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "1 Mbps"},
        "mac": {"kind": "slotted_aloha", "probability": 0.1, "max_attempts": 1},
        "traffic": {
            "kind": "saturated",
            "size": {"distribution": "exponential", "mean": "1000 bit"},
            "destination": "tower",
        },
    },
}


@pytest.fixture
def delay(scripted_links, monkeypatch):
    """Return a function that sets the propagation delay of each user."""

    def set_delay(*delays_s):
        values = np.array(delays_s)
        monkeypatch.setattr(scripted_links, "delay_s", lambda self, users, time_s, tower="": values[users])

    return set_delay


def serve(simulation, slots, versions=(0.0,), until_s=60.0):
    """Serve versions, and return the attempts and the deliveries as (user, start) and (user, end)."""
    simulation.env.process(slots)
    for version, at_s in enumerate(versions):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=until_s)
    sent = [(user, time_s) for time_s, user in simulation.recorder.events("sent")]
    return sent, [(message.user, round(at_s, 9)) for at_s, message in simulation.sent_on]


@pytest.mark.parametrize("name", [name for name in AT_ONCE if name != "known"])  # it counts who is on the air
def test_late_frame_delays_nobody_else(name, make_cell, delay):
    """User 0 sends from 0 on and arrives until 1.6; user 1 is ready at 0.5 and sends at 1."""
    delay(0.6, 0.6)
    simulation = make_cell(2, compute_s=[0.0, 0.5])
    sent, delivered = serve(simulation, AT_ONCE[name].serve(simulation.cell))
    assert sent == [(0, 0.0), (1, 1.0)]
    assert delivered == [(0, 1.6), (1, 2.6)]


def test_medium_decides_overlap(make_cell, delay):
    """The far user's signal lasts until 1.4 and meets that of the near user, which begins at 1."""
    delay(0.4, 0.0, 0.0)
    simulation = make_cell(3, compute_s=[0.0, 0.5, 1.5])
    mac = SlottedAloha(probability=1.0, max_attempts=1)
    sent, delivered = serve(simulation, mac.serve(simulation.cell))
    assert sent == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert delivered == [(2, 3.0)]


def test_slot_with_room_for_the_delay_has_no_overlap(make_cell, delay):
    delay(0.4, 0.0, 0.0)
    simulation = make_cell(3, compute_s=[0.0, 0.5, 2.0])
    mac = SlottedAloha(probability=1.0, slot=1.4)
    _, delivered = serve(simulation, mac.serve(simulation.cell))
    assert delivered == [(0, 1.4), (1, 2.4), (2, 3.8)]


def test_user_sends_again_in_the_first_slot_after_its_frame(make_cell, delay):
    """A user with a delay of 1.5 slots fails from 0 to 2.5, 3 to 5.5 and so on."""
    delay(1.5)
    simulation = make_cell(1, snr_db=lambda users, time_s: [-9.0])
    sent, _ = serve(simulation, SlottedAloha(probability=1.0, max_attempts=4).serve(simulation.cell))
    assert sent == [(0, 0.0), (0, 3.0), (0, 6.0), (0, 9.0)]


def test_frame_that_ends_with_a_later_slot_leaves_that_slot_free(make_cell, delay):
    """A delay of one slot: the frame ends exactly as slot 2 begins, after rounding at any time."""
    for start_s in (0.0, 1e6 + 0.3):
        delay(1.1)
        simulation = make_cell(1, snr_db=lambda users, time_s: [-9.0])
        mac = SlottedAloha(probability=1.0, max_attempts=4, slot=1.05)
        sent, _ = serve(simulation, mac.serve(simulation.cell), [start_s], start_s + 60.0)
        assert np.diff([round(time_s / 1.05) for _, time_s in sent]).tolist() == [2, 2, 2]


def test_other_channels_are_not_silenced(make_cell, delay):
    """User 0 on channel 0 arrives until 5.5; users 1 and 2 use channel 1 in slots 1 and 2."""
    delay(4.5, 0.0, 0.0)
    simulation, order = make_cell(3), np.array([0, 1, 2])
    slotted = SlottedCell(simulation.cell, 1.0, 3, lambda users: np.minimum(users, 1))
    _, delivered = serve(simulation, slotted.serve(lambda users, first: np.maximum(first, order[users])))
    assert delivered == [(1, 2.0), (2, 3.0), (0, 5.5)]


def test_result_comes_before_the_next_choice(make_cell, delay):
    """Users 0 and 1 fail at 1.2 and 2.7; each has its result before it chooses again."""
    delay(0.2, 1.7)
    simulation, calls = make_cell(2, snr_db=lambda users, time_s: np.full(len(users), -9.0)), []

    def choose(users, first):
        calls.extend(("choose", int(user), round(simulation.env.now, 6)) for user in users)
        return first

    def end_slot(users, received):
        assert not received.any()
        calls.extend(("end", int(user), round(simulation.env.now, 6)) for user in users)

    serve(simulation, SlottedCell(simulation.cell, 1.0, 2, end_slot=end_slot).serve(choose), until_s=3.0)
    assert calls == [
        ("choose", 0, 0.0),
        ("choose", 1, 0.0),
        ("end", 0, 1.2),
        ("choose", 0, 1.2),
        ("end", 1, 2.7),
        ("choose", 1, 2.7),
    ]


class Feedback(KnownBacklog):
    """Lets all users send in every slot, and notes the times at which the rule learns of collisions."""

    def __init__(self, env):
        super().__init__(1)
        self.env, self.feedback = env, []

    def probability(self, estimate, backlog):
        return 1.0

    def after_attempts(self, estimate, collided):
        self.feedback.append((round(self.env.now, 6), collided))
        return estimate


def test_feedback_of_a_slot_comes_when_its_frames_have_ended(make_cell, delay):
    """Users 0 and 1 begin at 0 and end at 1.3 and 2.3; user 2 begins at 1 and ends at 2: all collide."""
    delay(0.3, 1.3, 0.0)
    simulation = make_cell(3, compute_s=[0.0, 0.0, 0.5])
    rule = Feedback(simulation.env)
    serve(simulation, serve_adaptive(SlottedCell(simulation.cell, 1.0, 1), rule), until_s=10.0)
    assert rule.feedback == [(2.0, 1), (2.3, 1)]


@pytest.mark.slow
def test_pseudo_bayesian_aloha_is_stable_under_delay(make_cell, delay):
    """60 users at once with a delay of half a slot: all are received, in less than 1.7 e slots each."""
    delay(*np.full(60, 0.5))
    simulation = make_cell(60)
    simulation.env.process(SlottedAloha(adaptive="pseudo_bayesian", slot=1.5).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    while len(simulation.sent_on) < 60:
        simulation.env.step()
    assert simulation.env.now < 1.5 * (1.7 * np.e * 60 + 30)
    assert PseudoBayesian(1).probability(2.0, 5) == 0.5


@pytest.mark.parametrize("mac", [SlottedAloha(probability=1.0), SlottedAloha(adaptive="known"), PERSISTENT(p=1.0)])
def test_user_has_one_frame_on_the_air(mac, make_cell, delay):
    """A new version replaces the update on the air at 1.2; its update waits until that frame has ended at 3.5."""
    delay(2.5)
    simulation = make_cell(1)
    sent, delivered = serve(simulation, mac.serve(simulation.cell), [0.0, 1.2])
    assert sent == [(0, 0.0), (0, 4.0)]
    assert delivered == [(0, 3.5), (0, 7.5)]


def test_idle_stretch_is_one_event(make_cell, delay):
    """Two bursts a million slots apart, with late frames."""
    delay(0.5, 0.5)
    simulation, events = make_cell(2), 0
    simulation.env.process(SlottedAloha(probability=0.5).serve(simulation.cell))
    for version, at_s in enumerate((0.0, 1e6)):
        simulation.tower.schedule_broadcast(version, at_s)
    while len(simulation.sent_on) < 4:
        simulation.env.step()
        events += 1
    assert events < 300


@pytest.mark.slow
def test_tdma_under_water_serves_all_users(tmp_path):
    """Four users in turn, 0.1 s each and 0.01 s of delay: 200 slots in 20 s.

    Users are ready at 0, too late for slot 0, and the last slot ends with the run.
    """
    run = netfl.trace(netfl.load(UNDERWATER), tmp_path / "run", progress=False)
    assert np.bincount(run.events.query("kind == 'delivered'")["user"], minlength=4).tolist() == [49, 50, 50, 49]
    assert run.summary["collision_probability"] == 0.0


@pytest.mark.slow
def test_frames_of_several_slots_collide_as_in_a_simulation_of_slots(tmp_path):
    """Ten users send with probability 0.1 in each slot in which they are silent; sizes are exponential, of mean 1."""
    run = netfl.trace(netfl.load(EXPONENTIAL), tmp_path / "run", progress=False)
    rng, free = np.random.default_rng(0), np.zeros(10)
    starts, ends = [], []
    for slot in range(30_000):
        for user in np.flatnonzero((free <= slot) & (rng.random(10) < 0.1)):
            starts.append(slot)
            ends.append(slot + rng.exponential())
            free[user] = np.ceil(ends[-1])
    starts, ends = np.array(starts), np.array(ends)
    before = np.r_[-1.0, np.maximum.accumulate(ends)[:-1]] > starts
    after = np.r_[starts[1:], np.inf] < ends
    assert run.summary["collision_probability"] == pytest.approx((before | after).mean(), abs=0.015)
    assert run.summary["attempts"] == pytest.approx(len(starts) / 3, rel=0.03)


class TestWarnings:
    def late_frames(self, scenario):
        loaded = netfl.load(scenario)
        return [text for text in warnings(loaded) if "late frames" in text]

    def test_slot_without_room_for_the_delay(self):
        access = UNDERWATER["access"] | {"mac": {"kind": "slotted_aloha", "probability": 0.1}}
        (warning,) = self.late_frames(UNDERWATER | {"access": access})
        assert "a frame of 0.1 s and 0.01 s of propagation delay does not end in its slot of 0.1 s" in warning
        assert warning.endswith("set access.mac.slot: 0.11 s")
        access = UNDERWATER["access"] | {"mac": {"kind": "slotted_aloha", "probability": 0.1, "slot": "0.11 s"}}
        assert self.late_frames(UNDERWATER | {"access": access}) == []

    def test_sizes_without_upper_limit(self):
        """exp(-1) of the frames last longer than the mean; a slot of ln(100) means holds 99 %."""
        (warning,) = self.late_frames(EXPONENTIAL)
        assert "36.8 % of the frames do not end in their slot of 0.001 s" in warning
        assert "a slot of 0.00461 s (access.mac.slot) holds all but 1 %" in warning

    @pytest.mark.parametrize("mac", ["round_robin", "tdma"])
    def test_tower_that_owns_the_air_has_no_late_frames(self, mac):
        for scenario in (UNDERWATER, EXPONENTIAL):
            assert self.late_frames(scenario | {"access": scenario["access"] | {"mac": mac}}) == []

    def test_carrier_sense_over_long_delays(self):
        mac = {"kind": "csma_ca", "rate": "6 Mbps"}
        reception = {"kind": "snr_threshold", "threshold": "-40 dB", "rate": "6 Mbps"}
        access, setting, _ = make(
            2,
            1,
            mac=mac,
            reception=reception,
            radio=UNDERWATER["access"]["radio"],
            channel=UNDERWATER["access"]["channel"],
            topology={"kind": "star", "distance": "15 m"},
        )
        assert any(
            "signals travel for up to 0.01 s, longer than a slot of 9e-06 s" in w for w in access.warnings(setting)
        )


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["97 kbps", "31 kbps", "7 kbps", "3 kbps"])
@pytest.mark.parametrize("mac", ["tdma", "round_robin", {"kind": "slotted_aloha", "probability": 1.0}])
def test_busy_time_is_at_most_the_time_that_has_passed(mac, rate, tmp_path):
    """A saturated cell is busy all the time: its utilisation is 1, up to rounding, and never more."""
    reception = {"kind": "snr_threshold", "threshold": "-40 dB", "rate": rate}
    access = EXPONENTIAL["access"] | {"mac": mac, "reception": reception}
    access["traffic"] = access["traffic"] | {"size": {"mean": "1000 bit"}}
    scenario = netfl.load(EXPONENTIAL | {"access": access, "duration": "20 s", "warmup": "1 s"})
    run = netfl.trace(scenario, tmp_path / "run", progress=False)
    assert 1.0 - 1e-12 < run.summary["utilisation.tower:0"] <= 1.0
