"""Plot functions take tables, return a Figure, and draw the values of the tables."""

import io
import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.text import Text

import netfl
from netfl import plots
from netfl.plots import style
from netfl.plots.deliveries import OUTCOME_COLOURS
from netfl.plots.sweeps import axis_lines

ROOT = "scenarios/rural_outage.yaml"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {"rounds": 60, "replicas": 2, "evaluate.every": 10, "record": "all", "tuning": None}
    return netfl.run(netfl.load(ROOT, changes), tmp_path_factory.mktemp("runs") / "run")


def sweep_summary(axes, metric="accuracy", learners=("A", "B"), half=0.02):
    """Return the summary of a sweep over all combinations of *axes*. Accuracies increase with the point."""
    rows = []
    for number, values in enumerate(product(*axes.values())):
        for number_of_learner, learner in enumerate(learners):
            rows.append((number, *values, learner, metric, 0.4 + 0.01 * number + 0.1 * number_of_learner, half, 3))
    return pd.DataFrame(rows, columns=["point", *axes, "learner", "metric", "mean", "half", "replicas"])


TWO_AXES = {"lr": [0.001, 0.01, 0.1], "users": [5, 10]}


def candidate_table():
    """Return the table of three candidates of two learners."""
    rows = [
        (0, learner, 1, lr, lr, "", value, 0.05, 2, 0, int(lr > 0.1), int(lr == 0.2))
        for learner in ("A", "B")
        for lr, value in ((0.02, 0.5), (0.2, 0.7), (2.0, 0.6))
    ]
    columns = ["replica", "learner", "pass", "lr", "step", "settings", "value", "half", "replicas", "diverged"]
    columns += ["alive", "chosen"]
    return pd.DataFrame(rows, columns=columns)


def plot_calls(run):
    """Return a call of each function with the tables of a run."""
    return {
        "curves": lambda **options: plots.curves(run.metrics, "accuracy", **options),
        "candidates": lambda **options: plots.candidates(candidate_table(), **options),
        "class_accuracy": lambda **options: plots.class_accuracy(run.metrics, rare=[9], **options),
        "user_accuracy": lambda **options: plots.user_accuracy(run.metrics, **options),
        "user_scatter": lambda **options: plots.user_scatter(
            run.metrics, run.users, run.deliveries, rare=[9], **options
        ),
        "participation_bars": lambda **options: plots.participation_bars(
            run.users, run.deliveries, rare=[9], **options
        ),
        "participation": lambda **options: plots.participation(run.users, run.deliveries, **options),
        "outcomes": lambda **options: plots.outcomes(run.events, **options),
        "delays": lambda **options: plots.delays(run.deliveries, run.rounds, **options),
        "user_delays": lambda **options: plots.user_delays(run.users, run.deliveries, run.rounds, **options),
        "staleness": lambda **options: plots.staleness(run.deliveries, run.rounds, **options),
        "node_delays": lambda **options: plots.node_delays(run.events, **options),
        "backlog": lambda **options: plots.backlog(run.events, **options),
        "utilisation": lambda **options: plots.utilisation(run.final_metrics, **options),
        "outages": lambda **options: plots.outages(run.events, **options),
        "sweep_lines": lambda **options: plots.sweep_lines(
            sweep_summary({"users": [5, 10]}), "accuracy", "users", **options
        ),
        "sweep_heat": lambda **options: plots.sweep_heat(
            sweep_summary(TWO_AXES), "accuracy", "lr", "users", learner="A", **options
        ),
        "search_progress": lambda **options: plots.search_progress(
            pd.DataFrame({"trial": [0, 1, 2], "status": ["done", "pruned", "done"], "value": [0.5, 0.2, 0.7]}),
            "accuracy",
            **options,
        ),
        "layout": lambda **options: plots.layout(run.users, run.deliveries, run.nodes, **options),
        "timeout_curve": lambda **options: plots.timeout_curve(
            pd.DataFrame(
                {
                    "deadline_s": [5.0, 10.0, 20.0],
                    "time_s": [900.0, 600.0, 700.0],
                    "low_s": [800.0, 550.0, 650.0],
                    "high_s": [math.inf, 650.0, 750.0],
                }
            ),
            10.0,
            **options,
        ),
    }


@pytest.mark.slow
def test_all_plots_use_the_given_axes_or_a_new_figure(run):
    calls, before = plot_calls(run), plt.get_fignums()
    assert {*calls, "regions"} == set(plots.__all__)
    for name, call in calls.items():
        ax = Figure().add_subplot()
        assert call(ax=ax) is ax.figure, name
        figure = call()
        assert figure._repr_png_()[1:4] == b"PNG", "a notebook shows it"
        assert figure.axes[0].has_data(), name
    assert plt.get_fignums() == before


