"""Docstrings and names follow two rules of CONTRIBUTING.md."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "netfl"
OPENINGS = {
    *("What", "Who", "Whose", "Which", "Whether", "How", "Where", "It", "They", "Those", "These", "All", "Both", "As"),
}
NAMES = {"told", "said", "own", "who", "whose", "mine", "far", "most", "least", "heard"}
"""Names that do not say what a value is."""
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def files():
    return [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.rglob("*.py"))]


def bad_openings(tree):
    """Yield the first words of docstrings that do not stand alone."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and (doc := ast.get_docstring(node)):
            word = re.match(r"\W*(\w+)", doc)
            if word and word[1] in OPENINGS:
                yield f"{getattr(node, 'name', 'module')}: {doc.splitlines()[0]}"


def bad_names(tree):
    """Yield parameters and variables with a name that says nothing."""
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.arg) else node.id if isinstance(node, ast.Name) else None
        if name in NAMES and not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)):
            yield f"line {node.lineno}: {name}"


def test_docstrings_begin_with_a_phrase_that_stands_alone():
    found = {name: [*bad_openings(ast.parse((ROOT / name).read_text()))] for name in files()}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_names_say_what_a_value_is():
    found = {name: [*bad_names(ast.parse((ROOT / name).read_text()))] for name in files()}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize("word", sorted(OPENINGS))
def test_bad_opening_is_found(word):
    tree = ast.parse(f'def f():\n    """{word} comes."""')
    assert [*bad_openings(tree)] == [f"f: {word} comes."]


def test_bad_name_is_found_where_it_is_bound():
    tree = ast.parse("def f(told):\n    own = told\n    return own.most")
    assert Counter(found.split(": ")[1] for found in bad_names(tree)) == {"told": 1, "own": 1}
