"""The rules that other data sets run: four that are fixed, and the best others of the digits."""

import numpy as np
from table_choice import ALWAYS, chosen_rules, mean_ranks

from netfl.rule_table.rows import StoredCell, TableRow


def cell(**means):
    rows = {rule: TableRow(values={"rare_accuracy": [mean, mean + 0.01]}) for rule, mean in means.items()}
    return StoredCell(rows=rows)


def test_choice_is_by_mean_rank_over_the_cells():
    first = cell(A=0.9, B=0.8, C=0.7, D=0.6, E=0.5, FedAU=0.95)
    second = cell(A=0.1, B=0.9, C=0.8, D=0.7, E=0.6, FedAU=0.95)
    assert mean_ranks([first, second]) == {"FedAU": 1, "B": 2.5, "C": 3.5, "A": 4, "D": 4.5, "E": 5.5}
    assert chosen_rules([first, second]) == [*ALWAYS, "B", "C", "A", "D"]


def test_rule_that_fits_to_few_cells_is_left_out():
    cells = [cell(A=0.5, B=0.6, seldom=0.9), cell(A=0.5, B=0.6), cell(A=0.5, B=0.6)]
    assert [*mean_ranks(cells)] == ["B", "A"]
    assert [*mean_ranks(cells[:2])] == ["seldom", "B", "A"]


def test_equal_rules_share_the_best_rank():
    assert mean_ranks([cell(A=0.5, B=0.5, C=0.4)]) == {"A": 1, "B": 1, "C": 3}
    assert np.isclose(mean_ranks([cell(A=0.5, B=0.5), cell(A=0.4, B=0.5)])["B"], 1)
