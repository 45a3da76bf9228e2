"""Theories compared with solved chains, integrals and draws; metrics of probes."""

from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import integrate, linalg, optimize, special, stats

import netfl
from netfl.network.event_log import EventLog
from netfl.network.layout import Layout
from netfl.network.outage._combined import CombinedOutages
from netfl.network.probe import Probe
from netfl.network.sampler import Sampler
from netfl.network.theory import TheoryCase
from netfl.network.theory._links import budget_db
from netfl.network.theory._queues import TandemLine
from netfl.network.theory.tandem import _controlled_mean, _lossy, _through
from netfl.network.theory.waterfall import _mean_over_fading, _mean_over_interference
from netfl.streams import Streams

FOLDER = Path(__file__).parents[3] / "scenarios/validation"


def predict(name, changes=None):
    """Return the predictions of the theory of a scenario, without a run."""
    case = case_of(name, changes)
    theory = case.network.theory
    assert [*theory.misfits(case)] == []
    return theory.predict(case)


def case_of(name, changes=None):
    """Return the case of a scenario, to which its theory applies or not."""
    scenario = netfl.load(FOLDER / f"{name}.yaml", changes)
    access, streams = scenario.access, Streams(3)
    return TheoryCase(access, access.topology.open(scenario.users, streams), streams)


def stationary_distribution(rates):
    """Return the stationary distribution of the chain with these rates."""
    generator = rates - np.diag(rates.sum(axis=1))
    share = linalg.null_space(generator.T)[:, 0]
    return share / share.sum()


