"""Values on the terminal, in reports, in summary.json and in the tables of sweeps are compared cell by cell.

The expected cells are computed here from ``metrics.parquet``, by the definition and SciPy's t distribution.
"""

import html
import json
import re
from io import StringIO

import pytest
from rich.console import Console
from scipy import stats
from support.doc_pages import ROOT, blocks
from support.inline_sweep_engine import Here

import netfl
from netfl.cli.views.run_summary import show_run
from netfl.cli.views.sweep import show_sweep
from netfl.report import write, write_sweep
from netfl.results import formatting

FINAL = "mean of the last 10 % of rounds"
HEADS = {"accuracy": "Accuracy", "rare_accuracy": "Rare classes", "accuracy_users_worst10": "Worst 10 %"}


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """Write the scenario of the README to a file."""
    path = tmp_path_factory.mktemp("first") / "first.yaml"
    (text,) = (block.text for block in blocks(ROOT / "README.md") if block.text.startswith(("name: first", "# first")))
    path.write_text(text, "utf-8")
    return path


@pytest.fixture(scope="module", params=["rural_outage", "first"])
def run(request, first, tmp_path_factory):
    """A short run of one learner scenario."""
    path = first if request.param == "first" else ROOT / "scenarios/rural_outage.yaml"
    overrides = {"rounds": 40, "replicas": 3 if request.param == "first" else 1, "evaluate.every": 2, "tuning": None}
    return netfl.run(netfl.load(path, overrides), tmp_path_factory.mktemp(request.param) / "run", device="cpu")


@pytest.fixture(scope="module")
def sweep(first, tmp_path_factory):
    """A small sweep of the scenario of the README; its last round and last tenth differ."""
    overrides = {"rounds": 60, "replicas": 3, "sweep": {"access.mac.probability": [0.05, 0.2]}}
    return netfl.sweep(netfl.load(first, overrides), tmp_path_factory.mktemp("sweep") / "s", engine=Here())


def expected(metrics, metric):
    """Return the cell, mean and half width of each learner."""
    rows = metrics[(metrics["metric"] == metric) & (metrics["group"] == "")].astype({"learner": str})
    late = rows[rows["round"] >= 0.9 * rows["round"].max()]
    found = {}
    for learner, rows_ in late.groupby("learner"):
        values = rows_.groupby("replica")["value"].mean()
        half = (
            stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else None
        )
        cell = f"{100 * values.mean():.1f}" + ("" if half is None else f" {interval_text(values.mean(), half)} (n = 3)")
        found[learner] = (cell, values.mean(), half)
    return found


def interval_text(mean, half):
    """Return the interval of a share of three replicas, cut at 0 and 100 %."""
    low, high = 100 * (mean - half), 100 * (mean + half)
    if low >= 0 and high <= 100:
        return f"± {100 * half:.1f}"
    return f"[{max(low, 0):.1f}{'*' * bool(low < 0)}, {min(high, 100):.1f}{'*' * bool(high > 100)}]"


def printed(show, value, width):
    """Return the output of *show* on a terminal of a given width."""
    terminal = StringIO()
    show(value, Console(file=terminal, width=width, markup=False))
    return terminal.getvalue()


def terminal_cells(text, keys):
    """Return the cells of all tables of a terminal by row and heading; the first *keys* columns name the row."""
    cells, lines = {}, text.splitlines()
    for at, line in enumerate(lines):
        if not line.strip() or set(line.strip()) != {"─"}:
            continue
        heads = re.split(r"\s{3,}", lines[at - 1].strip())
        above = re.split(r"\s{3,}", lines[at - 2].strip()) if lines[at - 2].strip() else []
        names = [*heads[:keys], *map(" ".join, zip(above, heads[keys:], strict=True))] if above else heads
        for row in lines[at + 1 :]:
            if not row.strip():
                break
            values = re.split(r"\s{3,}", row.strip())
            cells |= {(*values[:keys], name): value for name, value in zip(names[keys:], values[keys:], strict=True)}
    return cells


