"""Theories beside calculations of another kind: chains that are solved, integrals, draws; and what a probe counts."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import integrate, linalg, stats

import netfl
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.outage._combined import CombinedOutages
from netfl.network.probe import Probe, Sampler
from netfl.network.theory import TheoryCase
from netfl.network.theory._queues import TandemLine
from netfl.network.theory.tandem import _lossy, _through
from netfl.streams import Streams

FOLDER = Path(__file__).parents[3] / "scenarios/validation"


def said(name, changes=None):
    """What the theory of a scenario says, without a run."""
    scenario = netfl.load(FOLDER / f"{name}.yaml", changes)
    access, streams = scenario.access, Streams(3)
    case = TheoryCase(access, access.topology.open(scenario.users, streams), streams)
    assert [*access.theory.misfits(case)] == []
    return access.theory.predict(case)


def stationary(rates):
    """The stationary law of a chain of which the rates are given."""
    generator = rates - np.diag(rates.sum(axis=1))
    share = linalg.null_space(generator.T)[:, 0]
    return share / share.sum()


class TestQueues:
    @pytest.mark.parametrize("load", [0.4, 0.9, 1.0, 1.7])
    def test_mm1k_is_the_solution_of_its_chain(self, load):
        told = said("mm1k", {"access.traffic.load": load, "access.queue.capacity": 4})
        rates = np.diag(np.full(5, load), 1) + np.diag(np.ones(5), -1)
        share, service_s = stationary(rates), 8000 / 10e6
        assert told["loss_ratio_theory"] == pytest.approx(share[-1])
        assert told["utilisation_theory"] == pytest.approx(1 - share[0])
        assert told["delay_theory_s"] == pytest.approx(share @ np.arange(6) / (load * (1 - share[-1])) * service_s)

    def test_mm1_is_mm1k_with_a_great_k(self):
        told = said("mm1", {"access.traffic.load": 0.7})
        many = said("mm1k", {"access.traffic.load": 0.7, "access.queue.capacity": 400})
        assert told["delay_theory_s"] == pytest.approx(many["delay_theory_s"])
        assert told["delay_p99_theory_s"] == pytest.approx(stats.expon.ppf(0.99, scale=told["delay_theory_s"]))

    def test_md1_by_the_chain_at_departures(self):
        """Packets left behind by a departure: a chain of Poisson arrivals in a service; Little's law."""
        load, most = 0.8, 200
        told = said("md1", {"access.traffic.load": load})
        comes = stats.poisson.pmf(np.arange(most), load)
        moves = np.array([[comes[to - max(left - 1, 0)] if to >= max(left - 1, 0) else 0.0 for to in range(most)]
                          for left in range(most)])  # fmt: skip
        share = np.linalg.matrix_power(moves / moves.sum(axis=1, keepdims=True), 1 << 14)[0]
        service_s = 8000 / 10e6
        assert told["delay_theory_s"] == pytest.approx(share @ np.arange(most) * service_s / load, rel=1e-6)

    @pytest.mark.parametrize("hops", [1, 2, 3])
    def test_lindley_packet_by_packet(self, hops):
        rng = np.random.default_rng(hops)
        born_s, sizes = np.cumsum(rng.exponential(1.0, 3000)), rng.exponential(1.0, 3000)
        services_s = tuple(0.5 + 0.2 * np.arange(hops))
        free_s, ends_s = [0.0] * hops, []
        for came_s, size in zip(born_s, sizes, strict=True):
            now_s = came_s
            for hop, service_s in enumerate(services_s):
                now_s = free_s[hop] = max(now_s, free_s[hop]) + size * service_s
            ends_s.append(now_s)
        _, whole_s = _through(TandemLine(1.0, services_s, None, 0.0), born_s, sizes)
        assert whole_s == pytest.approx(np.array(ends_s) - born_s)

    def test_a_tandem_of_one_link_with_room_for_few_is_mm1k(self):
        rng, count = np.random.default_rng(4), 200_000
        line = TandemLine(1.2, (1.0,), 3, 0.0)
        told = _lossy(line, np.cumsum(rng.exponential(1 / 1.2, count)), rng.exponential(1.0, count))
        share = stationary(np.diag(np.full(3, 1.2), 1) + np.diag(np.ones(3), -1))
        assert told["loss_ratio_theory"] == pytest.approx(share[-1], abs=4 * told["loss_ratio_theory_se"])
        mean_s = share @ np.arange(4) / (1.2 * (1 - share[-1]))
        assert told["delay_theory_s"] == pytest.approx(mean_s, abs=4 * told["delay_theory_se_s"])

    def test_product_form_is_far_off(self):
        told = said("tandem", {"access.theory.packets": 1_000_000})
        assert told["delay_independent_s"] == pytest.approx(0.030)
        assert told["delay_theory_s"] == pytest.approx(0.0196, abs=0.0003)


