"""Handwritten digits that are part of the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from netfl.learning.data import Data, Dataset
from netfl.learning.data._splits import split_like_sklearn
from netfl.streams import Streams


class Digits(Data):
    """1797 handwritten digits, 8 x 8 pixels of 17 levels of grey: no download needed.

    The test part of Alpaydin and Kaynak's "Optical Recognition of Handwritten Digits" (UCI Machine Learning Repository,
    1998, https://doi.org/10.24432/C50P49, CC BY 4.0).  Images, order and split equal those of scikit-learn's
    `load_digits` and `train_test_split` with ``seed`` as its random state, whatever the seed of the run.

    Example::

        kind: digits
        test_share: 0.2
    """

    classes: ClassVar[int] = 10
    shape: ClassVar[tuple[int, ...]] = (1, 8, 8)
    scale: Literal["unit", "raw"] = "unit"
    """``unit`` divides the pixels by 16, so that they run from 0 to 1; ``raw`` leaves them as they are."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Seed of the split."""
    test_share: Annotated[float, Field(ge=0.01, le=0.99)] = 0.2
    """The share of the digits that is kept for testing."""

    def load(self, streams: Streams) -> Dataset:
        with files("netfl.learning.data").joinpath("optdigits.npz").open("rb") as file, np.load(file) as stored:
            pixels = stored["pixels"]
            labels = stored["labels"]
        largest = 16 if self.scale == "unit" else 1
        x = pixels.reshape(-1, *self.shape) / largest
        return split_like_sklearn(x, labels, self.test_share, self.seed)
