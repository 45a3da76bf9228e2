"""The rule of sums in the air, against independent NumPy, and its errors against their formulas."""

import itertools

import numpy as np
import pytest
import torch
from support.small_network import SECTION
from support.tiny_scenarios import TINY

import netfl
from netfl.errors import ScenarioError
from netfl.learning.aggregation import Updates
from netfl.learning.aggregation.over_the_air import OverTheAir
from netfl.learning.rule_draws import RuleDraws
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.simulation.setup import notes
from netfl.streams import Streams

SENT, MISSED, NUMBERS = 4, 3, 40
RNG = np.random.default_rng(5)
CHANGES = RNG.normal(0.3, 2.0, (SENT + MISSED, NUMBERS + 1)) * np.append(RNG.uniform(0.5, 2.0, NUMBERS), 1.0)
CURRENT = RNG.normal(size=NUMBERS + 1)


def updates(sent=range(SENT), missed=range(SENT, SENT + MISSED), snr_db=10.0, round=1, node=0, seed=0):
    """Return the updates of some of `CHANGES`, in float64."""
    changes = torch.from_numpy(CHANGES[[*sent]])
    bases = torch.from_numpy(CURRENT).expand(len(changes), -1)
    ones = torch.ones(len(changes), dtype=torch.float64)
    rates = torch.full((len(changes), 2), 0.1, dtype=torch.float64)
    levels = torch.as_tensor(np.broadcast_to(snr_db, len(changes)).copy())
    return Updates(
        round=round, users=torch.tensor([*sent]), base_rounds=torch.zeros(len(changes), dtype=torch.int64),
        bases=bases, models=bases + changes, samples=ones, steps=ones, rates=rates, newest_rates=rates[0],
        links={"snr_db": levels}, draws=RuleDraws(Streams(seed), node, round, bases[0]),
        not_summed=torch.from_numpy(CHANGES[[*missed]]).reshape(-1, NUMBERS + 1),
    )  # fmt: skip


def results(rule, given):
    """Return the step of the rule and its metrics, as arrays."""
    current = torch.from_numpy(CURRENT)
    following, state = rule.step({}, current, given)
    metrics = rule.metrics(state, current, given, following)
    return following.numpy() - CURRENT, {name: float(value) for name, value in metrics.items()}


@pytest.mark.parametrize("senders", ["known", 0.5])
@pytest.mark.parametrize("snr_db", [10.0, [10.0, 10.0, 4.0, 7.0]])
def test_result_is_that_of_numpy(senders, snr_db):
    result, metrics = results(OverTheAir(senders=senders), updates(snr_db=snr_db))
    theta = CHANGES[:SENT, :-1]
    amplitude = 10.0 ** ((np.broadcast_to(snr_db, SENT) - 10.0) / 20.0)
    centre = theta.mean()
    divisor = SENT if senders == "known" else senders * (SENT + MISSED)
    variance = theta.var() / (2.0 * 10.0 * divisor**2)
    noise = Streams(0).field("aggregation").normal(np.arange(NUMBERS), 1, 0) * np.sqrt(variance)
    expected = centre + sum(a * (row - centre) for a, row in zip(amplitude, theta, strict=True)) / divisor
    assert result[:-1] == pytest.approx(expected + noise, abs=1e-12)
    assert result[-1] == pytest.approx(CHANGES[:SENT, -1].mean())
    everybody = CHANGES[:, :-1].mean(0)
    assert metrics["sum_error"] == pytest.approx(np.mean((result[:-1] - theta.mean(0)) ** 2))
    assert metrics["scheduled_error"] == pytest.approx(np.mean((result[:-1] - everybody) ** 2))
    assert metrics["sum_error_formula"] == pytest.approx(variance + np.mean((expected - theta.mean(0)) ** 2))


@pytest.mark.slow
@pytest.mark.parametrize("senders", ["known", 0.6])
def test_errors_are_their_formulas_on_average(senders):
    """Over the noise of many rounds, and over all sets of K of the N scheduled users."""
    rule = OverTheAir(senders=senders)
    everybody = range(SENT + MISSED)
    found = []
    sets = [*itertools.combinations(everybody, SENT)]
    for index in range(20 * len(sets)):
        chosen = sets[index % len(sets)]
        rest = sorted({*everybody} - {*chosen})
        found.append(results(rule, updates(chosen, rest, snr_db=0.0, round=index))[1])
    for name in ("sum_error", "scheduled_error"):
        values = np.array([row[name] for row in found])
        formula = np.mean([row[f"{name}_formula"] for row in found])
        tolerance = 4.0 * values.std() / np.sqrt(len(values))
        if name == "scheduled_error" and senders != "known":
            tolerance += 0.03 * formula  # the centre is that of the senders
        assert abs(values.mean() - formula) < tolerance, name


