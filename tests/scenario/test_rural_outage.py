"""The radio of `rural_outage`: rates, coverage and energy, counted from the formulas of its sources."""

import math

import numpy as np
import pytest

import netfl

UPDATE_BITS = 32 * (64 * 10 + 10 + 1)
"""The 650 parameters of the model, and the variable t of the CVaR, at 4 bytes each."""
NOISE_DBM = -174.0 + 10 * math.log10(180e3) + 3.0


@pytest.fixture(scope="module")
def access():
    return netfl.load("rural_outage").access


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {"rounds": 30, "record": {"events": "all", "attempts": True}}
    return netfl.trace(netfl.load("rural_outage", changes), tmp_path_factory.mktemp("rural") / "run", progress=False)


def coupling_loss_db(distance_m):
    """Return the loss by M. Hata (1980), suburban, at 850 MHz under a tower of 50 m, with the gain of 6 dB."""
    log_f, log_h = math.log10(850.0), math.log10(50.0)
    small_city_db = (1.1 * log_f - 0.7) * 1.5 - (1.56 * log_f - 0.8)
    decade_db = 44.9 - 6.55 * log_h
    urban_db = 69.55 + 26.16 * log_f - 13.82 * log_h - small_city_db + decade_db * np.log10(distance_m / 1000.0)
    return urban_db - 2 * math.log10(850.0 / 28.0) ** 2 - 5.4 - 6.0


def test_thresholds_are_those_of_an_energy_of_6_db_for_each_bit(access):
    modes = access.reception.table
    assert [mode.rate for mode in modes] == [250, 500, 1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 62.5e3]
    for mode in modes:
        assert mode.threshold == pytest.approx(10 * math.log10(10**0.6 * mode.rate / 180e3), abs=0.05)


def test_slowest_mode_reaches_the_maximum_coupling_loss(access):
    assert access.radio.power - 164.0 - NOISE_DBM == pytest.approx(access.reception.table[0].threshold, abs=0.1)


def test_broadcast_reaches_the_maximum_coupling_loss(access):
    bits_per_s = 10 ** ((35.0 - 164.0 + 174.0 - 5.0 - 6.0) / 10)  # 35 dBm, noise figure 5 dB, 6 dB for each bit
    assert access.broadcast_rate == pytest.approx(bits_per_s, rel=0.01)


def test_airtime_of_an_update_is_its_size_over_the_rate(run):
    received = run.attempts[run.attempts["outcome"] == "received"]
    assert received["airtime_s"].min() == pytest.approx(0.333312)  # 2604 B at 62.5 kbit/s
    for rate in (UPDATE_BITS / received["airtime_s"]).unique():
        assert min(abs(rate - each) for each in (250, 500, 1e3, 2e3, 4e3, 8e3, 16e3, 32e3, 62.5e3)) < 1e-3


def test_attempts_follow_the_link_budget(run):
    """Shadowing alone separates the SNR of an attempt from the formula: constant for a user, 10 dB over users."""
    users = run.users.set_index("user")["distance_m"]
    snr_db = run.attempts.groupby("user")["snr_db"]
    assert (snr_db.max() - snr_db.min()).max() < 1e-6
    mean_db = 23.0 - coupling_loss_db(users[snr_db.mean().index]) - NOISE_DBM
    shadowing_db = snr_db.mean() - mean_db
    assert abs(shadowing_db.mean()) < 3 * 10 / len(shadowing_db) ** 0.5
    assert 6 < shadowing_db.std() < 14


def test_energy_of_a_user_follows_its_airtimes(run):
    airtime_s = run.attempts.groupby("user")["airtime_s"].sum().reindex(run.users["user"], fill_value=0.0)
    energy = run.table("energy").set_index("user")
    np.testing.assert_allclose(energy["send_J"], 0.59 * airtime_s, rtol=1e-9)
    np.testing.assert_allclose(energy["idle_J"], 2.3e-3 * run.rounds["closed_s"].max(), rtol=1e-9)


@pytest.mark.slow
def test_shares_of_users_in_the_classes_of_coverage():
    """Coupling losses up to 144, 154 and 164 dB, and beyond.

    The right shares are from 400,000 independent draws of a place in the disc and of the shadowing.
    """
    scenario = netfl.load("rural_outage")
    access = scenario.model_dump()["access"] | {"update_size": "9644 B", "outages": []}
    access["compute"]["samples"] = 1
    many = {"name": "many", "users": 40_000, "rounds": 1, "access": access}
    with netfl.Simulation(many) as simulation:
        loss_db = 23.0 - simulation.state.snr_db - NOISE_DBM
    shares, _ = np.histogram(loss_db, [-np.inf, 144.0, 154.0, 164.0, np.inf])
    np.testing.assert_allclose(shares / 40_000, [0.835, 0.133, 0.029, 0.003], atol=0.006)
