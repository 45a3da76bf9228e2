"""The page of several runs: differences, rankings and comparisons; complete, safe and self-contained."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

from netfl import report
from netfl.cli import app
from netfl.core.formats import FORMAT
from netfl.errors import ScenarioError
from netfl.plots import runs as plots
from netfl.report import run_set, several_runs, summary_text
from netfl.report.page import check_target
from netfl.report.run_data import RunData
from netfl.report.run_set import gather_runs
from netfl.results import aggregates
from netfl.results.differing_keys import differing_keys
from netfl.results.run_reader import open_run

MALICIOUS = "</svg><script>alert(1)</script> 'x' \"ü\" " + "long " * 40
SMALL = {"users": 8, "rounds": 30, "replicas": 3}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, make_run):
    """Return runs: ``a`` and ``b`` share a trace, ``c`` has another seed, ``d`` no learners, ``e`` malicious names."""
    at = tmp_path_factory.mktemp("several")
    make_run(at / "a", **SMALL)
    make_run(at / "b", gap=0.1, swing=0.05, **SMALL)
    make_run(at / "c", seed=6, network=False, **SMALL)
    make_run(at / "d", seed=7, learners=(), name="silent", **SMALL)
    make_run(at / "e", learners=(MALICIOUS, "FedAvg"), name=MALICIOUS, **SMALL | {"replicas": 1})
    scenario = dict(open_run(at / "b").scenario) | {"access": {"mac": {"kind": "<b>tdma</b>"}}, MALICIOUS: [MALICIOUS]}
    (at / "b" / "scenario.yaml").write_text(json.dumps(scenario))
    return at


@pytest.fixture
def group(runs):
    return gather_runs([runs / name for name in "abc"])


@pytest.fixture(scope="module")
def page(runs):
    """The page of three runs, of a killed one, of a damaged one and of a folder without a run."""
    killed = runs / "killed"
    shutil.copytree(runs / "a", killed)
    (killed / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "running", "rounds": 30, "seed": 5}))
    for file in killed.glob("*.parquet"):
        file.rename(file.with_suffix(".parquet.part"))
    broken = runs / "broken"
    shutil.copytree(runs / "a", broken)
    (broken / "metrics.parquet").write_bytes(b"PAR1")
    (runs / "none").mkdir()
    (runs / "b" / "report.html").write_text("its own")
    folders = [runs / name for name in ("b", "d", "e", "killed", "broken", "none")]
    (runs / "pages").mkdir()
    return report.write_several(folders, runs / "pages" / "x.html")


def text(page):
    return page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_page_has_all_sections_and_loads_nothing(page):
    content = text(page)
    ids = re.findall(r'<section id="([\w-]+)"', content)
    expected = [
        "summary",
        "runs",
        "differences",
        "winners",
        "curves",
        "participation",
        "verdicts",
        "outcome-shares",
        "delays",
    ]
    assert ids == expected
    assert set(re.findall(r"https?://[^\"' <)]+", content)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "content=\"default-src 'none'; base-uri 'none'; form-action 'none'; " in content
    assert "script-src 'none'\"" in content
    assert not re.search(r"<(script|link|iframe|object|embed|base|form)\b", content)
    assert page.stat().st_size < 4e6


@pytest.mark.slow
def test_names_are_escaped(page):
    content = text(page)
    assert "<script>" not in content
    assert "<b>tdma" not in content
    assert "&lt;b&gt;tdma&lt;/b&gt;" in content
    assert content.count("&lt;script&gt;alert(1)") > 3


@pytest.mark.slow
def test_damaged_and_unfinished_runs_are_marked(page):
    content = text(page)
    assert "not all done" in content
    assert "B: This run has no learners: it simulates the network alone." in content
    assert "D: This run is not finished (crashed): it has 0 of 30 rounds." in content
    assert "E: metrics.parquet cannot be read, so its plots and tables are missing: " in content
    assert re.search(r"Not shown: \S*none is not a run directory: it has no manifest.json\.", content)


def test_page_links_to_existing_reports(page, runs):
    links = [unquote(link) for link in re.findall(r'<a href="([^"#]+)"', text(page))]
    assert links == ["../b/report.html"]
    assert (page.parent / links[0]).resolve() == (runs / "b" / "report.html").resolve()


def test_runs_of_one_name_are_labelled_by_folder(runs):
    names = [member.name for member in gather_runs([runs / name for name in "abd"]).members]
    assert names == ["rural_outage (a)", "rural_outage (b)", "silent"]
    malicious = gather_runs([runs / "e"]).members[0]
    assert malicious.name == MALICIOUS
    assert len(malicious.label) < 40


def test_differing_keys_have_all_values():
    first = {"name": "x", "seed": 1, "access": {"mac": {"kind": "tdma"}}, "channel": [{"kind": "rain", "more": None}]}
    second = {"name": "y", "seed": 1, "access": {"mac": {"kind": "aloha", "p": 0.5}}, "channel": [{"kind": "rain"}]}
    third = {"seed": 1, "access": {"mac": {"kind": "tdma"}}, "channel": [{"kind": "rain"}, {"kind": "z" * 99}]}
    assert differing_keys([first, second, third], max_chars=10) == {
        "access.mac.kind": ["tdma", "aloha", "tdma"],
        "access.mac.p": ["–", "0.5", "–"],
        "channel.1.kind": ["–", "–", "zzzzzzzzz…"],
    }
    assert differing_keys([first, first]) == {}


@pytest.mark.slow
def test_trace_is_shared_with_same_seed_and_deliveries(group):
    first, same, other = (member.data for member in group.members)
    assert run_set.shared_rounds(same, first) == 30
    assert run_set.shared_rounds(other, first) == 0
    sentences = summary_text.comparison_summary(group, [])
    assert any(line.startswith("B shares the trace of A: the same seed") for line in sentences)
    assert any(line.startswith("C does not share the trace of A: the seed is different.") for line in sentences)


def test_other_trace_of_the_same_seed_is_named(runs, tmp_path):
    shutil.copytree(runs / "c", tmp_path / "c")
    (tmp_path / "c" / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "done", "seed": 5}))
    sentences = summary_text.comparison_summary(gather_runs([runs / "a", tmp_path / "c"]), [])
    assert any(line.startswith("B does not share the trace of A: the seed is the same, but") for line in sentences)


@pytest.mark.parametrize(
    ("replicas", "gap", "expected"),
    [
        (1, 0.0, "learners are not ranked in A (fewer than three replicas: may be chance)."),
        (2, 0.3, "learners are not ranked in A (fewer than three replicas: may be chance)."),
        (3, 0.0, "the best two end alike in A"),
        (3, 0.3, "FED-CVaR-AVG is ahead in A."),
    ],
)
def test_leads_of_runs_are_as_certain_as_their_replicas_allow(make_run, tmp_path, replicas, gap, expected):
    folder = make_run(tmp_path / "a", users=8, rounds=30, replicas=replicas, gap=gap, swing=0.0).folder
    if not gap:
        rows = pd.read_parquet(folder / "metrics.parquet")
        first = rows[rows["learner"] == "FedAvg"]
        pd.concat([first, first.assign(learner="FED-CVaR-AVG")]).to_parquet(folder / "metrics.parquet")
    text = " ".join(summary_text.comparison_summary(gather_runs([folder]), []))
    assert expected in text
    assert "significantly" not in text


@pytest.mark.parametrize("swing", [0.0, 0.2])
def test_moving_means_are_mentioned_if_a_curve_is_smoothed(make_run, tmp_path, swing):
    folders = [make_run(tmp_path / "a", users=8, rounds=300, replicas=1, swing=swing).folder]
    page = report.write_several(folders, tmp_path / "page.html").read_text(encoding="utf-8")
    assert ("shown as a moving mean" in page) == (swing > 0)


def test_trace_is_not_shared_with_another_seed(runs, tmp_path):
    shutil.copytree(runs / "a", tmp_path / "a")
    (tmp_path / "a" / "manifest.json").write_text(json.dumps({"format": FORMAT, "status": "done", "seed": 99}))
    assert run_set.shared_rounds(RunData(open_run(tmp_path / "a")), RunData(open_run(runs / "a"))) == 0


def ends(view, learner):
    """Final rare accuracies by replica, by hand."""
    rows = view.run.metrics.query("metric == 'rare_accuracy' and learner == @learner and round >= 27")
    return rows.groupby("replica")["value"].mean()


def test_paired_differences_have_student_interval(group):
    first, same, _ = (member.data for member in group.members)
    gap = ends(same, "FED-CVaR-AVG") - ends(first, "FED-CVaR-AVG")
    interval = stats.ttest_1samp(gap, 0.0).confidence_interval(0.95)
    found = run_set.final_difference(same, first, "rare_accuracy", "FED-CVaR-AVG", paired=True)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))


def test_unpaired_differences_have_welch_interval(group):
    first, _, other = (member.data for member in group.members)
    both = [ends(view, "FedAvg").to_numpy() for view in (other, first)]
    interval = stats.ttest_ind(*both, equal_var=False).confidence_interval(0.95)
    found = run_set.final_difference(other, first, "rare_accuracy", "FedAvg", paired=False)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((interval.low, interval.high))
    assert np.isnan(run_set.welch(np.array([1.0]), np.array([1.0, 2.0])).half)


def test_table_of_differences_marks_pairs(group):
    table = "".join(several_runs.difference_table(group))
    rows = [re.sub("<[^>]+>", "|", row) for row in re.findall("<tr>(.*?)</tr>", table)]
    row_of = {row.split("|")[1]: row for row in rows}
    assert "by replica (3)" in row_of["FedAvg: B − A"]
    assert "none: another seed" in row_of["FedAvg: C − A"]
    gap = 100 * (ends(group.members[1].data, "FedAvg") - ends(group.members[0].data, "FedAvg")).mean()
    assert f"{gap:+.1f}".replace("-", "−") in row_of["FedAvg: B − A"]


def test_final_table_has_each_run_and_marks_the_best(group):
    table = several_runs.final_table(group)
    means = {
        (member.letter, name): 100 * ends(member.data, name).mean()
        for member in group.members
        for name in member.data.learners
    }
    for (letter, name), mean in means.items():
        row = next(row for row in table.split("<tr>") if f">{letter} · {name}<" in row)
        assert f">{mean:.1f}<" in row
        assert (f'<td class="best">{mean:.1f}<' in row) == (mean == max(means.values()))


def test_participation_rates_are_shares_of_rounds(group):
    member = group.members[0]
    by_hand = member.data.run.deliveries.groupby("user").size().reindex(range(8), fill_value=0) / 90
    np.testing.assert_allclose(several_runs.participation_rates(member), by_hand)


def test_curves_are_thinned_means_over_replicas(group, monkeypatch):
    tables = {member.letter: member.data.metrics for member in group.members}
    whole = plots.run_courses(tables, "accuracy", "round")
    rows_b = tables["B"].query("metric == 'accuracy' and group == '' and learner == 'FedAvg'")
    rows = whole[(whole["run"] == "B") & (whole["learner"] == "FedAvg")]
    np.testing.assert_allclose(rows["mean"], rows_b.groupby("round")["value"].mean())
    monkeypatch.setattr(plots, "MAX_POINTS", 3)
    thin = plots.run_courses(tables, "accuracy", "round")
    assert len(thin) < len(whole) / 1.5
    assert thin.groupby("run")["at"].max().tolist() == [30, 30, 30]


@pytest.mark.slow
def test_many_curves_have_a_panel_per_run(group, monkeypatch):
    together = "".join(several_runs.learning_curves(group))
    assert together.count("<figure>") == 2
    assert "Colours are learners, dashes are runs" in together
    monkeypatch.setattr(several_runs, "MAX_CURVES", 5)
    apart = "".join(several_runs.learning_curves(group))
    assert apart.count("<figure>") == 6
    assert "all panels have the same axes" in apart


def call(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    return result.exit_code, result.output.strip()


@pytest.mark.slow
def test_command_writes_page_of_several_runs(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("report", runs / "c", runs / "d") == (0, "report:  report.html")
    assert Path("report.html").read_text().startswith("<!DOCTYPE html>")
    check_target(Path("report.html"))


def test_only_reports_are_overwritten(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("report.html").write_text("<p>mine</p>")
    Path("folder").mkdir()
    for arguments in ((), ("--out", "folder")):
        code, output = call("report", runs / "c", runs / "d", *arguments)
        assert (code, len(output.splitlines())) == (2, 1)
        assert "already exists and is not a report of netfl" in output
    assert Path("report.html").read_text() == "<p>mine</p>"
    assert call("report", runs / "c", "--out", "report.html")[0] == 2
    code, output = call("report", runs / "c", runs / "d", "--out", runs / "d" / "report.html")
    assert code == 2
    assert "is the path of the report of that run" in output


def test_folders_without_runs_are_reported(tmp_path):
    code, output = call("report", tmp_path / "x", tmp_path / "y", "--out", tmp_path / "z.html")
    assert (code, len(output.splitlines())) == (2, 1)
    assert "none of these folders can be read as a run: " in output
    with pytest.raises(ScenarioError, match="too many"):
        gather_runs([tmp_path / str(number) for number in range(27)])


@pytest.mark.slow
def test_page_of_long_runs_is_small(tmp_path, make_run):
    folders = [tmp_path / f"{number}" for number in range(4)]  # enough for a panel per run
    for number, folder in enumerate(folders):
        make_run(folder, rounds=2000, replicas=1, users=10, attempts=2, seed=number)
    assert report.write_several(folders, tmp_path / "x.html").stat().st_size < len(folders) * 8e5
    assert pd.read_parquet(folders[0] / "rounds.parquet")["round"].max() == 2000


def test_final_metrics_are_computed_once(group, monkeypatch):
    view, calls = group.members[0].data, []
    monkeypatch.setattr(
        aggregates, "final", lambda *args, real=aggregates.final, **kwargs: (calls.append(1), real(*args, **kwargs))[1]
    )
    assert view.final("accuracy") is view.final("accuracy")
    assert view.final("rare_accuracy").keys() == view.final("accuracy").keys()
    assert len(calls) == 2


def test_participation_counts_a_round_once(runs, tmp_path):
    shutil.copytree(runs / "a", tmp_path / "a")
    table = pd.read_parquet(tmp_path / "a/deliveries.parquet")
    pd.concat([table] * 3).sort_values(["replica", "round"]).to_parquet(tmp_path / "a/deliveries.parquet")
    once, thrice = (several_runs.participation_rates(gather_runs([at / "a"]).members[0]) for at in (runs, tmp_path))
    pd.testing.assert_series_equal(once, thrice)


def test_traces_with_small_differences_are_not_shared(runs, tmp_path):
    for column, change in (("arrived_s", 1e-6), ("user", 1)):
        folder = tmp_path / column
        shutil.copytree(runs / "a", folder)
        table = pd.read_parquet(folder / "deliveries.parquet")
        table.loc[table.index[-1], column] += change
        table.to_parquet(folder / "deliveries.parquet")
        first, other = (member.data for member in gather_runs([runs / "a", folder]).members)
        assert run_set.shared_rounds(first, first) == 30
        assert run_set.shared_rounds(first, other) == 0


def test_summary_ignores_traces_without_deliveries(runs, tmp_path):
    for name in "ab":
        shutil.copytree(runs / "a", tmp_path / name)
        pd.read_parquet(runs / "a/deliveries.parquet").iloc[:0].to_parquet(tmp_path / name / "deliveries.parquet")
    assert not any(
        "trace" in sentence
        for sentence in summary_text.comparison_summary(gather_runs([tmp_path / "a", tmp_path / "b"]), [])
    )


def test_report_of_a_run_is_not_overwritten_by_any_path(runs, tmp_path, monkeypatch):
    for name in "ab":
        shutil.copytree(runs / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / "a")
    code, output = call("report", "../a", "../b")
    assert code == 2
    assert "is the path of the report of that run" in output
