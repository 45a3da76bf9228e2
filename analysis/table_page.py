"""The page docs/table.md and its CSV, written from the stored rows of the table of rules.

python analysis/table_page.py
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from table_reversals import HYPOTHESES, METRIC, Reversal, Values, find_reversals
from table_transfer import transfer
from wording import wrap_paragraph

from netfl.results.statistics import interval
from netfl.rule_table.ranking import Rank, rank_rules
from netfl.rule_table.rows import METRICS, StoredCell, TableMetric, read_cell
from netfl.rule_table.suite import Cell, all_cells, datasets, rules_of

DOCS = Path(__file__).parents[1] / "docs"
CSV = "table/table.csv"
"""The table as CSV, beside the page."""
REVERSALS_CSV = "table/reversals.csv"
"""All proposed reversals as CSV, beside the page."""
COLUMNS = 7
"""Columns of a table of values: those of the stated accesses, and of the networks and recordings, of the digits."""
TITLES = {"fashion_mnist": "Fashion-MNIST", "synthetic": "Synthetic(1, 1)"}
"""Titles of suites, where their name does not say them."""
OF_DATA = {"fashion_mnist": "If the model confuses the rare classes with others, as on Fashion-MNIST"}
"""Lines of the advice by suite; all others are of the digits."""
LONG_ABSENCE = 50
"""Mean absence of a rare user, or mean age of its updates, in rounds, from which on an absence is long."""
CORRELATED = 0.2
"""Correlation of users from which on they come and go together in the advice."""
_COMMENT = (
    "<!-- Written by `python analysis/table_page.py` from scenarios/table/rows. Change analysis/, not this page. -->"
)
_WHAT = (
    "Which rule is best depends on the access. Here every rule runs under every access, tuned in the same way: seven "
    "candidates for its step size and, of FedAU, its cutoff, in each replica by itself, by the accuracy of all classes "
    "on validation examples. All further keys, such as α and q, are as given in the suite. "
    "Twenty users hold the digits. Two of them are delivered in about 5 % of the rounds, the "
    "others in half; only these two hold the digits 8 and 9. From access to access the rates stay and the process "
    "changes; in networks they are nearly these, and two recordings of real devices have the rates that were measured. "
    "A row is ten replicas, which all rules share. Networks are simulated once and replayed, so that a rule that sends "
    "more than a model, such as SCAFFOLD, is not charged for it."
)
_OTHERS = (
    "Fashion-MNIST has five of these accesses, and Synthetic(1, 1) two, with eight rules: FedAvg, FED-CVaR-AVG, FedAU, "
    "MIFA, and the four others with the best mean rank on the digits, by a rule that was fixed before the digits were "
    "complete. The rare users of Fashion-MNIST hold the pullovers and the shirts, which a linear model confuses with "
    "what others hold. In Synthetic each user has a model of its own, and no class is rare."
)
_OWN = (
    "A rule of your own gets its row by one command: [add a row](howto/table_row.md). `netfl table` "
    "prints the stored table."
)
_READ = (
    "A cell has the mean of ten replicas, or the median of a cost, and the rank with its 95 % interval, by 2,000 "
    "bootstrap samples of the replicas; a stronger colour is nearer to the best of its column. A star marks a rule "
    "whose tuning failed in a replica: its best candidate is at the edge of the widest range, or none learns, so that "
    "it may be better than here. A dash with a rank is a target that was not reached; one without is an access that "
    "has not been run, or does not fit to the rule, of which the command prints the reason. In rounds whose updates "
    "all start from the newest version, FedBuff is FedAvg."
)
_PLAN = (
    "The hypotheses and the analysis were written before the first row. Of each two rules, half of the replicas "
    "proposes two accesses with opposite orders; the other half tests them, by the weaker of the two orders and with "
    "Holm's method over all proposed pairs."
)
_TRANSFER = (
    "Of the accesses that the digits and another data set share: an order of two rules is clear if the paired 95 % "
    "interval of their difference in the rare classes excludes 0. The table has how many orders are clear on the "
    "digits, and what they are on the other data. This count was fixed before these rows were seen; it tests nothing."
)


def title_of(dataset: str) -> str:
    """Return the name of the data of a suite."""
    return TITLES.get(dataset, dataset.capitalize())


def stored_cells() -> dict[Cell, StoredCell]:
    """Return the stored rows of all cells that have some, in the order of the suites."""
    found = {cell: read_cell(cell) for cell in all_cells()}
    return {cell: stored for cell, stored in found.items() if stored.rows}


def ranks_of(stored: StoredCell, metric: TableMetric) -> dict[str, Rank]:
    """Return the ranks of the rules of a cell by a metric."""
    return rank_rules(stored.values(metric.name), is_cost=metric.is_cost)


def values_of(cells: Mapping[Cell, StoredCell], metric: str = METRIC) -> Values:
    """Return the values of a metric by cell and rule."""
    return {cell.name: stored.values(metric) for cell, stored in cells.items()}


def csv_text(cells: Mapping[Cell, StoredCell]) -> str:
    """Return all values of the page as CSV, one line for each cell, rule and metric."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["cell", "rule", "metric", "value", "low", "high", "rank", "first", "last", "not_tuned", "replicas"]
    )
    for cell, stored in cells.items():
        for metric in METRICS:
            for rule, rank in ranks_of(stored, metric).items():
                row = stored.rows[rule]
                values = " ".join("inf" if value is None else repr(value) for value in row.values[metric.name])
                ends = [f"{end:.6g}" for end in (rank.value, rank.low, rank.high)]
                ranks = [rank.rank, rank.first, rank.last]
                writer.writerow([cell.name, rule, metric.name, *ends, *ranks, row.not_tuned, values])
    return text.getvalue()


