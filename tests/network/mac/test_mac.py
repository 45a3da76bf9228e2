"""MACs against their closed forms and their exact schedules.

Statistics: slots of a saturated cell are independent, so a count of successes is binomial; each figure is held to
4.5 standard errors, a false alarm with probability 7e-6.
"""

import inspect
import textwrap
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import numpy as np
import pytest
from pydantic import Field
from testing.test_laws import from_example

from netfl.network import mac as family
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.mac.tdma import Tdma
from netfl.network.radio.bench import BenchSetup, slot_successes, waiting_times
from netfl.network.radio.cell import Cell, SlottedCell
from netfl.registry import list_kinds
from netfl.streams import Streams
from netfl.testing.laws import check_laws
from netfl.types import Law
from netfl.units import Seconds


def play(world, mac, versions, until_s):
    """Serve *world*'s cell with *mac*; version i comes at versions[i]."""
    world.env.process(mac.serve(world.cell))
    for version, at_s in enumerate(versions):
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=until_s)
    return [(message.user, message.sent_s, at_s) for at_s, message in world.sent_on]


@pytest.mark.parametrize(("users", "probability"), [(1, 0.3), (2, 0.5), (5, 0.2), (10, 0.3), (30, 0.02), (50, 0.05)])
@pytest.mark.parametrize("limit", [None, 2])
@pytest.mark.quick_first
def test_aloha_throughput(users, probability, limit):
    """n p (1-p)^(n-1), whether or not updates are given up: somebody always has something to send."""
    slots = 4000
    mac = SlottedAloha(probability=probability, max_attempts=limit)
    heard = slot_successes(BenchSetup(mac, users, 0.125, Streams(users)), slots)
    share = users * probability * (1 - probability) ** (users - 1)
    assert len(heard) == slots
    assert abs(heard.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / slots)
    again = (heard[1:] * heard[:-1]).mean()
    assert abs(again - share**2) < 4.5 * np.sqrt(share**2 * (1 + 2 * share) / slots), "slots are independent"


@pytest.mark.slow
def test_aloha_delay_of_a_lone_user(make_cell):
    """The number of slots until it sends is geometric: mean 1/p, and 1 with probability p."""
    count, probability = 2000, 0.25
    world = make_cell(1)
    world.env.process(SlottedAloha(probability=probability).serve(world.cell))
    gaps = []
    for version in range(count):
        at_s = np.ceil(world.env.now) + 1.0
        world.tower.schedule_broadcast(version, at_s)
        while len(world.sent_on) == version:
            world.env.step()
        gaps.append(world.sent_on[-1][0] - at_s)
    assert abs(np.mean(gaps) - 4.0) < 4.5 * np.sqrt(0.75) / 0.25 / np.sqrt(count)
    assert abs(np.mean(np.array(gaps) == 1.0) - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / count)


@pytest.mark.slow
def test_aloha_sends_in_each_slot_with_its_probability_whatever_supersedes(make_cell):
    """A new version comes before every slot: slots are independent all the same, and each is used with p."""
    slots, probability = 3000, 0.4
    world = make_cell(1)
    world.env.process(SlottedAloha(probability=probability).serve(world.cell))
    for version in range(slots):
        world.tower.schedule_broadcast(version, version + 0.5)
    world.env.run(until=slots + 1.5)
    used = np.zeros(slots + 1)
    used[[round(time_s) - 1 for time_s, _ in world.memory.of("sent")]] = 1
    used = used[:slots]
    assert abs(used.mean() - probability) < 4.5 * np.sqrt(probability * (1 - probability) / slots)
    assert abs(np.corrcoef(used[1:], used[:-1])[0, 1]) < 4.5 / np.sqrt(slots)


def test_aloha_starts_at_slot_boundaries(make_cell):
    """Slots of 1.5 s: the update that is ready at 3.2 is sent from 4.5, the one ready at 6 at once."""
    world = make_cell(1, compute_s=0.2)
    assert play(world, SlottedAloha(probability=1, slot=1.5), [3.0, 5.8], 20.0) == [(0, 4.5, 5.5), (0, 6.0, 7.0)]


def test_aloha_users_of_one_slot_collide_until_they_are_given_up(make_cell):
    world = make_cell(2)
    assert play(world, SlottedAloha(probability=1, max_attempts=3), [0.6], 50.0) == []
    assert world.memory.of("sent") == [(1.0, 0), (1.0, 1), (2.0, 0), (2.0, 1), (3.0, 0), (3.0, 1)]
    assert world.memory.outcomes() == {(0, 0): ["given_up collided"], (1, 0): ["given_up collided"]}


def test_aloha_sleeps_through_an_outage(sleeps):
    sleeps(SlottedAloha(probability=0.1))


def test_tdma_gives_each_user_its_own_slot(make_cell):
    """Frames of three slots; ready at 4.25, users 0 to 2 send in slots 6, 7 and 5."""
    world = make_cell(3)
    assert play(world, Tdma(), [4.25], 30.0) == [(2, 5.0, 6.0), (0, 6.0, 7.0), (1, 7.0, 8.0)]


