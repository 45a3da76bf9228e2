"""Recordings that come with netfl: names that begin with ``real/``, and folders beside this file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from netfl.core.spec_errors import invalid
from netfl.errors import suggest

PREFIX = "real"
"""First part of the names of built-in recordings."""
FOLDER = Path(__file__).parent / "recordings"
"""Folder with a folder for each of them, and their licence."""


def recording_names() -> list[str]:
    """Return the names of the built-in recordings, such as ``real/tour_perret``."""
    return sorted(folder.relative_to(FOLDER).as_posix() for folder in (FOLDER / PREFIX).iterdir() if folder.is_dir())


def recording_folder(run: Path) -> Path:
    """Return the folder of a recording: *run* itself, or that of the built-in recording of this name."""
    if is_built_in(run):
        return FOLDER / run
    return run


def is_built_in(run: Path) -> bool:
    """Return whether *run* is the name of a built-in recording, and not the path of a folder."""
    return run.as_posix() in recording_names()


def _keep_dot(value: object) -> object:
    """Return a path such as ``./real/mine`` as an absolute one; the dot would be lost, and with it the meaning."""
    if isinstance(value, str) and value.startswith((f".{os.sep}", "./")):
        return Path(value).absolute()
    return value


def _check_name(path: Path) -> Path:
    """Return a name of a built-in recording as it is, so that it means the same on each machine, or else a full path.

    Raises:
        PydanticCustomError: no built-in recording has this name.
    """
    if path.is_absolute() or path.parts[:1] != (PREFIX,) or len(path.parts) == 1:
        return path.absolute()
    if not is_built_in(path):
        names = recording_names()
        near = suggest(path.as_posix(), names)
        remedy = f"there are: {', '.join(names)}; for a folder of your own write ./{path.as_posix()}"
        if near.startswith("did"):
            remedy = f"{near} {remedy}"
        raise invalid("no such built-in recording", remedy)
    return path


RecordingPath = Annotated[Path, BeforeValidator(_keep_dot), AfterValidator(_check_name)]
"""A folder of a recording, or the name of a built-in one."""
