"""Shares of the band where users take no part in a round or are cut off, and what `netfl check` says of them."""

import copy

import numpy as np
import pytest
from support.small_network import SECTION
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.simulation.setup import notes, warnings

SELECTED = {
    "name": "selected",
    "users": 40,
    "rounds": 80,
    "access": {
        "kind": "network",
        "round": {"kind": "available", "deadline": "20 s"},
        "topology": {"kind": "star", "radius": "500 m"},
        "radio": {"power": "10 dBm", "bandwidth": "1 MHz", "noise_figure": "6 dB"},
        "channel": [
            {"kind": "log_distance", "exponent": 3.76, "reference_loss": "15.3 dB"},
            {"kind": "rayleigh", "coherence": "10 s"},
        ],
        "reception": {"kind": "shannon", "gap": "3 dB"},
        "mac": {"kind": "fdma"},
        "selection": {"kind": "uniform", "m": 8},
        "compute": {"speed": 500, "spread": 0.5, "samples": 50},
        "broadcast_rate": "5 Mbps",
        "update_size": "154 kbit",
    },
}
"""Eight of forty users take part in a round."""
BANDWIDTH_HZ = 1e5
BITS = 1e5
PART = {"selection": {"kind": "uniform", "m": 2}, "round": {"kind": "available", "deadline": "20 s"}}


def uploads(tmp_path, users=10, mac=None, **access):
    """Return the deliveries of users at one distance with the airtimes of their updates, and those in the whole band.

    A share s of the band carries s B log2(1 + snr / s).
    """
    parts = {
        "mac": {"kind": "fdma"} | (mac or {}),
        "radio": {"power": "0 dBm", "bandwidth": BANDWIDTH_HZ},
        "channel": [{"kind": "log_distance", "exponent": 3.0, "frequency": "868 MHz"}],
        "reception": "shannon",
        "topology": {"kind": "star", "distance": "300 m", "rate": "1000 Gbps", "delay": 0},
        "compute": {"speed": 100, "samples": 1},
        "update_size": BITS,
    }
    scenario = {
        "name": "band",
        "users": users,
        "rounds": 20,
        "record": {"events": ["delivered"], "attempts": True},
        "access": copy.deepcopy(SECTION) | parts | access,
    }
    run = netfl.trace(netfl.load(scenario), tmp_path / "run", progress=False)
    loss_db = 20.0 * np.log10(4.0 * np.pi * 868e6 / 299792458.0) + 30.0 * np.log10(300.0)
    snr = 10.0 ** ((0.0 - loss_db - (-174.0 + 10.0 * np.log10(BANDWIDTH_HZ))) / 10.0)

    def airtime_s(share):
        return BITS / (share * BANDWIDTH_HZ * np.log2(1.0 + snr / share))

    return run.attempts, airtime_s


class TestEqualShares:
    def test_users_that_are_not_selected_have_none(self, tmp_path):
        """Two of ten users train for the same time and send together, each in half of the band."""
        attempts, airtime_s = uploads(tmp_path, **PART)
        assert len(attempts) == 40
        assert attempts["airtime_s"].to_numpy() == pytest.approx(np.full(40, airtime_s(1 / 2)))

    def test_users_that_are_cut_off_have_none(self, tmp_path):
        """Eight of ten users are down all the time, but for a moment long after the run."""
        down = {"kind": "maintenance", "windows": [{"nodes": [*range(8)], "start": "0 s", "duration": "1 day"}]}
        attempts, airtime_s = uploads(tmp_path, outages=[down], round={"kind": "first", "m": 2, "deadline": "20 s"})
        assert set(attempts["user"]) == {8, 9}
        assert attempts["airtime_s"].to_numpy() == pytest.approx(np.full(len(attempts), airtime_s(1 / 2)))

    def test_shares_of_all_users_can_be_set(self, tmp_path):
        attempts, airtime_s = uploads(tmp_path, mac={"among": "users"}, **PART)
        assert attempts["airtime_s"].to_numpy() == pytest.approx(np.full(40, airtime_s(1 / 10)))

    def test_each_user_of_a_round_has_a_fixed_share_by_an_allocation(self, tmp_path):
        """Two of ten users train for different times, but each sends in half of the band: B / m for a round."""
        attempts, airtime_s = uploads(
            tmp_path,
            mac={"division": "allocated"},
            allocation="equal",
            compute={"speed": 100, "samples": 1, "spread": 0.9},
            **PART,
        )
        assert attempts["airtime_s"].to_numpy() == pytest.approx(np.full(40, airtime_s(1 / 2)))


