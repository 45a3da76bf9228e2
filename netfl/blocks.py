"""Rounds in a row as arrays: for accesses that draw many at once, where nobody learns or answers in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.types import Round

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Rounds in a row, ``[rounds]`` each, and their deliveries laid end to end, ``[deliveries]`` each.

    Args:
        index: the rounds' numbers, which rise by one.
        opened_s: as of `netfl.types.Round`, and so are `closed_s`, `oldest`, `uplink_bits` and `downlink_bits`.
        closed_s: when each closed.
        delivered: how many deliveries each has.
        oldest: the oldest version that later deliveries may start from.
        uplink_bits: bits sent up in each.
        downlink_bits: bits sent down in each.
        energy_j: joules spent until each closed; NaN where nobody counts.
        user: as of `netfl.types.Delivery`, and so are the others.
        base: the version that each update started from.
        sent_s: when its first attempt began.
        arrived_s: when it reached the server.
        attempts: how many attempts it took.
    """

    index: Ints
    opened_s: Floats
    closed_s: Floats
    delivered: Ints
    oldest: Ints
    uplink_bits: Floats
    downlink_bits: Floats
    energy_j: Floats
    user: Ints
    base: Ints
    sent_s: Floats
    arrived_s: Floats
    attempts: Ints

    @classmethod
    def of(cls, rounds: Sequence[Round]) -> Block:
        """A block of these *rounds*, one at least."""
        told = [
            (each.user, each.base, each.sent_s, each.arrived_s, each.attempts)
            for one in rounds
            for each in one.deliveries
        ]
        user, base, sent_s, arrived_s, attempts = zip(*told, strict=True) if told else ((),) * 5
        return cls(
            index=_ints([one.index for one in rounds]),
            opened_s=_floats([one.opened_s for one in rounds]),
            closed_s=_floats([one.closed_s for one in rounds]),
            delivered=_ints([len(one.deliveries) for one in rounds]),
            oldest=_ints([one.oldest for one in rounds]),
            uplink_bits=_floats([one.uplink_bits for one in rounds]),
            downlink_bits=_floats([one.downlink_bits for one in rounds]),
            energy_j=_floats([np.nan if one.energy_j is None else one.energy_j for one in rounds]),
            user=_ints(user),
            base=_ints(base),
            sent_s=_floats(sent_s),
            arrived_s=_floats(arrived_s),
            attempts=_ints(attempts),
        )

    @property
    def of_rounds(self) -> tuple[NDArray[Any], ...]:
        """The columns of the table ``rounds``, less the replica."""
        spans = (self.index, self.opened_s, self.closed_s, self.delivered, self.oldest)
        return (*spans, self.uplink_bits, self.downlink_bits, self.energy_j)

    @property
    def of_deliveries(self) -> tuple[NDArray[Any], ...]:
        """The columns of the table ``deliveries``, less the replica."""
        rounds = np.repeat(self.index, self.delivered)
        return rounds, self.user, self.base, self.sent_s, self.arrived_s, self.attempts


def _ints(values: Any) -> Ints:
    """Whole numbers."""
    return np.array(values, np.int64)


def _floats(values: Any) -> Floats:
    """Numbers."""
    return np.array(values, np.float64)
