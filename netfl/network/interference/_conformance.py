"""Check of a model of interference from outside netfl: its probabilities, at each call."""

from __future__ import annotations

import numpy as np

from netfl.core.plugin_answers import PluginMethod
from netfl.network.interference import DisturbedFrames, Interference
from netfl.types import Floats

_REMEDY = "return a probability for each frame, [n]"


def checked_success(model: Interference, frames: DisturbedFrames) -> Floats:
    """Return what a model from outside netfl answers.

    Raises:
        ScenarioError: it fails, or does not return a probability for each frame; the key is ``interference``.
    """
    circumstance = f", for frames that end at {frames.end_s:.6g} s of simulated time,"
    method = PluginMethod(model, "success", _REMEDY, "interference", circumstance)
    values = method.number_of_each(lambda: model.success(frames), len(frames.users), "frames")
    is_probability = (values >= 0.0) & (values <= 1.0)
    if not is_probability.all():
        place = int(np.flatnonzero(~is_probability)[0])
        raise method.error(f"gives {values[place]} for a frame of user {frames.users[place]}")
    return values
