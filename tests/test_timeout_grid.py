"""The comparison of advised deadlines with a grid, from the stored results."""

import pytest
import timeout_fresh
import timeout_grid


def test_stored_grids_are_complete():
    results = timeout_grid.read_results()
    grids = results[results["source"] == "grid"]
    deadlines = grids.groupby("scenario")["deadline_s"].nunique().to_dict()
    assert deadlines == dict.fromkeys(timeout_grid.SCENARIOS, timeout_grid.DEADLINES)
    assert (results.groupby(["scenario", "source", "deadline_s"]).size() == 8).all()


def test_fresh_comparisons_are_complete():
    results = timeout_grid.read_results(timeout_fresh.RESULTS)
    sizes = results.groupby(["scenario", "source"]).size().unstack()
    assert {*sizes.index} == {*timeout_grid.SCENARIOS}
    assert (sizes["grid"] == timeout_grid.DEADLINES * timeout_fresh.GRID_REPLICAS).all()
    assert (sizes[["best", "advised"]] == timeout_fresh.FRESH_REPLICAS).all(axis=None)


def test_page_has_the_tables_of_the_stored_results():
    text = timeout_grid.PAGE.read_text("utf-8")
    assert text == timeout_grid.page(text), "update it: python analysis/timeout_grid.py --page"
    assert text == timeout_fresh.page(text), "update it: python analysis/timeout_fresh.py --page"


@pytest.mark.parametrize(
    ("low", "high", "missed", "expected"),
    [
        (-0.02, 0.05, (0, 0), "passes"),
        (-0.02, 0.06, (0, 0), "open"),
        (0.051, 0.2, (0, 0), "fails"),
        (-0.2, 0.0, (2, 1), "fails"),
        (-0.2, 0.0, (1, 2), "passes"),
    ],
)
def test_the_verdict_follows_its_rule(low, high, missed, expected):
    assert timeout_fresh.verdict(low, high, *missed) == expected
