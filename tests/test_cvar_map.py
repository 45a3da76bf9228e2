"""Map of CVaR's gain: optima of two blocks, verdicts of cells and hypotheses, order of the runs, and the section."""

import math

import cvar_map
import numpy as np
import pytest
import two_blocks
from cvar_map import ALPHAS, CELLS, DISTANCES, LEARNERS, OVER_MIFA, RIVALS, SHARES, Cell, MapHypothesis, Rows
from scipy import optimize, stats
from scipy.special import logit

GAMMA = 0.1


@pytest.mark.parametrize("distance", [0.5, 1.5, 4.0])
@pytest.mark.parametrize("weight", [0.0025, 0.05, 0.362, 0.5])
def test_the_best_line_is_the_ratio_of_normal_densities(weight, distance):
    slope, bias = two_blocks.best_line(weight, distance)
    assert (slope, bias) == pytest.approx((distance, logit(weight) - distance**2 / 2), abs=1e-4)


@pytest.mark.parametrize(
    ("weight", "rare", "majority"),  # of two normal distributions at a distance of 1.5, computed elsewhere
    [(0.02, 3.26, 99.96), (0.05, 11.26, 99.67), (0.1819, 40.06, 96.01), (0.3619, 64.51, 87.03), (0.5, 77.34, 77.34)],
)
def test_accuracies_at_the_optimum(weight, rare, majority):
    assert 100 * two_blocks.optimal_accuracy(weight, 1.5) == pytest.approx((rare + majority) / 2, abs=0.02)


@pytest.mark.parametrize("share", [0.0025, 0.02, 0.045, 0.3, 0.98])
@pytest.mark.parametrize("alpha", [0.02, 0.1, 0.7, 1.0])
def test_limits_of_a_weight_are_those_of_the_linear_program(share, alpha):
    shares = [share, 1 - share]
    limits = []
    for sign in (1, -1):
        found = optimize.linprog([sign, 0], A_eq=[[1, 1]], b_eq=[1], bounds=[(0, each / alpha) for each in shares])
        limits.append((1 - GAMMA) * found.x[0] + GAMMA * share)
    assert two_blocks.smallest_weight(share, alpha) == pytest.approx(limits[0])
    assert two_blocks.largest_weight(share, alpha) == pytest.approx(limits[1])


@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_boundary_is_where_the_largest_weight_is_that_of_importance_weights(alpha):
    n_rho = two_blocks.boundary(alpha)
    assert two_blocks.largest_weight(n_rho / 20, alpha) == pytest.approx(1 / 20)
    for cell in CELLS:
        assert cell.is_inside(alpha) == (cell.n_rho > n_rho)


@pytest.mark.parametrize("distance", DISTANCES)
def test_equal_losses_are_at_equal_weights_by_symmetry(distance):
    assert two_blocks.equal_weight(distance) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.02, 0.1])
@pytest.mark.parametrize("share", [0.0025, 0.02, 0.045])
def test_the_optimum_of_cvar_minimises_its_objective(share, alpha):
    """By a search over lines, not over weights."""

    def objective(line):
        majority, rare = two_blocks.block_losses(line, 1.5)
        worst, best = max(rare, majority), min(rare, majority)
        of_worst = min(1.0, (share if rare > majority else 1 - share) / alpha)
        tail = of_worst * worst + (1 - of_worst) * best
        return (1 - GAMMA) * tail + GAMMA * (share * rare + (1 - share) * majority)

    found = optimize.minimize(
        objective, [1.5, -2.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12, "maxiter": 4000}
    ).x
    line = two_blocks.best_line(two_blocks.cvar_weight(share, alpha, 1.5), 1.5)
    assert line == pytest.approx(tuple(found), abs=1e-3)


def test_no_cell_belongs_to_two_hypotheses_about_a_learner():
    for learner in LEARNERS:
        of_learner = [each for each in cvar_map.hypotheses() if each.learner == learner and each.second is None]
        cells = [cell for hypothesis in of_learner for cell in hypothesis.cells]
        assert len(cells) == len(set(cells))
    assert all(hypothesis.cells for hypothesis in cvar_map.hypotheses())


def test_the_corners_run_first():
    order = cvar_map.run_order()
    assert set(order) == set(CELLS)
    assert len(order) == len(CELLS) == 30
    corners = {Cell(n_rho, distance) for n_rho in (SHARES[0], SHARES[-1]) for distance in (DISTANCES[0], DISTANCES[-1])}
    assert set(order[:4]) == corners


def rows(means=(), *, validation=(), at_edge=(), fails=(), seed=0):
    """Return rows of ten replicas: accuracies around *means* by learner, 0.7 for the others, with 0.01 of noise."""
    rng = np.random.default_rng(seed)
    learners = {}
    for learner in LEARNERS:
        accuracy = dict(means).get(learner, 0.7) + 0.01 * rng.standard_normal(10)
        learners[learner] = {
            "accuracy": accuracy.tolist(),
            "validation": [dict(validation).get(learner, 0.7)] * 10,
            "at_edge": [int(replica < dict(at_edge).get(learner, 0)) for replica in range(10)],
            "learns": [int(replica >= dict(fails).get(learner, 0)) for replica in range(10)],
        }
    return Rows({"learners": learners, "core_s": 360.0, "settings": {}})


