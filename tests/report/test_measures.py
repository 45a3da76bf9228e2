"""The figures behind the pictures, against independent calculations and cases done by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from netfl.results import aggregates
from netfl.results.statistics import interval


def metrics_of(values, metric="accuracy", group="", seconds=60.0):
    """A metrics table from {(learner, replica): [figure per round 0, 1, ...]}."""
    parts = [
        pd.DataFrame(
            {
                "learner": learner,
                "replica": replica,
                "round": np.arange(len(figures)),
                "time_s": np.arange(len(figures)) * seconds * (replica + 1),
                "metric": metric,
                "group": group,
                "value": figures,
            }
        )
        for (learner, replica), figures in values.items()
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.astype(dict.fromkeys(("learner", "metric", "group"), "category"))


def events_of(*rows):
    """Events from (kind, user, node, time) rows."""
    table = pd.DataFrame(rows, columns=["kind", "user", "node", "time_s"])
    return table.assign(replica=0, round=1, detail="").astype({"kind": "category", "node": "category"})


def test_interval_is_scipys():
    draws = np.random.default_rng(3).normal(2.0, 1.5, 7)
    found, known = interval(draws), stats.ttest_1samp(draws, 0.0).confidence_interval(0.95)
    assert found.mean - found.half == pytest.approx(known.low)
    assert found.mean + found.half == pytest.approx(known.high)


def test_interval_leaves_out_what_is_not_finite_and_owns_up_to_one_replica():
    assert interval([1.0, np.nan, 3.0]).replicas == 2
    assert interval([0.5]).clear is None
    assert interval([]).replicas == 0
    assert interval([1.0, 1.1, 0.9]).clear
    assert not interval([-1.0, 1.1, 0.9]).clear


def test_curve_is_the_mean_over_replicas_with_its_t_interval():
    table = metrics_of({("A", 0): [0.1, 0.5], ("A", 1): [0.3, 0.9], ("A", 2): [0.2, 0.4], ("B", 0): [0.0, 1.0]})
    found = aggregates.curve(table, "accuracy")
    last = found[(found["learner"] == "A") & (found["at"] == 1)].iloc[0]
    known = stats.ttest_1samp([0.5, 0.9, 0.4], 0.0).confidence_interval(0.95)
    assert last["mean"] == pytest.approx(0.6)
    assert (last["low"], last["high"]) == (pytest.approx(known.low), pytest.approx(known.high))
    single = found[found["learner"] == "B"]
    assert single["mean"].tolist() == [0.0, 1.0]
    assert single["low"].isna().all()


def test_curve_over_time_puts_replicas_on_one_clock():
    # replica 0 gains 0.1 a minute, replica 1 takes twice as long: on the clock the mean gains 0.075 a minute
    table = metrics_of({("A", 0): np.arange(11) * 0.1, ("A", 1): np.arange(11) * 0.1})
    found = aggregates.curve(table, "accuracy", over="time")
    assert found["at"].max() == pytest.approx(600.0)
    assert np.allclose(found["mean"], found["at"] / 60.0 * 0.075)


def test_final_is_the_mean_over_the_last_tenth_of_the_rounds():
    figures = np.arange(101.0)
    found = aggregates.final(metrics_of({("A", 0): figures, ("B", 0): -figures}), "accuracy")
    assert found["A", 0] == pytest.approx(figures[90:].mean())
    assert found["B", 0] == pytest.approx(-figures[90:].mean())


def test_a_learner_that_diverges_does_not_end_the_clock_of_the_others():
    whole, gone = np.arange(11) * 0.1, [0.3, *[np.nan] * 10]
    table = metrics_of({("A", 0): whole, ("A", 1): whole, ("B", 0): gone, ("B", 1): gone}).dropna()
    found = aggregates.curve(table, "accuracy", over="time")
    own = found[found["learner"] == "A"]
    assert own["at"].max() == pytest.approx(600.0)
    assert np.allclose(own["mean"], own["at"] / 60.0 * 0.075)
    assert found.loc[found["learner"] == "B", ["at", "mean"]].to_numpy().tolist() == [[0.0, pytest.approx(0.3)]]


def test_a_replica_that_diverges_leaves_the_others_from_there_on():
    table = metrics_of({("A", 0): np.ones(11), ("A", 1): [0.0] * 3 + [np.nan] * 8}).dropna()
    table = pd.concat([table, metrics_of({("B", 1): np.ones(11)})])  # says how long replica 1 went on: 1200 s
    found = aggregates.curve(table, "accuracy", over="time").query("learner == 'A'")
    assert found["at"].max() == pytest.approx(600.0)
    assert np.allclose(found["mean"], np.where(found["at"] <= 240.0, 0.5, 1.0))


def test_final_figures_of_choices_are_those_of_the_last_evaluation():
    figures = np.arange(101.0)
    values = {("A", 0): figures, ("tuned", 0): figures}
    found = aggregates.final(metrics_of(values), "accuracy", choices=["tuned"])
    assert found.to_dict() == {("A", 0): pytest.approx(95.0), ("tuned", 0): 100.0}
    users = aggregates.grouped_final_metrics(metrics_of(values, group="user:4"), "accuracy", "user", choices=["tuned"])
    assert users.set_index("learner")["value"].to_dict() == {"A": pytest.approx(95.0), "tuned": 100.0}


def test_only_curves_that_swing_are_smoothed():
    at = np.arange(200)
    rise = 1 - np.exp(-at / 40)
    noise = np.random.default_rng(1).normal(0, 0.2, 200)
    step = (at > 90).astype(float)
    assert aggregates.smoothing_window(metrics_of({("A", 0): rise}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): step}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): np.ones(200)}), "accuracy") == 1
    assert aggregates.smoothing_window(metrics_of({("A", 0): np.where(at > 100, rise + noise, 0)}), "accuracy") == 10


def test_smoothing_looks_back_only():
    figures = np.random.default_rng(2).random(30)
    found = aggregates.curve(metrics_of({("A", 0): figures}), "accuracy", smooth=5)["mean"].to_numpy()
    assert found[10] == pytest.approx(figures[6:11].mean())
    assert found[0] == figures[0]


def test_groups_are_told_apart_by_kind_and_number():
    table = pd.concat(
        [metrics_of({("A", 0): [0.0, value]}, group=group) for group, value in
         (("", 0.9), ("class:1", 0.1), ("class:10", 0.2), ("user:1", 0.3))],
        ignore_index=True,
    )  # fmt: skip
    classes = aggregates.grouped_final_metrics(table, "accuracy", "class").set_index("number")["value"]
    assert classes.to_dict() == {1: pytest.approx(0.1), 10: pytest.approx(0.2)}
    assert aggregates.grouped_final_metrics(table, "accuracy", "user")["number"].tolist() == [1]
    assert aggregates.grouped_final_metrics(table, "loss", "user").empty


def test_outages_pair_what_went_down_with_what_came_up():
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


def test_users_below_a_tower_are_cut_off_with_it_and_overlaps_count_once():
    down = aggregates.outages(events_of(("down", -1, "tower:1", 10.0), ("up", -1, "tower:1", 30.0)), 100.0)
    users = pd.DataFrame({"user": [0, 1, 2], "tower": ["tower:0", "tower:1", "tower:1"]})
    cut = aggregates.tower_outages(down, users)
    assert cut["user"].tolist() == [1, 2]
    own = pd.DataFrame({"user": [1, 1, 0], "from_s": [20.0, 12.0, 3.0], "to_s": [40.0, 13.0, 4.0]})
    lengths = aggregates.covered_time(pd.concat([cut, own]))
    assert lengths.to_dict() == {0: 1.0, 1: 30.0, 2: 20.0}


def test_silence_counts_from_the_start_and_to_the_end():
    delivered = pd.DataFrame({"user": [0, 0, 1, 5], "arrived_s": [10.0, 70.0, 40.0, 1.0]})
    found = aggregates.longest_silences(delivered, [0, 1, 2], 100.0).set_index("user")
    assert found.loc[0].tolist() == [10.0, 70.0]
    assert found.loc[1].tolist() == [40.0, 100.0]
    assert found.loc[2].tolist() == [0.0, 100.0]


@pytest.mark.parametrize("rounds", [7, 80, 81, 403])
def test_stacking_loses_nothing(rounds):
    rng = np.random.default_rng(rounds)
    rows = pd.DataFrame(
        {"round": rng.integers(1, rounds + 1, 5000), "outcome": rng.choice(["late", "delivered"], 5000)}
    )
    table = aggregates.outcome_bins(rows, rounds, 2)
    starts = table.index.to_numpy()
    lengths = np.diff(np.append(starts, rounds + 1))
    assert len(table) <= 80
    assert (table.sum(axis="columns").to_numpy() * lengths * 2).sum() == pytest.approx(5000)
    in_first = rows["round"] < starts[0] + lengths[0]
    assert table["late"].iloc[0] * lengths[0] * 2 == pytest.approx((in_first & (rows["outcome"] == "late")).sum())


def test_presence_is_a_share_of_rounds():
    delivered = pd.DataFrame({"user": [4, 4, 2, 9], "round": [1, 1000, 3, 5]})
    share = aggregates.delivery_shares(delivered, [4, 2], 1000, bins=500)
    assert share.shape == (2, 500)
    assert share[0, [0, 499]].tolist() == [0.5, 0.5]
    assert share[1, 1] == 0.5
    assert share.sum() == 1.5


def test_what_was_spent_by_an_evaluation():
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


def test_a_curve_over_bits_is_read_where_all_replicas_have_come():
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
