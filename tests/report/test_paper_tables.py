"""Tables of final values, intervals and differences compared with SciPy, and their LaTeX output."""

import warnings

import numpy as np
import pandas as pd
import pytest
from report.conftest import TWO_LEARNERS, make_run
from scipy import stats
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.errors import ScenarioError
from netfl.report.paper_tables import known_metrics
from netfl.report.run_set import welch


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Two runs with different seeds, which share no trace."""
    root = tmp_path_factory.mktemp("compare")
    return [make_run(root / name, seed=seed).folder for name, seed in (("a", 5), ("b", 6))]


def finals(folder, learner, metric="accuracy"):
    """Return the mean over the last tenth of rounds of each replica."""
    rows = netfl.open_run(folder).metrics.query("metric == @metric and group == '' and learner == @learner")
    rows = rows[rows["round"] >= 0.9 * rows["round"].max()]
    return rows.groupby("replica")["value"].mean().to_numpy()


def test_learners_of_a_run_are_compared_by_replica(folders):
    table = netfl.compare(folders[0])
    assert table["learner"].tolist() == ["FedAvg", "FED-CVaR-AVG"]
    first, second = (finals(folders[0], name) for name in table["learner"])
    assert table["mean"].tolist() == pytest.approx([first.mean(), second.mean()])
    low, high = stats.t.interval(0.95, 2, second.mean(), stats.sem(second))
    assert table["half"][1] == pytest.approx((high - low) / 2)
    result = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert table["difference"][1] == pytest.approx((result.low + result.high) / 2)
    assert table["difference_half"][1] == pytest.approx((result.high - result.low) / 2)
    assert table["paired"].tolist() == [False, True]
    assert np.isnan(table["difference"][0])


def test_runs_without_a_common_trace_are_compared_by_welch(folders):
    table = netfl.compare(folders, baseline="a")
    row = table[(table["run"] == "b") & (table["learner"] == "FedAvg")].iloc[0]
    gap = stats.ttest_ind(finals(folders[1], "FedAvg"), finals(folders[0], "FedAvg"), equal_var=False)
    bounds = gap.confidence_interval(0.95)
    assert not row["paired"]
    assert [row["difference"], row["difference_half"]] == pytest.approx(
        [(bounds.low + bounds.high) / 2, (bounds.high - bounds.low) / 2]
    )


def test_values_are_pooled_over_other_columns(folders):
    table = netfl.compare(folders, by="learner")
    pooled = np.concatenate([finals(folder, "FedAvg") for folder in folders])
    assert table["replicas"].tolist() == [6, 6]
    assert table["mean"][0] == pytest.approx(pooled.mean())
    assert table["paired"][1]


def test_keys_of_the_scenario_distinguish_rows(folders):
    table = netfl.compare(folders[0], ["accuracy", "rare_accuracy"], by=["evaluate.every", "learner"])
    assert table["evaluate.every"].tolist() == ["5"] * 4
    assert table["metric"].tolist() == ["accuracy"] * 2 + ["rare_accuracy"] * 2


@pytest.mark.parametrize("by", ["run", "evaluate.every", ["evaluate.every", "run"]])
def test_learners_are_told_apart_without_being_asked_for(folders, by):
    table = netfl.compare(folders, by=by)
    names = [by] if isinstance(by, str) else by
    assert [*table.columns[: len(names) + 1]] == [*names, "learner"]
    assert {*table["learner"]} == {"FedAvg", "FED-CVaR-AVG"}
    assert {*table["replicas"]} == ({3} if "run" in by else {6})
    one = netfl.compare(folders, "accuracy", by=["run", "learner"])
    if by == "run":
        pd.testing.assert_frame_equal(table, one)


@pytest.mark.parametrize(("first", "second"), [([0.1] * 3, [0.1, 0.2, 0.4]), ([0.1] * 3, [0.3] * 4), ([1, 2], [1, 5])])
def test_welch_equals_scipy_and_constant_values_give_no_warning(first, second):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gap = welch(np.array(first, float), np.array(second, float))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bounds = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert gap.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert gap.half == pytest.approx((bounds.high - bounds.low) / 2, abs=1e-12)
    assert gap.replicas == min(len(first), len(second))


def test_latex_has_booktabs_and_the_cells_of_reports(folders, tmp_path):
    table = netfl.compare(folders[0])
    text = table.to_latex()
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")
    assert rf"FedAvg & ${100 * table['mean'][0]:.1f} \pm {100 * table['half'][0]:.1f}$ ($n = 3$) & --" in text
    assert "difference" in text
    assert "difference" not in table.to_latex(differences=False)
    table.to_latex(tmp_path / "table.tex", caption="A caption")
    assert r"\caption{A caption}" in (tmp_path / "table.tex").read_text()
    assert type(table[["mean"]]) is pd.DataFrame


def test_printed_table_has_units_and_intervals_in_80_columns(folders):
    table = netfl.compare(folders, ["accuracy", "rare_accuracy"])
    lines = str(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert lines[-1] == "comparison: equal settings"
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["run", "learner", "metric", "mean", "n", "difference", "compared"]
    gap = f"{100 * table['difference'][1]:+.1f} ± {100 * table['difference_half'][1]:.1f}"
    assert lines[2].split("accuracy (%)")[1].strip().endswith(f"{gap}  3 pairs")
    assert str(table.drop(columns="half")).split()[:2] == ["run", "learner"]


def test_a_wide_table_is_not_wrapped(folders):
    columns = ["evaluate.every", "users", "rounds", "name", "description", "run"]
    table = netfl.compare(folders, ["accuracy", "delay_mean_s"][:1], by=columns)
    lines = str(table).splitlines()
    assert len(lines) == 2 + len(table)
    assert max(map(len, lines)) > 80


def test_a_cut_interval_is_explained_below_the_table(folders):
    table = netfl.compare(folders[0])
    assert "*" not in str(table)
    table["half"] = 0.9
    lines = str(table).splitlines()
    assert lines[-2] == "* marks an end of an interval that is cut at the possible values"
    assert "[0.0*, 100.0*]" in lines[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"metric": "acuracy"}, "metric: no run has this metric ('acuracy')"),
        ({"by": "access.mac"}, "by: a run has no such key ('access.mac')"),
        ({"by": ["learner", "mac", "seeed"]}, "by: a run has no such key ('mac'); known: learner, and keys of"),
        ({"baseline": "FedAvrg"}, "did you mean 'FedAvg'?"),
    ],
)
def test_unknown_names_are_errors_with_a_remedy(folders, arguments, message):
    with pytest.raises(ScenarioError) as raised:
        netfl.compare(folders[0], **arguments)
    assert message in str(raised.value)


@pytest.mark.slow
def test_report_command_writes_the_table(folders, tmp_path):
    path = tmp_path / "table.tex"
    command = ["report", *map(str, folders), "--out", str(tmp_path / "report.html"), "--latex", str(path)]
    assert CliRunner().invoke(app, command).exit_code == 0
    assert (
        path.read_text() == netfl.compare(folders, ["accuracy", "rare_accuracy", "accuracy_users_worst10"]).to_latex()
    )


def test_a_run_without_the_metric_is_an_error_rather_than_left_out(tmp_path):
    scenario = netfl.load("rural_outage", {"rounds": 6, "evaluate.every": 2, "tuning": None})
    run = netfl.run(scenario, tmp_path / "run", progress=False).folder
    trace = netfl.trace(scenario, tmp_path / "trace", progress=False).folder
    with pytest.raises(ScenarioError) as raised:
        netfl.compare([run, trace], "accuracy")
    assert str(raised.value) == (
        f"metric: {trace} has no such metric ('accuracy'); choose one that all runs have, or leave it out"
    )
    shared = known_metrics([run, trace])
    assert "delay_mean_s" in shared
    assert "accuracy" not in shared
    assert len(netfl.compare([run, trace], shared)) == 2 * len(shared)


SWEPT = {
    "name": "swept", "users": 4, "rounds": 6, "replicas": 2, "access": {"kind": "bernoulli", "probability": 0.5},
    **TWO_LEARNERS,
    "evaluate": {"every": 2},
    "sweep": {"access.probability": [0.5, 0.9], "learners.B.objective.alpha": [0.2, 0.8]},
}  # fmt: skip


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep over the network and over one of two learners; the other is the same at both values of the latter."""
    return netfl.sweep(netfl.load(SWEPT), tmp_path_factory.mktemp("sweep") / "s", engine=Here())


