"""The clock's one convenience: to be called back later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import simpy


def call_after(
    env: simpy.Environment, delay_s: float, callback: Callable[[simpy.Event], None], value: Any = None
) -> simpy.Event:
    """An event that fires in *delay_s* with *value*; *callback* is called before anybody else who waits for it."""
    event = env.timeout(delay_s, value)
    if event.callbacks is None:
        raise RuntimeError("a new event has no callbacks")
    event.callbacks.append(callback)
    return event
