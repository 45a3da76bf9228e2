"""Generator of the reference pages: families, keys, units, tables, commands and Python names.

All facts are read from the code, so that no page can be out of date.  Nothing here needs Sphinx: `conf.py` calls
`write` before each build, and the tests check the result of `pages`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fromcode import commands, families, python, things


def pages() -> Mapping[str, str]:
    """Return every page in MyST Markdown, by its name without ``.md``."""
    return {
        **families.pages(),
        "scenario": things.scenario(),
        "units": things.units(),
        "columns": things.columns(),
        "metrics": things.metrics(),
        "commands": commands.page(),
        "python": python.page(),
    }


def write(folder: Path) -> None:
    """Write all pages into *folder*; leave unchanged pages untouched and delete all other pages."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {f"{name}.md": text for name, text in pages().items()}
    for path in folder.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
