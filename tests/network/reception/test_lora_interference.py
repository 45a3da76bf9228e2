"""Interference of LoRa frames: thresholds of each pair of spreading factors, and collisions of equal powers."""

import math
from bisect import bisect_left
from types import SimpleNamespace

import numpy as np
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.network.clock import Clock
from netfl.network.event_log import EventLog
from netfl.network.interference.sinr import Sinr
from netfl.network.layout import NodeId
from netfl.network.radio.cell import Cell
from netfl.network.radio.connection import Connection
from netfl.network.radio.fading_medium import FadingMedium
from netfl.network.radio.medium import AirInterface
from netfl.network.radio.transmission import SharedChannel
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.reception.lora import Lora
from netfl.network.updates import OutstandingUpdates
from netfl.network.users import UserPopulation
from netfl.streams import Streams
from netfl.types import AccessContext

FACTORS = range(7, 13)
PUBLISHED_DB = {  # Croce et al. 2018: the minimum SIR of a frame (row) against frames of another factor (column)
    7: [1, -8, -9, -9, -9, -9],
    8: [-11, 1, -11, -12, -13, -13],
    9: [-15, -13, 1, -13, -14, -15],
    10: [-19, -18, -17, 1, -17, -18],
    11: [-22, -22, -21, -20, 1, -20],
    12: [-25, -25, -25, -24, -23, 1],
}
STRONG_DB = 60.0


def outcomes(factors, snr_db, starts_s=None):
    """Return whether users who each send one frame of 1 s, with given spreading factor and SNR, are received."""
    users, env, received = len(factors), Clock(), []
    event_log = EventLog(Memory(), users)
    event_log.open_round(1)
    starts_s = np.zeros(users) if starts_s is None else np.array(starts_s, float)
    queue = UpdateQueue(np.arange(users), 1000.0, "tower:0", event_log, OutstandingUpdates(users))
    updates = UserPopulation(queue, starts_s)
    links = SimpleNamespace(
        bandwidth_hz=125e3,
        power_offset_db=None,
        users=users,
        delay_s=lambda users, time_s, tower="": None,
        snr_db=lambda users, time_s, tower="": np.array(snr_db, float)[users],
    )
    medium = FadingMedium(links, Lora(), Connection(), Streams(1), interference=Sinr())
    air_interface = AirInterface(NodeId("tower:0", 100), medium, SharedChannel())
    cell = Cell(env, air_interface, queue, Streams(1), received.append)
    updates.receive_and_train(np.arange(users), starts_s, 0)

    def serve():
        for start_s in np.unique(starts_s):
            yield env.timeout(start_s - env.now)
            senders = np.flatnonzero(starts_s == start_s)
            cell.attempt(senders, limit=1, duration_s=1.0, mode=np.array(factors)[senders] - 7)

    env.process(serve())
    env.run(until=10.0)
    return [user in {message.user for message in received} for user in range(users)]


def min_sir_db(factor, other):
    """Return the minimum SIR in dB at which a frame with *factor* is received beside one with *other*."""
    steps = range(-40, 20)
    return steps[
        bisect_left(
            steps, True, key=lambda sir_db: outcomes([factor, other], [STRONG_DB, STRONG_DB - sir_db - 1e-6])[0]
        )
    ]


def test_thresholds_match_published_values():
    thresholds = {factor: [min_sir_db(factor, other) for other in FACTORS] for factor in FACTORS}
    assert thresholds == PUBLISHED_DB


@pytest.mark.parametrize("factor", FACTORS)
def test_equal_powers_interfere_within_one_factor(factor):
    assert outcomes([factor, factor], [STRONG_DB, STRONG_DB]) == [False, False]
    assert outcomes([factor, factor], [STRONG_DB, STRONG_DB], [0.0, 0.9]) == [False, False]
    assert outcomes([factor, factor], [STRONG_DB, STRONG_DB], [0.0, 1.5]) == [True, True]
    other = 7 + (factor - 6) % 6
    assert outcomes([factor, other], [STRONG_DB, STRONG_DB]) == [True, True]


def test_power_of_each_factor_is_summed():
    """SF 9 at 60 dB tolerates an SF 8 that is 13 dB stronger; two of SF 8 must be 3.01 dB weaker each."""
    assert outcomes([9, 8, 10], [60.0, 72.9, 72.9])[0], "factors are not added"
    assert outcomes([9, 8], [60.0, 73.1]) == [False, True]
    assert outcomes([9, 8, 8], [60.0, 69.9, 69.9])[0]
    assert not outcomes([9, 8, 8], [60.0, 70.1, 70.1])[0]
    assert outcomes([9, 8, 8], [60.0, 72.9, 72.9], [0.5, 0.0, 1.1])[0], "one ends before the other starts"


def test_noise_threshold_is_independent_of_interference():
    """SF 12 needs -20 dB over the noise: at -19.9 dB it is received with an SF 7 that is 24.9 dB stronger."""
    assert outcomes([12, 7], [-19.9, 5.0]) == [True, True]
    assert outcomes([12, 7], [-19.9, 5.2]) == [False, True]
    assert outcomes([12], [-20.1]) == [False]
    assert outcomes([7, 12], [-7.6, -40.0])[0] is False


EQUAL = {
    "topology": {"kind": "star", "distance": "100 m"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-100 dB"}],
    "reception": {"kind": "lora"},
    "mac": {
        "kind": "lorawan",
        "spreading_factor": 7,
        "sub_bands": [{"channels": 1, "duty_cycle": 1}],
        "max_attempts": 1,
    },
}
USERS, AIRTIME_S, SHARE = 300, 0.071936, 0.304
"""20 bytes and 13 of headers take 70.25 symbols of 1.024 ms at SF 7."""


def run_equal_powers(interference, duration_s=600.0):
    """Return the metrics and received frames of users at equal powers with a random cycle.

    The received share is (1 - 2 T / μ)^(n-1) for any distribution of the cycle, as each user is silent for at least
    T: the maximum of the 2 s until its second receive window, and of the exponential time until its next packet, of
    mean m. So μ = T + 2 + m exp(-2 / m).
    """
    cycle_s = 2.0 * AIRTIME_S / (1.0 - SHARE ** (1.0 / (USERS - 1)))
    pause_s = cycle_s
    for _ in range(50):
        pause_s = (cycle_s - AIRTIME_S - 2.0) * math.exp(2.0 / pause_s)
    traffic = {"kind": "poisson", "rate": 1.0 / pause_s, "buffer": 1, "destination": "tower"}
    traffic["size"] = {"distribution": "fixed", "mean": "20 B"}
    recorder = Memory()
    access = NetworkAccess.model_validate(EQUAL | {"interference": interference, "traffic": traffic})
    streams = Streams(1).at("access", 0)
    setting = AccessContext(
        USERS, 1, 0, streams, np.ones(USERS), 1.0, 1.0, recorder, duration_s=duration_s, warmup_s=100.0
    )
    list(access.rounds(setting))
    return recorder.final_values, [row[1:4] for row in recorder.rows if row[0] == "delivered"]


@pytest.mark.slow
def test_equal_powers_collide_as_in_pure_aloha():
    """0.304 = exp(-2 G) at G = 0.595 for many users; the same frames are received as with `collide`."""
    metrics, received = run_equal_powers("sinr")
    share, frames = 1.0 - metrics["collision_probability"], metrics["attempts"]
    assert abs(share - SHARE) < 4.5 * math.sqrt(2.0 * SHARE * (1.0 - SHARE) / frames), share
    assert (metrics, received) == run_equal_powers("collide")
