"""The waterfall reception, compared with numerical integration and with frames of a whole network."""

import math

import numpy as np
import pytest
from scipy import integrate
from support.small_network import play

from netfl.network.reception import FadedFrames
from netfl.network.reception.waterfall import Waterfall

THRESHOLD_DB = 3.0


def mean_loss(mean_snr):
    """Return E[1 - exp(-m / (s̄ x))] over a gain x ~ Exp(1), by quadrature."""
    m = 10 ** (THRESHOLD_DB / 10)
    success, _ = integrate.quad(lambda x: math.exp(-m / (mean_snr * x) - x) if x else 0.0, 0.0, np.inf)
    return 1.0 - success


@pytest.mark.parametrize(
    ("sinr_db", "lost"), [(3.0, 1 - math.exp(-1.0)), (13.0, 1 - math.exp(-0.1)), (-7.0, 1 - math.exp(-10.0))]
)
def test_loss_at_one_sinr(sinr_db, lost):
    success = Waterfall(threshold=THRESHOLD_DB, rate=1e6).success(np.array([sinr_db]), 1e6, 1000.0)
    assert 1.0 - success[0] == pytest.approx(lost, rel=1e-12)


def test_no_signal_and_no_noise():
    success = Waterfall(threshold=THRESHOLD_DB, rate=1e6).success(np.array([-np.inf, np.inf]), 1e6, 1000.0)
    assert success.tolist() == [0.0, 1.0]


def test_a_frame_over_several_blocks_has_the_mean_loss():
    model = Waterfall(threshold=0.0, rate=1e6)
    frames = FadedFrames(np.array([[0.0, 10.0], [10.0, 10.0]]), np.array([0.25, 0.75]), 1e6, 1000.0)
    expected = [0.25 * math.exp(-1.0) + 0.75 * math.exp(-0.1), math.exp(-0.1)]
    assert model.success_over(frames) == pytest.approx(expected, rel=1e-12)


def test_without_a_rate_it_sends_at_capacity():
    model = Waterfall(threshold=0.0)
    assert model.expected_rate_bps(np.array([0.0, 10 * math.log10(3.0)]), 1e6) == pytest.approx([1e6, 2e6])


@pytest.mark.parametrize("mean_snr", [1e-3, 0.05, 1.0, 30.0, 1e4])
def test_mean_over_rayleigh_fading(mean_snr):
    """Losses and the ergodic capacity are the integrals over the gain."""
    model = Waterfall(threshold=THRESHOLD_DB, fading="rayleigh")
    snr_db = 10 * np.log10(np.array([mean_snr]))
    lost = 1.0 - model.success(snr_db, 1e6, 1000.0)[0]
    assert lost == pytest.approx(mean_loss(mean_snr), rel=1e-6)
    capacity, _ = integrate.quad(lambda x: math.log2(1.0 + mean_snr * x) * math.exp(-x), 0.0, np.inf)
    assert model.expected_rate_bps(snr_db, 1e6) == pytest.approx([1e6 * capacity], rel=1e-8)
    frames = FadedFrames(np.array([[snr_db[0], np.inf]]), np.array([0.5, 0.5]), 1e6, 1000.0)
    assert model.success_over(frames) == pytest.approx([1.0 - lost / 2], rel=1e-9)


def test_mean_over_rayleigh_fading_at_the_ends():
    model = Waterfall(threshold=0.0, fading="rayleigh")
    assert model.success(np.array([-np.inf, np.inf]), 1e6, 1000.0).tolist() == [0.0, 1.0]
    rates_bps = model.expected_rate_bps(np.array([-np.inf, np.inf]), 1e6)
    assert np.isfinite(rates_bps).all()
    assert rates_bps[0] > 0.0


@pytest.mark.slow
@pytest.mark.parametrize("rate", [1e6, None])
def test_losses_of_a_network_whose_users_share_the_band(rate):
    """Four users with a quarter of the band each: the noise of a quarter decides (|z| < 5)."""
    reception = {"kind": "waterfall", "threshold": THRESHOLD_DB}
    if rate is not None:
        reception["rate"] = rate
    _, log = play(
        4,
        800,
        topology={"kind": "star", "distance": "100 m"},
        radio={"power": "0 dBm", "bandwidth": "1 MHz", "noise_figure": "0 dB"},
        channel=[
            {"kind": "log_distance", "exponent": 3, "reference_loss": "50 dB"},
            {"kind": "rayleigh", "coherence": "1 us"},
        ],
        reception=reception,
        mac={"kind": "fdma", "division": "equal", "max_attempts": 1},
        update_size=80.0,
        round={"kind": "available", "deadline": "10 s"},
    )
    noise_dbm = -174.0 + 10 * math.log10(0.25e6)
    lost = mean_loss(10 ** ((0.0 - 50.0 - 60.0 - noise_dbm) / 10))
    attempts = log.final_values["attempts"]
    error = math.sqrt(lost * (1 - lost) / attempts)
    assert attempts == 3200
    assert abs(log.final_values["attempts.faded"] / attempts - lost) < 5 * error
