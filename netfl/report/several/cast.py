"""The runs that stand side by side, each with a letter and a name that tells it from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from netfl.errors import Fault, ScenarioError
from netfl.report.view import RunData, read_view
from netfl.results.run_reader import is_sweep, open_run

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ROOM = 28
"""So many characters of a name stand in pictures and heads of columns."""


@dataclass(frozen=True)
class NamedRun:
    """One of the runs.

    Args:
        letter: by which pictures and tables call it.
        name: its scenario's name, with as much of its folder as tells it from others of that name.
        view: the run.
    """

    letter: str
    name: str
    view: RunData

    @property
    def label(self) -> str:
        """Its letter and the beginning of its name."""
        short = self.name if len(self.name) <= _ROOM else f"{self.name[: _ROOM - 1]}…"
        return f"{self.letter} · {short}"


@dataclass(frozen=True)
class RunSet:
    """All runs of a page.

    Args:
        members: those that can be shown.
        refused: what is wrong with each folder that cannot be, in words.
    """

    members: tuple[NamedRun, ...]
    refused: tuple[str, ...] = ()

    @property
    def letters(self) -> list[str]:
        """How the members are called."""
        return [one.letter for one in self.members]

    @property
    def learners(self) -> list[str]:
        """All learners that any of the runs has figures of, each once."""
        return list(dict.fromkeys(name for one in self.members for name in one.view.learners))

    def having(self, metric: str) -> list[NamedRun]:
        """The members that have figures of *metric* over everything."""
        return [one for one in self.members if one.view.has(metric)]


def gather_runs(folders: Sequence[Path]) -> RunSet:
    """The runs in *folders*, in that order.

    Raises:
        ScenarioError: a folder is named twice, or is that of a sweep, there are more than letters, or none of them
            holds a run.
    """
    for folder in filter(is_sweep, folders):
        problem = f"{folder} is the folder of a sweep, which has a page of its own"
        raise ScenarioError([Fault("", problem, None, "name it alone, or name runs in its folder 'tasks'")])
    at = [folder.absolute().resolve() for folder in folders]
    twice = [str(folder) for folder, number in Counter(at).items() if number > 1]
    if twice:
        raise ScenarioError([Fault("", f"{twice[0]} is named twice", None, "name each run once")])
    if len(folders) > len(LETTERS):
        problem = f"{len(folders)} runs are too many for one page"
        raise ScenarioError([Fault("", problem, None, f"name {len(LETTERS)} at most")])
    views, refused = [], []
    for folder in folders:
        try:
            views.append(read_view(open_run(folder)))
        except ScenarioError as error:
            refused.append(error.faults[0].problem)
    if not views:
        problem = f"none of these folders holds a run: {', '.join(map(str, folders))}"
        raise ScenarioError([Fault("", problem, None, "name folders that netfl wrote")])
    names = zip(LETTERS, _names(views), views, strict=False)
    return RunSet(tuple(NamedRun(*one) for one in names), tuple(refused))


def _names(views: Sequence[RunData]) -> list[str]:
    """The scenarios' names; where some are alike, with the end of the folder by which they differ."""
    names = [view.name for view in views]
    often = Counter(names)
    return [
        f"{name} ({tail})" if often[name] > 1 else name
        for name, tail in zip(names, unique_suffixes([view.run.folder.absolute() for view in views]), strict=True)
    ]


def unique_suffixes(folders: Sequence[Path]) -> list[str]:
    """The shortest ends of *folders* that are all different.

    >>> unique_suffixes([Path("/runs/a/first"), Path("/runs/b/first")])
    ['a/first', 'b/first']
    """
    for length in range(1, max(len(folder.parts) for folder in folders)):
        ends = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(ends)) == len(ends):
            return ends
    return [str(folder) for folder in folders]
