"""The deliveries of one round in all replicas, which are trained together, and how often a user repeats a base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise

import numpy as np
from torch import Tensor

from netfl.types import Floats, Ints, Round


@dataclass(frozen=True, slots=True)
class Cohort:
    """The deliveries of one round, replica by replica, in the order of their arrival.

    Args:
        replicas: of each delivery, ``[deliveries]``.
        users: of each delivery, ``[deliveries]``.
        bases: the version from which each update started, ``[deliveries]``.
        parts: the slice of each replica that has deliveries.
        repeats: earlier deliveries of the same user from the same base, ``[deliveries]``; ``None`` if there are none.
        received: ``Delivery.received`` of each delivery; ``None`` if all are whole.
        links: fields of ``Delivery.link`` by name, ``[deliveries]`` each; empty unless asked for.
    """

    replicas: Ints
    users: Ints
    bases: Ints
    parts: tuple[slice, ...]
    repeats: Ints | None = None
    received: tuple[tuple[bool, ...] | None, ...] | None = None
    links: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, rounds: Sequence[Round | None], link_values: Collection[str] = ()) -> Cohort:
        """Collect the deliveries of one round of each replica; a replica that has ended has ``None``.

        *link_values* names the fields of ``Delivery.link`` that are collected, too.
        """
        deliveries = [() if round_ is None else round_.deliveries for round_ in rounds]
        rows = [
            (replica, delivery.user, delivery.base)
            for replica, of_replica in enumerate(deliveries)
            for delivery in of_replica
        ]
        replicas, users, bases = np.array(rows, np.int64).reshape(-1, 3).T.copy()  # contiguous, as uploads need it
        ends = accumulate(map(len, deliveries), initial=0)
        parts = tuple(slice(begin, end) for begin, end in pairwise(ends) if begin < end)
        received = tuple(delivery.received for of_replica in deliveries for delivery in of_replica)
        links = {
            name: np.array(
                [getattr(delivery.link, name) for of_replica in deliveries for delivery in of_replica], float
            )
            for name in sorted(link_values)
        }
        if all(parts_of is None for parts_of in received):
            return cls(replicas, users, bases, parts, links=links)
        return cls(replicas, users, bases, parts, received=received, links=links)

    def split_by_replica(self, *columns: Tensor) -> list[tuple[Tensor, ...]]:
        """Cut *columns*, ``[deliveries, …]``, into `parts`; return the rows of all columns for each part."""
        if len(self.parts) == 1:
            return [columns]
        lengths = [part.stop - part.start for part in self.parts]
        return list(zip(*(column.split_with_sizes(lengths) for column in columns), strict=True))

    def select(self, rows: slice) -> Cohort:
        """Return the deliveries in *rows*."""
        repeats = None if self.repeats is None else self.repeats[rows]
        parts = tuple(slice(part.start - rows.start, part.stop - rows.start) for part in self.parts_within(rows))
        received = None if self.received is None else self.received[rows]
        links = {name: values[rows] for name, values in self.links.items()}
        return Cohort(self.replicas[rows], self.users[rows], self.bases[rows], parts, repeats, received, links)

    def parts_within(self, rows: slice) -> Iterator[slice]:
        """Intersect `parts` with *rows*."""
        for part in self.parts:
            common = slice(max(part.start, rows.start), min(part.stop, rows.stop))
            if common.start < common.stop:
                yield common

    def pieces(self, max_users: int) -> Iterator[Cohort]:
        """Cut between replicas into pieces of at most *max_users*; a larger replica is a piece of its own."""
        if len(self.users) <= max_users:
            yield self
            return
        pending: list[slice] = []
        for part in (*self.parts, None):
            if pending and (part is None or part.stop - pending[0].start > max_users):
                yield self.select(slice(pending[0].start, pending[-1].stop))
                pending = []
            pending += [] if part is None else [part]


class RepeatCounter:
    """Deliveries of each (replica, user, base).  A repeated user trains on the next passes over its examples."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int, int]] = Counter()

    def count(self, cohort: Cohort) -> Cohort:
        """Count the deliveries of *cohort*, and return it with its `Cohort.repeats`."""
        repeats = []
        for key in zip(cohort.replicas.tolist(), cohort.users.tolist(), cohort.bases.tolist(), strict=True):
            repeats.append(self._counts[key])
            self._counts[key] += 1
        return replace(cohort, repeats=np.array(repeats, np.int64)) if any(repeats) else cohort

    def forget(self, oldest: int) -> None:
        """Drop the counts of bases older than *oldest*, from which no update will start."""
        for key in [key for key in self._counts if key[2] < oldest]:
            del self._counts[key]

    def state(self) -> list[list[int]]:
        """Return replica, user, base and count of each entry."""
        return [[*key, count] for key, count in self._counts.items()]

    def restore(self, state: Sequence[Sequence[int]]) -> None:
        """Restore a `state`."""
        self._counts = Counter({(replica, user, base): count for replica, user, base, count in state})
