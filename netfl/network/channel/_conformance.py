"""Check of a channel from outside netfl when it is opened: its gains at time 0, on the links of the run.

A formula often fails only at some distances, so that the check needs the positions of the run, not made-up ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from netfl.core.plugin_answers import PluginMethod
from netfl.network.channel import Channel, LinkGain, StaticGain
from netfl.network.layout import Layout
from netfl.streams import Streams


def open_checked(channel: Channel, layout: Layout, streams: Streams) -> LinkGain:
    """Open a channel from outside netfl.

    Raises:
        ScenarioError: it fails, or does not return a finite gain for each user; keys are relative to the channel.
    """
    users = np.arange(layout.users)
    opening = PluginMethod(channel, "open", "return a LinkGain")
    gain: LinkGain = opening.instance(lambda: channel.open(layout, streams), LinkGain)
    if type(gain) is StaticGain:  # it selects users, which would hide gains of too many
        _check_gains(channel, "gain_db", lambda: gain.all_db, layout)
    else:
        _check_gains(channel, "gain_db", lambda: gain.gain_db(users, 0.0), layout)
        _check_gains(channel, "peak_db", lambda: gain.peak_db(users), layout)
    return gain


def _check_gains(channel: Channel, name: str, call: Callable[[], ArrayLike], layout: Layout) -> None:
    method = PluginMethod(channel, name, "return a finite number of dB for each user, [n]")
    values = method.number_of_each(call, layout.users)
    broken = np.flatnonzero(~np.isfinite(values))
    if broken.size:
        user = int(broken[0])
        raise method.error(f"gives {values[user]} for user {user}, {layout.distance_m[user]:.4g} m away")
