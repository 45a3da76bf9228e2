"""Whole classes for each user."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from netfl.errors import Fault
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.streams import Streams
from netfl.types import Law, ScenarioFacts

Labels = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]
"""The labels that one user holds."""
_MAX_SHOWN = 10


class ByClass(Partition):
    """Each user holds the examples of certain labels only; users with the same label share its examples evenly.

    Without ``classes``, users and labels are paired in turn: with as many users as labels, user i holds label i; with
    fewer users, label c goes to user c modulo their number; with more, user i shares in label i modulo the number of
    labels.

    Example::

        kind: by_class
        classes: [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9]]
    """

    classes: tuple[Labels, ...] | None = None
    """The labels of each user, from user 0 on; every label of the data needs a user."""

    @field_validator("classes")
    @classmethod
    def _check_duplicates(cls, classes: tuple[tuple[int, ...], ...] | None) -> tuple[tuple[int, ...], ...] | None:
        for user, labels in enumerate(classes or ()):
            if len(set(labels)) < len(labels):
                raise ValueError(f"user {user} is given a label twice")
        return classes

    def split(
        self, labels: NDArray[np.int64], users: int, ranking: NDArray[np.int64] | None, streams: Streams
    ) -> list[NDArray[np.int64]]:
        """Deal each label's rows out to its users."""
        dealer = RowDealer(users, streams.rng("by_class"))
        count = int(labels.max()) + 1
        for label in range(count):
            dealer.deal(np.flatnonzero(labels == label), self._users_of(label, users, count))
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
        """Yield faults of the list's length, of unknown labels and of labels without a user."""
        if self.classes is None:
            return
        if len(self.classes) != facts.users:
            problem = f"{len(self.classes)} lists of labels for {facts.users} users"
            yield Fault("classes", problem, remedy="give one for each user, or leave it out")
        if facts.classes is None:
            return
        for user, labels in enumerate(self.classes):
            for index, label in enumerate(labels):
                if label >= facts.classes:
                    yield Fault(f"classes.{user}.{index}", f"the data have labels 0 to {facts.classes - 1}", label)
        held = {label for labels in self.classes for label in labels if label < facts.classes}
        if len(held) < facts.classes:
            problem = f"nobody holds {facts.classes - len(held)} of the {facts.classes} labels"
            missing = list(islice((label for label in range(facts.classes) if label not in held), _MAX_SHOWN))
            yield Fault("classes", problem, missing, "give each label to someone")

    def laws(self) -> tuple[Law, ...]:
        """State that only a permutation is drawn."""
        return (Law.none("which labels a user holds is given; which examples, a random permutation"),)

    def _users_of(self, label: int, users: int, count: int) -> list[int]:
        if self.classes is not None:
            return [user for user, labels in enumerate(self.classes) if label in labels]
        cycle = min(users, count)
        return [user for user in range(users) if user % cycle == label % cycle]
