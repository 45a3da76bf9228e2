"""The diagnosis as a whole: verdicts, what is said of them, and JSON."""

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
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("verdicts", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    sys.modules["verdicts"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["verdicts"]


@pytest.mark.parametrize("kind", ["stationary", "Markovian", "cyclic", "non-stationary", "emergent-correlated"])
@pytest.mark.slow
def test_verdicts_are_right_and_intervals_hold(verdicts, kind):
    """A few of the processes that `benchmarks/verdicts.py` tells of: of each form one, of 3, 30 and 250 users."""
    outcomes = [verdicts.outcome(kind, index, 7) for index in range(50) if index % 10 in {0, 7} or index == 14]
    right = np.mean([one.verdict == kind for one in outcomes])
    assert right >= 0.9
    assert np.mean([one.covered for one in outcomes if one.covered is not None] or [1.0]) >= 0.9


@pytest.mark.slow
def test_false_alarms_stay_within_the_level(verdicts):
    """Small stationary worlds: at most 5 % of 150, and three standard errors."""
    found = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        heard = rng.random((400, 4)) < 0.3 if seed % 2 else np.eye(5, dtype=bool)[rng.integers(0, 5, 400)]
        found.append(diagnose(heard, seed=seed).verdict != "stationary")
    assert np.mean(found) <= 0.05 + 3 * (0.05 * 0.95 / 150) ** 0.5


def test_the_weightiest_finding_is_the_verdict():
    assert kind_of({"drift": True, "cycle": True, "memory": True, "dependence": True}) == "non-stationary"
    assert kind_of({"drift": False, "cycle": True, "memory": True, "dependence": None}) == "cyclic"
    assert kind_of({"drift": False, "cycle": False, "memory": True, "dependence": True}) == "Markovian"
    assert kind_of({"drift": False, "cycle": False, "memory": False, "dependence": True}) == "emergent-correlated"
    assert kind_of({"drift": False, "cycle": False, "memory": False, "dependence": None}) == "stationary"


def test_holm_by_hand():
    assert holm_rejections([0.04, 0.013, 0.012, 0.5], 0.05) == [False, True, True, False]
    assert holm_rejections([0.03, 0.03], 0.05) == [False, False]
    assert holm_rejections([None, 0.05], 0.05) == [None, True]


def test_a_cycle_in_seconds_that_uneven_rounds_blur():
    rng = np.random.default_rng(1)
    closed_s = np.cumsum(rng.exponential(600, 4000))
    day = closed_s / 86400 % 1
    heard = rng.random((4000, 6)) < np.where((day < 0.5)[:, None] == (np.arange(6) < 3), 0.25, 0.05)
    at, user = np.nonzero(heard)
    table = pd.DataFrame({"round": at + 1, "user": user})
    found = diagnose(from_table(table, users=6, rounds=4000, closed_s=closed_s))
    assert found.verdict == "cyclic"
    assert found.cycle.period_s == pytest.approx(86400, rel=0.03)
    assert "24 h" in found.sentence or "23 h" in found.sentence


def test_rounds_that_take_longer_at_night_are_no_cycle_of_who_is_heard():
    rng = np.random.default_rng(2)
    took_s, now_s = [], 0.0
    for _ in range(3000):
        took_s.append(rng.exponential(900 if now_s % 86400 < 43200 else 300))
        now_s += took_s[-1]
    table = pd.DataFrame({"round": np.arange(1, 3001), "user": rng.choice(5, 3000, p=[0.4, 0.3, 0.15, 0.1, 0.05])})
    assert diagnose(from_table(table, users=5, closed_s=np.cumsum(took_s))).verdict == "stationary"


def test_memory_comes_with_a_matrix_and_a_mixing_time():
    rng = np.random.default_rng(3)
    who = [0]
    for draw in rng.random(4000):
        who.append(who[-1] if draw < 0.8 else int(rng.integers(0, 3)))
    found = diagnose(participation_from_sequence(np.array(who), users=3))
    assert found.verdict == "Markovian"
    assert found.order.matrix == pytest.approx(0.8 * np.eye(3) + 0.2 / 3, abs=0.05)
    assert found.order.eigenvalue == pytest.approx(0.8, abs=0.03)
    assert found.order.mixing == pytest.approx(np.log(0.25 / (2 / 3)) / np.log(0.8), abs=1.5)
    assert found.order.entropy_rate < np.log2(3)


def test_everything_is_in_the_json():
    rng = np.random.default_rng(4)
    heard = np.c_[rng.random((500, 3)) < [0.5, 0.2, 0.1], np.zeros((500, 1), bool)]
    known = ExpectedProcess("a test", "stationary", np.array([0.5, 0.2, 0.1, 0.0]), {"CVaR": 0.3})
    found = diagnose(heard, expected=known, alphas=[0.2])
    flat = json.loads(json.dumps(found.to_json(), allow_nan=False))
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


def test_rates_that_are_not_those_stated():
    heard = np.random.default_rng(5).random((2000, 2)) < 0.3
    assert diagnose(heard, expected=ExpectedProcess("a test", None, np.array([0.3, 0.4]))).agrees is False


def test_the_same_seed_gives_the_same_diagnosis():
    heard = np.random.default_rng(6).random((300, 4)) < 0.3
    assert diagnose(heard, seed=3).to_json() == diagnose(heard, seed=3).to_json()


def test_few_rounds_are_said_to_be_few():
    assert any(
        "With 100 rounds, the tests have little power" in note
        for note in diagnose(np.random.default_rng(7).random((100, 3)) < 0.3).notes
    )


def sticky(rng, rounds, users, stay):
    """Users who are there half of the time, in stays of about ``2 / (1 - stay)`` rounds."""
    x = np.zeros((rounds, users), bool)
    x[0] = rng.random(users) < 0.5
    for at, draws in enumerate(rng.random((rounds - 1, users)), start=1):
        x[at] = np.where(draws < stay, x[at - 1], rng.random(users) < 0.5)
    return x


@pytest.mark.parametrize(("stay", "said"), [(0.98, True), (0.8, False)])
def test_memory_that_is_long_for_the_recording_is_said(stay, said):
    found = diagnose(sticky(np.random.default_rng(8), 1000, 4, stay))
    notes = [note for note in found.notes if "too few for the stated intervals" in note]
    assert bool(notes) == said
    assert all("drift" in note for note in notes)


def test_what_repeats_is_not_said_to_be_long_memory():
    heard = np.repeat(np.arange(4000) % 400 < 200, 2).reshape(4000, 2) ^ [False, True]
    found = diagnose(heard)
    assert found.verdict == "cyclic"
    assert not any("too few for the stated intervals" in note for note in found.notes)


@pytest.mark.slow
def test_only_those_most_often_heard_are_tested():
    """Of 1,200 users the 200 rarest have memory of two rounds, which the tests do not see."""
    rng = np.random.default_rng(9)
    heard = rng.random((600, 1200)) < np.repeat([0.5, 0.15], [1000, 200])
    heard[:, 1000:] = np.repeat(heard[:200, 1000:], 3, axis=0)
    found = diagnose(heard)
    assert found.verdict == "stationary"
    assert all(test.p is None or test.p > 0.01 for test in found.tests)
    assert found.rates.inflation[1000:].min() > 1.2


def test_a_level_is_a_probability():
    with pytest.raises(ScenarioError, match="not a probability"):
        diagnose(np.eye(2, dtype=bool), level=1.0)


@pytest.mark.parametrize("misses", [0, 1, 3])
def test_users_who_are_always_there_are_no_trouble(misses):
    """Nobody comes or goes: there is nothing to look for in the spectrum."""
    heard = np.ones((400, 6), bool)
    heard[:, 3] = False
    heard[[50, 201, 350][:misses], 3] = True
    assert diagnose(heard).verdict == "stationary"
