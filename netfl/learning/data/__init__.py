'''The data family: labelled examples for training and testing, as NumPy arrays.

A data set is a class derived from `Data`.  Its fields are the keys of the scenario.  `Data.classes` and `Data.shape`,
class attributes or properties, describe the examples before anything is loaded, and `Data.load` returns a `Dataset`.
Random draws come from named streams, so that a run can be repeated.  A complete data set::

    class Clouds(Data):
        """Two normal clouds in the plane.

        Example::

            kind: my_data:Clouds
            distance: 3
        """

        classes: ClassVar[int] = 2
        shape: ClassVar[tuple[int, ...]] = (2,)
        distance: float = 2.0
        """Distance between the centres."""

        def load(self, streams):
            rng = streams.rng("clouds")
            y = rng.integers(0, 2, 1000)
            x = rng.standard_normal((1000, 2)).astype(np.float32)
            x[:, 0] += self.distance * y
            return Dataset(x[:800], y[:800], x[800:], y[800:], self.classes)

        def laws(self):
            return (Law.none("two normal clouds"),)

Data with users of their own (a writer's letters, a sensor's recordings) also give ``train_user``, which ``partition:
natural`` follows.  If examples are rows of tokens, such as words, ``Data.tokens`` is the number of different tokens.
'''

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from netfl.core.kinds import exported_models
from netfl.core.spec import Spec
from netfl.learning.blocks import Block, Concepts
from netfl.learning.data._augment import Augment
from netfl.streams import Streams
from netfl.types import Ints, Law


def _check_unique(labels: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(labels)) < len(labels):
        raise ValueError("a label is listed twice; list each once")
    return labels


Labels = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1), AfterValidator(_check_unique)]
"""Some labels of the data."""


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled examples.

    Args:
        x: features, ``[examples, *shape]``.
        y: labels, ``[examples]``, int64; or targets of a regression, ``[examples, outputs]``, float32.
        user: the user of each example, ``[examples]``, int64; ``None`` if the data have no users.
        data_x: features in the data, ``[examples, *shape]``, where users see others; ``None`` if these are the same.
        data_y: labels of the data, ``[examples]``, where users give others; ``None`` if these are the same.
    """

    x: NDArray[np.float32]
    y: Ints | NDArray[np.float32]
    user: Ints | None = None
    data_x: NDArray[np.float32] | None = None
    data_y: Ints | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Training, test and validation examples; labels are 0 … classes-1.

    In a regression, examples have targets instead of labels: one or more numbers, ``[examples, outputs]``, float32.

    Tokens, such as the letters of a text, are whole numbers in float32, which is exact up to 2**24.  Users count from
    0, and each of them has training examples.

    Args:
        train_x: features, ``[train, *shape]``; once `held_by` users, as these see them.
        train_y: labels, ``[train]``, int64, or targets, ``[train, outputs]``; once `held_by` users, as these give them.
        test_x: features, ``[test, *shape]``.
        test_y: labels, ``[test]``, int64, or targets, ``[test, outputs]``.
        classes: the number of labels, or of outputs.
        train_user: the user of each training example, ``[train]``, int64; ``None`` if the data have no users.
        test_user: the same for the test examples; a user may have none.
        validation: examples for the choice of hyper-parameters; ``None`` without them.
        augment: random shifts and reflections of training images; ``None`` without them.
        test_sets: further test sets, by name; see `netfl.learning.evaluation_sets`.
        user_names: names of the users in a file; ``None`` if they have none.
        data_x: features of the training examples in the data, ``[train, *shape]``, where users see others; ``None`` if
            these are the same.
        data_y: labels of the training examples in the data, ``[train]``, where users give others; ``None`` if these are
            the same.
        blocks: named groups of the users that hold the examples.
        concepts: how these users see and label examples; ``None`` if all do as the data.
    """

    train_x: NDArray[np.float32]
    train_y: Ints | NDArray[np.float32]
    test_x: NDArray[np.float32]
    test_y: Ints | NDArray[np.float32]
    classes: int
    train_user: Ints | None = None
    test_user: Ints | None = None
    validation: Examples | None = None
    augment: Augment | None = None
    test_sets: Mapping[str, Examples] = field(default_factory=dict)
    user_names: Sequence[str] | None = None
    data_x: NDArray[np.float32] | None = None
    data_y: Ints | None = None
    blocks: tuple[Block, ...] = ()
    concepts: Concepts | None = None

    @property
    def is_regression(self) -> bool:
        """True if examples have targets instead of labels."""
        return self.train_y.ndim == 2

    @property
    def groups(self) -> int:
        """The number of groups of examples by label; all examples of a regression are one group."""
        return 1 if self.is_regression else self.classes

    @property
    def train_groups(self) -> Ints:
        """The label of each training example in the data, ``[train]``; 0 in a regression."""
        return _groups_of(self.train_y if self.data_y is None else self.data_y)

    @property
    def train_labels(self) -> Ints:
        """The label that each training example has at its user, ``[train]``; 0 in a regression."""
        return _groups_of(self.train_y)

    @property
    def test_groups(self) -> Ints:
        """The label of each test example, ``[test]``; 0 in a regression."""
        return _groups_of(self.test_y)

    def held_by(self, split: Sequence[Ints], blocks: Sequence[Block]) -> Dataset:
        """Return these examples as users see and label them who hold the rows of *split*, some of them in *blocks*.

        What `held_by` has returned may be held by others: all is made of the examples in the data.
        """
        if not blocks:
            return self
        if not any(block.relabel or block.quarter_turns for block in blocks):
            return replace(self, blocks=tuple(blocks))
        concepts = Concepts.of(blocks, len(split), self.classes)
        held = replace(self, blocks=tuple(blocks), concepts=concepts)
        if any(block.quarter_turns for block in blocks):
            data_x = self.train_x if self.data_x is None else self.data_x
            train_x = data_x.copy()
            for user, rows in enumerate(split):
                train_x[rows] = concepts.seen_by(user, data_x[rows])
            held = replace(held, train_x=train_x, data_x=data_x)
        if any(block.relabel for block in blocks):
            data_y = self.train_groups
            train_y = data_y.copy()
            for user, rows in enumerate(split):
                train_y[rows] = concepts.labels_by(user, data_y[rows])
            held = replace(held, train_y=train_y, data_y=data_y)
        return held

    def test_for(self, user: int) -> Examples:
        """Return the test examples as *user* sees and labels them."""
        if self.concepts is None:
            return Examples(np.asarray(self.test_x), self.test_y, self.test_user)
        x = self.concepts.seen_by(user, np.asarray(self.test_x))
        return Examples(x, self.concepts.labels_by(user, self.test_groups), self.test_user)