class TestQueues:
    @pytest.mark.parametrize("load", [0.4, 0.9, 1.0, 1.7])
    def test_mm1k_matches_chain(self, load):
        metrics = predict("mm1k", {"access.traffic.load": load, "access.queue.capacity": 4})
        rates = np.diag(np.full(5, load), 1) + np.diag(np.ones(5), -1)
        share, service_s = stationary_distribution(rates), 8000 / 10e6
        assert metrics["loss_ratio_theory"] == pytest.approx(share[-1])
        assert metrics["utilisation_theory"] == pytest.approx(1 - share[0])
        assert metrics["delay_theory_s"] == pytest.approx(share @ np.arange(6) / (load * (1 - share[-1])) * service_s)

    def test_mm1_is_limit_of_mm1k(self):
        metrics = predict("mm1", {"access.traffic.load": 0.7})
        large_queue = predict("mm1k", {"access.traffic.load": 0.7, "access.queue.capacity": 400})
        assert metrics["delay_theory_s"] == pytest.approx(large_queue["delay_theory_s"])
        assert metrics["delay_p99_theory_s"] == pytest.approx(stats.expon.ppf(0.99, scale=metrics["delay_theory_s"]))

    def test_md1_matches_chain_at_departures(self):
        """The packets left behind by a departure form a chain of Poisson arrivals per service; then Little's law."""
        load, size = 0.8, 200
        metrics = predict("md1", {"access.traffic.load": load})
        arrivals = stats.poisson.pmf(np.arange(size), load)
        transitions = np.array(
            [
                [arrivals[to - max(left - 1, 0)] if to >= max(left - 1, 0) else 0.0 for to in range(size)]
                for left in range(size)
            ]
        )
        share = np.linalg.matrix_power(transitions / transitions.sum(axis=1, keepdims=True), 1 << 14)[0]
        service_s = 8000 / 10e6
        assert metrics["delay_theory_s"] == pytest.approx(share @ np.arange(size) * service_s / load, rel=1e-6)

    @pytest.mark.parametrize("hops", [1, 2, 3])
    def test_tandem_matches_lindley_recursion(self, hops):
        rng = np.random.default_rng(hops)
        born_s, sizes = np.cumsum(rng.exponential(1.0, 3000)), rng.exponential(1.0, 3000)
        services_s = tuple(0.5 + 0.2 * np.arange(hops))
        free_s, ends_s = [0.0] * hops, []
        for arrived_s, size in zip(born_s, sizes, strict=True):
            now_s = arrived_s
            for hop, service_s in enumerate(services_s):
                now_s = free_s[hop] = max(now_s, free_s[hop]) + size * service_s
            ends_s.append(now_s)
        _, delays_s = _through(TandemLine(1.0, services_s, None, 0.0), born_s, sizes)
        assert delays_s == pytest.approx(np.array(ends_s) - born_s)

    def test_control_variate_corrects_by_the_known_mean_of_the_first_link(self):
        """A delay that is a linear function of that of the first link is estimated without error, for any draws."""
        line = TandemLine(0.5, (1.2, 0.7), None, 0.0)
        first_s = np.random.default_rng(3).exponential(4.0, 6400)
        mean_s, error_s = _controlled_mean(line, first_s, 0.25 + 3.0 * first_s)
        known_s = 1.2 / (1.0 - 0.5 * 1.2)  # sojourn time in M/M/1: 1 / (μ - λ)
        assert mean_s == pytest.approx(0.25 + 3.0 * known_s)
        assert error_s == pytest.approx(0.0, abs=1e-12)

        noise_s = np.random.default_rng(4).exponential(1.0, 6400)
        mean_s, error_s = _controlled_mean(line, first_s, noise_s + 3.0 * first_s)
        assert abs(mean_s - 1.0 - 3.0 * known_s) < 4 * error_s
        assert error_s < 0.03

    def test_tandem_of_one_link_is_mm1k(self):
        rng, count = np.random.default_rng(4), 200_000
        line = TandemLine(1.2, (1.0,), 3, 0.0)
        metrics = _lossy(line, np.cumsum(rng.exponential(1 / 1.2, count)), rng.exponential(1.0, count))
        share = stationary_distribution(np.diag(np.full(3, 1.2), 1) + np.diag(np.ones(3), -1))
        assert metrics["loss_ratio_theory"] == pytest.approx(share[-1], abs=4 * metrics["loss_ratio_theory_se"])
        mean_s = share @ np.arange(4) / (1.2 * (1 - share[-1]))
        assert metrics["delay_theory_s"] == pytest.approx(mean_s, abs=4 * metrics["delay_theory_se_s"])

    def test_line_that_delivers_nothing_any_more_has_no_delay(self):
        line = TandemLine(1e300, (1.0,), 3, 0.0)
        metrics = _lossy(line, np.arange(1, 10_001) * 1e-300, np.ones(10_000))
        assert (metrics["loss_ratio_theory"], metrics["loss_ratio_theory_se"]) == (1.0, 0.0)
        assert np.isnan([metrics["delay_theory_s"], metrics["delay_theory_se_s"]]).all()

    def test_product_form_differs(self):
        metrics = predict("tandem", {"access.theory.packets": 1_000_000})
        assert metrics["delay_independent_s"] == pytest.approx(0.030)
        assert metrics["delay_theory_s"] == pytest.approx(0.0196, abs=0.0003)


