"""State of a simulated network at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class NetworkState:
    """State of a network.  Reading it changes no draw.

    Args:
        time_s: Simulated time.
        xy_m: Positions of the users, ``[users, 2]``.
        distance_m: Distance of each user to its tower, ``[users]``.
        snr_db: Present SNR of each user at its tower, fading included and interference excluded, ``[users]``; infinite
            without a radio.
        backlog: Frames that each user can send now, or is sending, ``[users]``.
        queues: Messages at each output port towards the server, by the name of its link.
        user_up: Whether each user is up, ``[users]``.
        node_up: Whether each tower, router, server and link is up, by name.
        energy_j: Energy that each user has spent, ``[users]``; ``None`` without an energy model.
    """

    time_s: float
    xy_m: Floats
    distance_m: Floats
    snr_db: Floats
    backlog: Ints
    queues: Mapping[str, int]
    user_up: Bools
    node_up: Mapping[str, bool]
    energy_j: Floats | None
