"""Example scenarios that come with netfl, and copies of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from netfl.core.remedies import call
from netfl.errors import Fault, MachineError, ScenarioError, cannot_write, suggest

FOLDER = "scenarios"
"""Folder of copies, below the current directory, where scenarios look for their files."""
_HEAD = re.compile(r"^description: *(?:>-?\n)?(.*(?:\n[ ].*)*)", re.MULTILINE)
_FILE = re.compile(rf"\b{FOLDER}/([\w./-]*\w)")


def examples_folder() -> Path:
    """Return the folder of the examples: in the installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / FOLDER
    return inside if inside.is_dir() else package.parent / FOLDER


def locate_files(data: Any) -> Any:
    """Return the *data* of an example with the paths of its files, where the current directory has no copies of them.

    >>> locate_files({"file": "scenarios/none.csv", "users": [3]})
    {'file': 'scenarios/none.csv', 'users': [3]}
    """
    if isinstance(data, dict):
        return {key: locate_files(value) for key, value in data.items()}
    if isinstance(data, list):
        return [locate_files(value) for value in data]
    if isinstance(data, str) and data.startswith(f"{FOLDER}/") and not Path(data).exists():
        path = examples_folder().parent / data
        if path.exists():
            return str(path)
    return data


def example_names() -> list[str]:
    """Return the names of the examples, such as ``access/markov``; names without a folder come first."""
    folder = examples_folder()
    paths = [path.relative_to(folder).with_suffix("") for path in folder.rglob("*.yaml")]
    paths.sort(key=lambda path: (len(path.parts), path))
    return [path.as_posix() for path in paths]


def installed_names() -> list[str]:
    """Return the `example_names` of an installation that has them.

    Raises:
        MachineError: it has none.
    """
    names = example_names()
    if not names:
        package = Path(__file__).parents[1]
        problem = (
            f"the scenarios that netfl contains are missing: no folder '{FOLDER}' in {package} or beside it has any"
        )
        raise MachineError(f"{problem}; install netfl again: pip install --force-reinstall --no-deps netfl-sim")
    return names


def description(name: str) -> str:
    """Return the description of an example as one line, without parsing the whole scenario."""
    text = (examples_folder() / f"{name}.yaml").read_text(encoding="utf-8")
    match = _HEAD.search(text)
    if match is None:
        return ""
    return " ".join(match[1].split()).strip('"')


def example_like(path: Path) -> str:
    """Return the name of the example that a missing file *path* names, or an empty text."""
    name = path.with_suffix("").as_posix().removeprefix(f"{FOLDER}/")
    for example in example_names():
        if name in {example, example.rpartition("/")[2]}:
            return example
    return ""


def copy(wanted: str) -> list[Path]:
    """Copy examples, and the files that they read, into `FOLDER` below the current directory.

    Args:
        wanted: a name as in `example_names`, or its last part if that is unique; a folder; or ``all``.

    Returns:
        The paths of the copies; a file that is there already with the same content is left as it is.

    Raises:
        ScenarioError: no example, or several, have that name; or another file is in its place.
        MachineError: the installation has no examples, or the files cannot be written.
    """
    copied = [f"{name}.yaml" for name in _named(wanted)]
    contents: dict[Path, bytes] = {}  # several scenarios may read one file
    for scenario in copied:
        for file in (scenario, *_read_by(scenario)):
            contents[Path(FOLDER, file)] = (examples_folder() / file).read_bytes()
    advice = "move it away, or go to another folder"
    try:
        faults = []
        for path, content in contents.items():
            if path.exists() and not (path.is_file() and path.read_bytes() == content):
                faults.append(Fault("", f"{path} already exists with other content", None, advice))
        if faults:
            raise ScenarioError(faults)
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise cannot_write(error, FOLDER) from error
    return [Path(FOLDER, scenario) for scenario in copied]


def _named(wanted: str) -> list[str]:
    """Return the names of the examples that a user means: one, those of a folder, or all."""
    known = installed_names()
    word = wanted.removeprefix(f"{FOLDER}/").removesuffix(".yaml").rstrip("/")
    if word in known:
        return [word]
    in_folder = [name for name in known if word == "all" or name.startswith(f"{word}/")]
    of_last_part = [name for name in known if name.rpartition("/")[2] == word]
    if len(of_last_part) > 1:
        remedy = f"write {' or '.join(of_last_part)}"
        raise ScenarioError([Fault("", "several scenarios have this name", wanted, remedy)])
    if in_folder:
        return in_folder
    if of_last_part:
        return of_last_part
    remedy = suggest(word, [*known, *(name.rpartition("/")[2] for name in known)])
    if not remedy.startswith("did"):  # it lists some names, where no name is near
        remedy = f"list them with: {call('scenarios')}"
    raise ScenarioError([Fault("", "no such scenario", wanted, remedy)])


def _read_by(scenario: str) -> Iterator[str]:
    """Yield the files that a scenario names, without other scenarios; for a folder, all files in it."""
    for named in _FILE.findall((examples_folder() / scenario).read_text(encoding="utf-8")):
        path = examples_folder() / named
        if path.suffix == ".yaml" or not path.exists():
            continue
        files = [path]
        if path.is_dir():
            files = sorted(path.rglob("*"))
        for file in files:
            if file.is_file():
                yield file.relative_to(examples_folder()).as_posix()
