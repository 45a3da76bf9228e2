"""The distribution `netfl-sim`, and a check for another project's distribution `netfl`.

The package index has a project named `netfl` that installs a package of the same import name.  Its files and ours get
mixed in one folder when both are installed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

NAME = "netfl-sim"
"""The name that pip installs; the package and the command are called `netfl`."""
_ENTRY = "netfl.cli:main"
"""The entry point of our `netfl`, also of earlier versions that were installed as `netfl`."""
_FOREIGN = ("core/experiment.py", "utils/runner.py")
"""Modules of the other project that ours does not have."""


def conflict(path: Iterable[str] | None = None, package: Path = Path(__file__).parents[1]) -> str | None:
    """Return a line that reports another project's `netfl` and the remedy; `None` if there is none.

    A distribution named `netfl` is ours if its entry points name ``netfl.cli:main``.  Folders are listed instead of
    asking `importlib.metadata`, which takes 10 ms to import.

    Args:
        path: the folders to search for distributions; by default those of `sys.path`.
        package: the folder of this package.
    """
    modules = (package / name for name in _FOREIGN)
    foreign = next(_foreign(sys.path if path is None else path), next(filter(Path.exists, modules), None))
    if foreign is None:
        return None
    # Uninstalling a package in the same folder removes some of our files, too.
    is_shared = foreign.parent == package.parent or package in foreign.parents
    remedy = "pip uninstall netfl" + (f"; pip install --force-reinstall --no-deps {NAME}" if is_shared else "")
    return f"netfl: another project's package of this name is installed ({foreign}). Run: {remedy}"


def _foreign(path: Iterable[str]) -> Iterator[Path]:
    """Yield the metadata folders of distributions named `netfl` that are not ours."""
    for folder in path:
        with suppress(OSError):  # no folder, such as a zip file, or none that may be read
            for name in os.listdir(folder or "."):  # noqa: PTH208 - ten times as fast as pathlib
                if name.lower().startswith("netfl-") and name.endswith((".dist-info", ".egg-info")):
                    metadata = Path(folder, name)
                    if _ENTRY not in _text(metadata / "entry_points.txt"):
                        yield metadata


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
