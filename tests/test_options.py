"""Each option of a command and each model has a test and a line in the docs, and each key of a model has a test."""

import re
from functools import cache
from pathlib import Path

from typer.main import get_command

from netfl.cli import app
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds

ROOT = Path(__file__).parents[1]
OF_TYPER = {"--help", "--install-completion", "--show-completion"}
"""Options that typer adds to the commands."""
ALIKE = {"--no-plugins", "--quiet"}
"""Options that do the same in all commands, so that one line in the docs is enough."""


@cache
def tokens_of(*patterns):
    """Return the words, options and parameters with ``=`` of each file."""
    texts = [path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern)]
    return [{*re.findall(r"--[a-z][a-z-]*|\w+=|\w+", text), *re.findall(r"(\w+)=", text)} for text in texts]


@cache
def words_of_tests():
    return frozenset().union(*tokens_of("tests/**/*.py"))


def options_of(command, path=()):
    """Yield the words of each command at and below *command*, and its long options."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options_of(below, (*path, name))
    for parameter in command.params:
        for option in [*parameter.opts, *parameter.secondary_opts]:
            if option.startswith("--") and option not in OF_TYPER:
                yield " ".join(path), option


def is_tested(command, option, files):
    """Return whether a file of tests calls a command with an option, or its function with the parameter."""
    forms = {option, option.removeprefix("--").replace("-", "_") + "="}
    return any(not forms.isdisjoint(tokens) and tokens.issuperset(command.split()) for tokens in files)


def is_documented(command, option, files):
    """Return whether a page has an option and the command that it belongs to."""
    needed = {option} if option in ALIKE else {option, "netfl", *command.split()}
    return any(tokens.issuperset(needed) for tokens in files)


def test_each_option_has_a_test_and_a_line_in_the_docs():
    """Options of one name belong to several commands, so the command stands in the same file."""
    pages = tokens_of("README.md", "docs/**/*.md")
    tests = tokens_of("tests/**/*.py")
    options = [*options_of(get_command(app))]
    assert len(options) > 50
    assert [each for each in options if not is_tested(*each, tests)] == []
    assert [each for each in options if not is_documented(*each, pages)] == []


def test_each_model_has_a_test_and_a_line_in_the_docs():
    """Beside its entry in the reference, which is made from its code; a theory has no other."""
    pages = "\n".join(path.read_text("utf-8") for path in ROOT.glob("docs/**/*.md") if "reference" not in path.parts)
    in_code = {*re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`|```.*?```", pages, re.DOTALL)))}
    words = words_of_tests()
    kinds = [(family, kind) for family in FAMILIES for kind in list_kinds(base_of(family))]
    assert len(kinds) > 200
    assert [each for each in kinds if each[1] not in words and _class_name(each[1]) not in words] == []
    assert [each for each in kinds if each[1] not in in_code and each[0] != "network/theory"] == []


def _class_name(kind):
    return "".join(part.title() for part in kind.split("_"))


def test_each_key_of_a_model_has_a_test():
    """Its line in the docs is the text of its field, which the reference shows."""
    words = words_of_tests()
    untested = [
        (family, kind, key)
        for family in FAMILIES
        for kind in list_kinds(base_of(family))
        for key in find_model(base_of(family), kind).model_fields
        if key not in words
    ]
    assert untested == []
