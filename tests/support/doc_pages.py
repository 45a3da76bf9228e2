"""Runs pages of the documentation: writes their files, runs their code and commands, and compares the output."""

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from netfl.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?:#!.*\n)?(?:#|<!--) ([\w.-]+\.\w+)(?: -->)?\n")
NEEDS = re.compile(r"<!-- needs: (.+) -->\n")
STARTS = re.compile(r"(exec )?netfl |pytest |(\w+=\w+ )*bash ")


@dataclass(frozen=True)
class Block:
    """One code block of a page; *name* is the file named in its first line, or empty."""

    language: str
    text: str

    @property
    def name(self):
        found = NAMED.match(self.text)
        return found[1] if found else ""

    @property
    def commands(self):
        """Return the words of each line that calls netfl or pytest, and whether it is expected to fail."""
        if self.language not in {"", "bash"}:
            return []
        whole = self.text.replace("\\\n", " ")
        lines = [line.strip().removeprefix("$ ") for line in whole.splitlines()]
        return [(_words(line), "# an error" in line) for line in lines if STARTS.match(line)]


def blocks(page):
    """Return the code blocks of a page, in order."""
    return [Block(language, text) for language, text in FENCE.findall(page.read_text("utf-8"))]


def needs(page):
    """Return the optional packages that a page needs, which its first line lists: ``<!-- needs: ray, optuna -->``."""
    found = NEEDS.match(page.read_text("utf-8"))
    return [name.strip() for name in found[1].split(",")] if found else []


def case(page, *marks):
    """Return a page as a parameter with *marks*, or with the mark ``extra`` if it needs an optional package."""
    return pytest.param(page, id=page.stem, marks=[pytest.mark.extra] if needs(page) else marks)


def skip_without_packages(page):
    """Skip the test of a page if a package that the page needs is not installed."""
    missing = [name for name in needs(page) if find_spec(name) is None]
    if missing:
        pytest.skip(f"the page needs {', '.join(missing)}, which is not installed")


def _words(line):
    """Return the words of a command up to a pipe or redirection, with 1 for each variable."""
    line = re.sub(r" \$\w+(?= )", "", line).removeprefix("exec ")
    words = shlex.split(re.sub(r"\$\{?\w+\}?", "1", line), comments=True)
    ends = [index for index, word in enumerate(words) if word in {">", "|", "&&", ";"}]
    return words[: min(ends, default=len(words))]


def parse(words):
    """Check the words of a command against the existing commands and options.

    Raises:
        Exception: an error of typer if a command or an option does not exist.
    """
    command, name, rest = typer.main.get_command(app), "netfl", words[1:]
    while hasattr(command, "commands"):
        if rest[0].startswith("-"):
            break
        name, command, rest = rest[0], command.commands[rest[0]], rest[1:]
    command.make_context(name, list(rest))


class Player:
    """Runs one page in the current folder.

    Args:
        extra: options appended to commands that simulate, such as fewer rounds.
        of_scenario: the same for commands that run a scenario of this name.
    """

    def __init__(self, extra=(), of_scenario=None):
        self.extra, self.known, self.printed = list(extra), {"__name__": "page"}, ""
        self.of_scenario = dict(of_scenario or {})

    def play(self, page, *, commands):
        """Run a page from its beginning, including its commands if *commands*."""
        for block in blocks(page):
            if block.name and block.language:
                Path(block.name).write_text(block.text, "utf-8")
                importlib.invalidate_caches()
            if block.language == "python":
                self._python(block)
            elif block.language == "text" and self.printed and commands:
                expected = [line for line in block.text.splitlines() if line.strip() not in {"", "…"}]
                printed = {_plain(line) for line in self.printed.splitlines()}
                assert [line for line in expected if _plain(line) not in printed] == [], self.printed
            elif commands and not block.name:
                self.printed = "".join(self.call(*command_) for command_ in block.commands) or self.printed

    def call(self, words, fails):
        """Run a command and return its output."""
        if words[0] == "pytest":
            return self._tests(Path(words[1]))
        if words[0] != "netfl":
            subprocess.run(shlex.join(words).replace("'", ""), shell=True, check=True, env=_environment())
            return ""
        extra = []
        if words[1] in {"run", "trace"}:
            extra = [*self.extra, *self.of_scenario.get(Path(words[2]).stem, ())]
        result = CliRunner().invoke(app, [*words[1:], *extra])
        assert result.exit_code == (2 if fails else 0), (words, result.output, result.exception)
        return result.output

    def _python(self, block):
        """Import blocks that are files; run the others in one namespace."""
        if not block.name:
            with redirect_stdout(StringIO()) as printed:
                exec(compile(block.text, "a block of the page", "exec"), self.known)
            self.printed = printed.getvalue() or self.printed
        elif not block.name.startswith("test_"):
            importlib.import_module(Path(block.name).stem)

    @staticmethod
    def _tests(path):
        """Call every test of a file as pytest does."""
        found = importlib.import_module(path.stem)
        tests = {name: test for name, test in vars(found).items() if name.startswith("test_")}
        assert tests
        for name, test in tests.items():
            (Path.cwd() / name).mkdir(exist_ok=True)
            test(*[Path.cwd() / name] if "tmp_path" in inspect.signature(test).parameters else [])
        return ""


def _environment():
    """Return the environment of this process, in which `netfl` is this package."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _plain(line):
    """Return a line without table borders and repeated blanks."""
    return " ".join(re.sub(r"[│─╭╮╰╯┃━]", " ", line).split())


def forget(folder):
    """Remove the modules of a folder from `sys.modules`."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
