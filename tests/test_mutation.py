"""The equivalent mutants of `benchmarks/mutation.toml` are changes of lines that still exist."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
EQUIVALENT = tomllib.loads((ROOT / "benchmarks/mutation.toml").read_text())["equivalent"]


def functions_of(node, prefix=""):
    """Yield the qualified name and the node of each function below *node*."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, ast.FunctionDef):
                yield name, child
            yield from functions_of(child, f"{name}.")
        else:
            yield from functions_of(child, prefix)


def lines_of(path, function):
    """Return the lines of a function without indentation, joined; empty if there is no such function."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    nodes = [node for name, node in functions_of(ast.parse(text)) if name == function]
    lines = text.splitlines()
    return " ".join(line.strip() for node in nodes for line in lines[node.lineno - 1 : node.end_lineno])


def test_equivalent_mutants_change_lines_of_their_functions():
    stale = [item for item in EQUIVALENT if item["was"] not in lines_of(ROOT / item["path"], item["function"])]
    assert stale == []


def test_equivalent_mutants_are_changes_with_a_reason_listed_once():
    changes = [(item["path"], item["function"], item["was"], item["now"]) for item in EQUIVALENT]
    assert len(set(changes)) == len(changes)
    assert all(was != now for _, _, was, now in changes)
    assert all(item["why"] for item in EQUIVALENT)
