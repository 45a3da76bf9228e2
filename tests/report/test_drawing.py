"""Plots show the values of the tables."""

import io
import re
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from netfl.plots import deliveries, learning, network, style
from netfl.report.run_data import RunData
from netfl.report.sections import outages
from netfl.results import aggregates

LEARNERS = ("FedAvg", "FED-CVaR-AVG")
USERS = pd.DataFrame({"user": [0, 1, 2, 3], "delivered": [5, 0, 9, 1], "rare": [False, True, False, True]})


def drawn(ax):
    """Draw the figure of *ax*."""
    ax.figure.savefig(io.BytesIO(), format="png")
    return ax


def curves_of(ax):
    """The curves of *ax*, without dots at final values and the edges of bands that are cut."""
    return [line for line in ax.lines if line.get_marker() not in ("o", "_")]


def test_plots_use_given_axes_and_no_pyplot_state():
    ax = Figure().add_subplot()
    assert deliveries.participation_bars(USERS, ax=ax) is ax
    assert drawn(deliveries.participation_bars(USERS)) is not ax
    assert plt.get_fignums() == []


def test_bars_are_counts_in_order_and_rare_users_differ():
    ax = drawn(deliveries.participation_bars(USERS))
    bars = ax.containers[0]
    assert [bar.get_height() for bar in bars] == [9, 5, 1, 0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["2", "0", "3", "1"]
    hues = [to_hex(bar.get_facecolor()) for bar in bars]
    assert hues == [deliveries.COMMON, deliveries.COMMON, deliveries.RARE, deliveries.RARE]
    assert ax.collections[0].get_offsets().tolist() == [[3.0, 0.0]]


def test_bars_of_many_users_are_areas():
    delivered = np.arange(200) % 7
    users = pd.DataFrame({"user": np.arange(200), "delivered": delivered, "rare": np.arange(200) % 5 == 0})
    ax = drawn(deliveries.participation_bars(users))
    areas = {to_hex(patch.get_facecolor()): patch.get_data().values for patch in ax.patches}
    assert sum(values.sum() for values in areas.values()) == delivered.sum()
    assert areas[deliveries.RARE].sum() == delivered[::5].sum()
    assert len(ax.collections[0].get_offsets()) == (delivered == 0).sum()


def test_bars_are_sorted_by_distance():
    ax = deliveries.participation_bars(USERS.assign(distance_m=[30.0, 10.0, 20.0, 40.0]), by="distance_m")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "2", "0", "3"]


@pytest.mark.slow
def test_curves_are_means_in_percent(make):
    view = RunData(make())
    ax = learning.curves(view.metrics, "accuracy", learners=LEARNERS)
    expected = aggregates.metric_table(view.metrics, "accuracy")["FedAvg"].mean(axis="columns")
    curve = curves_of(ax)[0]
    assert np.allclose(curve.get_ydata(), 100 * expected)
    assert curve.get_color() == style.PALETTE[0]
    assert "(%)" in ax.get_ylabel()
    drawn(ax)


@pytest.mark.slow
def test_curve_of_diverged_learner_ends_in_a_cross(make):
    run = make(replicas=2)
    early = run.metrics["learner"] == "FED-CVaR-AVG"
    metrics = run.metrics[~early | (run.metrics["round"] == 0)]
    for over in ("round", "time"):
        ax = drawn(learning.curves(metrics, "accuracy", over=over, learners=LEARNERS))
        good, lone, cross = curves_of(ax)
        assert np.ptp(good.get_xdata()) > 100 * np.finfo(float).eps
        assert len(good.get_xdata()) > 20
        assert len(lone.get_xdata()) == 1
        assert cross.get_marker() == "x"
        assert ax.get_xlim()[1] >= max(good.get_xdata())


@pytest.mark.slow
def test_rounds_are_whole_numbers_on_the_axis(make):
    ax = drawn(learning.curves(RunData(make(rounds=11)).metrics, "accuracy", learners=LEARNERS))
    assert all(float(tick).is_integer() for tick in ax.get_xticks())


def test_many_learners_differ_in_colour_and_in_style():
    strokes = [*style.line_styles([f"learner {index}" for index in range(20)]).values()]
    assert len({(style_["color"], str(style_["linestyle"])) for style_ in strokes}) == 20
    assert len({style_["color"] for style_ in strokes[:10]}) == 10
    assert len({str(style_["linestyle"]) for style_ in strokes[:6]}) == 6


def test_weights_are_plotted_over_deliveries():
    table = pd.DataFrame({"learner": ["A", "A"], "value": [1.5, 4.0], "delivered": [9, 1]})
    ax = drawn(learning.user_weights(table, learners=["A"]))
    assert ax.collections[0].get_offsets().tolist() == [[9.0, 1.5], [1.0, 4.0]]


