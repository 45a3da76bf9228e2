"""The adversary: whom it holds back and when, what that leaves, its limits, and one outcome for every update."""

# ruff: noqa: E501 - a scenario stands on one line

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import netfl
from netfl.access.adversarial import Adversarial
from netfl.access.bernoulli import Bernoulli
from netfl.access.stationary import Stationary
from netfl.errors import ScenarioError
from netfl.types import ScenarioFacts

HALF = {"kind": "bernoulli", "probability": 0.5}
ALL = {"kind": "bernoulli", "probability": 1.0}
ONE = {"kind": "stationary", "rho": [0.4, 0.3, 0.2, 0.1]}


def test_listed_users_are_never_heard_and_the_others_as_ever(make_setting, hear):
    access = Adversarial(inner=HALF, users=[0, 2])
    without = hear(Bernoulli(probability=0.5), make_setting(4, 300))
    assert hear(access, make_setting(4, 300)) == [tuple(u for u in one if u in {1, 3}) for one in without]
    assert access.rates(4, make_setting().streams).tolist() == [0.0, 0.5, 0.0, 0.5]
    alone = hear(Adversarial(inner=ONE, users=[0]), make_setting(4, 300))
    assert [one if one != (0,) else () for one in hear(Stationary(rho=ONE["rho"]), make_setting(4, 300))] == alone


@pytest.mark.slow
def test_each_try_succeeds_as_often_as_stated(make_setting, presence):
    access = Adversarial(inner=HALF, users=[0], probability=0.8)
    there = presence(access, make_setting(2, 20_000)).sum(axis=0)
    assert stats.binomtest(int(there[0]), 20_000, 0.1).pvalue > 1e-5
    assert stats.binomtest(int(there[1]), 20_000, 0.5).pvalue > 1e-5
    assert access.rates(2, make_setting().streams).tolist() == pytest.approx([0.1, 0.5])


def test_in_given_rounds(make_setting, presence):
    access = Adversarial(inner=ALL, users=[1], first_round=4, last_round=13, every=3)
    there = presence(access, make_setting(2, 20))
    assert (np.flatnonzero(~there[:, 1]) + 1).tolist() == [4, 7, 10, 13]
    assert there[:, 0].all()
    assert access.info.process == "non-stationary"
    assert Adversarial(inner=ALL, users=[1]).info.process == Bernoulli(probability=1.0).info.process == "stationary"
    assert Adversarial(inner=ALL, users=[1], every=2).info.process == "cyclic"
    assert Adversarial(inner=ALL, target="rarest", size=1, first_round=4).info.process is None


def test_at_most_so_many_in_a_round_and_in_all(make_setting, presence, hear):
    there = presence(Adversarial(inner=ALL, users=[0, 1, 2], per_round=1, budget=7), make_setting(4, 20))
    assert (~there).sum(axis=1).tolist() == [1] * 7 + [0] * 13
    assert there[:, 3].all()
    assert (~there).sum(axis=0)[:3].min() > 0
    everyone = hear(Bernoulli(probability=1.0), make_setting(4, 20))
    for before, after in zip(
        everyone, hear(Adversarial(inner=ALL, users=[0, 1], per_round=1), make_setting(4, 20)), strict=True
    ):
        (lost,) = set(before) - set(after)
        assert lost == next(user for user in before if user in {0, 1})  # the one that arrives first
    spent = presence(Adversarial(inner=ALL, users=[0, 1, 2], budget=7), make_setting(4, 20))
    assert (~spent).sum(axis=1).tolist() == [3, 3, 1] + [0] * 17


@pytest.mark.parametrize("target", ["rarest", "most_delivered"])
def test_adaptive_targets_by_a_walk_over_what_was_heard(make_setting, hear, target):
    world = make_setting(6, 400)
    access = Adversarial(inner=HALF, target=target, size=2, first_round=11)
    without, found = hear(Bernoulli(probability=0.5), world), hear(access, make_setting(6, 400))
    heard = np.zeros(6, int)
    for index, (before, after) in enumerate(zip(without, found, strict=True), start=1):
        lost = set(before) - set(after)
        assert set(after) <= set(before)
        if index < 11:
            assert not lost
        else:
            order = np.sort(heard if target == "rarest" else -heard)
            rank = heard if target == "rarest" else -heard
            sure = {user for user in before if rank[user] < order[1]}
            possible = {user for user in before if rank[user] <= order[1]}
            assert sure <= lost <= possible
            assert len(lost) <= 2
        heard[list(after)] += 1
    if target == "rarest":
        assert np.sort(heard)[1] < 11 < np.sort(heard)[2]  # those behind stay behind
    else:
        assert heard.max() - heard.min() <= 2 + 12  # nobody gets ahead


