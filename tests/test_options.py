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
ALIKE = {"--no-plugins", "--quiet"}
"""Options that do the same in all commands, so that one line in the docs is enough."""


def texts_of(*patterns):
    return [path.read_text("utf-8") for pattern in patterns for path in ROOT.glob(pattern)]


def words_of_tests():
    return {*re.findall(r"\w+", "\n".join(texts_of("tests/**/*.py")))}


def options_of(command, path=()):
    """Yield the words of each command at and below *command*, and its long options."""
    for name, below in getattr(command, "commands", {}).items():
        yield from options_of(below, (*path, name))
    for parameter in command.params:
        for option in [*parameter.opts, *parameter.secondary_opts]:
            if option.startswith("--") and option not in OF_TYPER:
                yield " ".join(path), option


def is_tested(command, option, tests):
    """Return whether a file of tests calls a command with an option, or its function with the parameter."""
    words = [re.compile(rf"(\b|\"){re.escape(word)}(\b|\")") for word in command.split()]
    parameter = re.compile(rf"\b{option.removeprefix('--').replace('-', '_')}=")
    return any(
        (re.search(rf"{option}\b", text) or parameter.search(text)) and all(word.search(text) for word in words)
        for text in tests
    )


def is_documented(command, option, pages):
    """Return whether a page has an option and the command that it belongs to."""
    return any(re.search(rf"{option}\b", text) and (f"netfl {command}" in text or option in ALIKE) for text in pages)


def test_each_option_has_a_test_and_a_line_in_the_docs():
    """Options of one name belong to several commands, so the command stands in the same file."""
    pages = texts_of("README.md", "docs/**/*.md")
    tests = texts_of("tests/**/*.py")
    options = [*options_of(get_command(app))]
    assert len(options) > 50
    assert [each for each in options if not is_tested(*each, tests)] == []
    assert [each for each in options if not is_documented(*each, pages)] == []


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