def test_tdma_tries_again_a_frame_later(make_cell):
    """User 1 fades until 9 s: its slots of 2 s begin at 2, 6, 10, …"""
    world = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s < 9 else 0.0])
    heard = play(world, Tdma(slot=2.0), [8.5], 30.0)
    assert heard == [(1, 10.0, 11.0), (0, 12.0, 13.0)]
    world = make_cell(2, snr_db=lambda users, time_s: [-9.0 if time_s < 9 else 0.0])
    assert play(world, Tdma(slot=2.0, max_attempts=2), [0.0], 30.0) == []
    assert world.memory.of("sent") == [(0.0, 0), (2.0, 1), (4.0, 0), (6.0, 1)]
    assert world.memory.outcomes() == {(0, 0): ["given_up faded"], (1, 0): ["given_up faded"]}


@pytest.mark.quick_first
@pytest.mark.parametrize("users", [1, 4, 9])
def test_tdma_wait_is_uniform_over_the_frame(users):
    size, airtime_s = 2000, 0.5
    wait_s = waiting_times(BenchSetup(Tdma(), users, airtime_s, Streams(3)), size)
    frame_s = users * airtime_s
    assert len(wait_s) >= size
    assert abs(wait_s.mean() - frame_s / 2) < 4.5 * frame_s / np.sqrt(12 * len(wait_s))
    assert wait_s.max() <= frame_s
    shares = np.histogram(wait_s, bins=4, range=(0, frame_s))[0] / len(wait_s)
    assert np.abs(shares - 0.25).max() < 4.5 * np.sqrt(0.25 * 0.75 / len(wait_s))


@pytest.mark.parametrize("mac", [SlottedAloha(probability=0.1, slot=2.0), Tdma(slot=2.0)])
def test_a_slot_in_which_no_update_fits_is_a_fault(mac):
    assert list(mac.airtime_faults(2.0)) == []
    [fault] = mac.airtime_faults(2.5)
    assert (fault.key, fault.value) == ("slot", 2.0)


def next_slot(after, now_s, slot_s):
    return Cell.next_slot(SimpleNamespace(env=SimpleNamespace(now=now_s)), slot_s, after)


@pytest.mark.parametrize("slot_s", [9e-6, 1e-3, 1.0])
@pytest.mark.parametrize("start_s", [0.0, 1e7, 1e8])
def test_the_slot_after_a_full_one_is_the_next_however_late_it_is(start_s, slot_s):
    """The clock is coarse by then: an airtime may end a few of its steps after the slot."""
    first = int(start_s / slot_s)
    for slot in range(first, first + 1000):
        begin_s = slot * slot_s
        assert next_slot(slot, begin_s + ((begin_s + slot_s) - begin_s), slot_s) == slot + 1


def test_the_slot_after_one_is_another_however_short_the_attempt_was():
    assert next_slot(7, 7.0 + 1e-7, 1.0) == 8


@pytest.mark.parametrize("slot_s", [9e-6, 1e-3, 1.0])
@pytest.mark.parametrize("start_s", [0.0, 1e7, 1e8])
def test_slots_are_met_to_the_last_steps_of_the_clock(start_s, slot_s):
    slots = int(start_s / slot_s) + np.arange(1, 1001)
    begin_s = slots * slot_s
    users = np.arange(len(slots))
    for steps in (-1, 0, 1, 2):
        cell = SimpleNamespace(ready_s=begin_s + steps * np.spacing(begin_s))
        assert (Cell.ready_slots(cell, users, slot_s) == slots).all()
    assert (Cell.ready_slots(SimpleNamespace(ready_s=begin_s + slot_s / 2), users, slot_s) == slots + 1).all()


def test_slots_of_users_on_channels_of_their_own_do_not_collide(make_cell):
    """Users 1 and 2 are on one, and are given up after two slots; user 3 comes later, alone on a third."""
    world, channels = make_cell(4, compute_s=[0.0, 0.0, 0.0, 10.0]), np.array([0, 1, 1, 2])
    slots = SlottedCell(world.cell, 1.0, 2, lambda users: channels[users]).serve(lambda users, first: first)
    assert served(world, slots) == [(0, 0.0), (3, 10.0)]
    assert world.memory.of("sent") == [(0.0, 0), (0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2), (10.0, 3)]


def test_slots_are_on_the_channel_of_all_others_if_none_is_named(make_cell, monkeypatch):
    world, told = make_cell(2), []
    attempt = world.cell.attempt
    monkeypatch.setattr(
        world.cell, "attempt", lambda users, **how: told.append(how["channel"]) or attempt(users, **how)
    )
    assert served(world, Tdma().serve(world.cell)) == [(0, 0.0), (1, 1.0)]
    assert told == [0, 0]


