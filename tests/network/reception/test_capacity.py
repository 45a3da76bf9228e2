"""Rates above Shannon's limit are warned of, for each reception with modes, and for measured rates."""

import math

import pytest
from support.small_network import make

from netfl.errors import ScenarioError
from netfl.network.reception.lora import Lora
from netfl.network.reception.mcs import Mcs
from netfl.network.reception.modulation import Modulation
from netfl.network.reception.snr_threshold import SnrThreshold
from netfl.network.reception.waterfall import Waterfall

LIMIT = "Shannon's limit"


def warnings(users=3, **overrides):
    access, context, _ = make(users, 1, **{"unreachable": "keep"} | overrides)
    return [text for text in access.warnings(context) if LIMIT in text]


def radio(bandwidth):
    return {"power": "20 dBm", "bandwidth": bandwidth}


class TestCapacity:
    def test_threshold_gives_its_capacity(self):
        """B log2(1 + 10^(-0.75)) = 0.2362 B."""
        model = SnrThreshold(threshold="-7.5 dB", rate=5500)
        assert model.capacity_bps(125.0) == pytest.approx(125 * math.log2(1 + 10**-0.75), rel=1e-6)
        assert 5500 / model.capacity_bps(125.0) == pytest.approx(186, abs=0.5)

    @pytest.mark.parametrize("bandwidth_hz", [125e3, 250e3, 20e6])
    @pytest.mark.parametrize(
        "model",
        [
            Lora(),
            Mcs(standard="lte"),
            Mcs(standard="802.11a"),
            Modulation(scheme="bpsk"),
            Modulation(scheme="64qam"),
            Modulation(scheme="16qam", code_rate=0.5, coding_gain=4),
        ],
    )
    def test_modes_of_standards_are_possible(self, model, bandwidth_hz):
        for mode in range(model.modes):
            assert model.rate_bps(bandwidth_hz, mode) < model.capacity_bps(bandwidth_hz, mode)

    def test_mode_that_any_signal_suffices_for_has_no_limit(self):
        assert Waterfall(threshold="-400 dB", rate=1e6).capacity_bps(1e6) == math.inf


class TestWarning:
    def test_forgotten_kilohertz(self):
        (warning,) = warnings(
            reception={"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": 5500}, radio=radio(125)
        )
        assert warning == (
            "access.reception, snr_threshold: its rate, 5500 bit/s, is 186 times Shannon's limit at its threshold in a "
            "bandwidth of 125 Hz (29.52 bit/s); check the units of access.radio.bandwidth and of the rate"
        )

    @pytest.mark.parametrize(("rate", "is_expected"), [(124_000, False), (126_000, True)])
    def test_limit_itself(self, rate, is_expected):
        """At 0 dB the capacity is one bit per second and hertz."""
        found = warnings(reception={"kind": "snr_threshold", "threshold": "0 dB", "rate": rate}, radio=radio("125 kHz"))
        assert bool(found) == is_expected

    def test_mode_of_a_table_is_named(self):
        rows = [{"kind": "snr_threshold", "threshold": f"{db} dB", "rate": rate} for db, rate in ((2, 1e5), (7, 1e6))]
        (warning,) = warnings(reception={"kind": "mcs", "table": rows}, radio=radio("200 kHz"))
        assert "access.reception, mcs: the rate of mode 1, 1e+06 bit/s, is 1.93 times" in warning

    def test_code_that_gains_too_much(self):
        model = {"kind": "modulation", "scheme": "16qam", "code_rate": 0.9, "coding_gain": "20 dB"}
        (warning,) = warnings(reception=model, radio=radio("1 MHz"))
        assert "access.reception, modulation: its rate, 3.6e+06 bit/s" in warning

    def test_narrowest_radio_decides(self):
        bands = {"power": "20 dBm", "bandwidth": ["125 kHz", 125.0, "125 kHz"]}
        (warning,) = warnings(
            reception={"kind": "snr_threshold", "threshold": "-7.5 dB", "rate": 5500}, radio=bands, mac="fdma"
        )
        assert "in a bandwidth of 125 Hz" in warning

    @pytest.mark.parametrize("rate", ["1 Mbps", None])
    def test_shannon_itself_is_never_beyond(self, rate):
        assert warnings(reception={"kind": "shannon", "rate": rate}, radio=radio(125), mac="fdma") == []

    def test_measured_rates_that_need_more_than_was_sent_are_refused(self, tmp_path):
        """5 Mbit/s in 125 kHz need 120.4 dB; 20 dBm over the thermal noise of 125 kHz are 143 dB, of 12.5 kHz 153."""
        file = tmp_path / "drive.csv"
        file.write_text("user,time_s,rate_bps\n" + "".join(f"{user},0,5e6\n" for user in range(3)))
        channel = [{"kind": "trace", "file": str(file), "after_end": "hold"}]
        assert warnings(channel=channel, radio=radio("125 kHz"), reception="shannon", mac="fdma") == []
        with pytest.raises(ScenarioError) as error:
            warnings(channel=channel, radio=radio("12.5 kHz"), reception="shannon", mac="fdma")
        first = str(error.value).splitlines()[0]
        assert "column rate_bps: more than the radio's power can give ('5e6')" in first
        assert "gives an SNR of 153 dB in its noise: check the unit of the value, and that of radio.bandwidth" in first


class TestNarrowLayout:
    @staticmethod
    def texts(positions):
        placement = {"kind": "listed", "positions": positions}
        access, context, _ = make(
            3, 1, topology={"kind": "star", "placement": placement}, unreachable="keep",
            channel=[{"kind": "log_distance", "exponent": 3, "frequency": "868 MHz"}],
        )  # fmt: skip
        words = ("unit of the positions", "look like degrees", "stands for no position")
        return [text for text in access.warnings(context) if any(word in text for word in words)]

    def test_positions_in_degrees_are_doubted(self):
        (warning,) = self.texts([[11.575, 48.137], [11.582, 48.139], [11.58, 48.131]])
        assert warning.startswith("access.topology.placement: all users are within 0.008 m, with coordinates within")
        assert self.texts([[11.5, 48.1], [11.5, 48.1], [11.5, 48.1]]) == []
        assert self.texts([[50.25, 0], [50, 0], [50, 0.5]]) == []

    def test_positions_in_kilometres_are_doubted(self):
        (warning,) = self.texts([[0.5, 0.1], [1.2, 0], [2, 0.3]])
        assert warning.startswith("access.topology.placement: no user is farther than 2.02 m from its tower")
        assert self.texts([[0.5, 0.1], [1.2, 0], [200, 30]]) == []

    def test_numbers_that_stand_for_no_position_are_doubted(self):
        (warning,) = self.texts([[120, 80], [-9999, -9999], [300, 40]])
        assert "access.topology.placement: user 1 is at (-9999, -9999), far from all others" in warning
        (warning,) = self.texts([[5e5, 48e5], [-999, -999], [-999, -999]])
        assert "(2 of 3 users); give each user a position" in warning

    @pytest.mark.parametrize("mark", [[-9999, -9998], [-100, -100], [9999, 9999], [-99, 99]])
    def test_other_far_positions_are_positions(self, mark):
        assert self.texts([[120, 80], mark, [300, 40]]) == []

    def test_a_mark_within_the_extent_of_the_others_is_a_position(self):
        assert self.texts([[12000, -9000], [-9999, -9999], [-8000, 9000]]) == []
