"""The page on the architecture and CONTRIBUTING.md agree with the code.

`python tests/test_architecture.py` updates the table of layers.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

import networkx as nx
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


def modules_of(package):
    """Return the path of each module of the folder *package*, by its dotted name."""
    modules = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imports_of(path, modules):
    """Return those of *modules* that a file imports anywhere: for type checking only, and in functions, too."""
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            imported.update(name if name in modules else node.module for name in names)
    return imported & modules.keys()


def circles_of(package):
    """Return the sets of modules of the folder *package* that import each other in a circle."""
    modules = modules_of(package)
    graph = nx.DiGraph((name, other) for name, path in modules.items() for other in imports_of(path, modules))
    graph.remove_edges_from([*nx.selfloop_edges(graph)])
    return {frozenset(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1}


def test_no_circle_of_imports():
    assert circles_of(ROOT / "netfl") == set()


@pytest.mark.parametrize(
    "back", ["import pkg.first", "from pkg import first", "from pkg.first import name", "from pkg.first import (a, b)"]
)
@pytest.mark.parametrize("where", ["{}", "def later():\n    {}", "if TYPE_CHECKING:\n    {}"])
def test_circle_of_imports_is_found(tmp_path, back, where):
    (tmp_path / "pkg").mkdir()
    for name, text in (
        ("__init__", ""),
        ("first", "from pkg.second import thing"),
        ("second", "from pkg.third import thing"),
        ("third", where.format(back)),
        ("fourth", "from pkg.first import thing"),
    ):
        (tmp_path / f"pkg/{name}.py").write_text(text)
    assert circles_of(tmp_path / "pkg") == {frozenset({"pkg.first", "pkg.second", "pkg.third"})}


if __name__ == "__main__":
    for contract_ in PAGES:
        page = ROOT / contract_
        page.write_text(TABLE.sub(lambda found: f"{found[1]}{layers()}{found[2]}", page.read_text()))
        sys.stdout.write(f"{contract_}\n")