@pytest.mark.slow
def test_noisy_curve_is_drawn_raw_and_smoothed(make):
    view = RunData(make(rounds=400, swing=0.1))
    ax = learning.curves(view.metrics, "rare_accuracy", learners=LEARNERS)
    raw, smooth = (np.asarray(line.get_ydata(), float) for line in curves_of(ax)[:2])
    expected = aggregates.metric_table(view.metrics, "rare_accuracy")["FedAvg"].mean(axis="columns")
    assert np.allclose(raw, 100 * expected)
    assert np.abs(np.diff(smooth)).mean() < 0.5 * np.abs(np.diff(raw)).mean()


@pytest.mark.slow
def test_stacked_areas_reach_the_total(make):
    view = RunData(make())
    table = aggregates.outcome_bins(view.outcomes, 3 * [view.rounds])
    ax = drawn(deliveries.outcomes(view.run.events, view.run.rounds))
    top = ax.patches[-1].get_data().values
    assert np.allclose(top, table.sum(axis="columns"))
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["superseded", "given up", "dropped", "late", "delivered"]


def test_raster_has_a_row_per_user():
    users = pd.DataFrame({"user": [7, 8], "delivered": 1, "rare": [False, True]})
    table = pd.DataFrame({"replica": 0, "round": [2, 1, 1], "user": [7, 8, 8]})
    ax = drawn(deliveries.participation(users, table))
    common, rare = (np.asarray(image.get_array()) for image in ax.images)
    assert common.tolist() == [[0.0, 1.0], [0.0, 0.0]]
    assert rare.tolist() == [[0.0, 0.0], [1.0, 0.0]]


@pytest.mark.slow
def test_heat_map_shows_final_accuracy(make):
    view = RunData(make())
    ax = drawn(learning.class_accuracy(view.metrics, learners=LEARNERS, rare=(8, 9)))
    cells = np.asarray(ax.collections[0].get_array()).reshape(2, 10)
    expected = aggregates.final(view.metrics, "accuracy", "class:9")
    assert [text.get_text() for text in ax.get_xticklabels()] == [*"8901234567"], "rare classes come first"
    assert cells[1, 1] == pytest.approx(100 * expected["FED-CVaR-AVG"].mean())
    bold = [text.get_text() for text in ax.get_xticklabels() if text.get_fontweight() == "bold"]
    assert bold == ["8", "9"]


def test_timeline_shows_each_outage():
    spans = pd.DataFrame({"row": [0, 1], "from_s": [0.0, 50.0], "to_s": [10.0, 100.0], "by_tower": False})
    arrived = pd.DataFrame({"row": [1], "arrived_s": [20.0]})
    rows = pd.DataFrame({"label": ["tower 0", "user 4"], "rare": [False, True]})
    ax = drawn(network.outage_timeline(spans, arrived, rows, 100.0))
    boxes = [path.get_extents().extents.tolist() for path in ax.collections[1].get_paths()]
    assert np.allclose(boxes, [[0.0, -0.4, 10.0, 0.4], [50.0, 0.6, 100.0, 1.4]])
    assert ax.lines[0].get_xydata().tolist() == [[20.0, 1.0]]
    assert ax.get_yticklabels()[1].get_fontweight() == "bold"


def test_map_is_to_scale_and_coloured():
    users = USERS.assign(x_m=[0.0, 4000.0, 0.0, 1000.0], y_m=[0.0, 0.0, 1000.0, 500.0])
    nodes = pd.DataFrame({"node": ["tower:0"], "role": ["tower"], "x_m": [8000.0], "y_m": [0.0]})
    ax = drawn(network.user_map(users, "delivered", "deliveries", nodes=nodes))
    rings, dots, towers = ax.collections[:3]
    assert rings.get_offsets().tolist() == [[4.0, 0.0], [1.0, 0.5]]
    assert np.asarray(dots.get_array()).tolist() == [5, 0, 9, 1]
    assert towers.get_offsets().tolist() == [[8.0, 0.0]]
    assert ax.get_aspect() == 1.0
    assert np.ptp(ax.get_xlim()) == pytest.approx(np.ptp(ax.get_ylim()))


def test_numbers_of_crowded_users_do_not_overlap():
    rng = np.random.default_rng(2)
    xy = np.concatenate([rng.normal(0.0, 300.0, (12, 2)), rng.uniform(-8000.0, 8000.0, (18, 2))])
    users = pd.DataFrame({"user": np.arange(30), "x_m": xy[:, 0], "y_m": xy[:, 1], "rare": False, "delivered": 1})
    figure = Figure(figsize=(3.2, 4.4), layout="constrained")
    ax = network.user_map(users, "delivered", "deliveries", ax=figure.add_subplot())
    figure.draw_without_rendering()
    numbers = [text for text in ax.texts if text.get_text().isdecimal()]
    boxes = [text.get_window_extent() for text in numbers]
    assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
    dots = ax.transData.transform(ax.collections[1].get_offsets())
    assert not any(box.contains(*dot) for box in boxes for dot in dots)
    assert {*range(12, 30)} <= {int(text.get_text()) for text in numbers}, "there is room around those outside"


