"""Users that finish their updates although a newer version has come, and updates of a small size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from netfl.network.counterfactual import Exemptions
from netfl.network.radio.update_queue import UpdateQueue
from netfl.network.transport.spec import Segmentation
from netfl.network.users import UserBehaviour, UserPopulation
from netfl.types import Bools, Floats, Users

_AIRTIME_SHARE = 0.01
"""Size of the only frame of an update of users that are exempt from airtimes, over that of all frames of other users.

Frames of next to no airtime would be repeated without end while they collide with a long one.
"""


class PersistentPopulation(UserPopulation):
    """Users of which the exempt ones finish an update before they begin from a newer version.

    Args:
        queue: their transmit queue.
        compute_s: training time of each user, ``[size]``.
        behaviour: the behaviour of users that are not exempt, which abandon an update for a newer version.
    """

    def __init__(self, exemptions: Exemptions, queue: UpdateQueue, compute_s: Floats, behaviour: UserBehaviour) -> None:
        super().__init__(queue, compute_s, replace(behaviour, on_new_version="finish"))
        self._is_exempt = exemptions.among("superseded", queue.ids) | exemptions.among("deadline", queue.ids)

    def dismiss(self, users: Users, now_s: float) -> None:
        super().dismiss(users[~self._goes_on(users)], now_s)

    def _goes_on(self, users: Users) -> Bools:
        return super()._goes_on(users) & self._is_exempt[users]


def cuts_of_users(exemptions: Exemptions, ids: Users, usual: Segmentation) -> Sequence[Segmentation]:
    """Return the frames of an update of each of the users *ids*: one short frame for exempt ones, else *usual*."""
    short_bits = usual.total_bits * _AIRTIME_SHARE
    single = Segmentation(1, short_bits, short_bits)
    return [single if is_exempt else usual for is_exempt in exemptions.among("airtime", ids).tolist()]
