"""Participation rates and process that accesses declare, against simulated rounds; none where they are not exact."""

from dataclasses import replace

import numpy as np
import pytest

from netfl.access import Access
from netfl.access.adversarial import Adversarial
from netfl.access.availability import Availability
from netfl.access.bernoulli import Bernoulli
from netfl.access.bursty import Bursty
from netfl.access.correlated import Correlated
from netfl.access.cyclic import Cyclic
from netfl.access.drifting import Drifting
from netfl.access.markov import Markov
from netfl.access.stationary import Stationary
from netfl.access.time_varying import TimeVarying

HALF = {"kind": "bernoulli", "probability": 0.5}
KNOTS = [{"round": 1, "rho": [0.7, 0.2, 0.1]}, {"round": 5, "rho": [0.1, 0.2, 0.7]}]
LISTED = (0.6, 0.3, 0.1)
OLDEST = {"kind": "oldest", "m": 1}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "there.csv"
    path.write_text("0,on,4.3,5.8\n1,off,2,5\n2,on\n")
    return path


def make_access(name, **overrides):
    """Return an access of three users."""
    return {
        "stationary": lambda: Stationary(rho=LISTED, **overrides),
        "bernoulli": lambda: Bernoulli(probability=LISTED, **overrides),
        "markov": lambda: Markov(probability=LISTED, switch_on=0.2, **overrides),
        "cyclic": lambda: Cyclic(probability=LISTED, cycle=20, **overrides),
        "correlated": lambda: Correlated(probability=LISTED, groups=1, correlation=0.5, **overrides),
        "bursty": lambda: Bursty(
            probability=LISTED, presence={"distribution": "geometric", "mean": 3}, unit="rounds", **overrides
        ),
        "drifting": lambda: Drifting(knots=KNOTS, repeat=10, **overrides),
        "time_varying": lambda: TimeVarying(
            probability=LISTED, cycle={"period": 8, "spread": 0.5}, common_loss=0.1, **overrides
        ),
    }[name]()


PROCESSES = {
    "stationary": "stationary",
    "bernoulli": "stationary",
    "markov": "Markovian",
    "cyclic": "cyclic",
    "correlated": "emergent-correlated",
    "bursty": "Markovian",
    "drifting": "cyclic",
    "time_varying": "cycle + correlation",
}


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.slow
def test_participation_rates_match_simulated_deliveries(make_context, delivery_matrix, name):
    access = make_access(name)
    rates = access.participation_rates(3, make_context(3, 10_000).streams)
    assert delivery_matrix(access, make_context(3, 10_000)).mean(axis=0) == pytest.approx(rates, abs=0.03)
    assert access.info.process == PROCESSES[name]


OUTAGE = {"length": 3, "share": 0.1}
LABEL_CORRELATED = {"label_correlated": {"concentration": 0.1, "minimum": 0.1, "mean": 0.3}}
LABEL_CORRELATED_ACCESSES = {
    "bernoulli": Bernoulli(probability=LABEL_CORRELATED),
    "markov": Markov(probability=LABEL_CORRELATED, switch_on=0.3),
    "cyclic": Cyclic(probability=LABEL_CORRELATED, cycle=7),
    "time_varying": TimeVarying(
        probability=LABEL_CORRELATED, cycle={"period": 4, "spread": 0.7}, common_loss=0.1, outage=OUTAGE
    ),
    "adversarial": Adversarial(
        inner={"kind": "bernoulli", "probability": LABEL_CORRELATED}, users=[0], probability=0.5
    ),
}


@pytest.mark.parametrize("name", LABEL_CORRELATED_ACCESSES)
@pytest.mark.slow
def test_label_correlated_rates_are_known_with_the_label_mix(make_context, delivery_matrix, name):
    access, mix = LABEL_CORRELATED_ACCESSES[name], np.array([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0, 0.2, 0.8]])
    context = replace(make_context(3, 10_000), label_mix=mix)
    assert access.participation_rates(3, context.streams) is None
    rates = access.participation_rates(3, context.streams, mix)
    assert np.ptp(rates) > 0.1
    assert delivery_matrix(access, context).mean(axis=0) == pytest.approx(rates, abs=0.03)


