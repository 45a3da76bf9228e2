"""Check of a model of power control from outside netfl: its powers, at each call."""

from __future__ import annotations

import numpy as np

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.power_control import PowerControl, SenderLinks
from netfl.types import Floats

_REMEDY = "return the power of each frame above that of the radio in dB, [n]; -inf for a user that sends nothing"


def checked_power_db(model: PowerControl, links: SenderLinks) -> Floats:
    """Return what a model from outside netfl answers.

    Raises:
        ScenarioError: it fails, or does not return a power for each frame; the key is ``power_control``.
    """
    try:
        power_db = np.asarray(model.power_db(links), float)
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(model, f"fails: {one_line_of(error, model)}") from error
    if power_db.shape != (len(links.users),):
        raise _error(model, f"gives the shape {[*power_db.shape]} for {len(links.users)} frames")
    is_unknown = np.isnan(power_db)
    if is_unknown.any():
        place = int(np.flatnonzero(is_unknown)[0])
        raise _error(model, f"gives {power_db[place]} for a frame of user {links.users[place]}")
    return power_db


def _error(model: PowerControl, problem: str) -> ScenarioError:
    where = f"power_db() of {kind_of(type(model))} "
    return ScenarioError([Fault("power_control", where + problem, None, _REMEDY)])
