"""Check of a channel from outside netfl when it is opened: its gains at time 0, on the links of the run.

A gain of another shape would be stretched to all users silently.  A formula often fails only at some distances, so that
the check needs the positions of the run, not made-up ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.channel import Channel, LinkGain, StaticGain
from netfl.network.layout import Layout
from netfl.streams import Streams
from netfl.types import Floats

_T = TypeVar("_T")


def open_checked(channel: Channel, layout: Layout, streams: Streams) -> LinkGain:
    """Open a channel from outside netfl.

    Raises:
        ScenarioError: it fails, or does not return a finite gain for each user; keys are relative to the channel.
    """
    users = np.arange(layout.users)
    gain = _call(channel, "open", lambda: channel.open(layout, streams), "return a LinkGain")
    if not isinstance(gain, LinkGain):
        given = "None" if gain is None else type(gain).__name__
        raise _error(channel, "open", f"gives {given}", "return a LinkGain")
    if type(gain) is StaticGain:  # it selects users, which would hide gains of too many
        _check_gains(channel, "gain_db", lambda: gain.all_db, layout)
    else:
        _check_gains(channel, "gain_db", lambda: gain.gain_db(users, 0.0), layout)
        _check_gains(channel, "peak_db", lambda: gain.peak_db(users), layout)
    return gain


def _check_gains(channel: Channel, method: str, compute: Callable[[], ArrayLike], layout: Layout) -> None:
    remedy = "return a finite number of dB for each user, [n]"
    values: Floats = _call(channel, method, lambda: np.asarray(compute(), float), remedy)
    if values.shape != (layout.users,):
        given = {0: "a single number", 1: f"{values.size} values"}.get(values.ndim, f"the shape {[*values.shape]}")
        raise _error(channel, method, f"gives {given} for {layout.users} users", remedy)
    broken = np.flatnonzero(~np.isfinite(values))
    if broken.size:
        user = int(broken[0])
        problem = f"gives {values[user]} for user {user}, {layout.distance_m[user]:.4g} m away"
        raise _error(channel, method, problem, remedy)


def _call(channel: Channel, method: str, compute: Callable[[], _T], remedy: str) -> _T:
    """Return what *compute* gives; a failure of the method is a ScenarioError."""
    try:
        return compute()
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(channel, method, f"fails: {one_line_of(error, channel)}", remedy) from error


def _error(channel: Channel, method: str, problem: str, remedy: str) -> ScenarioError:
    return ScenarioError([Fault("", f"{method}() of {kind_of(type(channel))} {problem}", None, remedy)])
