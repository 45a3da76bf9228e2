"""Plays pages of the documents: writes their files, runs their Python and commands, compares what they print."""

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import typer
from typer.testing import CliRunner

from netfl.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"(?:#!.*\n)?(?:#|<!--) ([\w.-]+\.\w+)(?: -->)?\n")
STARTS = re.compile(r"(exec )?netfl |pytest |(\w+=\w+ )*bash ")


@dataclass(frozen=True)
class Block:
    """One block of a page; *name* is the file that its first line names, or nothing."""

    language: str
    text: str

    @property
    def name(self):
        found = NAMED.match(self.text)
        return found[1] if found else ""

    @property
    def commands(self):
        """The lines that call netfl or pytest, as words, and whether they state that they find an error."""
        if self.language not in {"", "bash"}:
            return []
        whole = self.text.replace("\\\n", " ")
        lines = [line.strip().removeprefix("$ ") for line in whole.splitlines()]
        return [(_words(line), "# an error" in line) for line in lines if STARTS.match(line)]


def blocks(page):
    """The blocks of a page, in their order."""
    return [Block(language, text) for language, text in FENCE.findall(page.read_text("utf-8"))]


def _words(line):
    """A command's words, up to what a shell would make of its output; variables are 1."""
    line = re.sub(r" \$\w+(?= )", "", line).removeprefix("exec ")
    words = shlex.split(re.sub(r"\$\{?\w+\}?", "1", line), comments=True)
    ends = [index for index, word in enumerate(words) if word in {">", "|", "&&", ";"}]
    return words[: min(ends, default=len(words))]


def parse(words):
    """Hold a command's words to the commands and options that there are.

    Raises:
        Exception: typer's own, if there is no such command or option.
    """
    command, name, rest = typer.main.get_command(app), "netfl", words[1:]
    while hasattr(command, "commands"):
        if rest[0].startswith("-"):
            break
        name, command, rest = rest[0], command.commands[rest[0]], rest[1:]
    command.make_context(name, list(rest))


class Player:
    """Plays one page in the folder that it is in.

    Args:
        extra: words that are put behind commands that run something, such as fewer rounds.
    """

    def __init__(self, extra=()):
        self.extra, self.known, self.printed = list(extra), {"__name__": "page"}, ""

    def play(self, page, *, commands):
        """Play a page from its beginning; *commands*: also what it calls."""
        for block in blocks(page):
            if block.name and block.language:
                Path(block.name).write_text(block.text, "utf-8")
                importlib.invalidate_caches()
            if block.language == "python":
                self._python(block)
            elif block.language == "text" and self.printed and commands:
                told = [line for line in block.text.splitlines() if line.strip() not in {"", "…"}]
                printed = {_plain(line) for line in self.printed.splitlines()}
                assert [line for line in told if _plain(line) not in printed] == [], self.printed
            elif commands and not block.name:
                self.printed = "".join(self.call(*one) for one in block.commands) or self.printed

    def call(self, words, faulty):
        """What a command prints."""
        if words[0] == "pytest":
            return self._tests(Path(words[1]))
        if words[0] != "netfl":
            subprocess.run(shlex.join(words).replace("'", ""), shell=True, check=True, env=_environment())
            return ""
        more = self.extra if words[1] in {"run", "trace"} else []
        result = CliRunner().invoke(app, [*words[1:], *more])
        assert result.exit_code == (2 if faulty else 0), (words, result.output, result.exception)
        return result.output

    def _python(self, block):
        """Import what is a file; run the rest in one namespace."""
        if not block.name:
            with redirect_stdout(StringIO()) as printed:
                exec(compile(block.text, "a block of the page", "exec"), self.known)
            self.printed = printed.getvalue() or self.printed
        elif not block.name.startswith("test_"):
            importlib.import_module(Path(block.name).stem)

    @staticmethod
    def _tests(path):
        """Call every test of a file as pytest would."""
        found = importlib.import_module(path.stem)
        tests = {name: one for name, one in vars(found).items() if name.startswith("test_")}
        assert tests
        for name, test in tests.items():
            test(*[Path.cwd() / name] if "tmp_path" in inspect.signature(test).parameters else [])
        return ""


def _environment():
    """That of this process, in which `netfl` is this one."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _plain(line):
    """A line without the lines of tables and blanks."""
    return " ".join(re.sub(r"[│─╭╮╰╯┃━]", " ", line).split())


def forget(folder):
    """Forget modules that lie in a folder."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
