"""A final value is one number: in sentences, tables, plots, comparisons, LaTeX and the page of several runs.

The expected numbers are computed here from the table of metrics.
"""

import html
import re

import numpy as np
import pytest

import netfl
from netfl import plots, report
from netfl.plots import learning as learning_plots
from netfl.report import sections, several_runs, summary_text
from netfl.report.run_data import RunData
from netfl.report.run_set import gather_runs
from netfl.results import aggregates

METRICS = {"accuracy": "Over all classes", "rare_accuracy": "On the rare classes"}
SETS = {
    "one replica": {"replicas": 1, "swing": 0.2},
    "two replicas": {"replicas": 2, "swing": 0.2},
    "three replicas": {"replicas": 3, "swing": 0.2},
    "no swing": {"replicas": 3, "swing": 0.0},
    "few evaluations": {"replicas": 1, "swing": 0.2, "rounds": 60},
}


@pytest.fixture(scope="module", params=SETS)
def run(request, make_run, tmp_path_factory):
    """A run whose last evaluation, last tenth and moving mean differ."""
    options = {"users": 8, "rounds": 400, "gap": 0.05} | SETS[request.param]
    return make_run(tmp_path_factory.mktemp("final") / "run", **options)


def finals(run, metric):
    """Return the mean of the last tenth of the rounds of each learner, in percent, a value for each replica."""
    rows = run.metrics.query("metric == @metric and group == ''").astype({"learner": str})
    rows = rows[rows["round"] >= 0.9 * rows["round"].max()]
    return {name: 100 * part.groupby("replica")["value"].mean() for name, part in rows.groupby("learner")}


def window_of(run):
    """Return the first and the last evaluated round of the last tenth."""
    evaluated = run.metrics["round"][run.metrics["round"] >= 0.9 * run.metrics["round"].max()]
    return evaluated.min(), evaluated.max()


def text_of(markup):
    """Return the text of HTML."""
    plain = html.unescape(re.sub(r"<[^>]+>", " ", str(markup))).replace("\u00a0", " ")
    return " ".join(plain.split())


@pytest.mark.quick_first
@pytest.mark.parametrize("metric", METRICS)
def test_every_place_states_the_same_final_values(run, metric):
    expected = {name: f"{values.mean():.1f}" for name, values in finals(run, metric).items()}
    data = RunData(run)
    several = gather_runs([run.folder])
    compared = netfl.compare(run, metric)
    places = {
        "sentence": next(line for line in summary_text.verdicts(data) if line.startswith(METRICS[metric])),
        "table": text_of(sections.final_table(data)),
        "table of several runs": text_of(several_runs.final_table(several)),
        "compare": str(compared),
        "LaTeX": compared.to_latex(),
    }
    for place, text in places.items():
        for learner, number in expected.items():
            # the number follows the name of the learner, before that of another
            part = re.split("|".join({*expected} - {learner}), text.partition(learner)[2])[0]
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", part), (place, learner, number, text)


@pytest.mark.quick_first
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("over", ["round", "time"])
def test_plots_show_the_final_values_in_their_window(run, metric, over):
    expected = {name: values.mean() for name, values in finals(run, metric).items()}
    ax = plots.curves(run.metrics, metric, over=over, rounds=run.rounds).axes[0]
    dots = {line.get_color(): line.get_ydata()[0] for line in ax.lines if line.get_marker() == "o"}
    assert [*dots.values()] == pytest.approx([expected[learner] for learner in ("FedAvg", "FED-CVaR-AVG")])
    if aggregates.smoothing_window(run.metrics, metric) > 1 and over == "round":
        bold = {
            line.get_color(): line.get_ydata()[-1]
            for line in ax.lines
            if line.get_linewidth() > 1 and len(line.get_xdata()) > 9
        }
        assert bold == {color: pytest.approx(value) for color, value in dots.items()}
    (span,) = ax.patches
    if over == "round":
        assert (span.get_x(), span.get_x() + span.get_width()) == window_of(run)
    else:
        assert 0.8 * ax.get_xlim()[1] < span.get_x() < span.get_x() + span.get_width()


@pytest.mark.quick_first
def test_the_window_is_named_in_sentence_caption_and_plot(run):
    first, last = window_of(run)
    window = f"rounds {first}-{last}"
    page = text_of(report.write(run).read_text("utf-8"))
    assert f"in {window} " in page
    assert f"{window})." in page
    assert f"Shaded: {window}; dots: the means over them" in page
    assert f"means of {window}" in plots.curves(run.metrics, "accuracy").axes[0].get_title(loc="left")


@pytest.mark.quick_first
def test_few_replicas_have_no_direction(run):
    data = RunData(run)
    text = " ".join([*summary_text.verdicts(data), text_of(sections.final_table(data))])
    is_few = len(data.replicas) < 3
    assert ("may be chance" in text) == is_few
    assert bool(re.search("above|ahead|alike|significantly|lowest|Bold", text)) != is_few
    assert ('class="best"' in str(sections.final_table(data))) != is_few
    assert ("±" in text or "[" in text) != is_few


@pytest.mark.quick_first
def test_n_stands_beside_every_interval(run):
    data = RunData(run)
    compared = netfl.compare(run, [*METRICS])
    texts = [
        *summary_text.verdicts(data),
        text_of(sections.final_table(data)),
        compared.to_latex().replace(r"\pm", "±").replace("$", ""),
    ]
    for text in texts:
        for found in re.finditer(r"± (?!is )|\[[\d.]+\*?, ", text):
            assert re.match(r"[^±]*?\(n = 3\)", text[found.start() + 1 :]), text[found.start() :][:60]
    printed = str(compared).splitlines()[1:-1]
    n = len(data.replicas)
    assert all(re.search(rf"\b{n} ", line) for line in printed)
    assert any("±" in line or "[" in line for line in printed) == (n >= 3)


def test_an_interval_beyond_the_range_has_both_ends():
    # 10, 35.3 and 60 %: mean 35.1, half width 4.3027 * 25.0 / sqrt(3) = 62.1
    values = np.array([0.1, 0.353, 0.6])
    mean, half = values.mean(), 4.302653 * values.std(ddof=1) / np.sqrt(3)
    cell = netfl.results.formatting.metric_cell("accuracy", mean, half, 3, 3)
    assert cell == f"35.1 [0.0*, {100 * (mean + half):.1f}] (n = 3)"
    assert netfl.results.formatting.format_metric("loss_ratio", 0.9, 0.2, 4) == "90 [70, 100*] % (n = 4)"
    assert netfl.results.formatting.format_metric("delay_mean_s", 0.02, 0.01, 2) == "20 ms"


def test_choices_have_a_dot_at_their_last_value(make_run, tmp_path):
    run = make_run(tmp_path / "run", users=8, rounds=100, replicas=1, swing=0.1)
    rows = run.metrics.astype({"learner": str, "metric": str, "group": str})
    chosen = rows[rows["learner"] == "FedAvg"].assign(learner="Best")
    index = chosen[(chosen["metric"] == "loss")].assign(metric="chosen", value=0.0)
    table = netfl.results.aggregates.pd.concat([rows, chosen, index])
    ax = learning_plots.curves(table, "accuracy", learners=["FedAvg", "Best"])
    dots = [line.get_ydata()[0] for line in ax.lines if line.get_marker() == "o"]
    last = rows.query("learner == 'FedAvg' and metric == 'accuracy' and group == ''")["value"].iloc[-1]
    assert dots[1] == pytest.approx(100 * last)
    assert dots[0] != pytest.approx(100 * last)
