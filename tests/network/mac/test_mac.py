"""MACs compared with their closed forms and exact schedules.

Slots of a saturated cell are independent, so successes are binomial; checks allow 4.5 standard errors, a false alarm
with probability 7e-6.
"""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.guide_macs import contract_example
from testing.test_laws import from_example

from netfl.core.kinds import list_kinds
from netfl.network import mac as family
from netfl.network.interference.sinr import Sinr
from netfl.network.mac._slotted import SlottedCell
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.mac.tdma import Tdma
from netfl.network.radio.bench import BenchSetup, slot_successes, waiting_times
from netfl.network.radio.cell import Cell
from netfl.streams import Streams
from netfl.testing.laws import check_laws


def run_updates(simulation, mac, versions, until_s):
    """Run *mac* with version i at versions[i], and return (user, sent_s, delivered_s) of the delivered updates."""
    simulation.env.process(mac.serve(simulation.cell))
    for version, at_s in enumerate(versions):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=until_s)
    return [(message.user, message.sent_s, at_s) for at_s, message in simulation.sent_on]


@pytest.mark.parametrize(("users", "probability"), [(1, 0.3), (2, 0.5), (5, 0.2), (10, 0.3), (30, 0.02), (50, 0.05)])
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.quick_first
def test_aloha_throughput(users, probability, limit):
    """n p (1-p)^(n-1), with or without a limit of attempts: all users always have updates."""
    slots = 4000
    mac = SlottedAloha(probability=probability, max_attempts=limit)
    successes = slot_successes(BenchSetup(mac, users, 0.125, Streams(users)), slots)
    share = users * probability * (1 - probability) ** (users - 1)
    assert len(successes) == slots
    assert abs(successes.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / slots)
    consecutive = (successes[1:] * successes[:-1]).mean()
    assert abs(consecutive - share**2) < 4.5 * np.sqrt(share**2 * (1 + 2 * share) / slots), "slots are independent"


@pytest.mark.slow
def test_aloha_delay_of_single_user(make_cell):
    """The number of slots until a user sends is geometric with mean 1/p."""
    count, probability = 2000, 0.25
    simulation = make_cell(1)
    simulation.env.process(SlottedAloha(probability=probability).serve(simulation.cell))
    gaps = []
    for version in range(count):
        at_s = np.ceil(simulation.env.now) + 1.0
        simulation.tower.schedule_broadcast(version, at_s)
        while len(simulation.sent_on) == version:
            simulation.env.step()
        gaps.append(simulation.sent_on[-1][0] - at_s)
    assert abs(np.mean(gaps) - 4.0) < 4.5 * np.sqrt(0.75) / 0.25 / np.sqrt(count)
    assert abs(np.mean(np.array(gaps) == 1.0) - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / count)


@pytest.mark.slow
def test_aloha_slots_are_independent_of_superseding_versions(make_cell):
    """A new version arrives before every slot; slots are independent and used with probability p."""
    slots, probability = 3000, 0.4
    simulation = make_cell(1)
    simulation.env.process(SlottedAloha(probability=probability).serve(simulation.cell))
    for version in range(slots):
        simulation.tower.schedule_broadcast(version, version + 0.5)
    simulation.env.run(until=slots + 1.5)
    used = np.zeros(slots + 1)
    used[[round(time_s) - 1 for time_s, _ in simulation.recorder.events("sent")]] = 1
    used = used[:slots]
    assert abs(used.mean() - probability) < 4.5 * np.sqrt(probability * (1 - probability) / slots)
    assert abs(np.corrcoef(used[1:], used[:-1])[0, 1]) < 4.5 / np.sqrt(slots)


def test_aloha_starts_at_slot_boundaries(make_cell):
    """Slots take 1.5 s: the update that is ready at 3.2 is sent from 4.5, the one ready at 6 at once."""
    simulation = make_cell(1, compute_s=0.2)
    assert run_updates(simulation, SlottedAloha(probability=1, slot=1.5), [3.0, 5.8], 20.0) == [
        (0, 4.5, 5.5),
        (0, 6.0, 7.0),
    ]


def test_aloha_collisions_end_with_given_up_updates(make_cell):
    simulation = make_cell(2)
    assert run_updates(simulation, SlottedAloha(probability=1, max_attempts=3), [0.6], 50.0) == []
    assert simulation.recorder.events("sent") == [(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1), (3.0, 0), (3.0, 1)]
    assert simulation.recorder.outcomes() == {(0, 0): ["given_up collided"], (1, 0): ["given_up collided"]}


def test_aloha_sleeps_during_outage(assert_mac_sleeps):
    assert_mac_sleeps(SlottedAloha(probability=0.1))