@pytest.mark.slow
def test_no_plot_has_mathematical_text_which_a_page_would_show_as_it_is(run):
    for name, call in plot_calls(run).items():
        with style.theme():
            figure = call()
            figure.draw_without_rendering()
        texts = [text.get_text() for text in figure.findobj(Text)]
        assert [text for text in texts if "$" in text] == [], name


def test_a_curve_is_the_mean_over_replicas(run):
    ax = plots.curves(run.metrics, "accuracy", learners=["FED-CVaR-AVG"]).axes[0]
    table = run.metrics.query("learner == 'FED-CVaR-AVG' and metric == 'accuracy' and group == ''")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * table.groupby("round")["value"].mean())


def test_learners_have_the_order_of_the_scenario_whatever_that_of_the_rows(run):
    assert [*run.metrics["learner"].cat.categories] == [*run.learners]
    ax = plots.curves(run.metrics.iloc[::-1], "accuracy").axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [*run.learners]


@pytest.mark.parametrize("order", [("low", "high"), ("high", "low")])
@pytest.mark.parametrize("metric", ["accuracy", "loss"])
def test_axes_that_share_y_show_all_curves(metric, order):
    """Blocks of one run, and runs beside each other, have one scale: each curve lies within it, drawn first or last."""
    values = {"low": [0.01, 0.02, 0.03], "high": [0.6, 0.8, 0.9]}
    rows = [(0, at, "A", metric, f"block:{name}", value) for name in order for at, value in enumerate(values[name])]
    metrics = pd.DataFrame(rows, columns=["replica", "round", "learner", "metric", "group", "value"])
    cells = Figure().subplots(1, 2, sharey=True)
    for name, ax in zip(order, cells, strict=True):
        plots.curves(metrics, metric, group=f"block:{name}", ax=ax)
    unit = 100.0 if metric == "accuracy" else 1.0
    bottom, top = cells[0].get_ylim()
    assert bottom < unit * 0.01
    assert top > unit * 0.9


def test_a_long_state_of_the_comparison_stays_within_the_figure(run):
    metrics = run.metrics.copy()
    metrics.attrs["comparison"] = "tuned by validation accuracy, 16 candidates each, " + "a key as given, " * 8
    figure = plots.curves(metrics, "accuracy")
    figure.draw_without_rendering()
    (title,) = [text for text in figure.axes[0].findobj(Text) if text.get_text().startswith("tuned")]
    assert title.get_window_extent().x1 <= figure.bbox.x1


def test_a_figure_of_its_own_names_the_group(run):
    assert plots.curves(run.metrics, "accuracy/class:9").axes[0].get_ylabel() == "accuracy, class 9 (%)"
    assert plots.curves(run.metrics, "accuracy").axes[0].get_ylabel() == "accuracy (%)"


def test_curves_over_bits_and_energy_need_the_rounds(run):
    with pytest.raises(ValueError, match=r"rounds=run\.rounds"):
        plots.curves(run.metrics, over="bits")
    ax = plots.curves(run.metrics, over="bits", rounds=run.rounds).axes[0]
    assert ax.get_xlabel().startswith("sent on the uplink (")
    sent = run.rounds.groupby("replica")["uplink_bits"].sum().min()
    unit = {
        "sent on the uplink (kB)": 8e3,
        "sent on the uplink (MB)": 8e6,
        "sent on the uplink (GB)": 8e9,
        "sent on the uplink (B)": 8.0,
    }[ax.get_xlabel()]
    assert ax.lines[0].get_xdata()[-1] == pytest.approx(sent / unit)


def test_bars_count_deliveries_of_one_replica(run):
    ax = plots.participation_bars(run.users, run.deliveries, replica=1).axes[0]
    counts = run.deliveries[run.deliveries["replica"] == 1].groupby("user").size()
    assert sum(bar.get_height() for bar in ax.containers[0]) == counts.sum()
    assert max(bar.get_height() for bar in ax.containers[0]) == counts.max()


def test_delays_start_at_the_opening_of_the_round(run):
    ax = plots.delays(run.deliveries, run.rounds).axes[0]
    opened = run.rounds.set_index(["replica", "round"])["opened_s"]
    delays = [row.arrived_s - opened[row.replica, row.round] for row in run.deliveries.itertuples()]
    values = ax.lines[0].get_xdata()
    assert values[-1] / values[np.isfinite(values)][0] == pytest.approx(max(delays) / min(delays))


@pytest.mark.slow
def test_outages_are_bars():
    events = pd.DataFrame(
        {
            "replica": 0,
            "time_s": [10.0, 30.0, 50.0],
            "kind": ["down", "up", "down"],
            "user": [-1, -1, 3],
            "node": ["tower:0", "tower:0", ""],
        }
    )
    ax = plots.outages(events, end_s=60.0).axes[0]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["tower:0", "user 3"]
    bars = [
        path.get_extents()
        for path in max(ax.collections, key=lambda collection: len(collection.get_paths())).get_paths()
    ]
    assert [(bar.x0, bar.x1) for bar in bars] == [(10.0, 30.0), (50.0, 60.0)]