def _groups_of(y: Ints | NDArray[np.float32]) -> Ints:
    if y.ndim == 2:  # targets of a regression
        return np.zeros(len(y), np.int64)
    return np.asarray(y, np.int64)


class _NoTokens:
    """Default of `Data.tokens`: ``None`` of an instance, and nothing of a class, so that a field can replace it."""

    def __get__(self, data: Data | None, owner: type[Data]) -> None:
        if data is None:
            raise AttributeError("tokens")


class Data(Spec):
    """The contract of a data set.

    ``tokens``, a field, a property or a class variable, is the number of tokens, 0 … tokens-1, if examples are rows of
    tokens; by default it is ``None``, for measurements.
    """

    @property
    @abstractmethod
    def classes(self) -> int:
        """The number of labels, known without loading; in a regression, the number of outputs."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one example, known without loading."""

    if TYPE_CHECKING:

        @property
        def tokens(self) -> int | None: ...

    else:
        tokens: ClassVar[int | None] = _NoTokens()

    @property
    def is_regression(self) -> bool:
        """True if examples have targets, which are numbers, instead of labels."""
        return False

    @property
    def memory(self) -> float:
        """Approximate memory in bytes that drawing the examples takes; 0 for examples from files."""
        return 0.0

    @abstractmethod
    def load(self, streams: Streams) -> Dataset:
        """Return the examples; random draws come from *streams*.

        Raises:
            netfl.errors.ScenarioError: a file is missing; the message names it and the way to get it.
            netfl.errors.MachineError: a file cannot be read, or has the wrong content.
        """

    def laws(self) -> tuple[Law, ...]:
        """Return the distributions of what is drawn; by default that nothing is."""
        return (Law.none("a fixed set: nothing is drawn"),)

    @classmethod
    def from_object(cls, value: object) -> Mapping[str, Any] | None:
        """Return examples in memory as data of kind ``arrays``.

        Examples are ``(x, label)``, ``(x, label, user)``, or a `torch.utils.data.Dataset` whose items are such tuples,
        or mappings with the keys ``x``, ``label`` and, optionally, ``user``.  A mapping may hold them under the key
        ``examples``, beside ``test`` (other examples) and other keys of `netfl.learning.data.arrays.Arrays`, such as
        ``test_share``, ``tokens`` and, for a regression, ``targets``.

        Raises:
            ScenarioError: the arrays are not examples; the message names ``x``, ``label`` or ``user``.
        """
        if isinstance(value, Mapping):
            options = dict(value)
        elif hasattr(value, "__getitem__") and not isinstance(value, list | str):  # a tuple, or a data set
            options = {"examples": value}
        else:
            return None
        if "examples" not in options:
            return None
        from netfl.learning.data._in_memory import store_examples  # most scenarios name their data

        return store_examples(options)


__getattr__ = exported_models(__name__)