class TestDividedBand:
    """A band of 1 MHz; snr are those of the five users in the whole band."""

    SNR = 10 ** (np.array([32.7509224, 23.72002253, 14.68912266, 9.40638489, 5.65822279]) / 10)

    def rates(self, shares):
        return 1e6 * shares * np.log2(1 + self.SNR / shares)

    def throughput(self, **mac):
        return predict("divided_band", {"access.mac": {"kind": "fdma", **mac}})["throughput_theory_bps"]

    def test_equal_shares(self):
        rates = self.rates(np.full(5, 0.2))
        assert self.throughput(among="users") == pytest.approx(rates.sum())
        assert self.throughput() == pytest.approx(5 * rates.min())

    def test_given_shares(self):
        shares = np.array([0.05, 0.1, 0.15, 0.2, 0.3])
        assert self.throughput(division="given", shares=shares.tolist()) == pytest.approx(self.rates(shares).sum())

    def test_no_shares_have_a_larger_sum_than_those_of_water_filling(self):
        shares = self.SNR / self.SNR.sum()
        largest = optimize.minimize(
            lambda logits: -self.rates(special.softmax(logits)).sum() / 1e6, np.zeros(5), tol=1e-12
        )
        assert -1e6 * largest.fun == pytest.approx(1e6 * np.log2(1 + self.SNR.sum()), rel=1e-6)
        assert self.rates(shares).sum() == pytest.approx(1e6 * np.log2(1 + self.SNR.sum()))
        assert self.throughput(division="water_filling") == pytest.approx(5 * self.rates(shares).min())

    def test_shares_of_need_make_the_lowest_rate_as_high_as_it_can_be(self):
        found = optimize.minimize(
            lambda x: -x[5], np.array([*np.full(5, 0.2), 0.5]), method="SLSQP", bounds=[(1e-6, 1.0)] * 5 + [(0.0, 9.0)],
            constraints=[{"type": "ineq", "fun": lambda x: self.rates(x[:5]) / 1e6 - x[5]},
                         {"type": "eq", "fun": lambda x: x[:5].sum() - 1.0}],
        )  # fmt: skip
        assert self.throughput(division="need") == pytest.approx(5e6 * found.x[5], rel=1e-5)


PATH_LOSS = {"kind": "log_distance", "exponent": 3.5, "reference_distance": 250.0, "reference_loss": "108 dB"}
WITHOUT_FADING = {"access.channel": [PATH_LOSS]}


class TestWaterfall:
    """Two cells: the mean SNR is 10 dB, the mean interference of the other user at the tower 16.7 dB weaker."""

    A = 10 ** (0.023 / 10) / 10
    INTERFERENCE = 10 * 3**-3.5

    def test_fading_of_signal_and_interference(self):
        def received(y, x):
            return np.exp(-x - y - self.A * (1 + self.INTERFERENCE * y) / x)

        metrics = predict("waterfall")
        expected, _ = integrate.dblquad(received, 0, 50, 0, 50, epsabs=1e-9)
        alone, _ = integrate.quad(lambda x: np.exp(-x - self.A / x), 0, np.inf)
        assert metrics["loss_ratio_theory"] == pytest.approx(1 - expected, rel=1e-6)
        assert metrics["collision_probability_theory"] == pytest.approx(alone - expected, rel=1e-6)
        assert metrics["fade_probability_theory"] == pytest.approx((1 - alone) / (1 - alone + expected), rel=1e-6)

    def test_fading_within_frames_over_constant_interference(self):
        metrics = predict("waterfall", WITHOUT_FADING | {"access.reception.fading": "rayleigh"})
        over = self.A * (1 + self.INTERFERENCE)
        expected, _ = integrate.quad(lambda x: np.exp(-x - over / x), 0, np.inf)
        assert metrics["loss_ratio_theory"] == pytest.approx(1 - expected, rel=1e-7)

    def test_without_fading_it_is_the_bound_itself(self):
        metrics = predict("waterfall", WITHOUT_FADING)
        assert metrics["loss_ratio_theory"] == pytest.approx(-np.expm1(-self.A * (1 + self.INTERFERENCE)))
        assert metrics["collision_probability_theory"] == pytest.approx(
            np.exp(-self.A) - np.exp(-self.A * (1 + self.INTERFERENCE))
        )

    def test_a_band_of_its_own(self):
        metrics = predict("waterfall", {"access.shared_air": False})
        expected, _ = integrate.quad(lambda x: np.exp(-x - self.A / x), 0, np.inf)
        assert metrics["fade_probability_theory"] == metrics["loss_ratio_theory"] == pytest.approx(1 - expected)
        assert metrics["collision_probability_theory"] == 0.0

    def test_interference_of_two_cells_is_drawn(self):
        """Users of three cells, none at the same distances; a million draws have an error of 0.0004 at most."""
        a, others = 0.3, np.array([0.4, 2.5])
        x, *y = np.random.default_rng(5).exponential(1.0, (3, 1_000_000))
        drawn = np.exp(-a * (1 + others @ np.array(y)) / x)
        assert _mean_over_interference(a, others) == pytest.approx(drawn.mean(), abs=4 * drawn.std() / 1000)

    @pytest.mark.parametrize("a", [1e-30, 1e-12, 1e-3, 1.0, 50.0, 1e5])
    def test_integral_without_interference_is_the_closed_form(self, a):
        expected = float(_mean_over_fading(np.array([a]))[0])
        assert _mean_over_interference(a, np.empty(0)) == pytest.approx(expected, rel=1e-12, abs=1e-300)
        assert _mean_over_interference(a, np.array([1e-15])) == pytest.approx(expected, rel=1e-9, abs=1e-250)