def test_missing_outcomes_are_an_error(run):
    with pytest.raises(ValueError, match="record"):
        plots.outcomes(run.events[run.events["kind"] == "up"])


@pytest.mark.slow
def test_regions_of_a_learner(tmp_path):
    run = netfl.run(netfl.load("scenarios/paper/fig2a.yaml", {"rounds": 2, "evaluate.every": 1}), tmp_path / "run")
    ax = plots.regions(run.regions, run.points, "FedAvg", rare=[2]).axes[0]
    ax.figure.savefig(io.BytesIO(), format="png")
    assert ax.has_data()


def test_numeric_axes_are_to_scale():
    ax = plots.sweep_lines(sweep_summary(TWO_AXES), "accuracy", "lr", where={"users": 10}).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), TWO_AXES["lr"])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [41.0, 43.0, 45.0])
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "lr", "accuracy (%)")
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (pytest.approx(39.0), pytest.approx(47.0))
    assert plots.sweep_lines(sweep_summary({"lr": [0.002, 0.1]}), "accuracy", "lr").axes[0].get_xscale() == "linear"


def test_categorical_axes_have_points_without_lines():
    ax = plots.sweep_lines(sweep_summary({"mac": ["tdma", "aloha"]}), "accuracy", "mac", learners=["B"]).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["tdma", "aloha"]
    assert {line.get_linestyle() for line in ax.lines} == {"None"}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["B"]


def test_quantities_are_numbers_in_one_unit():
    """A text axis would place 10 s before 2 s, and 1 min first."""
    summary = sweep_summary({"deadline": ["10 s", "1 min", "2 s"]})
    ax = plots.sweep_lines(summary, "accuracy", "deadline").axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [2 / 60, 10 / 60, 1.0])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [42.0, 40.0, 41.0])
    assert ax.get_xlabel() == "deadline (min)"
    heat = plots.sweep_heat(
        sweep_summary({"deadline": ["10 s", "1 min", "2 s"], "users": [5, 10]}),
        "accuracy",
        "deadline",
        "users",
        learner="A",
    ).axes[0]
    assert [text.get_text() for text in heat.get_xticklabels()] == ["2 s", "10 s", "1 min"]


def test_panels_share_the_units_of_their_axes():
    """One of two panels has short delays, and not the longest deadline."""
    table = sweep_summary({"deadline": ["2 s", "1 min"]}, metric="delay_mean_s", learners=[""])
    table = table.assign(mean=[0.004, 40.0], half=0.001)
    axes = [
        axis_lines(rows, "delay_mean_s", "deadline", learners=[""], panels=table) for rows in (table, table.head(1))
    ]
    np.testing.assert_allclose(axes[1].lines[0].get_xdata(), axes[0].lines[0].get_xdata()[:1])
    np.testing.assert_allclose(axes[1].lines[0].get_ydata(), axes[0].lines[0].get_ydata()[:1])
    assert axes[0].get_ylabel() == axes[1].get_ylabel()


def test_metrics_of_the_network_have_units():
    table = sweep_summary({"users": [5, 10]}, metric="delay_mean_s", learners=[""]).assign(
        mean=[0.02, 0.04], half=0.001
    )
    ax = plots.sweep_lines(table, "delay_mean_s", "users").axes[0]
    assert ax.get_ylabel() == "delay, mean (ms)"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [20.0, 40.0])
    assert ax.get_legend() is None


def test_cells_are_means_and_missing_points_are_empty():
    table = sweep_summary(TWO_AXES).query("not (lr == 0.1 and users == 5)")
    ax = plots.sweep_heat(table, "accuracy", "lr", "users", learner="B").axes[0]
    assert [text.get_text() for text in ax.texts] == ["51.0", "53.0", "55.0", "50.0", "52.0"]  # 10 users in the top row
    assert [text.get_text() for text in ax.get_yticklabels()] == ["10", "5"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"x": "lr"}, r"users takes several values; choose one of each, such as where=\{'users': 5\}"),
        ({"x": "user"}, r"'user' is not an axis of the sweep; did you mean 'users'\?"),
        ({"x": "lr", "where": {"users": 7}}, "no point has users = 7; it takes 5, 10"),
        ({"x": "lr", "where": {"users": 5}, "learners": ["C"]}, "'C' has no such metric; known: A, B"),
        ({"x": "lr", "metric": "acuracy"}, "there is no metric 'acuracy'; did you mean 'accuracy'"),
    ],
)
def test_invalid_selections_of_a_sweep_are_errors(arguments, problem):
    with pytest.raises(ValueError, match=problem):
        plots.sweep_lines(sweep_summary(TWO_AXES), **{"metric": "accuracy", **arguments})


