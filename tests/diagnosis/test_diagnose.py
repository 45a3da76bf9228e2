"""The complete diagnosis: verdicts, notes and JSON."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from netfl.diagnosis import ExpectedProcess, diagnose, from_table, participation_from_sequence
from netfl.diagnosis.multiple_testing import holm_rejections, kind_of
from netfl.errors import ScenarioError

BENCHMARK = Path(__file__).parents[2] / "benchmarks/verdicts.py"


@pytest.fixture(scope="module")
def verdicts():
    """The benchmark, imported as a module."""
    spec = importlib.util.spec_from_file_location("verdicts", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["verdicts"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["verdicts"]


@pytest.mark.parametrize("kind", ["stationary", "Markovian", "cyclic", "non-stationary", "emergent-correlated"])
@pytest.mark.slow
def test_verdicts_and_intervals_are_correct(verdicts, kind):
    """Run some processes of `benchmarks/verdicts.py`: one of each form with 3, 30 and 250 users."""
    outcomes = [verdicts.outcome(kind, index, 7) for index in range(50) if index % 10 in {0, 7} or index == 14]
    accuracy = np.mean([outcome.verdict == kind for outcome in outcomes])
    assert accuracy >= 0.9
    assert np.mean([outcome.covered for outcome in outcomes if outcome.covered is not None] or [1.0]) >= 0.9


@pytest.mark.slow
def test_false_alarm_rate_is_below_the_level(verdicts):
    """At most 5 % of 150 stationary processes, plus three standard errors, get another verdict."""
    result = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        delivered = rng.random((400, 4)) < 0.3 if seed % 2 else np.eye(5, dtype=bool)[rng.integers(0, 5, 400)]
        result.append(diagnose(delivered, seed=seed).verdict != "stationary")
    assert np.mean(result) <= 0.05 + 3 * (0.05 * 0.95 / 150) ** 0.5


def test_verdict_is_the_finding_of_highest_priority():
    assert kind_of({"drift": True, "cycle": False, "memory": True, "dependence": False}) == "non-stationary"
    assert kind_of({"drift": False, "cycle": True, "memory": True, "dependence": None}) == "cyclic"
    assert kind_of({"drift": False, "cycle": False, "memory": True, "dependence": True}) == "Markovian"
    assert kind_of({"drift": False, "cycle": False, "memory": False, "dependence": True}) == "emergent-correlated"
    assert kind_of({"drift": False, "cycle": False, "memory": False, "dependence": None}) == "stationary"


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ({"drift", "cycle"}, "cycle + drift"),
        ({"drift", "dependence"}, "drift + correlation"),
        ({"cycle", "dependence"}, "cycle + correlation"),
        ({"drift", "cycle", "dependence"}, "cycle + drift + correlation"),
    ],
)
def test_verdict_has_all_causes_that_are_found(found, verdict):
    assert kind_of({name: name in found for name in ("drift", "cycle", "dependence")} | {"memory": True}) == verdict


def test_holm_rejections_match_hand_calculation():
    assert holm_rejections([0.04, 0.013, 0.012, 0.5], 0.05) == [False, True, True, False]
    assert holm_rejections([0.03, 0.03], 0.05) == [False, False]
    assert holm_rejections([None, 0.05], 0.05) == [None, True]


def test_cycle_in_seconds_is_detected_with_random_round_lengths():
    rng = np.random.default_rng(1)
    closed_s = np.cumsum(rng.exponential(600, 4000))
    day = closed_s / 86400 % 1
    delivered = rng.random((4000, 6)) < np.where((day < 0.5)[:, None] == (np.arange(6) < 3), 0.25, 0.05)
    at, user = np.nonzero(delivered)
    table = pd.DataFrame({"round": at + 1, "user": user})
    result = diagnose(from_table(table, users=6, rounds=4000, closed_s=closed_s))
    assert result.verdict == "cyclic"
    assert result.cycle.period_s == pytest.approx(86400, rel=0.03)
    assert "24 h" in result.sentence or "23 h" in result.sentence


def test_periodic_round_lengths_are_no_cycle_of_deliveries():
    rng = np.random.default_rng(2)
    lengths_s, now_s = [], 0.0
    for _ in range(3000):
        lengths_s.append(rng.exponential(900 if now_s % 86400 < 43200 else 300))
        now_s += lengths_s[-1]
    table = pd.DataFrame({"round": np.arange(1, 3001), "user": rng.choice(5, 3000, p=[0.4, 0.3, 0.15, 0.1, 0.05])})
    assert diagnose(from_table(table, users=5, closed_s=np.cumsum(lengths_s))).verdict == "stationary"


def test_memory_reports_a_matrix_and_a_mixing_time():
    rng = np.random.default_rng(3)
    sequence = [0]
    for draw in rng.random(4000):
        sequence.append(sequence[-1] if draw < 0.8 else int(rng.integers(0, 3)))
    result = diagnose(participation_from_sequence(np.array(sequence), users=3))
    assert result.verdict == "Markovian"
    assert result.order.matrix == pytest.approx(0.8 * np.eye(3) + 0.2 / 3, abs=0.05)
    assert result.order.eigenvalue == pytest.approx(0.8, abs=0.03)
    assert result.order.mixing == pytest.approx(np.log(0.25 / (2 / 3)) / np.log(0.8), abs=1.5)
    assert result.order.entropy_rate < np.log2(3)


def test_json_contains_all_results():
    rng = np.random.default_rng(4)
    delivered = np.c_[rng.random((500, 3)) < [0.5, 0.2, 0.1], np.zeros((500, 1), bool)]
    known = ExpectedProcess("a test", "stationary", np.array([0.5, 0.2, 0.1, 0.0]), {"CVaR": 0.3})
    result = diagnose(delivered, expected=known, alphas=[0.2])
    flat = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert flat["verdict"] == "stationary"
    assert flat["agrees"] is True
    assert flat["waits.age"][3] is None
    assert flat["reach.tails.alpha"] == [0.2, 0.3]
    assert flat["concentration.never"] == 1
    assert len(flat["rates.low"]) == len(flat["users"]) == 4
    assert {
        f"tests.{name}.p" for name in ("drift", "cycle", "memory", "dependence", "second", "stays", "windows")
    } <= set(flat)
    assert not any(isinstance(value, dict) for name, value in flat.items() if name != "expected.alphas")


def test_rates_that_differ_from_the_expected_rates():
    delivered = np.random.default_rng(5).random((2000, 2)) < 0.3
    assert diagnose(delivered, expected=ExpectedProcess("a test", None, np.array([0.3, 0.4]))).agrees is False


def test_diagnosis_is_reproducible_with_a_seed():
    delivered = np.random.default_rng(6).random((300, 4)) < 0.3
    assert diagnose(delivered, seed=3).to_json() == diagnose(delivered, seed=3).to_json()


def test_few_rounds_give_a_note():
    assert any(
        "With 100 rounds, the tests have little power" in note
        for note in diagnose(np.random.default_rng(7).random((100, 3)) < 0.3).notes
    )


def sticky(rng, rounds, users, stay):
    """Return users available half of the time, in stays of about ``2 / (1 - stay)`` rounds."""
    x = np.zeros((rounds, users), bool)
    x[0] = rng.random(users) < 0.5
    for at, draws in enumerate(rng.random((rounds - 1, users)), start=1):
        x[at] = np.where(draws < stay, x[at - 1], rng.random(users) < 0.5)
    return x


@pytest.mark.parametrize(("stay", "has_note"), [(0.98, True), (0.8, False)])
def test_long_memory_in_a_short_recording_gives_a_note(stay, has_note):
    result = diagnose(sticky(np.random.default_rng(8), 1000, 4, stay))
    notes = [note for note in result.notes if "too few for the stated intervals" in note]
    assert bool(notes) == has_note
    assert all("drift" in note for note in notes)


def test_cycle_gives_no_note_about_long_memory():
    delivered = np.repeat(np.arange(4000) % 400 < 200, 2).reshape(4000, 2) ^ [False, True]
    result = diagnose(delivered)
    assert result.verdict == "cyclic"
    assert not any("too few for the stated intervals" in note for note in result.notes)


@pytest.mark.slow
def test_only_the_most_frequent_users_are_tested():
    """The 200 rarest of 1,200 users have memory; the tests exclude them."""
    rng = np.random.default_rng(9)
    delivered = rng.random((600, 1200)) < np.repeat([0.5, 0.15], [1000, 200])
    delivered[:, 1000:] = np.repeat(delivered[:200, 1000:], 3, axis=0)
    result = diagnose(delivered)
    assert result.verdict == "stationary"
    assert all(test.p is None or test.p > 0.01 for test in result.tests)
    assert result.rates.inflation[1000:].min() > 1.2


def test_level_must_be_a_probability():
    with pytest.raises(ScenarioError, match="not a probability"):
        diagnose(np.eye(2, dtype=bool), level=1.0)


@pytest.mark.parametrize("misses", [0, 1, 3])
def test_always_delivered_users_are_stationary(misses):
    """The spectrum of constant users is zero or nearly zero."""
    delivered = np.ones((400, 6), bool)
    delivered[:, 3] = False
    delivered[[50, 201, 350][:misses], 3] = True
    assert diagnose(delivered).verdict == "stationary"


def causes(seed, drift=0.0, cycle=0.0, loss=0.0, rounds=2000, users=8):
    """Return users whose log-odds go up or down by *drift* and differ between 8 phases, with a common *loss*."""
    rng = np.random.default_rng(seed)
    slope = np.where(np.arange(users) % 2, 1.0, -1.0) * drift
    odds = rng.uniform(-1, 1, users) + (np.arange(rounds)[:, None] / rounds - 0.5) * slope
    odds += cycle * rng.normal(size=(8, users))[np.arange(rounds) % 8]
    delivered = rng.random((rounds, users)) < 1 / (1 + np.exp(-odds))
    return delivered & (rng.random((rounds, 1)) >= loss)


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ({"drift": 2.0, "cycle": 0.7}, "cycle + drift"),
        ({"drift": 2.0, "loss": 0.1}, "drift + correlation"),
        ({"cycle": 0.7, "loss": 0.1}, "cycle + correlation"),
        ({"drift": 2.0, "cycle": 0.7, "loss": 0.1}, "cycle + drift + correlation"),
        ({"drift": 2.0}, "non-stationary"),
        ({"cycle": 0.7}, "cyclic"),
        ({"loss": 0.1}, "emergent-correlated"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.slow
def test_verdict_text_and_json_name_all_causes(parts, verdict):
    result = diagnose(causes(3, **parts))
    assert result.verdict == verdict
    assert ("participation changes over the recording" in result.sentence) == ("drift" in parts)
    assert ("repeats every 8 rounds" in result.sentence) == ("cycle" in parts)
    together = "are delivered together more often than their rates explain" in result.sentence
    assert together == ("loss" in parts)
    flat = result.to_json()
    assert flat["verdict"] == verdict
    assert flat["tests.dependence.yes"] == ("loss" in parts)
    beyond = [name for name in ("cycle", "drift") if name in parts]
    assert flat["dependence.beyond"] == beyond
    answer = {test.name: test.answer for test in result.tests}["dependence"]
    assert answer.endswith(
        f"beyond the {' and the '.join(beyond)}" if beyond else ("group" if "loss" in parts else "no")
    )


@pytest.mark.slow
def test_dependence_is_tested_if_the_short_period_is_a_harmonic_of_the_long_one():
    """The rates of 24 phases are drawn; that of even and odd rounds is named as a cycle of its own."""
    rng = np.random.default_rng(0)
    odds = 0.8 * rng.normal(size=(24, 4))[np.arange(2000) % 24]
    delivered = (rng.random((2000, 4)) < 1 / (1 + np.exp(-odds))) & (rng.random((2000, 1)) >= 0.1)
    result = diagnose(delivered)
    assert result.cycle.periods == pytest.approx((2.0, 24.0))
    assert result.verdict == "cycle + correlation"


@pytest.mark.parametrize(("stay", "is_found"), [(0.5, True), (0.0, False)])
@pytest.mark.slow
def test_memory_is_told_from_the_drift(stay, is_found):
    rng = np.random.default_rng(4)
    chance = np.linspace(0.2, 0.8, 2000)
    delivered = np.zeros((2000, 6), bool)
    for at in range(1, 2000):
        delivered[at] = np.where(rng.random(6) < stay, delivered[at - 1], rng.random(6) < chance[at])
    result = diagnose(delivered)
    assert result.verdict == "non-stationary"
    answer = {test.name: test.answer for test in result.tests}["memory"]
    assert answer == ("yes, beyond the drift" if is_found else "yes, as rates drift")
    assert ("Beyond the drift, deliveries depend on those of the round before." in result.sentence) == is_found
    assert (result.to_json()["local_memory.p"] <= 0.01) == is_found
