"""A schedule: frames of several slots, and slots that begin at the tower."""

import numpy as np
import pytest

import netfl
from netfl.network.clock import call_at
from netfl.network.mac.tdma import Tdma

SELF_COLLIDING = {
    "name": "exponential_sizes",
    "seed": 3,
    "users": 3,
    "duration": "50 s",
    "record": ["delivered"],
    "access": {
        "kind": "network",
        "topology": {"kind": "star", "distance": "10 m", "rate": "1 Mbps", "delay": "0 s"},
        "radio": {"power": "16 dBm", "bandwidth": "1 MHz", "noise_figure": "20 dB"},
        "channel": [{"kind": "constant", "gain": "-60 dB"}],
        "reception": {"kind": "snr_threshold", "threshold": "5 dB", "rate": "10 Mbps"},
        "mac": "tdma",
        "traffic": {"kind": "poisson", "rate": 200, "size": {"distribution": "exponential", "mean": "1 kB"}},
    },
}
"""Packets of exponential size: a slot of TDMA holds the mean, and the link to the server carries 125 a second."""


@pytest.fixture
def delay(scripted_links, monkeypatch):
    """Return a function that sets the propagation delay of each user."""

    def set_delay(delay_s):
        monkeypatch.setattr(scripted_links, "delay_s", lambda self, users, time_s, tower="": delay_s(time_s)[users])

    return set_delay


