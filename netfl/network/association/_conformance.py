"""Check of an association from outside netfl: its towers, at each call.

A negative number would silently stand for a tower from the end of the list, and an answer of another shape would be
stretched to all users.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from netfl.core.kinds import kind_of
from netfl.core.plugins import is_plugin, one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints

_T = TypeVar("_T")
_TOWERS_REMEDY = "return the index of a tower for each user, [n]"
_TIME_REMEDY = "return a later time; or infinity, if no answer changes any more"
_VISITORS_REMEDY = "return numbers of users, each once; or None for all"


def open_choice(model: Association, links: TowerLinks) -> TowerChoice:
    """Open an association; what one from outside netfl answers is checked.

    Raises:
        ScenarioError: it is not valid here, or it fails; keys are relative to the association.
    """
    if not is_plugin(model):
        return model.open(links)
    choice = _call(model, "open() ", lambda: model.open(links), "return a TowerChoice")
    if not isinstance(choice, TowerChoice):
        raise _error(model, f"open() gives {type(choice).__name__}", "return a TowerChoice")
    return _CheckedChoice(model, choice, links)


class _CheckedChoice(TowerChoice):
    """The choice of an association from outside netfl, with a check of its answers."""

    def __init__(self, model: Association, choice: TowerChoice, links: TowerLinks) -> None:
        self._model = model
        self._choice = choice
        self._towers = len(links.towers)
        self._users = links.users

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        where = f"choose(), at {time_s:.6g} s of simulated time, "
        towers: NDArray[Any] = _call(
            self._model, where, lambda: np.asarray(self._choice.choose(users, serving, time_s)), _TOWERS_REMEDY
        )
        if towers.shape != users.shape:
            given = {0: "a single number", 1: f"{towers.size} values"}.get(towers.ndim, f"the shape {[*towers.shape]}")
            raise _error(self._model, f"{where}gives {given} for {len(users)} users", _TOWERS_REMEDY)
        is_tower = (towers >= 0) & (towers < self._towers) & (towers == np.floor(towers))
        if not is_tower.all():
            place = int(np.flatnonzero(~is_tower)[0])
            problem = f"{where}gives {towers[place]} for user {users[place]}, and there are {self._towers} towers"
            raise _error(self._model, problem, _TOWERS_REMEDY)
        return towers.astype(np.int64)

    def next_s(self, time_s: float) -> float:
        where = f"next_s(), at {time_s:.6g} s of simulated time, "
        next_s = _call(self._model, where, lambda: float(self._choice.next_s(time_s)), _TIME_REMEDY)
        if not next_s > time_s:
            raise _error(self._model, f"{where}gives {next_s:g}", _TIME_REMEDY)
        return next_s

    def visitors(self, tower: int) -> Ints | None:
        where = f"visitors(), for tower {tower}, "
        given = _call(self._model, where, lambda: self._choice.visitors(tower), _VISITORS_REMEDY)
        if given is None:
            return None
        users = np.asarray(given)
        known = np.intersect1d(users, np.arange(self._users))
        if users.shape != known.shape:
            raise _error(
                self._model, f"{where}gives other values than users, of whom there are {self._users}", _VISITORS_REMEDY
            )
        return known.astype(np.int64)


def _call(model: Association, where: str, compute: Callable[[], _T], remedy: str) -> _T:
    """Return what *compute* gives; a failure of the method is a ScenarioError."""
    try:
        return compute()
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(model, f"{where}fails: {one_line_of(error, model)}", remedy) from error


def _error(model: Association, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError([Fault("", f"{kind_of(type(model))}: {problem}", None, remedy)])
