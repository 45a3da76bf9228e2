"""Slotted ALOHA that adapts itself, and on several channels, against closed forms and exact chains.

Statistics: figures are held to 4.5 standard errors, by the spread over independent or nearly independent batches.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import poisson

from netfl.errors import ScenarioError
from netfl.network.mac._bases import channel_picker
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.mac.slotted_aloha import KnownBacklog, PseudoBayesian, SlottedAloha, serve_adaptive
from netfl.network.radio.bench import BenchSetup, poisson_cell, slot_successes
from netfl.network.radio.cell import SlottedCell
from netfl.streams import Streams


def delays(mac, load, slots, users=1500, seed=1):
    """Mean delays of Poisson packets in slots, in 40 batches."""
    cell, ledger = poisson_cell(BenchSetup(mac, users, 1.0, Streams(seed)), load)
    cell.env.run(until=slots)
    assert ledger.packets.delivered > 0.9 * load * slots
    told = np.array(ledger.packets.delays_s)
    return told[: len(told) // 40 * 40].reshape(40, -1).mean(axis=1)


def known_delay(load, most=400):
    """The mean delay in slots where p = 1/n, from the stationary law of the chain of n at the starts of slots.

    A packet that comes within a slot counts from the next on; it comes half a slot before that in the mean.
    """
    n = np.arange(most)
    good = np.array([0.0] + [(1 - 1 / k) ** (k - 1) for k in n[1:]])
    come = poisson.pmf(n, load)
    law = np.zeros(most)
    law[0] = 1.0
    for _ in range(4000):
        after = law * (1 - good)
        after[:-1] += (law * good)[1:]
        law = np.convolve(after, come)[:most]
    assert abs(law.sum() - 1) < 1e-6
    return float(law @ n) / load + 0.5


@pytest.mark.parametrize("load", [0.1, 0.3])
@pytest.mark.quick_first
def test_the_known_backlog_gives_the_delay_of_the_exact_chain(load):
    found = delays(SlottedAloha(adaptive="known"), load, 12_000)
    assert abs(found.mean() - known_delay(load)) < 4.5 * found.std() / np.sqrt(len(found))


@pytest.mark.slow
def test_pseudo_bayesian_is_stable_near_1_over_e_and_nearly_as_good_as_knowing():
    """Rivest 1987: delays of the estimate are close to those of the known backlog up to the limit of 0.368."""
    found = delays(SlottedAloha(adaptive="pseudo_bayesian"), 0.33, 15_000)
    assert known_delay(0.33) < found.mean() + 4.5 * found.std() / np.sqrt(len(found))
    assert found.mean() < 2.0 * known_delay(0.33)


@pytest.mark.parametrize(("estimate", "collided", "then"), [(5.0, 0, 4.36788), (5.0, 1, 6.76009), (1.1, 0, 0.46788)])
def test_the_estimate_of_one_channel(estimate, collided, then):
    """v + 1/e - 1 without a collision, v + 1/e + 1/(e - 2) with one; 1/e = 0.36788, 1/(e - 2) = 1.39221."""
    assert PseudoBayesian(1).after_attempts(estimate, collided) == pytest.approx(then, abs=2e-5)


def test_idle_slots_count_one_by_one():
    rule, estimate = PseudoBayesian(3), 20.0
    for _ in range(7):
        estimate = rule.after_attempts(estimate, 0)
    assert rule.after_idle(20.0, 7) == pytest.approx(estimate)
    assert rule.after_idle(20.0, 10**9) == pytest.approx(3 / np.e)
    assert KnownBacklog(3).probability(0.0, 12) == 0.25


@pytest.mark.parametrize("channels", [1, 4])
def test_a_crowd_that_comes_at_once_is_resolved(make_cell, channels):
    """90 users on channels that carry 1/e each in a slot at best."""
    world, users = make_cell(90), 90
    mac = MultichannelAloha(adaptive="pseudo_bayesian", channels=channels)
    world.env.process(mac.serve(world.cell))
    world.tower.schedule_broadcast(0, 0.0)
    while len(world.sent_on) < users:
        world.env.step()
    assert users / channels < world.env.now < 1.7 * np.e * users / channels + 30


@pytest.mark.parametrize("adaptive", ["known", "pseudo_bayesian", "backoff"])
def test_adaptive_sleeps_through_an_outage(sleeps, adaptive):
    sleeps(SlottedAloha(adaptive=adaptive))


@pytest.mark.parametrize("adaptive", ["known", "pseudo_bayesian"])
def test_a_lone_user_sends_in_the_first_slot(make_cell, adaptive):
    world = make_cell(1)
    world.env.process(SlottedAloha(adaptive=adaptive, slot=1.5).serve(world.cell))
    world.tower.schedule_broadcast(0, 3.2)
    world.env.run(until=10)
    assert [at_s for at_s, _ in world.sent_on] == [5.5]


@pytest.mark.slow
def test_adaptive_users_have_equal_chances_in_every_slot():
    """n saturated users at p = 1/n: a slot is a success with (1-1/n)^(n-1), independently of the next."""
    heard = slot_successes(BenchSetup(SlottedAloha(adaptive="known"), 7, 1.0, Streams(4)), 6000)
    share = (6 / 7) ** 6
    assert abs(heard.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / 6000)
    assert abs((heard[1:] * heard[:-1]).mean() - share**2) < 4.5 * np.sqrt(share**2 * (1 + 2 * share) / 6000)


class AllAtOnce(KnownBacklog):
    """Everybody sends in each slot; keeps how many channels had collisions."""

    def __init__(self, channels):
        super().__init__(channels)
        self.told = []

    def probability(self, estimate, backlog):
        return 1.0

    def after_attempts(self, estimate, collided):
        self.told.append(collided)
        return estimate


def test_adaptive_rules_are_told_of_channels_on_which_several_met_and_none_was_received(make_cell):
    """0 and 1 meet, 2 is alone, of 3 and 4 the latter is cut off, 5 fades alone, 7 is stronger than 6."""
    channels, gains_db = np.array([0, 0, 1, 2, 2, 3, 4, 4]), np.array([0.0, 0, 0, 0, 0, -9, 0, 20])
    world = make_cell(8, plan={4: [(0.0, 9.5)]}, snr_db=lambda users, time_s: gains_db[users], capture_db=6.0)
    rule = AllAtOnce(5)
    world.env.process(serve_adaptive(SlottedCell(world.cell, 1.0, 1, lambda users: channels[users]), rule))
    world.tower.schedule_broadcast(0, 0.0)
    world.env.run()
    assert [(message.user, message.sent_s) for _, message in world.sent_on] == [(2, 0), (3, 0), (7, 0), (4, 10)]
    assert rule.told == [1, 0]
    assert world.env.now < 50, "nothing is left to be done"


def test_adaptive_users_count_those_alone_who_have_something(make_cell):
    """One of ten: n = 1, so that it sends in the first slot."""
    for seed in range(5):
        world = make_cell(10, compute_s=[1e6] * 4 + [2.2] + [1e6] * 5, seed=seed)
        world.env.process(SlottedAloha(adaptive="known").serve(world.cell))
        world.tower.schedule_broadcast(0, 0.0)
        world.env.run(until=20)
        assert world.memory.of("sent") == [(3.0, 4)]


class Clock(KnownBacklog):
    """Its estimate is the number of slots so far; everybody sends with 0.2."""

    def probability(self, estimate, backlog):
        return 0.2

    def after_idle(self, estimate, slots):
        return estimate + slots

    def after_attempts(self, estimate, collided):
        self.told.append(estimate)
        return estimate + 1

    told = ()


def test_adaptive_rules_are_told_of_each_slot_once(make_cell):
    """Of the one before the first, too: what is heard at the end of slot k follows k + 1 others."""
    world, rule = make_cell(3, compute_s=[0.0, 3.5, 40.0]), Clock(1)
    rule.told = []
    world.env.process(serve_adaptive(SlottedCell(world.cell, 1.0), rule))
    for version, at_s in enumerate([0.0, 70.5, 300.0]):
        world.tower.schedule_broadcast(version, at_s)
    world.env.run(until=500)
    assert len(rule.told) >= 9
    assert rule.told == sorted({time_s + 1 for time_s, _ in world.memory.of("sent")})


@pytest.mark.slow
def test_binary_exponential_backoff_of_two(make_cell):
    """Both send at once; after k failures each does so in a slot with 2^-k: the slots until the first success."""
    expected = 0.0
    for k in range(10, 0, -1):  # E_k = 1 + P(none) E_k + P(both) E_(k+1)
        p = 2.0**-k
        none, both = (1 - p) ** 2, p * p
        expected = (1 + both * expected) / (1 - none) if k < 10 else 1 / (1 - none - both)
    world, count, found = make_cell(2), 600, []
    world.env.process(SlottedAloha(adaptive="backoff").serve(world.cell))
    for version in range(count):
        at_s, done = np.ceil(world.env.now) + 1.0, len(world.sent_on)
        world.tower.schedule_broadcast(version, at_s)
        while len(world.sent_on) < done + 2:
            world.env.step()
        found.append(world.sent_on[done][0] - at_s)
    assert abs(np.mean(found) - 1 - expected) < 4.5 * np.std(found) / np.sqrt(count)


@pytest.mark.parametrize(("users", "probability", "channels"), [(6, 0.5, 2), (2, 1.0, 4), (30, 0.2, 5), (3, 0.4, 1)])
@pytest.mark.slow
def test_successes_on_several_channels(users, probability, channels):
    """The mean, and the chance of none at all by inclusion and exclusion over channels that carry exactly one."""
    slots = 4000
    mac = MultichannelAloha(probability=probability, channels=channels)
    heard = slot_successes(BenchSetup(mac, users, 0.125, Streams(users)), slots)
    mean = users * probability * (1 - probability / channels) ** (users - 1)
    assert abs(heard.mean() - mean) < 4.5 * heard.std() / np.sqrt(slots)
    rng = np.random.default_rng(1)
    draws = rng.integers(0, channels, (20_000, users)) + channels * (rng.random((20_000, users)) > probability)
    counts = np.stack([(draws == channel).sum(axis=1) == 1 for channel in range(channels)]).sum(axis=0)
    for count in range(channels + 1):
        share = (counts == count).mean()
        assert abs((heard == count).mean() - share) < 4.5 * np.sqrt(0.25 / slots + 0.25 / 20_000)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_every_channel_is_taken_as_often(channels):
    users = np.arange(4000)
    taken = channel_picker(SimpleNamespace(streams=Streams(1), ids=users), channels)(users)
    counts = np.bincount(taken, minlength=channels)
    assert len(counts) == channels
    assert np.abs(counts - 4000 / channels).max() <= 4.5 * np.sqrt(4000 / channels * (1 - 1 / channels))


def test_every_channel_of_two_can_save_two_who_always_send(make_cell):
    """On one they would collide for ever; that they still do after 100 slots has probability 2^-100."""
    world = make_cell(2)
    world.env.process(MultichannelAloha(probability=1, channels=2).serve(world.cell))
    world.tower.schedule_broadcast(0, 0.0)
    world.env.run(until=100)
    assert {message.user for _, message in world.sent_on} == {0, 1}


def test_capture_saves_the_stronger_of_two(make_cell):
    """20 dB apart on one channel, capture at 6 dB: user 1 is received, and user 0 in the next slot."""
    world = make_cell(2, snr_db=lambda users, time_s: 20.0 * users, capture_db=6.0)
    world.env.process(MultichannelAloha(probability=1, channels=1).serve(world.cell))
    world.tower.schedule_broadcast(0, 0.0)
    world.env.run(until=5)
    assert [(message.user, at_s) for at_s, message in world.sent_on] == [(1, 1.0), (0, 2.0)]


def test_slots_in_which_the_last_attempt_still_arrives_are_passed_over(make_cell, make_air, monkeypatch):
    """Slots of 1 s and signals that take 0.4 s: heard at 1.4, so that the next slot is that at 2 s."""
    monkeypatch.setattr(make_air, "delay_s", lambda self, users, time_s: np.full(len(users), 0.4))
    for mac in (SlottedAloha(probability=1.0, max_attempts=3), SlottedAloha(adaptive="backoff", max_attempts=3)):
        world = make_cell(1, snr_db=lambda users, time_s: [-9.0])
        world.env.process(mac.serve(world.cell))
        world.tower.schedule_broadcast(0, 0.0)
        world.env.run(until=60)
        starts = [time_s for time_s, _ in world.memory.of("sent")]
        assert len(starts) == 3
        assert starts == np.round(starts).tolist()
        assert min(np.diff(starts)) >= 2.0


@pytest.mark.parametrize("said", [{}, {"probability": 0.1, "adaptive": "known"}])
def test_one_rule_alone(said):
    with pytest.raises(ScenarioError, match="exactly one"):
        SlottedAloha(**said)
