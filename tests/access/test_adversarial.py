"""Adversarial access: targets, active rounds, limits, rates, and one outcome for every update."""

# ruff: noqa: E501 - a scenario is written on one line

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


def test_listed_users_are_censored_and_others_are_unaffected(make_context, delivered_users):
    access = Adversarial(inner=HALF, users=[0, 2])
    without = delivered_users(Bernoulli(probability=0.5), make_context(4, 300))
    assert delivered_users(access, make_context(4, 300)) == [
        tuple(user for user in users if user in {1, 3}) for users in without
    ]
    assert access.rates(4, make_context().streams).tolist() == [0.0, 0.5, 0.0, 0.5]
    alone = delivered_users(Adversarial(inner=ONE, users=[0]), make_context(4, 300))
    assert [
        users if users != (0,) else () for users in delivered_users(Stationary(rho=ONE["rho"]), make_context(4, 300))
    ] == alone


@pytest.mark.slow
def test_censoring_succeeds_with_the_given_probability(make_context, delivery_matrix):
    access = Adversarial(inner=HALF, users=[0], probability=0.8)
    available = delivery_matrix(access, make_context(2, 20_000)).sum(axis=0)
    assert stats.binomtest(int(available[0]), 20_000, 0.1).pvalue > 1e-5
    assert stats.binomtest(int(available[1]), 20_000, 0.5).pvalue > 1e-5
    assert access.rates(2, make_context().streams).tolist() == pytest.approx([0.1, 0.5])


def test_censoring_is_limited_to_the_given_rounds(make_context, delivery_matrix):
    access = Adversarial(inner=ALL, users=[1], first_round=4, last_round=13, every=3)
    available = delivery_matrix(access, make_context(2, 20))
    assert (np.flatnonzero(~available[:, 1]) + 1).tolist() == [4, 7, 10, 13]
    assert available[:, 0].all()
    assert access.info.process == "non-stationary"
    assert Adversarial(inner=ALL, users=[1]).info.process == Bernoulli(probability=1.0).info.process == "stationary"
    assert Adversarial(inner=ALL, users=[1], every=2).info.process == "cyclic"
    assert Adversarial(inner=ALL, target="rarest", size=1, first_round=4).info.process is None


def test_limits_per_round_and_in_total(make_context, delivery_matrix, delivered_users):
    available = delivery_matrix(Adversarial(inner=ALL, users=[0, 1, 2], per_round=1, budget=7), make_context(4, 20))
    assert (~available).sum(axis=1).tolist() == [1] * 7 + [0] * 13
    assert available[:, 3].all()
    assert (~available).sum(axis=0)[:3].min() > 0
    all_delivered = delivered_users(Bernoulli(probability=1.0), make_context(4, 20))
    for before, after in zip(
        all_delivered,
        delivered_users(Adversarial(inner=ALL, users=[0, 1], per_round=1), make_context(4, 20)),
        strict=True,
    ):
        (lost,) = set(before) - set(after)
        assert lost == next(user for user in before if user in {0, 1})  # the one that arrives first
    unlimited_per_round = delivery_matrix(Adversarial(inner=ALL, users=[0, 1, 2], budget=7), make_context(4, 20))
    assert (~unlimited_per_round).sum(axis=1).tolist() == [3, 3, 1] + [0] * 17


@pytest.mark.parametrize("target", ["rarest", "most_delivered"])
def test_adaptive_targets_follow_the_delivery_counts(make_context, delivered_users, target):
    context = make_context(6, 400)
    access = Adversarial(inner=HALF, target=target, size=2, first_round=11)
    without, delivered = (
        delivered_users(Bernoulli(probability=0.5), context),
        delivered_users(access, make_context(6, 400)),
    )
    counts = np.zeros(6, int)
    for index, (before, after) in enumerate(zip(without, delivered, strict=True), start=1):
        lost = set(before) - set(after)
        assert set(after) <= set(before)
        if index < 11:
            assert not lost
        else:
            order = np.sort(counts if target == "rarest" else -counts)
            rank = counts if target == "rarest" else -counts
            sure = {user for user in before if rank[user] < order[1]}
            possible = {user for user in before if rank[user] <= order[1]}
            assert sure <= lost <= possible
            assert len(lost) <= 2
        counts[list(after)] += 1
    if target == "rarest":
        assert np.sort(counts)[1] < 11 < np.sort(counts)[2]  # the rarest users stay the rarest
    else:
        assert counts.max() - counts.min() <= 2 + 12  # no user gets ahead


