"""Environment in which the agent selects the users of each round."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from netfl.errors import Fault, ScenarioError
from netfl.gym.environment import NetworkEnvironment
from netfl.types import Ints, Round

SelectionForm = Literal["mask", "scores", "user"]


class UserSelection(NetworkEnvironment[Any]):
    """The agent decides which users may take part in the next round, in place of the scenario's selection.

    Users that are not selected do not train and do not send.  The network decides which of the others are delivered.

    Args:
        scenario: the scenario; see `netfl.gym.environment.NetworkEnvironment`.
        action: form of an action.  ``mask``: 1 for each user that may take part, ``MultiBinary(users)``.  ``scores``:
            a score from -1 to 1 for each user, ``Box``; the *m* users of the highest scores take part, those of lower
            numbers on a tie.  ``user``: the number of the only user that takes part, ``Discrete(users)``.
        m: number of users that take part with ``scores``.
        options: further arguments of `netfl.gym.environment.NetworkEnvironment`.

    Raises:
        ScenarioError: an argument is wrong, or no selection can be imposed on the scenario's access.
    """

    def __init__(
        self, scenario: Any = "rural_outage", *, action: SelectionForm = "mask", m: int | None = None, **options: Any
    ) -> None:
        super().__init__(scenario, **options)
        faults = [*_action_faults(action, m, self.users)]
        if faults:
            raise ScenarioError(faults)
        self._form = action
        self._m = m
        self.action_space = {
            "mask": spaces.MultiBinary(self.users),
            "scores": spaces.Box(-1.0, 1.0, (self.users,)),
            "user": spaces.Discrete(self.users),
        }[action]

    def _simulate(self, action: Any) -> Round:
        selected = None
        if action is not None:
            selected = self._selected(action)
        result = self.simulation.step(selected)
        assert result is not None  # only a duration, which environments refuse, ends rounds
        return result

    def _selected(self, action: Any) -> Ints:
        """Return the users that may take part.

        Raises:
            ScenarioError: *action* is not in the action space.
        """
        values = np.asarray(action)
        if self._form == "user":
            if values.shape == () and values.dtype.kind in "iu" and 0 <= values < self.users:
                return values.reshape(1)
        elif values.shape == (self.users,) and np.isfinite(values).all():
            if self._form == "scores":
                return np.argsort(-values, kind="stable")[: self._m]
            if np.isin(values, (0, 1)).all():
                return np.flatnonzero(values)
        raise ScenarioError([Fault("action", "not in the action space", action, f"give one of {self.action_space}")])


def _action_faults(action: str, m: int | None, users: int) -> list[Fault]:
    if action not in {"mask", "scores", "user"}:
        return [Fault("action", "no such form of actions", action, "use mask, scores or user")]
    if action != "scores" and m is not None:
        return [Fault("m", f"has no effect with action: {action}", m, "leave it out, or use action: scores")]
    if action == "scores" and m is None:
        return [Fault("m", "missing: the number of users that take part", None, f"give one from 1 to {users}")]
    if action == "scores" and not 1 <= (m or 0) <= users:
        return [Fault("m", "not a number of users that take part", m, f"give one from 1 to {users}")]
    return []
