"""Orders of rules on two data sets: planted orders that hold, are reversed and are open."""

import numpy as np
import pytest
import table_page
from support.small_table import make_row, rule_named, small_suite
from table_transfer import Transfer, clear_sign, transfer

from netfl.rule_table.rows import add_row
from netfl.rule_table.suite import cells_of

NOISE = np.array([0.01, -0.01, 0.02, -0.02, 0.0])


def values(**means):
    """Return values by rule: a mean, and noise that is another one for each rule and adds up to 0."""
    return {rule: mean + np.roll(NOISE, place) for place, (rule, mean) in enumerate(means.items())}


def test_orders_that_hold_are_reversed_and_are_open():
    first = values(FedAvg=0.1, FedAU=0.4, MIFA=0.6, CVaR=0.601, own=0.9)
    second = values(FedAvg=0.1, FedAU=0.6, MIFA=0.4, CVaR=0.599)
    # clear on the first: FedAvg below the three others, FedAU below MIFA and CVaR
    assert transfer(first, second) == Transfer(
        clear=5, same=3, reversed=1, correlation=pytest.approx(1 - 6 * (0 + 4 + 1 + 1) / (4 * 15))
    )
    assert transfer(first, second).open == 1


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.1, 0.11, 0.12], 1),
        ([-0.1, -0.11, -0.12], -1),
        ([0.3, -0.1, -0.1], 0),
        ([0.0, 0.0, 0.0], 0),
        ([0.1, 0.1, 0.1], 1),
    ],
)
def test_an_order_is_clear_if_its_interval_excludes_0(differences, expected):
    assert clear_sign(np.array(differences)) == expected


def test_the_page_counts_the_orders_of_shared_accesses(tmp_path, monkeypatch):
    with small_suite(tmp_path, monkeypatch):
        for cell in cells_of("tiny"):
            for name, mean in (("FedAvg", 0.2), ("FedAU", 0.5)):
                add_row(cell, rule_named(name), make_row(cell, rule_named(name), mean + NOISE[:4]), None)
        cells = table_page.stored_cells()
    assert table_page.transfer_lines(cells) == []  # no other suite
    others = {type(cell)("others", cell.access): stored for cell, stored in cells.items()}
    monkeypatch.setattr(table_page, "datasets", lambda: ("tiny", "others"))
    lines = table_page.transfer_lines({**cells, **others})
    rows = [line for line in lines if line.startswith("| others")]
    assert rows == [f"| others.{cell.access} | 1 | 1 | 0 | 0 | +1.00 |" for cell in cells]
    assert "Together: of 2 orders that are clear on the digits 2 are the same, and 0 are reversed." in lines
    monkeypatch.setattr(table_page, "OF_DATA", {"others": "On others"})
    assert table_page._advice_section(others)[-1] == "- On others (2 accesses): FedAU (1.0), FedAvg (2.0)."
