"""The comparison of advised deadlines with a grid, from the stored results."""

import timeout_grid


def test_stored_grids_are_complete():
    results = timeout_grid.read_results()
    grids = results[results["source"] == "grid"]
    deadlines = grids.groupby("scenario")["deadline_s"].nunique().to_dict()
    assert deadlines == dict.fromkeys(timeout_grid.SCENARIOS, timeout_grid.DEADLINES)
    assert (results.groupby(["scenario", "source", "deadline_s"]).size() == 8).all()


def test_page_has_the_table_of_the_stored_results():
    text = timeout_grid.PAGE.read_text("utf-8")
    assert text == timeout_grid.page(text), "update it: python analysis/timeout_grid.py --page"
