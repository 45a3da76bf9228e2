"""User-defined data sets: rows of tokens, and data sets of PyTorch."""

from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch.utils.data import Dataset as TorchDataset

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


class Images(TorchDataset):
    """Random images with labels, as pairs, triples with a user, or mappings."""

    def __init__(self, form="pair", count=60, labels=10):
        self.form, self.count, self.labels = form, count, labels
        self.x = torch.rand((count, 1, 8, 8), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        parts = {"image": self.x[index], "label": index % self.labels, "user": f"w{index % 3}"}
        if self.form == "mapping":
            return parts
        return tuple(parts.values()) if self.form == "triple" else tuple(parts.values())[:2]


def make_images(train=True, **options):
    """Return images for training, or fewer for testing."""
    return Images(count=120 if train else 40, **options)


def fail():
    raise FileNotFoundError("no such images")
