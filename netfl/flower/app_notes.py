"""Notes on a run of an app: what the app did that the network did not carry, or that led to no result."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class AppActivity:
    """Counts of what an app did.

    Args:
        exchanges: rounds of the network.
        exchanges_without_arrays: those in which neither a message nor a delivered reply held an array.
        direct_messages: messages that bypassed the network, by the part of their type before the action.
        direct_bits: size of these messages and of their replies.
        resized: replies of another size than the one that the network carried.
        waiting: messages that had not been answered when the app ended.
        rounds_with_metrics: rounds after which a metric was recorded.
        trainings: number of times that a strategy was asked which nodes train.
        aggregations: number of times that a strategy was asked to aggregate updates.
        aggregated: number of times that it returned a model.
    """

    exchanges: int = 0
    exchanges_without_arrays: int = 0
    direct_messages: dict[str, int] = field(default_factory=dict)
    direct_bits: float = 0.0
    resized: int = 0
    waiting: int = 0
    rounds_with_metrics: set[int] = field(default_factory=set)
    trainings: int = 0
    aggregations: int = 0
    aggregated: int = 0

    def add_exchange(self, *, has_arrays: bool) -> None:
        """Count a round of the network."""
        self.exchanges += 1
        if not has_arrays:
            self.exchanges_without_arrays += 1

    def add_direct(self, category: str, bits: float) -> None:
        """Count a message that bypassed the network, whose size with its reply is *bits*."""
        self.direct_messages[category] = self.direct_messages.get(category, 0) + 1
        self.direct_bits += bits

    def add_aggregation(self, *, is_aggregated: bool) -> None:
        """Count an aggregation, which may have returned no model."""
        self.aggregations += 1
        if is_aggregated:
            self.aggregated += 1

    def notes(self) -> Iterator[str]:
        """Yield a sentence, without its full stop, for each thing that a reader of the results should know."""
        if self.waiting:
            yield f"{_count(self.waiting, 'message')} still waited for a reply when the app ended"
        if self.exchanges_without_arrays:
            yield f"{self.exchanges_without_arrays} of {_count(self.exchanges, 'exchange')} carried no arrays"
        if self.resized:
            replies = _count(self.resized, "reply", "replies")
            yield f"{replies} had another size than the network carried; with replies: all each has its own size"
        rounds_without_metrics = self.exchanges - len(self.rounds_with_metrics - {0})
        if rounds_without_metrics:
            verb = "has" if rounds_without_metrics == 1 else "have"
            yield f"{rounds_without_metrics} of {_count(self.exchanges, 'round')} {verb} no metric"
        trainings = min(self.trainings, self.exchanges)  # the round that is open at the end does not count
        rounds = max(self.aggregations, trainings)  # a workflow may give a round up before the strategy aggregates
        if self.aggregated < rounds:
            yield f"the strategy aggregated in {self.aggregated} of {_count(rounds, 'round')}"
        if self.direct_messages:
            counts = ", ".join(f"{count} {category}" for category, count in self.direct_messages.items())
            size = f"{self.direct_bits / 1e6:.3g} Mbit with their replies"
            yield f"messages that bypassed the network: {counts}, {size}"


def _count(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> _count(1, "round"), _count(6, "round")
    ('1 round', '6 rounds')
    """
    if number == 1:
        return f"{number} {noun}"
    return f"{number} {plural or f'{noun}s'}"
