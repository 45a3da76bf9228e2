"""The hooks of `.pre-commit-config.yaml` run what the Makefile runs."""

import re
import sys
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
CONFIG = YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")


def commands():
    """Return the words of the command of each hook, without options."""
    entries = [hook["entry"].split() for repository in CONFIG["repos"] for hook in repository["hooks"]]
    return [[word for word in words if not word.startswith("-")] for words in entries]


def test_the_hooks_use_this_machine_only():
    assert [repository["repo"] for repository in CONFIG["repos"]] == ["local"]


def test_each_hook_names_a_command_that_exists():
    for program, *_ in commands():
        assert Path(program).parent.as_posix() == ".venv/bin"
        assert (Path(sys.executable).parent / Path(program).name).exists()


def test_the_hooks_are_the_checks_of_make_lint():
    """Types are not among them: mypy reads the whole tree for each commit, which takes longer than people wait."""
    targets = re.findall(r"^lint: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    checks = [line.replace("$(BIN)", ".venv/bin").split() for target in targets for line in target.splitlines()]
    assert commands() == [[word for word in words if not word.startswith("-") and word != "."] for words in checks]