CVAR = "CVaR 0.05"


def test_the_best_rival_is_that_of_the_validation():
    found = rows({"MIFA": 0.9}, validation={"known weights": 0.75, "MIFA": 0.72, CVAR: 0.99})
    assert found.best_rival == "known weights"


def test_a_rival_that_never_learns_counts_as_the_constant_answer():
    found = rows(
        {"FedAvg": 0.3, CVAR: 0.52}, validation=dict.fromkeys(RIVALS, math.nan), fails=dict.fromkeys(RIVALS, 10)
    )
    assert found.difference(CVAR, "FedAvg").mean == pytest.approx(found.values(CVAR).mean() - 0.5)


def test_differences_are_paired_by_replica():
    found = rows({CVAR: 0.75})
    a, b = found.values(CVAR), found.values(found.best_rival)
    low, high = stats.ttest_rel(a, b).confidence_interval(0.95)
    difference = found.difference(CVAR)
    assert (difference.mean - difference.half, difference.mean + difference.half) == pytest.approx((low, high))


@pytest.mark.parametrize(
    ("mean", "states", "verdict"),
    [
        (0.75, {}, "gain"),
        (0.712, {}, "open"),
        (0.69, {}, "none"),
        (0.75, {"at_edge": {"FedAvg": 6}}, "open"),  # the rival may be better
        (0.75, {"at_edge": {"FedAvg": 5}}, "gain"),
        (0.75, {"at_edge": {CVAR: 10}}, "gain"),  # CVaR is at least as good
        (0.75, {"fails": {"FedAvg": 10}}, "gain"),
        (0.69, {"at_edge": {CVAR: 6}}, "open"),
        (0.69, {"fails": {CVAR: 6}}, "open"),
        (0.69, {"at_edge": {CVAR: 3}, "fails": {CVAR: 3}}, "open"),
        (0.69, {"at_edge": {"FedAvg": 10}}, "none"),
    ],
)
def test_verdicts_of_a_cell(mean, states, verdict):
    assert rows({CVAR: mean}, **states).verdict(CVAR, "FedAvg") == verdict


def test_a_search_among_many_cells_needs_a_wider_interval():
    found = rows({CVAR: 0.725}, seed=1)
    difference = found.difference(CVAR, "FedAvg")
    low = stats.ttest_rel(found.values(CVAR), found.values("FedAvg")).confidence_interval
    levels = [count for count in range(1, 2000) if found.verdict(CVAR, "FedAvg", count) == "gain"]
    assert difference.mean - difference.half > cvar_map.MARGIN
    for count in (1, levels[-1], levels[-1] + 1):
        assert (count in levels) == (low(1 - 0.05 / count).low > cvar_map.MARGIN)


def test_a_hypothesis_needs_all_cells_and_falls_by_one():
    cells = CELLS[:3]
    hypothesis = MapHypothesis("", CVAR, cells, "gain", second="FedAvg")
    gain, none, close = rows({CVAR: 0.75}), rows({CVAR: 0.69}), rows({CVAR: 0.712})
    assert hypothesis.verdict({}) == "not run"
    assert hypothesis.verdict({cells[0]: gain}) == "open"
    assert hypothesis.verdict(dict.fromkeys(cells, gain)) == "yes"
    assert hypothesis.verdict(dict.fromkeys(cells, gain) | {cells[1]: close}) == "open"
    assert hypothesis.verdict({cells[1]: none}) == "no"
    assert hypothesis.counts({cells[0]: gain, cells[1]: none}) == {"gain": 1, "none": 1, "open": 0, "not run": 1}


def test_the_section_shows_what_was_run():
    before = "\n".join(cvar_map.section({}))
    assert "0 of 30 cells are run" in before
    assert before.count("| not run |") == len(cvar_map.hypotheses())
    half = {cell: rows({CVAR: 0.75, OVER_MIFA: 0.69}) for cell in CELLS[:10]}
    text = "\n".join(cvar_map.section(half))
    assert "10 of 30 cells are run; the others take about 2.0 hours" in text
    assert text.count(", gain |") == 10
    all_rows = dict.fromkeys(CELLS, rows())
    assert "All 30 cells together took 3.0 hours of one core" in "\n".join(cvar_map.section(all_rows))


@pytest.mark.slow
def test_the_plot_marks_open_cells_and_those_that_were_not_run():
    figure = cvar_map.draw({CELLS[0]: rows({CVAR: 0.75}), CELLS[1]: rows({CVAR: 0.712})})
    panel = next(ax for ax in figure.axes if ax.get_title() == CVAR)
    texts = [text.get_text() for text in panel.texts]
    assert texts.count("–") == 28
    assert sum(text.endswith("?") for text in texts) == 1
    assert len(panel.patches) == 1
