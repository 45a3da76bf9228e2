"""Every imported package is declared in pyproject.toml."""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CHECKOUT_MODULES = {"netfl", "fromcode"} | {
    name
    for folder in ("tests", "analysis", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
    for name in (path.stem, path.parent.name)
}
"""Modules of the checkout that pytest finds by its `pythonpath`."""
NAMED = {"mlflow": "mlflow-skinny"}
"""Distributions named differently from their module."""
TOOLS = {
    "benchmarks/fuzz.py": {"atheris"},
    "benchmarks/mutants.py": {"libcst", "mutmut"},
    "benchmarks/queues.py": {"ns"},
}
"""Packages that scripts need beyond the extras, as CONTRIBUTING.md documents."""


def declared(*extras: str) -> set[str]:
    """Return the names of the distributions that netfl requires with *extras*."""
    required = [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in PROJECT["optional-dependencies"][extra]),
    ]
    return {canonical(re.split(r"[\[<>=!~; ]", line)[0]) for line in required}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements below *node*."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, block, ()):
            yield inner
            yield from statements(inner)


def mentioned(text: str) -> set[str]:
    """Return names in lines that look like imports: a superset of `imported`, found ten times as fast."""
    found = re.findall(r"^\s*(?:from\s+([\w.]+)\s+import|import\s+(.+))", text, re.MULTILINE)
    names = [name for single, several in found for name in (single or several).split(",")]
    return {re.match(r"\s*(\w*)", name)[1] for name in names}


def imported(text: str) -> set[str]:
    """Return the top-level names of all modules that a file imports."""
    found = set()
    for node in statements(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def skips(text: str) -> list[tuple[str, bool]]:
    """Return the packages passed to `pytest.importorskip`, and whether each call gives a reason."""
    if "importorskip" not in text:
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return [
        (ast.literal_eval(call.args[0]).partition(".")[0], "reason" in {keyword.arg for keyword in call.keywords})
        for call in calls
        if ast.unparse(call.func) == "pytest.importorskip"
    ]


@functools.cache
def providers() -> dict[str, list[str]]:
    """Return the distributions that provide each module of this environment."""
    return packages_distributions()


def undeclared(path: Path, allowed: set[str]) -> list[str]:
    """Return the imports of *path* that neither Python, the checkout nor *allowed* distributions provide.

    Packages passed to `pytest.importorskip` may be missing.
    """
    text = path.read_text(encoding="utf-8")

    def provided(name: str) -> bool:
        named = {canonical(distribution) for distribution in providers().get(name, [NAMED.get(name, name)])}
        return name in sys.stdlib_module_names or name in CHECKOUT_MODULES or bool(named & allowed)

    if all(map(provided, mentioned(text))):
        return []
    skipped = {name for name, _ in skips(text)}
    return sorted(name for name in imported(text) - skipped if not provided(name))


def files(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def undeclared_in(paths: list[Path], allowed: set[str]) -> dict[str, list[str]]:
    found = {str(path.relative_to(ROOT)): undeclared(path, allowed) for path in paths}
    return {name: missing for name, missing in found.items() if set(missing) - TOOLS.get(name, set())}


def test_imports_of_tests_are_declared():
    assert undeclared_in(files("tests", "analysis"), declared("dev")) == {}


def test_imports_of_scripts_are_declared():
    assert undeclared_in(files("benchmarks"), declared("dev", "ray", "flower", "gymnasium")) == {}


def test_imports_of_documentation_are_declared():
    assert undeclared_in(files("docs"), declared("docs") | {"pygments"}) == {}


def test_imports_in_guides_are_dependencies():
    """A reader has netfl with what it requires, and the packages that a page names: first, or to be installed."""
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
        needs = re.match(r"<!-- needs: (.*) -->", page)
        known = {"netfl", *(needs[1].split(", ") if needs else ())}
        known |= set(re.findall(r"^# (\w+)\.py$", page, re.MULTILINE))
        names = {name for block in blocks for name in mentioned(block)} - known - sys.stdlib_module_names
        allowed = declared()
        missing = [
            name
            for name in names
            if not {canonical(each) for each in providers().get(name, [name])} & allowed
            and not re.search(rf"pip install .*{name}", page)
        ]
        if missing:
            found[path.name] = missing
    assert found == {}


def test_imports_of_package_are_declared():
    extras = [
        distribution
        for distribution in PROJECT["optional-dependencies"]
        if distribution not in {"dev", "docs", "release"}
    ]
    assert undeclared_in(files("netfl"), declared(*extras)) == {}


def test_optional_imports_have_a_reason():
    found = {path.name: skips(path.read_text(encoding="utf-8")) for path in files("tests")}
    assert [(name, package) for name, calls in found.items() for package, has_reason in calls if not has_reason] == []
    needed = {canonical(distribution) for distribution in declared("dev")}
    assert [(name, package) for name, calls in found.items() for package, _ in calls if package in needed] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("import json\nimport netfl\nfrom numpy import array\n", []),
        ("def later():\n    import yaml\n", ["yaml"]),
        ("from sklearn.datasets import load_digits\n", ["sklearn"]),
        ("import pytest\nray = pytest.importorskip('ray', reason='not here')\nimport ray.util\n", []),
        ("import json, yaml as y, os.path\n", ["yaml"]),
        ("from . import beside\nimport conftest\n", []),
    ],
)
def test_search_finds_undeclared_imports(tmp_path, text, missing):
    path = tmp_path / "some.py"
    path.write_text(text)
    assert undeclared(path, declared("dev")) == missing
