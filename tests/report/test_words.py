"""The sentences of the report: correct, and only as certain as the replicas allow."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from netfl import diagnosis
from netfl.core.formats import FORMAT
from netfl.report import page, summary_text
from netfl.report.run_data import RunData
from netfl.results.formatting import format_count, format_points
from netfl.results.run_reader import open_run


@pytest.fixture
def ends(tmp_path):
    """Return a function that builds a run whose learners end at given values per replica."""

    def view(values_of):
        rows = [
            {"learner": learner, "replica": replica, "round": at, "time_s": at, "metric": "accuracy", "group": ""}
            | {"value": at * value / 10}
            for learner, values in values_of.items()
            for replica, value in enumerate(values)
            for at in (0, 10)
        ]
        pd.DataFrame(rows).to_parquet(tmp_path / "metrics.parquet")
        (tmp_path / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "done"}))
        return RunData(open_run(tmp_path))

    return view


def verdict(view):
    return " ".join(page.sentences("verdict", "Over all classes", summary_text.rank_learners(view, "accuracy")))


def test_clear_win_has_paired_interval(ends):
    # replicas differ widely, but the paired difference is nearly the same in each
    text = verdict(ends({"A": [0.2, 0.5, 0.8], "B": [0.31, 0.6, 0.9]}))
    # means 0.5 and 0.60333; their intervals leave 0 to 100 %
    assert text.startswith(
        "Over all classes, in round 10 B has 60.3 [0.0*, 100.0*] % (n = 3), A 50.0 [0.0*, 100.0*] % (n = 3):"
    )
    assert "B is 10.3 points above A" in text
    # 11, 10, 10 points: mean 10.333, half width 4.3027 * 0.57735 / sqrt(3)
    assert "95 % interval +8.9 to +11.8, n = 3 pairs" in text


def test_difference_within_noise_is_not_significant(ends):
    text = verdict(ends({"A": [0.5, 0.7, 0.6], "B": [0.7, 0.5, 0.66]}))
    assert "do not differ significantly" in text
    assert "within the noise" in text
    assert "−" in text


@pytest.mark.parametrize(
    ("replicas", "remark"), [(1, "one replica: may be chance"), (2, "two replicas: may be chance")]
)
def test_few_replicas_have_no_direction_and_no_interval(ends, replicas, remark):
    text = verdict(ends({"A": [0.5] * replicas, "B": [0.9] * replicas, "C": [0.7] * replicas}))
    assert text == f"Over all classes, in round 10 B has 90.0 %, C 70.0 %, A 50.0 % ({remark})."


def test_ties_and_single_learners_are_described(ends):
    text = verdict(ends({"A": [0.5] * 3, "B": [0.5] * 3}))
    assert text == "Over all classes, in round 10 A has 50.0 ± 0.0 % (n = 3), B 50.0 ± 0.0 % (n = 3): they end alike."
    assert verdict(ends({"A": [0.25, 0.75]})) == "Over all classes, in round 10 A has 50.0 %."


def test_values_that_look_equal_end_alike_unless_the_difference_is_significant(ends):
    assert "they end alike" in verdict(ends({"A": [0.402, 0.6046, 0.5], "B": [0.406, 0.6, 0.5]}))
    assert "A is less than 0.1 points above B" in verdict(ends({"A": [0.5031] * 3, "B": [0.5029] * 3}))


def test_differences_are_those_of_the_unrounded_values(ends):
    # 71.74 - 66.68 = 5.06, while 71.7 - 66.7 = 5.0
    text = verdict(ends({"A": [0.6668] * 3, "B": [0.7174] * 3}))
    assert "B has 71.7 ± 0.0 % (n = 3), A 66.7 ± 0.0 % (n = 3): B is 5.1 points above A" in text


@pytest.mark.parametrize(("first", "second"), np.random.default_rng(0).uniform(size=(40, 2)).tolist())
def test_points_are_rounded_once(first, second):
    distance = float(format_points(first - second).split()[0])
    assert abs(distance - 100.0 * abs(first - second)) <= 0.05 + 1e-9


def test_learner_without_values_is_not_ranked(ends):
    assert verdict(ends({"A": [np.nan, np.nan], "B": [0.4, 0.4]})) == "Over all classes, in round 10 B has 40.0 %."


def test_values_of_a_sentence_are_those_of_the_table_if_a_replica_diverged(ends):
    view = ends({"A": [0.5, 0.6, 0.7, 0.8], "B": [0.6, 0.7, 0.8, np.nan]})
    text = verdict(view)
    for learner in ("A", "B"):
        value, count = view.cell("accuracy", learner).split(" (")
        assert f"{value} % ({count}" in text
    assert "B is 10.0 points above A" in text  # in the three replicas that both have


def test_lowest_of_many_learners_is_named(ends):
    assert "The lowest is A with 10.0 ± 0.0 % (n = 3)." in verdict(
        ends({"A": [0.1] * 3, "B": [0.5] * 3, "C": [0.9] * 3})
    )


@pytest.mark.slow
def test_users_without_deliveries_are_named(make):
    view = RunData(make())
    never = [user for user in range(30) if user not in set(view.run.deliveries.query("replica == 0")["user"])]
    text = summary_text.participation_sentences(view)[0]
    assert 29 in never
    assert all(str(user) in text for user in never)
    assert "with rare classes" in text


def test_user_with_fewest_deliveries_is_named(make):
    view = RunData(make(users=6, rounds=2000, replicas=1, network=False))
    delivered = view.run.deliveries[view.run.deliveries["user"] != 5]
    patched = pd.concat([delivered, delivered.head(2).assign(user=5)])
    view.run.__dict__["deliveries"] = patched
    assert (
        "user 5, which holds a rare class, had the fewest: 2 in 2\u202f000 rounds"
        in (summary_text.participation_sentences(view)[0])
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([5, 2, 4, 3, 2, 2], "users 1, 4 and 5, of which users 4 and 5 hold rare classes, had the fewest: 2 each in"),
        ([5, 2, 4, 3, 3, 3], "; user 1 had the fewest: 2 in"),
        ([5, 2, 2, 3, 3, 3], "; users 1 and 2 had the fewest: 2 each in"),
        ([5, 3, 3, 3, 2, 2], "; users 4 and 5, which hold rare classes, had the fewest: 2 each in"),
        ([5, 2, 2, 3, 3, 2], "users 1, 2 and 5, of which user 5 holds a rare class, had the fewest: 2 each in"),
        ([3] * 6, "All users had the same number of deliveries: 3 each in"),
    ],
)
def test_all_users_with_the_fewest_deliveries_are_named(make, counts, expected):
    view = RunData(make(users=6, rounds=20, replicas=1, network=False))
    rows = view.run.deliveries.head(1).loc[[0] * sum(counts)]
    view.run.__dict__["deliveries"] = rows.assign(user=np.repeat(np.arange(6), counts))
    assert f"{expected} 20 rounds" in summary_text.participation_sentences(view)[0]


def test_many_users_with_the_fewest_deliveries_are_counted(make):
    view = RunData(make(users=30, rounds=20, replicas=1, network=False))
    rows = view.run.deliveries.head(1).loc[[0] * 31]
    view.run.__dict__["deliveries"] = rows.assign(user=[0, *range(30)])
    assert "11, 12 and 17 more, of which users 27, 28 and 29 hold" in summary_text.participation_sentences(view)[0]


def test_sentences_on_one_of_several_replicas_name_it(make):
    lines = summary_text.run_summary(RunData(make(users=8, rounds=30, replicas=2)))
    begins = ("Users without deliveries in replica 0: ", "The longest time without a delivery of a user with a rare ")
    assert any(line.startswith(begins[0]) for line in lines)
    assert any(line.startswith(begins[1]) and " in replica 0: user " in line for line in lines)
    assert any("cut off" in line and line.endswith(" in replica 0.") for line in lines)
    assert not any(
        "in replica" in line for line in summary_text.run_summary(RunData(make(users=8, rounds=30, replicas=1)))
    )


@pytest.mark.slow
def test_rare_users_with_more_deliveries_are_mentioned(make):
    view = RunData(make(users=6, rounds=2000, replicas=1, network=False))
    assert not any("had fewer deliveries" in sentence for sentence in summary_text.run_summary(view))
    delivered = view.run.deliveries
    other_run = RunData(make(users=6, rounds=2000, replicas=1, network=False, name="loud"))
    other_run.run.__dict__["deliveries"] = pd.concat(
        [delivered, *[delivered[delivered["user"] == 0].assign(user=5)] * 2]
    )
    text = [sentence for sentence in summary_text.run_summary(other_run) if "had fewer deliveries" in sentence]
    others = int((~other_run.first_users["rare"]).sum())
    assert text == [
        f"Of {others} users without a rare class, {others} had fewer deliveries than user 5, which holds one."
    ]


@pytest.mark.slow
def test_users_are_counted_once_whatever_the_number_of_replicas(make):
    view = RunData(make(users=6, rounds=200, replicas=4, network=False, name="counted"))
    delivered = view.run.deliveries
    view.run.__dict__["deliveries"] = pd.concat([delivered, *[delivered.assign(user=5)] * 2])
    text = " ".join(summary_text.run_summary(view))
    others = int((~view.first_users["rare"]).sum())
    assert f"Of {others} users without a rare class, {others} had fewer deliveries in replica 0 than user 5" in text
    assert all(int(count) <= 6 for count in re.findall(r"(\d+) (?:other )?users", text))


@pytest.mark.slow
def test_outcomes_add_up(make):
    view = RunData(make())
    outcomes = view.run.events["kind"].astype(str)
    superseded = (outcomes == "superseded").sum() / view.outcomes.shape[0]
    text = " ".join(summary_text.outcome_sentences(view))
    assert f"{100 * superseded:.1f} % were replaced by a newer version" in text
    assert f"Of {format_count(len(view.outcomes))} updates" in text


def test_downtime_of_rare_users_matches_sampling(make):
    # brute force: sample time finely and determine at each instant which users are down
    view = RunData(make(rounds=50, replicas=1))
    clock = np.linspace(0, view.end_s, 20_001)[:-1]
    down = np.zeros((30, clock.size), bool)
    towers = {f"tower:{place}": range(place, 30, 3) for place in range(3)}
    for row in view.outages.itertuples():
        for user in [row.user] if row.user >= 0 else towers[row.node]:
            down[user] |= (clock >= row.from_s) & (clock < row.to_s)
    text = " ".join(summary_text.participation_sentences(view)).partition("their tower, ")[2]
    rare, _, other = text.partition(" of the time, the others ")
    assert float(rare.split()[0]) == pytest.approx(100 * down[27:].mean(), abs=0.15)
    assert float(other.split()[0]) == pytest.approx(100 * down[:27].mean(), abs=0.15)


@pytest.mark.parametrize(("status", "word"), [("running", "crashed"), ("interrupted", "interrupted")])
@pytest.mark.slow
def test_unfinished_run_is_marked(make, status, word):
    view = RunData(make(status=status))
    assert f"not finished ({word}): it has 120 of 120 rounds" in summary_text.run_summary(view)[0]
    assert not any("not finished" in sentence for sentence in summary_text.run_summary(RunData(make(status="done"))))


def test_trace_has_no_accuracy(make):
    text = summary_text.run_summary(RunData(make(learners=())))
    assert "This run has no learners" in text[0]
    assert not any("accuracy" in sentence for sentence in text)


@pytest.mark.slow
def test_summary_names_selection_process(make):
    view = RunData(make())
    deliveries = view.run.deliveries[view.run.deliveries["replica"] == 0]
    found = diagnosis.diagnose(diagnosis.from_table(deliveries, users=len(view.first_users)))
    (text,) = [
        sentence
        for sentence in summary_text.run_summary(view)
        if sentence.startswith(found.sentence.partition(" in ")[0])
    ]
    assert found.verdict in text
    assert text.endswith("(In replica 0.)") == (len(view.replicas) > 1)


def test_learners_are_compared_on_common_replicas(ends):
    nan = float("nan")
    ranking = summary_text.rank_learners(ends({"A": [0.5, 0.6, nan], "B": [0.55, 0.65, 0.1]}), "accuracy")
    means, gap = ranking.means, ranking.lead
    assert ranking.names == ("B", "A")
    assert (means["B"], gap.mean, gap.replicas) == (pytest.approx(0.6), pytest.approx(0.05), 2)
    text = summary_text.run_summary(ends({"A": [0.9, nan], "B": [nan, 0.5]}))
    assert any("A has 90.0 %, B 50.0 %. They cannot be compared: in no replica" in sentence for sentence in text)
