"""A selection that reports the objective that it maximises."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import Selection, Selector
from netfl.types import Law, Reported


class OldestShare(Selection):
    """Select the m users with the most rounds since their last delivery, which maximises their part of all ages.

    Example::

        kind: oldest_share:OldestShare
        m: 4
    """

    observes: ClassVar = ("age",)
    reports: ClassVar = (Reported("age_share", "ages of the selected users", unit="%", low_is_good=False),)
    m: Annotated[int, Field(ge=1)]
    """Number of users."""

    def open(self, population):
        return _OldestShare(self.m)

    def max_selected(self, users):
        return min(self.m, users)

    def laws(self):
        return (Law.none("draws nothing"),)


class _OldestShare(Selector):
    def __init__(self, m):
        self.m = m

    def choose(self, moment):
        users = np.sort(np.argsort(-moment.age, kind="stable")[: self.m])
        self.share = moment.age[users].sum() / moment.age.sum()
        return users

    def metrics(self):
        return {"age_share": self.share}