def test_selected_users_divide_the_band_by_default(tmp_path):
    """Uploads of 8 of 40 users take less than in 1/40 of the band each, and about as long as in 1/8."""
    upload_s = {}
    for name, mac in (("default", {}), ("users", {"among": "users"}), ("allocated", {"division": "allocated"})):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["mac"] |= mac
        if name == "allocated":
            scenario["access"]["allocation"] = "equal"
        run = netfl.trace(netfl.load(scenario), tmp_path / name, progress=False)
        upload_s[name] = (run.deliveries["arrived_s"] - run.deliveries["sent_s"]).mean()
    assert upload_s["default"] < upload_s["allocated"] < 0.6 * upload_s["users"]


class TestNotes:
    @pytest.mark.parametrize(
        ("changes", "part"),
        [
            ({}, "(among: backlog): 1/8 for each of 8 users, all of it for one"),
            ({"among": "users"}, "1/40 for each of 40 users of a cell all the time"),
            ({"among": "users"}, "32 or more take no part in a round, and their shares stay idle"),
            ({"division": "need"}, "(division: need), all of it for one"),
            ({"division": "allocated"}, "with allocation: equal, 1/8 for each of 8 users"),
            ({"division": "given", "shares": [0.025] * 40}, "each user has its share of access.mac.shares"),
        ],
    )
    def test_check_says_which_share_a_user_gets(self, changes, part):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["mac"] |= changes
        (note,) = notes(netfl.load(scenario))
        assert note.startswith("band: ")
        assert part in note

    def test_without_an_allocation_all_users_have_shares(self):
        """A run has uploads in 1/40 of the band; those of 1/8 are of a scenario that names an allocation."""
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["mac"]["division"] = "allocated"
        (note,) = notes(netfl.load(scenario))
        assert "without an allocation, 1/40 for each of 40 users" in note
        scenario["access"]["allocation"] = "equal"
        (note,) = notes(netfl.load(scenario))
        assert "1/40" not in note

    def test_radios_that_are_narrower_than_the_band_are_named(self):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["radio"]["bandwidth"] = ["1 MHz"] * 37 + ["100 kHz", "50 kHz", "100 kHz"]
        _, note = notes(netfl.load(scenario))
        assert "3 of 40 users have radios narrower than the band" in note
        assert "user 38 at most 0.05 of it" in note

    def test_one_user_of_a_round_has_all_of_the_band(self):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["selection"]["m"] = 1
        (note,) = notes(netfl.load(scenario))
        assert note.endswith("(among: backlog): all of it for one user")

    def test_check_prints_it(self, tmp_path):
        path = tmp_path / "s.yaml"
        path.write_text(netfl.load(SELECTED).to_yaml(), "utf-8")
        printed = CliRunner().invoke(app, ["check", str(path)])
        assert "  band: the tower divides it equally" in printed.stdout

    def test_other_macs_have_none(self):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"]["mac"] = "round_robin"
        assert [*notes(netfl.load(scenario))] == []


class TestMissingAllocation:
    def warnings_of(self, **access):
        scenario = copy.deepcopy(SELECTED)
        scenario["access"] |= access
        return [text for text in warnings(netfl.load(scenario)) if "lets an allocation give the shares" in text]

    def test_shares_that_nothing_gives_are_warned_of(self):
        (warning,) = self.warnings_of(mac={"kind": "fdma", "division": "allocated"})
        assert warning.startswith("access.mac: fdma lets an allocation give the shares, and there is none")
        assert "add access.allocation, or set access.mac.division: equal" in warning

    def test_remedies_work(self):
        assert self.warnings_of(mac={"kind": "fdma", "division": "allocated"}, allocation="equal") == []
        assert self.warnings_of(mac={"kind": "fdma", "division": "equal"}) == []