class TestAloha:
    def test_two_users_by_counting_cases(self):
        """p = 0.3: one of two sends in 2 · 0.3 · 0.7 of the slots."""
        told = said("slotted_aloha", {"users": 2, "access.mac.probability": 0.3})
        assert told["throughput_theory_bps"] == pytest.approx(0.42 * 1e6)
        assert told["collision_probability_theory"] == pytest.approx(0.3)
        assert told["delay_theory_s"] == pytest.approx(1e-3 / (0.3 * 0.7))

    def test_all_collide_where_all_always_send(self):
        told = said("slotted_aloha", {"users": 2, "access.mac.probability": 1})
        assert told == {"throughput_theory_bps": 0.0, "collision_probability_theory": 1.0}

    def test_two_users_on_two_channels(self):
        """Both always send: on different channels in half of the slots, and then both get through."""
        told = said("multichannel_aloha", {"users": 2, "access.mac.probability": 1, "access.mac.channels": 2})
        assert told["throughput_theory_bps"] == pytest.approx(1e6)
        assert told["collision_probability_theory"] == pytest.approx(0.5)


class TestLinks:
    def margin(self, distance_m):
        """Threshold over mean SNR: Friis at 1 m, exponent 3.5, -174 dBm/Hz and 6 dB over 1 MHz, 10 dB wanted."""
        loss_db = 20 * np.log10(4 * np.pi * 868e6 / 299_792_458) + 35 * np.log10(distance_m)
        return 10 ** ((10 - (14 - loss_db + 174 - 60 - 6)) / 10)

    @pytest.mark.parametrize("m", [0.5, 1, 1.5, 3])
    def test_nakagami_outage_by_integration_of_the_amplitude(self, m):
        told = said("nakagami_outage", {"access.channel.1.m": m, "access.topology.distance": 130.0})
        wanted, _ = integrate.quad(lambda r: stats.nakagami.pdf(r, m), 0, np.sqrt(self.margin(130.0)))
        assert told["outage_theory"] == pytest.approx(wanted, rel=1e-6)

    def test_rician_outage_by_integration(self):
        fading = {"kind": "rician", "k_factor": "4 dB", "coherence": 1e-3}
        told = said("nakagami_outage", {"access.channel.1": fading})
        k = 10**0.4
        b, scale = np.sqrt(2 * k), 1 / np.sqrt(2 * (1 + k))
        wanted, _ = integrate.quad(lambda r: stats.rice.pdf(r, b, scale=scale), 0, np.sqrt(self.margin(100.0)))
        assert told["outage_theory"] == pytest.approx(wanted, rel=1e-6)

    @pytest.mark.parametrize("m", [None, 1.5, 4])
    def test_level_crossings_by_rice(self, m):
        """Rice: the density of the amplitude at the level, times E[slope⁺] = σ' / sqrt(2π), σ' = π f sqrt(Ω/m)."""
        fading = {"kind": "rayleigh", "doppler": 10.0} if m is None else {"kind": "nakagami", "m": m, "doppler": 10.0}
        told = said("jakes", {"access.channel.1": fading, "access.probe.level": "15 dB"})
        m = m or 1.0
        mean_db = told["power_mean_theory"]
        rho = np.sqrt(10**1.5 / mean_db)
        rate_hz = stats.nakagami.pdf(rho, m) * np.pi * 10.0 / np.sqrt(m) / np.sqrt(2 * np.pi)
        assert told["level_crossing_rate_theory_hz"] == pytest.approx(rate_hz)
        assert told["fade_duration_theory_s"] == pytest.approx(stats.nakagami.cdf(rho, m) / rate_hz)
        angle = np.linspace(0, np.pi, 20_001)
        bessel = integrate.trapezoid(np.cos(2 * np.pi * 10.0 * 0.016 * np.sin(angle)), angle) / np.pi
        assert told["autocorrelation_theory"] == pytest.approx(bessel**2)

    def test_gilbert_elliott_by_its_transition_matrix(self):
        told = said("gilbert_elliott", {"access.probe.every": 0.004, "access.probe.lag": 0.008})
        good_s, bad_s = 0.09, 0.01
        step = linalg.expm(np.array([[-1 / good_s, 1 / good_s], [1 / bad_s, -1 / bad_s]]) * 0.004)
        assert told["loss_ratio_theory"] == pytest.approx(0.1)
        assert told["fade_duration_theory_s"] == pytest.approx(0.004 / step[1, 0])
        assert told["level_crossing_rate_theory_hz"] == pytest.approx(0.9 * step[0, 1] / 0.004)
        twice = step @ step
        assert told["autocorrelation_theory"] == pytest.approx(twice[1, 1] - twice[0, 1])

    def test_availability_of_several_outages_is_their_product(self):
        sojourn = {"distribution": "fixed", "mean": 10.0}
        outage = {"kind": "renewal", "nodes": "users", "up": sojourn | {"mean": 30.0}, "down": sojourn}
        assert said("availability", {"access.outages": [outage]})["availability_theory"] == pytest.approx(0.75)
        told = said("availability", {"access.outages": [outage, outage]})
        assert told == {"availability_theory": pytest.approx(0.5625)}

    def test_the_sonar_equation_by_hand(self):
        """20 kHz: Thorp 4.13 dB/km (Stojanovic 2007, fig. 1); 1 W is 170.8 dB re 1 µPa at 1 m."""
        near, far = (said("underwater_link", {"access.topology.distance": d}) for d in (1000.0, 2000.0))
        fall_db = near["snr_theory_db"] - far["snr_theory_db"]
        assert fall_db == pytest.approx(15 * np.log10(2) + 4.13, abs=0.02)
        assert near["delay_theory_s"] == pytest.approx(1000 / 1500 + 800 / 5000)
        louder = said("underwater_link", {"access.topology.distance": 1000.0, "access.radio.power": "33 dBm"})
        assert louder["snr_theory_db"] - near["snr_theory_db"] == pytest.approx(3.0)