def test_a_heat_map_needs_one_learner():
    with pytest.raises(ValueError, match="A, B have the metric; choose one, such as learner='A'"):
        plots.sweep_heat(sweep_summary(TWO_AXES), "accuracy", "lr", "users")


def replicas_of(metric, *series):
    """Return metrics of one learner in some replicas, whose t interval is wide."""
    rows = [(replica, at, value) for replica, values in enumerate(series) for at, value in enumerate(values)]
    table = pd.DataFrame(rows, columns=["replica", "round", "value"])
    return table.assign(learner="A", metric=metric, group="", time_s=table["round"].astype(float))


def band(ax):
    """Return the smallest and the largest y of the bands of axes."""
    y = np.concatenate([path.vertices[:, 1] for area in ax.collections for path in area.get_paths()])
    return y.min(), y.max()


@pytest.mark.parametrize(
    ("metric", "low", "high"),
    [("accuracy", 0.0, 100.0), ("accuracy_users_jain", 0.0, 1.0), ("staleness_mean", 0.0, None), ("r2", None, 1.0)],
)
def test_bands_have_possible_values_only(metric, low, high):
    ax = plots.curves(replicas_of(metric, [0.1, 0.9], [0.3, 0.1], [0.9, 0.6]), metric).axes[0]
    lowest, highest = band(ax)
    assert lowest == low if low is not None else lowest < -0.5
    assert highest == high if high is not None else highest > 1.0


def test_a_band_is_marked_where_it_is_cut():
    # three replicas with 10, 30 and 90 %: 43.3 ± 103.4 %, cut at both ends; then 90, 91 and 92 %, cut at none
    ax = plots.curves(replicas_of("accuracy", [0.1, 0.9], [0.3, 0.91], [0.9, 0.92]), "accuracy").axes[0]
    marked = [line.get_ydata() for line in ax.lines if line.get_marker() == "_"]
    assert [[*edge] for edge in np.nan_to_num(marked, nan=-1.0)] == [[0.0, -1.0], [100.0, -1.0]]


def test_a_bar_is_marked_where_it_is_cut():
    ax = plots.sweep_lines(sweep_summary({"mac": ["a", "b"]}, half=0.9), "accuracy", "mac").axes[0]
    marks = {line.get_marker(): [*line.get_ydata()] for line in ax.lines if line.get_marker() in "^v"}
    assert marks == {"v": [0.0, 0.0], "^": [100.0, 100.0]}
    ax = plots.sweep_lines(sweep_summary({"mac": ["a", "b"]}, half=0.1), "accuracy", "mac").axes[0]
    assert not {"^", "v"} & {line.get_marker() for line in ax.lines}


def test_two_replicas_have_no_band():
    ax = plots.curves(replicas_of("accuracy", [0.1, 0.9], [0.3, 0.6]), "accuracy").axes[0]
    assert not [path for area in ax.collections for path in area.get_paths() if len(path.vertices)]


def test_rare_classes_come_first(run):
    ax = plots.class_accuracy(run.metrics, rare=[8, 9]).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["8", "9", *"01234567"]


def test_bands_and_bars_of_sweeps_have_possible_values_only():
    summary = sweep_summary({"users": [5, 10]}, half=0.9)
    assert band(plots.sweep_lines(summary, "accuracy", "users").axes[0]) == (0.0, 100.0)
    ax = plots.sweep_lines(sweep_summary({"mac": ["a", "b"]}, half=0.9), "accuracy", "mac").axes[0]
    ends = np.concatenate([segment[:, 1] for area in ax.collections for segment in area.get_segments()])
    assert (ends.min(), ends.max()) == (0.0, 100.0)


def contrast(hue, page):
    """Return the contrast of two colours by WCAG 2."""
    dark, light = sorted(sns.utils.relative_luminance(colour) for colour in (hue, page))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#1b1f26"])
def test_colours_are_visible_on_light_and_dark_pages(page):
    for hue in (*style.PALETTE, *OUTCOME_COLOURS.values()):
        assert contrast(hue, page) > 2.0, hue


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 10.0, [1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0]),
        (1.0, 200.0, [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]),
        (1e-4, 20.0, [1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0]),
    ],
)
def test_longer_logarithmic_axes_have_fewer_ticks_in_a_decade(low, high, ticks):
    ax = style.new_axes(None)
    style.set_logarithmic(ax, "x")
    ax.set_xlim(low, high)
    shown = [tick for tick in ax.get_xticks() if low <= tick <= high]
    assert shown == pytest.approx(ticks)
