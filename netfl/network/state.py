"""State of a simulated network at one instant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from netfl.types import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class NetworkState:
    """State of a network.  Reading it changes no draw.

    Args:
        time_s: simulated time.
        xy_m: positions of the users, ``[users, 2]``.
        distance_m: distance of each user to its present tower, ``[users]``.
        snr_db: present SNR of each user at its tower, fading included and interference excluded, ``[users]``; infinite
            without a radio.
        backlog: frames that each user can send now, or is sending, ``[users]``.
        queues: messages at each output port towards the server, by the name of its link.
        user_up: whether each user is up, ``[users]``.
        node_up: whether each tower, router, server and link is up, by name.
        energy_j: energy that each user has spent, ``[users]``; ``None`` without an energy model.
        battery_j: charge of each user's battery, infinite for users without one, ``[users]``; ``None`` if no user has
            one.
        speed: training samples per second of each user at its full frequency, without jitter, ``[users]``; infinite if
            its training takes no time; ``None`` without rounds.
        update_bits: size on the air of the update that each user begins next, headers and parity included, ``[users]``;
            ``None`` without rounds.
        tower: index of each user's present tower in `netfl.network.layout.Layout.towers`, ``[users]``.
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
    battery_j: Floats | None = None
    speed: Floats | None = None
    update_bits: Floats | None = None
    tower: Ints | None = None
