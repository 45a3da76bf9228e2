"""An observer that stops a run."""

from __future__ import annotations

from netfl.types import RunObserver


class StopAfter(RunObserver):
    """Stops a run after a number of rounds or windows; with 0, at once."""

    def __init__(self, rounds):
        self.stop, self._rounds = rounds == 0, rounds

    def on_round(self, progress):
        self.stop = progress.round >= self._rounds
