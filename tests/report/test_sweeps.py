"""The page of a sweep: rankings as certain as the replicas allow, missing points, complete and safe HTML."""

import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from report.conftest import TWO_LEARNERS
from scipy import stats
from support.inline_sweep_engine import Here
from typer.testing import CliRunner

import netfl
from netfl import report
from netfl.cli import app
from netfl.report import summary_text, sweep, sweep_data
from netfl.report.sweep_data import SweepData
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument

MALICIOUS = "<script>alert(1)</script> & \"it\" 'broke'"
SCENARIO = {
    "name": "tiny", "seed": 3, "users": 4, "rounds": 8, "replicas": 2, "description": MALICIOUS,
    "access": {"kind": "bernoulli", "probability": 0.5},
    **TWO_LEARNERS,
    "evaluate": {"every": 4, "rare_classes": [2]},
}  # fmt: skip
GRID = {"learners.B.objective.alpha": [0.2, 0.5, 1.0], "users": [4, 6, 8]}


class FakeSweep:
    """A fake sweep: A does not depend on the first axis, B gains 0.1 with each of its values.

    Args:
        folder: the folder of its scenario.
        axes: the values of each axis.
        noise: the noise of each replica.
        section: the section of the scenario's sweep.
    """

    search = None
    comparison = ""
    reported = ()

    def __init__(self, folder, axes, noise=(0.0, 0.01, 0.03), section="grid"):
        self.folder, self.axes = folder, [*axes]
        spec = {"draws": 1, "parameters": {axis: {"uniform": [0, 9]} for axis in axes}} if section == "random" else axes
        document = {"name": "made", "replicas": len(noise), "sweep": {section: spec}}
        (folder / "scenario.yaml").write_text(repr(document))
        values = [*(product(*axes.values()) if section == "grid" else zip(*axes.values(), strict=True))]
        self.points = pd.DataFrame(values, columns=self.axes).assign(trace="w", status="done")
        self.points.insert(0, "point", range(len(values)))
        first = [*dict.fromkeys(value[0] for value in values)]
        lanes, rows = [], []
        for (number, point_values), learner, replica in product(enumerate(values), "AB", range(len(noise))):
            lane = str(point_values[1:]) if learner == "A" else str(point_values)
            lanes.append((number, learner, replica, "t", f"{learner} {lane}"))
            difference = 0.0 if learner == "A" else 0.1 * first.index(point_values[0]) - 0.05
            deviation = noise[replica] * (1 if learner == "A" else -1)
            rows.append((number, *point_values, learner, replica, "accuracy", 0.5 + difference + deviation))
        self.lanes = pd.DataFrame(lanes, columns=["point", "learner", "replica", "task", "lane"])
        self.final_metrics = pd.DataFrame(rows, columns=["point", *axes, "learner", "replica", "metric", "value"])
        self.tasks = pd.DataFrame([("t", "w", "done", 1, 0, 1, 1.0, "")], columns=["task", "trace", "status", "lanes",
                                  "first", "stop", "seconds", "error"])  # fmt: skip

    status = "done"

    @property
    def summary(self):
        keys = ["point", *self.axes, "learner", "metric"]
        table = self.final_metrics.groupby(keys, sort=False)["value"].agg(["mean", "std", "count"]).reset_index()
        half = stats.t.ppf(0.975, table["count"] - 1) * table["std"] / np.sqrt(table["count"])
        return table.assign(half=half).rename(columns={"count": "replicas"}).drop(columns="std")


def scenario(sweep, **overrides):
    return validate(ScenarioDocument({**SCENARIO, **overrides, "sweep": sweep}, "tiny"))


def text(page):
    """Return the visible text of a page."""
    return re.sub(r"<[^>]+>", " ", re.sub(r"<(svg|style).*?</\1>", "", page, flags=re.DOTALL))


@pytest.fixture(scope="module")
def partial(tmp_path_factory):
    """A sweep over two axes in which a run failed."""

    return netfl.sweep(scenario(GRID), tmp_path_factory.mktemp("sweeps") / "s", engine=Here(fail={1}, error=MALICIOUS))