def test_tdma_gives_each_user_one_slot(make_cell):
    """Frames of three slots; ready at 4.25, users 0 to 2 send in slots 6, 7 and 5."""
    simulation = make_cell(3)
    assert run_updates(simulation, Tdma(), [4.25], 30.0) == [(2, 5.0, 6.0), (0, 6.0, 7.0), (1, 7.0, 8.0)]


def test_tdma_repeats_one_frame_later(make_cell):
    """User 1 fades until 9 s: its slots of 2 s begin at 2, 6, 10, …"""
    simulation = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s < 9 else 0.0])
    delivered = run_updates(simulation, Tdma(slot=2.0), [8.5], 30.0)
    assert delivered == [(1, 10.0, 11.0), (0, 12.0, 13.0)]
    simulation = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s < 9 else 0.0])
    assert run_updates(simulation, Tdma(slot=2.0, max_attempts=2), [0.0], 30.0) == []
    assert simulation.recorder.events("sent") == [(0.0, 0), (2.0, 1), (4.0, 0), (6.0, 1)]
    assert simulation.recorder.outcomes() == {(0, 0): ["given_up faded"], (1, 0): ["given_up faded"]}


@pytest.mark.quick_first
@pytest.mark.parametrize("users", [1, 4, 9])
def test_tdma_wait_is_uniform_over_frame(users):
    size, airtime_s = 2000, 0.5
    wait_s = waiting_times(BenchSetup(Tdma(), users, airtime_s, Streams(3)), size)
    frame_s = users * airtime_s
    assert len(wait_s) >= size
    assert abs(wait_s.mean() - frame_s / 2) < 4.5 * frame_s / np.sqrt(12 * len(wait_s))
    assert wait_s.max() <= frame_s
    shares = np.histogram(wait_s, bins=4, range=(0, frame_s))[0] / len(wait_s)
    assert np.abs(shares - 0.25).max() < 4.5 * np.sqrt(0.25 * 0.75 / len(wait_s))


@pytest.mark.parametrize("mac", [SlottedAloha(probability=0.1, slot=2.0), Tdma(slot=2.0)])
def test_slot_shorter_than_update_is_rejected(mac):
    assert list(mac.airtime_faults(2.0)) == []
    [fault] = mac.airtime_faults(2.5)
    assert (fault.key, fault.value) == ("slot", 2.0)


def next_slot(after, now_s, slot_s):
    return Cell.next_slot(SimpleNamespace(env=SimpleNamespace(now=now_s)), slot_s, after)


@pytest.mark.parametrize("slot_s", [9e-6, 1e-3, 1.0])
@pytest.mark.parametrize("start_s", [0.0, 1e7, 1e8])
def test_next_slot_follows_full_slot_at_any_time(start_s, slot_s):
    """At late times an airtime may end a few steps of the clock after the slot."""
    first = int(start_s / slot_s)
    for slot in range(first, first + 1000):
        begin_s = slot * slot_s
        assert next_slot(slot, begin_s + ((begin_s + slot_s) - begin_s), slot_s) == slot + 1


def test_next_slot_follows_short_attempt():
    assert next_slot(7, 7.0 + 1e-7, 1.0) == 8


@pytest.mark.parametrize("slot_s", [9e-6, 1e-3, 1.0])
@pytest.mark.parametrize("start_s", [0.0, 1e7, 1e8])
def test_ready_slots_tolerate_clock_rounding(start_s, slot_s):
    slots = int(start_s / slot_s) + np.arange(1, 1001)
    begin_s = slots * slot_s
    users = np.arange(len(slots))
    for steps in (-1, 0, 1, 2):
        cell = SimpleNamespace(ready_s=begin_s + steps * np.spacing(begin_s))
        assert (Cell.ready_slots(cell, users, slot_s) == slots).all()
    assert (Cell.ready_slots(SimpleNamespace(ready_s=begin_s + slot_s / 2), users, slot_s) == slots + 1).all()


def test_slots_on_separate_channels_do_not_collide(make_cell):
    """Users 1 and 2 share a channel and are given up after two slots; user 3 is alone on a third."""
    simulation, channels = make_cell(4, compute_s=[0.0, 0.0, 0.0, 10.0]), np.array([0, 1, 1, 2])
    slots = SlottedCell(simulation.cell, 1.0, 2, lambda users: channels[users]).serve(lambda users, first: first)
    assert run_slots(simulation, slots) == [(0, 0.0), (3, 10.0)]
    assert simulation.recorder.events("sent") == [(0.0, 0), (0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2), (10.0, 3)]


