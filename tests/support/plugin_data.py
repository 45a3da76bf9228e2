"""A user-defined data set: rows of tokens."""

from typing import Annotated

import numpy as np
from pydantic import Field

from netfl.learning.data import Data, Dataset
from netfl.types import Law


class Letters(Data):
    """Random rows of letters with random labels."""

    length: Annotated[int, Field(ge=0)] = 6

    @property
    def classes(self):
        return 3

    @property
    def shape(self):
        return (self.length,)

    @property
    def tokens(self):
        return 5

    def load(self, streams):
        rng = np.random.default_rng(0)
        x = rng.integers(self.tokens, size=(120, self.length)).astype(np.float32)
        y = rng.integers(self.classes, size=120)
        return Dataset(x[:90], y[:90], x[90:], y[90:], self.classes)

    def laws(self):
        return (Law.none("fixed"),)