@pytest.fixture(scope="module")
def page(partial):
    run = partial.run(partial.tasks["task"][0])
    (run.folder / "report.html").write_text("its own")
    result = CliRunner().invoke(app, ["report", str(partial.folder)])
    assert result.exit_code == 0, result.output
    assert result.output.split() == ["report:", str(partial.folder / "report.html")]
    return (partial.folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
class TestPage:
    def test_page_is_self_contained_and_safe(self, page):
        assert "<script" not in page
        assert not re.findall(r'(?:src|href)="(?!#|tasks/)[^"]*"', re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))
        assert "script-src 'none'" in page
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids))
        assert len(page) < 400_000

    def test_page_lists_missing_points_with_reasons(self, page):
        visible = text(page)
        assert "Not all points are done: 6 of 9, 3 missing." in visible
        assert "1 run failed and will be repeated: &lt;script&gt;" in visible
        assert re.search(r"failed\s+1, 4, 7\s+&lt;script&gt;alert", visible)
        assert re.search(r'href="tasks/task%3Dt\w+/report.html"', page)

    def test_each_metric_has_a_section(self, page):
        keys = re.findall(r'<section id="([^"]+)"', page)
        figures = ["accuracy", "rare_accuracy", "accuracy_users_mean", "accuracy_users_worst10"]
        assert keys == ["summary", *figures, "curves", "points", "tasks"]
        assert 'id="accuracy-over-' in page

    def test_summary_matches_tables(self, partial, page):
        late = partial.metrics.query("metric == 'accuracy' and group == '' and round == 8")
        means = late.groupby(["point", "learner"])["value"].mean()
        top = re.search(r"Accuracy \([^)]*\): (\w).*? has ([\d.]+)", text(page))
        assert "ends highest" not in text(page), "two replicas give no ranking"
        assert float(top[2]) == pytest.approx(100 * means.max(), abs=0.051)
        assert top[1] in means[means > means.max() - 1e-9].index.get_level_values("learner")

    def test_sweep_without_learners_shows_network_metrics(self, tmp_path):
        settings = {name: SCENARIO[name] for name in ("name", "seed", "users", "rounds", "replicas", "access")}
        scenario_ = validate(ScenarioDocument({**settings, "sweep": {"users": [3, 9]}}, "tiny"))
        sweep = netfl.sweep(scenario_, tmp_path / "s", engine=Here())
        page = report.write_sweep(sweep).read_text(encoding="utf-8")
        ends = sweep.summary.query("metric == 'delivered_per_round'")["mean"]
        low, high = re.search(r"Delivered per round: from ([\d.]+).*? at users = 3 to ([\d.]+)", text(page)).groups()
        assert (float(low), float(high)) == (pytest.approx(ends.min(), abs=0.06), pytest.approx(ends.max(), abs=0.06))
        assert "This sweep has no learners" in page
        assert '<section id="delivered_per_round">' in page


class TestRanking:
    def test_equal_points_of_a_learner_are_merged(self, tmp_path):
        found = sweep_data.ranking_entries(
            SweepData(FakeSweep(tmp_path, {"alpha": [1, 2, 3], "users": [4, 8]})), "accuracy"
        )
        assert [entry.name for entry in found if entry.learner == "A"] == ["A at users = 4", "A at users = 8"]
        assert [entry.points for entry in found if entry.learner == "A"] == [(0, 2, 4), (1, 3, 5)]
        assert len([entry for entry in found if entry.learner == "B"]) == 6

    def test_lead_has_paired_interval(self, tmp_path):
        view = SweepData(FakeSweep(tmp_path, {"alpha": [1, 2]}))
        found = sweep_data.rank_points(view, "accuracy")
        assert [entry.name for entry in found.complete] == ["B at alpha = 2", "A", "B at alpha = 1"]
        gaps = 0.05 - 2 * np.array([0.0, 0.01, 0.03])
        assert found.lead.mean == pytest.approx(gaps.mean())
        assert found.lead.half == pytest.approx(stats.t.ppf(0.975, 2) * gaps.std(ddof=1) / np.sqrt(3))
        assert "which is within the noise" in " ".join(summary_text.point_verdict(found, "accuracy"))

    def test_significant_difference_is_reported(self, tmp_path):
        view = SweepData(FakeSweep(tmp_path, {"alpha": [1, 2]}, noise=(0.0, 0.001, 0.002)))
        visible = " ".join(summary_text.point_verdict(sweep_data.rank_points(view, "accuracy"), "accuracy"))
        spread = "± is the half width of the 95 % t interval"
        value = "54.9 ± 0.2 % (n = 3)"
        assert f"B at alpha = 2 ends highest, at {value} (mean of the last 10 % of rounds; {spread})." in visible
        assert "). Next is A with 50.1 ± 0.2 % (n = 3), 4.8 points below, beyond" in visible

    def test_equal_replicas_have_no_interval(self, tmp_path):
        found = sweep_data.rank_points(SweepData(FakeSweep(tmp_path, {"alpha": [1, 2]}, noise=(0.0,) * 3)), "accuracy")
        assert "too few and too similar for an interval" in " ".join(summary_text.point_verdict(found, "accuracy"))
        assert found.significantly_worse == 0

    def test_diverged_learner_is_not_ranked(self, tmp_path):
        sweep_ = FakeSweep(tmp_path, {"alpha": [1, 2]})
        diverged = (
            (sweep_.final_metrics["point"] == 1)
            & (sweep_.final_metrics["learner"] == "B")
            & (sweep_.final_metrics["replica"] == 0)
        )
        sweep_.final_metrics.loc[diverged, "value"] = np.nan
        visible = " ".join(summary_text.sweep_summary(SweepData(sweep_)))
        assert "Accuracy: A ends highest" in visible
        assert "Training diverged in some replicas of B at 1 point:" in visible
        assert "1 result is not ranked on accuracy" in visible

    def test_one_replica_has_no_interval(self, tmp_path):
        found = sweep_data.rank_points(SweepData(FakeSweep(tmp_path, {"alpha": [1, 2]}, noise=(0.0,))), "accuracy")
        (line,) = summary_text.point_verdict(found, "accuracy")
        values = "B at alpha = 2 has 55.0 %, A 50.0 %, the others less"
        assert line == f"Accuracy: {values} (mean of the last 10 % of rounds; one replica: may be chance)."

    def test_settings_that_look_equal_end_alike(self, tmp_path):
        sweep_ = FakeSweep(tmp_path, {"alpha": [1, 2]}, noise=(0.0,) * 3)
        values = dict(zip([(0, "A"), (0, "B"), (1, "A"), (1, "B")], [0.93131, 0.93131, 0.93131, 0.9], strict=True))
        places = zip(sweep_.final_metrics["point"], sweep_.final_metrics["learner"], strict=True)
        sweep_.final_metrics["value"] = [values[place] for place in places]
        found = sweep_data.rank_points(SweepData(sweep_), "accuracy")
        visible = " ".join(summary_text.point_verdict(found, "accuracy"))
        assert "A ends highest, at 93.1 ± 0.0 % (n = 3) (mean of the last 10 % of rounds;" in visible
        assert "B at alpha = 1 ends alike." in visible
        assert "points below" not in visible

    @pytest.mark.parametrize("noise", [(0.0,), (0.0, 0.01)])
    def test_pairs_are_mentioned_if_there_are_several_replicas(self, tmp_path, noise):
        view = SweepData(FakeSweep(tmp_path, {"alpha": [1, 2]}, noise=noise))
        (table,) = sweep.best_points(sweep_data.rank_points(view, "accuracy"))
        assert ("paired by replica" in table) == (len(noise) > 1)

    def test_significance_is_corrected_for_many_comparisons(self):
        differences = np.array([1.0, 1.2, 0.5, 1.4])
        assert sweep_data.is_significant(differences, 0.05)
        assert not sweep_data.is_significant(differences, 0.05 / 20)