def test_points_of_a_sweep_are_pooled_by_learner_and_replica(swept):
    table = netfl.compare(swept, by="probability")
    assert table[["probability", "learner"]].to_numpy().tolist() == [[p, name] for p in ("0.5", "0.9") for name in "AB"]
    assert table["replicas"].tolist() == [2] * 4
    assert table["paired"].tolist() == [False, True] * 2
    rows = swept.final_metrics.query("metric == 'accuracy.last_tenth' and probability == 0.9")
    expected = rows.groupby(["learner", "replica"])["value"].mean().unstack()
    assert table["mean"].tolist()[2:] == pytest.approx(expected.mean(axis=1).tolist())
    assert table["difference"][3] == pytest.approx((expected.loc["B"] - expected.loc["A"]).mean())


def test_keys_of_the_scenario_are_found_at_the_points_of_a_sweep(swept):
    table = netfl.compare(swept, by=["access.kind", "access.probability", "learners.B.objective.alpha"])
    assert table["access.kind"].tolist() == ["bernoulli"] * 8
    assert table["access.probability"].tolist() == ["0.5"] * 4 + ["0.9"] * 4
    assert table["learners.B.objective.alpha"].tolist() == (["0.2"] * 2 + ["0.8"] * 2) * 2
    plain = netfl.compare(swept)
    assert table["mean"].tolist() == plain["mean"].tolist()
    with pytest.raises(
        ScenarioError, match=r"a run has no such key \('access.mac'\); known: probability, alpha, learner"
    ):
        netfl.compare(swept, by=["probability", "access.mac"])


def test_runs_and_sweeps_are_compared_by_a_key_of_the_scenario(swept, folders):
    table = netfl.compare([swept, folders[0]], by="evaluate.every")
    assert table["evaluate.every"].tolist() == ["2", "2", "5", "5"]
    assert table["learner"].tolist() == ["A", "B", "FedAvg", "FED-CVaR-AVG"]


def test_a_notebook_shows_the_printed_table(folders):
    table = netfl.compare(folders[0])
    html = table._repr_html_()
    for cell in repr(table).split("comparison: ")[0].split():
        assert cell in html
    assert f"<p>comparison: {table.comparison}</p>" in html
    assert table.comparison == "equal settings"
    assert "<p>" not in table[["mean"]]._repr_html_()
