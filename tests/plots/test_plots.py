"""Pictures as functions: run tables in, Axes out, and what is drawn is what the tables say."""

import io
from itertools import product

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

import netfl
from netfl import plots

ROOT = "scenarios/rural_outage.yaml"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = {"rounds": 60, "replicas": 2, "evaluate.every": 10, "record": "all"}
    return netfl.run(netfl.load(ROOT, changes), tmp_path_factory.mktemp("runs") / "run")


def summary(axes, figure="accuracy", learners=("A", "B"), half=0.02):
    """A sweep's summary of every combination of *axes*: accuracies that grow with the point."""
    rows = []
    for number, values in enumerate(product(*axes.values())):
        for at, learner in enumerate(learners):
            rows.append((number, *values, learner, figure, 0.4 + 0.01 * number + 0.1 * at, half, 3))
    return pd.DataFrame(rows, columns=["point", *axes, "learner", "metric", "mean", "half", "replicas"])


TWO = {"lr": [0.001, 0.01, 0.1], "users": [5, 10]}


def every(run):
    """A call of each function with the tables of a run."""
    return {
        "curves": lambda **to: plots.curves(run.metrics, "accuracy", **to),
        "class_accuracy": lambda **to: plots.class_accuracy(run.metrics, rare=[9], **to),
        "user_accuracy": lambda **to: plots.user_accuracy(run.metrics, **to),
        "user_scatter": lambda **to: plots.user_scatter(run.metrics, run.users, run.deliveries, rare=[9], **to),
        "participation_bars": lambda **to: plots.participation_bars(run.users, run.deliveries, rare=[9], **to),
        "participation": lambda **to: plots.participation(run.users, run.deliveries, **to),
        "outcomes": lambda **to: plots.outcomes(run.events, **to),
        "delays": lambda **to: plots.delays(run.deliveries, run.rounds, **to),
        "user_delays": lambda **to: plots.user_delays(run.users, run.deliveries, run.rounds, **to),
        "staleness": lambda **to: plots.staleness(run.deliveries, run.rounds, **to),
        "node_delays": lambda **to: plots.node_delays(run.events, **to),
        "backlog": lambda **to: plots.backlog(run.events, **to),
        "utilisation": lambda **to: plots.utilisation(run.final_metrics, **to),
        "outages": lambda **to: plots.outages(run.events, **to),
        "sweep_lines": lambda **to: plots.sweep_lines(summary({"users": [5, 10]}), "accuracy", "users", **to),
        "sweep_heat": lambda **to: plots.sweep_heat(summary(TWO), "accuracy", "lr", "users", learner="A", **to),
        "layout": lambda **to: plots.layout(run.users, run.deliveries, run.nodes, **to),
    }


@pytest.mark.slow
def test_all_draw_where_they_are_told_or_in_a_figure_of_their_own(run):
    calls = every(run)
    assert {*calls, "regions"} == set(plots.__all__)
    for name, call in calls.items():
        ax = Figure().add_subplot()
        assert call(ax=ax) is ax.figure, name
        own = call()
        assert own._repr_png_()[1:4] == b"PNG", "a notebook shows it"
        assert own.axes[0].has_data(), name
    assert plt.get_fignums() == []


def test_a_curve_is_the_mean_over_replicas(run):
    ax = plots.curves(run.metrics, "accuracy", learners=["FED-CVaR-AVG"]).axes[0]
    table = run.metrics.query("learner == 'FED-CVaR-AVG' and metric == 'accuracy' and group == ''")
    np.testing.assert_allclose(ax.lines[0].get_ydata(), 100 * table.groupby("round")["value"].mean())


def test_curves_over_bits_and_energy_need_the_rounds(run):
    with pytest.raises(ValueError, match=r"rounds=run\.rounds"):
        plots.curves(run.metrics, over="bits")
    ax = plots.curves(run.metrics, over="bits", rounds=run.rounds).axes[0]
    assert ax.get_xlabel().startswith("sent on the uplink (")
    sent = run.rounds.groupby("replica")["uplink_bits"].sum().min()
    unit = {"sent on the uplink (kb)": 1e3, "sent on the uplink (Mb)": 1e6, "sent on the uplink (Gb)": 1e9, "sent on the uplink (b)": 1.0}[ax.get_xlabel()]
    assert ax.lines[0].get_xdata()[-1] == pytest.approx(sent / unit)