def test_a_map_has_a_scale_bar():
    users = USERS.assign(x_m=[0.0, 4000.0, 0.0, 1000.0], y_m=[0.0, 0.0, 1000.0, 500.0])
    ax = drawn(network.user_map(users, "delivered", "deliveries"))
    assert np.ptp(ax.lines[0].get_xdata()) == pytest.approx(1.0)
    assert ax.texts[-1].get_text() == "1 km"
    assert ax.lines[0].get_ydata()[0] < 0.0, "below all users"


def test_colours_of_accuracies_differ_near_the_highest_and_are_those_of_all_learners(make):
    view = RunData(make(replicas=1))
    ax = drawn(learning.class_accuracy(view.metrics, learners=LEARNERS))
    mesh = ax.collections[0]
    cells = np.asarray(mesh.get_array())
    assert (mesh.norm.vmin, mesh.norm.vmax) == (cells.min(), cells.max())
    norm = style.percent_norm([21.0, 40.0, 53.0, 95.0, 97.0, 100.0, np.nan])
    places = norm([21.0, 40.0, 53.0, 95.0, 97.0, 100.0])
    assert places[[0, -1]].tolist() == [0.0, 1.0]
    assert (np.diff(places) > 0.05).all(), "95, 97 and 100 % can be told apart"
    assert norm.inverse(places).tolist() == pytest.approx([21.0, 40.0, 53.0, 95.0, 97.0, 100.0])


@pytest.mark.parametrize("values", [[97.0, 97.0], [], [np.nan]])
def test_scale_of_equal_or_missing_values(values):
    figure = Figure()
    ax = figure.add_subplot()
    image = ax.imshow(np.full((1, 2), 97.0), norm=style.percent_norm(values))
    style.percent_bar(ax, image, "accuracy")
    figure.draw_without_rendering()


def test_regions_have_y_upwards():
    grid = pd.DataFrame({"x": [0.0, 1.0, 0.0, 1.0], "y": [0.0, 0.0, 2.0, 2.0], "label": [0, 1, 2, 2]})
    points = pd.DataFrame({"x": [0.1, 0.2], "y": [0.0, 0.1], "label": [0, 2]})
    ax = drawn(learning.regions(grid, points, rare=(2,)))
    image = ax.images[0]
    assert np.asarray(image.get_array()).tolist() == [[0, 1], [2, 2]]
    assert image.origin == "lower"
    assert list(image.get_extent()) == [-0.5, 1.5, -1.0, 3.0]


def test_users_without_rare_classes_have_no_ring():
    table = pd.DataFrame({"learner": "A", "value": [0.5, 1.0], "delivered": [1, 2], "rare": False})
    spread = drawn(learning.user_accuracy(table, learners=["A"]))
    assert max(spread.lines[0].get_ydata()) == 100.0
    scatter = drawn(learning.user_scatter(table, learners=["A"]))
    assert scatter.collections[1].get_offsets().shape == (0, 2)


def test_legends_show_names_literally():
    names = ["_hidden", "$a$"]

    with style.theme():
        figure = Figure(figsize=(3, 2))
        learning.learner_legend(figure.add_subplot(), names)
        text = style.svg(figure, name="x", label="")

    text = re.sub(r"<[^>]+>", " ", text)
    assert all(name in text for name in names)


@pytest.mark.slow
def test_heat_map_of_users_is_sorted_by_deliveries(make):
    view = RunData(make(users=8, rounds=30, replicas=1))
    ax = drawn(learning.user_heat(view.accuracy, learners=LEARNERS))
    order = view.first_users.sort_values(["delivered", "user"])["user"]
    shown = [int(text.get_text()) for text in ax.get_xticklabels()]
    assert shown == order.tolist()
    cells = ax.images[0].get_array()
    expected = view.accuracy.set_index(["learner", "user"])["value"]
    assert cells[1, 0] == pytest.approx(100 * expected["FED-CVaR-AVG", shown[0]])
    bold = [int(text.get_text()) for text in ax.get_xticklabels() if text.get_fontweight() == "bold"]
    assert sorted(bold) == [5, 6, 7]


@pytest.mark.parametrize(("low", "high"), [(22, 480), (15, 80), (24, 45), (25, 3000), (0.3, 0.9), (1, 1e5), (28, 31)])
def test_logarithmic_axes_have_labels_in_the_range_of_their_data(low, high):
    ax = Figure().add_subplot()
    style.set_logarithmic(ax, "y")
    ax.set_ylim(low, high)
    ticks = [tick.label1.get_text() for tick in drawn(ax).yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    values = [float(text) for text in ticks]
    assert len(values) >= 3
    assert values[0] < low * (high / low) ** 0.25
    assert values[-1] > low * (high / low) ** 0.75


def test_table_of_outages_counts_those_left_out(make):
    view = RunData(make(users=30, rounds=30, replicas=1))
    table = list(outages(view))[-1]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>\n?<td>(.*?)</td>', table)
    number = view.outages.groupby(["user", "node"]).ngroups
    assert number > 8
    assert len(rows) == 9
    assert rows[-1][0] == f"and {number - 8} more"
    assert sum(int(cell.split()[0]) for _, cell in rows) == len(view.outages)
    few = RunData(make(users=8, rounds=30, replicas=1))
    assert " more</th>" not in list(outages(few))[-1]
