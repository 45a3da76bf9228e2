"""The logistic edge of LoRa's reception, compared with integrals that are evaluated apart from the model."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import integrate, stats

from netfl.errors import ScenarioError
from netfl.network.layout import NodeId
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.transmission import Frames, Transmission
from netfl.network.reception.lora import Lora
from netfl.streams import Streams

THRESHOLDS_DB = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}
FRAMES = 40_000


def logistic(snr_db, middle_db, width_db):
    return 1.0 / (1.0 + math.exp((middle_db - snr_db) / width_db))


def received_share(model, mode, draw_snr_db):
    """Return the share of frames that a medium receives, each alone and with an SNR of its own."""
    links = SimpleNamespace(
        bandwidth_hz=125e3,
        power_offset_db=None,
        users=FRAMES,
        snr_db=lambda users, time_s, tower="": draw_snr_db[users],
    )
    medium = FadingMedium(links, model, Connection(), Streams(3))
    tower = NodeId("tower:0", FRAMES)
    received = 0
    for user in range(FRAMES):
        ids = np.array([user])
        transmission = Transmission(Frames(ids, 400.0, None), ids, [0], tower, 0, 0.0, 1.0, mode)
        causes, _ = medium.outcomes(transmission)
        received += causes == [""]
    return received / FRAMES


@pytest.mark.parametrize("factor", THRESHOLDS_DB)
def test_curve_at_single_snrs(factor):
    model = Lora(curve="logistic", shift="-1 dB", width="1.5 dB")
    middle_db = THRESHOLDS_DB[factor] - 1.0
    snr_db = middle_db + np.array([-1.5 * math.log(9.0), 0.0, 1.5 * math.log(9.0)])
    assert model.success(snr_db, 125e3, 400.0, factor - 7).tolist() == pytest.approx([0.1, 0.5, 0.9])
    assert model.success(np.array([-np.inf, -1e9, 1e9]), 125e3, 400.0, factor - 7).tolist() == pytest.approx([0, 0, 1])


def test_mean_reception_under_normal_snr():
    """E[P] is the integral of the curve over the normal density of the SNR: mean -6 dB, σ = 4 dB, SF7."""
    model = Lora(curve="logistic", shift=1.0, width=2.0)
    density = stats.norm(-6.0, 4.0).pdf
    expected, _ = integrate.quad(lambda x: logistic(x, -6.5, 2.0) * density(x), -60.0, 50.0, points=[-6.5])
    snr_db = np.random.default_rng(1).normal(-6.0, 4.0, FRAMES)
    share = received_share(model, 0, snr_db)
    assert abs(share - expected) < 4.0 * math.sqrt(expected * (1.0 - expected) / FRAMES)


def test_mean_reception_under_rayleigh_fading():
    """The same with an exponential SNR of mean -15 dB, SF12 with a width of its own; and the claim of the model."""
    widths = {7: 1.0, 8: 1.0, 9: 1.0, 10: 1.0, 11: 1.0, 12: 3.0}
    model = Lora(curve="logistic", width=widths)
    expected, _ = integrate.quad(
        lambda y: math.exp(-y) * logistic(-15.0 + 10.0 * math.log10(y), -20.0, 3.0) if y else 0.0,
        0.0,
        50.0,
        points=[10.0**-0.5],
    )
    snr_db = -15.0 + 10.0 * np.log10(np.random.default_rng(2).exponential(size=FRAMES))
    share = received_share(model, 5, snr_db)
    assert abs(share - expected) < 4.0 * math.sqrt(expected * (1.0 - expected) / FRAMES)

    claimed, _ = integrate.quad(
        lambda y: math.exp(-y) * logistic(3.0 + 10.0 * math.log10(y), 0.0, 1.0) if y else 0.0, 0.0, 50.0
    )
    assert model.laws()[0].mean == pytest.approx(claimed, rel=1e-6)


def test_narrow_curve_is_that_of_the_data_sheet():
    snr_db = np.arange(-30.0, 0.0, 0.3) + 0.01  # none is at a minimum
    for mode in range(6):
        narrow = Lora(curve="logistic", width=1e-4).success(snr_db, 125e3, 400.0, mode)
        assert narrow.tolist() == pytest.approx(Lora().success(snr_db, 125e3, 400.0, mode).tolist(), abs=1e-9)


def test_threshold_is_that_of_any_spreading_factor():
    """At the threshold of the most robust factor 1 frame in 10⁹ is received, here SF12 at -20 - 2 ln(10⁹ - 1) dB."""
    model = Lora(curve="logistic", width={7: 1, 8: 1, 9: 1, 10: 1, 11: 1, 12: 2})
    assert model.threshold_db(125e3) == pytest.approx(-20.0 - 2.0 * math.log(1e9 - 1.0))
    assert model.success(np.array([model.threshold_db(125e3)]), 125e3, 400.0, 5)[0] == pytest.approx(1e-9)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"shift": "1 dB"}, "shift: has no effect without curve: logistic"),
        ({"curve": "logistic"}, "width: missing"),
        ({"curve": "logistic", "width": 0}, "width: should be greater than 0"),
        ({"curve": "logistic", "width": {7: 1}}, "width is given for the spreading factors 7"),
        ({"curve": "logistic", "width": dict.fromkeys(THRESHOLDS_DB, "x")}, "width.7: not a number"),
    ],
)
def test_errors_name_key_and_remedy(settings, words):
    with pytest.raises(ScenarioError, match=words):
        Lora(**settings)
