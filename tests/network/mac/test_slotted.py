"""Adaptive and multichannel slotted ALOHA, compared with closed forms and exact chains.

Statistical checks allow 4.5 standard errors, from the spread over nearly independent batches.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import poisson

from netfl.errors import ScenarioError
from netfl.network.interference.capture import Capture
from netfl.network.mac._bases import channel_picker
from netfl.network.mac._slotted import SlottedCell
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.mac.slotted_aloha import KnownBacklog, PseudoBayesian, SlottedAloha, serve_adaptive
from netfl.network.radio.bench import BenchSetup, poisson_cell, slot_successes
from netfl.streams import Streams


def mean_delays(mac, load, slots, users=1500, seed=1):
    """Return the mean delays of Poisson packets in 40 batches."""
    cell, event_log = poisson_cell(BenchSetup(mac, users, 1.0, Streams(seed)), load)
    cell.env.run(until=slots)
    assert event_log.packets.delivered > 0.9 * load * slots
    delays_s = np.array(event_log.packets.delays_s)
    return delays_s[: len(delays_s) // 40 * 40].reshape(40, -1).mean(axis=1)


def expected_delay(load, max_backlog=400):
    """Return the mean delay in slots for p = 1/n, from the stationary distribution of the backlog.

    A packet counts from the next slot on, half a slot after its arrival on average.
    """
    n = np.arange(max_backlog)
    success = np.array([0.0] + [(1 - 1 / k) ** (k - 1) for k in n[1:]])
    arrivals = poisson.pmf(n, load)
    distribution = np.zeros(max_backlog)
    distribution[0] = 1.0
    for _ in range(4000):
        after = distribution * (1 - success)
        after[:-1] += (distribution * success)[1:]
        distribution = np.convolve(after, arrivals)[:max_backlog]
    assert abs(distribution.sum() - 1) < 1e-6
    return float(distribution @ n) / load + 0.5


@pytest.mark.parametrize("load", [0.1, 0.3])
@pytest.mark.quick_first
def test_known_backlog_has_delay_of_exact_chain(load):
    delays_s = mean_delays(SlottedAloha(adaptive="known"), load, 12_000)
    assert abs(delays_s.mean() - expected_delay(load)) < 4.5 * delays_s.std() / np.sqrt(len(delays_s))


@pytest.mark.slow
def test_pseudo_bayesian_is_stable_near_1_over_e():
    """Rivest (1987): its delays are close to those of a known backlog up to a load of 0.368."""
    delays_s = mean_delays(SlottedAloha(adaptive="pseudo_bayesian"), 0.33, 15_000)
    assert expected_delay(0.33) < delays_s.mean() + 4.5 * delays_s.std() / np.sqrt(len(delays_s))
    assert delays_s.mean() < 2.0 * expected_delay(0.33)


@pytest.mark.parametrize(
    ("estimate", "collided", "expected"), [(5.0, 0, 4.36788), (5.0, 1, 6.76009), (1.1, 0, 0.46788)]
)
def test_backlog_estimate_of_one_channel(estimate, collided, expected):
    """v + 1/e - 1 without a collision, v + 1/e + 1/(e - 2) with one; 1/e = 0.36788, 1/(e - 2) = 1.39221."""
    assert PseudoBayesian(1).after_attempts(estimate, collided) == pytest.approx(expected, abs=2e-5)


def test_idle_slots_are_counted_individually():
    rule, estimate = PseudoBayesian(3), 20.0
    for _ in range(7):
        estimate = rule.after_attempts(estimate, 0)
    assert rule.after_idle(20.0, 7) == pytest.approx(estimate)
    assert rule.after_idle(20.0, 10**9) == pytest.approx(3 / np.e)
    assert KnownBacklog(3).probability(0.0, 12) == 0.25


@pytest.mark.parametrize("channels", [1, 4])
def test_simultaneous_users_are_resolved(make_cell, channels):
    """90 users share channels that carry at most 1/e each per slot."""
    simulation, users = make_cell(90), 90
    mac = MultichannelAloha(adaptive="pseudo_bayesian", channels=channels)
    simulation.env.process(mac.serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    while len(simulation.sent_on) < users:
        simulation.env.step()
    assert users / channels < simulation.env.now < 1.7 * np.e * users / channels + 30


@pytest.mark.parametrize("adaptive", ["known", "pseudo_bayesian", "backoff"])
def test_adaptive_mac_sleeps_during_outage(assert_mac_sleeps, adaptive):
    assert_mac_sleeps(SlottedAloha(adaptive=adaptive))


@pytest.mark.parametrize("adaptive", ["known", "pseudo_bayesian"])
def test_single_user_sends_in_first_slot(make_cell, adaptive):
    simulation = make_cell(1)
    simulation.env.process(SlottedAloha(adaptive=adaptive, slot=1.5).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 3.2)
    simulation.env.run(until=10)
    assert [at_s for at_s, _ in simulation.sent_on] == [5.5]


@pytest.mark.slow
def test_adaptive_slots_have_equal_success_probability():
    """n saturated users at p = 1/n: a slot is a success with (1-1/n)^(n-1), independently of the next."""
    successes = slot_successes(BenchSetup(SlottedAloha(adaptive="known"), 7, 1.0, Streams(4)), 6000)
    share = (6 / 7) ** 6
    assert abs(successes.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / 6000)
    assert abs((successes[1:] * successes[:-1]).mean() - share**2) < 4.5 * np.sqrt(share**2 * (1 + 2 * share) / 6000)


class AlwaysSend(KnownBacklog):
    """A MAC in which every user sends in every slot; it counts the channels with collisions."""

    def __init__(self, channels):
        super().__init__(channels)
        self.collisions = []

    def probability(self, estimate, backlog):
        return 1.0

    def after_attempts(self, estimate, collided):
        self.collisions.append(collided)
        return estimate


def test_adaptive_rule_counts_channels_with_collisions(make_cell):
    """0 and 1 collide, 2 is alone, 3 meets 4 which is down, 5 fades alone, 7 is stronger than 6."""
    channels, gains_db = np.array([0, 0, 1, 2, 2, 3, 4, 4]), np.array([0.0, 0, 0, 0, 0, -9, 0, 20])
    simulation = make_cell(
        8, plan={4: [(0.0, 9.5)]}, snr_db=lambda users, time_s: gains_db[users], interference=Capture(margin=6.0)
    )
    rule = AlwaysSend(5)
    simulation.env.process(serve_adaptive(SlottedCell(simulation.cell, 1.0, 1, lambda users: channels[users]), rule))
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run()
    assert [(message.user, message.sent_s) for _, message in simulation.sent_on] == [(2, 0), (3, 0), (7, 0), (4, 10)]
    assert rule.collisions == [1, 0]
    assert simulation.env.now < 50, "no events are left"


def test_adaptive_backlog_counts_users_with_updates(make_cell):
    """One of ten users has an update: n = 1, so it sends in the first slot."""
    for seed in range(5):
        simulation = make_cell(10, compute_s=[1e6] * 4 + [2.2] + [1e6] * 5, seed=seed)
        simulation.env.process(SlottedAloha(adaptive="known").serve(simulation.cell))
        simulation.tower.schedule_broadcast(0, 0.0)
        simulation.env.run(until=20)
        assert simulation.recorder.events("sent") == [(3.0, 4)]


class SlotCounter(KnownBacklog):
    """Estimates the number of slots so far; all users send with probability 0.2."""

    def probability(self, estimate, backlog):
        return 0.2

    def after_idle(self, estimate, slots):
        return estimate + slots

    def after_attempts(self, estimate, collided):
        self.estimates.append(estimate)
        return estimate + 1

    estimates = ()


def test_adaptive_rule_counts_each_slot_once(make_cell):
    """This includes the slot before the first; the result of slot k follows k + 1 other slots."""
    simulation, rule = make_cell(3, compute_s=[0.0, 3.5, 40.0]), SlotCounter(1)
    rule.estimates = []
    simulation.env.process(serve_adaptive(SlottedCell(simulation.cell, 1.0), rule))
    for version, at_s in enumerate([0.0, 70.5, 300.0]):
        simulation.tower.schedule_broadcast(version, at_s)
    simulation.env.run(until=500)
    assert len(rule.estimates) >= 9
    assert rule.estimates == sorted({time_s + 1 for time_s, _ in simulation.recorder.events("sent")})


@pytest.mark.slow
def test_binary_exponential_backoff_of_two_users(make_cell):
    """Both send at once; after k failures each sends in a slot with 2^-k, until the first success."""
    expected = 0.0
    for k in range(10, 0, -1):  # E_k = 1 + P(none) E_k + P(both) E_(k+1)
        p = 2.0**-k
        none, both = (1 - p) ** 2, p * p
        expected = (1 + both * expected) / (1 - none) if k < 10 else 1 / (1 - none - both)
    simulation, count, slots = make_cell(2), 600, []
    simulation.env.process(SlottedAloha(adaptive="backoff").serve(simulation.cell))
    for version in range(count):
        at_s, delivered = np.ceil(simulation.env.now) + 1.0, len(simulation.sent_on)
        simulation.tower.schedule_broadcast(version, at_s)
        while len(simulation.sent_on) < delivered + 2:
            simulation.env.step()
        slots.append(simulation.sent_on[delivered][0] - at_s)
    assert abs(np.mean(slots) - 1 - expected) < 4.5 * np.std(slots) / np.sqrt(count)


@pytest.mark.parametrize(("users", "probability", "channels"), [(6, 0.5, 2), (2, 1.0, 4), (30, 0.2, 5), (3, 0.4, 1)])
@pytest.mark.slow
def test_successes_on_several_channels(users, probability, channels):
    """The mean and the distribution, compared with a simulation of slots."""
    slots = 4000
    mac = MultichannelAloha(probability=probability, channels=channels)
    successes = slot_successes(BenchSetup(mac, users, 0.125, Streams(users)), slots)
    mean = users * probability * (1 - probability / channels) ** (users - 1)
    assert abs(successes.mean() - mean) < 4.5 * successes.std() / np.sqrt(slots)
    rng = np.random.default_rng(1)
    draws = rng.integers(0, channels, (20_000, users)) + channels * (rng.random((20_000, users)) > probability)
    counts = np.stack([(draws == channel).sum(axis=1) == 1 for channel in range(channels)]).sum(axis=0)
    for count in range(channels + 1):
        share = (counts == count).mean()
        assert abs((successes == count).mean() - share) < 4.5 * np.sqrt(0.25 / slots + 0.25 / 20_000)


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_channels_are_picked_uniformly(channels):
    users = np.arange(4000)
    picked = channel_picker(SimpleNamespace(streams=Streams(1), ids=users), channels)(users)
    counts = np.bincount(picked, minlength=channels)
    assert len(counts) == channels
    assert np.abs(counts - 4000 / channels).max() <= 4.5 * np.sqrt(4000 / channels * (1 - 1 / channels))


def test_two_channels_separate_two_permanent_senders(make_cell):
    """On one channel they would collide for ever; here this has probability 2^-100 after 100 slots."""
    simulation = make_cell(2)
    simulation.env.process(MultichannelAloha(probability=1, channels=2).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run(until=100)
    assert {message.user for _, message in simulation.sent_on} == {0, 1}


def test_capture_receives_stronger_user(make_cell):
    """20 dB apart on one channel, capture at 6 dB: user 1 is received, and user 0 in the next slot."""
    simulation = make_cell(2, snr_db=lambda users, time_s: 20.0 * users, interference=Capture(margin=6.0))
    simulation.env.process(MultichannelAloha(probability=1, channels=1).serve(simulation.cell))
    simulation.tower.schedule_broadcast(0, 0.0)
    simulation.env.run(until=5)
    assert [(message.user, at_s) for at_s, message in simulation.sent_on] == [(1, 1.0), (0, 2.0)]


def test_user_waits_for_the_end_of_its_frame(make_cell, scripted_links, monkeypatch):
    """With slots of 1 s and delays of 0.4 s, a signal ends at 1.4, so the next slot starts at 2 s."""
    monkeypatch.setattr(scripted_links, "delay_s", lambda self, users, time_s, tower="": np.full(len(users), 0.4))
    for mac in (SlottedAloha(probability=1.0, max_attempts=3), SlottedAloha(adaptive="backoff", max_attempts=3)):
        simulation = make_cell(1, snr_db=lambda users, time_s: [-9.0])
        simulation.env.process(mac.serve(simulation.cell))
        simulation.tower.schedule_broadcast(0, 0.0)
        simulation.env.run(until=60)
        starts = [time_s for time_s, _ in simulation.recorder.events("sent")]
        assert len(starts) == 3
        assert starts == np.round(starts).tolist()
        assert min(np.diff(starts)) >= 2.0


@pytest.mark.parametrize("overrides", [{}, {"probability": 0.1, "adaptive": "known"}])
def test_exactly_one_rule_is_required(overrides):
    with pytest.raises(ScenarioError, match="exactly one"):
        SlottedAloha(**overrides)


@pytest.mark.parametrize(
    ("rule", "quantity"),
    [
        ({"probability": 0.25}, "successes per slot"),
        ({"adaptive": "known"}, "successes per slot"),
        ({"adaptive": "pseudo_bayesian"}, "packets served"),
    ],
)
def test_each_rule_states_its_property(rule, quantity):
    (law,) = SlottedAloha(**rule).laws()
    assert law.quantity == quantity


def test_stated_successes_of_fixed_probability():
    """4 users with p = 1/4: one of them sends alone with probability 4 · 1/4 · (3/4)³ = 27/64."""
    (law,) = SlottedAloha(probability=0.25).laws()
    assert (law.mean, law.variance) == (pytest.approx(27 / 64), pytest.approx(27 / 64 * 37 / 64))
