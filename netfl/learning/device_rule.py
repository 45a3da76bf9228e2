"""Rules of devices: from which model a device trains, and what it keeps of a training.

A `DeviceRule` belongs to a learner.  It is given in Python alone, in `netfl.learning.learner.LearningTask`; scenarios
have no key for it yet.  What it keeps lies in the store of the devices (`netfl.learning.device_store`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from netfl.learning.cohort import Cohort
    from netfl.learning.device_store import DeviceStore
    from netfl.types import Ints

_OF_RULE = "device."
"""Prefix of the names of rows that a rule keeps."""


class DeviceRule:
    """Starts from the version that the device has received, and keeps nothing: the rule of all learners by default.

    Methods see one device in one lane.  A model is ``[size + 1]``: θ with its buffers and, last, t.  No method may
    write into its arguments.
    """

    def start(self, base: Tensor, kept: Mapping[str, Tensor]) -> Tensor:
        """Return the model from which the device trains.

        A proximal term pulls towards it.  The change that the device sends is still that from *base*.

        Args:
            base: the version that the device has received.
            kept: as `keep` has returned it after the last delivered update; empty before the first.
        """
        return base

    def keep(self, start: Tensor, trained: Tensor, kept: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return what the device keeps of a delivered update, vectors by name; a name always has the same length.

        Args:
            start: from which the device has trained.
            trained: its model after training, before a codec.
            kept: as in `start`.
        """
        return {}


class DeviceRules:
    """The rules of the lanes that have one, for all devices.

    Args:
        rules: by lane.
        store: of what they keep.
    """

    def __init__(self, rules: Mapping[int, DeviceRule], store: DeviceStore) -> None:
        self._rules = rules
        self._store = store

    def starts(self, bases: Tensor, cohort: Cohort, lanes: Ints) -> Tensor:
        """Return the models from which the users train, in the shape of *bases*; *bases* itself without a rule.

        Args:
            bases: versions that the users have received, ``[users, members, size + 1]``; not changed.
            cohort: the users.  Several updates of one user start with what it has kept before this round.
            lanes: of each user and member, ``[users, members]``.
        """
        if not self._rules:
            return bases
        starts = bases.clone()
        for row, member, user, lane in self._devices(cohort, lanes):
            starts[row, member] = self._rules[lane].start(bases[row, member], self._kept(lane, user))
        return starts

    def keep(self, starts: Tensor, models: Tensor, cohort: Cohort, lanes: Ints) -> None:
        """Keep what the rules want of *models* after training; the other arguments are those of `starts`.

        Several updates of one user are kept one after the other.
        """
        if not self._rules:
            return
        for row, member, user, lane in self._devices(cohort, lanes):
            kept = self._kept(lane, user)
            for name, values in self._rules[lane].keep(starts[row, member], models[row, member], kept).items():
                rows = self._store.rows(_OF_RULE + name, lane, values)
                place = rows.places.add(user)
                rows.table[place] = values

    def _devices(self, cohort: Cohort, lanes: Ints) -> Iterator[tuple[int, int, int, int]]:
        """Yield row, member, user and lane of each device with a rule."""
        for row, user in enumerate(cohort.users.tolist()):
            for member, lane in enumerate(lanes[row].tolist()):
                if lane in self._rules:
                    yield row, member, user, lane

    def _kept(self, lane: int, user: int) -> dict[str, Tensor]:
        """Return the rows that *user* keeps in *lane*."""
        named = self._store.named(_OF_RULE, lane)
        places = {name: rows.places.of_user(user) for name, rows in named.items()}
        return {name: rows.table[places[name]] for name, rows in named.items() if places[name]}
