"""A check for another project's distribution `netfl`, whose package overwrites files of this one.

The package index has a project of that name with the same import name; ours is `netfl-sim`.
"""

from __future__ import annotations

from pathlib import Path


def conflict(package: Path = Path(__file__).parents[1]) -> str | None:
    """Return a line that reports another project's `netfl` beside *package* and the remedy; `None` if there is none.

    A distribution named `netfl` is ours if its entry points name ``netfl.cli:main``.  `importlib.metadata` is not
    asked, as it takes 10 ms to import.
    """
    for folder in package.parent.glob("[Nn]et[Ff][Ll]-*.dist-info"):
        entry_points = folder / "entry_points.txt"
        if not entry_points.is_file() or "netfl.cli:main" not in entry_points.read_text("utf-8"):
            remedy = "pip uninstall netfl; pip install --force-reinstall --no-deps netfl-sim"
            return f"netfl: another project's package of this name is installed ({folder}). Run: {remedy}"
    return None
