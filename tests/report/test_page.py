"""The report as a file: whole, harmless, self-contained, the same each time."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from scipy import stats

from netfl import report
from netfl.report import animation, summary_text
from netfl.report.run_data import RunData
from netfl.results.run_reader import open_run

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class Reader(HTMLParser):
    """Gathers what a browser would make of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.said = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.said.append(data)

    def of(self, name):
        return [value for key, value in self.attributes if key == name]


def read(run):
    return Reader(report.write(run).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_it_holds_all_chapters(whole):
    found = Reader(whole)
    wanted = {
        "summary",
        "final_metrics",
        "accuracy",
        "shares",
        "threshold",
        "regions",
        "participation",
        "outcomes",
        "network-metrics",
        "network",
        "replay",
    }
    assert wanted <= set(found.of("id"))
    assert found.tags.count("svg") == 12
    assert "".join(found.said).count("FED-CVaR-AVG") > 5


@pytest.mark.slow
def test_it_fetches_nothing_and_runs_nothing_but_the_replay(whole):
    found = Reader(whole)
    assert found.tags.count("script") == 2
    assert found.of("content")[0].split("; ") == [
        "default-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "style-src 'unsafe-inline'",
        "img-src data:",
        f"script-src {animation.script_policy()}",
    ]
    assert re.fullmatch(r"'sha256-[A-Za-z0-9+/]{43}='", animation.script_policy())
    assert not {"link", "iframe", "object", "embed", "img", "base", "form"} & set(found.tags)
    targets = found.of("href") + found.of("xlink:href") + found.of("src")
    assert targets
    assert all(target.startswith(("#", "data:image/png;base64,")) for target in targets)
    assert not [key for key, _ in found.attributes if key.startswith("on")]
    assert set(re.findall(r"https?://[^\"' <)]+", whole)) <= NAMESPACES
    assert "@import" not in whole
    assert set(re.findall(r"url\((.)", whole)) <= {"#"}


def test_ids_are_unique_and_references_lead_somewhere(whole):
    found = Reader(whole)
    ids = found.of("id")
    assert len(ids) == len(set(ids))
    inner = [target[1:] for target in found.of("href") + found.of("xlink:href") if target.startswith("#")]
    assert set(inner) <= set(ids)
    for style in found.of("clip-path"):
        assert re.fullmatch(r"url\(#(.+)\)", style)[1] in ids


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_the_table_holds_means_with_their_t_intervals(make):
    run = make(users=8, rounds=60, learners=("B", "A"))
    rows = run.metrics[(run.metrics["metric"] == "rare_accuracy") & (run.metrics["round"] >= 54)]
    ends = 100 * rows[rows["learner"] == "A"].groupby("replica")["value"].mean()
    known = stats.ttest_1samp(ends, 0.0).confidence_interval(0.95)
    page = report.write(run).read_text(encoding="utf-8")
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert table.index(">B<") < table.index(">A<")
    half = (known.high - known.low) / 2
    assert f'<td class="best">{ends.mean():.1f}<small>± {half:.1f}</small></td>' in table


@pytest.mark.slow
def test_what_a_scenario_says_is_only_text(make):
    evil = ("</svg><script>alert(1)</script>", "_a $x^$ & 'b' \"c\"", 'id="x" #010203 漢')
    found = read(make(name="<script>alert(2)</script>", learners=evil, users=8, rounds=30))
    said = "".join(found.said)
    assert found.tags.count("script") == 2
    assert "<script>alert(2)</script>" in said
    for name in evil[:2]:
        assert said.count(name) >= 4


@pytest.mark.slow
def test_the_same_run_gives_the_same_page_whatever_the_users_style(make):
    run = make(plane=True, users=8, rounds=30, replicas=2)
    first = report.write(run).read_bytes()
    with mpl.rc_context({"axes.facecolor": "red", "svg.fonttype": "path", "font.size": 30}):
        assert report.write(open_run(run.folder)).read_bytes() == first


@pytest.mark.slow
def test_no_trace_is_left_in_matplotlib(make):
    before = dict(mpl.rcParams)
    run = make(users=8, rounds=30)
    report.write(run)
    report.picture(run)
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
@pytest.mark.quick_first
def test_a_run_without_tables_has_a_page(tmp_path, status):
    (tmp_path / "manifest.json").write_text(json.dumps({"status": status, "error": "the disk is <full>"}))
    run = open_run(tmp_path)
    said = "".join(read(run).said)
    assert {"running": "crashed"}.get(status, status) in said
    assert f"netfl resume {tmp_path}" in said
    assert "no rounds yet" in said
    assert ("the disk is <full>" in said) == (status == "failed")
    assert report.picture(run).exists()


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("missing", ["rounds", "deliveries", "events", "metrics", "users", "nodes"])
@pytest.mark.slow
def test_any_table_may_be_missing(make, missing):
    run = make(users=8, rounds=30)
    (run.folder / f"{missing}.parquet").unlink()
    run = open_run(run.folder)
    assert "svg" in read(run).tags
    report.picture(run)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_a_direct_access_has_no_map_and_says_that_fates_are_unknown(make):
    found = read(make(network=False))
    assert "network" not in found.of("id")
    assert "No outcomes of updates were recorded" in "".join(found.said)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
@pytest.mark.parametrize("network", [True, False])
def test_a_network_says_where_to_read_what_it_leaves_out(make, network):
    """The page that it names exists."""
    said = "".join(read(make(learners=(), network=network)).said)
    assert ("docs/not_modelled.md" in said) == network
    assert (Path(__file__).parents[2] / "docs/not_modelled.md").exists()


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_users_are_rare_only_where_others_are_not(make):
    run = make(network=False)
    held = run.users.assign(**{"class:8": 1})
    held.to_parquet(run.folder / "users.parquet")
    assert "hold a rare class" not in "".join(read(open_run(run.folder)).said)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_fairness_and_final_figures_have_the_same_interval_of_student_s_t(make):
    run = make()
    said = "".join(read(run).said)
    assert "Fairness: the average of test accuracy over data points and over users" in said
    metrics = run.metrics
    late = metrics[(metrics["metric"] == "accuracy_users_worst10") & (metrics["learner"] == "FedAvg")]
    finals = 100 * late[late["round"] >= 0.9 * late["round"].max()].groupby("replica")["value"].mean()
    low, high = stats.ttest_1samp(finals, 0.0).confidence_interval(0.95)
    assert said.count(f"{finals.mean():.1f}± {(high - low) / 2:.1f}") == 2, "once in each of the two tables"
    assert "± is the half width of the 95\u00a0% t interval over 3 replicas" in said
    assert "standard deviation" not in said


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_what_it_took_to_reach_targets_is_told_where_there_are_any(make):
    run = make(replicas=2)
    assert "first evaluation that reaches it" not in "".join(read(run).said)
    lines = [(0, "FedAvg.target:0.8.rounds", 40.0), (1, "FedAvg.target:0.8.rounds", 60.0)]
    lines += [(replica, "FedAvg.target:0.8.time_s", 7200.0) for replica in range(2)]
    lines += [(0, "FedAvg.target:0.9.rounds", float("nan")), (1, "FedAvg.target:0.9.rounds", 70.0)]
    lines += [(replica, "wild.target:0.8.rounds", float("nan")) for replica in range(2)]
    pd.DataFrame(lines, columns=["replica", "metric", "value"]).to_parquet(run.folder / "final_metrics.parquet")
    page = report.write(open_run(run.folder)).read_text(encoding="utf-8")
    rows = [row for row in re.findall("<tr>(.*?)</tr>", page) if "round 50" in row or ">wild<" in row]
    assert [re.sub("<[^>]+>", "|", row).strip("|\n").split("|") for row in rows] == [
        ["FedAvg", "", "round 50", "2 h", "", "", "round 70", "1 of 2 replicas"],
        ["wild", "", "–", "", "–"],
    ]


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_divergence_gradients_and_staleness_are_drawn_where_they_were_asked_for(make):
    run = make()
    assert "besides" not in read(run).of("id")
    metrics = run.metrics.astype({"metric": str})
    metrics[metrics["metric"] == "loss"].assign(metric="weight_divergence").pipe(
        lambda own: pd.concat([metrics, own])
    ).to_parquet(run.folder / "metrics.parquet")
    found = read(open_run(run.folder))
    assert "besides" in found.of("id")
    assert "relative to the norm of the latter" in "".join(found.said)
    assert "Gradient norm" not in "".join(found.said)


def with_choices(run):
    """*run* as if a choice for all and one for each user had been made among its learners, and more been asked for."""
    metrics = run.metrics.astype({"learner": str, "metric": str, "group": str})
    one = metrics[metrics["learner"] == "FedAvg"]
    accuracy = one[(one["metric"] == "accuracy") & (one["group"] == "")]
    last = accuracy["round"] == accuracy["round"].max()
    more = [
        accuracy.assign(learner="tuned", value=np.where(last, 0.25, 0.999)),
        accuracy.assign(learner="tuned", metric="chosen", value=np.where(last, 1.0, 0.0)),
        *(
            accuracy.assign(learner="own", metric="chosen", group=f"user:{user}", value=user % 4 > 0)
            for user in range(8)
        ),
        *(accuracy.assign(metric="weight", group=f"user:{user}", value=1.0 + user) for user in range(8)),
        accuracy.assign(metric="validation_accuracy"),
        accuracy.assign(metric="validation_loss"),
    ]
    pd.concat([metrics, *more]).to_parquet(run.folder / "metrics.parquet")
    scenario = dict(run.scenario)
    of = {"learners": ["FedAvg", "FED-CVaR-AVG"], "by": "validation_loss"}
    scenario["evaluate"] |= {"choose": {"tuned": of | {"per": "all"}, "own": of | {"per": "user"}}}
    (run.folder / "scenario.yaml").write_text(json.dumps(scenario))
    return open_run(run.folder)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_choices_stand_as_last_made_and_win_nothing(make):
    run = with_choices(make(users=8, rounds=60, replicas=1))
    page = report.write(run).read_text(encoding="utf-8")
    row = next(row for row in page.split("<tr>") if ">tuned<" in row)
    assert "<td>25.0" in row
    assert "best" not in row
    assert "tuned and own: last round (60), when the choice was made last" in page
    said = "".join(Reader(page).said)
    assert "tunedvalidation lossone for allFED-CVaR-AVG\n" in said
    assert "FedAvg (2 of 8 users), FED-CVaR-AVG (6 of 8 users)" in said
    assert not any("tuned" in line for line in summary_text.verdicts(RunData(run)))


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_validation_and_weights_are_shown_where_they_were_asked_for(make):
    found = read(with_choices(make(users=8, rounds=60, replicas=1)))
    said = "".join(found.said)
    assert "on the validation examples" in said
    assert "validation loss" in said
    assert "Smallest weightMedianLargest" in said
    assert "FedAvg14.58" in said


@pytest.mark.slow
def test_a_learner_that_diverged_says_so_in_legends(make):
    run = make(users=8, rounds=40, replicas=2)
    lost = [{"learner": "FedAvg", "replica": 0, "round": 1, "user": None, "problem": "p"}]
    for told, sure in ((lost, False), ([*lost, lost[0] | {"replica": 1}], True)):
        (run.folder / "manifest.json").write_text(json.dumps({"status": "done", "diverged": told}))
        assert ("FedAvg (diverged)" in "".join(read(open_run(run.folder)).said)) == sure


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_it_can_be_written_elsewhere(make, tmp_path):
    run = make(learners=(), network=False)
    path = report.write(run, tmp_path / "here.html")
    assert path == tmp_path / "here.html"
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not (run.folder / "report.html").exists()


@pytest.mark.slow
def test_a_long_run_stays_small(make):
    path = report.write(make(rounds=2000, replicas=1, attempts=60))
    assert path.stat().st_size < 3e6


@pytest.mark.slow
def test_the_picture_is_a_png_and_the_same_each_time(make):
    run = make()
    path = report.picture(run)
    assert path == run.folder / "overview.png"
    first = path.read_bytes()
    assert first.startswith(b"\x89PNG")
    assert report.picture(run).read_bytes() == first


def test_importing_netfl_imports_no_plots():
    asked = "import sys, netfl, netfl.cli; sys.exit(any(name in sys.modules for name in ('matplotlib', 'seaborn')))"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


class Areas(HTMLParser):
    """The attributes of the elements that a reader may have to find, scroll or hear."""

    def __init__(self, page):
        super().__init__()
        self.pictures, self.areas = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        if tag == "svg":
            self.pictures.append(own)
        if tag == "pre" or own.get("class") in {"drawing", "scroll"}:
            self.areas.append(own)


@pytest.mark.slow
def test_pictures_have_a_role_and_a_name_and_areas_that_scroll_can_have_the_focus(make):
    found = Areas(report.write(make(users=8, rounds=30, replicas=1)).read_text(encoding="utf-8"))
    assert len(found.pictures) > 5
    assert len(found.areas) > len(found.pictures)
    assert [one for one in found.pictures if one.get("role") != "img" or not one.get("aria-label")] == []
    assert [one for one in found.areas if (one.get("tabindex"), one.get("role")) != ("0", "region")] == []
    labels = [one["aria-label"] for one in found.areas]
    assert all(labels)
    assert len(set(labels)) == len(labels)