def report_cells(page, section):
    """Return the cells of all tables of a section by row and heading, each a list, and the captions."""
    part = re.search(rf'<section id="{section}">.*?</section>', page, re.DOTALL)[0]
    cells = {}
    for table in re.findall(r"<table>.*?</table>", part, re.DOTALL):
        heads = [_text(markup) for markup in re.findall(r'<th scope="col">(.*?)</th>', table)]
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", table, re.DOTALL):
            name, *cells_ = [_text(markup) for markup in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
            for head, cell in zip(heads[1:], cells_, strict=True):
                cells.setdefault((name, head), []).append(cell)
    return cells, [_text(markup) for markup in re.findall(r"<figcaption>(.*?)</figcaption>", part)]


def _text(markup):
    return html.unescape(re.sub(r"<[^>]+>", " ", markup)).replace("\u00a0", " ").replace("  ", " ").strip()


@pytest.mark.quick_first
@pytest.mark.parametrize("width", [80, 120, 200])
def test_terminal_shows_all_values_at_any_width(run, width):
    text = printed(show_run, run, width)
    assert f"learners: {FINAL}" in text
    cells = terminal_cells(text[text.index("learners:") :], 1)
    for metric, head in HEADS.items():
        for learner, (cell, mean, half) in expected(run.metrics, metric).items():
            assert cells[learner, head.lower()] == cell
            summary = json.loads((run.folder / "summary.json").read_text())
            name = f"{learner}.{metric}.last_tenth"
            assert summary[name] == pytest.approx(mean, rel=1e-12)
            assert summary.get(f"{name}.ci95") == (None if half is None else pytest.approx(half, rel=1e-9))
    assert max(map(len, text.splitlines()[:-1])) <= width


@pytest.mark.slow
def test_report_has_same_cells_as_terminal(run, tmp_path):
    page = write(run, tmp_path / "page.html").read_text("utf-8")
    cells, captions = report_cells(page, "final_metrics")
    terminal = terminal_cells(printed(show_run, run, 200).partition("learners:")[2], 1)
    for metric, head in HEADS.items():
        for learner, (cell, *_) in expected(run.metrics, metric).items():
            assert {*cells[learner, head]} == {cell} == {terminal[learner, head.lower()]}
    (caption,) = [caption for caption in captions if FINAL in caption]
    assert ("± is the half width of the 95 % t interval" in caption) == (run.summary["replicas"] > 1)
    assert "standard deviation" not in caption


@pytest.mark.slow
def test_report_has_same_network_metrics_as_terminal(run, tmp_path):
    page = write(run, tmp_path / "page.html").read_text("utf-8")
    cells, _ = report_cells(page, "network-metrics")
    text = " ".join(printed(show_run, run, 200).split())
    names = [
        name
        for name in formatting.access_metrics(run.summary, run.learners)
        if not name.startswith(("utilisation", "share"))
    ]
    assert len(names) > 8
    for name in names:
        (cell,) = cells[formatting.metric_label(name), "Value"]
        assert f"{formatting.metric_label(name)} {cell}" in text, name
    outcomes, _ = report_cells(page, "outcomes")
    for (outcome, head), (cell,) in outcomes.items():
        if head == "Updates":
            assert " ".join(f"{cell} {outcome}".split()) in text
            assert run.summary[f"outcome.{outcome.replace(' ', '_')}"] == int("".join(cell.split()))


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.slow
def test_sweep_has_same_cells_everywhere(sweep, tmp_path, width):
    text = printed(show_sweep, sweep, width)
    assert f"learners: {FINAL}" in text
    assert "Means over 3 replicas; ± is the half width of the 95 % t interval;" in " ".join(text.split())
    terminal = terminal_cells(text, 1)
    page = write_sweep(sweep, tmp_path / "page.html").read_text("utf-8")
    cells, captions = report_cells(page, "points")
    assert any(FINAL in caption for caption in captions)
    summary = sweep.summary.set_index(["point", "learner", "metric"])
    tops = {}
    for point, probability in enumerate([0.05, 0.2]):
        point_metrics = sweep.metrics[sweep.metrics["point"] == point]
        for metric in ("accuracy", "rare_accuracy"):
            for learner, (cell, mean, half) in expected(point_metrics, metric).items():
                assert terminal[f"{probability:g}", f"{learner} {HEADS[metric].lower()}"] == cell
                assert cells[str(point), f"{learner}: {HEADS[metric]}"] == [cell]
                row = summary.loc[point, learner, f"{metric}.last_tenth"]
                assert (row["mean"], row["half"]) == (pytest.approx(mean), pytest.approx(half))
                tops.setdefault(metric, []).append((mean, f"{learner} at probability = {probability:g}"))
    for metric, title in (("accuracy", "Accuracy"), ("rare_accuracy", "Accuracy on the rare classes")):
        mean, best = max(tops[metric])
        assert f"{title} ({sweep.comparison}): {best} ends highest, at {100 * mean:.1f}" in _text(page)


@pytest.mark.slow
def test_point_of_sweep_equals_single_run(sweep, first, tmp_path):
    overrides = {"rounds": 60, "replicas": 3, "access.mac.probability": 0.05}
    single = netfl.run(netfl.load(first, overrides), tmp_path / "alone", device="cpu")
    found = sweep.summary[sweep.summary["point"] == 0].set_index(["learner", "metric"])
    for learner in single.learners:
        for metric in HEADS:
            row, name = found.loc[learner, f"{metric}.last_tenth"], f"{learner}.{metric}.last_tenth"
            assert row["mean"] == pytest.approx(single.summary[name], abs=1e-3)


def test_omitted_points_and_columns_are_counted(sweep, monkeypatch):
    monkeypatch.setattr("netfl.cli.views.sweep.COLUMNS", 2)
    monkeypatch.setattr("netfl.cli.views.sweep.SHOWN", 1)
    text = " ".join(printed(show_sweep, sweep, 80).split())
    assert f"and 1 points and 4 columns more: netfl.open_sweep({str(sweep.folder)!r}).summary" in text
