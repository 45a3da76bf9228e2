"""Small worlds in which an access is asked for draws, to hold it to its laws."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from netfl.streams import Streams
from netfl.types import Setting


class Unheeded:
    """A recorder that keeps nothing."""

    def wants(self, kind: str) -> bool:
        """Nothing is wanted."""
        return False

    def event(  # noqa: PLR0913 - the recorder's contract
        self,
        kind: str,
        time_s: ArrayLike,
        *,
        round: int,
        user: ArrayLike = -1,
        node: str = "",
        value: ArrayLike = np.nan,
        detail: str = "",
    ) -> None:
        """Let it pass."""


def world(users: int, rounds: int, streams: Streams) -> Setting:
    """A world of *users* that nothing records, each with the same mix of ten labels."""
    return Setting(
        users=users,
        rounds=rounds,
        replica=0,
        streams=streams,
        samples=np.ones(users),
        uplink_bits=1.0,
        downlink_bits=1.0,
        recorder=Unheeded(),
        label_mix=np.full((users, 10), 0.1),
    )
