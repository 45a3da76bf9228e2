"""A recorder that keeps everything in memory."""

import numpy as np


class Memory:
    """Keeps events as rows of (kind, time_s, round, user, node, value, detail), and their `traffic`.

    Final metrics are in `final_values`, the energy of users in `spendings`, their numbers of attempts in
    `attempts_by_user`, values of selections and allocations in `reported`.  `attempts` is a list of parts of the table
    of attempts.

    Args:
        wanted: the kinds of events to keep; all if empty.
        unknown: replaces NaN values.
    """

    def __init__(self, *wanted, unknown=np.nan):
        self.rows, self.final_values, self.spendings, self._wanted, self._unknown = [], {}, {}, wanted, unknown
        self.traffic, self.attempts, self.attempts_by_user, self.reported = [], [], {}, []

    def wants(self, kind):
        return not self._wanted or kind in self._wanted

    def final_metrics(self, values):
        self.final_values = dict(values)

    def round_metrics(self, round, values):
        self.reported.append((round, dict(values)))

    def add_rows(self, table, columns):
        if table == "energy":
            self.spendings = dict(columns)
        elif table == "users":
            self.attempts_by_user = dict(columns)
        else:
            self.attempts.append(columns)

    def record(self, event):
        for time, user_id, number in np.broadcast(event.time_s, event.user, event.value):
            entry = self._unknown if np.isnan(number) else float(number)
            self.rows.append((event.kind, float(time), event.round, int(user_id), event.node, entry, event.detail))
            self.traffic.append(event.traffic)
