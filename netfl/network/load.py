"""What the users of one cell have to send: the contract between a cell and the updates or the traffic in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netfl.network.message import Message

Users = NDArray[np.int64]


class Frames:
    """What some users put on the air at one instant, a frame each.

    Args:
        users: who, by their numbers in the cell.
        bits: the size of each frame, or of all.
        told: what the load remembers of them.
    """

    __slots__ = ("bits", "told", "users")

    def __init__(self, users: Users, bits: float | NDArray[np.float64], told: Any) -> None:
        self.users, self.bits, self.told = users, bits, told


class Load(ABC):
    """The frames of one cell's users, who are numbered from 0; of each user one frame is first, and goes next.

    Attributes:
        ids: the users' numbers in the whole network, ``[size]``.
        ready_s: from when on each user has something to send, which may lie ahead; infinity if nothing, ``[size]``.
        on_air: whether each user's first frame is on the air, ``[size]``.
        most_bits: the size of the largest frame; the mean where sizes are drawn from a law without a largest.
        quiet: whether nothing of this ever changes but by a user's own sending.
    """

    ids: Users
    ready_s: NDArray[np.float64]
    on_air: NDArray[np.bool_]
    most_bits: float
    quiet: bool = False

    @abstractmethod
    def bits(self, users: Users) -> float | NDArray[np.float64]:
        """The size of each user's first frame; one number where all are alike."""

    @abstractmethod
    def launch(self, users: Users, now_s: float) -> Frames:
        """The first frames of *users* go on the air."""

    @abstractmethod
    def still(self, frames: Frames) -> Users:
        """The users who are still at the frame that they sent."""

    @abstractmethod
    def end(
        self, frames: Frames, causes: Sequence[str], snr_db: NDArray[np.float64], limit: int | None, now_s: float
    ) -> list[Message]:
        """*frames* leave the air; those without a cause of failure were received, and are given back as messages.

        Args:
            frames: what was launched.
            causes: why each was not received, or an empty word.
            snr_db: what each was heard at, for the record.
            limit: attempts that a frame has; ``None`` for no limit.
            now_s: when.
        """

    @abstractmethod
    def defer(self, users: Users, until_s: NDArray[np.float64]) -> None:
        """*users*, who wait to send, are cut off *until_s*; infinity for good."""

    @abstractmethod
    def refresh(self, now_s: float) -> None:
        """Take note of what has come about by now without anybody looking."""

    @abstractmethod
    def finish(self, now_s: float, on_air: Sequence[Frames]) -> None:
        """The run ends: so does everything that is open, some of it *on_air*."""
