"""Deliveries of one round in all replicas that are trained together, and how often a user repeats a base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from torch import Tensor

from netfl.types import SERVER, Delivery, Floats, Ints, Merge, Round


@dataclass(frozen=True, slots=True)
class Cohort:
    """The deliveries of one round, replica by replica, in the order of their arrival.

    Where other nodes than the server merge, it holds the deliveries of merges that train together, merge by merge.

    Args:
        replicas: of each delivery, ``[deliveries]``.
        users: of each delivery, ``[deliveries]``.
        bases: number of the version from which each update started, ``[deliveries]``.
        parts: the slice of each merge that has deliveries; of the server, one of each replica.
        repeats: earlier deliveries of the same user from the same base, ``[deliveries]``; ``None`` if there are none.
        received: ``Delivery.received`` of each delivery; ``None`` if all are whole.
        links: fields of ``Delivery.link`` by name, ``[deliveries]`` each; empty unless asked for.
        nodes: node of each base, ``[deliveries]``; ``None`` if all are versions of the server.
        base_rounds: time of each base, see `netfl.types.VersionRef`, ``[deliveries]``; ``None`` if it is the number.
        lost_bases: ``Delivery.lost_bases`` of each delivery; ``None`` if none has any.
        lost_repeats: earlier trainings in vain of the same user from each of these bases; ``None`` if there are none.
    """

    replicas: Ints
    users: Ints
    bases: Ints
    parts: tuple[slice, ...]
    repeats: Ints | None = None
    received: tuple[tuple[bool, ...] | None, ...] | None = None
    links: Mapping[str, Floats] = field(default_factory=dict)
    nodes: Ints | None = None
    base_rounds: Ints | None = None
    lost_bases: tuple[tuple[int, ...], ...] | None = None
    lost_repeats: tuple[tuple[int, ...], ...] | None = None

    @classmethod
    def of(cls, rounds: Sequence[Round | None], link_values: Collection[str] = ()) -> Cohort:
        """Collect the server's deliveries in one round of each replica; a replica that has ended has ``None``.

        *link_values* names the fields of ``Delivery.link`` that are collected, too.
        """
        groups = [(replica, round_.deliveries) for replica, round_ in enumerate(rounds) if round_ is not None]
        return cls._collect(groups, link_values)

    @classmethod
    def of_not_summed(cls, rounds: Sequence[Round | None]) -> Cohort:
        """Collect the updates that sums in the air of one round of each replica left out."""
        rows = []
        for replica, round_ in enumerate(rounds):
            if round_ is not None:
                rows += [(replica, user, base) for user, base in round_.not_summed]
        replicas, users, bases = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        return cls(replicas, users, bases, ())

    @classmethod
    def of_merges(cls, merges: Sequence[tuple[int, Merge]], link_values: Collection[str] = ()) -> Cohort:
        """Collect the deliveries of *merges*, each with the place of its replica; the versions have no times yet."""
        cohort = cls._collect([(replica, merge.deliveries) for replica, merge in merges], link_values)
        counts = [len(merge.deliveries) for _, merge in merges]
        nodes = np.repeat([merge.node for _, merge in merges], counts)
        return replace(cohort, nodes=nodes)

    @classmethod
    def _collect(cls, groups: Sequence[tuple[int, Sequence[Delivery]]], link_values: Collection[str]) -> Cohort:
        """Collect *groups* of deliveries, each with the place of its replica; a group is a part."""
        rows = [(replica, delivery.user, delivery.base) for replica, of_group in groups for delivery in of_group]
        replicas, users, bases = np.array(rows, np.int64).reshape(-1, 3).T.copy()  # contiguous, as uploads need it
        edges = accumulate((len(of_group) for _, of_group in groups), initial=0)
        parts = tuple(slice(begin, end) for begin, end in pairwise(edges) if begin < end)

        deliveries = [delivery for _, of_group in groups for delivery in of_group]
        received = tuple(delivery.received for delivery in deliveries)
        are_whole = all(arrived is None for arrived in received)
        lost_bases = tuple(delivery.lost_bases for delivery in deliveries)
        links = {}
        for name in sorted(link_values):
            links[name] = np.array([getattr(delivery.link, name) for delivery in deliveries], float)
        return cls(
            replicas,
            users,
            bases,
            parts,
            received=None if are_whole else received,
            links=links,
            lost_bases=lost_bases if any(lost_bases) else None,
        )

    @property
    def clocks(self) -> Ints:
        """Time of each base in rounds of the server, by which schedules and ages go, ``[deliveries]``."""
        return self.bases if self.base_rounds is None else self.base_rounds

    def node_of(self, part: slice) -> int:
        """Return the node whose merge has the deliveries of *part*."""
        return SERVER if self.nodes is None else int(self.nodes[part.start])

    def split_into_parts(self, *columns: Tensor) -> list[tuple[Tensor, ...]]:
        """Cut *columns*, ``[deliveries, …]``, into `parts`; return the rows of all columns for each part."""
        if len(self.parts) == 1:
            return [columns]
        lengths = [part.stop - part.start for part in self.parts]
        return list(zip(*(column.split_with_sizes(lengths) for column in columns), strict=True))

    def select(self, rows: slice) -> Cohort:
        """Return the deliveries in *rows*."""

        def select(values: Any) -> Any:
            """Return the rows of a field, which may be ``None``."""
            return None if values is None else values[rows]

        return Cohort(
            replicas=self.replicas[rows],
            users=self.users[rows],
            bases=self.bases[rows],
            parts=tuple(slice(part.start - rows.start, part.stop - rows.start) for part in self.parts_within(rows)),
            repeats=select(self.repeats),
            received=select(self.received),
            links={name: values[rows] for name, values in self.links.items()},
            nodes=select(self.nodes),
            base_rounds=select(self.base_rounds),
            lost_bases=select(self.lost_bases),
            lost_repeats=select(self.lost_repeats),
        )

    def trainings_in_vain(self) -> Iterator[Cohort]:
        """Yield the trainings in vain before the deliveries: the first of each user, then the second, and so on."""
        lost_bases = self.lost_bases or ()
        most_trainings = max(map(len, lost_bases), default=0)
        for number in range(most_trainings):
            rows = np.array([row for row, of_delivery in enumerate(lost_bases) if number < len(of_delivery)])
            bases = np.array([lost_bases[row][number] for row in rows.tolist()], np.int64)
            repeats = None
            if self.lost_repeats is not None:
                repeats = np.array([self.lost_repeats[row][number] for row in rows.tolist()], np.int64)
            yield Cohort(self.replicas[rows], self.users[rows], bases, self._parts_among(rows), repeats)

    def _parts_among(self, rows: Ints) -> tuple[slice, ...]:
        """Return the places of each part among chosen *rows*, in rising order; only of parts with some of them."""
        parts = []
        for part in self.parts:
            begin = int(np.searchsorted(rows, part.start))
            end = int(np.searchsorted(rows, part.stop))
            if begin < end:
                parts.append(slice(begin, end))
        return tuple(parts)

    def parts_within(self, rows: slice) -> Iterator[slice]:
        """Intersect `parts` with *rows*."""
        for part in self.parts:
            common = slice(max(part.start, rows.start), min(part.stop, rows.stop))
            if common.start < common.stop:
                yield common

    def pieces(self, max_users: int) -> Iterator[Cohort]:
        """Cut between parts into pieces of at most *max_users*; a larger part is a piece of its own."""
        if len(self.users) <= max_users:
            yield self
            return
        begin = end = 0  # of the next piece
        for part in self.parts:
            if part.stop - begin > max_users and begin < end:
                yield self.select(slice(begin, end))
                begin = end
            end = part.stop
        if begin < end:
            yield self.select(slice(begin, end))


class RepeatCounter:
    """Deliveries of each (replica, user, base, node).  A repeated user trains on the next passes over its examples."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int, int, int]] = Counter()

    def count(self, cohort: Cohort) -> Cohort:
        """Count the deliveries of *cohort*, and return it with its `Cohort.repeats`."""
        nodes = [SERVER] * len(cohort.users)
        if cohort.nodes is not None:
            nodes = cohort.nodes.tolist()
        repeats = []
        for key in zip(cohort.replicas.tolist(), cohort.users.tolist(), cohort.bases.tolist(), nodes, strict=True):
            repeats.append(self._counts[key])
            self._counts[key] += 1
        if not any(repeats):
            return cohort
        return replace(cohort, repeats=np.array(repeats, np.int64))

    def forget(self, in_use: Collection[int], of_nodes: Collection[tuple[int, int, int]] = ()) -> None:
        """Drop the counts of bases from which no update will start.

        Args:
            in_use: numbers of the versions of the server from which updates may start.
            of_nodes: replica, node and number of each such version of other nodes.
        """
        dropped = []
        for key in self._counts:
            replica, _, base, node = key
            if node == SERVER:
                is_in_use = base in in_use
            else:
                is_in_use = (replica, node, base) in of_nodes
            if not is_in_use:
                dropped.append(key)
        for key in dropped:
            del self._counts[key]

    def state(self) -> list[list[int]]:
        """Return replica, user, base and count of each entry, and the node of the base unless it is the server."""
        rows = []
        for (replica, user, base, node), count in self._counts.items():
            row = [replica, user, base, count]
            if node != SERVER:
                row.append(node)
            rows.append(row)
        return rows

    def restore(self, state: Sequence[Sequence[int]]) -> None:
        """Restore a `state`."""
        self._counts = Counter()
        for replica, user, base, count, *node in state:
            of_node = node[0] if node else SERVER
            self._counts[replica, user, base, of_node] = count
