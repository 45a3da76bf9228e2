"""Random early detection."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from netfl.network.message import Message
from netfl.network.queue import Buffer, FifoBuffer, Messages, Queue, Room
from netfl.streams import Streams
from netfl.types import Floats, Law


class Red(Queue):
    """First in, first out, with random early detection (S. Floyd and V. Jacobson, IEEE/ACM ToN 1(4), 1993).

    Each arrival updates the average of the waiting messages: avg ← (1-w) avg + w q; after an idle time τ of the link,
    avg ← (1-w)^m avg, m = τ / s, s the time that the last message took on the link (ibid., §4; its s is a typical one).
    The message being sent does not count.  Below min_threshold every message is accepted.  Between the thresholds
    p_b = max_p (avg - min) / (max - min), and a message is dropped with probability p_a = p_b / (1 - c p_b), c the
    messages since the last such drop: at a constant average the next one is the n-th with probability p_b,
    n = 1 … 1/p_b (ibid., §7, method 2), and the share 2 p_b / (1 + p_b) is dropped.  From max_threshold on every
    message is dropped; or, if gentle, with p_b rising from max_p to 1 at twice max_threshold (S. Floyd, Recommendation
    on using the "gentle" variant of RED, 2000).

    Example::

        kind: red
        min_threshold: 5
        max_threshold: 15
        capacity: 60
    """

    min_threshold: Annotated[float, Field(ge=0)] = 5.0
    """Average number of waiting messages from which some are dropped."""
    max_threshold: Annotated[float, Field(gt=0)] = 15.0
    """Average number of waiting messages from which all are dropped, or, if gentle, more and more."""
    max_p: Annotated[float, Field(gt=0, le=1)] = 0.02
    """p_b just below ``max_threshold``."""
    weight: Annotated[float, Field(gt=0, le=1)] = 0.002
    """w, the weight of the newest sample in the average."""
    gentle: bool = False
    """Let p_b rise to 1 between ``max_threshold`` and twice that, instead of jumping there."""
    capacity: Messages | None = None
    """Maximum number of waiting messages; ``null`` is no limit."""
    capacity_bytes: Room | None = None
    """Maximum number of waiting bytes; ``null`` is no limit."""

    @model_validator(mode="after")
    def _check_thresholds(self) -> Red:
        if self.min_threshold >= self.max_threshold:
            raise ValueError("min_threshold is not below max_threshold; decrease it")
        if self.capacity is not None and self.capacity <= self.min_threshold:
            raise ValueError("capacity is not above min_threshold, which the average cannot reach; increase it")
        return self

    def open(self, rate_bps: float, streams: Streams) -> Buffer:
        return _RedBuffer(self, rate_bps, streams.rng("red"))

    def laws(self) -> tuple[Law, ...]:
        average = (self.min_threshold + self.max_threshold) / 2.0
        p_b = self.drop_share(average)
        last = floor(1.0 / p_b)
        remainder = 1.0 - last * p_b  # P(last + 1), where 1/p_b is no whole number
        law = Law(
            f"messages up to the next early drop, at an average of {average:g}",
            "P(n) = p_b for n = 1 … 1/p_b (Floyd and Jacobson 1993, §7)",
            draw=self._draw_gaps,
            mean=p_b * last * (last + 1) / 2.0 + remainder * (last + 1),
            cdf=lambda n: np.minimum(np.floor(n) * p_b, 1.0),
        )
        return (law,)

    def drop_share(self, average: float) -> float:
        """Return p_b at an average."""
        low = self.min_threshold
        high = self.max_threshold
        if average < high:
            return max(0.0, self.max_p * (average - low) / (high - low))
        if self.gentle:  # from max_p to 1 at 2 high
            return min(1.0, self.max_p + (1.0 - self.max_p) * (average - high) / high)
        return 1.0

    def _draw_gaps(self, streams: Streams, size: int) -> Floats:
        buffer = _RedBuffer(self, 1.0, streams.rng("red"))
        buffer.average = (self.min_threshold + self.max_threshold) / 2.0
        gaps = np.ones(size)
        for place in range(size):
            while not buffer.drops_early():
                gaps[place] += 1
        return gaps


class _RedBuffer(FifoBuffer):
    """A buffer that knows the average of its waiting messages, and when its link became idle."""

    def __init__(self, model: Red, rate_bps: float, rng: np.random.Generator) -> None:
        super().__init__(model.capacity, model.capacity_bytes)
        self._model = model
        self._rate_bps = rate_bps
        self._rng = rng
        self.average = 0.0
        self._accepted = 0  # messages since the last early drop, c
        self._idle_since_s = 0.0
        self._last_bits = 0.0

    def drops_early(self) -> bool:
        """Return whether the arriving message is dropped, given the average of the waiting messages."""
        p_b = self._model.drop_share(self.average)
        if p_b == 0.0:
            self._accepted = 0
            return False
        # with probability p_a = p_b / (1 - c p_b), and surely where that is 1 or more
        left = 1.0 - self._accepted * p_b
        if left <= p_b or self._rng.random() * left < p_b:
            self._accepted = 0
            return True
        self._accepted += 1
        return False

    def push(self, message: Message, time_s: float) -> Sequence[Message]:
        self.average += self._model.weight * (len(self.waiting) - self.average)
        if self.drops_early():
            return (message,)
        return super().push(message, time_s)

    def bypass(self, message: Message, time_s: float) -> bool:
        """Reduce the average for the idle time, then return whether *message* is accepted."""
        if self._last_bits:  # the link has sent before: m = τ / s of its last message
            services = (time_s - self._idle_since_s) * self._rate_bps / self._last_bits
            self.average *= (1.0 - self._model.weight) ** services
        if self.drops_early():
            return False
        self._last_bits = message.bits
        return True

    def pop(self, time_s: float) -> Message | None:
        message = super().pop(time_s)
        if message is None:
            self._idle_since_s = time_s
        else:
            self._last_bits = message.bits
        return message
