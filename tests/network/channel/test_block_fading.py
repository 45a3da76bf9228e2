"""Retries at slot boundaries under block fading, through the whole network, compared with closed forms."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import netfl

Z_99 = NormalDist().inv_cdf(0.995)
LIMIT = 4
"""Maximum number of attempts of a frame."""
THRESHOLD_DB = -3.0
FADE_PROBABILITY = 1.0 - math.exp(-(10.0 ** (THRESHOLD_DB / 10.0)))
"""The probability that a Rayleigh block of mean SNR 0 dB fades."""
TRANSITIONS = np.array([[0.9, 0.1], [0.25, 0.75]])
"""Transition matrix of the Markov channel: state 0 is received, state 1 fades."""
CHANNELS = {
    "rayleigh": np.array([[1.0 - FADE_PROBABILITY, FADE_PROBABILITY], [1.0 - FADE_PROBABILITY, FADE_PROBABILITY]]),
    "markov": TRANSITIONS,
}


def faded_slots(tmp_path, kind, slot_s, coherence, slots):
    """Return whether the attempt in each slot faded, ``[slots]``, for one user who sends in every slot."""
    duration = f"{coherence * slot_s!r} s"
    channel = {"kind": "rayleigh", "coherence": duration}
    if kind == "markov":
        channel = {
            "kind": "markov",
            "gains": ["0 dB", "-20 dB"],
            "transitions": TRANSITIONS.tolist(),
            "block": duration,
        }
    scenario = {
        "name": "retries",
        "users": 1,
        "duration": (slots + 0.5) * slot_s,
        "record": ["delivered", "given_up"],
        "access": {
            "kind": "network",
            "topology": {"kind": "star", "distance": "1 m"},
            "radio": {"power": "-114 dBm", "bandwidth": "1 MHz"},
            "channel": [channel],
            "reception": {"kind": "snr_threshold", "threshold": f"{THRESHOLD_DB} dB", "rate": 1000.0 / slot_s},
            "unreachable": "keep",
            "mac": {"kind": "slotted_aloha", "probability": 1.0, "max_attempts": LIMIT},
            "traffic": {"kind": "saturated", "size": {"mean": 1000}, "destination": "tower"},
        },
    }
    events = netfl.trace(netfl.Scenario.model_validate(scenario), tmp_path / "run").events
    events = events.sort_values("time_s", kind="stable")
    ends = np.rint(events.time_s.to_numpy() / slot_s).astype(int)  # frames follow one another without gaps
    is_faded = np.ones(ends[-1], bool)
    is_faded[ends[(events.kind == "delivered").to_numpy()] - 1] = False
    return is_faded


def count_attempts(faded):
    """Return the number of attempts of each completed frame, where faded slots are repeated up to the limit."""
    attempts, current = [], 0
    for failed in faded.tolist():
        current += 1
        if not failed or current == LIMIT:
            attempts.append(current)
            current = 0
    return np.array(attempts)


def three_failures(matrix, coherence):
    """Return the share of frames whose first three attempts fail.

    The result is from the stationary distribution of the chain of (slot in the block, state, attempt).
    """
    index = {}
    for phase in range(coherence):
        for state in (0, 1):
            for attempt in range(1, LIMIT + 1):
                index[phase, state, attempt] = len(index)
    rates = np.zeros((len(index), len(index)))
    for (phase, state, attempt), row in index.items():
        next_attempt = attempt + 1 if state and attempt < LIMIT else 1
        for other in (0, 1):
            probability = matrix[state, other] if phase == coherence - 1 else float(other == state)
            rates[row, index[(phase + 1) % coherence, other, next_attempt]] += probability
    system = np.vstack([rates.T - np.eye(len(index)), np.ones(len(index))])
    share = np.linalg.lstsq(system, np.append(np.zeros(len(index)), 1.0), rcond=None)[0]
    started = sum(share[index[phase, state, 1]] for phase in range(coherence) for state in (0, 1))
    return sum(share[index[phase, 1, 3]] for phase in range(coherence)) / started


def interval(failed, expected, batches=200):
    """Return the measured share and half of its 99 % interval, from batches, because frames are correlated."""
    parts = np.array_split(failed - expected, batches)
    residuals = np.array([part.sum() for part in parts])
    return failed.mean(), Z_99 * residuals.std(ddof=1) * math.sqrt(batches) / len(failed)


@pytest.mark.parametrize("slot_s", [0.1, 1 / 3, 7e-3, 1e-3])
@pytest.mark.parametrize("coherence", [1, 2, 5])
@pytest.mark.parametrize("kind", [*CHANNELS])
def test_slots_of_block_fade_together(tmp_path, kind, coherence, slot_s):
    faded = faded_slots(tmp_path, kind, slot_s, coherence, 600)
    faded = faded[: len(faded) // coherence * coherence].reshape(-1, coherence)
    assert 0.1 < faded.mean() < 0.7
    assert (faded == faded[:, :1]).all()
    if kind == "rayleigh":
        repeats = np.mean(faded[1:, 0] == faded[:-1, 0])
        assert abs(repeats - (1 - 2 * FADE_PROBABILITY * (1 - FADE_PROBABILITY))) < 4.5 * 0.5 / math.sqrt(len(faded))


@pytest.mark.slow
@pytest.mark.parametrize(("coherence", "slot_s"), [(1, 0.1), (2, 1 / 3), (5, 7e-3)])
@pytest.mark.parametrize("kind", [*CHANNELS])
def test_three_failures_match_closed_form(tmp_path, kind, coherence, slot_s):
    """40,000 frames are compared within the 99 % interval; that slots of any length fade alike is tested above."""
    expected = three_failures(CHANNELS[kind], coherence)
    attempts = count_attempts(faded_slots(tmp_path, kind, slot_s, coherence, 80_000))[:40_000]
    assert len(attempts) == 40_000
    share, half = interval(attempts > 3, expected)
    assert abs(share - expected) < half, f"{share:.4%} ± {half:.4%}, expected {expected:.4%}"


def test_closed_form_of_one_slot_per_block():
    assert three_failures(CHANNELS["rayleigh"], 1) == pytest.approx(FADE_PROBABILITY**3)
