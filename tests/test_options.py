"""Each option of a command has a test and a line in the docs, and each key of a model has a test."""

import re
from pathlib import Path

from typer.main import get_command

from netfl.cli import app
from netfl.core.family_members import base_of, find_model
from netfl.core.kinds import FAMILIES, list_kinds

ROOT = Path(__file__).parents[1]
OF_TYPER = {"--help", "--install-completion", "--show-completion"}
"""Options that typer adds to the commands."""


def text_of(*patterns):
    return "\n".join(path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern))


def words_of_tests():
    return {*re.findall(r"\w+", text_of("tests/**/*.py"))}


def options_of(command, path=()):
    """Yield the words of each command at and below *command*, and its long options."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options_of(below, (*path, name))
    for parameter in command.params:
        for option in [*parameter.opts, *parameter.secondary_opts]:
            if option.startswith("--") and option not in OF_TYPER:
                yield " ".join(path), option


def test_each_option_has_a_test_and_a_line_in_the_docs():
    """A test may set an option by its parameter of the function."""
    docs = text_of("README.md", "docs/**/*.md")
    tests = text_of("tests/**/*.py")
    words = words_of_tests()
    options = [*options_of(get_command(app))]
    assert len(options) > 50
    untested = [
        (command, option)
        for command, option in options
        if option not in tests and option.removeprefix("--").replace("-", "_") not in words
    ]
    assert untested == []
    unknown = [(command, option) for command, option in options if not re.search(rf"{option}\b", docs)]
    assert unknown == []


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
