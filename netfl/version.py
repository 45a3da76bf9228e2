"""Which netfl this is, and which version of its files it writes."""

from __future__ import annotations

from netfl.errors import Fault, ScenarioError

__version__ = "0.1.0"
"""Of the package, by semantic versioning; the only place that says it."""

FORMAT = 1
"""Of all that netfl reads and writes: scenario files, run directories and their tables, folders of sweeps.

It is one higher whenever a file of before would be read as something else, or not at all.  What says none is of 1.
"""

STAMP = {b"netfl.format": str(FORMAT).encode()}
"""How a Parquet table says it, in its metadata."""


def refuse_newer(said: object, where: str) -> None:
    """Refuse what a newer netfl has written, before anything in it is misread.

    Args:
        said: the ``format`` that it says; only a whole number counts.
        where: the file, and the line where that is known.

    Raises:
        ScenarioError: it is newer than `FORMAT`.
    """
    if isinstance(said, int) and said > FORMAT:
        problem = f"newer than {FORMAT}, the newest format that netfl {__version__} reads"
        raise ScenarioError([Fault("format", problem, said, "install a newer netfl", where)])
