"""LoRaWAN gateways that cannot receive everything: few demodulators, and silence of the receiver while they send."""

import math

import numpy as np
import pandas as pd
import pytest
from support.recorders import Memory

from netfl.access.network import NetworkAccess
from netfl.errors import ScenarioError
from netfl.network.mac.lorawan import time_on_air_s
from netfl.streams import Streams
from netfl.types import AccessContext, ScenarioFacts

LORA = {
    "kind": "network",
    "topology": {"kind": "star", "radius": "100 m"},
    "radio": {"power": "14 dBm", "bandwidth": "125 kHz", "noise_figure": "6 dB"},
    "channel": [{"kind": "constant", "gain": "-60 dB"}],
    "reception": "lora",
}
AIRTIME_S = float(time_on_air_s(33, 0, 125e3))
"""Airtime of 20 bytes and a MAC header at SF7."""


def run(users, *, rounds=1, duration_s=None, seed=1, mac=None, **overrides):
    """Return the rounds, the recorder and the attempts of a network of LoRaWAN."""
    settings = {"kind": "lorawan", "spreading_factor": 7, "max_attempts": 1} | (mac or {})
    section = {key: value for key, value in (LORA | {"mac": settings} | overrides).items() if key != "kind"}
    access = NetworkAccess.model_validate(section)
    log = Memory(unknown=None)
    streams = Streams(seed).at("access", 0)
    context = AccessContext(users, rounds, 0, streams, np.ones(users), 160.0, 160.0, log, duration_s=duration_s)
    played = list(access.rounds(context))
    attempts = pd.concat([pd.DataFrame(part) for part in log.attempts], ignore_index=True)
    return played, log, attempts.sort_values("start_s", kind="stable", ignore_index=True)


def missed_by_hand(attempts, demodulators):
    """Return whether each frame begins while all *demodulators* are taken, in the order of starts."""
    ends_s, missed = [], []
    for start_s, end_s in zip(attempts["start_s"], attempts["end_s"], strict=True):
        ends_s = [other_s for other_s in ends_s if other_s > start_s]
        missed.append(len(ends_s) >= demodulators)
        if not missed[-1]:
            ends_s.append(end_s)
    return np.array(missed)


TRAFFIC = {"kind": "poisson", "rate": 0.2, "size": {"distribution": "fixed", "mean": "20 B"}}


@pytest.mark.parametrize("channels", [4, 5000])
def test_ninth_frame_is_missed(channels):
    """Frames beyond the demodulators are `busy`, or have collided, and all others are as without limits."""
    mac = {"demodulators": 3, "sub_bands": [{"channels": channels, "duty_cycle": 1}]}
    _, log, attempts = run(300, duration_s=100.0, mac=mac, traffic=TRAFFIC)
    missed = missed_by_hand(attempts, 3)
    outcomes = attempts["outcome"].to_numpy()
    ended = outcomes != "unfinished"
    assert missed.sum() > 100
    assert set(outcomes[missed & ended]) <= {"busy", "collided"}
    assert not (outcomes[~missed] == "busy").any()
    assert ((outcomes == "busy") & missed).any()
    _, _, unlimited = run(300, duration_s=100.0, mac=mac | {"demodulators": None}, traffic=TRAFFIC)
    assert unlimited["start_s"].tolist() == attempts["start_s"].tolist()
    changed = unlimited["outcome"].to_numpy() != outcomes
    assert (outcomes[changed] == "busy").all()
    assert (unlimited["outcome"][changed] == "received").all()
    assert log.final_values["attempts.busy"] == (outcomes == "busy").sum()
    assert log.attempts_by_user["attempts_busy"].sum() == (outcomes == "busy").sum()


def erlang_b(servers, load):
    """Return the probability that a call meets *servers* busy ones (A. K. Erlang, 1917)."""
    terms = [load**count / math.factorial(count) for count in range(servers + 1)]
    return terms[-1] / sum(terms)


