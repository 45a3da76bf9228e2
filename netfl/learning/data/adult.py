"""UCI Adult: incomes of a census."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from netfl.learning.data import Data, Dataset
from netfl.learning.data._download import FileContent, read_files
from netfl.streams import Streams
from netfl.types import Ints

_EDUCATION = 3
_CATEGORIES = {
    1: "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked",
    3: "Bachelors Some-college 11th HS-grad Prof-school Assoc-acdm Assoc-voc 9th 7th-8th 12th Masters 1st-4th 10th "
    "Doctorate 5th-6th Preschool",
    5: "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse",
    6: "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners "
    "Machine-op-inspct Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces",
    7: "Wife Own-child Husband Not-in-family Other-relative Unmarried",
    8: "White Asian-Pac-Islander Amer-Indian-Eskimo Other Black",
    9: "Female Male",
    13: "United-States Cambodia England Puerto-Rico Canada Germany Outlying-US(Guam-USVI-etc) India Japan Greece South "
    "China Cuba Iran Honduras Philippines Italy Poland Jamaica Vietnam Mexico Portugal Ireland France "
    "Dominican-Republic Laos Ecuador Taiwan Haiti Columbia Hungary Guatemala Nicaragua Scotland Thailand Yugoslavia "
    "El-Salvador Trinadad&Tobago Peru Hong Holand-Netherlands",
}
"""Values of the categorical fields by column, in the order of the set's own description."""


class Adult(Data):
    """UCI Adult: 32,561 people of a census to train on and 16,281 to test with; label 1 is an income above 50,000 USD.

    Becker and Kohavi, "Adult", UCI Machine Learning Repository, 1996.  The eight categorical fields alone, one-hot in
    99 columns (workclass, education, marital status, occupation, relationship, race, sex, country); an unknown value is
    all zeros.  Its users, for ``partition: natural``, are the two of AFL (Mohri, Sivek and Suresh, ICML 2019) and
    q-FFL: user 0 holds the people with a doctorate, user 1 all others.  Files: ``adult/`` in the cache, from ``netfl
    data fetch adult``.

    Example::

        kind: adult
    """

    classes: ClassVar[int] = 2
    shape: ClassVar[tuple[int, ...]] = (sum(len(values.split()) for values in _CATEGORIES.values()),)

    def load(self, streams: Streams) -> Dataset:
        (train_x, train_y, train_user), (test_x, test_y, test_user) = map(read_census, read_files("adult"))
        return Dataset(train_x, train_y, test_x, test_y, self.classes, train_user, test_user)


def read_census(file: FileContent) -> tuple[NDArray[np.float32], Ints, Ints]:
    """Return examples, labels and users of a file with 15 fields a line; lines without a comma are skipped."""
    rows = [line.split(", ") for line in file.data.decode("ascii").splitlines() if ", " in line]
    columns = [*zip(*rows, strict=True)]
    one_hot = [_one_hot(columns[index], names.split()) for index, names in _CATEGORIES.items()]
    x = np.concatenate(one_hot, axis=1)
    y = np.array([int(income.startswith(">50K")) for income in columns[-1]])
    user = np.array([0 if education == "Doctorate" else 1 for education in columns[_EDUCATION]])
    return x, y, user


def _one_hot(column: Sequence[str], values: Sequence[str]) -> NDArray[np.float32]:
    """Return a column for each of *values*; ``?`` is none of them."""
    number = {value: index for index, value in enumerate(values)}
    number["?"] = len(values)
    rows = np.eye(len(values) + 1, len(values), dtype=np.float32)  # the last, of an unknown value, is 0
    return rows[[number[value] for value in column]]
