"""Reception compared with independent calculations.

Outage under Rayleigh fading uses the whole link budget (false-alarm rate 1e-6 each), error rates the sum over all
wrong decisions, thresholds and rates the values of the standards.
"""

import math

import numpy as np
import pytest

from netfl.errors import ScenarioError
from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.radio.link_budget import LinkBudget
from netfl.network.radio.radios import Radio
from netfl.network.reception.mcs import Mcs
from netfl.network.reception.modulation import Modulation, bit_error_rate, measured_errors, rayleigh_bit_error_rate
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.topology.star import Star
from netfl.streams import Streams

DRAWS = 20_000
RADIO = Radio(power="10 dBm", bandwidth="1 MHz", noise_figure="4 dB")
CHANNEL = (LogDistance(exponent=3, reference_loss="40 dB"), Rayleigh(coherence="10 ms"))


def count_fades(reception, distance_m):
    """Return how many of `DRAWS` transmissions over a Rayleigh link of this length are lost."""
    links = LinkBudget(RADIO, CHANNEL, Star(distance=distance_m).open(100, Streams(3)), Streams(3))
    users, time_s = np.arange(DRAWS) % 100, 0.01 * (np.arange(DRAWS) // 100)
    return np.count_nonzero(~reception.is_received(links.snr_db(users, time_s), RADIO.bandwidth))


def mean_snr(distance_m):
    """Return the mean SNR by hand: 10 mW over 10^4 d³, in 10^(-17.4 + 6 + 0.4) mW of noise."""
    return 10.0 / (1e4 * distance_m**3) / 10 ** (-17.4 + 6 + 0.4)


def is_within_error(count, probability):
    return abs(count - DRAWS * probability) < 4.9 * math.sqrt(DRAWS * probability * (1 - probability))


@pytest.mark.parametrize("distance_m", [50.0, 150.0, 300.0])
@pytest.mark.parametrize("threshold_db", [-3.0, 0.0, 7.0, 15.0])
def test_fade_probability_of_threshold(threshold_db, distance_m):
    expected = 1 - math.exp(-(10 ** (threshold_db / 10)) / mean_snr(distance_m))
    assert is_within_error(count_fades(SnrThreshold(threshold=threshold_db, rate=1e6), distance_m), expected)


@pytest.mark.parametrize("distance_m", [50.0, 150.0, 300.0])
@pytest.mark.parametrize("rate_bps", [0.5e6, 1e6, 4e6])
def test_fade_probability_at_a_rate(rate_bps, distance_m):
    expected = 1 - math.exp(-(2 ** (rate_bps / 1e6) - 1) / mean_snr(distance_m))
    assert is_within_error(count_fades(Shannon(rate=rate_bps), distance_m), expected)


def test_threshold_is_inclusive():
    model = SnrThreshold(threshold="7 dB", rate="2 kbps")
    assert model.is_received(np.array([6.999, 7.0, 7.001]), 1e6).tolist() == [False, True, True]
    assert model.rate_bps(1e6) == 2000.0


@pytest.mark.parametrize("rate_bps", [1.0, 1e5, 1e6, 1e7, 5e7])
def test_shannon_threshold_matches_capacity(rate_bps):
    model = Shannon(rate=rate_bps)
    capacity_bps = 1e6 * math.log1p(10 ** (model.threshold_db(1e6) / 10)) / math.log(2)
    assert capacity_bps == pytest.approx(rate_bps, rel=1e-9)
    assert model.rate_bps(1e6) == rate_bps


def test_shannon_threshold_is_numerically_stable():
    assert Shannon(rate=1e12).threshold_db(1e6) == pytest.approx(10 * 1e6 * math.log10(2))
    assert Shannon(rate=1e-9).threshold_db(1e6) == pytest.approx(10 * math.log10(1e-15 * math.log(2)))


LEVELS = {"bpsk": 2, "qpsk": 2, "16qam": 4, "64qam": 8}
BITS = {"bpsk": 1, "qpsk": 2, "16qam": 4, "64qam": 6}


def snr_at_ebn0(scheme, ebn0_db):
    """Return the SNR in dB of an uncoded link of this scheme, without roll-off, at this Eb/N0."""
    return ebn0_db + 10 * math.log10(BITS[scheme])


def error_rate(scheme, snr_db, **options):
    return Modulation(scheme=scheme, **options).bit_error_rate(np.atleast_1d(snr_db), 1e6)


def error_rate_by_decisions(scheme, ebn0_db):
    """Return the bit error rate as the sum over all sent and decided levels of their differing bits."""
    count = LEVELS[scheme]
    bits = count.bit_length() - 1
    codes = ["".join(code) for code in gray_code(bits)]
    levels = np.arange(count) * 2.0 - (count - 1)
    bit_energy = np.mean(levels**2) / bits
    sigma = math.sqrt(bit_energy / 10 ** (ebn0_db / 10) / 2)
    edges = [-math.inf, *(levels[:-1] + 1.0), math.inf]
    cdf = lambda x, level: 0.5 * math.erfc(-(x - level) / (sigma * math.sqrt(2)))  # noqa: E731
    total = 0.0
    for sent, level in enumerate(levels):
        for decided in range(count):
            probability = cdf(edges[decided + 1], level) - cdf(edges[decided], level)
            total += probability * sum(a != b for a, b in zip(codes[sent], codes[decided], strict=True))
    return total / (count * bits)


def gray_code(bits):
    """Return the Gray code by reflection."""
    if bits == 0:
        return [()]
    shorter = gray_code(bits - 1)
    return [("0", *code) for code in shorter] + [("1", *code) for code in reversed(shorter)]


@pytest.mark.parametrize("ebn0_db", [-20.0, -3.0, 0.0, 4.0, 8.0, 11.0])
@pytest.mark.parametrize("scheme", LEVELS)
def test_bit_error_rates_match_sum_over_decisions(scheme, ebn0_db):
    assert error_rate(scheme, snr_at_ebn0(scheme, ebn0_db)) == pytest.approx(
        error_rate_by_decisions(scheme, ebn0_db), rel=1e-6
    )


@pytest.mark.parametrize(("scheme", "ebn0_db"), [("bpsk", 9.59), ("qpsk", 9.59), ("16qam", 13.43), ("64qam", 17.79)])
def test_textbook_values_at_error_rate_1e_5(scheme, ebn0_db):
    assert error_rate(scheme, snr_at_ebn0(scheme, ebn0_db)) == pytest.approx(1e-5, rel=0.03)


def test_error_rates_at_extreme_snr():
    for scheme in LEVELS:
        assert error_rate(scheme, [-math.inf, -300.0]) == pytest.approx([0.5, 0.5], rel=1e-9)
        assert error_rate(scheme, [60.0, math.inf]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("mean_db", [-3.0, 7.0, 20.0])
def test_bpsk_under_rayleigh_fading(mean_db):
    """The mean over 200 000 quantiles of the exponential distribution is compared with ½ (1 - √(γ / (1 + γ)))."""
    gain = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000)
    mean = 10 ** (mean_db / 10)
    faded = 1 - Modulation(scheme="bpsk").success(10 * np.log10(mean * gain), 1e6, 1.0).mean()
    assert faded == pytest.approx(0.5 * (1 - math.sqrt(mean / (1 + mean))), rel=2e-4)


@pytest.mark.parametrize("scheme", ["bpsk", "16qam", "64qam"])
def test_rayleigh_error_rate_is_mean_over_gains(scheme):
    gain = -np.log1p(-(np.arange(20_000) + 0.5) / 20_000)
    for mean in (0.3, 10.0):
        over_gains = bit_error_rate(LEVELS[scheme], mean * gain).mean()
        assert rayleigh_bit_error_rate(LEVELS[scheme], mean) == pytest.approx(over_gains, rel=2e-3)


@pytest.mark.parametrize("scheme", ["bpsk", "16qam", "64qam"])
def test_measured_errors_match_sum_over_decisions(scheme):
    """Within 5 standard errors of symbols, because the bits of a symbol are correlated."""
    for ebn0_db in (-3.0, 4.0):
        errors = measured_errors(LEVELS[scheme], 10 ** (ebn0_db / 10), Streams(3).at(scheme), 20_000)
        assert abs(errors.mean() - error_rate_by_decisions(scheme, ebn0_db)) < 5 * errors.std() / math.sqrt(errors.size)


def test_packet_needs_every_bit():
    model = Modulation(scheme="qpsk")
    snr_db = np.array([5.0, 8.0])
    error_rates = model.bit_error_rate(snr_db, 1e6)
    assert model.success(snr_db, 1e6, 3.0) == pytest.approx([(1 - p) ** 3 for p in error_rates])
    assert 1 - model.success(np.array([14.0]), 1e6, 1000.0)[0] == pytest.approx(
        1000 * 0.5 * math.erfc(math.sqrt(10**1.4 / 2)), rel=2e-4
    )


def test_rates_with_rolloff_and_codes():
    plain = Modulation(scheme="64qam")
    assert plain.rate_bps(1e6) == 6e6
    assert Modulation(scheme="64qam", rolloff=0.25).rate_bps(1e6) == 4.8e6
    assert Modulation(scheme="16qam", code_rate=0.75).rate_bps(1e6) == 3e6
    # the same Eb/N0: fewer bits over the same power have more energy each; a code gains 3 dB
    expected = plain.bit_error_rate(np.array([15.0]), 1e6)
    slower = Modulation(scheme="64qam", rolloff=1.0)
    assert slower.bit_error_rate(np.array([15.0 - 10 * math.log10(2)]), 1e6) == pytest.approx(expected)
    coded = Modulation(scheme="64qam", code_rate=0.5, coding_gain="3 dB")
    assert coded.bit_error_rate(np.array([12.0 - 10 * math.log10(2)]), 1e6) == pytest.approx(expected)


@pytest.mark.parametrize("bits", [100.0, 12_000.0, 1e7])
def test_success_is_negligible_below_threshold(bits):
    model = Modulation(scheme="16qam")
    threshold_db = model.threshold_db(1e6, bits)
    assert model.success(np.array([threshold_db]), 1e6, bits) == pytest.approx(1e-9, rel=1e-6)


def test_short_packets_have_no_threshold():
    assert Modulation(scheme="bpsk").threshold_db(1e6, 20.0) == -math.inf


WLAN = Mcs(standard="802.11a")


def test_rates_of_80211a():
    """IEEE 802.11: 6 … 54 Mb/s in 20 MHz, and half of that in 10 MHz."""
    assert [WLAN.rate_bps(20e6, mode) / 1e6 for mode in range(8)] == [6, 9, 12, 18, 24, 36, 48, 54]
    assert WLAN.rate_bps(10e6, 7) == 27e6


def test_80211a_sensitivities():
    noise_dbm = -174 + 10 * math.log10(20e6) + 15  # a noise figure of 15 dB
    for mode, sensitivity_dbm in enumerate([-82, -81, -79, -77, -74, -70, -66, -65]):
        snr_db = sensitivity_dbm - noise_dbm + np.array([-0.1, 0.1])
        assert WLAN.success(snr_db, 20e6, 8000.0, mode).tolist() == [0.0, 1.0]
        assert WLAN.choose(snr_db, 20e6).tolist() == [max(0, mode - 1), mode]
    assert WLAN.threshold_db(20e6) == pytest.approx(4.0, abs=0.02)


def test_lte_efficiencies_match_table():
    """3GPP TS 36.213, table 7.2.3-1, with 168 symbols in a millisecond of 180 kHz."""
    lte = Mcs(standard="lte")
    table = [0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141]
    table += [2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547]
    assert [lte.rate_bps(180e3, mode) / 168e3 for mode in range(15)] == pytest.approx(table, abs=5.1e-5)
    assert lte.choose(np.array([-9.0, -2.0, 24.1]), 180e3).tolist() == [0, 0, 14]
    thresholds = [lte.rows[mode].threshold for mode in (0, 6, 14)]
    assert thresholds == pytest.approx([-2.1, 9.9, 24.1], abs=0.1)  # 5.53 × (2^η - 1), by hand


def test_choice_by_margin_is_independent_of_row_order():
    rows = [
        {"kind": "snr_threshold", "threshold": threshold_db, "rate": rate}
        for threshold_db, rate in ((9, 3e6), (0, 1e6), (5, 2e6))
    ]
    snr_db = np.array([-20.0, 2.9, 3.0, 7.9, 8.0, 11.9, 12.0, 90.0])
    assert Mcs(table=rows, margin="3 dB").choose(snr_db, 1e6).tolist() == [1, 1, 1, 1, 2, 2, 0, 0]
    assert Mcs(table=rows).threshold_db(1e6) == 0.0
    assert Mcs(table=rows).modes == 3


def test_choice_by_packet_error():
    rows = [{"kind": "modulation", "scheme": scheme} for scheme in BITS]
    model = Mcs(table=rows, packet="100 B", packet_error=0.2)
    snr_db = np.linspace(-5.0, 40.0, 200)
    chosen = model.choose(snr_db, 1e6)
    assert sorted(set(chosen.tolist())) == [0, 1, 2, 3]
    for value_db, mode in zip(snr_db, chosen, strict=True):
        error_rates = [error_rate_by_decisions(scheme, value_db - 10 * math.log10(BITS[scheme])) for scheme in BITS]
        feasible = [index for index, p in enumerate(error_rates) if (1 - p) ** 800 >= 0.8]
        assert mode == max(feasible, default=0)


def test_choice_at_exact_packet_error():
    class HalfReception(SnrThreshold):
        def success(self, sinr_db, bandwidth_hz, bits, mode=0):
            return np.full(len(sinr_db), 0.5)

    rows = (SnrThreshold(threshold=0, rate=1e6), HalfReception(threshold=0, rate=2e6))
    model = Mcs(table=[{"kind": "snr_threshold", "threshold": 0, "rate": 1e6}], packet_error=0.5)
    assert model.model_copy(update={"table": rows}).choose(np.array([3.0]), 1e6).tolist() == [1]
    stricter = {"table": rows, "packet_error": 0.49}
    assert model.model_copy(update=stricter).choose(np.array([3.0]), 1e6).tolist() == [0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "exactly one"),
        ({"standard": "802.11a", "table": [{"kind": "shannon", "rate": 1e6}]}, "exactly one"),
        ({"table": [{"kind": "mcs", "standard": "lte"}]}, "several modes"),
        ({"standard": "lte", "packet": "40 B"}, "no effect"),
    ],
)
def test_invalid_tables_are_rejected(fields, message):
    with pytest.raises(ScenarioError, match=message):
        Mcs(**fields)


def test_coding_gain_requires_code():
    with pytest.raises(ScenarioError, match="needs a code"):
        Modulation(scheme="bpsk", coding_gain="3 dB")