def heat_map(cells: Mapping[Cell, StoredCell], metric: TableMetric) -> list[str]:
    """Return the tables of a metric in HTML: a row for each rule, a column for each cell that has the metric.

    A table has at most `COLUMNS` columns, so that a page shows it whole.
    """
    columns = {cell: ranks_of(stored, metric) for cell, stored in cells.items()}
    columns = {cell: ranks for cell, ranks in columns.items() if ranks}
    rules = dict.fromkeys(name for cell in columns for name in cells[cell].rows)
    lines = []
    for first in range(0, len(columns), COLUMNS):
        part = [*columns.items()][first : first + COLUMNS]
        lines += ['<div class="heat" tabindex="0">', "<table>", "<thead><tr><th>rule</th>"]
        lines += [f"<th>{cell.access.replace('_', ' ')}</th>" for cell, _ in part]
        lines.append("</tr></thead>")
        for rule in rules:
            lines.append(f"<tr><th>{rule}</th>")
            lines += [_heat_cell(metric, rule, ranks, cells[cell]) for cell, ranks in part]
            lines.append("</tr>")
        lines += ["</table>", "</div>", ""]
    return lines


def _heat_cell(metric: TableMetric, rule: str, ranks: Mapping[str, Rank], stored: StoredCell) -> str:
    if rule not in ranks:
        return "<td>–</td>"
    rank = ranks[rule]
    values = np.array([each.value for each in ranks.values() if np.isfinite(each.value)])
    share = 0.0
    if np.isfinite(rank.value) and np.ptp(values) > 0:
        share = (rank.value - values.min()) / np.ptp(values)
        share = 1 - share if metric.is_cost else share
    mark = "*" if stored.rows[rule].not_tuned else ""
    place = f"{rank.rank} ({rank.first}–{rank.last})"
    return f'<td style="--share: {share:.2f}">{_shown(metric, rank.value)}{mark}<br><small>{place}</small></td>'


def _shown(metric: TableMetric, value: float) -> str:
    return metric.text(value) if np.isfinite(value) else "–"


def decisive_metric(stored: StoredCell) -> TableMetric:
    """Return the accuracy of the rare classes, or that of the worst users where no class is rare."""
    rare, _, worst, *_ = METRICS
    return rare if stored.values(rare.name) else worst


def winners(cells: Mapping[Cell, StoredCell]) -> list[str]:
    """Return the best and the second rule of each cell, with their paired difference and what the access is like.

    The last line counts how often each rule is the best.
    """
    lines = [
        "| access | best rule | second | difference (points) | process | others: rate, burst | "
        "rare: rate, absence, age | correlation |",
        "|---|---|---|---|---|---|---|---|",
    ]
    bests: Counter[str] = Counter()
    clear = 0
    for cell, stored in cells.items():
        metric = decisive_metric(stored)
        ranks = ranks_of(stored, metric)
        if len(ranks) < 2:
            continue
        best, second = sorted(ranks, key=lambda name: ranks[name].rank)[:2]
        values = stored.values(metric.name)
        gain = interval(values[best] - values[second])
        bests[best] += 1
        clear += gain.mean > gain.half
        access = {key: "–" if value is None else value for key, value in stored.access.items()}
        lines.append(
            f"| {cell.name} | {best} | {second} | {100 * gain.mean:+.1f} ± {100 * gain.half:.1f} | "
            f"{access.get('process', '–')} | {access.get('rate', '–')}, {access.get('burst', '–')} | "
            f"{access.get('rare_rate', '–')}, {access.get('rare_absence', '–')}, {access.get('rare_age', '–')} | "
            f"{access.get('correlation', '–')} |"
        )
    named = ", ".join(f"{rule} in {number}" for rule, number in bests.most_common())
    text = f"Best: {named}. The interval of the lead excludes 0 in {clear} of {bests.total()} accesses."
    return [*lines, "", *wrap_paragraph(text), ""]


