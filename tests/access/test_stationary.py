"""The papers' RAM: rates, distinct users, the clock, the outcomes."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy import stats

from netfl.access.stationary import Stationary
from netfl.errors import ScenarioError
from netfl.streams import Streams
from netfl.types import ScenarioFacts

RHO30 = [
    *(0.0735, 0.0692, 0.0645, 0.0584, 0.0557, 0.0547, 0.0537, 0.0462, 0.0445, 0.0422, 0.0417, 0.0333, 0.0327, 0.0275),
    *(0.0267, 0.0261, 0.0258, 0.0244, 0.0241, 0.0240, 0.0215, 0.0185, 0.0181, 0.0180, 0.0176, 0.0170, 0.0169, 0.0107),
    *(0.0078, 0.0053),
]


@pytest.mark.slow
def test_shares_follow_the_rates(make_setting, hear):
    counts = np.bincount([one for (one,) in hear(Stationary(rho=RHO30), make_setting(30, 40_000))], minlength=30)
    expected = np.array(RHO30) / sum(RHO30) * 40_000
    assert stats.chisquare(counts, expected).pvalue > 1e-4  # false alarm 1 in 10,000


@pytest.mark.slow
def test_rounds_are_independent_of_each_other(make_setting, hear):
    users = np.array([one for (one,) in hear(Stationary(rho=[0.5, 0.3, 0.2]), make_setting(3, 30_000))])
    table = np.zeros((3, 3))
    np.add.at(table, (users[:-1], users[1:]), 1)
    assert stats.chi2_contingency(table).pvalue > 1e-4


@pytest.mark.slow
def test_several_are_drawn_one_after_another_in_proportion(make_setting, hear):
    rho = np.array([0.6, 0.25, 0.1, 0.05])
    pairs = hear(Stationary(rho=tuple(rho), deliveries=2), make_setting(4, 40_000))
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(np.array(pairs).T), 1)
    expected = rho[:, None] * rho[None, :] / (1 - rho[:, None])
    off = ~np.eye(4, dtype=bool)
    assert counts[~off].sum() == 0
    assert stats.chisquare(counts[off], expected[off] * 40_000).pvalue > 1e-4


def test_users_of_rate_zero_are_never_heard(make_setting, hear):
    assert set(hear(Stationary(rho=[0.0, 1.0, 0.0]), make_setting(3, 200))) == {(1,)}
    both = hear(Stationary(rho=[0.5, 0.0, 0.5], deliveries=3), make_setting(3, 200))
    assert {tuple(sorted(one)) for one in both} == {(0, 2)}
    assert len(set(both)) == 2


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.slow
def test_the_first_rounds_do_not_depend_on_how_many_are_wanted(make_setting, hear, first):
    access = Stationary(rho={"zipf": 1.0}, deliveries=first)
    long = hear(access, make_setting(50, 20_000 if first == 1 else 3_000))
    assert hear(access, make_setting(50, 37)) == long[:37]
    assert hear(access, make_setting(50, 37, replica=1)) != long[:37]


@pytest.mark.quick_first
@pytest.mark.parametrize("rounds", [1, 5, 16_384, 16_385, 16_386])
def test_every_round_is_told_at_once_where_one_user_is_heard(make_setting, hear, rounds):
    access = Stationary(rho=[0.5, 0.3, 0.2])
    blocks = [*access.candidate_batches(make_setting(3, rounds), 1)]
    assert all(block.shape[1] == 1 and len(block) for block in blocks)
    assert np.concatenate(blocks).tolist() == [[*one] for one in access.candidates(make_setting(3, rounds), 1)]
    assert sum(map(len, blocks)) == rounds
    assert access.candidate_batches(make_setting(3, rounds), 2) is None
    assert access.candidate_batches(make_setting(3, rounds)) is None


@pytest.mark.parametrize(
    ("rho", "drawn", "heard"),
    [
        ([0.0, 0.5, 0.5], 0.0, 1),
        ([0.5, 0.0, 0.5], 0.5, 2),
        ([0.1] * 10, 1 - 2.0**-53, 9),  # of which the sum is that: below 1
        ([0.5, 0.5, 0.0], 1 - 2.0**-53, 1),
    ],
)
def test_users_of_rate_zero_are_not_heard_at_the_edges_of_shares_either(make_setting, drawing, rho, drawn, heard):
    setting = replace(make_setting(len(rho), 3), streams=drawing(drawn))
    assert [one.tolist() for one in Stationary(rho=rho).candidates(setting, 1)] == [[heard]] * 3


def test_users_of_the_same_luck_are_heard_in_the_order_of_their_rates(make_setting, drawing):
    setting = replace(make_setting(4, 3), streams=drawing(0.4))
    heard = Stationary(rho=[0.2, 0.5, 0.0, 0.3], deliveries=3).candidates(setting)
    assert [one.tolist() for one in heard] == [[1, 3, 0]] * 3


def test_shares_of_the_first_are_bernoulli():
    """0.5 and 0.2 of the rounds, of variances 0.25 and 0.16."""
    for law, share in zip(Stationary(rho=[0.5, 0.3, 0.2]).laws(), (0.5, 0.2), strict=True):
        assert (law.mean, law.variance) == pytest.approx((share, share * (1 - share)))
        drawn = law.draw(Streams(3), 4_000)
        assert set(drawn) == {0.0, 1.0}
        assert abs(drawn.mean() - share) < 4.5 * np.sqrt(share * (1 - share) / 4_000)


def test_zipf_and_the_random_simplex(make_setting):
    streams = make_setting(4).streams
    harmonic = 1 + 1 / 4 + 1 / 9 + 1 / 16
    assert Stationary(rho={"zipf": 2}).rates(4, streams) == pytest.approx(
        np.array([1, 1 / 4, 1 / 9, 1 / 16]) / harmonic
    )
    drawn = Stationary(rho="random_simplex").rates(1000, streams)
    assert drawn.sum() == pytest.approx(1)
    assert (np.diff(drawn) <= 0).all()
    assert stats.kstest(drawn / drawn.max(), "uniform").pvalue > 1e-4


@pytest.mark.slow
def test_the_random_rates_are_those_that_the_rounds_use(make_setting, hear):
    access, world = Stationary(rho="random_simplex"), make_setting(6, 20_000, seed=5)
    counts = np.bincount([one for (one,) in hear(access, world)], minlength=6)
    assert stats.chisquare(counts, access.rates(6, world.streams) * 20_000).pvalue > 1e-4
    assert not np.allclose(access.rates(6, world.streams), access.rates(6, make_setting(6, seed=6).streams))


def test_the_clock_and_the_bits(make_setting):
    rounds = [*Stationary(rho=[0.5, 0.3, 0.2], deliveries=2, round_length="30 s").rounds(make_setting(3, 3))]
    assert [(one.index, one.opened_s, one.closed_s, one.oldest) for one in rounds] == [
        (1, 0.0, 30.0, 1),
        (2, 30.0, 60.0, 2),
        (3, 60.0, 90.0, 3),
    ]
    for one in rounds:
        assert [each.base for each in one.deliveries] == [one.index - 1] * 2
        assert [each.sent_s for each in one.deliveries] == [one.opened_s] * 2
        assert [each.arrived_s for each in one.deliveries] == [one.opened_s + 15, one.closed_s]
        assert [each.attempts for each in one.deliveries] == [1, 1]
        assert (one.uplink_bits, one.downlink_bits) == (200.0, 70.0)


def test_every_update_has_one_fate(make_setting):
    world = make_setting(5, 20)
    rounds = [*Stationary(rho={"zipf": 1}, deliveries=2).rounds(world)]
    outcomes = world.recorder.outcomes()
    assert set(outcomes) == {(user, at) for user in range(5) for at in range(1, 21)}
    for (user, at), found in outcomes.items():
        heard = user in [each.user for each in rounds[at - 1].deliveries]
        assert found == ["delivered" if heard else "superseded" if at < 20 else "unfinished"]
    assert [time for kind, time, *_ in world.recorder.rows if kind == "broadcast"] == [float(at) for at in range(20)]
    times = [time for _, time, *_ in world.recorder.rows]
    assert times == sorted(times)


@pytest.mark.slow
def test_a_million_rounds_of_a_million_users_can_be_asked(make_setting):
    access = Stationary(rho={"zipf": 1.0})
    users = [one[0] for one in islice(access.candidates(make_setting(10**6, 10**6)), 25)]
    assert len(set(users)) > 10


@pytest.mark.parametrize(
    ("rho", "said"),
    [
        ([0.5, 0.4, 0.05], "sum to 0.95, not to 1"),
        ([0.5, 0.502], "sum to 1.002, not to 1"),
        ([1.2, -0.2], "greater than or equal to 0"),
        ([], "has too few entries"),
        ("zipf", "unknown value"),
        (0.5, "not a list"),
        ({"zipf": -1}, "greater than or equal to 0"),
        ({"zpif": 1}, "unknown key"),
        ([float("nan"), 1.0], "finite"),
    ],
)
def test_rates_that_are_none_are_refused(rho, said):
    with pytest.raises(ScenarioError, match=said) as caught:
        Stationary(rho=rho)
    assert caught.value.faults[0].key.split(".")[1] == "rho"


def test_a_bad_entry_is_named():
    with pytest.raises(ScenarioError) as caught:
        Stationary(rho=[0.5, "much", 0.5])
    assert caught.value.faults[0].key.endswith(".rho.1")


def test_nearly_one_is_made_one(make_setting):
    assert Stationary(rho=RHO30).rates(30, make_setting().streams).sum() == pytest.approx(1, abs=1e-12)


def test_misfits_are_faults():
    found = {fault.key for fault in Stationary(rho=[0.5, 0.5], deliveries=4).faults(ScenarioFacts(users=3, rounds=1))}
    assert found == {"rho", "deliveries"}
    assert not [*Stationary(rho={"zipf": 1}, deliveries=3).faults(ScenarioFacts(users=3, rounds=1))]


@pytest.mark.parametrize("rho", [[0.5, 0.5], {"zipf": 1.5}, "random_simplex"])
def test_it_says_itself_again(rho):
    access = Stationary(rho=rho)
    assert Stationary.model_validate(access.model_dump(mode="json")) == access
