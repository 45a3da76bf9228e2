"""The rules that the suites of other data sets run: those that the digits name.

Written before the digits were complete and before another data set had a row.  Four rules are always there; the four
others are those with the best mean rank, by the accuracy of the rare classes, over the cells of the digits.  Rules that
do not fit to half of the cells are left out, as their cells are the easier ones.

    python analysis/table_choice.py        the rules with their mean ranks, the chosen ones first
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from netfl.rule_table.ranking import rank_rules
from netfl.rule_table.rows import StoredCell, read_cell
from netfl.rule_table.suite import cells_of

ALWAYS = ("FedAvg", "FED-CVaR-AVG", "FedAU", "MIFA")
"""The first algorithm of netfl, and the rivals that its pages name."""
FURTHER = 4
"""Number of further rules."""
METRIC = "rare_accuracy"


def mean_ranks(cells: Sequence[StoredCell]) -> dict[str, float]:
    """Return the mean ranks of the rules that run in at least half of the cells, the best first."""
    places: dict[str, list[int]] = {}
    for stored in cells:
        for rule, rank in rank_rules(stored.values(METRIC)).items():
            places.setdefault(rule, []).append(rank.rank)
    means = {rule: mean(of_rule) for rule, of_rule in places.items() if 2 * len(of_rule) >= len(cells)}
    return dict(sorted(means.items(), key=lambda item: item[1]))


def chosen_rules(cells: Sequence[StoredCell]) -> list[str]:
    """Return the names of the chosen rules: those of `ALWAYS`, then the best others."""
    others = [rule for rule in mean_ranks(cells) if rule not in ALWAYS]
    return [*ALWAYS, *others[:FURTHER]]


def main() -> None:
    """Print the choice from the stored rows."""
    cells = [read_cell(cell) for cell in cells_of("digits")]
    ranks = mean_ranks(cells)
    for rule in dict.fromkeys([*chosen_rules(cells), *ranks]):
        print(f"{rule:20} {ranks.get(rule, float('nan')):.1f}")


if __name__ == "__main__":
    main()
