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


@pytest.mark.slow
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


@pytest.mark.slow
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
    """A frame is lost if and only if it is on the air while the gateway sends a version."""
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


CHANNELS = [{"channels": 10_000, "duty_cycle": 1}]
ANSWERS = {"acknowledgements": {"duty_cycle": 1, "second_duty_cycle": 1}, "sub_bands": CHANNELS}
ANSWER_S = float(time_on_air_s(12, 0, 125e3, crc=False))
"""Airtime of an acknowledgement at SF7."""


def test_certain_answers_change_no_attempt():
    """A gateway that always answers in time, to few users, is one whose acknowledgements take no airtime."""
    settings = {"duration_s": 400.0, "traffic": TRAFFIC | {"rate": 0.01}}
    mac = {"max_attempts": None, "sub_bands": CHANNELS}
    _, _, ideal = run(3, mac=mac, **settings)
    _, _, answered = run(3, mac=mac | ANSWERS, **settings)
    assert len(ideal) > 5
    pd.testing.assert_frame_equal(ideal, answered)


def test_uplink_without_an_answer_is_repeated():
    """The gateway answers the first uplink in its first window, the second in its second one, and then no other."""
    mac = {"max_attempts": None, "sub_bands": CHANNELS, "acknowledgements": {"duty_cycle": 1e-6,
           "second_duty_cycle": 1e-6}}  # fmt: skip
    rounds, log, attempts = run(
        1,
        rounds=4,
        mac=mac,
        compute={"speed": 0.01, "samples": 1},
        broadcast_rate="1 Gbps",
        update_size="20 B",
        round={"kind": "first", "m": 1},
        energy={"transmit": 1.0, "receive": 1.0},
    )
    assert [len(result.deliveries) for result in rounds] == [1] * 4
    assert [delivery.attempts for result in rounds for delivery in result.deliveries] == [1] * 4
    numbers = attempts[attempts["outcome"] == "received"].groupby("base").size()
    assert numbers.tolist() == [1, 1, 8, 1]  # the run ends with the last delivery
    repeated = attempts[attempts["base"] == 2]
    waits_s = repeated["start_s"].to_numpy()[1:] - repeated["end_s"].to_numpy()[:-1]
    assert ((waits_s >= 3.0) & (waits_s <= 5.0)).all()
    assert repeated["mode"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    second_s = float(time_on_air_s(12, 5, 125e3, crc=False))
    assert log.spendings["receiving_s"].sum() == pytest.approx(ANSWER_S + second_s, rel=1e-3)  # and the versions
    assert log.spendings["sending_s"].sum() == pytest.approx(attempts["airtime_s"].sum())
    sent = sum(1 for row in log.rows if row[0] == "sent")
    assert sent == len(attempts) == 11
    assert sum(result.uplink_bits for result in rounds) == 160.0 * sent
    assert sum(result.downlink_bits for result in rounds) == 4 * 160.0 + 2 * 96.0


@pytest.mark.parametrize(("until_s", "of_first"), [(101.5, 1), (103.0, 2)])
def test_gateway_that_is_down_uses_no_duty_cycle(until_s, of_first):
    """It is down 1 s after the end of the first uplink; if it is up after 2 s, it answers then.

    The duty cycles leave one answer in each window: the first two uplinks have them, or a repeat of the first one.
    """
    mac = {"max_attempts": None, "sub_bands": CHANNELS, "acknowledgements": {"duty_cycle": 1e-6,
           "second_duty_cycle": 1e-6}}  # fmt: skip
    window = {"nodes": ["tower:0"], "start": 100.5, "duration": until_s - 100.5}
    _, log, attempts = run(
        1,
        rounds=3,
        mac=mac,
        compute={"speed": 0.01, "samples": 1},
        broadcast_rate="1 Gbps",
        update_size="20 B",
        round={"kind": "first", "m": 1},
        outages=[{"kind": "maintenance", "windows": [window]}],
        energy={"transmit": 1.0, "receive": 1.0},
    )
    numbers = attempts[attempts["outcome"] == "received"].groupby("base").size()
    second_s = float(time_on_air_s(12, 5, 125e3, crc=False))
    assert attempts["end_s"][0] == pytest.approx(100.0, abs=0.1)
    assert numbers.tolist()[:2] == [of_first, 1]
    assert log.spendings["receiving_s"].sum() == pytest.approx(ANSWER_S + second_s, rel=1e-3)  # and the versions


def test_number_of_attempts_follows_the_losses_of_both_directions():
    """A user repeats until uplink and answer succeed, each with q: (1 - (1 - q²)^n) / q² attempts in the mean."""
    limit = 5
    mac = ANSWERS | {"version": "1.0.4", "max_attempts": limit}
    gain_db, threshold_db, noise_dbm = -131.0, -7.5, -174 + 10 * math.log10(125e3) + 6
    channel = [{"kind": "constant", "gain": f"{gain_db} dB"}, {"kind": "rayleigh", "coherence": "500 ms"}]
    q = math.exp(-(10 ** ((threshold_db - (14 + gain_db - noise_dbm)) / 10)))
    assert 0.4 < q < 0.9
    _, log, attempts = run(
        10, duration_s=40_000.0, mac=mac, channel=channel, traffic=TRAFFIC | {"rate": 0.01}, unreachable="keep"
    )
    packets = log.final_values["delivered"] / (1 - log.final_values["loss_ratio"])
    assert packets > 3000
    mean = (1 - (1 - q**2) ** limit) / q**2
    second = sum((2 * k + 1) * (1 - q**2) ** k for k in range(limit))  # E[N²] of the truncated geometric number
    error = math.sqrt((second - mean**2) / packets)
    assert len(attempts) / packets == pytest.approx(mean, abs=4 * error + 0.01 * mean)
    lost = (1 - q) ** limit
    assert log.final_values["loss_ratio"] == pytest.approx(lost, abs=4 * math.sqrt(lost / packets))


def test_answers_keep_the_duty_cycle_and_silence_the_receiver():
    """With a duty cycle of 2 % in the first window the gateway answers once in 50 airtimes, and else at SF12."""
    mac = {
        "max_attempts": 3,
        "version": "1.0.4",
        "half_duplex": True,
        "sub_bands": CHANNELS,
        "acknowledgements": {"duty_cycle": 0.02, "second_duty_cycle": 0.1},
    }
    duration_s = 1000.0
    _, log, attempts = run(
        100, duration_s=duration_s, mac=mac, traffic=TRAFFIC | {"rate": 0.02}, energy={"receive": 1.0, "transmit": 1.0}
    )
    answers_s = log.spendings["receiving_s"].sum()
    assert 0.9 * (0.02 + 0.1) * duration_s < answers_s <= (0.02 + 0.1) * duration_s + 1.2
    outcomes = attempts["outcome"].value_counts(normalize=True)
    second_s = float(time_on_air_s(12, 5, 125e3, crc=False))
    met = 0.02 * (1 + AIRTIME_S / ANSWER_S) + 0.1 * (1 + AIRTIME_S / second_s)  # any part of a frame meets an answer
    assert 0.85 * met < outcomes["busy"] < 1.02 * met
    assert len(attempts) > 1.5 * log.final_values["delivered"]  # most uplinks are repeated, as nothing answers them


def test_answers_need_confirmed_uplinks():
    with pytest.raises(ScenarioError, match="no effect on unconfirmed uplinks"):
        NetworkAccess(
            topology={"kind": "star", "radius": 10}, mac={"kind": "lorawan", "max_attempts": 1, "acknowledgements": {}}
        )


def test_half_duplex_needs_something_to_send():
    section = LORA | {"mac": {"kind": "lorawan", "half_duplex": True}, "traffic": TRAFFIC}
    access = NetworkAccess.model_validate({key: value for key, value in section.items() if key != "kind"})
    faults = [*access.faults(ScenarioFacts(users=2, rounds=1, duration_s=10.0))]
    assert [fault.key for fault in faults] == ["mac.half_duplex"]
    assert "towers send nothing" in str(faults[0])


def test_gateway_without_demodulators_is_refused():
    with pytest.raises(ScenarioError, match="greater than or equal to 1"):
        NetworkAccess(topology={"kind": "star", "radius": 10}, mac={"kind": "lorawan", "demodulators": 0})


@pytest.mark.parametrize("receivers", ["own", "all"])
def test_gateway_with_the_strongest_copy_answers(receivers):
    """Tower 1 has a better antenna: it answers the user of tower 0, too, whose frames both receive."""
    nodes = {f"tower:{index}": {"role": "tower", "position": [1000 * index, 0]} for index in range(2)}
    topology = {
        "kind": "inline",
        "nodes": {"server": {"role": "server", "position": [500, 0]}, **nodes},
        "links": [{"between": [name, "server"], "rate": "1 Gbps", "delay": 0} for name in nodes],
        "placement": {"kind": "listed", "positions": [[10, 0], [990, 0]]},
    }
    section = {key: value for key, value in LORA.items() if key not in {"kind", "topology"}}
    section["mac"] = {"kind": "lorawan", "spreading_factor": 7, "half_duplex": True} | ANSWERS
    section["radio"] = LORA["radio"] | {"towers": {"tower:1": {"antenna_gain": "40 dB"}}}
    access = NetworkAccess.model_validate(
        section | {"topology": topology, "receivers": receivers, "traffic": TRAFFIC | {"rate": 0.1}}
    )
    streams = Streams(1).at("access", 0)
    context = AccessContext(2, 1, 0, streams, np.ones(2), 160.0, 160.0, Memory(), duration_s=100.0)
    opened = access.open(context)
    list(opened.rounds)
    sent_until_s = [tower.cell.transmitter.sends_until_s for tower in opened.network._towers.values()]
    assert (sent_until_s[0] > 0.0) == (receivers == "own")
    assert sent_until_s[1] > 0.0
