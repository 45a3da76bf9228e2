"""Errors about wrong paths: each says what is at the path, and what to give or to run instead.

A user gives a run directory for a scenario, a scenario for a run, the folder of a sweep for one of its runs, or a name
with a typo.  `find_place` recognises these, and `wrong_path` has the error for each place and each thing that is
wanted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Literal

from netfl.core.remedies import call, function, is_command_line
from netfl.errors import Fault
from netfl.files import unreadable_file
from netfl.scenario import examples

MANIFEST = "manifest.json"
"""File that marks a run directory."""
SWEEP = "sweep.json"
"""File that marks the folder of a sweep."""
TASKS = "tasks"
"""Folder of a sweep that holds the run directories."""
SCENARIO = "scenario.yaml"
"""Scenario of a run directory or of a sweep."""

Wanted = Literal["scenario", "run", "sweep", "table", "times", "orbits"]
"""Input of a function or a command; a table is one of deliveries, in place of which it also reads a run."""
Place = Literal["missing", "example", "run", "sweep", "file of a run", "scenario", "folder", "file"]
"""Thing at the end of a path; an example is a scenario of netfl, named without a path."""

_WORDS = {
    "scenario": "a scenario",
    "run": "a run directory",
    "sweep": "the folder of a sweep",
    "table": "a run directory or a table of deliveries",
    "times": "a scenario, a run directory or a table of times",
    "orbits": "a file of orbits",
}
_ENDINGS = (".yaml", ".yml")
_MOST_NAMES = 1_000
"""Number of names of a folder that are compared with a misspelt one."""


def is_sweep(folder: Path) -> bool:
    """Return whether *folder* is that of a sweep."""
    return _is_file(folder / SWEEP)


def find_place(path: Path) -> Place:
    """Return what *path* leads to.

    Raises:
        MachineError: the system does not tell, as in a folder without permission, or for a name that is too long.
    """
    if _is_file(path / MANIFEST):
        return "run"
    if is_sweep(path):
        return "sweep"
    try:
        if path.is_dir():
            return "folder"
        if path.exists():
            return _kind_of_file(path)
    except OSError as error:
        raise unreadable_file(path, error) from error
    return "example" if path.as_posix() in examples.example_names() else "missing"


def _kind_of_file(path: Path) -> Place:
    is_yaml = path.suffix in _ENDINGS
    if _is_file(path.parent / MANIFEST) and (path.name == SCENARIO or not is_yaml):
        return "file of a run"
    return "scenario" if is_yaml else "file"


def wrong_path(path: Path, wanted: Wanted) -> Fault:
    """Return the error of a *path* where there is not what is *wanted*.

    Raises:
        OSError: the system refuses the name, or to read the folder.
    """
    place = find_place(path)
    remedy = _remedy(path, place, wanted)
    if wanted == "scenario":
        problem = f"{_describe(place, wanted)}, not a scenario"
        if place == "missing":
            problem = "the file does not exist"
        return Fault("", problem, None, remedy, str(path))
    return Fault("", f"{path} is not {_WORDS[wanted]}: {_describe(place, wanted)}", None, remedy)


def _describe(place: Place, wanted: Wanted) -> str:
    """Return what is at a path, as the end of a sentence."""
    if place == "missing":
        return "it does not exist"
    if place == "example":
        return "it is a scenario of netfl"
    if place == "folder" and wanted in {"run", "table", "times"}:
        return f"it has no {MANIFEST}"
    if place == "folder" and wanted == "sweep":
        return f"it has no {SWEEP}"
    if place == "file" and wanted == "table":
        return "it has no columns round and user"
    return f"it is {_WORDS.get(place, f'a {place}')}"


def _remedy(path: Path, place: Place, wanted: Wanted) -> str:
    """Return what to give or to run in place of *path*."""
    if place == "missing":
        return _nearest(path, wanted)
    if wanted == "scenario":
        return _remedy_for_scenario(path, place)
    if wanted == "sweep":
        return _remedy_for_sweep(path, place)
    if wanted == "orbits":
        return _otherwise(wanted)
    return _remedy_for_run(path, place, wanted)


def _remedy_for_scenario(path: Path, place: Place) -> str:
    folder = path.parent if place == "file of a run" else path
    if _is_file(folder / SCENARIO):
        return f"its scenario is {folder / SCENARIO}"
    if place == "folder":
        inside = next((file for file in sorted(path.iterdir()) if file.suffix in _ENDINGS), None)
        if inside is not None:
            return f"give one of the files in it, such as {inside}"
    return _otherwise("scenario")


def _remedy_for_sweep(path: Path, place: Place) -> str:
    if place in {"scenario", "example"}:
        return f"run it first: {call('sweep', path)}, then give the folder that this writes"
    above = Path(os.path.realpath(path)).parent.parent
    if place == "run" and is_sweep(above):
        return f"it is one of the runs of a sweep; give {above}"
    if place == "run" and not is_command_line():
        return f"open it with {call('open_run', path)}"
    return _otherwise("sweep")


def _remedy_for_run(path: Path, place: Place, wanted: Wanted) -> str:
    if place in {"scenario", "example"}:
        return f"run it first: {call('run', path)}, then give the folder that this writes"
    if place == "file of a run":
        return f"give its run directory, {path.parent}"
    if place == "sweep":
        return _remedy_for_run_of_sweep(path)
    if place == "folder":
        inside = next(_runs_in(path), None)
        if inside is not None:
            return f"give one of the runs in it, such as {inside}"
    return _otherwise(wanted)


def _remedy_for_run_of_sweep(path: Path) -> str:
    one = "it has no runs yet"
    first = next(_runs_in(path / TASKS), None)
    if first is not None:
        one = f"give one of its runs, such as {first}"
    whole = f"{call('open_sweep', path)} reads the whole sweep"
    if is_command_line():
        whole = f"{function('report')} reads the whole sweep, and {function('sweep')} continues it"
    return f"{one}; {whole}"


def _nearest(path: Path, wanted: Wanted) -> str:
    """Return the remedy for a *path* that does not exist: a similar name beside it, or of a scenario of netfl."""
    if wanted == "scenario" and (known := examples.example_like(path)):
        remedy = f"write '{known}', a scenario that netfl contains"
        if is_command_line():
            remedy += f", or copy it: {call('scenarios', known)}"
        return remedy
    names: list[str] = []
    if path.parent.is_dir():
        names = [entry.name for entry in islice(path.parent.iterdir(), _MOST_NAMES)]
    if near := get_close_matches(path.name, names, n=1):
        return f"did you mean '{path.parent / near[0]}'?"
    if wanted == "scenario":
        known_names = examples.example_names()
        last_parts = {name.rpartition("/")[2]: name for name in known_names}
        wanted_name = path.with_suffix("").as_posix()
        near = get_close_matches(wanted_name, [*known_names, *last_parts], n=1)
        if near:
            return f"did you mean '{last_parts.get(near[0], near[0])}', a scenario that netfl contains?"
    return _otherwise(wanted)


def _otherwise(wanted: Wanted) -> str:
    """Return the remedy where nothing hints at what is meant."""
    if wanted == "scenario":
        return f"check the path; {function('scenarios')} lists the scenarios of netfl"
    if wanted == "sweep":
        return f"give a folder that {function('sweep')} wrote"
    if wanted == "orbits":
        return "give a YAML file with satellites, their orbits and stations"
    if wanted == "times":
        return "give a scenario, a folder that netfl wrote, or a CSV or Parquet file with the columns round and user"
    remedy = "give a folder that netfl wrote"
    if wanted == "table":
        remedy += ", or a CSV or Parquet file with the columns round and user"
    return remedy


def _runs_in(folder: Path) -> Iterator[Path]:
    """Yield the run directories in a folder, in the order of their names."""
    yield from sorted(manifest.parent for manifest in islice(folder.glob(f"*/{MANIFEST}"), _MOST_NAMES))


def _is_file(path: Path) -> bool:
    """Return whether there is a file at *path*."""
    try:
        return path.is_file()
    except OSError as error:
        raise unreadable_file(path, error) from error
