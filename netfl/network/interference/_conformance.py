"""Check of a model of interference from outside netfl: its probabilities, at each call.

A probability of another shape would be stretched to all frames silently, and one that is not a number would lose them.
"""

from __future__ import annotations

import numpy as np

from netfl.core.kinds import kind_of
from netfl.core.plugins import one_line_of
from netfl.errors import Fault, ScenarioError, is_explained
from netfl.network.interference import DisturbedFrames, Interference
from netfl.types import Floats

_REMEDY = "return a probability for each frame, [n]"


def checked_success(model: Interference, frames: DisturbedFrames) -> Floats:
    """Return what a model from outside netfl answers.

    Raises:
        ScenarioError: it fails, or does not return a probability for each frame; the key is ``interference``.
    """
    try:
        values = np.asarray(model.success(frames), float)
    except Exception as error:  # whatever the user's class does
        if is_explained(error):
            raise
        raise _error(model, frames, f"fails: {one_line_of(error, model)}") from error
    if values.shape != (len(frames.users),):
        given = {0: "a single number", 1: f"{values.size} values"}.get(values.ndim, f"the shape {[*values.shape]}")
        raise _error(model, frames, f"gives {given} for {len(frames.users)} frames")
    is_probability = (values >= 0.0) & (values <= 1.0)
    if not is_probability.all():
        place = int(np.flatnonzero(~is_probability)[0])
        raise _error(model, frames, f"gives {values[place]} for a frame of user {frames.users[place]}")
    return values


def _error(model: Interference, frames: DisturbedFrames, problem: str) -> ScenarioError:
    where = f"success() of {kind_of(type(model))}, for frames that end at {frames.end_s:.6g} s of simulated time, "
    return ScenarioError([Fault("interference", where + problem, None, _REMEDY)])
