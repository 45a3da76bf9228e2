"""Small worlds in which an access is asked for draws, to hold it to its laws."""

from __future__ import annotations

import numpy as np

from netfl.streams import Streams
from netfl.types import Setting, Unrecorded


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
        recorder=Unrecorded(),
        label_mix=np.full((users, 10), 0.1),
    )