@pytest.mark.parametrize("name", PROCESSES)
def test_selection_removes_declared_rates_and_process(make_context, name):
    access = make_access(name, selection=OLDEST)
    assert access.participation_rates(3, make_context().streams) is None
    assert access.info.process is None
    assert access.rates(3, make_context().streams) is not None  # the order of users, before the selection
    targeted = Adversarial(inner=access, users=[0])
    assert targeted.info.process is None
    assert targeted.participation_rates(3, make_context().streams) is None


@pytest.mark.parametrize("name", PROCESSES)
def test_delivery_limit_removes_declared_rates(make_context, name):
    first = 2 if name in {"stationary", "drifting"} else 1
    assert make_access(name, deliveries=first).participation_rates(3, make_context().streams) is None
    all_delivered = make_access(name, deliveries=3).participation_rates(3, make_context().streams)
    assert (all_delivered is None) == (name in {"stationary", "drifting"})


def test_correlation_has_no_effect_on_the_process_with_one_delivery():
    assert make_access("correlated", deliveries=1).info.process == "stationary"
    assert make_access("correlated", deliveries=2).info.process is None
    assert make_access("correlated", deliveries=1, switch_on=0.05).info.process == "Markovian"


def test_always_available_users_make_a_stationary_process():
    assert Markov(probability=1.0).info.process == Cyclic(probability=1.0).info.process == "stationary"
    assert Markov(probability=0.05, switch_on=0.05).info.process == "stationary"
    assert (
        Bursty(probability=1.0, presence={"distribution": "pareto", "mean": 2, "shape": 3}).info.process == "stationary"
    )


@pytest.mark.parametrize(
    ("base", "overrides"),
    [(HALF, {}), (HALF, {"probability": 0.4}), (HALF, {"every": 3}), ({**HALF, "kind": "markov"}, {"every": 2})],
)
@pytest.mark.quick_first
def test_rates_of_an_adversary_exclude_censored_updates(make_context, delivery_matrix, base, overrides):
    access = Adversarial(inner=base, users=[0], **overrides)
    rates = access.participation_rates(3, make_context(3, 10_000).streams)
    assert delivery_matrix(access, make_context(3, 10_000)).mean(axis=0) == pytest.approx(rates, abs=0.04)


@pytest.mark.parametrize(
    ("base", "overrides"),
    [
        ({**HALF, "deliveries": 1}, {}),
        (HALF, {"per_round": 1, "users": [0, 1]}),
        (HALF, {"first_round": 5}),
        (HALF, {"budget": 50}),
        ({"kind": "cyclic", "probability": 0.5, "cycle": 4}, {"every": 2}),
        (
            {
                "kind": "time_varying",
                "probability": 0.5,
                "cycle": {"period": 4, "spread": 0.5},
                "common_loss": 0.1,
            },
            {"every": 2},
        ),
    ],
)
def test_adversary_declares_no_inexact_rates(make_context, base, overrides):
    assert Adversarial(inner=base, **{"users": [0], **overrides}).participation_rates(3, make_context().streams) is None


def test_adversary_with_a_limit_per_round_has_another_process():
    assert Adversarial(inner=HALF, users=[0, 1], per_round=1).info.process is None
    assert Adversarial(inner=HALF, users=[0, 1], per_round=1, first_round=9).info.process == "non-stationary"


def test_rates_of_a_file_use_the_state_at_the_end_of_each_round(make_context, delivery_matrix, file):
    access = Availability(file=file, unit="rounds", repeat=6)
    rates = access.participation_rates(3, make_context().streams)
    assert rates.tolist() == delivery_matrix(access, make_context(3, 60)).mean(axis=0).tolist() == [5 / 6, 0.5, 1.0]
    assert access.info.process == "cyclic"
    assert Availability(file=file, unit="rounds", repeat=6.5).participation_rates(3, make_context().streams) is None
    assert (
        Availability(file=file, unit="rounds", repeat=6, deliveries=1).participation_rates(3, make_context().streams)
        is None
    )


def test_drifting_access_has_no_participation_rates(make_context):
    access = Drifting(knots=KNOTS)
    assert access.info.process == "non-stationary"
    assert access.participation_rates(3, make_context().streams) is None
    assert Access.participation_rates(access, 3, make_context().streams) is None
    assert np.isfinite(access.rates(3, make_context().streams)).all()