def test_error_of_truncation_is_exact_over_all_sets():
    """Without noise: the mean over the sets of (mean of K - mean of N)² is (1 - K/N) S² / K."""
    errors, formulas = [], []
    for chosen in itertools.combinations(range(SENT + MISSED), SENT):
        rest = sorted({*range(SENT + MISSED)} - {*chosen})
        metrics = results(OverTheAir(), updates(chosen, rest, snr_db=200.0))[1]
        errors.append(metrics["scheduled_error"])
        formulas.append(metrics["scheduled_error_formula"])
    assert np.mean(errors) == pytest.approx(np.mean(formulas), rel=1e-9)


def test_all_that_were_scheduled_sent():
    metrics = results(OverTheAir(), updates(missed=()))[1]
    assert metrics["scheduled_error"] == metrics["sum_error"]
    assert metrics["scheduled_error_formula"] == pytest.approx(metrics["sum_error_formula"])


def test_noise_is_keyed_by_replica_node_and_round():
    def noise(**keys):
        return results(OverTheAir(), updates(**keys))[0]

    first = noise()
    assert (noise() == first).all()
    assert len({noise(**keys)[0] for keys in ({}, {"seed": 1}, {"node": 1}, {"round": 2})}) == 4


AIR = {
    "mac": "simultaneous",
    "reception": "analogue",
    "interference": "over_the_air",
    "power_control": {"kind": "truncated_inversion", "target": "5 dB", "threshold": "84 dB"},
    "channel": [*SECTION["channel"], {"kind": "rayleigh", "coherence": "1 s"}],
    "round": {"kind": "available"},
}
LEARNER = {"objective": "erm", "aggregation": "over_the_air", "lr": 0.1, "batch_size": 8, "local_steps": 2}


def scenario(**changes):
    learners = {"one": LEARNER, "two": LEARNER, "ideal": LEARNER | {"aggregation": {"kind": "average"}}}
    data = (
        TINY
        | {"access": SECTION | AIR, "learners": learners, "rounds": 8, "replicas": 2, "record": {"links": True}}
        | changes
    )
    return validate(ScenarioDocument(data, "air"))


def values(run, learner):
    metrics = run.metrics
    chosen = metrics[(metrics["learner"] == learner) & (metrics["group"] == "")]
    return chosen.drop(columns="learner").reset_index(drop=True)


@pytest.mark.slow
def test_learners_of_a_replica_share_the_noise(tmp_path):
    run = netfl.run(scenario(), tmp_path / "run", device="cpu", progress=False)
    assert values(run, "one").equals(values(run, "two"))
    errors = values(run, "one").pivot_table(index="replica", columns="metric", values="value")
    assert errors["sum_error"].nunique() == 2
    assert (errors["scheduled_error"] > errors["sum_error"]).all()
    assert len(run.table("not_summed")) == run.summary["outcome.not_summed"] > 0


@pytest.mark.slow
def test_a_replay_gives_the_same_to_the_bit(tmp_path):
    run = netfl.run(scenario(), tmp_path / "run", device="cpu", progress=False)
    again = netfl.run(
        scenario(access={"kind": "replay", "run": str(tmp_path / "run")}),
        tmp_path / "again",
        device="cpu",
        progress=False,
    )
    for learner in ("one", "ideal"):
        assert values(again, learner).equals(values(run, learner))


def test_ideal_rivals_are_named():
    assert any("ideal: reads each update without the noise" in note for note in notes(scenario()))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"access": {"kind": "stationary", "rho": {"zipf": 1}}}, "needs sums in the air"),
        ({"codec": "float16"}, "codes updates, which a sum in the air has as analogue signals"),
        (
            {"learners": {"one": LEARNER | {"device": {"kind": "ditto", "pull": 1.0}}}},
            "keeps something from its trainings",
        ),
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(ScenarioError, match=message):
        scenario(**changes)
