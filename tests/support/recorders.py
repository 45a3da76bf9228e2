"""A recorder that keeps all that it is told."""

import numpy as np


class Memory:
    """Keeps every event as (kind, time_s, round, user, node, value, detail), the figures as `told`.

    What users spent is kept as `spendings`.

    Args:
        wanted: the kinds of events that are wanted; without any, all are.
        unknown: what stands for values that are not numbers.
    """

    def __init__(self, *wanted, unknown=np.nan):
        self.rows, self.told, self.spendings, self._wanted, self._unknown = [], {}, {}, wanted, unknown

    def wants(self, kind):
        return not self._wanted or kind in self._wanted

    def final_metrics(self, values):
        self.told = dict(values)

    def energy(self, values):
        self.spendings = dict(values)

    def event(self, kind, time_s, *, round, user=-1, node="", value=np.nan, detail=""):
        for time, who, figure in np.broadcast(time_s, user, value):
            told = self._unknown if np.isnan(figure) else float(figure)
            self.rows.append((kind, float(time), round, int(who), node, told, detail))