def test_slots_that_an_attempt_takes_away_from_others_are_made_up_for(make_cell, make_air, monkeypatch):
    """Frames of three slots; user 0 is heard until 1.4, so that user 1 has to wait for slot 4."""
    monkeypatch.setattr(make_air, "delay_s", lambda self, users, time_s: np.full(len(users), 0.4))
    world = make_cell(3)
    assert served(world, Tdma().serve(world.cell)) == [(0, 0.0), (2, 2.0), (1, 4.0)]
    assert world.memory.of("sent") == [(0.0, 0), (2.0, 2), (4.0, 1)]


def served(world, slots):
    """(user, sent_s) of what gets through of one version; then nothing is left to be done, and time comes to an end."""
    world.env.process(slots)
    world.tower.schedule_broadcast(0, 0.0)
    world.env.run()
    assert world.env.now < 50
    return [(message.user, message.sent_s) for _, message in world.sent_on]


@pytest.mark.parametrize("slot_s", [1.1, 1.0 + 2**-40])
@pytest.mark.parametrize(
    "mac", [Tdma, partial(SlottedAloha, probability=0.3), partial(SlottedAloha, adaptive="backoff")]
)
def test_slots_begin_at_their_multiples_after_a_long_time(make_cell, mac, slot_s):
    """Slots are counted, never added up: after 10^7 s each begins at k times the length, to the last bit."""
    world, start_s = make_cell(3), 1e7
    play(world, mac(slot=slot_s), [0.3, *(start_s + 50.0 * np.arange(20))], start_s + 1000.0)
    sent_s = np.array([time_s for time_s, _ in world.memory.of("sent") if time_s >= start_s])
    slots = np.rint(sent_s / slot_s)
    assert len(sent_s) >= 40
    assert (sent_s == slots * slot_s).all()


def example_of_the_contract():
    """The MAC that stands in the contract's docstring."""
    _, _, text = inspect.getdoc(family).partition("in turn::\n")
    code = "\n".join(takewhile(lambda line: not line or line.startswith(" "), text.splitlines()))
    names = {"Mac": family.Mac, "Law": Law, "Seconds": Seconds, "Field": Field, "Annotated": Annotated, "np": np}
    exec(compile(textwrap.dedent(code), "contract", "exec"), names)
    return names["Polling"]


def example_of_the_guide():
    """The MAC in slots of docs/howto/mac.md."""
    guide = (Path(__file__).parents[3] / "docs/howto/mac.md").read_text(encoding="utf-8")
    names = {}
    exec(compile(guide.partition("# my_slots.py\n")[2].partition("```")[0], "guide", "exec"), names)
    return names["Persistent"]


def test_the_example_of_the_contract_works(make_cell):
    """Polling costs 1 s before each airtime of 1 s; user 1 is cut off until 9 s."""
    world, polling = make_cell(3, plan={1: [(0.5, 9.0)]}), example_of_the_contract()
    assert play(world, polling(poll="1 s"), [0.0], 30.0) == [(2, 3.0, 4.0), (0, 5.0, 6.0), (1, 10.0, 11.0)]


@pytest.mark.parametrize("slot_s", [1.1, 1.0 + 2**-40])
def test_the_example_of_the_guide_keeps_to_its_slots_after_a_long_time(make_cell, slot_s):
    world, persistent = make_cell(3), example_of_the_guide()
    play(world, persistent(p=0.4, slot=slot_s), [0.3, *(1e7 + 50.0 * np.arange(20))], 1e7 + 1000.0)
    sent_s = np.array([time_s for time_s, _ in world.memory.of("sent")])
    assert np.count_nonzero(sent_s >= 1e7) >= 40
    assert (sent_s == np.rint(sent_s / slot_s) * slot_s).all()


def test_the_example_of_the_guide_has_its_law():
    model = example_of_the_guide()
    assert check_laws(model(p=0.05), Streams(3), 4000) == []
    assert [fault.key for fault in model(p=1.0, slot=1.0).airtime_faults(2.0)] == ["slot"]


@pytest.mark.parametrize("kind", list_kinds(family.Mac))
def test_after_a_long_time_all_goes_on_as_at_the_start(make_cell, kind):
    """What is sent from 10^7 s on is what would be sent from 300 s on, but for the last bits of the clock."""
    told = []
    for start_s in (300.0, 1e7 - 1e7 % 300):
        world = make_cell(3, compute_s=[0.0, 0.25, 0.25])
        heard = play(world, from_example("network/mac", kind), [0.3, *(start_s + 50.0 * np.arange(6))], start_s + 400)
        sent = [(user, time_s - start_s) for time_s, user in world.memory.of("sent") if time_s >= start_s]
        told.append((sent, [(user, at_s - start_s) for user, _, at_s in heard if at_s >= start_s]))
    for early, late in zip(*told, strict=True):
        assert len(early) >= 6
        assert [user for user, _ in late] == [user for user, _ in early]
        assert [at_s for _, at_s in late] == pytest.approx([at_s for _, at_s in early], abs=1e-7)
