"""The aggregates behind the plots compared with independent calculations and cases by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from netfl.results import aggregates
from netfl.results.statistics import interval


def metrics_of(values, metric="accuracy", group="", seconds=60.0):
    """Return a metrics table from {(learner, replica): [value in round 0, 1, ...]}."""
    parts = [
        pd.DataFrame(
            {
                "learner": learner,
                "replica": replica,
                "round": np.arange(len(series)),
                "time_s": np.arange(len(series)) * seconds * (replica + 1),
                "metric": metric,
                "group": group,
                "value": series,
            }
        )
        for (learner, replica), series in values.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.astype(dict.fromkeys(("learner", "metric", "group"), "category"))


def events_of(*rows):
    """Return a table of events from rows of (kind, user, node, time)."""
    table = pd.DataFrame(rows, columns=["kind", "user", "node", "time_s"])
    return table.assign(replica=0, round=1, detail="").astype({"kind": "category", "node": "category"})


def test_interval_matches_scipy():
    draws = np.random.default_rng(3).normal(2.0, 1.5, 7)
    found, expected = interval(draws), stats.ttest_1samp(draws, 0.0).confidence_interval(0.95)
    assert found.mean - found.half == pytest.approx(expected.low)
    assert found.mean + found.half == pytest.approx(expected.high)


def test_interval_ignores_nan_and_needs_two_replicas():
    assert interval([1.0, np.nan, 3.0]).replicas == 2
    assert interval([0.5]).clear is None
    assert interval([]).replicas == 0
    assert interval([1.0, 1.1, 0.9]).clear
    assert not interval([-1.0, 1.1, 0.9]).clear


def test_curve_is_mean_over_replicas_with_t_interval():
    table = metrics_of({("A", 0): [0.1, 0.5], ("A", 1): [0.3, 0.9], ("A", 2): [0.2, 0.4], ("B", 0): [0.0, 1.0]})
    found = aggregates.curve(table, "accuracy")
    last = found[(found["learner"] == "A") & (found["at"] == 1)].iloc[0]
    expected = stats.ttest_1samp([0.5, 0.9, 0.4], 0.0).confidence_interval(0.95)
    assert last["mean"] == pytest.approx(0.6)
    assert (last["low"], last["high"]) == (pytest.approx(expected.low), pytest.approx(expected.high))
    single = found[found["learner"] == "B"]
    assert single["mean"].tolist() == [0.0, 1.0]
    assert single["low"].isna().all()


def test_curve_over_time_interpolates_replicas():
    # replica 0 gains 0.1 a minute, replica 1 takes twice as long: on the clock the mean gains 0.075 a minute
    table = metrics_of({("A", 0): np.arange(11) * 0.1, ("A", 1): np.arange(11) * 0.1})
    found = aggregates.curve(table, "accuracy", over="time")
    assert found["at"].max() == pytest.approx(600.0)
    assert np.allclose(found["mean"], found["at"] / 60.0 * 0.075)


def test_final_is_mean_over_last_tenth_of_rounds():
    series = np.arange(101.0)
    found = aggregates.final(metrics_of({("A", 0): series, ("B", 0): -series}), "accuracy")
    assert found["A", 0] == pytest.approx(series[90:].mean())
    assert found["B", 0] == pytest.approx(-series[90:].mean())


def test_diverged_learner_does_not_shorten_other_curves():
    whole, gone = np.arange(11) * 0.1, [0.3, *[np.nan] * 10]
    table = metrics_of({("A", 0): whole, ("A", 1): whole, ("B", 0): gone, ("B", 1): gone}).dropna()
    found = aggregates.curve(table, "accuracy", over="time")
    curve_a = found[found["learner"] == "A"]
    assert curve_a["at"].max() == pytest.approx(600.0)
    assert np.allclose(curve_a["mean"], curve_a["at"] / 60.0 * 0.075)
    assert found.loc[found["learner"] == "B", ["at", "mean"]].to_numpy().tolist() == [[0.0, pytest.approx(0.3)]]


def test_diverged_replica_is_left_out_from_there_on():
    table = metrics_of({("A", 0): np.ones(11), ("A", 1): [0.0] * 3 + [np.nan] * 8}).dropna()
    table = pd.concat([table, metrics_of({("B", 1): np.ones(11)})])  # replica 1 ends at 1200 s
    found = aggregates.curve(table, "accuracy", over="time").query("learner == 'A'")
    assert found["at"].max() == pytest.approx(600.0)
    assert np.allclose(found["mean"], np.where(found["at"] <= 240.0, 0.5, 1.0))


def test_final_metrics_of_choices_are_of_last_evaluation():
    series = np.arange(101.0)
    values = {("A", 0): series, ("tuned", 0): series}
    found = aggregates.final(metrics_of(values), "accuracy", choices=["tuned"])
    assert found.to_dict() == {("A", 0): pytest.approx(95.0), ("tuned", 0): 100.0}
    users = aggregates.grouped_final_metrics(metrics_of(values, group="user:4"), "accuracy", "user", choices=["tuned"])
    assert users.set_index("learner")["value"].to_dict() == {"A": pytest.approx(95.0), "tuned": 100.0}


def test_only_noisy_curves_are_smoothed():
    at = np.arange(200)
    rise = 1 - np.exp(-at / 40)
    noise = np.random.default_rng(1).normal(0, 0.2, 200)
    step = (at > 90).astype(float)
    assert aggregates.smoothing_window(metrics_of({("A", 0): rise}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): step}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): np.ones(200)}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): np.where(at > 100, rise + noise, 0)}), "accuracy") == 20


def test_smoothing_is_causal():
    series = np.random.default_rng(2).random(30)
    found = aggregates.curve(metrics_of({("A", 0): series}), "accuracy", smooth=5)["mean"].to_numpy()
    assert found[10] == pytest.approx(series[6:11].mean())
    assert found[0] == series[0]


def test_groups_are_distinguished_by_kind_and_number():
    table = pd.concat(
        [metrics_of({("A", 0): [0.0, value]}, group=group) for group, value in
         (("", 0.9), ("class:1", 0.1), ("class:10", 0.2), ("user:1", 0.3))],
        ignore_index=True,
    )  # fmt: skip
    classes = aggregates.grouped_final_metrics(table, "accuracy", "class").set_index("number")["value"]
    assert classes.to_dict() == {1: pytest.approx(0.1), 10: pytest.approx(0.2)}
    assert aggregates.grouped_final_metrics(table, "accuracy", "user")["number"].tolist() == [1]
    assert aggregates.grouped_final_metrics(table, "loss", "user").empty


def test_outages_pair_down_and_up_events():
    found = aggregates.outages(
        events_of(
            ("down", 1, "", 10.0), ("up", 1, "", 20.0), ("down", 1, "", 30.0),
            ("up", 2, "", 5.0), ("down", 2, "", 50.0), ("down", 2, "", 55.0), ("up", 2, "", 60.0),
            ("down", -1, "tower:0", 7.0), ("up", -1, "tower:0", 8.0), ("delivered", 1, "", 9.0),
        ),
        100.0,
    )  # fmt: skip
    spans = {(row.user, row.node, row.from_s, row.to_s) for row in found.itertuples()}
    assert spans == {
        (1, "", 10.0, 20.0),
        (1, "", 30.0, 100.0),
        (2, "", 0.0, 5.0),
        (2, "", 50.0, 60.0),
        (-1, "tower:0", 7.0, 8.0),
    }
    assert aggregates.outages(events_of(), 1.0).empty


def test_outage_of_tower_covers_its_users_once():
    down = aggregates.outages(events_of(("down", -1, "tower:1", 10.0), ("up", -1, "tower:1", 30.0)), 100.0)
    users = pd.DataFrame({"user": [0, 1, 2], "tower": ["tower:0", "tower:1", "tower:1"]})
    cut = aggregates.tower_outages(down, users)
    assert cut["user"].tolist() == [1, 2]
    user_outages = pd.DataFrame({"user": [1, 1, 0], "from_s": [20.0, 12.0, 3.0], "to_s": [40.0, 13.0, 4.0]})
    lengths = aggregates.covered_time(pd.concat([cut, user_outages]))
    assert lengths.to_dict() == {0: 1.0, 1: 30.0, 2: 20.0}


def test_silences_include_start_and_end():
    delivered = pd.DataFrame({"user": [0, 0, 1, 5], "arrived_s": [10.0, 70.0, 40.0, 1.0]})
    found = aggregates.longest_silences(delivered, [0, 1, 2], 100.0).set_index("user")
    assert found.loc[0].tolist() == [10.0, 70.0]
    assert found.loc[1].tolist() == [40.0, 100.0]
    assert found.loc[2].tolist() == [0.0, 100.0]


@pytest.mark.parametrize("rounds", [7, 80, 81, 403])
def test_outcome_bins_keep_all_outcomes(rounds):
    rng = np.random.default_rng(rounds)
    rows = pd.DataFrame(
        {"round": rng.integers(1, rounds + 1, 5000), "outcome": rng.choice(["late", "delivered"], 5000)}
    )
    table = aggregates.outcome_bins(rows, [rounds, rounds])
    starts = table.index.to_numpy()
    lengths = np.diff(np.append(starts, rounds + 1))
    assert len(table) <= 80
    assert (table.sum(axis="columns").to_numpy() * lengths * 2).sum() == pytest.approx(5000)
    in_first = rows["round"] < starts[0] + lengths[0]
    assert table["late"].iloc[0] * lengths[0] * 2 == pytest.approx((in_first & (rows["outcome"] == "late")).sum())


@pytest.mark.parametrize(("last_rounds", "every"), [([403], 1), ([200, 90], 1), ([403, 250], 3), ([90], 40)])
def test_steady_outcomes_have_bins_of_equal_height(last_rounds, every):
    """Two updates in each recorded round, whatever part of a bin is covered, by how many replicas."""
    recorded = [number for last in last_rounds for number in range(1, last + 1, every)]
    rows = pd.DataFrame({"round": np.repeat(recorded, 2), "outcome": "delivered"})
    table = aggregates.outcome_bins(rows, last_rounds, every=every)
    assert len(table) <= 80
    assert table["delivered"].to_numpy() == pytest.approx(2.0)
    assert table.index[-1] + table.index[1] - table.index[0] > max(last_rounds)


def test_delivery_shares_are_shares_of_rounds():
    delivered = pd.DataFrame({"user": [4, 4, 2, 9], "round": [1, 1000, 3, 5]})
    share = aggregates.delivery_shares(delivered, [4, 2], 1000, bins=500)
    assert share.shape == (2, 500)
    assert share[0, [0, 499]].tolist() == [0.5, 0.5]
    assert share[1, 1] == 0.5
    assert share.sum() == 1.5


def test_cost_is_cumulative_up_to_each_evaluation():
    rounds = pd.DataFrame(
        {
            "replica": [0, 0, 0, 1, 1, 1],
            "round": [1, 2, 3, 1, 2, 3],
            "uplink_bits": [10.0, 20.0, 30.0, 1.0, 2.0, 3.0],
            "energy_J": [0.5, 1.5, 4.0, np.nan, np.nan, np.nan],
        }
    )
    metrics = pd.DataFrame({"replica": [0, 0, 0, 1, 1], "round": [0, 2, 3, 0, 3], "value": 0.5})
    found = aggregates.with_cost(metrics, rounds)
    assert found["uplink_bits"].tolist() == [0.0, 30.0, 60.0, 0.0, 6.0]
    assert found["energy_J"].fillna(-1).tolist() == [0.0, 1.5, 4.0, -1.0, -1.0]


def test_curve_over_bits_ends_with_first_replica():
    rounds = pd.DataFrame(
        {"replica": [0, 0, 1, 1], "round": [1, 2, 1, 2], "uplink_bits": [5.0, 5.0, 10.0, 10.0], "energy_J": np.nan}
    )
    metrics = pd.DataFrame(
        {
            "learner": "A",
            "replica": [0, 0, 0, 1, 1, 1],
            "round": [0, 1, 2, 0, 1, 2],
            "time_s": 0.0,
            "metric": "accuracy",
            "group": "",
            "value": [0.0, 0.5, 1.0, 0.0, 0.5, 1.0],
        }
    )
    found = aggregates.curve(aggregates.with_cost(metrics, rounds), "accuracy", over="bits")
    assert (found["at"].min(), found["at"].max()) == (0.0, 10.0)
    assert found["mean"].iloc[-1] == pytest.approx((1.0 + 0.5) / 2)
