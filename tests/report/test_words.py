"""What the report says in words: true, and no more certain than the replicas allow."""

import json

import numpy as np
import pandas as pd
import pytest

from netfl import diagnosis
from netfl.report import page, summary_text
from netfl.report.run_data import RunData
from netfl.results.run_reader import open_run


@pytest.fixture
def ends(tmp_path):
    """``ends({learner: [figure of each replica]})`` is a view of a run whose learners end there."""

    def view(figures):
        rows = [
            {"learner": learner, "replica": replica, "round": at, "time_s": at, "metric": "accuracy", "group": ""}
            | {"value": at * figure / 10}
            for learner, values in figures.items()
            for replica, figure in enumerate(values)
            for at in (0, 10)
        ]
        pd.DataFrame(rows).to_parquet(tmp_path / "metrics.parquet")
        (tmp_path / "manifest.json").write_text(json.dumps({"status": "done"}))
        return RunData(open_run(tmp_path))

    return view


def verdict(view):
    return " ".join(page.sentences("verdict", "Over all classes", summary_text.rank_learners(view, "accuracy")))


def test_a_clear_win_has_its_paired_interval(ends):
    # replicas differ widely, but the difference is the same in each: the comparison is paired
    said = verdict(ends({"A": [0.2, 0.5, 0.8], "B": [0.31, 0.6, 0.9]}))
    assert said.startswith("Over all classes, B ends 10.3 points above A: 60.3 % against 50 %")
    # 11, 10, 10 points: mean 10.333, half width 4.3027 * 0.57735 / sqrt(3)
    assert "95 % interval +8.9 to +11.8 over 3 paired replicas" in said


def test_a_difference_within_noise_is_called_so(ends):
    said = verdict(ends({"A": [0.5, 0.7, 0.6], "B": [0.7, 0.5, 0.66]}))
    assert "do not differ significantly" in said
    assert "within the noise" in said
    assert "−" in said


def test_one_replica_is_not_evidence(ends):
    assert "one replica does not show" in verdict(ends({"A": [0.5], "B": [0.9]}))


def test_ties_and_single_learners(ends):
    assert "A and B end alike, at 50 %" in verdict(ends({"A": [0.5, 0.5], "B": [0.5, 0.5]}))
    assert verdict(ends({"A": [0.25, 0.75]})) == "Over all classes, A ends at 50 %."


def test_a_learner_without_figures_does_not_win(ends):
    assert verdict(ends({"A": [np.nan, np.nan], "B": [0.4, 0.4]})) == "Over all classes, B ends at 40 %."


def test_the_last_of_many_is_named(ends):
    assert "The lowest is A with 10 %." in verdict(ends({"A": [0.1], "B": [0.5], "C": [0.9]}))


@pytest.mark.slow
def test_who_was_never_delivered(make):
    view = RunData(make())
    never = [user for user in range(30) if user not in set(view.run.deliveries.query("replica == 0")["user"])]
    said = summary_text.participation_sentences(view)[0]
    assert 29 in never
    assert all(str(user) in said for user in never)
    assert "with rare classes" in said


def test_the_least_delivered_where_all_were(make):
    view = RunData(make(users=6, rounds=2000, replicas=1, network=False))
    delivered = view.run.deliveries[view.run.deliveries["user"] != 5]
    patched = pd.concat([delivered, delivered.head(2).assign(user=5)])
    view.run.__dict__["deliveries"] = patched
    assert (
        "user 5, which holds a rare class, had the fewest: 2 in 2000 rounds"
        in (summary_text.participation_sentences(view)[0])
    )


@pytest.mark.slow
def test_rare_users_who_are_not_the_least_delivered_are_pointed_out(make):
    view = RunData(make(users=6, rounds=2000, replicas=1, network=False))
    assert not any("not those with the fewest deliveries" in one for one in summary_text.run_summary(view))
    delivered = view.run.deliveries
    loud = RunData(make(users=6, rounds=2000, replicas=1, network=False, name="loud"))
    loud.run.__dict__["deliveries"] = pd.concat([delivered, *[delivered[delivered["user"] == 0].assign(user=5)] * 2])
    said = [one for one in summary_text.run_summary(loud) if "are not those with the fewest deliveries" in one]
    others = int((~loud.first_users["rare"]).sum())
    assert said == [
        "Users that hold rare classes are not those with the fewest deliveries: "
        f"{others} other users had fewer than the most frequent of them."
    ]


@pytest.mark.slow
def test_outcomes_add_up(make):
    view = RunData(make())
    outcomes = view.run.events["kind"].astype(str)
    superseded = (outcomes == "superseded").sum() / view.outcomes.shape[0]
    said = " ".join(summary_text.outcome_sentences(view))
    assert f"{100 * superseded:.1f} % were replaced by a newer version" in said
    assert f"Of {len(view.outcomes)} updates" in said


def test_how_long_rare_users_were_cut_off(make):
    # by brute force: sample the clock finely and ask of every instant who is down
    view = RunData(make(rounds=50, replicas=1))
    clock = np.linspace(0, view.end_s, 20_001)[:-1]
    down = np.zeros((30, clock.size), bool)
    towers = {f"tower:{place}": range(place, 30, 3) for place in range(3)}
    for row in view.outages.itertuples():
        for user in [row.user] if row.user >= 0 else towers[row.node]:
            down[user] |= (clock >= row.from_s) & (clock < row.to_s)
    said = " ".join(summary_text.participation_sentences(view)).partition("their tower, ")[2]
    rare, _, other = said.partition(" of the time, the others ")
    assert float(rare.split()[0]) == pytest.approx(100 * down[27:].mean(), abs=0.15)
    assert float(other.split()[0]) == pytest.approx(100 * down[:27].mean(), abs=0.15)


@pytest.mark.parametrize(("status", "called"), [("running", "crashed"), ("interrupted", "interrupted")])
@pytest.mark.slow
def test_an_unfinished_run_is_called_so(make, status, called):
    view = RunData(make(status=status))
    assert f"not finished ({called}): it has 120 of 120 rounds" in summary_text.run_summary(view)[0]
    assert not any("not finished" in one for one in summary_text.run_summary(RunData(make(status="done"))))


def test_a_trace_has_learnt_nothing(make):
    said = summary_text.run_summary(RunData(make(learners=())))
    assert "This run has no learners" in said[0]
    assert not any("accuracy" in one for one in said)


@pytest.mark.slow
def test_what_kind_of_selection_it_is_stands_on_top(make):
    view = RunData(make())
    deliveries = view.run.deliveries[view.run.deliveries["replica"] == 0]
    found = diagnosis.diagnose(diagnosis.from_table(deliveries, users=len(view.first_users)))
    (said,) = [one for one in summary_text.run_summary(view) if one.startswith(found.sentence.partition(" in ")[0])]
    assert found.verdict in said
    assert said.endswith("(Of the first replica.)") == (len(view.replicas) > 1)


def test_learners_are_compared_on_the_replicas_that_both_have(ends):
    nan = float("nan")
    ranking = summary_text.rank_learners(ends({"A": [0.5, 0.6, nan], "B": [0.55, 0.65, 0.1]}), "accuracy")
    means, gap = ranking.means, ranking.lead
    assert ranking.names == ("B", "A")
    assert (means["B"].mean, gap.mean, gap.replicas) == (pytest.approx(0.6), pytest.approx(0.05), 2)
    said = summary_text.run_summary(ends({"A": [0.9, nan], "B": [nan, 0.5]}))
    assert any("A and B cannot be compared: 90" in one for one in said)
