"""Check of an association from outside netfl: its towers, at each call.

A negative number would silently stand for a tower from the end of the list.
"""

from __future__ import annotations

import numpy as np

from netfl.core.plugin_answers import PluginMethod
from netfl.core.plugins import is_plugin
from netfl.network.association import Association, TowerChoice
from netfl.network.radio.tower_links import TowerLinks
from netfl.types import Ints

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
    opening = PluginMethod(model, "open", "return a TowerChoice")
    choice: TowerChoice = opening.instance(lambda: model.open(links), TowerChoice)
    return _CheckedChoice(model, choice, links)


class _CheckedChoice(TowerChoice):
    """The choice of an association from outside netfl, with a check of its answers."""

    def __init__(self, model: Association, choice: TowerChoice, links: TowerLinks) -> None:
        self._model = model
        self._choice = choice
        self._towers = len(links.towers)
        self._users = links.users

    def choose(self, users: Ints, serving: Ints, time_s: float) -> Ints:
        method = self._method("choose", _TOWERS_REMEDY, f"at {time_s:.6g} s of simulated time")
        towers = method.value_of_each(lambda: self._choice.choose(users, serving, time_s), len(users))
        is_tower = (towers >= 0) & (towers < self._towers) & (towers == np.floor(towers))
        if not is_tower.all():
            place = int(np.flatnonzero(~is_tower)[0])
            raise method.error(f"gives {towers[place]} for user {users[place]}, and there are {self._towers} towers")
        return towers.astype(np.int64)

    def next_s(self, time_s: float) -> float:
        method = self._method("next_s", _TIME_REMEDY, f"at {time_s:.6g} s of simulated time")
        next_s = method.answer(lambda: float(self._choice.next_s(time_s)))
        if not next_s > time_s:
            raise method.error(f"gives {next_s:g}")
        return next_s

    def visitors(self, tower: int) -> Ints | None:
        method = self._method("visitors", _VISITORS_REMEDY, f"for tower {tower}")
        given = method.answer(lambda: self._choice.visitors(tower))
        if given is None:
            return None
        users = np.asarray(given)
        known = np.intersect1d(users, np.arange(self._users))
        if users.shape != known.shape:
            raise method.error(f"gives other values than users, of whom there are {self._users}")
        return known.astype(np.int64)

    def _method(self, name: str, remedy: str, circumstance: str) -> PluginMethod:
        return PluginMethod(self._model, name, remedy, circumstance=f", {circumstance},")