class TestPlots:
    @pytest.mark.slow
    def test_surplus_axes_are_fixed_at_the_best_point(self, tmp_path):
        axes = {"alpha": [1, 2, 3, 4], "users": [4, 8, 16], "mac": ["a", "b"], "seed": [1, 2]}
        view = SweepData(FakeSweep(tmp_path, axes))
        values = sweep.MetricRows(view, "accuracy", ["A", "B"], view.summary_of("accuracy"))
        assignment = sweep.assign_axes(values, [*axes], 5, sweep.MAX_PANELS)
        assert (assignment.x, assignment.panels_by, assignment.fixed) == ("alpha", ("users", "mac"), {"seed": 2})
        assert [title for title, _ in assignment.panels][:2] == ["users = 4, mac = a", "users = 4, mac = b"]
        two = sweep.assign_axes(values, [*axes], 5, 0)
        assert (two.panels_by, two.fixed) == (("users",), {"seed": 2, "mac": "a"})
        assert not two.rows.duplicated(["alpha", "users", "learner"]).any()
        assert "With mac = a, as at the best point." in next(sweep.metric_plots(view, "accuracy", 5))

    def test_zipped_lists_are_one_axis(self, tmp_path):
        view = SweepData(FakeSweep(tmp_path, {"alpha": [1, 2, 3], "lr": [0.3, 0.2, 0.1]}, section="zip"))
        assert (view.free, view.zipped) == (["alpha"], ["alpha", "lr"])
        assert len([*sweep.metric_plots(view, "accuracy", 0)]) == 1
        assert "alpha (1, 2 and 3, and with it lr)" in summary_text.varied_axes(view)[0]

    def test_random_axes_have_a_panel_each(self, tmp_path):
        view = SweepData(FakeSweep(tmp_path, {"alpha": [1.5, 2.5, 3.1], "lr": [0.3, 0.2, 0.1]}, section="random"))
        (only,) = sweep.metric_plots(view, "accuracy", 0)
        assert "against each random axis" in only
        assert "alpha and lr are drawn at random" in summary_text.varied_axes(view)[0]

    def test_long_table_of_points_is_truncated(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sweep, "MAX_POINTS", 2)
        table = sweep.point_table(SweepData(FakeSweep(tmp_path, {"alpha": [1, 2, 3]})))
        assert table.count("<tr>") == 3
        assert "The first 2 of 3." in table
