"""Versions of a model by node and number, and the merges that make them, at the server or below it.

Most accesses have one node, the server, whose versions are named by their numbers alone.  Where edges or users merge
models as well, each of them is a node of its own, and rounds state their merges (`netfl.types.Round`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from netfl.core.columns import ColumnHint, Int32
from netfl.types.deliveries import Delivery

SERVER = 0
"""Node of the server."""


class VersionRef(NamedTuple):
    """A version of a model; plain numbers in arrays, tables and checkpoints.

    Args:
        node: node that made it, `SERVER` or another.
        number: its number at this node, 0 for the start.  Node and number together name the model, and key the draws of
            users that start from it.  Numbers order the versions of one node only.
        round: its time in rounds of the server, by which schedules of step sizes and ages go.  The server's own version
            r has time r.
    """

    node: int
    number: int
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """One aggregation of one node, which makes a version; a row of the table ``merges``.

    It has deliveries or models; with neither, its node had nothing to aggregate.

    Args:
        node: the node that merges, 0 for the server.
        number: number of the version that it makes, larger than those before at this node.  The server's is the round.
        round: time of this version in rounds of the server, by which ages and schedules go.
        time_s: when the node merged.
        deliveries: updates that were trained from versions of this node, in the order of their arrival.
        models: versions of any nodes that are merged as they are: node, number and weight of each.
        oldest: oldest version of this node that a merge of a later round may use; ``None`` for its newest.

    Raises:
        ValueError: it has deliveries and models, or a model is not such a triple.
    """

    node: int
    number: int
    round: Annotated[int, ColumnHint(name="version_round")]
    time_s: float
    deliveries: Annotated[
        tuple[Delivery, ...], ColumnHint("delivered", "int32", "number of updates that it aggregates", len)
    ] = ()
    models: Annotated[
        tuple[tuple[int, int, float], ...],
        ColumnHint("models", "int32", "number of models that it merges as they are", len),
    ] = ()
    oldest: Annotated[
        int | None,
        ColumnHint("oldest", "double", "oldest version of the node that a later round may use; NaN: its newest"),
    ] = None

    def __post_init__(self) -> None:
        name = f"merge {self.number} of node {self.node}"
        if self.deliveries and self.models:
            raise ValueError(f"{name} has deliveries and models; make it two merges")
        for model in self.models:
            if len(model) != len(("node", "number", "weight")):
                raise ValueError(f"{name} has a model {model}; give node, number and weight: (1, 4, 1.0)")

    @property
    def version(self) -> VersionRef:
        """The version that it makes."""
        return VersionRef(self.node, self.number, self.round)

    def merged_models(self) -> Iterator[MergedModel]:
        """Yield the models that it merges as they are, in their order."""
        for place, (source, number, weight) in enumerate(self.models):
            yield MergedModel(
                node=self.node,
                number=self.number,
                place=place,
                source=source,
                source_number=number,
                weight=weight,
            )

    @property
    def sources(self) -> Iterator[tuple[int, int]]:
        """Node and number of each version that it needs."""
        yield from ((self.node, delivery.base) for delivery in self.deliveries)
        yield from ((node, number) for node, number, _ in self.models)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedModel:
    """A model that a merge takes as it is; a row of the table ``merged_models``.

    Args:
        node: the node that merges.
        number: number of the version that the merge makes.
        place: place among the models of the merge, from 0.
        source: node of the model.
        source_number: number of the model at its node.
        weight: its weight, over the sum of those of the merge.
    """

    node: int
    number: int
    place: Int32
    source: int
    source_number: int
    weight: float


def waves(merges: Sequence[Merge]) -> Iterator[list[Merge]]:
    """Cut *merges*, in the order of time, where one needs the result of another; the merges of a wave train together.

    A node merges once in a wave, as each of its versions follows from the one before.
    """
    wave: list[Merge] = []
    made: set[tuple[int, int]] = set()
    nodes: set[int] = set()
    for merge in merges:
        if merge.node in nodes or not made.isdisjoint(merge.sources):
            yield wave
            wave = []
            made = set()
            nodes = set()
        wave.append(merge)
        made.add((merge.node, merge.number))
        nodes.add(merge.node)
    if wave:
        yield wave
