"""Blocks: named groups of users, and the labels that their users give to examples.

The users of a block may give other labels than the data: the same example has one label at a user of the block and
another one elsewhere (concept shift).  `Dataset.held_by` applies this once, to the training examples of a replica.
Whatever reads labels of users afterwards reads theirs: training, validation, counts of labels, apps of other programs.
Test examples belong to all users, so whoever evaluates for a user takes the labels that its `Concepts` give to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

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
    """

    name: str
    users: Ints
    relabel: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Concepts:
    """The labels that users give to examples; a concept is one way to do so.

    Args:
        labels: the label that is given in place of each label of the data, ``[concepts, classes]``; the first concept
            gives those of the data.
        of_user: number of each user's concept, ``[users]``.
    """

    labels: Ints
    of_user: Ints

    @classmethod
    def of(cls, blocks: Iterable[Block], users: int, classes: int) -> Concepts:
        """Return the concepts of so many *users*, of which some are in *blocks*, for labels 0 … *classes* - 1.

        >>> concepts = Concepts.of([Block("dialect", np.array([2]), {3: 5, 5: 3})], users=4, classes=6)
        >>> concepts.labels.tolist(), concepts.of_user.tolist()
        ([[0, 1, 2, 3, 4, 5], [0, 1, 2, 5, 4, 3]], [0, 0, 1, 0])
        """
        known = [tuple(range(classes))]
        of_user = np.zeros(users, np.int64)
        for block in blocks:
            labels = tuple(block.relabel.get(label, label) for label in range(classes))
            if labels not in known:
                known.append(labels)
            of_user[block.users] = known.index(labels)
        return cls(np.array(known, np.int64), of_user)

    def labels_by(self, users: Ints | int, y: Ints) -> Ints:
        """Return the labels that *users*, one or one of each example, give to examples of the labels *y*."""
        return np.asarray(self.labels[self.of_user[users], y], np.int64)


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
