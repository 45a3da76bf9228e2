"""Check of a model of power control from outside netfl: its powers, at each call."""

from __future__ import annotations

import numpy as np

from netfl.core.plugin_answers import PluginMethod
from netfl.network.power_control import PowerControl, SenderLinks
from netfl.types import Floats

_REMEDY = "return the power of each frame above that of the radio in dB, [n]; -inf for a user that sends nothing"


def checked_power_db(model: PowerControl, links: SenderLinks) -> Floats:
    """Return what a model from outside netfl answers.

    Raises:
        ScenarioError: it fails, or does not return a power for each frame; the key is ``power_control``.
    """
    method = PluginMethod(model, "power_db", _REMEDY, "power_control")
    power_db = method.number_of_each(lambda: model.power_db(links), len(links.users), "frames")
    is_unknown = np.isnan(power_db)
    if is_unknown.any():
        place = int(np.flatnonzero(is_unknown)[0])
        raise method.error(f"gives {power_db[place]} for a frame of user {links.users[place]}")
    return power_db
