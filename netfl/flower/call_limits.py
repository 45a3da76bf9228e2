"""Limits of the effects of an app's code: a call ends in time, and the working directory stays as it was."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

GRACE_S = 2.0
"""Seconds that a call may still take after a request to stop."""


class CallTimeoutError(BaseException):
    """A call has taken too long; an app does not catch it by accident."""


@contextmanager
def limited_time(limit_s: float) -> Iterator[None]:
    """Raise an exception in a call inside that does not end.

    It is `CallTimeoutError` after *limit_s* seconds, and `KeyboardInterrupt` `GRACE_S` after SIGINT or SIGTERM, whose
    handlers also run: that of a display only asks for a stop after the round, which such a call would never end.
    Python raises between two of its own instructions, so that one call of a compiled function is not ended.  Systems
    without timers, and threads other than the main one, have no limit.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = False

    former_handlers: dict[int, Any] = {}

    def on_request(number: int, frame: FrameType | None) -> None:
        nonlocal is_asked
        is_asked = True
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        handler = former_handlers[number]
        if callable(handler):
            handler(number, frame)

    def on_timer(number: int, frame: FrameType | None) -> None:
        if is_asked:
            raise KeyboardInterrupt
        raise CallTimeoutError

    try:
        former_handlers[signal.SIGALRM] = signal.signal(signal.SIGALRM, on_timer)
        for request in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(request)):
                former_handlers[request] = signal.signal(request, on_request)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


_MAX_CHANGES = 3
"""Number of changes of the working directory that are noted; the others are like them."""


class KeptFolder:
    """The working directory, to which an app is brought back.

    Attributes:
        changes: changes of it, in words, each once.
    """

    def __init__(self) -> None:
        self._folder = Path.cwd()
        self.changes: list[str] = []

    def restore(self, app: str) -> None:
        """Go back, and note the change by *app* if there was one."""
        try:
            present = str(Path.cwd())
        except FileNotFoundError:
            present = "a folder that was removed"
        if present == str(self._folder):
            return
        os.chdir(self._folder)
        change = f"{app} changed the working directory to {present}; it was changed back"
        if len(self.changes) < _MAX_CHANGES and change not in self.changes:
            self.changes.append(change)
