"""Random early detection: messages are turned away at random before the room is full."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from netfl.network.message import Message
from netfl.network.queue import Buffer, Queue
from netfl.network.queue._buffer import FifoBuffer, Messages, Room
from netfl.streams import Streams
from netfl.types import Law


class Red(Queue):
    """First in, first out, with random early detection (S. Floyd and V. Jacobson, IEEE/ACM ToN 1(4), 1993).

    At each arrival the average of the messages that wait is moved: avg ← (1-w) avg + w q; where the link was idle for a
    time τ, avg ← (1-w)^m avg, m = τ / s, s the time that the last message took on the link (ibid., §4; its s is a
    typical one).  The message that is being sent does not count.  Below min_threshold every message is taken.  Between
    the thresholds p_b = max_p (avg - min) / (max - min), and a message is turned away with probability
    p_a = p_b / (1 - c p_b), c the messages since the last that was turned away like this: at a constant average the
    next one is the n-th with probability p_b, n = 1 … 1/p_b (ibid., §7, method 2), and the share 2 p_b / (1 + p_b) is
    turned away.  From max_threshold on every message is turned away; or, if gentle, with p_b rising from max_p to 1 at
    twice max_threshold (S. Floyd, Recommendation on using the "gentle" variant of RED, 2000).

    Example::

        kind: red
        min_threshold: 5
        max_threshold: 15
        capacity: 60
    """

    min_threshold: Annotated[float, Field(ge=0)] = 5.0
    """Average number of waiting messages from which on some are turned away."""
    max_threshold: Annotated[float, Field(gt=0)] = 15.0
    """Average number of waiting messages from which on all are, or, if gentle, more and more."""
    max_p: Annotated[float, Field(gt=0, le=1)] = 0.02
    """p_b just below ``max_threshold``."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.002
    """w, the weight of the newest sample in the average."""
    gentle: bool = False
    """Whether p_b rises on to 1 between ``max_threshold`` and twice that, instead of jumping there."""
    capacity: Messages | None = None
    """Messages that may wait; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Bytes that may wait; ``null`` is no limit."""

    @model_validator(mode="after")
    def _in_order(self) -> Red:
        """Thresholds in order, and both within reach."""
        if self.min_threshold >= self.max_threshold:
            raise ValueError("min_threshold must be below max_threshold")
        if self.capacity is not None and self.capacity <= self.min_threshold:
            raise ValueError("capacity must be above min_threshold, or the average never comes near it")
        return self

    @property
    def ranks(self) -> bool:
        """It does not."""
        return False

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        """An empty waiting room."""
        return _Watched(self, rate_bps, streams.rng("red"))

    def laws(self) -> tuple[Law, ...]:
        """Which message is the next to be turned away, at an average that stays between the thresholds."""
        average = (self.min_threshold + self.max_threshold) / 2.0
        share = self._share(average)
        last = floor(1.0 / share)
        rest = 1.0 - last * share
        return (
            Law(
                f"messages up to the next that is turned away, at an average of {average:g}",
                "P(n) = p_b for n = 1 … 1/p_b (Floyd and Jacobson 1993, §7)",
                draw=self._gaps,
                mean=share * last * (last + 1) / 2.0 + rest * (last + 1),
                cdf=lambda n: np.minimum(np.floor(n) * share, 1.0),
            ),
        )

    def _share(self, average: float) -> float:
        """p_b at an average."""
        low, high = self.min_threshold, self.max_threshold
        if average < high:
            return max(0.0, self.max_p * (average - low) / (high - low))
        return min(1.0, self.max_p + (1.0 - self.max_p) * (average - high) / high) if self.gentle else 1.0

    def _gaps(self, streams: Streams, size: int) -> NDArray[np.float64]:
        """Gaps between messages that are turned away, at an average half-way between the thresholds."""
        lot = _Lot(self, streams.rng("red"))
        lot.average = (self.min_threshold + self.max_threshold) / 2.0
        gaps: list[int] = []
        taken = 0
        while len(gaps) < size:
            taken += 1
            if lot.refuses():
                gaps.append(taken)
                taken = 0
        return np.array(gaps, float)


class _Lot:
    """The average, and the draws against it."""

    def __init__(self, said: Red, rng: np.random.Generator) -> None:
        self._said, self._rng = said, rng
        self.average, self._taken = 0.0, 0

    def refuses(self) -> bool:
        """Whether the message that comes now is to be turned away."""
        share = self._said._share(self.average)
        if share == 0.0:
            self._taken = 0
            return False
        left = 1.0 - self._taken * share
        refused = left <= share or bool(self._rng.random() * left < share)
        self._taken = 0 if refused else self._taken + 1
        return refused


class _Watched(Buffer):
    """The waiting room at work."""

    def __init__(self, said: Red, rate_bps: float, rng: np.random.Generator) -> None:
        self._weight, self._rate_bps = said.weight, rate_bps
        self._row, self._lot = FifoBuffer(said.capacity, said.capacity_bytes), _Lot(said, rng)
        self._idle_since_s, self._last_bits = 0.0, 0.0

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        """Take *message* in at the end, if chance and room allow."""
        lot = self._lot
        lot.average += self._weight * (len(self._row) - lot.average)
        if lot.refuses() or not self._row.push(message):
            return (message,)
        return ()

    def bypass(self, message: Message, time_s: float) -> bool:
        """The link was idle: the average has fallen, but it may still be high."""
        if self._last_bits:
            services = (time_s - self._idle_since_s) * self._rate_bps / self._last_bits
            self._lot.average *= (1.0 - self._weight) ** services
        if self._lot.refuses():
            return False
        self._last_bits = message.bits
        return True

    def pop(self, time_s: float) -> Message | None:
        """The message that has waited longest."""
        if not self._row.waiting:
            self._idle_since_s = time_s
            return None
        message = self._row.pop()
        self._last_bits = message.bits
        return message

    def __len__(self) -> int:
        return len(self._row)