@pytest.mark.parametrize("demodulators", [2, 8])
def test_share_of_missed_frames_is_erlangs_loss_formula(demodulators):
    """Of a Poisson number of frames, for holding times of any distribution."""
    load = 0.8 * demodulators
    users, duration_s = 2000, 400.0
    rate = load / AIRTIME_S / users
    mac = {"demodulators": demodulators, "sub_bands": [{"channels": 10_000, "duty_cycle": 1}], "orthogonal": True}
    _, _, attempts = run(users, duration_s=duration_s, mac=mac, traffic=TRAFFIC | {"rate": rate})
    busy = attempts["outcome"] == "busy"
    carried = 1.0 - (attempts["outcome"] == "collided").mean()  # few, on so many channels
    assert carried > 0.99
    expected = erlang_b(demodulators, len(attempts) * AIRTIME_S / duration_s)
    blocks = busy.to_numpy()[: len(busy) // 20 * 20].reshape(20, -1).mean(axis=1)  # of dependent frames
    assert abs(busy.mean() - expected) < 4.0 * blocks.std(ddof=1) / math.sqrt(20)
    assert attempts["airtime_s"].to_numpy() == pytest.approx(AIRTIME_S)


def test_weak_frames_take_no_demodulator():
    """User 0 is received alone; the other, too weak for any factor, sends all the time."""
    mac = {"demodulators": 1, "sub_bands": [{"channels": 1000, "duty_cycle": 1}], "spreading_factor": 7}
    radio = LORA["radio"] | {"power": ["14 dBm"] + ["-80 dBm"] * 20}
    _, _, attempts = run(21, duration_s=60.0, mac=mac, radio=radio, traffic=TRAFFIC | {"rate": 1}, unreachable="keep")
    weak = attempts["user"] > 0
    assert set(attempts["outcome"][weak]) == {"faded"}
    assert set(attempts["outcome"][~weak]) == {"received"}


def test_frames_that_begin_together_are_missed_at_random():
    """Two users of equal frames begin each round together, with one demodulator: both are received at times."""
    _, log, attempts = run(
        2,
        rounds=60,
        mac={"demodulators": 1, "sub_bands": [{"channels": 10_000, "duty_cycle": 1}]},
        compute={"speed": 1, "samples": 1},
        broadcast_rate="1 Gbps",
        update_size="20 B",
        round={"kind": "first", "m": 1},
    )
    together = attempts.groupby("start_s").filter(lambda rows: len(rows) == 2)
    assert len(together) == len(attempts) == 120
    received = together[together["outcome"] == "received"].groupby("user").size()
    assert received.sum() == 60
    assert received.min() > 12
    endings = {(row[0], row[6]) for row in log.rows if row[0] in {"lost", "delivered"}}
    assert endings == {("lost", "busy"), ("delivered", "")}


ROUNDS = {
    "compute": {"speed": 0.5, "samples": 1, "jitter": 0.8},
    "update_size": "50 B",
    "downlink": {"mode": "multicast", "power": "14 dBm"},
    "round": {"kind": "first", "m": 40, "deadline": "20 s", "losses": "unknown"},
    "on_new_version": "finish",
    "traffic": TRAFFIC | {"rate": 0.1},
}


@pytest.mark.parametrize("half_duplex", [True, False])
def test_gateway_that_sends_hears_nothing(half_duplex):
    """All frames that are on the air while a version is sent are missed, and no others."""
    mac = {"half_duplex": half_duplex, "sub_bands": [{"channels": 10_000, "duty_cycle": 1}]}
    _, log, attempts = run(40, rounds=30, mac=mac, **ROUNDS)
    arrivals_s = np.unique([row[1] for row in log.rows if row[0] in {"received", "held"} and row[5] is not None])
    broadcasts_s = np.array([row[1] for row in log.rows if row[0] == "broadcast"])
    ends_s = np.array([arrivals_s[np.searchsorted(arrivals_s, at_s)] for at_s in broadcasts_s])
    airtime_s = 50 * 8 / 292.97  # in the most robust mode, SF12
    spans = np.column_stack([ends_s - airtime_s, ends_s])
    overlaps = np.array([
        ((spans[:, 0] < end_s - 1e-6) & (spans[:, 1] > start_s + 1e-6)).any()
        for start_s, end_s in zip(attempts["start_s"], attempts["end_s"], strict=True)
    ])  # fmt: skip
    assert overlaps.sum() > 5
    outcomes = attempts["outcome"].to_numpy()
    if half_duplex:
        assert set(outcomes[overlaps]) <= {"busy", "collided", "unfinished"}
        assert not (outcomes[~overlaps] == "busy").any()
    else:
        assert not (outcomes == "busy").any()


def test_half_duplex_needs_something_to_send():
    section = LORA | {"mac": {"kind": "lorawan", "half_duplex": True}, "traffic": TRAFFIC}
    access = NetworkAccess.model_validate({key: value for key, value in section.items() if key != "kind"})
    faults = [*access.faults(ScenarioFacts(users=2, rounds=1, duration_s=10.0))]
    assert [fault.key for fault in faults] == ["mac.half_duplex"]
    assert "towers send nothing" in str(faults[0])


def test_gateway_without_demodulators_is_refused():
    with pytest.raises(ScenarioError, match="greater than or equal to 1"):
        NetworkAccess(topology={"kind": "star", "radius": 10}, mac={"kind": "lorawan", "demodulators": 0})
