"""Outage under Rayleigh fading against its closed form, through the whole link budget; false-alarm rate 1e-6 each."""

import math

import numpy as np
import pytest

from netfl.network.channel.log_distance import LogDistance
from netfl.network.channel.rayleigh import Rayleigh
from netfl.network.radio import Air, Radio
from netfl.network.reception.shannon import Shannon
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.topology.star import Star
from netfl.streams import Streams

DRAWS = 20_000
RADIO = Radio(power="10 dBm", bandwidth="1 MHz", noise_figure="4 dB")
CHANNEL = (LogDistance(exponent=3, reference_loss="40 dB"), Rayleigh(coherence="10 ms"))


def outages(reception, distance_m):
    """How many of `DRAWS` transmissions over a Rayleigh link of this length are not received."""
    air = Air(RADIO, CHANNEL, Star(distance=distance_m).open(100, Streams(3)), Streams(3))
    users, time_s = np.arange(DRAWS) % 100, 0.01 * (np.arange(DRAWS) // 100)
    return np.count_nonzero(~reception.received(air.snr_db(users, time_s), RADIO.bandwidth))


def mean_snr(distance_m):
    """Received power over noise in linear units, by hand: 10 mW over 10^4 d³, in 10^(-17.4 + 6 + 0.4) mW of noise."""
    return 10.0 / (1e4 * distance_m**3) / 10 ** (-17.4 + 6 + 0.4)


def within_chance(count, probability):
    return abs(count - DRAWS * probability) < 4.9 * math.sqrt(DRAWS * probability * (1 - probability))


@pytest.mark.parametrize("distance_m", [50.0, 150.0, 300.0])
@pytest.mark.parametrize("threshold_db", [-3.0, 0.0, 7.0, 15.0])
def test_outage_probability_of_a_threshold(threshold_db, distance_m):
    expected = 1 - math.exp(-(10 ** (threshold_db / 10)) / mean_snr(distance_m))
    assert within_chance(outages(SnrThreshold(threshold=threshold_db, rate=1e6), distance_m), expected)


@pytest.mark.parametrize("distance_m", [50.0, 150.0, 300.0])
@pytest.mark.parametrize("rate_bps", [0.5e6, 1e6, 4e6])
def test_outage_probability_at_a_rate(rate_bps, distance_m):
    expected = 1 - math.exp(-(2 ** (rate_bps / 1e6) - 1) / mean_snr(distance_m))
    assert within_chance(outages(Shannon(rate=rate_bps), distance_m), expected)


def test_the_threshold_itself_is_received():
    model = SnrThreshold(threshold="7 dB", rate="2 kbps")
    assert model.received(np.array([6.999, 7.0, 7.001]), 1e6).tolist() == [False, True, True]
    assert model.rate_bps(1e6) == 2000.0


@pytest.mark.parametrize("rate_bps", [1.0, 1e5, 1e6, 1e7, 5e7])
def test_shannons_threshold_is_where_capacity_meets_the_rate(rate_bps):
    model = Shannon(rate=rate_bps)
    capacity_bps = 1e6 * math.log1p(10 ** (model.threshold_db(1e6) / 10)) / math.log(2)
    assert capacity_bps == pytest.approx(rate_bps, rel=1e-9)
    assert model.rate_bps(1e6) == rate_bps


def test_shannons_threshold_neither_overflows_nor_cancels():
    assert Shannon(rate=1e12).threshold_db(1e6) == pytest.approx(10 * 1e6 * math.log10(2))
    assert Shannon(rate=1e-9).threshold_db(1e6) == pytest.approx(10 * math.log10(1e-15 * math.log(2)))
