"""A selection of scenarios/setups/channel_age_loss.yaml: users by channel, age and loss together."""

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from netfl.access.selection import Selection, Selector
from netfl.types import Law


class WeightedScore(Selection):
    """The m users of the largest (1 - age) log2(1 + SNR) + age · A + loss · F, with the age A and loss F of each."""

    observes: ClassVar = ("check_in", "snr_db", "age", "loss")
    m: Annotated[int, Field(ge=1)]
    """Number of users."""
    age: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Weight of the rounds since the last delivery; 1 minus this is the weight of the channel."""
    loss: Annotated[float, Field(ge=0)] = 0.0
    """Weight of the loss; an unknown one counts as 0."""

    def open(self, population):
        return _WeightedScore(self.m, self.age, self.loss)

    def max_selected(self, users):
        return min(self.m, users)

    def laws(self):
        return (Law.none("draws nothing"),)


class _WeightedScore(Selector):
    def __init__(self, m, age, loss):
        self.m = m
        self.age = age
        self.loss = loss

    def choose(self, moment):
        users = moment.candidates
        capacity = np.log2(1 + 10 ** (moment.snr_db[users] / 10))
        scores = (
            (1 - self.age) * capacity + self.age * moment.age[users] + self.loss * np.nan_to_num(moment.loss[users])
        )
        return np.sort(users[np.argsort(-scores, kind="stable")[: self.m]])