def test_every_update_has_one_fate_and_what_is_held_back_is_told(make_setting):
    world = make_setting(5, 50)
    rounds = [
        *Adversarial(inner={"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 3}, users=[0, 1]).rounds(world)
    ]
    outcomes = world.recorder.outcomes()
    assert set(outcomes) == {(user, at) for user in range(5) for at in range(1, 51)}
    assert {len(found) for found in outcomes.values()} == {1}
    dropped = {key for key, (outcome,) in outcomes.items() if outcome == "dropped"}
    assert dropped
    assert {user for user, _ in dropped} == {0, 1}
    for one in rounds:
        lost = [user for user, at in dropped if at == one.index]
        assert len(one.deliveries) + len(lost) == 3
        assert one.uplink_bits == 300.0  # it was sent all the same
        assert all(one.opened_s < each.arrived_s <= one.closed_s for each in one.deliveries)


def test_the_detail_of_the_fate_is_in_the_table(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\nusers: 4\nrounds: 30\naccess:\n  kind: adversarial\n  inner: {kind: bernoulli, probability: 0.9, deliveries: 2, round_length: 5 s}\n  users: [3]\n"
    )
    run = netfl.trace(netfl.load(tmp_path / "s.yaml"), tmp_path / "run")
    dropped = run.events[run.events["kind"] == "dropped"]
    assert len(dropped) > 5
    assert set(dropped["detail"]) == {"censored"}
    assert set(dropped["user"]) == {3}
    assert run.rounds["closed_s"].max() == 150.0
    assert run.summary["outcome.dropped"] == len(dropped)


def test_the_server_does_not_take_what_it_did_not_get_for_heard(make_setting, hear):
    """A selection by age goes on asking for a user that is always held back."""
    oldest = {"kind": "bernoulli", "probability": 1.0, "selection": {"kind": "oldest", "m": 1}}
    for censored in range(3):
        found = hear(Adversarial(inner=oldest, users=[censored]), make_setting(3, 12))
        assert {user for one in found[:3] for user in one} == set(range(3)) - {censored}
        assert found[3:] == [()] * 9
    assert {len(one) for one in hear(Adversarial(inner=oldest, users=[0], budget=1), make_setting(3, 12))[3:]} == {1}


def test_what_it_tells_is_of_the_other_access(make_setting):
    access = Adversarial(inner={"kind": "bernoulli", "probability": {"label_correlated": {}}}, users=[0])
    assert access.info.needs_label_mix
    assert access.rates(3, make_setting().streams) is None
    assert Adversarial(inner=ONE, users=[0]).max_deliveries(4, 9) == 1
    assert not access.info.is_closed_loop
    assert Adversarial(inner=HALF, users=[0], budget=3).rates(3, make_setting().streams) is None
    assert Adversarial(inner=HALF, target="rarest", size=1).rates(3, make_setting().streams) is None
    assert Adversarial(inner=HALF, users=[0], every=4).rates(2, make_setting().streams).tolist() == [0.375, 0.5]


@pytest.mark.parametrize(
    "said",
    [
        {"inner": {"kind": "bernuolli"}},
        {"probability": 0.0},
        {"users": []},
        {"users": [-1]},
        {"first_round": 0},
        {"every": 0},
        {"budget": 0},
        {"target": "all"},
    ],
)
def test_what_is_out_of_range_is_refused(said):
    with pytest.raises(ScenarioError) as caught:
        Adversarial(**{"inner": HALF, "users": [0]} | said)
    assert {fault.key.split(".")[1] for fault in caught.value.faults} == set(said)


@pytest.mark.parametrize(
    ("said", "key", "told"),
    [
        ({"users": None}, "users", "missing; target: listed needs it"),
        ({"size": 2}, "size", "has no effect without target: rarest or most_delivered"),
        ({"target": "rarest", "users": None}, "size", "missing; target: rarest needs it"),
        ({"target": "rarest", "size": 2}, "users", "has no effect without target: listed"),
    ],
)
def test_each_target_takes_its_own_keys(said, key, told):
    with pytest.raises(ScenarioError, match=f"{key}: {told}"):
        Adversarial(**{"inner": HALF, "users": [0]} | said)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"target": "rarest", "size": 5, "users": None}, "size: more than the 4 users"),
        ({"users": [0, 4]}, "users: no such users ([4])"),
        ({"users": [0, 0]}, "users: a user is named twice"),
        ({"per_round": 1}, "per_round: has no effect because the number of targets is 1 at a time"),
        ({"first_round": 11}, "first_round: is after the last round, 10"),
        ({"first_round": 5, "last_round": 4}, "last_round: before it begins, in round 5"),
        ({"inner": {"kind": "replay", "run": "x"}}, "inner: not a direct access"),
        ({"inner": {"kind": "adversarial", "inner": HALF, "users": [1]}}, "inner: not a direct access"),
    ],
)
def test_misfits_are_faults(said, told):
    access = Adversarial(**{"inner": HALF, "users": [0]} | said)
    (fault,) = access.faults(ScenarioFacts(users=4, rounds=10))
    assert str(fault).startswith(told)
    assert fault.remedy


def test_faults_of_the_other_access_are_told_where_they_stand(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\nusers: 4\nrounds: 9\naccess:\n  kind: adversarial\n  users: [7]\n  inner:\n    kind: bernoulli\n    probability: [0.5, 0.5]\n    deliveries: 9\n"
    )
    with pytest.raises(ScenarioError) as caught:
        netfl.load(tmp_path / "s.yaml")
    assert {fault.key for fault in caught.value.faults} == {
        "access.users",
        "access.inner.probability",
        "access.inner.deliveries",
    }


def test_it_says_itself_again():
    access = Adversarial(
        inner=ONE, target="most_delivered", size=2, per_round=1, budget=9, first_round=3, last_round=8, every=2
    )
    assert Adversarial.model_validate(access.model_dump(mode="json")) == access
