"""Stops a run."""

from __future__ import annotations

from netfl.types import RunObserver


class StopAfter(RunObserver):
    """Asks a run to stop when so many rounds, or windows, are closed; with 0, at once."""

    def __init__(self, rounds):
        self.stop, self._rounds = rounds == 0, rounds

    def on_round(self, progress):
        self.stop = progress.round >= self._rounds
