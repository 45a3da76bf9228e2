"""The meter and the account: figures worked out by hand."""

import numpy as np
import pytest

from netfl.network.backhaul.fast_path import PacketArray
from netfl.network.counters import PacketCounter
from netfl.network.event_log import EventLog
from netfl.network.message import TRAFFIC, Message
from netfl.types import OUTCOMES


def test_the_figures_of_a_few_packets():
    """From 10 to 30 s: four come, two of them and an older one arrive, one is dropped and one faded."""
    meter = PacketCounter(5)
    meter.restart(10.0)
    for sender, bits in ((0, 100.0), (1, 300.0), (1, 300.0), (3, 50.0)):
        meter.offer(sender, bits, 10.0)
    meter.deliver(0, 100.0, 11.0, 12.0)
    meter.deliver(1, 300.0, 12.0, 15.0)
    meter.deliver(2, 80.0, 9.0, 14.0)
    meter.lose(1, "dropped")
    meter.lose(3, "faded")
    told = meter.metrics(30.0)
    assert told["offered_bps"] == pytest.approx(750 / 20)
    assert told["throughput_bps"] == pytest.approx(480 / 20)
    assert (told["delivered"], told["lost.dropped"], told["lost.faded"], told["lost.collided"]) == (3, 1, 1, 0)
    assert told["loss_ratio"] == pytest.approx(2 / 5)
    assert told["delay_mean_s"] == pytest.approx(2.0), "what came before is not part of it"
    assert told["delay_p50_s"] == pytest.approx(2.0)
    assert told["jain"] == pytest.approx(480**2 / (4 * (100**2 + 300**2 + 80**2))), "four sent, one of them in vain"


def test_who_starves_counts_for_fairness_after_a_warm_up_too():
    """Both had packets before; since then only user 0 got through: the index is 1/2."""
    meter = PacketCounter(3)
    for sender in (0, 1):
        meter.offer(sender, 8.0, 0.0)
    meter.restart(5.0)
    meter.offer(0, 8.0, 5.0)
    meter.deliver(0, 8.0, 6.0, 7.0)
    assert meter.metrics(10.0)["jain"] == pytest.approx(0.5)


def test_the_losses_by_cause_are_all_losses():
    meter = PacketCounter(1)
    for outcome in OUTCOMES[3:-1]:
        meter.lose(0, outcome)
    told = meter.metrics(1.0)
    assert {name for name in told if name.startswith("lost.")} == {f"lost.{outcome}" for outcome in meter.lost}
    assert told["loss_ratio"] == 1.0


def test_nothing_at_all():
    assert PacketCounter(0).metrics(3.0) == {}
    told = PacketCounter(2).metrics(3.0)
    assert (told["throughput_bps"], told["loss_ratio"]) == (0, 0)
    assert np.isnan(told["delay_mean_s"])
    assert np.isnan(told["jain"])


def test_many_at_once_are_as_many_one_by_one():
    rng = np.random.default_rng(1)
    senders, bits, born_s = rng.integers(0, 4, 50), rng.random(50), np.sort(rng.random(50))
    times_s = born_s + rng.random(50)
    one, all_ = PacketCounter(5), PacketCounter(5)
    for meter in (one, all_):
        meter.restart(0.3)
    for row in zip(senders.tolist(), bits, born_s, times_s, strict=True):
        one.deliver(*row)
    all_.deliver_all(PacketArray(times_s, bits, born_s, senders))
    assert one.metrics(2.0) == pytest.approx(all_.metrics(2.0))


def test_a_loss_that_is_noticed_after_the_warm_up_is_none_of_the_time_after_it():
    recorder = type("Deaf", (), {"wants": lambda self, kind: False})()
    ledger = EventLog(recorder, 100, nodes=2)
    ledger.packets.restart(10.0)
    ledger.record_outcome(Message(0, TRAFFIC, 1.0, np.nan, 0, born_s=9.0), "dropped", 9.0)
    ledger.record_outcome(Message(0, TRAFFIC, 1.0, np.nan, 0, born_s=9.0), "lost", 11.0)
    assert ledger.packets.lost == {"lost": 1}