class Waves:
    """Links whose SNR is a sine, a user's phase being its number, in dB."""

    def snr_db(self, users, time_s):
        return 10.0 * np.sin(2 * np.pi * np.asarray(time_s) + users)


class Wanting:
    """Records what a probe tells."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return kind == "sampled"

    def event(self, kind, time_s, *, round, user, value, **told):
        self.rows += [*zip(time_s, user, value, strict=True)]


def sampled(windows, probe, since_s=0.0, recorder=None, outages=None):
    """What a probe of three users tells after looks in *windows*."""
    recorder = recorder or Wanting()
    sampler = Sampler(probe, Layout(nx.Graph(), np.zeros((3, 2))), Waves(), outages or CombinedOutages(), since_s)
    for start_s, end_s in windows:
        sampler.sample(start_s, end_s, EventLog(recorder, 3))
    return sampler.metrics()


class TestProbe:
    PROBE = Probe(every=0.01, level=3.0, lag=0.07)

    def test_figures_are_those_of_the_series(self):
        told = sampled([(0.0, 5.0)], self.PROBE)
        snr_db = 10.0 * np.sin(2 * np.pi * 0.01 * np.arange(500) + np.arange(3)[:, None])
        power = 10 ** (snr_db / 10)
        assert told["snr_mean_db"] == pytest.approx(snr_db.mean(), abs=1e-12)
        assert told["power_mean"] == pytest.approx(power.mean())
        assert told["power_variance"] == pytest.approx(power.var() / power.mean() ** 2)
        product = (power[:, :-7] * power[:, 7:]).mean()
        assert told["autocorrelation"] == pytest.approx((product - power.mean() ** 2) / power.var())
        falls = ((snr_db[:, :-1] >= 3) & (snr_db[:, 1:] < 3)).sum()
        assert told["level_crossing_rate_hz"] == pytest.approx(falls / 15.0)
        assert told["fade_duration_s"] == pytest.approx((snr_db < 3).sum() * 0.01 / falls)

    def test_windows_make_no_difference(self):
        edges = [0.0, 0.013, 0.02, 0.5, 3.3337, 5.0]
        whole, cut = sampled([(0.0, 5.0)], self.PROBE), sampled([*pairwise(edges)], self.PROBE)
        assert cut == pytest.approx(whole)

    def test_warmup_does_not_count(self):
        assert sampled([(0.0, 2.0), (2.0, 5.0)], self.PROBE, since_s=3.0) == pytest.approx(
            sampled([(3.0, 5.0)], self.PROBE, since_s=3.0)
        )

    def test_looks_are_recorded_where_that_is_wanted(self):
        recorder = Wanting()
        sampled([(0.0, 0.02), (0.02, 0.05)], Probe(every=0.01, users=(2, 0)), recorder=recorder)
        assert [row[:2] for row in recorder.rows] == [
            (pytest.approx(0.01 * look), user) for look in range(5) for user in (2, 0)
        ]
        assert recorder.rows[1][2] == pytest.approx(0.0)

    def test_a_constant_link_has_no_autocorrelation(self, monkeypatch):
        monkeypatch.setattr(Waves, "snr_db", lambda self, users, time_s: np.full(len(users), 7.0))
        told = sampled([(0.0, 5.0)], self.PROBE)
        assert told["power_variance"] == pytest.approx(0.0, abs=1e-12)
        assert told["snr_mean_db"] == pytest.approx(7.0)
        assert "autocorrelation" not in told
        assert "fade_duration_s" not in told

    def test_outages_are_counted_exactly(self, planned):
        """User 0 is down for 1 s and for 2 s of 10, user 1 from 8 s on, user 2 never."""
        outages = CombinedOutages([planned({0: [(1.0, 2.0), (4.0, 6.0)], 1: [(8.0, 20.0)]})])
        told = sampled([(0.0, 4.5), (4.5, 10.0)], Probe(every=1.0), outages=outages)
        assert told["availability"] == pytest.approx(1 - 5 / 30)
        assert told["up_mean_s"] == pytest.approx(25 / 3)
        assert told["down_mean_s"] == pytest.approx(5 / 2)
        late = sampled([(0.0, 10.0)], Probe(every=1.0, users=(0,)), since_s=3.0, outages=outages)
        assert late["availability"] == pytest.approx(5 / 7)
