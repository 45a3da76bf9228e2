"""Packet counters and the event log, compared with values worked out by hand."""

import numpy as np
import pytest

import netfl
from netfl.network.counters import PacketArray, PacketCounter, share_of_time
from netfl.network.event_log import Ending, EventLog
from netfl.network.message import Packet


def test_metrics_of_few_packets():
    """From 10 to 30 s four packets arrive, three are delivered, one is dropped and one fades."""
    counter = PacketCounter(5)
    counter.restart(10.0)
    for sender, bits in ((0, 100.0), (1, 300.0), (1, 300.0), (3, 50.0)):
        counter.offer(sender, bits, 10.0)
    counter.deliver(0, 100.0, 11.0, 12.0)
    counter.deliver(1, 300.0, 12.0, 15.0)
    counter.deliver(2, 80.0, 9.0, 14.0)
    counter.lose(1, "dropped")
    counter.lose(3, "faded")
    metrics = counter.metrics(30.0)
    assert metrics["offered_bps"] == pytest.approx(750 / 20)
    assert metrics["throughput_bps"] == pytest.approx(480 / 20)
    assert (metrics["delivered"], metrics["lost.dropped"], metrics["lost.faded"], metrics["lost.collided"]) == (
        3,
        1,
        1,
        0,
    )
    assert metrics["loss_ratio"] == pytest.approx(2 / 5)
    assert metrics["delay_mean_s"] == pytest.approx(2.0), "earlier packets do not count"
    assert metrics["delay_p50_s"] == pytest.approx(2.0)
    assert metrics["jain"] == pytest.approx(480**2 / (4 * (100**2 + 300**2 + 80**2))), (
        "one of the four senders delivers nothing"
    )


def test_starved_user_counts_for_fairness_after_warmup():
    """Both users had packets before the warm-up; only user 0 delivers afterwards, so the index is 1/2."""
    counter = PacketCounter(3)
    for sender in (0, 1):
        counter.offer(sender, 8.0, 0.0)
    counter.restart(5.0)
    counter.offer(0, 8.0, 5.0)
    counter.deliver(0, 8.0, 6.0, 7.0)
    assert counter.metrics(10.0)["jain"] == pytest.approx(0.5)


def test_backlog_counts_packets_of_any_time():
    """Seven packets arrive, two of them after the warm-up; one was lost before it, and three end after it."""
    counter = PacketCounter(2)
    for born_s in (0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0):
        counter.offer(0, 8.0, born_s)
    counter.restart(5.0)
    counter.lose(0, "dropped", ended_s=4.5)  # noted later than it happened
    counter.deliver(0, 8.0, 1.0, 6.0)
    counter.deliver_all(PacketArray(*(np.array([value]) for value in (8.0, 8.0, 6.0, 0, 0))))
    counter.lose(0, "faded")
    assert counter.metrics(10.0)["backlog"] == 3
    assert counter.metrics(10.0)["lost.dropped"] == 0


def test_losses_by_cause_sum_to_all_losses():
    counter = PacketCounter(1)
    for outcome in ("collided", "faded", "lost", "dropped", "given_up", "superseded"):
        counter.lose(0, outcome)
    metrics = counter.metrics(1.0)
    assert {name for name in metrics if name.startswith("lost.")} == {f"lost.{outcome}" for outcome in counter.lost}
    assert metrics["loss_ratio"] == 1.0


def test_metrics_without_packets():
    assert PacketCounter(0).metrics(3.0) == {}
    metrics = PacketCounter(2).metrics(3.0)
    assert (metrics["throughput_bps"], metrics["loss_ratio"]) == (0, 0)
    assert np.isnan(metrics["delay_mean_s"])
    assert np.isnan(metrics["jain"])


def test_rates_of_no_time_are_unknown():
    metrics = PacketCounter(2).metrics(0.0)
    assert np.isnan([metrics["offered_bps"], metrics["throughput_bps"], share_of_time(0.0, 0.0)]).all()


def test_deliver_all_equals_single_deliveries():
    rng = np.random.default_rng(1)
    senders, bits, born_s = rng.integers(0, 4, 50), rng.random(50), np.sort(rng.random(50))
    times_s = born_s + rng.random(50)
    singly, together = PacketCounter(5), PacketCounter(5)
    for counter in (singly, together):
        counter.restart(0.3)
    for row in zip(senders.tolist(), bits, born_s, times_s, strict=True):
        singly.deliver(*row)
    together.deliver_all(PacketArray(times_s, bits, born_s, senders, np.zeros_like(senders)))
    assert singly.metrics(2.0) == pytest.approx(together.metrics(2.0))


def test_loss_counts_by_time_of_event():
    recorder = type("SilentRecorder", (), {"wants": lambda self, kind: False})()
    event_log = EventLog(recorder, 100, nodes=2)
    event_log.packets.restart(10.0)
    Packet(0, 1.0, born_s=9.0).end(event_log, Ending("dropped"), 9.0)
    Packet(0, 1.0, born_s=9.0).end(event_log, Ending("lost"), 11.0)
    assert event_log.packets.lost == {"lost": 1}


def test_warmup_of_an_instant_is_one(tmp_path):
    """It is shorter than the rounding of the clock, by which the end of a warm-up is brought forward."""
    changes = {"duration": "1 s", "warmup": "1e-300 s", "access.theory": None}
    run = netfl.trace(netfl.load("validation/multichannel_aloha", changes), tmp_path / "run", progress=False)
    assert run.status == "done"
    assert run.final_metrics["value"].notna().any()
