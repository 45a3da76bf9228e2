"""The accuracies that a replay counts along."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from netfl.report.replay import packing
from netfl.report.view import View

MOST_FIGURES = 400_000
"""Accuracies of single users that a page holds, at most."""

UNKNOWN = 255
"""What stands for no figure; all others are half percents."""


@dataclass(frozen=True)
class Scores:
    """The accuracies of the replica shown.

    Args:
        view: the run.
        end_s: when the film ends; later figures do not count.
        most: how many accuracies of single users are kept.
    """

    view: View
    end_s: float
    most: int = MOST_FIGURES

    @cached_property
    def _rows(self) -> pd.DataFrame:
        """All accuracies of the replica."""
        table = self.view.metrics
        shown = (table["replica"] == self.view.first) & (table["metric"] == "accuracy")
        return table[shown & (table["time_s"] <= self.end_s)].astype({"group": str, "learner": str})

    @cached_property
    def whole(self) -> pd.DataFrame:
        """The accuracy over everything: an index of times in seconds, a column for each learner."""
        rows = self._rows[self._rows["group"] == ""]
        table = rows.pivot_table(index="time_s", columns="learner", values="value", aggfunc="last")
        return table.reindex(columns=[*self.view.learners])

    @cached_property
    def _of_users(self) -> pd.DataFrame:
        """The accuracy of each user: an index of times, columns (learner, user), those of learners that have any."""
        rows = self._rows.assign(user=pd.to_numeric(self._rows["group"].str.extract(r"^user:(\d+)$", expand=False)))
        table = rows.dropna(subset="user").pivot_table(
            index="time_s", columns=["learner", "user"], values="value", aggfunc="last"
        )
        known = set(table.columns.get_level_values(0))
        columns = [(name, user) for name in self.view.learners if name in known for user in self.view.one["user"]]
        return table.reindex(columns=pd.MultiIndex.from_tuples(columns, names=["learner", "user"]))

    @property
    def every(self) -> int:
        """One evaluation in so many has the accuracies of single users that are kept."""
        return max(1, -(-self._of_users.size // self.most))

    @property
    def coloured(self) -> list[str]:
        """The learners that users can be coloured by."""
        return [str(name) for name in self._of_users.columns.unique("learner")]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Times and figures: by learner and time, and by time, learner and user."""
        users = self._of_users.iloc[:: self.every]
        halves = np.rint(200.0 * users.to_numpy(float))
        return {
            "score_time": packing.steps(self.whole.index.to_numpy(float), self.end_s),
            "score": self.whole.to_numpy(np.float32).T.ravel(),
            "user_score_time": packing.steps(users.index.to_numpy(float), self.end_s),
            "user_score": np.where(np.isnan(halves), UNKNOWN, halves).astype(np.uint8).ravel(),
        }