def advice(cells: Mapping[Cell, StoredCell]) -> list[str]:
    """Return the rules with the best mean rank for each sort of access, as a list; empty without rows to decide."""
    lines = []
    for sort, is_of_sort in (
        (f"rare users return within {LONG_ABSENCE} rounds", lambda access: not _is_long(access)),
        (f"rare users stay away for {LONG_ABSENCE} rounds and more", _is_long),
        ("users come and go together", lambda access: (access.get("correlation") or 0) >= CORRELATED),
    ):
        chosen = [stored for stored in cells.values() if stored.access and is_of_sort(stored.access)]
        lines += _advice_line(f"If {sort}", chosen)
    return lines


def _advice_line(where: str, chosen: Sequence[StoredCell]) -> list[str]:
    """Return the three rules with the best mean rank in some cells as a line; none without two rules or two cells."""
    places: dict[str, list[int]] = {}
    for stored in chosen:
        for rule, rank in ranks_of(stored, METRICS[0]).items():
            places.setdefault(rule, []).append(rank.rank)
    everywhere = {rule: float(np.mean(of_rule)) for rule, of_rule in places.items() if len(of_rule) == len(chosen)}
    if min(len(chosen), len(everywhere)) < 2:  # one access is no advice
        return []
    order = sorted(everywhere, key=lambda rule: everywhere[rule])[:3]
    named = ", ".join(f"{rule} ({everywhere[rule]:.1f})" for rule in order)
    return [f"- {where} ({len(chosen)} accesses): {named}."]


def _is_long(access: Mapping[str, object]) -> bool:
    """Return whether rare users stay away for long: by the absences that ended, or by the age of their updates.

    An absence that never ends has no length, but the age grows with it.
    """
    lengths = [access.get("rare_absence"), access.get("rare_age")]
    return any(isinstance(length, int | float) and length >= LONG_ABSENCE for length in lengths)


def hypothesis_lines(values: Values, reversals: Sequence[Reversal]) -> list[str]:
    """Return the verdicts of the hypotheses as a table.

    Args:
        values: the values of a suite.
        reversals: its proposed reversals.
    """
    lines = ["| hypothesis, written before the runs | verdict |", "|---|---|"]
    lines += [f"| {each.text} | {each.verdict(values)} |" for each in HYPOTHESES]
    is_reversed = any(each.is_confirmed and {each.better, each.other} == {"FedAU", "MIFA"} for each in reversals)
    is_run = all(each.verdict(values) != "not run" for each in HYPOTHESES)
    verdict = ("yes" if is_reversed else "open") if is_run else "not run"
    return [*lines, f"| the access reverses the order of FedAU and MIFA | {verdict} |", ""]


def reversal_lines(reversals: Sequence[Reversal]) -> list[str]:
    """Return the confirmed reversals as a table, below their number."""
    confirmed = [each for each in reversals if each.is_confirmed]
    text = f"Reversals: {len(reversals)} proposed, {len(confirmed)} confirmed. All: [{REVERSALS_CSV}]"
    lines = [*wrap_paragraph(f"{text}({REVERSALS_CSV})."), ""]
    if not confirmed:
        return lines
    lines += ["| rule | is ahead of | in | and behind it in | points | p |", "|---|---|---|---|---|---|"]
    for each in confirmed:
        points = ", ".join(f"{100 * difference:+.1f}" for difference in each.differences)
        cells = [name.partition(".")[2].replace("_", " ") for name in (each.first, each.second)]
        lines.append("| " + " | ".join([each.better, each.other, *cells, points, f"{each.p:.2g}"]) + " |")
    return [*lines, ""]


