"""Waits for nodes: all nodes of a grid are there from the start, so a wait for more would never end."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from flwr.server.client_manager import SimpleClientManager

from netfl.errors import Fault, ScenarioError
from netfl.flower.patching import replaced

MAX_POLLS = 10
"""Number of times in a row that an app may ask for the nodes, with pauses, before that is a wait for more."""

MIN_PAUSE_S = 0.5
"""Wall-clock seconds between two questions that make a pause; Flower's own strategies sleep for a second."""


class NodePolls:
    """Counter of an app's questions for the nodes, between which it sends no message.

    Args:
        users: number of users of the scenario.
    """

    def __init__(self, users: int) -> None:
        self._users = users
        self.restart()

    def restart(self) -> None:
        """Start over, as the app sends messages."""
        self._count = 0
        self._asked_at = -MIN_PAUSE_S

    def add(self) -> None:
        """Count a question.

        Raises:
            ScenarioError: the app waits for more nodes.
        """
        now = time.monotonic()
        if now - self._asked_at >= MIN_PAUSE_S:
            self._count += 1
        else:  # no wait
            self._count = 0
        self._asked_at = now
        if self._count >= MAX_POLLS:
            keys = "min_available_nodes, min_train_nodes, min_evaluate_nodes and the fractions"
            raise _too_few_users(f"the app asked {MAX_POLLS} times for more nodes", self._users, keys)


def checked_client_manager(users: int) -> AbstractContextManager[None]:
    """Let Flower's older strategies that wait for more clients than there are *users* raise a `ScenarioError`."""

    def checked(wait_for: Callable[..., bool]) -> Callable[..., bool]:
        def check_and_wait(manager: SimpleClientManager, num_clients: int, *args: Any, **kwargs: Any) -> bool:
            if num_clients > users:
                keys = "min_available_clients, min_fit_clients and min_evaluate_clients"
                raise _too_few_users(f"the strategy waits for {num_clients} clients", users, keys)
            return wait_for(manager, num_clients, *args, **kwargs)

        return check_and_wait

    return replaced(SimpleClientManager, "wait_for", checked)


def _too_few_users(problem: str, users: int, keys: str) -> ScenarioError:
    remedy = f"lower {keys} of the strategy, or increase users"
    return ScenarioError([Fault("users", f"{problem}, and all users of the scenario are there", users, remedy)])
