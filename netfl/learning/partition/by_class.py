"""Whole classes for each user."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import numpy as np

from netfl.core.spec_errors import PerUser
from netfl.errors import Fault
from netfl.learning.data import Labels
from netfl.learning.partition import Partition
from netfl.learning.partition._allocation import RowDealer
from netfl.streams import Streams
from netfl.types import Ints, ScenarioFacts


class ByClass(Partition):
    """Each user holds the examples of certain labels only; users with the same label share its examples evenly.

    Without ``classes``, users and labels are paired in turn: with as many users as labels, user i holds label i; with
    fewer users, label c goes to user c modulo their number; with more, user i shares in label i modulo the number of
    labels.

    Example::

        kind: by_class
        classes: [[0, 1], [2, 3], [4, 5], [6, 7], [8], [9]]
    """

    classes: Annotated[tuple[Labels, ...] | None, PerUser()] = None
    """The labels of each user, from user 0 on; every label of the data needs a user."""

    def split(self, labels: Ints, users: int, ranking: Ints | None, streams: Streams) -> list[Ints]:
        dealer = RowDealer(users, streams.rng("by_class"))
        count = int(labels.max()) + 1
        cycle = min(users, count)  # label and user are paired if they are equal modulo this
        for label in range(count):
            if self.classes is None:
                holders = [user for user in range(users) if user % cycle == label % cycle]
            else:
                holders = [user for user, held in enumerate(self.classes) if label in held]
            dealer.deal(np.flatnonzero(labels == label), holders)
        return dealer.rows()

    def faults(self, facts: ScenarioFacts) -> Iterator[Fault]:
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
                    problem = f"the data have labels 0 to {facts.classes - 1}"
                    yield Fault(f"classes.{user}.{index}", problem, label, "use one of them")
        held = {label for labels in self.classes for label in labels if label < facts.classes}
        missing = facts.classes - len(held)  # not a list, as unreadable data may have any number of classes
        if missing:
            problem = f"no user holds {missing} of the {facts.classes} labels"
            first = islice((label for label in range(facts.classes) if label not in held), 10)
            yield Fault("classes", problem, [*first], "assign each label to a user")
