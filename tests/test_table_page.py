"""The page of the table of rules: each number on it is that of a stored row, and it is up to date."""

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
import table_campaign
import table_page
from support.small_table import make_row, rule_named, small_suite

from netfl.rule_table.rows import METRICS, TableRow, add_row
from netfl.rule_table.suite import Cell, cells_of

ROOT = Path(__file__).parents[1]
NAMES = ("FedAvg", "FedAU", "CVaR")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Planted rows of a small suite; returns the folder of their files."""
    with small_suite(tmp_path, monkeypatch) as folder:
        rng = np.random.default_rng(5)
        for cell in cells_of("tiny"):
            for place, name in enumerate(NAMES):
                costs = {}
                if cell.access == "tdma":
                    costs = {"time_s": [3600.0 * (place + 1), 7200.0, 9000.0, None], "energy_J": [5.0, 7.0, 6.0, 8.0]}
                row = make_row(cell, rule_named(name), rng.random(4), costs=costs, not_tuned=place == 2)
                add_row(cell, rule_named(name), row, None)
        add_row(Cell("tiny", "tdma"), rule_named("known p"), TableRow(refused="states no rates"), None)
        yield folder


def stored_values(folder, cell, rule, metric):
    values = json.loads((folder / f"{cell}.json").read_text())["rows"][rule]["values"][metric]
    return np.array([np.inf if value is None else value for value in values], float)


def test_each_number_of_a_heat_map_is_that_of_a_stored_row(rows):
    cells = table_page.stored_cells()
    for metric in METRICS:
        html = "\n".join(table_page.heat_map(cells, metric))
        names = [name.replace(" ", "_") for name in re.findall(r"<th>(.*?)</th>", html.partition("</thead>")[0])][1:]
        lines = re.findall(r"<tr><th>(.*?)</th>\n(.*?)</tr>", html.partition("</thead>")[2], re.DOTALL)
        shown = 0
        for rule, text in lines:
            for access, cell in zip(names, re.findall(r"<td.*?</td>", text), strict=True):
                if cell == "<td>–</td>":
                    assert rule == "known p"
                    continue
                values = stored_values(rows, f"tiny.{access}", rule, metric.name)
                centre = np.median(values) if metric.is_cost else np.mean(values)
                number, mark = re.fullmatch(r"<td.*?>([\d.]+|–)(\*?)<br>.*", cell).groups()
                if np.isfinite(centre):
                    assert float(number) == pytest.approx(metric.scale * centre, abs=0.051)
                else:
                    assert number == "–"
                assert bool(mark) == (rule == "CVaR")
                shown += 1
        assert shown == (len(NAMES) if metric.is_cost else 2 * len(NAMES))


def test_tables_are_as_narrow_as_a_page(rows, monkeypatch):
    cells = table_page.stored_cells()
    whole = "".join(table_page.heat_map(cells, METRICS[0]))
    monkeypatch.setattr(table_page, "COLUMNS", 1)
    parts = "".join(table_page.heat_map(cells, METRICS[0]))
    assert (whole.count("<table>"), parts.count("<table>")) == (1, 2)
    assert sorted(re.findall(r"<td.*?</td>", parts)) == sorted(re.findall(r"<td.*?</td>", whole))


def test_csv_has_the_values_of_all_replicas(rows):
    table = [*csv.DictReader(io.StringIO(table_page.csv_text(table_page.stored_cells())))]
    assert len(table) == len(NAMES) * (2 * 3 + 2)
    for line in table:
        values = stored_values(rows, line["cell"], line["rule"], line["metric"])
        assert np.array(line["replicas"].split(), float).tolist() == values.tolist()
        is_cost = line["metric"] in {"time_s", "energy_J"}
        centre = np.median(values) if is_cost else np.mean(values)
        assert float(line["value"]) == pytest.approx(centre, rel=1e-5)


def test_best_rule_and_its_lead_are_those_of_the_rows(rows):
    cells = table_page.stored_cells()
    *lines, _, count, _ = table_page.winners(cells)[2:]
    assert len(lines) == 2
    assert re.fullmatch(r"Best: .* The interval of the lead excludes 0 in \d of 2 accesses\.", count)
    for line in lines:
        name, best, second, gain = [part.strip() for part in line.split("|")[1:5]]
        means = {rule: stored_values(rows, name, rule, "rare_accuracy").mean() for rule in NAMES}
        order = sorted(means, key=means.get, reverse=True)
        assert [best, second] == order[:2]
        assert float(gain.partition(" ")[0]) == pytest.approx(100 * (means[best] - means[second]), abs=0.051)


def test_worst_users_decide_where_no_class_is_rare():
    values = {"FedAU": {"worst": [0.2, 0.3]}, "MIFA": {"worst": [0.3, 0.4]}}
    stored = table_page.StoredCell(rows={rule: TableRow(values=of_rule) for rule, of_rule in values.items()})
    line, _, count, _ = table_page.winners({Cell("tiny", "a"): stored})[2:]
    assert line.startswith("| tiny.a | MIFA | FedAU | +10.0 ")
    assert count == "Best: MIFA in 1. The interval of the lead excludes 0 in 1 of 1 accesses."


@pytest.fixture
def reversed_cells(rows):
    """Two accesses of which the second reverses the order of two rules."""

    def cell(**means):
        draws = np.random.default_rng(3).normal(0, 0.01, (len(means), 10))
        values = {rule: [*(mean + of_rule)] for (rule, mean), of_rule in zip(means.items(), draws, strict=True)}
        return table_page.StoredCell(rows={rule: TableRow(values={"rare_accuracy": values[rule]}) for rule in values})

    return {Cell("tiny", "bernoulli"): cell(FedAU=0.8, MIFA=0.7), Cell("tiny", "tdma"): cell(FedAU=0.7, MIFA=0.8)}


def test_confirmed_reversal_is_on_the_page_and_in_the_csv(reversed_cells):
    text = table_page.page_text(reversed_cells)
    assert "Reversals: 1 proposed, 1 confirmed." in text
    (line,) = [line for line in text.splitlines() if line.startswith("| FedAU | MIFA |")]
    assert line.startswith("| FedAU | MIFA | bernoulli | tdma | +")
    found = table_page.find_reversals(table_page.values_of(reversed_cells))
    (row,) = csv.DictReader(io.StringIO(table_page.reversals_text(found)))
    assert (row["ahead"], row["first"], row["second"], row["confirmed"]) == (
        "FedAU",
        "tiny.bernoulli",
        "tiny.tdma",
        "True",
    )
    assert float(row["difference_first"]) == pytest.approx(0.1, abs=0.02)
    assert float(row["difference_second"]) == pytest.approx(-0.1, abs=0.02)


def test_data_that_reverse_an_order_are_no_reversal_by_the_access(reversed_cells):
    first, second = reversed_cells.values()
    cells = {Cell("tiny", "bernoulli"): first, Cell("other", "tdma"): second}
    assert "Reversals: 0 proposed" in table_page.page_text(cells)


def test_page_and_csv_are_written(rows, tmp_path):
    text = table_page.write_page(tmp_path).read_text()
    assert "7 of 10 rows are stored" in text
    assert (tmp_path / table_page.CSV).is_file()
    assert "not run" in text  # the hypotheses are about cells of the digits


def test_advice_names_the_best_mean_rank():
    def cell(absence, **means):
        stored = {rule: TableRow(values={"rare_accuracy": [mean, mean]}) for rule, mean in means.items()}
        return table_page.StoredCell({}, {"rare_absence": absence, "correlation": 0.0}, stored)

    cells = {
        Cell("tiny", "a"): cell(20, FedAU=0.8, MIFA=0.7),
        Cell("tiny", "b"): cell(200, FedAU=0.5, MIFA=0.7, FedAvg=0.9),
        Cell("tiny", "c"): cell(300, FedAU=0.5, MIFA=0.7),
    }
    assert table_page.advice(cells) == [
        "- If rare users stay away for 50 rounds and more (2 accesses): MIFA (1.5), FedAU (2.5).",
    ]


def test_stored_page_is_that_of_the_stored_rows():
    """`python analysis/table_page.py` writes both."""
    cells = table_page.stored_cells()
    assert (ROOT / "docs/table.md").read_text() == table_page.page_text(cells)
    if cells:
        assert (ROOT / "docs" / table_page.CSV).read_text() == table_page.csv_text(cells)
        found = table_page.find_reversals(table_page.values_of(table_page.of_first_suite(cells)))
        assert (ROOT / "docs" / table_page.REVERSALS_CSV).read_text() == table_page.reversals_text(found)


def test_campaign_runs_what_has_no_row_and_plans_the_rest(rows, monkeypatch, tmp_path):
    started = []

    def run_row(cell, rule, folder):
        started.append((cell.access, rule.name))
        return make_row(cell, rule, np.full(4, 0.5), core_s=30.0), None

    monkeypatch.setattr(table_campaign, "run_row", run_row)
    assert [*table_campaign.plan_lines()][-1].startswith("7 of 10 rows")
    budget = iter([True, False])
    table_campaign.run_table(tmp_path / "runs", lambda: next(budget), lambda line: None)
    assert started == [("bernoulli", "known p")]
    table_campaign.run_table(tmp_path / "runs", lambda: True, lambda line: None)
    assert started == [("bernoulli", "known p"), ("bernoulli", "CVaR over FedAU"), ("tdma", "CVaR over FedAU")]
    assert [*table_campaign.plan_lines()][-1].endswith("about 0.00 h left")


def test_cells_of_the_hypotheses_come_first():
    first = [cell.name for cell, _ in table_campaign.run_order()]
    assert [*dict.fromkeys(first)][:3] == ["digits.bernoulli", "digits.markov_sticky", "digits.cyclic"]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ({"rare_absence": 20.0, "rare_age": 22.0}, False),
        ({"rare_absence": 20.0, "rare_age": 300.0}, True),  # some have ended, others never do
        ({"rare_absence": 95.0, "rare_age": 46.6}, True),  # regular: the mean age is half of the absence
        ({"rare_absence": 200.0}, True),
        ({"rare_absence": None, "rare_age": 296.5}, True),  # so long that none has ended
        ({"rare_absence": None, "rare_age": 12.0}, False),
        ({}, False),
    ],
)
def test_absences_that_never_end_are_long(access, expected):
    assert table_page._is_long(access) == expected