def test_every_update_has_one_outcome_and_censored_updates_are_dropped(make_context):
    context = make_context(5, 50)
    rounds = [
        *Adversarial(inner={"kind": "stationary", "rho": {"zipf": 1}, "deliveries": 3}, users=[0, 1]).rounds(context)
    ]
    outcomes = context.recorder.outcomes()
    assert set(outcomes) == {(user, at) for user in range(5) for at in range(1, 51)}
    assert {len(kinds) for kinds in outcomes.values()} == {1}
    dropped = {key for key, (outcome,) in outcomes.items() if outcome == "dropped"}
    assert dropped
    assert {user for user, _ in dropped} == {0, 1}
    for round_ in rounds:
        lost = [user for user, at in dropped if at == round_.index]
        assert len(round_.deliveries) + len(lost) == 3
        assert round_.uplink_bits == 300.0  # censored updates are sent, too
        assert all(round_.opened_s < delivery.arrived_s <= round_.closed_s for delivery in round_.deliveries)


def test_event_table_records_censored_updates(tmp_path):
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


def test_server_does_not_count_censored_updates_as_delivered(make_context, delivered_users):
    """A selection by age keeps selecting a user that is always censored."""
    oldest = {"kind": "bernoulli", "probability": 1.0, "selection": {"kind": "oldest", "m": 1}}
    for censored in range(3):
        delivered = delivered_users(Adversarial(inner=oldest, users=[censored]), make_context(3, 12))
        assert {user for users in delivered[:3] for user in users} == set(range(3)) - {censored}
        assert delivered[3:] == [()] * 9
    assert {
        len(users) for users in delivered_users(Adversarial(inner=oldest, users=[0], budget=1), make_context(3, 12))[3:]
    } == {1}


def test_properties_derive_from_the_inner_access(make_context):
    access = Adversarial(inner={"kind": "bernoulli", "probability": {"label_correlated": {}}}, users=[0])
    assert access.info.needs_label_mix
    assert access.rates(3, make_context().streams) is None
    assert Adversarial(inner=ONE, users=[0]).max_deliveries(4, 9) == 1
    assert not access.info.is_closed_loop
    assert Adversarial(inner=HALF, users=[0], budget=3).rates(3, make_context().streams) is None
    assert Adversarial(inner=HALF, target="rarest", size=1).rates(3, make_context().streams) is None
    assert Adversarial(inner=HALF, users=[0], every=4).rates(2, make_context().streams).tolist() == [0.375, 0.5]


@pytest.mark.parametrize(
    "overrides",
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
def test_values_out_of_range_raise_an_error(overrides):
    with pytest.raises(ScenarioError) as error:
        Adversarial(**{"inner": HALF, "users": [0]} | overrides)
    assert {fault.key.split(".")[1] for fault in error.value.faults} == set(overrides)


@pytest.mark.parametrize(
    ("overrides", "key", "message"),
    [
        ({"users": None}, "users", "missing; target: listed needs it"),
        ({"size": 2}, "size", "has no effect without target: rarest or most_delivered"),
        ({"target": "rarest", "users": None}, "size", "missing; target: rarest needs it"),
        ({"target": "rarest", "size": 2}, "users", "has no effect without target: listed"),
    ],
)
def test_each_target_accepts_its_own_keys(overrides, key, message):
    with pytest.raises(ScenarioError, match=f"{key}: {message}"):
        Adversarial(**{"inner": HALF, "users": [0]} | overrides)


@pytest.mark.parametrize(
    ("overrides", "message"),
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
def test_settings_that_do_not_fit_the_scenario_are_errors(overrides, message):
    access = Adversarial(**{"inner": HALF, "users": [0]} | overrides)
    (fault,) = access.faults(ScenarioFacts(users=4, rounds=10))
    assert str(fault).startswith(message)
    assert fault.remedy


def test_errors_of_the_inner_access_have_their_paths(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\nusers: 4\nrounds: 9\naccess:\n  kind: adversarial\n  users: [7]\n  inner:\n    kind: bernoulli\n    probability: [0.5, 0.5]\n    deliveries: 9\n"
    )
    with pytest.raises(ScenarioError) as error:
        netfl.load(tmp_path / "s.yaml")
    assert {fault.key for fault in error.value.faults} == {
        "access.users",
        "access.inner.probability",
        "access.inner.deliveries",
    }


def test_dump_and_validate_restore_the_access():
    access = Adversarial(
        inner=ONE, target="most_delivered", size=2, per_round=1, budget=9, first_round=3, last_round=8, every=2
    )
    assert Adversarial.model_validate(access.model_dump(mode="json")) == access
