"""The report as a file: complete, safe, self-contained and reproducible."""

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
from torch import nn

import netfl
from netfl import report
from netfl.core.formats import FORMAT
from netfl.report import animation, summary_text
from netfl.report.run_data import RunData
from netfl.results.run_reader import open_run

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


class Reader(HTMLParser):
    """Collects the tags, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)

    def of(self, name):
        return [value for key, value in self.attributes if key == name]


def read(run):
    return Reader(report.write(run).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_report_has_all_sections(whole):
    found = Reader(whole)
    expected = {
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
    assert expected <= set(found.of("id"))
    assert found.tags.count("svg") == 12
    assert "".join(found.texts).count("FED-CVaR-AVG") > 5


@pytest.mark.slow
def test_report_loads_nothing_and_runs_only_the_replay(whole):
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


@pytest.mark.slow
def test_ids_are_unique_and_references_exist(whole):
    found = Reader(whole)
    ids = found.of("id")
    assert len(ids) == len(set(ids))
    inner = [target[1:] for target in found.of("href") + found.of("xlink:href") if target.startswith("#")]
    assert set(inner) <= set(ids)
    for style in found.of("clip-path"):
        assert re.fullmatch(r"url\(#(.+)\)", style)[1] in ids


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_table_has_means_with_t_intervals(make):
    run = make(users=8, rounds=60, learners=("B", "A"))
    rows = run.metrics[(run.metrics["metric"] == "rare_accuracy") & (run.metrics["round"] >= 54)]
    ends = 100 * rows[rows["learner"] == "A"].groupby("replica")["value"].mean()
    interval = stats.ttest_1samp(ends, 0.0).confidence_interval(0.95)
    page = report.write(run).read_text(encoding="utf-8")
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    assert table.index(">B<") < table.index(">A<")
    half = (interval.high - interval.low) / 2
    assert (
        f'<td class="best">{ends.mean():.1f}<small>±\u00a0{half:.1f}</small><small>(n\u00a0=\u00a03)</small></td>'
        in table
    )


@pytest.mark.slow
def test_texts_of_scenario_are_escaped(make):
    malicious = ("</svg><script>alert(1)</script>", "_a $x^$ & 'b' \"c\"", 'id="x" #010203 漢')
    found = read(make(name="<script>alert(2)</script>", learners=malicious, users=8, rounds=30))
    text = "".join(found.texts)
    assert found.tags.count("script") == 2
    assert "<script>alert(2)</script>" in text
    for name in malicious[:2]:
        assert text.count(name) >= 4


@pytest.mark.slow
def test_page_does_not_depend_on_matplotlib_style(make):
    run = make(plane=True, users=8, rounds=30, replicas=2)
    first = report.write(run).read_bytes()
    with mpl.rc_context({"axes.facecolor": "red", "svg.fonttype": "path", "font.size": 30}):
        assert report.write(open_run(run.folder)).read_bytes() == first


@pytest.mark.slow
def test_report_leaves_matplotlib_unchanged(make):
    before = dict(mpl.rcParams)
    run = make(users=8, rounds=30)
    report.write(run)
    report.picture(run)
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("status", ["running", "interrupted", "failed"])
@pytest.mark.quick_first
def test_run_without_tables_has_a_page(tmp_path, status):
    (tmp_path / "manifest.json").write_text(
        json.dumps({"format": FORMAT, "status": status, "error": "the disk is <full>"})
    )
    run = open_run(tmp_path)
    text = "".join(read(run).texts)
    assert {"running": "crashed"}.get(status, status) in text
    assert f"netfl resume {tmp_path}" in text
    assert ("rounds.parquet is missing" if status == "interrupted" else "no rounds yet") in text
    assert ("the disk is <full>" in text) == (status == "failed")
    assert report.picture(run).exists()


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("missing", ["rounds", "deliveries", "events", "metrics", "users", "nodes"])
@pytest.mark.slow
def test_report_without_one_table(make, missing):
    run = make(users=8, rounds=30)
    (run.folder / f"{missing}.parquet").unlink()
    run = open_run(run.folder)
    assert "svg" in read(run).tags
    report.picture(run)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_direct_access_has_no_map_and_no_outcomes(make):
    found = read(make(network=False))
    assert "network" not in found.of("id")
    assert "No outcomes of updates were recorded" in "".join(found.texts)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
@pytest.mark.parametrize("network", [True, False])
def test_report_of_network_links_to_its_limitations(make, network):
    """The linked page exists."""
    text = "".join(read(make(learners=(), network=network)).texts)
    assert ("docs/not_modelled.md" in text) == network
    assert (Path(__file__).parents[2] / "docs/not_modelled.md").exists()


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_users_are_not_rare_if_all_are(make):
    run = make(network=False)
    users = run.users.assign(**{"class:8": 1})
    users.to_parquet(run.folder / "users.parquet")
    assert "hold a rare class" not in "".join(read(open_run(run.folder)).texts)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_final_metrics_have_a_t_interval_and_stand_once(make):
    run = make()
    text = "".join(read(run).texts)
    assert "Mean over users" in text
    metrics = run.metrics
    late = metrics[(metrics["metric"] == "accuracy_users_worst10") & (metrics["learner"] == "FedAvg")]
    finals = 100 * late[late["round"] >= 0.9 * late["round"].max()].groupby("replica")["value"].mean()
    low, high = stats.ttest_1samp(finals, 0.0).confidence_interval(0.95)
    value = f"{finals.mean():.1f}±\u00a0{(high - low) / 2:.1f}(n\u00a0=\u00a03)"
    assert text.count(value) == 1, "no second table repeats it"
    assert "Means over 3 replicas; ±\u00a0is the half width of the 95\u00a0% t interval" in text
    assert "standard deviation" not in text


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_targets_are_shown_if_defined(make):
    run = make(replicas=2)
    assert "first evaluation that reaches it" not in "".join(read(run).texts)
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
def test_additional_metrics_are_plotted_if_recorded(make):
    run = make()
    assert "besides" not in read(run).of("id")
    metrics = run.metrics.astype({"metric": str})
    metrics[metrics["metric"] == "loss"].assign(metric="weight_divergence").pipe(
        lambda group_rows: pd.concat([metrics, group_rows])
    ).to_parquet(run.folder / "metrics.parquet")
    found = read(open_run(run.folder))
    assert "besides" in found.of("id")
    assert "relative to the norm of the latter" in "".join(found.texts)
    assert "Gradient norm" not in "".join(found.texts)


def add_choices(run):
    """Add to *run* a choice for all users, one per user, weights and validation metrics."""
    metrics = run.metrics.astype({"learner": str, "metric": str, "group": str})
    fedavg = metrics[metrics["learner"] == "FedAvg"]
    accuracy = fedavg[(fedavg["metric"] == "accuracy") & (fedavg["group"] == "")]
    last = accuracy["round"] == accuracy["round"].max()
    extra = [
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
    pd.concat([metrics, *extra]).to_parquet(run.folder / "metrics.parquet")
    scenario = dict(run.scenario)
    spec = {"learners": ["FedAvg", "FED-CVaR-AVG"], "by": "validation_loss"}
    scenario["evaluate"] |= {"choose": {"tuned": spec | {"per": "all"}, "own": spec | {"per": "user"}}}
    (run.folder / "scenario.yaml").write_text(json.dumps(scenario))
    return open_run(run.folder)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_choices_show_their_last_value_and_are_not_ranked(make):
    run = add_choices(make(users=8, rounds=60, replicas=1))
    page = report.write(run).read_text(encoding="utf-8")
    row = next(row for row in page.split("<tr>") if ">tuned<" in row)
    assert "<td>25.0" in row
    assert "best" not in row
    assert "tuned and own: last round (60), when the choice was made last" in page
    text = "".join(Reader(page).texts)
    assert "tunedvalidation lossone for allFED-CVaR-AVG\n" in text
    assert "FedAvg (2 of 8 users), FED-CVaR-AVG (6 of 8 users)" in text
    assert not any("tuned" in line for line in summary_text.verdicts(RunData(run)))


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_validation_and_weights_are_shown_if_recorded(make):
    found = read(add_choices(make(users=8, rounds=60, replicas=1)))
    text = "".join(found.texts)
    assert "on the validation examples" in text
    assert "validation loss" in text
    assert "Smallest weightMedianLargest" in text
    assert "FedAvg14.58" in text


@pytest.mark.slow
def test_legends_mark_diverged_learners(make):
    run = make(users=8, rounds=40, replicas=2)
    failure = [{"learner": "FedAvg", "replica": 0, "round": 1, "user": None, "problem": "p"}]
    for diverged, is_marked in ((failure, False), ([*failure, failure[0] | {"replica": 1}], True)):
        (run.folder / "manifest.json").write_text(
            json.dumps({"format": FORMAT, "status": "done", "diverged": diverged})
        )
        assert ("FedAvg (diverged)" in "".join(read(open_run(run.folder)).texts)) == is_marked


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_report_is_written_to_given_path(make, tmp_path):
    run = make(learners=(), network=False)
    path = report.write(run, tmp_path / "here.html")
    assert path == tmp_path / "here.html"
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert not (run.folder / "report.html").exists()


@pytest.mark.slow
def test_report_of_long_run_is_small(make):
    path = report.write(make(rounds=2000, replicas=1, attempts=60))
    assert path.stat().st_size < 3e6


@pytest.mark.slow
def test_overview_is_a_reproducible_png(make):
    run = make()
    path = report.picture(run)
    assert path == run.folder / "overview.png"
    first = path.read_bytes()
    assert first.startswith(b"\x89PNG")
    assert report.picture(run).read_bytes() == first


def test_importing_netfl_imports_no_plots():
    code = "import sys, netfl, netfl.cli; sys.exit(any(name in sys.modules for name in ('matplotlib', 'seaborn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Areas(HTMLParser):
    """Collects the attributes of plots and scrollable areas."""

    def __init__(self, page):
        super().__init__()
        self.plots, self.areas = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "svg":
            self.plots.append(attributes)
        if tag == "pre" or attributes.get("class") in {"drawing", "scroll"}:
            self.areas.append(attributes)


@pytest.mark.slow
def test_plots_have_labels_and_scroll_areas_are_focusable(make):
    found = Areas(report.write(make(users=8, rounds=30, replicas=1)).read_text(encoding="utf-8"))
    assert len(found.plots) > 5
    assert len(found.areas) > len(found.plots)
    assert [entry for entry in found.plots if entry.get("role") != "img" or not entry.get("aria-label")] == []
    assert [entry for entry in found.areas if (entry.get("tabindex"), entry.get("role")) != ("0", "region")] == []
    labels = [entry["aria-label"] for entry in found.areas]
    assert all(labels)
    assert len(set(labels)) == len(labels)


@pytest.mark.usefixtures("sketched")
@pytest.mark.slow
def test_captions_of_a_regression_speak_of_no_accuracy(tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 2)).astype("float32")
    learner = {"objective": "erm", "aggregation": "average", "lr": 0.05, "batch_size": 16, "local_epochs": 1}
    scenario = {
        "name": "regression",
        "users": 4,
        "rounds": 10,
        "access": {"kind": "bernoulli", "probability": 0.5},
        "data": {"examples": (x, x[:, 0]), "targets": 1},
        "partition": "iid",
        "model": {"module": nn.Linear(2, 1), "loss": "mse"},
        "learners": {"FedAvg": learner},
        "evaluate": {"every": 5},
    }
    run = netfl.run(scenario, tmp_path / "run", progress=False)
    text = " ".join(read(run).texts)
    assert "MSE" in text
    assert "ccuracies" not in text


@pytest.mark.parametrize(("out", "file"), [("cmp", "cmp.html"), ("cmp.htm", "cmp.htm")])
def test_a_page_without_an_ending_is_named_html(make_run, tmp_path, sketched, out, file):
    folders = [make_run(tmp_path / name, users=6, rounds=20, replicas=1).folder for name in ("a", "b")]
    assert report.write_several(folders, tmp_path / out) == tmp_path / file
    assert report.write(open_run(folders[0]), tmp_path / f"one-{out}") == tmp_path / f"one-{file}"
    assert (tmp_path / file).read_text("utf-8").startswith("<!DOCTYPE html>")


def test_replicas_that_end_in_different_rounds_are_counted(make_run, tmp_path, sketched):
    run = make_run(tmp_path / "run", users=6, rounds=107, replicas=3)
    rounds = pd.read_parquet(run.folder / "rounds.parquet")
    last = {0: 95, 1: 107, 2: 101}
    rounds[rounds["round"] <= rounds["replica"].map(last)].to_parquet(run.folder / "rounds.parquet")
    single = report.write(run).read_text("utf-8")
    assert "95 to 107 rounds" in single
    assert "Number of deliveries of each user in 95 rounds." in single
    several = report.write_several([run.folder], tmp_path / "several").read_text("utf-8")
    assert ">95 to 107</td>" in re.sub(r"\s*</td>", "</td>", re.sub(r"<td>\s*", ">", several))
