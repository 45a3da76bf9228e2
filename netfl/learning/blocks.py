"""Blocks: named groups of users, how their users see examples, and the labels that they give to them.

The users of a block may see the images of the data turned (feature shift), or give other labels than the data (concept
shift): the same example has one label at a user of the block and another one elsewhere.  `Dataset.held_by` applies this
once, to the training examples of a replica.  Whatever reads examples of users afterwards reads theirs: training,
validation, counts of labels, apps of other programs.  Test examples belong to all users, so whoever evaluates for a
user takes them as its `Concepts` give them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from netfl.types import Bools, Ints

OTHERS = "others"
"""Name of the users in no block, where metrics are by block."""


@dataclass(frozen=True, slots=True)
class Block:
    """A named group of users.

    Args:
        name: its name.
        users: their numbers.
        relabel: the labels that they give in place of labels of the data.
        quarter_turns: quarter turns, against the clock, by which they see the images of the data turned: 0 to 3.
    """

    name: str
    users: Ints
    relabel: Mapping[int, int] = field(default_factory=dict)
    quarter_turns: int = 0


@dataclass(frozen=True, slots=True)
class Concepts:
    """The concepts of all users: how each sees examples, and the labels that it gives to them.

    Args:
        labels: the label that is given in place of each label of the data, ``[concepts, classes]``; the first concept
            is that of the data.
        quarter_turns: quarter turns of images, against the clock, ``[concepts]``.
        of_user: number of each user's concept, ``[users]``.
    """

    labels: Ints
    quarter_turns: Ints
    of_user: Ints

    @classmethod
    def of(cls, blocks: Iterable[Block], users: int, classes: int) -> Concepts:
        """Return the concepts of so many *users*, of which some are in *blocks*, for labels 0 … *classes* - 1.

        >>> concepts = Concepts.of([Block("dialect", np.array([2]), {3: 5, 5: 3})], users=4, classes=6)
        >>> concepts.labels.tolist(), concepts.of_user.tolist()
        ([[0, 1, 2, 3, 4, 5], [0, 1, 2, 5, 4, 3]], [0, 0, 1, 0])
        """
        concepts = [(0, *range(classes))]  # quarter turns, and the labels
        of_user = np.zeros(users, np.int64)
        for block in blocks:
            labels = [block.relabel.get(label, label) for label in range(classes)]
            concept = (block.quarter_turns, *labels)
            if concept not in concepts:
                concepts.append(concept)
            of_user[block.users] = concepts.index(concept)
        table = np.array(concepts, np.int64)
        return cls(labels=table[:, 1:], quarter_turns=table[:, 0], of_user=of_user)

    def labels_by(self, users: Ints | int, y: Ints) -> Ints:
        """Return the labels that *users*, one or one of each example, give to examples of the labels *y*."""
        return np.asarray(self.labels[self.of_user[users], y], np.int64)

    def seen_by(self, user: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the examples *x* as *user* sees them, perhaps as a view."""
        concept = self.of_user[user]
        return turned(x, int(self.quarter_turns[concept]))


def turned(images: NDArray[np.float32], quarter_turns: int) -> NDArray[np.float32]:
    """Return *images*, ``[images, channels, height, width]``, after so many quarter turns against the clock.

    >>> turned(np.array([[[[1, 2], [3, 4]]]]), 1).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    if not quarter_turns:
        return images
    return np.rot90(images, quarter_turns, axes=(2, 3))


def members_by_block(blocks: Iterable[Block], users: int) -> dict[str, Bools]:
    """Return which of so many *users* are in each block, ``[users]``; those in none, if any, are `OTHERS`.

    >>> members = members_by_block([Block("remote", np.array([0, 2]))], 3)
    >>> {name: members[name].tolist() for name in members}
    {'remote': [True, False, True], 'others': [False, True, False]}
    >>> members_by_block([], 3)
    {}
    """
    members = {block.name: np.isin(np.arange(users), block.users) for block in blocks}
    if members:
        in_none = ~np.any(list(members.values()), axis=0)
        if in_none.any():
            members[OTHERS] = in_none
    return members
