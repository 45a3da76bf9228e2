"""Check of an association from outside netfl: its towers, at each call.

A negative number would silently stand for a tower from the end of the list, and an answer of another shape would be
stretched to all users.
"""

from __future__ import annotations

import numpy as np

from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.registry import is_plugin, kind_of, one_line_of
from netfl.types import Ints

_AT_REMEDY = "return a later time; or infinity, if no answer changes any more"
_REMEDY = "return the index of a tower for each user, [n]"


def open_choice(model: Association, links: TowerLinks) -> TowerChoice:
    """Open an association; what one from outside netfl answers is checked.

    Raises:
        ScenarioError: it is not valid here, or it fails; keys are relative to the association.
    """
    if not is_plugin(model):
        return model.open(links)
    try:
        choice = model.open(links)
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(model, f"open() fails: {one_line_of(error, model)}", "correct it") from error
    if not isinstance(choice, TowerChoice):
        raise _error(model, f"open() gives {type(choice).__name__}", "return a TowerChoice")
    return _CheckedChoice(model, choice, links)


class _CheckedChoice(TowerChoice):
    """The choice of an association from outside netfl, with a check of its answers."""

    def __init__(self, model: Association, choice: TowerChoice, links: TowerLinks) -> None:
        self._model = model
        self._choice = choice
        self._towers = len(links.towers)

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        where = f"choose(), at {time_s:.6g} s of simulated time, "
        try:
            towers = np.asarray(self._choice.choose(users, serving, time_s))
        except Exception as error:  # whatever the user's class does
            if is_explained(error):
                raise
            raise _error(self._model, f"{where}fails: {one_line_of(error, self._model)}", _REMEDY) from error
        if towers.shape != users.shape:
            given = {0: "a single number", 1: f"{towers.size} values"}.get(towers.ndim, f"the shape {[*towers.shape]}")
            raise _error(self._model, f"{where}gives {given} for {len(users)} users", _REMEDY)
        is_tower = (towers >= 0) & (towers < self._towers) & (towers == np.floor(towers))
        if not is_tower.all():
            place = int(np.flatnonzero(~is_tower)[0])
            problem = f"{where}gives {towers[place]} for user {users[place]}, and there are {self._towers} towers"
            raise _error(self._model, problem, _REMEDY)
        return towers.astype(np.int64)

    def next_s(self, time_s: float) -> float:
        where = f"next_s(), at {time_s:.6g} s of simulated time, "
        try:
            next_s = float(self._choice.next_s(time_s))
        except Exception as error:  # whatever the user's class does
            if is_explained(error):
                raise
            raise _error(self._model, f"{where}fails: {one_line_of(error, self._model)}", _AT_REMEDY) from error
        if not next_s > time_s:
            raise _error(self._model, f"{where}gives {next_s:g}", _AT_REMEDY)
        return next_s

    def visitors(self, tower: int) -> Ints | None:
        return self._choice.visitors(tower)


def _error(model: Association, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError([Fault("", f"{kind_of(type(model))}: {problem}", None, remedy)])