def reversals_text(reversals: Sequence[Reversal]) -> str:
    """Return all proposed reversals as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["ahead", "behind", "first", "second", "difference_first", "difference_second", "p", "confirmed"])
    for each in reversals:
        differences = [f"{difference:.6g}" for difference in each.differences]
        names = [each.better, each.other, each.first, each.second]
        writer.writerow([*names, *differences, f"{each.p:.4g}", each.is_confirmed])
    return text.getvalue()


def transfer_lines(cells: Mapping[Cell, StoredCell]) -> list[str]:
    """Return as a table how many orders of the first suite hold on other data, by access; empty without other data."""
    first = {cell.access: stored.values(METRIC) for cell, stored in of_first_suite(cells).items()}
    lines = []
    transfers = []
    for cell, stored in cells.items():
        values = stored.values(METRIC)
        if cell.dataset == datasets()[0] or cell.access not in first or len(values) < 2:
            continue
        orders = transfer(first[cell.access], values)
        transfers.append(orders)
        numbers = [orders.clear, orders.same, orders.reversed, orders.open, f"{orders.correlation:+.2f}"]
        lines.append(f"| {cell.name} | " + " | ".join(map(str, numbers)) + " |")
    if not lines:
        return []
    clear = sum(orders.clear for orders in transfers)
    same = sum(orders.same for orders in transfers)
    opposite = sum(orders.reversed for orders in transfers)
    text = f"Together: of {clear} orders that are clear on the digits {same} are the same, and {opposite} are reversed."
    heads = ("access", "clear", "the same", "reversed", "open", "rank correlation")
    table = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines]
    return ["## Orders on other data", "", *wrap_paragraph(_TRANSFER), "", *table, "", *wrap_paragraph(text), ""]


def of_first_suite(cells: Mapping[Cell, StoredCell]) -> dict[Cell, StoredCell]:
    """Return the cells of the suite that has all rules: in two suites the data may reverse an order, too."""
    return {cell: stored for cell, stored in cells.items() if cell.dataset == datasets()[0]}


def page_text(cells: Mapping[Cell, StoredCell]) -> str:
    """Return the page."""
    lines = ["# The table of rules", "", _COMMENT, "", *wrap_paragraph(_WHAT), ""]
    if len(datasets()) > 1:
        lines += [*wrap_paragraph(_OTHERS), ""]
    lines += [*wrap_paragraph(_OWN), ""]
    rows = sum(len(stored.rows) for stored in cells.values())
    total = sum(len(rules_of(cell.dataset)) for cell in all_cells())
    hours = sum(row.core_s for stored in cells.values() for row in stored.rows.values()) / 3600
    lines += [f"{rows} of {total} rows are stored; they took {hours:.1f} hours of one core.", ""]
    first = of_first_suite(cells)
    values = values_of(first)
    reversals = find_reversals(values)
    lines += ["## If your access looks like this", "", *_advice_section(cells), ""]
    lines += [
        "## Orders that the access reverses",
        "",
        *wrap_paragraph(_PLAN),
        "",
        *hypothesis_lines(values, reversals),
    ]
    lines += reversal_lines(reversals)
    lines += transfer_lines(cells)
    if not cells:
        return "\n".join(lines).rstrip() + "\n"
    lines += ["## Values", "", *wrap_paragraph(_READ), "", f"All numbers: [table.csv]({CSV}).", ""]
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        of_dataset = {cell: stored for cell, stored in cells.items() if cell.dataset == dataset}
        for metric in METRICS:
            if any(stored.values(metric.name) for stored in of_dataset.values()):
                lines += [f"### {title_of(dataset)}: {metric.label}", "", *heat_map(of_dataset, metric)]
    lines += ["## Which rule is best where", "", *_winner_text(), "", *winners(cells)]
    return "\n".join(lines).rstrip() + "\n"


def _advice_section(cells: Mapping[Cell, StoredCell]) -> Sequence[str]:
    found = advice(of_first_suite(cells))
    for dataset, where in OF_DATA.items():
        found += _advice_line(where, [stored for cell, stored in cells.items() if cell.dataset == dataset])
    if not found:
        return ["No advice yet: too few accesses are run."]
    text = (
        "Run `netfl ram` on a recording of your access, and look for its absences and its correlation. These rules "
        "have the best mean rank by the accuracy of the rare classes, in parentheses; only rules that run in all "
        "accesses of the sort are compared. Each of the lines is of one data set, the digits unless it names another. "
        f"Absences are long if their mean, or the mean age of the updates, is {LONG_ABSENCE} rounds or more: an "
        "absence that never ends shows in the age alone. The age was added after the rows were seen, and moves one "
        "recording."
    )
    return [*wrap_paragraph(text), "", *found]


def _winner_text() -> list[str]:
    text = (
        "Differences are paired, with 95 % t intervals, by the accuracy of the rare classes, or by that of the worst "
        "tenth of the users where no class is rare. Statistics are those of "
        "`netfl ram` in the first replica: rates are shares of rounds, the rare users are the tenth with the fewest "
        "deliveries, and bursts, absences and ages are means in rounds. Absences are those that have ended: a user "
        "that does not return has a large age."
    )
    return wrap_paragraph(text)


def write_page(docs: Path = DOCS) -> Path:
    """Write the page and its CSV below *docs*, and return the path of the page."""
    cells = stored_cells()
    path = docs / "table.md"
    path.write_text(page_text(cells), encoding="utf-8")
    if cells:
        (docs / CSV).parent.mkdir(exist_ok=True)
        (docs / CSV).write_text(csv_text(cells), encoding="utf-8")
        reversals = find_reversals(values_of(of_first_suite(cells)))
        (docs / REVERSALS_CSV).write_text(reversals_text(reversals), encoding="utf-8")
    return path


if __name__ == "__main__":
    print(write_page())
