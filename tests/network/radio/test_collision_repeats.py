"""Users that stay synchronised: lock-step is found, and cells with many random collisions are not."""

import numpy as np
import pytest

from netfl.network.mac.csma_ca import CsmaCa
from netfl.network.mac.multichannel_aloha import MultichannelAloha
from netfl.network.mac.pure_aloha import PureAloha
from netfl.network.mac.slotted_aloha import SlottedAloha
from netfl.network.radio.bench import BenchSetup, MacTestBench, saturated_users
from netfl.streams import Streams


def find_repeats(mac, users, next_ready=saturated_users, airtimes=2000, airtime_s=1.0):
    """Return the repeated collisions that a cell finds, and the share of its attempts that collide."""
    bench = MacTestBench(BenchSetup(mac, users, airtime_s, Streams(1)), next_ready)
    bench.env.run(until=airtimes * airtime_s)
    path = bench.cell.transmit_path
    return path.repeats.repeated, path.failed["collided"] / path.attempts


def every(period_s):
    """Return a source of updates for all users at the same times, in each period."""
    return lambda users, now_s: np.full(len(users), period_s * np.ceil(now_s / period_s + 1e-9))


@pytest.mark.parametrize(
    "mac",
    [
        PureAloha(backoff=1.0, max_attempts=1),
        SlottedAloha(probability=1.0, max_attempts=1),
        MultichannelAloha(probability=1.0, channels=3, max_attempts=1),
    ],
)
def test_users_in_lock_step_are_found(mac):
    """Ten users begin together every 20 airtimes, and repeat nothing; other channels do not hide it."""
    repeated, share = find_repeats(mac, 10, every(20.0), 1500)
    assert share > 0.9
    assert repeated.share == pytest.approx(1.0, abs=0.05)
    assert repeated.chance == pytest.approx(2 / 20)


@pytest.mark.quick_first
@pytest.mark.parametrize(
    ("mac", "users", "min_share"),
    [
        (SlottedAloha(probability=0.9), 2, 0.8),
        (SlottedAloha(probability=0.3), 20, 0.9),
        (SlottedAloha(probability=0.05), 20, 0.5),
        (PureAloha(backoff=0.05), 10, 0.99),
        (PureAloha(backoff=3.0), 10, 0.9),
        (MultichannelAloha(probability=0.3, channels=3), 20, 0.7),
    ],
)
def test_saturated_cells_are_not(mac, users, min_share):
    repeated, share = find_repeats(mac, users, airtimes=300)
    assert share > min_share
    assert repeated is None


def test_stations_with_carrier_sense_are_not():
    mac = CsmaCa(standard="802.11b")
    repeated, share = find_repeats(mac, 50, airtimes=500, airtime_s=1e-3)
    assert share > 0.3
    assert repeated is None


@pytest.mark.slow
@pytest.mark.parametrize("mac", [PureAloha(backoff=20.0), SlottedAloha(probability=0.1)])
def test_users_that_begin_together_and_retry_at_random_are_not(mac):
    repeated, share = find_repeats(mac, 5, every(200.0), 20_000)
    assert share > 0.1
    assert repeated is None


def test_few_collisions_are_no_evidence():
    """31 repeats at most, one in each period."""
    assert find_repeats(PureAloha(backoff=1.0, max_attempts=1), 2, every(20.0), 20 * 16)[0] is None