class TestAloha:
    def test_two_users_by_hand(self):
        """At p = 0.3, one of two users sends in 2 · 0.3 · 0.7 of the slots."""
        metrics = predict("slotted_aloha", {"users": 2, "access.mac.probability": 0.3})
        assert metrics["throughput_theory_bps"] == pytest.approx(0.42 * 1e6)
        assert metrics["collision_probability_theory"] == pytest.approx(0.3)
        assert metrics["delay_theory_s"] == pytest.approx(1e-3 / (0.3 * 0.7))

    def test_users_who_always_send_collide(self):
        metrics = predict("slotted_aloha", {"users": 2, "access.mac.probability": 1})
        assert metrics == {"throughput_theory_bps": 0.0, "collision_probability_theory": 1.0}

    def test_two_users_on_two_channels(self):
        """Both users always send; in half of the slots they use different channels, and both succeed."""
        metrics = predict("multichannel_aloha", {"users": 2, "access.mac.probability": 1, "access.mac.channels": 2})
        assert metrics["throughput_theory_bps"] == pytest.approx(1e6)
        assert metrics["collision_probability_theory"] == pytest.approx(0.5)


class TestLinks:
    def margin(self, distance_m):
        """Return the threshold over the mean SNR by hand: Friis at 1 m, exponent 3.5, threshold 10 dB."""
        loss_db = 20 * np.log10(4 * np.pi * 868e6 / 299_792_458) + 35 * np.log10(distance_m)
        return 10 ** ((10 - (14 - loss_db + 174 - 60 - 6)) / 10)

    @pytest.mark.parametrize("m", [0.5, 1, 1.5, 3])
    def test_nakagami_fading_by_integration(self, m):
        metrics = predict("nakagami_fading", {"access.channel.1.m": m, "access.topology.distance": 130.0})
        expected, _ = integrate.quad(lambda r: stats.nakagami.pdf(r, m), 0, np.sqrt(self.margin(130.0)))
        assert metrics["fade_probability_theory"] == pytest.approx(expected, rel=1e-6)

    def test_rician_fades_by_integration(self):
        fading = {"kind": "rician", "k_factor": "4 dB", "coherence": 1e-3}
        metrics = predict("nakagami_fading", {"access.channel.1": fading})
        k = 10**0.4
        b, scale = np.sqrt(2 * k), 1 / np.sqrt(2 * (1 + k))
        expected, _ = integrate.quad(lambda r: stats.rice.pdf(r, b, scale=scale), 0, np.sqrt(self.margin(100.0)))
        assert metrics["fade_probability_theory"] == pytest.approx(expected, rel=1e-6)

    @pytest.mark.parametrize("m", [None, 1.5, 4])
    def test_level_crossings_by_rice(self, m):
        """Rice: the amplitude density at the level times E[slope⁺] = σ' / sqrt(2π), with σ' = π f sqrt(Ω/m)."""
        fading = {"kind": "rayleigh", "doppler": 10.0} if m is None else {"kind": "nakagami", "m": m, "doppler": 10.0}
        metrics = predict("jakes", {"access.channel.1": fading, "access.probe.level": "15 dB"})
        m = m or 1.0
        mean_db = metrics["power_mean_theory"]
        rho = np.sqrt(10**1.5 / mean_db)
        rate_hz = stats.nakagami.pdf(rho, m) * np.pi * 10.0 / np.sqrt(m) / np.sqrt(2 * np.pi)
        assert metrics["level_crossing_rate_theory_hz"] == pytest.approx(rate_hz)
        assert metrics["fade_duration_theory_s"] == pytest.approx(stats.nakagami.cdf(rho, m) / rate_hz)
        angle = np.linspace(0, np.pi, 20_001)
        bessel = integrate.trapezoid(np.cos(2 * np.pi * 10.0 * 0.016 * np.sin(angle)), angle) / np.pi
        assert metrics["autocorrelation_theory"] == pytest.approx(bessel**2)

    def test_gilbert_elliott_matches_transition_matrix(self):
        metrics = predict("gilbert_elliott", {"access.probe.every": 0.004, "access.probe.lag": 0.008})
        good_s, bad_s = 0.09, 0.01
        step = linalg.expm(np.array([[-1 / good_s, 1 / good_s], [1 / bad_s, -1 / bad_s]]) * 0.004)
        assert metrics["loss_ratio_theory"] == pytest.approx(0.1)
        assert metrics["fade_duration_theory_s"] == pytest.approx(0.004 / step[1, 0])
        assert metrics["level_crossing_rate_theory_hz"] == pytest.approx(0.9 * step[0, 1] / 0.004)
        two_steps = step @ step
        assert metrics["autocorrelation_theory"] == pytest.approx(two_steps[1, 1] - two_steps[0, 1])

    def test_gilbert_elliott_needs_a_threshold_that_tells_the_states_apart(self):
        """A frame at the threshold is received: in the bad state, too, where the threshold is its SNR."""
        case = case_of("gilbert_elliott")
        bad_db = budget_db(case) - 25.0
        for level_db, tells in ((bad_db, False), (np.nextafter(bad_db, np.inf), True)):
            changed = case_of("gilbert_elliott", {"access.reception.threshold": f"{float(level_db)!r} dB"})
            assert ([*changed.network.theory.misfits(changed)] == []) == tells

    def test_availability_of_outages_is_product(self):
        sojourn = {"distribution": "fixed", "mean": 10.0}
        outage = {"kind": "renewal", "nodes": "users", "up": sojourn | {"mean": 30.0}, "down": sojourn}
        assert predict("availability", {"access.outages": [outage]})["availability_theory"] == pytest.approx(0.75)
        metrics = predict("availability", {"access.outages": [outage, outage]})
        assert metrics == {"availability_theory": pytest.approx(0.5625)}

    def test_sonar_equation_by_hand(self):
        """20 kHz has 4.13 dB/km by Thorp (Stojanovic 2007, fig. 1); 1 W is 170.8 dB re 1 µPa at 1 m."""
        near_metrics, far_metrics = (
            predict("underwater_link", {"access.topology.distance": d}) for d in (1000.0, 2000.0)
        )
        loss_db = near_metrics["snr_theory_db"] - far_metrics["snr_theory_db"]
        assert loss_db == pytest.approx(15 * np.log10(2) + 4.13, abs=0.02)
        assert near_metrics["delay_theory_s"] == pytest.approx(1000 / 1500 + 800 / 5000)
        loud_metrics = predict("underwater_link", {"access.topology.distance": 1000.0, "access.radio.power": "33 dBm"})
        assert loud_metrics["snr_theory_db"] - near_metrics["snr_theory_db"] == pytest.approx(3.0)


