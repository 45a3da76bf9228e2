"""The page on the architecture and CONTRIBUTING.md agree with the code.

`python tests/test_architecture.py` updates the table of layers.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
TABLE = re.compile(r"(<!-- layers: .*? -->\n).*?(<!-- end of layers -->)", re.DOTALL)


def layers():
    """The layers of the import-linter contract as a table, with the first line of each package's docstring."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [contract_ for contract_ in settings["contracts"] if contract_["type"] == "layers"]
    rows = ["| layer, from the top | what it holds |", "|---|---|"]
    for layer in contract["layers"]:
        names = re.split(r"\s*[|:]\s*", layer)
        summaries = [f"**{name}**: {summary(name)}" if len(names) > 1 else summary(name) for name in names]
        rows.append(f"| {', '.join(f'`{name}`' for name in names)} | {'; '.join(summaries)} |")
    return "\n".join(rows) + "\n"


def summary(name):
    path = ROOT / "netfl" / name
    text = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    return ast.get_docstring(ast.parse(text)).split("\n\n")[0].replace("\n", " ").rstrip(".")


@pytest.mark.parametrize("page", PAGES)
def test_table_of_layers_matches_contract(page):
    found = TABLE.search((ROOT / page).read_text())
    assert found[0] == f"{found[1]}{layers()}{found[2]}", "update it: python tests/test_architecture.py"


@pytest.mark.parametrize("page", PAGES)
def test_named_files_exist(page):
    named = set(re.findall(r"`((?:netfl|tests|docs|analysis|benchmarks)/[\w./]*)`", (ROOT / page).read_text()))
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


if __name__ == "__main__":
    for contract_ in PAGES:
        page = ROOT / contract_
        page.write_text(TABLE.sub(lambda found: f"{found[1]}{layers()}{found[2]}", page.read_text()))
        sys.stdout.write(f"{contract_}\n")
