"""The scenarios that netfl brings, and copies of them to start from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from netfl.errors import Fault, MachineError, ScenarioError, suggest

FOLDER = "scenarios"
"""Where a copy lies, and where scenarios look for their files: below the folder that one is in."""
_HEAD = re.compile(r"^description: *(?:>-?\n)?(.*(?:\n[ ].*)*)", re.MULTILINE)
_FILE = re.compile(rf"\b{FOLDER}/([\w./-]*\w)")


def examples_folder() -> Path:
    """Where they lie: in the package as it is installed, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / FOLDER
    return inside if inside.is_dir() else package.parent / FOLDER


def example_names() -> list[str]:
    """The name of each: its path without the ending, such as ``access/markov``; those of no folder first."""
    paths = (path.relative_to(examples_folder()).with_suffix("") for path in examples_folder().rglob("*.yaml"))
    return [path.as_posix() for path in sorted(paths, key=lambda path: (len(path.parts), path))]


def description(name: str) -> str:
    """What the scenario says that it shows, as one line; read by itself, as a whole scenario takes long to read."""
    found = _HEAD.search((examples_folder() / f"{name}.yaml").read_text(encoding="utf-8"))
    return " ".join(found[1].split()).strip('"') if found else ""


def remedy(path: Path) -> str:
    """What does where there is no file *path*: its copy, if that is the name of one of these."""
    name = path.with_suffix("").as_posix().removeprefix(f"{FOLDER}/")
    found = [one for one in example_names() if name in {one, one.rpartition("/")[2]}]
    return f"copy the one that netfl brings: netfl scenarios {found[0]}" if found else "check the path"


def copy(wanted: str) -> list[Path]:
    """Copy a scenario, or a folder of them, and the files that they read into `FOLDER`, below the folder one is in.

    Args:
        wanted: a name as in `names`, or its last part where that is nobody else's; a folder; or ``all``.

    Returns:
        Where the scenarios are now; a file that was there already, the same, is left as it is.

    Raises:
        ScenarioError: there is none of that name, or there are several; or another file is in its place.
        MachineError: the files cannot be written.
    """
    copied = [f"{name}.yaml" for name in _named(wanted)]
    files = {file: None for scenario in copied for file in (scenario, *_read_by(scenario))}
    there = [Path(FOLDER, file) for file in files if _differs(examples_folder() / file, Path(FOLDER, file))]
    if there:
        told = "move it away, or go to another folder"
        raise ScenarioError([Fault("", f"{path} is there already, and another", None, told) for path in there])
    try:
        for file in files:
            path = Path(FOLDER, file)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((examples_folder() / file).read_bytes())
    except OSError as error:
        raise MachineError(f"cannot write into {FOLDER}: {error.strerror or error}") from error
    return [Path(FOLDER, scenario) for scenario in copied]


def _named(wanted: str) -> list[str]:
    """The scenarios that *wanted* means."""
    known = example_names()
    word = wanted.removeprefix(f"{FOLDER}/").removesuffix(".yaml").rstrip("/")
    if word in known:
        return [word]
    inside = known if word == "all" else [name for name in known if name.startswith(f"{word}/")]
    alike = [name for name in known if name.rpartition("/")[2] == word]
    if len(alike) > 1:
        raise ScenarioError([Fault("", "several scenarios have this name", wanted, f"write {' or '.join(alike)}")])
    if not (inside or alike):
        near = suggest(word, [*known, *(name.rpartition("/")[2] for name in known)])
        told = near if near.startswith("did") else "netfl scenarios shows them"
        raise ScenarioError([Fault("", "no such scenario", wanted, told)])
    return inside or alike


def _read_by(scenario: str) -> Iterator[str]:
    """The files, but for other scenarios, that are named in a scenario; of a folder all."""
    for named in _FILE.findall((examples_folder() / scenario).read_text(encoding="utf-8")):
        path = examples_folder() / named
        if path.suffix != ".yaml" and path.exists():
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (file.relative_to(examples_folder()).as_posix() for file in files if file.is_file())


def _differs(ours: Path, theirs: Path) -> bool:
    """Whether there is something else in the place of a copy."""
    return theirs.exists() and not (theirs.is_file() and theirs.read_bytes() == ours.read_bytes())