def test_slots_use_channel_0_by_default(make_cell, monkeypatch):
    simulation, channels = make_cell(2), []
    attempt = simulation.cell.attempt
    monkeypatch.setattr(
        simulation.cell,
        "attempt",
        lambda users, **options: channels.append(options["channel"]) or attempt(users, **options),
    )
    slots = SlottedCell(simulation.cell, 1.0).serve(lambda users, first: first + (users - first) % 2)
    assert run_slots(simulation, slots) == [(0, 0.0), (1, 1.0)]
    assert channels == [0, 0]


def run_slots(simulation, slots):
    """Return (user, sent_s) of the deliveries of one version; the simulation then has no events left."""
    simulation.env.process(slots)
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run()
    assert simulation.env.now < 50
    return [(message.user, message.sent_s) for _, message in simulation.sent_on]


@pytest.mark.parametrize("slot_s", [1.1, 1.0 + 2**-40])
@pytest.mark.parametrize(
    "mac", [Tdma, partial(SlottedAloha, probability=0.3), partial(SlottedAloha, adaptive="backoff")]
)
def test_slots_start_at_exact_multiples_after_long_time(make_cell, mac, slot_s):
    """Slots are counted and not summed: after 10^7 s each starts at k times the length, to the last bit."""
    simulation, start_s = make_cell(3), 1e7
    run_updates(simulation, mac(slot=slot_s), [0.3, *(start_s + 50.0 * np.arange(20))], start_s + 1000.0)
    sent_s = np.array([time_s for time_s, _ in simulation.recorder.events("sent") if time_s >= start_s])
    slots = np.rint(sent_s / slot_s)
    assert len(sent_s) >= 40
    assert (sent_s == slots * slot_s).all()


def guide_example():
    """Return the slotted MAC of docs/howto/mac.md."""
    guide = (Path(__file__).parents[3] / "docs/howto/mac.md").read_text(encoding="utf-8")
    names = {}
    exec(compile(guide.partition("# my_slots.py\n")[2].partition("```")[0], "guide", "exec"), names)
    return names["Persistent"]


def test_contract_example_works(make_cell):
    """Polling costs 1 s before each airtime of 1 s; user 1 is down until 9 s, and does not answer its first poll."""
    simulation, polling = make_cell(3, plan={1: [(0.5, 9.0)]}), contract_example()
    assert run_updates(simulation, polling(poll="1 s"), [0.0], 30.0) == [(2, 2.0, 3.0), (0, 4.0, 5.0), (1, 10.0, 11.0)]


@pytest.mark.parametrize("slot_s", [1.1, 1.0 + 2**-40])
def test_guide_example_keeps_slots_after_long_time(make_cell, slot_s):
    simulation, persistent = make_cell(3), guide_example()
    run_updates(simulation, persistent(p=0.4, slot=slot_s), [0.3, *(1e7 + 50.0 * np.arange(20))], 1e7 + 1000.0)
    sent_s = np.array([time_s for time_s, _ in simulation.recorder.events("sent")])
    assert np.count_nonzero(sent_s >= 1e7) >= 40
    assert (sent_s == np.rint(sent_s / slot_s) * slot_s).all()


def test_guide_example_follows_its_distribution():
    model = guide_example()
    assert check_laws(model(p=0.05), Streams(3), 4000) == []
    assert [fault.key for fault in model(p=1.0, slot=1.0).airtime_faults(2.0)] == ["slot"]


@pytest.mark.parametrize("kind", list_kinds(family.Mac))
def test_schedule_is_independent_of_start_time(make_cell, kind):
    """Updates from 10^7 s on have the schedule of those from 300 s on, up to rounding."""
    schedules = []
    options = {}
    if kind in {"noma", "simultaneous"}:  # equal frames are received at once
        options = {"interference": Sinr(), "snr_db": lambda users, time_s: np.full(len(users), 10.0)}
    for start_s in (300.0, 1e7 - 1e7 % 300):
        simulation = make_cell(3, compute_s=[0.0, 0.25, 0.25], **options)
        delivered = run_updates(
            simulation, from_example("network/mac", kind), [0.3, *(start_s + 50.0 * np.arange(6))], start_s + 400
        )
        sent = [(user, time_s - start_s) for time_s, user in simulation.recorder.events("sent") if time_s >= start_s]
        schedules.append((sent, [(user, at_s - start_s) for user, _, at_s in delivered if at_s >= start_s]))
    for early, late in zip(*schedules, strict=True):
        assert len(early) >= 6
        assert [user for user, _ in late] == [user for user, _ in early]
        assert [at_s for _, at_s in late] == pytest.approx([at_s for _, at_s in early], abs=1e-7)
