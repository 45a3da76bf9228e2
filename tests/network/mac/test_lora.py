"""LoRa airtimes compared with published calculators; rates and thresholds compared with the data sheet."""

import numpy as np
import pytest

from netfl.network.mac.lorawan import time_on_air_s
from netfl.network.reception.lora import Lora, fastest_mode, fastest_mode_of


@pytest.mark.parametrize(
    ("size", "coding", "milliseconds"),
    [
        # the airtime sheet of The Things Network's community, after AN1200.13: 24 bytes and 13 of headers
        (37, 1, [82.176, 143.872, 267.264, 493.568, 1069.056, 1974.272]),
        # Semtech's calculator as quoted: 10 bytes at SF7, SF11, SF12; 64 bytes at SF7, SF12; 255 bytes at SF7
        (10, 1, [41.216, None, None, None, 577.536, 991.232]),
        (64, 1, [118.016, None, None, None, None, 2793.472]),
        (255, 1, [399.616, None, None, None, None, None]),
        (13, 1, [None, None, 164.864, None, None, None]),
    ],
)
def test_airtimes_match_published_calculators(size, coding, milliseconds):
    airtimes = 1e3 * time_on_air_s(size, np.arange(6), 125e3, coding)
    for mode, published in enumerate(milliseconds):
        if published is not None:
            assert airtimes[mode] == pytest.approx(published, abs=5e-4), f"SF{mode + 7}"


def test_low_data_rate_optimisation_depends_on_symbol_length():
    """At 250 kHz only symbols of SF12 exceed 16 ms: a block has 44 bits at SF11, but 40 at SF12."""
    airtimes = time_on_air_s(20, [4, 5], 250e3) * 250e3 / 2.0 ** np.array([11, 12]) - 12.25
    blocks_11, blocks_12 = -(-(160 - 44 + 44) // 44), -(-(160 - 48 + 44) // 40)
    assert airtimes.tolist() == pytest.approx([8 + 5 * blocks_11, 8 + 5 * blocks_12])


def test_rates_and_sensitivities_match_data_sheet():
    """Bit rates at 125 kHz and code rate 4/5; sensitivities at a noise figure of 6 dB."""
    model = Lora()
    rates = [model.rate_bps(125e3, mode) for mode in range(6)]
    assert np.round(rates).tolist() == [5469, 3125, 1758, 977, 537, 293]
    noise_dbm = -174 + 10 * np.log10(125e3) + 6
    for mode, sensitivity_dbm in enumerate([-123, -126, -129, -132, -134.5, -137]):
        levels = np.arange(-150.0, -110.0, 0.25)
        success = model.success(levels - noise_dbm, 125e3, 400.0, mode)
        assert levels[success > 0][0] == pytest.approx(sensitivity_dbm, abs=1.5)
    assert model.choose(np.array([3.0, -7.5, -9.0, -19.0, -25.0]), 125e3).tolist() == [0, 0, 1, 5, 5]
    assert Lora(margin=5.0).choose(np.array([0.0, -4.0]), 125e3).tolist() == [0, 1]
    assert model.threshold_db(125e3) == -20.0


def test_fastest_mode_of_one_snr():
    levels = np.concatenate([np.linspace(-25.0, 0.0, 101), [-np.inf, np.inf]])
    assert [fastest_mode_of(level) for level in levels] == fastest_mode(levels).tolist()