def serve(simulation, mac, until_s=60.0):
    """Serve one version, and return the starts of attempts and the ends of those that are delivered, with the users."""
    simulation.env.process(mac.serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run(until=until_s)
    sent = [(user, round(time_s, 9)) for time_s, user in simulation.recorder.events("sent")]
    return sent, [(message.user, round(at_s, 9)) for at_s, message in simulation.sent_on]


def trace(folder, record=("delivered",), **access):
    scenario = SELF_COLLIDING | {"record": record, "access": SELF_COLLIDING["access"] | access}
    return netfl.trace(netfl.load(scenario), folder, progress=False)


class TestFramesOfSeveralSlots:
    @pytest.mark.slow
    def test_schedule_carries_what_a_scheduler_carries(self, tmp_path):
        """1 Mbit/s for 50 s are 6,250 packets of 8,000 bits; queues grow, as 600 packets arrive each second."""
        run = trace(tmp_path / "tdma")
        other = trace(tmp_path / "round_robin", mac="round_robin")
        assert run.summary["collision_probability"] == 0.0
        assert run.summary["throughput_bps"] == pytest.approx(1e6, rel=0.005)
        assert run.summary["delivered"] == pytest.approx(other.summary["delivered"], rel=0.01)
        arrived = run.summary["offered_bps"] * 50.0 / 8000.0
        assert run.summary["loss_ratio"] == 0.0
        assert run.summary["delivered"] + run.summary["backlog"] == pytest.approx(arrived, rel=0.02)

    @pytest.mark.slow
    def test_deficit_round_robin_gives_its_shares(self, tmp_path):
        """Behind the tower, quanta of 1, 2 and 1 give shares of 1/4, 1/2 and 1/4 of the bits, whatever the MAC."""
        queue = {"kind": "drr", "quantum": "1 kB", "weights": {1: 2}}
        run = trace(tmp_path / "run", queue=queue)
        packets = np.bincount(run.events.query("kind == 'delivered'")["user"], minlength=3)
        assert (packets / packets.sum()).tolist() == pytest.approx([0.25, 0.5, 0.25], abs=0.015)

    @pytest.mark.slow
    @pytest.mark.parametrize("slot_in_means", [1.0, 2.0])
    def test_throughput_of_exponential_sizes(self, slot_in_means, tmp_path):
        """Saturated users send a frame in ⌈X / slot⌉ of their slots: 1 / (1 - e^-s) in the mean, for X of mean 1/s."""
        slot_s = 0.8e-3 * slot_in_means
        run = trace(
            tmp_path / "run",
            {"events": ["delivered"], "attempts": True},
            mac={"kind": "tdma", "slot": slot_s},
            traffic={
                "kind": "saturated",
                "destination": "tower",
                "size": {"distribution": "exponential", "mean": "1 kB"},
            },
        )
        attempts = run.attempts
        assert set(attempts["outcome"]) <= {"received", "unfinished"}
        assert attempts.groupby("user").size().tolist() == pytest.approx(
            [50.0 / (3 * slot_s) * (1 - np.exp(-slot_in_means))] * 3, rel=0.02
        )

        # each frame ends in the slot that its size needs
        received = attempts.query("outcome == 'received'")
        slots = np.ceil(received["airtime_s"] / slot_s - 1e-9)
        rest_s = received["airtime_s"] - (slots - 1) * slot_s
        assert received["airtime_s"].tolist() == pytest.approx((received["bits"] / 10e6).tolist())
        assert (received["end_s"] - received["start_s"]).tolist() == pytest.approx(
            ((slots - 1) * 3 * slot_s + rest_s).tolist(), abs=1e-9
        )
        assert run.summary["utilisation.tower:0"] == pytest.approx(received["airtime_s"].sum() / 50.0, rel=1e-3)

    def test_parts_are_sent_in_the_slots_of_the_user(self, make_cell):
        """Frames of 1 s in slots of 0.4 s: user 0 sends in slots 0, 2, 4, and user 1 in slots 1, 3, 5."""
        simulation = make_cell(2)
        sent, delivered = serve(simulation, Tdma(slot=0.4))
        assert sent == [(0, 0.0), (1, 0.4)]
        assert delivered == [(0, 1.8), (1, 2.2)]
        assert simulation.cell.transmit_path.attempts == 2
        assert simulation.cell.transmit_path.busy_by_s(60.0) == pytest.approx(2.0)

    def test_each_part_has_the_channel_of_its_time(self, make_cell):
        """User 0 fades from 0.7 to 1 s, between its first part and its second, and user 1 in its second part."""
        simulation = make_cell(2, snr_db=lambda users, time_s: [-9.0 if 1.1 < time_s < 1.5 else 0.0])
        _, delivered = serve(simulation, Tdma(slot=0.4, max_attempts=1))
        assert delivered == [(0, 1.8)]
        assert simulation.recorder.outcomes() == {(1, 0): ["faded"]}

    def test_another_schedule_begins_after_the_frames_on_the_air(self, make_cell):
        """User 2 leaves at 0.6 s: user 0 keeps its slots 0, 3 and 6, and user 1 then has slots 7, 9 and 11."""
        simulation = make_cell(3, compute_s=[0.0, 0.5, 0.0])
        call_at(simulation.env, 0.6, lambda _: simulation.tower.take_row(np.array([2])))
        sent, delivered = serve(simulation, Tdma(slot=0.4))
        assert sent == [(0, 0.0), (1, 2.8)]
        assert delivered == [(0, 2.6), (1, 4.6)]

    def test_lone_user_has_all_slots(self, make_cell):
        simulation = make_cell(1)
        assert serve(simulation, Tdma(slot=0.4)) == ([(0, 0.0)], [(0, 1.0)])


class TestSlotsAtTheTower:
    def test_far_users_begin_earlier(self, make_cell, delay):
        """User 0 misses slot 0, as its signal takes 0.4 s, and has slot 3; the others are near."""
        delay(lambda time_s: np.array([0.4, 0.0, 0.0]))
        simulation = make_cell(3)
        sent, delivered = serve(simulation, Tdma())
        assert sent == [(1, 1.0), (2, 2.0), (0, 2.6)]
        assert delivered == [(1, 2.0), (2, 3.0), (0, 4.0)]

    def test_users_that_move_arrive_in_their_slots(self, make_cell, delay):
        """All delays grow from 0.4 s by 1 % of the time; users that are ready at 0 or later arrive at full seconds."""
        delay(lambda time_s: np.array([0.4, 0.1, 0.2]) + 0.01 * time_s)
        simulation = make_cell(3)
        _, delivered = serve(simulation, Tdma(max_attempts=1))
        assert delivered == [(1, 2.0), (2, 3.0), (0, 4.0)]