class SineLinks:
    """Links whose SNR in dB is a sine with the user's number as phase."""

    def snr_db(self, users, time_s):
        return 10.0 * np.sin(2 * np.pi * np.asarray(time_s) + users)


class SampleRecorder:
    """Recorder of the samples of a probe."""

    def __init__(self):
        self.rows = []

    def wants(self, kind):
        return kind == "sampled"

    def record(self, event):
        self.rows += [*zip(event.time_s, event.user, event.value, strict=True)]


def probe_metrics(windows, probe, since_s=0.0, recorder=None, outages=None):
    """Return the metrics of a probe of three users after sampling *windows*."""
    recorder = recorder or SampleRecorder()
    sampler = Sampler(probe, Layout(nx.Graph(), np.zeros((3, 2))), SineLinks(), outages or CombinedOutages(), since_s)
    for start_s, end_s in windows:
        sampler.sample(start_s, end_s, EventLog(recorder, 3))
    return sampler.metrics()


class TestProbe:
    PROBE = Probe(every=0.01, level=3.0, lag=0.07)

    def test_metrics_match_series(self):
        metrics = probe_metrics([(0.0, 5.0)], self.PROBE)
        snr_db = 10.0 * np.sin(2 * np.pi * 0.01 * np.arange(500) + np.arange(3)[:, None])
        power = 10 ** (snr_db / 10)
        assert metrics["snr_mean_db"] == pytest.approx(snr_db.mean(), abs=1e-12)
        assert metrics["power_mean"] == pytest.approx(power.mean())
        assert metrics["power_variance"] == pytest.approx(power.var() / power.mean() ** 2)
        product = (power[:, :-7] * power[:, 7:]).mean()
        assert metrics["autocorrelation"] == pytest.approx((product - power.mean() ** 2) / power.var())
        crossings = ((snr_db[:, :-1] >= 3) & (snr_db[:, 1:] < 3)).sum()
        assert metrics["level_crossing_rate_hz"] == pytest.approx(crossings / 15.0)
        assert metrics["fade_duration_s"] == pytest.approx((snr_db < 3).sum() * 0.01 / crossings)

    def test_metrics_are_independent_of_windows(self):
        edges = [0.0, 0.013, 0.02, 0.5, 3.3337, 5.0]
        single_window, split = probe_metrics([(0.0, 5.0)], self.PROBE), probe_metrics([*pairwise(edges)], self.PROBE)
        assert split == pytest.approx(single_window)

    def test_warmup_is_excluded(self):
        assert probe_metrics([(0.0, 2.0), (2.0, 5.0)], self.PROBE, since_s=3.0) == pytest.approx(
            probe_metrics([(3.0, 5.0)], self.PROBE, since_s=3.0)
        )

    def test_samples_are_recorded_on_request(self):
        recorder = SampleRecorder()
        probe_metrics([(0.0, 0.02), (0.02, 0.05)], Probe(every=0.01, users=(2, 0)), recorder=recorder)
        assert [row[:2] for row in recorder.rows] == [
            (pytest.approx(0.01 * sample), user) for sample in range(5) for user in (2, 0)
        ]
        assert recorder.rows[1][2] == pytest.approx(0.0)

    def test_constant_link_has_no_autocorrelation(self, monkeypatch):
        monkeypatch.setattr(SineLinks, "snr_db", lambda self, users, time_s: np.full(len(users), 7.0))
        metrics = probe_metrics([(0.0, 5.0)], self.PROBE)
        assert metrics["power_variance"] == pytest.approx(0.0, abs=1e-12)
        assert metrics["snr_mean_db"] == pytest.approx(7.0)
        assert "autocorrelation" not in metrics
        assert "fade_duration_s" not in metrics

    def test_availability_is_exact(self, planned_outages):
        """User 0 is down for 1 s and 2 s out of 10, user 1 from 8 s on, user 2 never."""
        outages = CombinedOutages([planned_outages({0: [(1.0, 2.0), (4.0, 6.0)], 1: [(8.0, 20.0)]})])
        metrics = probe_metrics([(0.0, 4.5), (4.5, 10.0)], Probe(every=1.0), outages=outages)
        assert metrics["availability"] == pytest.approx(1 - 5 / 30)
        assert metrics["up_mean_s"] == pytest.approx(25 / 3)
        assert metrics["down_mean_s"] == pytest.approx(5 / 2)
        late = probe_metrics([(0.0, 10.0)], Probe(every=1.0, users=(0,)), since_s=3.0, outages=outages)
        assert late["availability"] == pytest.approx(5 / 7)
