"""Docstrings and names follow rules of CONTRIBUTING.md."""

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
PROPER_NAMES = {"Ctrl", "Flower", "Gini", "Jain", "Optuna", "Ray"}
"""Names with which the text of an argument begins."""
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


def arguments_of(doc):
    """Yield the name and the text of each entry below ``Args:``, ``Attributes:`` and ``Raises:``."""
    for section in re.findall(r"^(?:Args|Attributes|Raises):\n((?: +\S.*(?:\n|$))+)", doc, re.MULTILINE):
        for entry in re.split(r"\n(?=    \S)", section.rstrip()):
            name, _, text = entry.strip().partition(": ")
            yield name, " ".join(text.split())


def bad_arguments(tree):
    """Yield the arguments whose text does not begin in lower case, or does not end with a full stop."""
    for node in ast.walk(tree):
        for name, text in arguments_of(ast.get_docstring(node) or "") if isinstance(node, DOCUMENTED) else ():
            is_plain = re.match(r"(?:A|[A-Z][a-z]+)(?=[ ,;:.])", text)
            if (is_plain and is_plain[0] not in PROPER_NAMES) or not text.endswith("."):
                yield f"{getattr(node, 'name', 'module')}: {name}: {text}"


def test_docstrings_begin_with_a_phrase_that_stands_alone():
    found = {name: [*bad_openings(ast.parse((ROOT / name).read_text()))] for name in files()}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_names_say_what_a_value_is():
    found = {name: [*bad_names(ast.parse((ROOT / name).read_text()))] for name in files()}
    assert {name: problems for name, problems in found.items() if problems} == {}


def test_arguments_are_documented_in_one_form():
    found = {name: [*bad_arguments(ast.parse((ROOT / name).read_text()))] for name in files()}
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.parametrize("word", sorted(OPENINGS))
def test_bad_opening_is_found(word):
    tree = ast.parse(f'def f():\n    """{word} comes."""')
    assert [*bad_openings(tree)] == [f"f: {word} comes."]


def test_bad_name_is_found_where_it_is_bound():
    tree = ast.parse("def f(told):\n    own = told\n    return own.most")
    assert Counter(found.split(": ")[1] for found in bad_names(tree)) == {"told": 1, "own": 1}


@pytest.mark.parametrize("text", ["Number of users.", "A time, in s.", "number of users"])
def test_bad_argument_is_found(text):
    tree = ast.parse(f'def f():\n    """Return it.\n\n    Args:\n        n: {text}\n        m: the SNR.\n    """')
    assert [*bad_arguments(tree)] == [f"f: n: {text}"]


@pytest.mark.parametrize("text", ["number of users.", "N, see `f`.", "SNR of the\n            link.", "Ray, if any."])
def test_correct_argument_is_accepted(text):
    tree = ast.parse(f'def f():\n    """Return it.\n\n    Args:\n        n: {text}\n        m: the SNR.\n    """')
    assert [*bad_arguments(tree)] == []
