"""Documentation and shipped scenarios are valid and complete."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import netfl
from netfl.cli import app
from netfl.core.family_members import base_of
from netfl.core.kinds import FAMILIES, list_kinds
from netfl.results.tables import SCHEMAS
from netfl.scenario.examples import example_names
from netfl.scenario.scenario import validate
from netfl.scenario.yaml_document import ScenarioDocument, parse
from netfl.types import KINDS

ROOT = Path(__file__).parents[1]
SCENARIOS = sorted(path for path in ROOT.glob("scenarios/**/*.yaml"))
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("docs/*/*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_shipped_scenarios_are_valid(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    scenario = netfl.load(path)
    assert scenario.name == path.stem
    assert scenario.description
    assert scenario.doubts() == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(ROOT.glob("scenarios/networks/*.yaml")), ids=lambda path: path.stem)
def test_networks_of_studies_have_no_warnings(path):
    result = CliRunner().invoke(app, ["check", f"networks/{path.stem}"])
    assert result.exit_code == 0
    first, estimate = result.output.splitlines()
    assert first.endswith(": valid keys")
    assert "of processor time" in estimate


def test_table_of_studies_names_scenarios():
    """Each row names a packaged scenario, and each scenario of a network is in a row."""
    page = (ROOT / "docs/choose.md").read_text()
    rows = re.findall(r"^\|.*\|$", page.partition("## Frequent")[0], re.MULTILINE)[2:]
    last_cells = [row.split("|")[-2] for row in rows]
    known = {*example_names()}
    for cell in last_cells:
        assert known & {*re.findall(r"`([\w/]+)", cell)}, cell
    assert {path.stem for path in ROOT.glob("scenarios/networks/*.yaml")} <= {*re.findall(r"networks/(\w+)", page)}


def test_every_direct_access_has_a_small_scenario():
    direct = set(list_kinds(base_of("access"))) - {"network"}
    recorded = {"real"}  # replays of the built-in recordings
    assert direct | recorded == {path.stem for path in ROOT.glob("scenarios/access/*.yaml")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scenarios_in_documentation_are_valid(page):
    named = [re.sub(r"\A# \S+\n", "", block) for block in blocks(page, "yaml")]
    whole = [block for block in named if block.startswith("name:") and page.parent.name != "howto"]
    assert whole or page.stem not in {"README", "tutorial"}
    for block in whole:
        scenario = validate(ScenarioDocument(parse(block, page.name), page.name))
        assert scenario.doubts() == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_exist(page):
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_of_text_is_a_comment(page):
    """MyST leaves out lines that begin with a percent sign, and so the end of a sentence that is wrapped there."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^%.*", text, re.MULTILINE) == []


def test_tables_page_names_every_column_and_kind():
    page = (ROOT / "docs/tables.md").read_text()
    named = [*KINDS, *(column for schema in SCHEMAS.values() for column in schema.names)]
    assert [name for name in named if f"`{name}`" not in page] == []


def test_changelog_names_every_kind():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert [
        kind
        for family in FAMILIES
        for kind in list_kinds(base_of(family))
        if f"`{kind}`" not in text and kind != "network"
    ] == []


def test_first_pages_have_the_numbers_of_the_measurements():
    counts = [int(count) for count in re.findall(r"\*\*(\d+)\*\*", accuracy_of_the_diagnosis())]
    processes = 200
    assert len(counts) == 5
    shares = f"{100 * min(counts) / processes:.0f} to {100 * max(counts) / processes:.0f} %"
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"Of {processes} known processes of each kind, {shares} were named correctly." in readme
    alpha = gamma = 0.1
    glossary = " ".join((ROOT / "docs/glossary.md").read_text().split())
    assert f"{(1 - gamma) / alpha + gamma:.1f} for CVaR with α = γ = 0.1" in glossary


QUANTITY = re.compile(r"(?<![\w.])(?:(?<!\w)[+-])?\d+(?:[.,]\d+)*(?:e-\d+)?(?: ± [\d.]+| \[[^\]]*\](?!\())?")
"""A number with its interval, if any: ``97``, ``+4.9 ± 1.0``, ``1.5 [0.6, 2.3]``, ``2e-85``."""


def missing_numbers(row: str, folder: Path) -> list[str]:
    """Return the numbers of a row of a table that are not on the page that its last cell links to."""
    *cells, last = row.strip("| ").split(" | ")
    (link,) = re.findall(r"\]\(([^)#]+)", last)
    page = " ".join((folder / link).read_text(encoding="utf-8").split())
    found = QUANTITY.findall(" ".join(cells))
    return [number for number in found if not re.search(rf"(?<![\d.,]){re.escape(number)}(?![.,]?\d)", page)]


def test_numbers_of_the_summary_are_on_the_linked_pages():
    rows = re.findall(r"^\|.*\]\(.*\|$", (ROOT / "docs/summary.md").read_text(), re.MULTILINE)
    assert len(rows) >= 25
    assert {row: missing for row in rows if (missing := missing_numbers(row, ROOT / "docs"))} == {}


def test_missing_numbers_are_found(tmp_path):
    (tmp_path / "page.md").write_text("A gain of +4.9 ± 1.0 points, 97 of 120, from 1.5 [0.6, 2.3] on.\n")
    row = "| ns-3, +4.9 ± 1.0, 97 | 1.5 [0.6, 2.3] and {} | [page](page.md#part) |"
    assert missing_numbers(row.format("120"), tmp_path) == ["3"]
    assert missing_numbers(row.format("12 and +4.9 ± 1"), tmp_path) == ["3", "12", "+4.9 ± 1"]


def accuracy_of_the_diagnosis():
    """Return the first table of the accuracy of a diagnosis, by kind of process."""
    section = (ROOT / "docs/diagnosis.md").read_text().partition("## Accuracy")[2]
    return section[section.index("| process |") : section.index("`python benchmarks/verdicts.py --slow")]
