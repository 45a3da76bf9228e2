"""Time-varying access: rates, correlations, memory and run lengths against their formulas, part by part."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

import netfl
from netfl.access.bernoulli import Bernoulli
from netfl.access.time_varying import TimeVarying, _joint_normal
from netfl.diagnosis import diagnose, from_table
from netfl.errors import ScenarioError
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument
from netfl.types import ScenarioFacts

P = (0.9, 0.6, 0.3)
WALK = {"time_scale": 40, "spread": 0.8}
OUTAGE = {"length": 6, "share": 0.2}


def is_close(measured, expected, draws, spread=0.5):
    """Return whether *measured* is within five standard errors of *expected*."""
    return np.abs(np.asarray(measured) - expected).max() < 5 * spread / np.sqrt(draws)


def test_without_parts_it_equals_bernoulli(make_context, delivered_users):
    assert delivered_users(TimeVarying(probability=P), make_context(3, 300)) == delivered_users(
        Bernoulli(probability=P), make_context(3, 300)
    )


@pytest.mark.slow
def test_rates_of_a_walk_are_the_probabilities_in_every_round(make_context, delivery_matrix):
    """Φ(v Φ⁻¹(p) / v) = p: the mean over the walk, in the first round as in the last."""
    access = TimeVarying(probability=0.3, drift=WALK)
    x = delivery_matrix(access, make_context(6_000, 60))
    for index in (0, 30, 59):
        assert stats.binomtest(int(x[index].sum()), 6_000, 0.3).pvalue > 1e-5


@pytest.mark.parametrize("lag", [1, 20, 60])
@pytest.mark.slow
def test_autocorrelation_of_a_walk(make_context, delivery_matrix, lag):
    """By integration over the walk in two rounds: no formula of the model is used."""
    access = TimeVarying(probability=0.3, drift=WALK)
    x = delivery_matrix(access, make_context(4_000, 61)).astype(float)
    kept, margin = np.exp(-lag / 40), np.sqrt(1.64) * stats.norm.ppf(0.3)

    def both(z, w):
        other = kept * w + np.sqrt(1 - kept**2) * z
        weight = stats.norm.pdf(w) * stats.norm.pdf(z)
        return weight * stats.norm.cdf(margin + 0.8 * w) * stats.norm.cdf(margin + 0.8 * other)

    expected = integrate.dblquad(both, -6, 6, -6, 6, epsabs=1e-5)[0]
    assert is_close((x[-1] * x[-1 - lag]).mean(), expected, 4_000)


@pytest.mark.parametrize("slope", [2.0, (2.0, -3.0, 0.0)])
@pytest.mark.slow
def test_slope_changes_the_rates_round_by_round(make_context, delivery_matrix, slope):
    equal = 500  # users of each of the three
    repeated = slope if isinstance(slope, float) else np.repeat(slope, equal).tolist()
    access = TimeVarying(probability=np.repeat(P, equal).tolist(), drift={"slope": repeated})
    x = delivery_matrix(access, make_context(3 * equal, 401)).reshape(401, 3, equal)
    for index in (0, 200, 400):
        margin = stats.norm.ppf(P) + np.broadcast_to(slope, 3) * index / 1000
        assert is_close(x[index].mean(axis=1), stats.norm.cdf(margin), equal)


@pytest.mark.parametrize("walk", [None, WALK])
@pytest.mark.slow
def test_given_phases_have_their_rates(make_context, delivery_matrix, walk):
    offsets = ((0.5, -1.0, 0.0, 1.0),)
    cycle = {"period": 4, "offsets": offsets}
    repeated = TimeVarying(probability=np.repeat(P, 400).tolist(), drift=walk, cycle=cycle)
    access = TimeVarying(probability=P, drift=walk, cycle=cycle)
    x = delivery_matrix(repeated, make_context(1200, 40))
    v = np.sqrt(1 + (0.64 if walk else 0.0))
    expected = stats.norm.cdf(stats.norm.ppf(P) + np.array(offsets).T / v)  # [phases, users]
    measured = x.reshape(10, 4, 3, 400).mean(axis=(0, 3))
    assert is_close(measured, expected, 400 * (10 if walk is None else 1))
    if walk is None:
        rates = access.participation_rates(3, make_context().streams)
        assert rates == pytest.approx(expected.mean(axis=0))


def test_drawn_phases_repeat_and_their_rates_are_stated(make_context, delivery_matrix):
    access = TimeVarying(probability=0.5, cycle={"period": 5, "spread": 1.0})
    context = make_context(4, 20_000)
    x = delivery_matrix(access, context).reshape(4_000, 5, 4)
    halves = x[:2_000].mean(axis=0), x[2_000:].mean(axis=0)
    assert is_close(halves[0] - halves[1], 0.0, 1_000)
    assert np.ptp(halves[0]) > 0.3
    rates = access.participation_rates(4, context.streams)
    assert is_close(x.mean(axis=(0, 1)), rates, 20_000)
    assert access.info.process == "cyclic"


@pytest.mark.slow
def test_rates_of_drawn_phases_are_the_probabilities_over_all_draws(make_context, delivery_matrix):
    access = TimeVarying(probability=0.3, cycle={"period": 3, "spread": 1.2})
    x = delivery_matrix(access, make_context(8_000, 4))
    assert stats.binomtest(int(x[2].sum()), 8_000, 0.3).pvalue > 1e-5
    u = 1.2**2
    same, other = _joint_normal(*[stats.norm.ppf(0.3)] * 2, u / (1 + u)), 0.09
    assert is_close((x[0] & x[3]).mean(), same, 8_000)
    assert is_close((x[0] & x[2]).mean(), other, 8_000)


@pytest.mark.parametrize(
    ("outage", "expected"),
    [
        (None, 0.1 * 0.9),
        (OUTAGE | {"together": True}, 0.9 * 0.8 - (0.9 * 0.8) ** 2),
        (OUTAGE, (0.9 - 0.81) * 0.8**2),
    ],
    ids=["loss", "loss and outages together", "loss and own outages"],
)
@pytest.mark.slow
def test_covariance_of_two_users(make_context, delivery_matrix, outage, expected):
    """The covariance is q_i q_j times that of two users whose links are certain."""
    access = TimeVarying(probability=P, common_loss=0.1, outage=outage)
    x = delivery_matrix(access, make_context(3, 20_000)).astype(float)
    share = 0.9 if outage is None else 0.9 * 0.8
    assert is_close(x.mean(axis=0), share * np.array(P), 20_000, spread=0.5 if outage is None else 2.0)
    measured = np.cov(x.T)[np.triu_indices(3, 1)]
    products = np.array([P[0] * P[1], P[0] * P[2], P[1] * P[2]])
    assert is_close(measured, expected * products, 20_000, spread=0.25 if outage is None else 0.8)
    assert access.info.process == ("emergent-correlated" if outage is None else "Markovian")


@pytest.mark.parametrize("together", [False, True])
def test_outages_have_geometric_lengths_and_their_share(make_context, delivery_matrix, together):
    access = TimeVarying(probability=1.0, outage=OUTAGE | {"together": together})
    x = delivery_matrix(access, make_context(5, 20_000))
    if together:
        assert (x == x[:, :1]).all()
    change = np.diff(x[:, 0].astype(int))
    ends = np.flatnonzero(change == 1)
    starts = np.flatnonzero(change == -1)
    ends = ends[ends > starts[0]]
    lengths = ends - starts[: len(ends)]
    assert lengths.mean() == pytest.approx(6.0, abs=5 * np.sqrt(30 / len(lengths)))
    for length in (1, 3, 10):
        expected = 1 - (5 / 6) ** length
        assert stats.binomtest(int((lengths <= length).sum()), len(lengths), expected).pvalue > 1e-5
    assert 1 - x.mean() == pytest.approx(0.2, abs=0.04)


def test_joint_normal_equals_that_of_scipy():
    for x, y, correlation in ((0.3, -0.5, 0.4), (1.2, 1.2, 0.95), (-1.0, 0.0, 0.0), (0.5, 0.1, -0.6)):
        expected = stats.multivariate_normal.cdf([x, y], cov=[[1, correlation], [correlation, 1]])
        assert _joint_normal(x, y, correlation) == pytest.approx(expected, abs=1e-6)
    assert _joint_normal(np.inf, 0.0, 0.5) == 0.5


def test_first_rounds_do_not_depend_on_the_number_of_rounds(make_context, delivered_users):
    access = TimeVarying(
        probability=0.5, drift=WALK, cycle={"period": 7, "spread": 0.5}, common_loss=0.1, outage=OUTAGE, deliveries=3
    )
    assert delivered_users(access, make_context(40, 3_000))[:25] == delivered_users(access, make_context(40, 25))


def test_parts_leave_the_draws_of_the_others(make_context, delivery_matrix):
    """A common loss only takes deliveries away, and so do outages."""
    plain = delivery_matrix(TimeVarying(probability=0.5, drift=WALK), make_context(6, 300))
    lossy = delivery_matrix(
        TimeVarying(probability=0.5, drift=WALK, common_loss=0.3, outage=OUTAGE), make_context(6, 300)
    )
    assert (lossy <= plain).all()
    assert lossy.sum() < plain.sum()


@pytest.mark.parametrize(
    ("parts", "process"),
    [
        ({}, "stationary"),
        ({"common_loss": 0.1}, "emergent-correlated"),
        ({"outage": OUTAGE}, "Markovian"),
        ({"drift": {"slope": 1}}, "non-stationary"),
        ({"drift": {"slope": 1}, "common_loss": 0.1}, "drift + correlation"),
        ({"drift": {"slope": 1}, "cycle": {"period": 4, "spread": 1}}, "cycle + drift"),
        ({"cycle": {"period": 4, "spread": 1}, "outage": OUTAGE | {"together": True}}, "cycle + correlation"),
        (
            {"drift": {"slope": 1}, "cycle": {"period": 4, "spread": 1}, "common_loss": 0.1, "outage": OUTAGE},
            "cycle + drift + correlation",
        ),
        ({"drift": WALK}, None),
    ],
)
def test_stated_process_has_all_parts(make_context, parts, process):
    access = TimeVarying(probability=0.5, **parts)
    assert access.info.process == process
    known = access.participation_rates(3, make_context().streams)
    assert (known is None) == ("drift" in parts)
    limited = access.model_copy(update={"deliveries": 2})
    assert limited.info.process == (None if process is not None and "correlat" in process else process)


@pytest.mark.parametrize(
    ("overrides", "path"),
    [
        ({"drift": {"time_scale": 10}}, "drift"),
        ({"drift": {}}, "drift"),
        ({"drift": {"time_scale": 0, "spread": 1}}, "drift"),
        ({"cycle": {"period": 1, "spread": 1}}, "cycle"),
        ({"cycle": {"period": 4}}, "cycle"),
        ({"cycle": {"period": 4, "spread": 1, "offsets": [[0, 0, 0, 0]]}}, "cycle"),
        ({"cycle": {"period": 4, "offsets": [[0, 1, 2]]}}, "cycle"),
        ({"common_loss": 1.0}, "common_loss"),
        ({"outage": {"length": 0.5, "share": 0.1}}, "outage"),
        ({"outage": {"length": 5, "share": 0}}, "outage"),
    ],
)
def test_values_out_of_range_raise_an_error(overrides, path):
    with pytest.raises(ScenarioError) as error:
        TimeVarying(**{"probability": 0.5} | overrides)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == {path}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"drift": {"slope": [1, 2]}}, "drift.slope: 2 slopes for 3 users"),
        ({"cycle": {"period": 2, "offsets": [[0, 1], [1, 0]]}}, "cycle.offsets: 2 lists for 3 users"),
        ({"outage": {"length": 1, "share": 0.6}}, "outage.share: links would work for less than one round"),
        ({"probability": (0.5, 0.5)}, "probability: 2 probabilities for 3 users"),
        ({"deliveries": 4}, "deliveries: more than the 3 users"),
    ],
)
def test_settings_that_do_not_fit_the_scenario_are_errors(overrides, message):
    access = TimeVarying(**{"probability": 0.5} | overrides)
    (fault,) = access.faults(ScenarioFacts(users=3, rounds=9))
    assert str(fault).startswith(message)
    assert fault.remedy


def test_dump_and_validate_restore_the_access():
    access = TimeVarying(
        probability=0.5,
        drift={"slope": [1, 2]},
        cycle={"period": 2, "offsets": [[0, 1]]},
        common_loss=0.1,
        outage=OUTAGE,
    )
    assert TimeVarying.model_validate(access.model_dump(mode="json")) == access


@pytest.mark.slow
def test_diagnosis_finds_what_the_access_was_made_of(tmp_path):
    parts = {
        "drift": {"slope": [1.0, -1.0, 1.0, -1.0, 1.0, -1.0]},
        "cycle": {"period": 8, "spread": 0.6},
        "common_loss": 0.1,
    }
    access = {"kind": "time_varying", "probability": [0.8, 0.7, 0.6, 0.5, 0.4, 0.3]} | parts
    data = {"name": "links", "users": 6, "rounds": 2_000, "seed": 3, "access": access}
    run = netfl.trace(validate(ScenarioDocument(data)), tmp_path / "run")
    result = diagnose(from_table(run.deliveries, users=6, rounds=2_000))
    assert result.verdict == "cycle + drift + correlation"
    assert result.cycle.period == pytest.approx(8.0)
