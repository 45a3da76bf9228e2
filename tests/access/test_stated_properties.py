"""What accesses state of who is heard: rates and a process only where they hold exactly, against what is played."""

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

HALF = {"kind": "bernoulli", "probability": 0.5}
KNOTS = [{"round": 1, "rho": [0.7, 0.2, 0.1]}, {"round": 5, "rho": [0.1, 0.2, 0.7]}]
LISTED = (0.6, 0.3, 0.1)
OLDEST = {"kind": "oldest", "m": 1}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "there.csv"
    path.write_text("0,on,4.3,5.8\n1,off,2,5\n2,on\n")
    return path


def of(name, **said):
    """An access of three users."""
    return {
        "stationary": lambda: Stationary(rho=LISTED, **said),
        "bernoulli": lambda: Bernoulli(probability=LISTED, **said),
        "markov": lambda: Markov(probability=LISTED, switch_on=0.2, **said),
        "cyclic": lambda: Cyclic(probability=LISTED, cycle=20, **said),
        "correlated": lambda: Correlated(probability=LISTED, groups=1, correlation=0.5, **said),
        "bursty": lambda: Bursty(
            probability=LISTED, presence={"distribution": "geometric", "mean": 3}, unit="rounds", **said
        ),
        "drifting": lambda: Drifting(knots=KNOTS, repeat=10, **said),
    }[name]()


STATED = {
    "stationary": "stationary",
    "bernoulli": "stationary",
    "markov": "Markovian",
    "cyclic": "cyclic",
    "correlated": "emergent-correlated",
    "bursty": "Markovian",
    "drifting": "cyclic",
}


@pytest.mark.parametrize("name", STATED)
@pytest.mark.slow
def test_rates_that_are_stated_are_those_of_being_heard(make_setting, presence, name):
    access = of(name)
    stated = access.participation_rates(3, make_setting(3, 10_000).streams)
    assert presence(access, make_setting(3, 10_000)).mean(axis=0) == pytest.approx(stated, abs=0.03)
    assert access.info.process == STATED[name]


FOLLOWS = {"label_correlated": {"concentration": 0.1, "minimum": 0.1, "mean": 0.3}}
FOLLOWING = {
    "bernoulli": Bernoulli(probability=FOLLOWS),
    "markov": Markov(probability=FOLLOWS, switch_on=0.3),
    "cyclic": Cyclic(probability=FOLLOWS, cycle=7),
    "adversarial": Adversarial(inner={"kind": "bernoulli", "probability": FOLLOWS}, users=[0], probability=0.5),
}


@pytest.mark.parametrize("name", FOLLOWING)
@pytest.mark.slow
def test_rates_that_follow_labels_are_stated_where_these_are_known(make_setting, presence, name):
    access, mix = FOLLOWING[name], np.array([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0, 0.2, 0.8]])
    setting = replace(make_setting(3, 10_000), label_mix=mix)
    assert access.participation_rates(3, setting.streams) is None
    stated = access.participation_rates(3, setting.streams, mix)
    assert np.ptp(stated) > 0.1
    assert presence(access, setting).mean(axis=0) == pytest.approx(stated, abs=0.03)


@pytest.mark.parametrize("name", STATED)
def test_a_selection_leaves_nothing_to_state(make_setting, name):
    access = of(name, selection=OLDEST)
    assert access.participation_rates(3, make_setting().streams) is None
    assert access.info.process is None
    assert access.rates(3, make_setting().streams) is not None  # the order of users, before the selection
    aimed = Adversarial(inner=access, users=[0])
    assert aimed.info.process is None
    assert aimed.participation_rates(3, make_setting().streams) is None


@pytest.mark.parametrize("name", STATED)
def test_less_room_leaves_no_rates_to_state(make_setting, name):
    first = 2 if name in {"stationary", "drifting"} else 1
    assert of(name, deliveries=first).participation_rates(3, make_setting().streams) is None
    wide = of(name, deliveries=3).participation_rates(3, make_setting().streams)
    assert (wide is None) == (name in {"stationary", "drifting"})


def test_users_cut_off_together_cannot_be_seen_where_one_is_heard():
    assert of("correlated", deliveries=1).info.process == "stationary"
    assert of("correlated", deliveries=2).info.process is None
    assert of("correlated", deliveries=1, switch_on=0.05).info.process == "Markovian"


def test_users_who_are_always_there_neither_come_nor_go():
    assert Markov(probability=1.0).info.process == Cyclic(probability=1.0).info.process == "stationary"
    assert Markov(probability=0.05, switch_on=0.05).info.process == "stationary"
    assert (
        Bursty(probability=1.0, presence={"distribution": "pareto", "mean": 2, "shape": 3}).info.process == "stationary"
    )


@pytest.mark.parametrize(
    ("base", "said"),
    [(HALF, {}), (HALF, {"probability": 0.4}), (HALF, {"every": 3}), ({**HALF, "kind": "markov"}, {"every": 2})],
)
@pytest.mark.quick_first
def test_an_adversary_takes_off_what_it_holds_back(make_setting, presence, base, said):
    access = Adversarial(inner=base, users=[0], **said)
    stated = access.participation_rates(3, make_setting(3, 10_000).streams)
    assert presence(access, make_setting(3, 10_000)).mean(axis=0) == pytest.approx(stated, abs=0.04)


@pytest.mark.parametrize(
    ("base", "said"),
    [
        ({**HALF, "deliveries": 1}, {}),
        (HALF, {"per_round": 1, "users": [0, 1]}),
        (HALF, {"first_round": 5}),
        (HALF, {"budget": 50}),
        ({"kind": "cyclic", "probability": 0.5, "cycle": 4}, {"every": 2}),
    ],
)
def test_an_adversary_states_no_rates_that_do_not_hold(make_setting, base, said):
    assert Adversarial(inner=base, **{"users": [0], **said}).participation_rates(3, make_setting().streams) is None


def test_an_adversary_with_a_limit_in_a_round_is_no_longer_the_other_access():
    assert Adversarial(inner=HALF, users=[0, 1], per_round=1).info.process is None
    assert Adversarial(inner=HALF, users=[0, 1], per_round=1, first_round=9).info.process == "non-stationary"


def test_a_file_is_seen_as_rounds_close(make_setting, presence, file):
    access = Availability(file=file, unit="rounds", repeat=6)
    stated = access.participation_rates(3, make_setting().streams)
    assert stated.tolist() == presence(access, make_setting(3, 60)).mean(axis=0).tolist() == [5 / 6, 0.5, 1.0]
    assert access.info.process == "cyclic"
    assert Availability(file=file, unit="rounds", repeat=6.5).participation_rates(3, make_setting().streams) is None
    assert (
        Availability(file=file, unit="rounds", repeat=6, deliveries=1).participation_rates(3, make_setting().streams)
        is None
    )


def test_drift_has_no_rates(make_setting):
    access = Drifting(knots=KNOTS)
    assert access.info.process == "non-stationary"
    assert access.participation_rates(3, make_setting().streams) is None
    assert Access.participation_rates(access, 3, make_setting().streams) is None
    assert np.isfinite(access.rates(3, make_setting().streams)).all()