def test_bars_are_counts_of_one_replica(run):
    ax = plots.participation_bars(run.users, run.deliveries, replica=1).axes[0]
    own = run.deliveries[run.deliveries["replica"] == 1].groupby("user").size()
    assert sum(bar.get_height() for bar in ax.containers[0]) == own.sum()
    assert max(bar.get_height() for bar in ax.containers[0]) == own.max()


def test_delays_run_from_the_opening_of_the_round(run):
    ax = plots.delays(run.deliveries, run.rounds).axes[0]
    opened = run.rounds.set_index(["replica", "round"])["opened_s"]
    waits = [row.arrived_s - opened[row.replica, row.round] for row in run.deliveries.itertuples()]
    shown = ax.lines[0].get_xdata()
    assert shown[-1] / shown[np.isfinite(shown)][0] == pytest.approx(max(waits) / min(waits))


@pytest.mark.slow
def test_outages_are_bars_from_down_to_up():
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
    bars = [path.get_extents() for path in max(ax.collections, key=lambda one: len(one.get_paths())).get_paths()]
    assert [(bar.x0, bar.x1) for bar in bars] == [(10.0, 30.0), (50.0, 60.0)]


def test_fates_that_were_not_recorded_are_told(run):
    with pytest.raises(ValueError, match="record"):
        plots.outcomes(run.events[run.events["kind"] == "up"])


@pytest.mark.slow
def test_regions_of_a_learner(tmp_path):
    run = netfl.run(netfl.load("scenarios/paper/fig2a.yaml", {"rounds": 2, "evaluate.every": 1}), tmp_path / "run")
    ax = plots.regions(run.regions, run.points, "FedAvg", rare=[2]).axes[0]
    ax.figure.savefig(io.BytesIO(), format="png")
    assert ax.has_data()


def test_an_axis_stands_to_scale_where_it_is_numbers():
    ax = plots.sweep_lines(summary(TWO), "accuracy", "lr", where={"users": 10}).axes[0]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), TWO["lr"])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [41.0, 43.0, 45.0])
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "lr", "accuracy (%)")
    band = ax.collections[0].get_paths()[0].get_extents()
    assert (band.y0, band.y1) == (pytest.approx(39.0), pytest.approx(47.0))
    assert plots.sweep_lines(summary({"lr": [0.002, 0.1]}), "accuracy", "lr").axes[0].get_xscale() == "linear"


def test_an_axis_of_words_stands_side_by_side_and_is_joined_by_no_line():
    ax = plots.sweep_lines(summary({"mac": ["tdma", "aloha"]}), "accuracy", "mac", learners=["B"]).axes[0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["tdma", "aloha"]
    assert {line.get_linestyle() for line in ax.lines} == {"None"}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["B"]


def test_figures_of_the_network_have_their_units():
    table = summary({"users": [5, 10]}, figure="delay_mean_s", learners=[""]).assign(mean=[0.02, 0.04], half=0.001)
    ax = plots.sweep_lines(table, "delay_mean_s", "users").axes[0]
    assert ax.get_ylabel() == "delay, mean (ms)"
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [20.0, 40.0])
    assert ax.get_legend() is None


def test_a_cell_is_a_mean_and_a_point_that_is_not_there_is_empty():
    table = summary(TWO).query("not (lr == 0.1 and users == 5)")
    ax = plots.sweep_heat(table, "accuracy", "lr", "users", learner="B").axes[0]
    assert [text.get_text() for text in ax.texts] == ["51.0", "53.0", "55.0", "50.0", "52.0"]  # the most users on top
    assert [text.get_text() for text in ax.get_yticklabels()] == ["10", "5"]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"x": "lr"}, r"users takes several values; choose one of each, such as where=\{'users': 5\}"),
        ({"x": "user"}, r"'user' is not an axis of the sweep; did you mean 'users'\?"),
        ({"x": "lr", "where": {"users": 7}}, "no point has users = 7; it takes 5, 10"),
        ({"x": "lr", "where": {"users": 5}, "learners": ["C"]}, "'C' has no such metric; known: A, B"),
        ({"x": "lr", "metric": "acuracy"}, "there is no metric 'acuracy'; did you mean 'accuracy'"),
    ],
)
def test_what_a_picture_of_a_sweep_cannot_show_is_told(asked, told):
    with pytest.raises(ValueError, match=told):
        plots.sweep_lines(summary(TWO), **{"metric": "accuracy", **asked})


def test_a_heat_map_is_of_one_learner():
    with pytest.raises(ValueError, match="A, B have the metric; choose one, such as learner='A'"):
        plots.sweep_heat(summary(TWO), "accuracy", "lr", "users")
