"""The data of a scenario for ServerApps and ClientApps, as NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Context

from netfl.errors import Fault, ScenarioError
from netfl.learning.data import Examples
from netfl.simulation.setup import RunSetup


@dataclass(init=False)
class NetworkContext(Context):
    """Flower's context of an app that runs on a `netfl.flower.NetworkGrid`, with the data of the scenario.

    Args:
        setup: the prepared scenario.
        user: the user of a ClientApp; ``None`` for the ServerApp.
        values: the arguments of `flwr.app.Context`.
    """

    def __init__(self, setup: RunSetup, user: int | None, **values: Any) -> None:
        super().__init__(**values)
        self.setup = setup
        self.user = user


def user_data(context: Context) -> Examples:
    """Return the training examples of the user that a ClientApp runs for.

    The scenario's ``data`` and ``partition`` decide which examples these are.

    Args:
        context: the context that the ClientApp receives.

    Returns:
        Features ``x`` as float32, ``[examples, *shape]``, and ``y``: labels as int64, or targets of a regression.

    Raises:
        ScenarioError: the app does not run over netfl, the scenario has no data, or this is the ServerApp.
    """
    setup = _setup_of(context, "user_data")
    user = getattr(context, "user", None)
    if user is None:
        raise ScenarioError([Fault("user_data", "a ServerApp has no examples of a user", None, "use evaluation_data")])
    assert setup.dataset is not None
    rows = setup.splits[0][user]
    return Examples(setup.dataset.train_x[rows], setup.dataset.train_y[rows])


def evaluation_data(context: Context) -> Examples:
    """Return the test examples of the scenario's data, for a ServerApp or a ClientApp.

    For a ClientApp they are as its user sees and labels them, for a ServerApp as in the data.  Arguments, results and
    errors are those of `user_data`.
    """
    dataset = _setup_of(context, "evaluation_data").dataset
    assert dataset is not None
    user = getattr(context, "user", None)
    if user is not None:
        return dataset.test_for(user)
    return Examples(np.asarray(dataset.test_x), dataset.test_y, dataset.test_user)


def _setup_of(context: Context, function: str) -> RunSetup:
    """Return the prepared scenario of *context*, which has data."""
    if not isinstance(context, NetworkContext):
        problem = "this context is not that of an app that runs over netfl"
        raise ScenarioError([Fault(function, problem, None, "start the app with netfl flower run")])
    if context.setup.dataset is None:
        remedy = "add data and partition to the scenario, or load other data in the app"
        raise ScenarioError([Fault(function, "the scenario has no data", None, remedy)])
    return context.setup
